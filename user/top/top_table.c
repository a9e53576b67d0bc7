// SPDX-License-Identifier: GPL-2.0
#include "top/top_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "pprof/profile.h"
#include "pprof/profile_select.h"
#include "report/call_tree.h"
#include "report/profile_view.h"

/* What the rows of a tab are named by, see struct profile_view; none: functions. */
static const struct top_tab_keys {
	const char *name;
	const char *keys[2];
} top_tabs[TOP_TABS] = {
	[TOP_FUNCTIONS] = {"functions", {NULL}},
	[TOP_SERVICES] = {"services", {"service"}},
	[TOP_PROCESSES] = {"processes", {"pid", "comm"}},
	[TOP_CONTAINERS] = {"containers", {"container"}},
};

/* The name of samples without a label, in a view by labels. */
#define NO_LABEL "-"

const char *top_tab_name(enum top_tab tab)
{
	return tab < TOP_TABS ? top_tabs[tab].name : NULL;
}

static int top_table_add(struct top_table *table, size_t *capacity, const char *name,
			 enum top_relation relation, int64_t self, int64_t total)
{
	struct top_row *row;

	if (array_reserve(&table->rows, capacity, table->count, 1, sizeof(*table->rows)))
		return -ENOMEM;
	row = &table->rows[table->count];
	row->name = strdup(name);
	if (!row->name)
		return -ENOMEM;
	row->relation = relation;
	row->self = self;
	row->total = total;
	table->count++;
	return 0;
}

static int top_table_compare(const void *left, const void *right, void *by_total)
{
	const struct top_row *a = left, *b = right;
	const int64_t first = by_total ? a->total : a->self;
	const int64_t second = by_total ? b->total : b->self;

	if (a->relation != b->relation)
		return a->relation < b->relation ? -1 : 1;
	if (first != second)
		return first > second ? -1 : 1;
	if (a->total != b->total)
		return a->total > b->total ? -1 : 1;
	return strcmp(a->name, b->name);
}

static void top_table_sort(struct top_table *table, bool by_total)
{
	if (table->count)
		qsort_r(table->rows, table->count, sizeof(*table->rows), top_table_compare,
			by_total ? table : NULL);
}

static int top_table_add_functions(struct top_table *table, const struct calltree *tree)
{
	size_t count, capacity = 0;
	struct calltree_function *functions = calltree_functions(tree, 0, &count);
	int err = functions ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !err; i++)
		err = top_table_add(table, &capacity, tree->names[functions[i].name], TOP_ROW,
				    functions[i].flat, functions[i].cum);
	free(functions);
	return err;
}

/* The call tree of the CPU time of a profile. */
static int top_table_tree(const struct profile *profile, struct calltree **tree)
{
	const struct calltree_options options = {.sample_type = PROFILE_CPU};
	struct error error;

	return calltree_new(profile, &options, tree, &error);
}

int top_table_make(struct top_table *table, const struct profile *profile, enum top_tab tab,
		   bool by_total)
{
	const char *const *keys = top_tabs[tab].keys;
	struct profile_view view = {.keys = {keys[0], keys[1]}};
	struct profile_view_matches matches;
	struct profile *named = NULL;
	struct calltree *tree;
	int err = 0;

	*table = (struct top_table){0};
	view.key_count = (keys[0] != NULL) + (keys[1] != NULL);
	if (view.key_count)
		err = profile_view_make(profile, &view, &named, &matches);
	if (!err)
		err = top_table_tree(named ?: profile, &tree);
	if (!err) {
		table->total = tree->total;
		err = top_table_add_functions(table, tree);
		calltree_free(tree);
		top_table_sort(table, by_total);
	}
	profile_free(named);
	return err;
}

/* Callers and callees */

/* The time of the calls between a function and each other name. */
struct top_calls {
	const struct calltree *tree;
	uint32_t name; /* of the function */
	int64_t *callers, *callees; /* by name */
	/* The number of calls of the current stack of the traversal, by name. */
	uint32_t *active_callers, *active_callees;
	uint32_t active; /* occurrences of the function there */
	int64_t self, total;
};

/* Enters a node of the traversal, or leaves it. */
static void top_table_step(struct top_calls *calls, uint32_t number, bool enters)
{
	const struct calltree_node *node = &calls->tree->nodes[number];
	const uint32_t parent = node->parent;
	const uint32_t caller = parent ? calls->tree->nodes[parent].name : 0;
	const int change = enters ? 1 : -1;

	if (node->name == calls->name) {
		if (enters) {
			calls->self = add_saturated(calls->self, node->self);
			if (!calls->active)
				calls->total = add_saturated(calls->total, node->total);
			if (parent && !calls->active_callers[caller])
				calls->callers[caller] =
					add_saturated(calls->callers[caller], node->total);
		}
		calls->active += (uint32_t)change;
		if (parent)
			calls->active_callers[caller] += (uint32_t)change;
	}
	if (parent && caller == calls->name) {
		if (enters && !calls->active_callees[node->name])
			calls->callees[node->name] =
				add_saturated(calls->callees[node->name], node->total);
		calls->active_callees[node->name] += (uint32_t)change;
	}
}

static void top_table_sum_calls(struct top_calls *calls)
{
	const struct calltree_node *nodes = calls->tree->nodes;
	uint32_t at = 0, next;

	while ((next = calltree_next(calls->tree, at, false)) != CALLTREE_NONE) {
		for (; at != nodes[next].parent; at = nodes[at].parent)
			top_table_step(calls, at, false);
		top_table_step(calls, next, true);
		at = next;
	}
}

static int top_table_add_calls(struct top_table *table, const struct top_calls *calls)
{
	const struct calltree *tree = calls->tree;
	size_t capacity = 0;
	int err = 0;

	for (size_t i = 0; i < tree->name_count && !err; i++) {
		if (calls->callers[i])
			err = top_table_add(table, &capacity, tree->names[i], TOP_CALLER,
					    calls->callers[i], calls->callers[i]);
		if (calls->callees[i] && !err)
			err = top_table_add(table, &capacity, tree->names[i], TOP_CALLEE,
					    calls->callees[i], calls->callees[i]);
	}
	if (!err)
		err = top_table_add(table, &capacity, tree->names[calls->name], TOP_FUNCTION,
				    calls->self, calls->total);
	top_table_sort(table, true);
	return err;
}

int top_table_make_calls(struct top_table *table, const struct profile *profile,
			 const char *function)
{
	struct top_calls calls = {0};
	struct calltree *tree;
	uint32_t name = 0;
	int err;

	*table = (struct top_table){0};
	err = top_table_tree(profile, &tree);
	if (err)
		return err;
	table->total = tree->total;
	while (name < tree->name_count && strcmp(tree->names[name], function) != 0)
		name++;
	/* A function that has left the window has no rows. */
	if (name < tree->name_count) {
		calls.tree = tree;
		calls.name = name;
		calls.callers = calloc(tree->name_count, sizeof(*calls.callers));
		calls.callees = calloc(tree->name_count, sizeof(*calls.callees));
		calls.active_callers = calloc(tree->name_count, sizeof(*calls.active_callers));
		calls.active_callees = calloc(tree->name_count, sizeof(*calls.active_callees));
		err = calls.callers && calls.callees && calls.active_callers && calls.active_callees
			      ? 0
			      : -ENOMEM;
		if (!err)
			top_table_sum_calls(&calls);
		if (!err)
			err = top_table_add_calls(table, &calls);
		free(calls.callers);
		free(calls.callees);
		free(calls.active_callers);
		free(calls.active_callees);
	}
	calltree_free(tree);
	return err;
}

void top_table_clear(struct top_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->rows[i].name);
	free(table->rows);
	*table = (struct top_table){0};
}

int top_table_select(const struct profile *profile, enum top_tab tab, const char *row,
		     struct profile **part)
{
	struct profile_selection selection = {.labels = LABELS_ALL};
	struct profile *selected;
	int err;

	if (tab == TOP_PROCESSES)
		selection.pid = strtoll(row, NULL, 10);
	else if (tab == TOP_SERVICES)
		selection.service = row;
	else if (strcmp(row, NO_LABEL) != 0)
		selection.container = row;
	if (!selection.pid && !selection.service && !selection.container)
		return -EINVAL;
	selected = profile_new();
	err = selected ? profile_select(selected, profile, &selection) : -ENOMEM;
	if (err) {
		profile_free(selected);
		return -ENOMEM;
	}
	/* The time is of all samples, also where none was selected. */
	if (!selected->types.count)
		profile_set_recorded_types(selected);
	selected->time_ns = profile->time_ns;
	selected->duration_ns = profile->duration_ns;
	*part = selected;
	return 0;
}
