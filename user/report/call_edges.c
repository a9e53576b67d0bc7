// SPDX-License-Identifier: GPL-2.0
#include "report/call_edges.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/suggest.h"
#include "lib/utf8.h"
#include "report/call_tree.h"

/* Names in a message. */
#define NAMES_MAX 3
#define BASE_NAME_SIZE 128u

/* Copies a name without what is around its last part: "a::b<c>::d(e)" is "d", "p.(*T).M" is "M". */
static void copy_base_name(const char *name, char base[BASE_NAME_SIZE])
{
	const char *begin = name, *end;
	int nested = 0;

	for (end = name; *end; end++) {
		if (*end == '<')
			nested++;
		else if (*end == '>' && nested)
			nested--;
		else if (*end == '(' && end > begin && !nested)
			break;
		else if (!nested && (*end == '.' || *end == ':' || *end == '/'))
			begin = end + 1;
	}
	snprintf(base, BASE_NAME_SIZE, "%.*s", (int)strcspn(begin, "<( "), begin);
}

static bool has_base_name(const char *name, const char *typed)
{
	char base[BASE_NAME_SIZE];

	copy_base_name(name, base);
	return !strcmp(base, typed);
}

/* Whether a name has the typed text, in lower or upper case. */
static bool has_text(const char *name, const char *typed)
{
	return strcasestr(name, typed);
}

struct name_list {
	const struct calltree *tree;
	const bool *is_function; /* by name: it is not only a group */
	char text[256]; /* of a message */
	size_t used, count;
	uint32_t first;
};

/* Lists the functions for which `fits` is true. */
static void list_functions(struct name_list *list, const char *typed,
			   bool (*fits)(const char *name, const char *typed))
{
	list->used = list->count = 0;
	for (uint32_t i = 1; i < list->tree->name_count; i++) {
		const char *name = list->tree->names[i];

		if (!list->is_function[i] || !fits(name, typed))
			continue;
		if (!list->count++)
			list->first = i;
		if (list->count <= NAMES_MAX && list->used < sizeof(list->text))
			list->used += (size_t)snprintf(list->text + list->used,
						       sizeof(list->text) - list->used, "%s'%.*s'",
						       list->count > 1 ? ", " : "", 64, name);
	}
	utf8_sanitize(list->text);
}

static const char *function_word(const void *context, size_t index)
{
	const struct name_list *list = context;

	if (index >= list->tree->name_count)
		return NULL;
	return list->is_function[index] ? list->tree->names[index] : "";
}

static int explain_unknown(struct name_list *list, const char *typed, struct error *error)
{
	const char *near;

	if (list->count > 1)
		return error_set(error, ENOENT, "'%s' is the name of %zu functions: %s%s", typed,
				 list->count, list->text, list->count > NAMES_MAX ? ", ..." : "");
	near = *typed ? suggest_word(typed, function_word, list) : NULL;
	if (near)
		return error_set(error, ENOENT, "no function '%s'; did you mean '%s'?", typed,
				 near);
	if (*typed)
		list_functions(list, typed, has_text);
	if (list->count)
		return error_set(error, ENOENT, "no function '%s'; did you mean %s%s?", typed,
				 list->text, list->count > NAMES_MAX ? ", ..." : "");
	return error_set(error, ENOENT, "no function '%s'", typed);
}

int call_edges_find_function(const struct calltree *tree, const char *typed, uint32_t *name,
			     struct error *error)
{
	bool *is_function = calloc(tree->name_count, sizeof(*is_function));
	struct name_list list = {.tree = tree, .is_function = is_function};
	int err = 0;

	if (!is_function)
		return error_errno(error, ENOMEM, "the report");
	for (uint32_t i = 1; i < tree->node_count; i++) {
		if (tree->nodes[i].kind == FRAME_GROUP || tree->nodes[i].kind == FRAME_TRUNCATED)
			continue;
		is_function[tree->nodes[i].name] = true;
	}
	for (*name = 1; *name < tree->name_count; ++*name) {
		if (is_function[*name] && !strcmp(tree->names[*name], typed))
			break;
	}
	if (*name == tree->name_count) {
		list_functions(&list, typed, has_base_name);
		*name = list.first;
		if (list.count != 1)
			err = explain_unknown(&list, typed, error);
	}
	free(is_function);
	return err;
}

int call_edges_resolve(const struct profile *profile, const struct calltree_options *options,
		       const char *typed, char **function, struct error *error)
{
	struct calltree *tree;
	uint32_t name;
	int err = calltree_new(profile, options, &tree, error);

	if (err)
		return err;
	err = call_edges_find_function(tree, typed, &name, error);
	if (!err) {
		*function = strdup(tree->names[name]);
		if (!*function)
			err = error_errno(error, ENOMEM, "the report");
	}
	calltree_free(tree);
	return err;
}

/* What the frame of a node is in an edge; 0: it is no function. */
static uint32_t edge_name(const struct calltree *tree, uint32_t node)
{
	return tree->nodes[node].kind == FRAME_ROOT ? 0 : tree->nodes[node].name;
}

/* Whether the call of a node by its parent is an edge. Sets *name to the other function. */
static bool is_edge(const struct calltree *tree, uint32_t node, uint32_t function, bool callers,
		    uint32_t *name)
{
	const uint32_t parent = tree->nodes[node].parent;

	if (!node)
		return false;
	*name = edge_name(tree, callers ? parent : node);
	return edge_name(tree, callers ? node : parent) == function;
}

/* As sum_functions(): a call counts once for each stack, `active` has those in the current one. */
static void sum_edges(const struct calltree *tree, uint32_t function, bool callers,
		      struct call_edges *edges, uint32_t *active)
{
	uint32_t at = 0, next, left, name, depth = 0;

	while ((next = calltree_next(tree, at, false)) != CALLTREE_NONE) {
		for (left = at; left != tree->nodes[next].parent; left = tree->nodes[left].parent) {
			if (is_edge(tree, left, function, callers, &name))
				active[name]--;
			depth -= edge_name(tree, left) == function;
		}
		at = next;
		if (is_edge(tree, at, function, callers, &name) && !active[name]++)
			edges->items[name].value =
				add_saturated(edges->items[name].value, tree->nodes[at].total);
		if (edge_name(tree, at) != function)
			continue;
		edges->flat = add_saturated(edges->flat, tree->nodes[at].self);
		if (!depth++)
			edges->cum = add_saturated(edges->cum, tree->nodes[at].total);
	}
}

static int compare_edges(const void *left, const void *right, void *context)
{
	const struct call_edge *a = left, *b = right;
	const struct calltree *tree = context;

	if (magnitude(a->value) != magnitude(b->value))
		return magnitude(a->value) > magnitude(b->value) ? -1 : 1;
	return strcmp(tree->names[a->name], tree->names[b->name]);
}

int call_edges_make(const struct calltree *tree, uint32_t function, bool callers,
		    struct call_edges *edges)
{
	uint32_t *active = calloc(tree->name_count, sizeof(*active));
	size_t kept = 0;

	*edges = (struct call_edges){.items = calloc(tree->name_count, sizeof(*edges->items))};
	if (!active || !edges->items) {
		free(active);
		free(edges->items);
		return -ENOMEM;
	}
	sum_edges(tree, function, callers, edges, active);
	free(active);
	/* What the function does itself is no call. */
	if (!callers)
		edges->items[0].value = edges->flat;
	for (uint32_t i = 0; i < tree->name_count; i++) {
		if (!edges->items[i].value)
			continue;
		edges->items[kept] = edges->items[i];
		edges->items[kept++].name = i;
	}
	qsort_r(edges->items, kept, sizeof(*edges->items), compare_edges, (void *)tree);
	edges->count = kept;
	return 0;
}
