// SPDX-License-Identifier: GPL-2.0
#include "report/text_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/array.h"
#include "lib/utf8.h"
#include "report/call_tree.h"
#include "report/units.h"

#define NANOSECONDS 1000000000
#define VALUE_WIDTH 10
#define RAW_VALUE_WIDTH 20

struct report {
	const struct profile *profile;
	const struct report_options *options;
	const struct calltree *tree;
	const char *type; /* sample type */
	const char *type_unit;
	struct unit unit; /* of the printed values */
	FILE *out;
};

static void print_value(const struct report *report, int64_t value)
{
	char text[UNIT_TEXT_MAX];

	fprintf(report->out, "%*s", report->options->raw_values ? RAW_VALUE_WIDTH : VALUE_WIDTH,
		unit_format(text, value, &report->unit));
}

static void print_percent(const struct report *report, int64_t value)
{
	char text[PERCENT_TEXT_MAX];

	fprintf(report->out, " %6s", percent_format(text, value, report->tree->total));
}

static void print_time(const struct report *report)
{
	time_t seconds = report->profile->time_ns / NANOSECONDS;
	struct tm local;
	char text[64];

	if (!seconds || !localtime_r(&seconds, &local) ||
	    !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %Z", &local))
		return;
	fprintf(report->out, "Time: %s\n", text);
}

static void print_duration(const struct report *report)
{
	int64_t duration = report->profile->duration_ns;
	char text[UNIT_TEXT_MAX], percent[PERCENT_TEXT_MAX];

	if (duration)
		fprintf(report->out, "Duration: %s, ",
			unit_format_best(text, duration, "nanoseconds"));
	fprintf(report->out, "Total samples = ");
	utf8_print(report->out, unit_format_best(text, report->tree->total, report->type_unit));
	if (duration && !strcmp(report->type_unit, "nanoseconds"))
		fprintf(report->out, " (%s)",
			percent_format(percent, report->tree->total, duration));
	fputc('\n', report->out);
}

static void print_head(const struct report *report)
{
	const struct profile *profile = report->profile;

	for (size_t i = 0; i < profile->comments.count; i++) {
		utf8_print(report->out, profile_text(profile, profile->comments.items[i]));
		fputc('\n', report->out);
	}
	fprintf(report->out, "Type: ");
	utf8_print(report->out, report->type);
	fputc('\n', report->out);
	print_time(report);
	print_duration(report);
}

/*
 * One unit for all values, as pprof chooses it: the best one for the smallest value, or, if the
 * total is far above it, for a hundred times the smallest value.
 */
static struct unit choose_unit(const struct report *report, int64_t smallest)
{
	int64_t total = report->tree->total;
	struct unit low, high;

	if (report->options->raw_values)
		return unit_raw();
	low = unit_choose(report->type_unit, smallest);
	high = unit_choose(report->type_unit, total);
	if (low.factor < high.factor && (double)smallest * 100 < (double)total)
		return unit_choose(report->type_unit, (double)smallest * 100);
	return low;
}

static struct unit functions_unit(const struct report *report,
				  const struct calltree_function *functions, size_t count)
{
	int64_t smallest = 0, value;
	size_t i;

	for (i = 0; i < count; i++) {
		value = magnitude(functions[i].flat ? functions[i].flat : functions[i].cum);
		if (!smallest || value < smallest)
			smallest = value;
	}
	return choose_unit(report, smallest ? smallest : report->tree->total);
}

static void print_functions(const struct report *report, const struct calltree_function *functions,
			    size_t count)
{
	const int width = report->options->raw_values ? RAW_VALUE_WIDTH : VALUE_WIDTH;
	int64_t sum = 0;
	size_t i;

	fprintf(report->out, "%*s %6s %6s %*s %6s\n", width, "flat", "flat%", "sum%", width, "cum",
		"cum%");
	for (i = 0; i < count; i++) {
		sum = add_saturated(sum, functions[i].flat);
		print_value(report, functions[i].flat);
		print_percent(report, functions[i].flat);
		print_percent(report, sum);
		fputc(' ', report->out);
		print_value(report, functions[i].cum);
		print_percent(report, functions[i].cum);
		fprintf(report->out, "  ");
		utf8_print(report->out, report->tree->names[functions[i].name]);
		fputc('\n', report->out);
	}
}

static int print_top(struct report *report, struct error *error)
{
	struct calltree_function *functions;
	size_t count, shown;

	functions = calltree_functions(report->tree, &count);
	if (!functions)
		return error_errno(error, ENOMEM, "the report");
	shown = count;
	if (report->options->rows && report->options->rows < count)
		shown = report->options->rows;
	report->unit = functions_unit(report, functions, shown);
	print_head(report);
	if (shown < count)
		fprintf(report->out, "Showing the top %zu of %zu functions\n", shown, count);
	print_functions(report, functions, shown);
	free(functions);
	return 0;
}

static bool is_shown(const struct report *report, uint32_t node)
{
	return node != CALLTREE_NONE &&
	       (double)report->tree->nodes[node].total * 100 >=
		       report->options->min_percent * (double)report->tree->total;
}

/*
 * Nodes are sorted, so that shown nodes come before their hidden siblings. A node without shown
 * siblings has no branch: it is in the line below its parent.
 */
static bool is_branch(const struct report *report, uint32_t node)
{
	const struct calltree_node *nodes = report->tree->nodes;

	if (!node)
		return false;
	return is_shown(report, nodes[nodes[nodes[node].parent].first_child].next_sibling);
}

static bool is_last(const struct report *report, uint32_t node)
{
	return !is_shown(report, report->tree->nodes[node].next_sibling);
}

/* The branches between the root and a node: whether more siblings follow. */
struct branches {
	bool *more;
	size_t count, capacity;
};

static void print_branches(const struct report *report, const struct branches *branches,
			   uint32_t node)
{
	size_t own = is_branch(report, node), i;

	for (i = 0; i + own < branches->count; i++)
		fprintf(report->out, branches->more[i] ? "│  " : "   ");
	if (i < branches->count)
		fprintf(report->out, branches->more[i] ? "├─ " : "└─ ");
}

static void print_node(const struct report *report, const struct branches *branches, uint32_t node)
{
	const struct calltree_node *at = &report->tree->nodes[node];

	print_percent(report, at->total);
	fputc(' ', report->out);
	print_value(report, at->total);
	fputc(' ', report->out);
	print_value(report, at->self);
	fprintf(report->out, "  ");
	print_branches(report, branches, node);
	utf8_print(report->out, report->tree->names[at->name]);
	fputc('\n', report->out);
}

static uint32_t next_shown(const struct report *report, uint32_t node)
{
	uint32_t next = calltree_next(report->tree, node, false);

	while (next != CALLTREE_NONE && !is_shown(report, next))
		next = calltree_next(report->tree, next, true);
	return next;
}

static struct unit tree_unit(const struct report *report)
{
	int64_t smallest = report->tree->total;
	uint32_t node;

	for (node = 0; node != CALLTREE_NONE; node = next_shown(report, node))
		if (report->tree->nodes[node].total < smallest)
			smallest = report->tree->nodes[node].total;
	return choose_unit(report, smallest);
}

static int print_nodes(const struct report *report, struct branches *branches, size_t *rows)
{
	const struct calltree_node *nodes = report->tree->nodes;
	uint32_t node = 0, next, left;

	for (;;) {
		print_node(report, branches, node);
		next = next_shown(report, node);
		if (!--*rows || next == CALLTREE_NONE)
			return next != CALLTREE_NONE;
		for (left = node; left != nodes[next].parent; left = nodes[left].parent)
			branches->count -= is_branch(report, left);
		node = next;
		if (!is_branch(report, node))
			continue;
		if (array_reserve(&branches->more, &branches->capacity, branches->count, 1,
				  sizeof(*branches->more)))
			return -ENOMEM;
		branches->more[branches->count++] = !is_last(report, node);
	}
}

static int print_tree(struct report *report, struct error *error)
{
	const int width = report->options->raw_values ? RAW_VALUE_WIDTH : VALUE_WIDTH;
	size_t rows = report->options->rows ? report->options->rows : SIZE_MAX;
	struct branches branches = {0};
	int err;

	report->unit = tree_unit(report);
	print_head(report);
	fprintf(report->out, " %6s %*s %*s\n", "cum%", width, "cum", width, "flat");
	err = print_nodes(report, &branches, &rows);
	free(branches.more);
	if (err < 0)
		return error_errno(error, -err, "the report");
	if (err)
		fprintf(report->out, "(only the first %zu lines)\n", report->options->rows);
	if (report->options->min_percent > 0)
		fprintf(report->out, "(without calls below %g%% of the total)\n",
			report->options->min_percent);
	return 0;
}

static int write_report(const struct profile *profile, const struct report_options *options,
			const struct calltree_options *tree_options,
			int (*print)(struct report *, struct error *), FILE *out,
			struct error *error)
{
	const struct profile_value_type *type = &profile->types.items[tree_options->sample_type];
	struct report report = {
		.profile = profile,
		.options = options,
		.type = profile_text(profile, type->type),
		.type_unit = profile_text(profile, type->unit),
		.out = out,
	};
	struct calltree *tree;
	int err = calltree_new(profile, tree_options, &tree, error);

	if (err)
		return err;
	report.tree = tree;
	err = print(&report, error);
	calltree_free(tree);
	return err;
}

int report_top(const struct profile *profile, const struct report_options *options, FILE *out,
	       struct error *error)
{
	struct calltree_options tree = {0};
	int err = profile_find_type(profile, options->sample_type, &tree.sample_type, error);

	return err ? err : write_report(profile, options, &tree, print_top, out, error);
}

int report_tree(const struct profile *profile, const struct report_options *options, FILE *out,
		struct error *error)
{
	struct calltree_options tree = {.group = options->group, .only_positive = true};
	int err = profile_find_type(profile, options->sample_type, &tree.sample_type, error);

	return err ? err : write_report(profile, options, &tree, print_tree, out, error);
}
