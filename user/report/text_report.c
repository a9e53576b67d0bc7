// SPDX-License-Identifier: GPL-2.0
#include "report/text_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/array.h"
#include "lib/utf8.h"
#include "pprof/blocks.h"
#include "report/call_edges.h"
#include "report/call_tree.h"
#include "report/irqs_off.h"
#include "report/profile_diff.h"
#include "report/profile_notes.h"
#include "report/short_name.h"
#include "report/units.h"

#define NANOSECONDS 1000000000
#define VALUE_WIDTH 10
#define RAW_VALUE_WIDTH 20
#define PERCENT_WIDTH 7
#define BRANCH_WIDTH 3
#define NAME_COLUMNS_MIN 16 /* also if the line is too long then */
#define IRQS_OFF_MARK " [irqs off]" /* see irqs_off.h */
#define ELLIPSIS "\xe2\x80\xa6"

/* As in perf: percentages that matter, and those that do not. */
#define PERCENT_HIGH 5
#define PERCENT_MIDDLE 0.5
#define COLOR_HIGH "\033[31m"
#define COLOR_MIDDLE "\033[32m"
#define COLOR_END "\033[m"

struct report {
	const struct profile *profile;
	const struct report_options *options;
	const struct calltree_options *tree_options;
	const struct calltree *tree;
	const char *type; /* sample type */
	const char *type_unit;
	struct unit unit; /* of the printed values */
	bool *enable_irqs; /* by name: of a leaf that enables interrupts */
	bool *has_mark; /* set by a line with IRQS_OFF_MARK */
	FILE *out;
};

static void text_report_print_value(const struct report *report, int64_t value)
{
	const int width = report->options->raw_values ? RAW_VALUE_WIDTH : VALUE_WIDTH;
	char text[UNIT_TEXT_MAX + 1] = "+";

	unit_format(text + 1, value, &report->unit);
	/* An increase has a sign, except for programs. */
	if (report->options->base && !report->options->raw_values && value > 0 &&
	    strcmp(text, "+0"))
		fprintf(report->out, "%*s", width, text);
	else
		fprintf(report->out, "%*s", width, text + 1);
}

/* Percentages of a difference refer to the base, as in pprof. */
static int64_t whole_of(const struct report *report)
{
	const int64_t whole =
		report->options->base ? report->options->base_whole : report->options->whole;

	if (whole)
		return whole;
	return report->tree->base_total ? report->tree->base_total : report->tree->total;
}

static void print_percent(const struct report *report, int64_t value)
{
	const int64_t total = whole_of(report);
	const double percent = total ? 100 * (double)magnitude(value) / (double)total : 0;
	const char *color = "";
	char text[PERCENT_TEXT_MAX];

	if (report->options->colors && percent >= PERCENT_MIDDLE)
		color = percent >= PERCENT_HIGH ? COLOR_HIGH : COLOR_MIDDLE;
	fprintf(report->out, " %s%6s%s", color, percent_format(text, value, total),
		*color ? COLOR_END : "");
}

static void print_time(const struct report *report)
{
	time_t seconds = report->profile->time_ns / NANOSECONDS;
	struct tm local;
	char text[64];

	if (!seconds || !localtime_r(&seconds, &local) ||
	    !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %Z", &local))
		return;
	fprintf(report->out, ", %s", text);
}

static void print_duration(const struct report *report)
{
	int64_t duration = report->profile->duration_ns;
	int64_t total = report->tree->unscaled_total;
	char text[UNIT_TEXT_MAX], percent[PERCENT_TEXT_MAX];

	if (!duration)
		return;
	fprintf(report->out, " in %s", unit_format_best(text, duration, "nanoseconds"));
	if (!strcmp(report->type_unit, "nanoseconds"))
		fprintf(report->out, " (%s)", percent_format(percent, total, duration));
}

static void print_base(const struct report *report)
{
	const struct calltree *tree = report->tree;
	char text[UNIT_TEXT_MAX];

	if (!report->options->base)
		return;
	fprintf(report->out, ", compared with ");
	utf8_print(report->out, unit_format_best(text, tree->base_total, report->type_unit));
	if (!report->options->absolute)
		fprintf(report->out, ", scaled by %.3g",
			report->options->whole && report->options->base_whole
				? (double)report->options->base_whole /
					  (double)report->options->whole
				: (double)tree->base_total / (double)tree->unscaled_total);
}

/* One line: "cpu 9.5s in 10s (95.00%), 2026-11-21 10:00:00 UTC, 30 of 1529 functions". */
static void text_report_print_head(const struct report *report, size_t shown, size_t count)
{
	char text[UNIT_TEXT_MAX];

	utf8_print(report->out, report->type);
	fputc(' ', report->out);
	utf8_print(report->out,
		   unit_format_best(text, report->tree->unscaled_total, report->type_unit));
	print_duration(report);
	print_base(report);
	print_time(report);
	if (shown < count)
		fprintf(report->out, ", %zu of %zu functions", shown, count);
	fputc('\n', report->out);
}

/* Whether a node is a leaf of the kernel that enables interrupts. */
static bool enables_irqs(const struct calltree *tree, uint32_t node)
{
	return tree->nodes[node].kind == FRAME_KERNEL &&
	       (tree->nodes[node].self || tree->nodes[node].base_self) &&
	       irqs_off_ends_in(tree->names[tree->nodes[node].name]);
}

/* Finds the names of all leaves that enable interrupts. Returns 0 or -ENOMEM. */
static int find_irqs_off(struct report *report)
{
	const struct calltree *tree = report->tree;

	report->enable_irqs = calloc(tree->name_count, sizeof(*report->enable_irqs));
	if (!report->enable_irqs)
		return -ENOMEM;
	for (uint32_t node = 0; node < tree->node_count; node++)
		report->enable_irqs[tree->nodes[node].name] |= enables_irqs(tree, node);
	return 0;
}

/*
 * The name in what is left of the line behind `used` columns, with a mark if it is of a leaf that
 * enables interrupts.
 */
static int print_name(const struct report *report, const char *name, size_t used, bool irqs_off)
{
	const struct report_options *options = report->options;
	const char *mark = irqs_off && !options->raw_values ? IRQS_OFF_MARK : "";
	const size_t before = used + strlen(mark);
	const size_t room = options->columns > before + NAME_COLUMNS_MIN ? options->columns - before
									 : NAME_COLUMNS_MIN;
	char *text = options->columns ? short_name(name, room) : strdup(name), *ellipsis;

	if (!text)
		return -ENOMEM;
	while (options->ascii && options->columns && (ellipsis = strstr(text, ELLIPSIS))) {
		*ellipsis = '~';
		memmove(ellipsis + 1, ellipsis + strlen(ELLIPSIS),
			strlen(ellipsis + strlen(ELLIPSIS)) + 1);
	}
	utf8_print(report->out, text);
	fprintf(report->out, "%s\n", mark);
	*report->has_mark |= *mark != '\0';
	free(text);
	return 0;
}

/*
 * One unit for all values, as pprof chooses it: the best one for the smallest value, or, if the
 * total is far above it, for a hundred times the smallest value.
 */
static struct unit choose_unit(const struct report *report, int64_t smallest)
{
	int64_t total = add_saturated(report->tree->total, report->tree->base_total);
	struct unit low, high;

	if (report->options->raw_values)
		return unit_raw();
	low = unit_choose(report->type_unit, smallest);
	high = unit_choose(report->type_unit, total);
	if (low.factor < high.factor && (double)smallest * 100 < (double)total)
		return unit_choose(report->type_unit, (double)smallest * 100);
	return low;
}

/* The printed values: the profile's, or their differences from the base. */
static int64_t flat_value(const struct calltree_function *function)
{
	return subtract_saturated(function->flat, function->base_flat);
}

static int64_t cum_value(const struct calltree_function *function)
{
	return subtract_saturated(function->cum, function->base_cum);
}

static struct unit functions_unit(const struct report *report,
				  const struct calltree_function *functions, size_t count)
{
	int64_t smallest = 0, value;
	size_t i;

	for (i = 0; i < count; i++) {
		value = magnitude(flat_value(&functions[i]));
		if (!value)
			value = magnitude(cum_value(&functions[i]));
		if (value && (!smallest || value < smallest))
			smallest = value;
	}
	return choose_unit(report, smallest ? smallest : report->tree->total);
}

static int print_functions(const struct report *report, const struct calltree_function *functions,
			   size_t count)
{
	const int width = report->options->raw_values ? RAW_VALUE_WIDTH : VALUE_WIDTH;
	int64_t sum = 0;
	size_t i;
	int err = 0;

	fprintf(report->out, "%*s %6s %6s %*s %6s\n", width, "flat", "flat%", "sum%", width, "cum",
		"cum%");
	for (i = 0; i < count && !err; i++) {
		sum = add_saturated(sum, flat_value(&functions[i]));
		text_report_print_value(report, flat_value(&functions[i]));
		print_percent(report, flat_value(&functions[i]));
		print_percent(report, sum);
		fputc(' ', report->out);
		text_report_print_value(report, cum_value(&functions[i]));
		print_percent(report, cum_value(&functions[i]));
		fprintf(report->out, "  ");
		err = print_name(report, report->tree->names[functions[i].name],
				 (size_t)width * 2 + (size_t)PERCENT_WIDTH * 3 + 3,
				 functions[i].flat && report->enable_irqs[functions[i].name]);
	}
	return err;
}

/* Leaves out functions with a cum below the limit. Returns the number of the others. */
static size_t limit_functions(const struct report *report, struct calltree_function *functions,
			      size_t count)
{
	const double total = (double)whole_of(report);
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if ((double)magnitude(cum_value(&functions[i])) * 100 >=
		    report->options->min_percent * total)
			functions[kept++] = functions[i];
	}
	return kept;
}

/* "  +12ms  4.00%  +-0.53%": a value with its share of the base, and the interval of it. */
static void print_diff_change(const struct report *report, const struct profile_diff *diff,
			      int64_t value, const struct noise_difference *difference)
{
	char text[PERCENT_TEXT_MAX];
	const int64_t whole = (int64_t)diff->whole;

	text_report_print_value(report, value);
	print_percent(report, value);
	fprintf(report->out, " %7s",
		percent_format(text, (int64_t)(noise_interval(difference) * diff->whole), whole));
}

static int print_diff_rows(const struct report *report, const struct profile_diff *diff,
			   size_t rows)
{
	const int width = report->options->raw_values ? RAW_VALUE_WIDTH : VALUE_WIDTH;
	int err = 0;

	fprintf(report->out, "%*s %6s %7s %*s %6s %7s\n", width, "flat", "flat%", "+-", width,
		"cum", "cum%", "+-");
	for (size_t i = 0; i < diff->count && rows && !err; i++) {
		const struct profile_diff_row *row = &diff->rows[i];

		if (!row->flat_is_real && !row->cum_is_real && !report->options->all)
			continue;
		print_diff_change(report, diff, flat_value(&row->function), &row->flat);
		fputc(' ', report->out);
		print_diff_change(report, diff, cum_value(&row->function), &row->cum);
		fprintf(report->out, "  ");
		err = print_name(report, report->tree->names[row->function.name],
				 (size_t)width * 2 + (size_t)PERCENT_WIDTH * 2 + 19,
				 report->enable_irqs[row->function.name]);
		rows--;
	}
	return err;
}

static void print_diff_side(const struct report *report, const struct profile_diff_side *side)
{
	fprintf(report->out, "%.0f samples", side->samples);
	if (side->blocks >= NOISE_BLOCKS_MIN)
		fprintf(report->out, " in %zu blocks of time", side->blocks);
}

/* What the intervals follow from. */
static void print_diff_head(const struct report *report, const struct profile_diff *diff)
{
	print_diff_side(report, &diff->now);
	fprintf(report->out, ", compared with ");
	print_diff_side(report, &diff->base);
	fprintf(report->out, "; +- is the interval of %g%%", 100 * NOISE_CONFIDENCE);
	if (diff->now.blocks < NOISE_BLOCKS_MIN || diff->base.blocks < NOISE_BLOCKS_MIN)
		fprintf(report->out,
			"\nwithout blocks of time ('stackbeat record --blocks'), samples count as "
			"a %.0fth of independent ones",
			NOISE_DESIGN_EFFECT);
	fputc('\n', report->out);
}

static struct unit diff_unit(const struct report *report, const struct profile_diff *diff)
{
	int64_t smallest = 0, value;

	for (size_t i = 0; i < diff->count; i++) {
		const struct profile_diff_row *row = &diff->rows[i];

		value = magnitude(flat_value(&row->function))
				?: magnitude(cum_value(&row->function));
		if ((row->flat_is_real || row->cum_is_real || report->options->all) &&
		    (!smallest || value < smallest))
			smallest = value;
	}
	return choose_unit(report, smallest ? smallest : report->tree->total);
}

static int print_diff(struct report *report, struct error *error)
{
	const struct report_options *options = report->options;
	struct profile_diff diff;
	size_t shown;
	int err = profile_diff_make(report->profile, report->tree_options, report->tree, &diff);

	if (err)
		return error_errno(error, -err, "the report");
	shown = options->all ? diff.count : diff.real;
	report->unit = diff_unit(report, &diff);
	if (options->rows && options->rows < shown)
		shown = options->rows;
	text_report_print_head(report, shown, diff.count);
	print_diff_head(report, &diff);
	if (shown)
		err = print_diff_rows(report, &diff, shown);
	if (!diff.count)
		fputs("no difference\n", report->out);
	else if (!options->all && diff.real < diff.count)
		fprintf(report->out,
			"%s%zu functions differ by no more than noise (--all shows them)\n",
			diff.real ? "" : "no difference: ", diff.count - diff.real);
	profile_diff_check(&diff, report->tree, options->limits, options->limit_count,
			   options->exceeded);
	profile_diff_clear(&diff);
	return err ? error_errno(error, -err, "the report") : 0;
}

/* One line: "comm app: cpu 60ms (54.55%), 30 of 99 functions". */
static void print_group_head(const struct report *report, uint32_t node, size_t shown, size_t count)
{
	const struct calltree_node *group = &report->tree->nodes[node];
	const char *key = report->options->group, *name = report->tree->names[group->name];
	const int64_t value = subtract_saturated(group->total, group->base_total);
	char text[UNIT_TEXT_MAX], percent[PERCENT_TEXT_MAX];

	fputc('\n', report->out);
	/* Numbers have the key before them already. */
	if (strncmp(name, key, strlen(key)) || name[strlen(key)] != ' ') {
		utf8_print(report->out, key);
		fputc(' ', report->out);
	}
	utf8_print(report->out, name);
	fprintf(report->out, ": %s%s (%s)", report->options->base && value > 0 ? "+" : "",
		unit_format_best(text, value, report->type_unit),
		percent_format(percent, value, whole_of(report)));
	if (shown < count)
		fprintf(report->out, ", %zu of %zu functions", shown, count);
	fputc('\n', report->out);
}

/* Prints the table of the functions below a node: the root, or a group. */
static int print_function_table(struct report *report, uint32_t node)
{
	struct calltree_function *functions;
	size_t count, shown;
	int err;

	functions = calltree_functions(report->tree, node, &count);
	if (!functions)
		return -ENOMEM;
	shown = report->options->limits_top ? limit_functions(report, functions, count) : count;
	if (report->options->rows && report->options->rows < shown)
		shown = report->options->rows;
	report->unit = functions_unit(report, functions, shown);
	if (node)
		print_group_head(report, node, shown, count);
	else
		text_report_print_head(report, shown, count);
	err = print_functions(report, functions, shown);
	free(functions);
	return err;
}

static int print_top(struct report *report, struct error *error)
{
	const struct calltree_node *nodes = report->tree->nodes;
	int err = 0;

	if (!report->options->group) {
		err = print_function_table(report, 0);
	} else {
		text_report_print_head(report, 0, 0);
		for (uint32_t group = nodes[0].first_child; group != CALLTREE_NONE && !err;
		     group = nodes[group].next_sibling)
			err = print_function_table(report, group);
	}
	return err ? error_errno(error, -err, "the report") : 0;
}

static int print_edges(struct report *report, const struct call_edges *edges)
{
	const int width = report->options->raw_values ? RAW_VALUE_WIDTH : VALUE_WIDTH;
	const bool callers = report->options->callers;
	size_t shown = edges->count;
	char text[PERCENT_TEXT_MAX];
	int err = 0;

	if (report->options->rows && report->options->rows < shown)
		shown = report->options->rows;
	fprintf(report->out, "%*s %6s %6s  %s\n", width, "cum", "cum%", "of it",
		callers ? "caller" : "callee");
	for (size_t i = 0; i < shown && !err; i++) {
		const struct call_edge *edge = &edges->items[i];
		const char *none = callers ? "(no caller)" : "(itself)";

		text_report_print_value(report, edge->value);
		print_percent(report, edge->value);
		fprintf(report->out, " %6s  ", percent_format(text, edge->value, edges->cum));
		err = print_name(report, edge->name ? report->tree->names[edge->name] : none,
				 (size_t)width + (size_t)PERCENT_WIDTH * 2 + 2, false);
	}
	return err;
}

static int print_calls(struct report *report, struct error *error)
{
	char flat[UNIT_TEXT_MAX], cum[UNIT_TEXT_MAX], flat_percent[PERCENT_TEXT_MAX],
		cum_percent[PERCENT_TEXT_MAX];
	const int64_t whole = whole_of(report);
	struct call_edges edges;
	uint32_t function;
	int err =
		call_edges_find_function(report->tree, report->options->function, &function, error);

	if (err)
		return err;
	err = call_edges_make(report->tree, function, report->options->callers, &edges);
	if (err)
		return error_errno(error, -err, "the report");
	report->unit =
		choose_unit(report, edges.count ? magnitude(edges.items[edges.count - 1].value)
						: report->tree->total);
	text_report_print_head(report, 0, 0);
	fprintf(report->out, "%s of ", report->options->callers ? "callers" : "callees");
	utf8_print(report->out, report->tree->names[function]);
	fprintf(report->out, ": flat %s (%s), cum %s (%s)\n",
		unit_format_best(flat, edges.flat, report->type_unit),
		percent_format(flat_percent, edges.flat, whole),
		unit_format_best(cum, edges.cum, report->type_unit),
		percent_format(cum_percent, edges.cum, whole));
	err = print_edges(report, &edges);
	free(edges.items);
	return err ? error_errno(error, -err, "the report") : 0;
}

/* What the weights of nodes are parts of. */
static int64_t weight_of_all(const struct report *report)
{
	const int64_t whole = whole_of(report);

	if (!report->options->whole)
		return add_saturated(report->tree->total, report->tree->base_total);
	return report->options->base ? add_saturated(whole, whole) : whole;
}

/* A call is as important as its share of both profiles. */
static bool text_report_is_shown(const struct report *report, uint32_t node)
{
	const struct calltree *tree = report->tree;

	return node != CALLTREE_NONE &&
	       (double)tree->nodes[node].weight * 100 >=
		       report->options->min_percent * (double)weight_of_all(report);
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
	return text_report_is_shown(report,
				    nodes[nodes[nodes[node].parent].first_child].next_sibling);
}

static bool text_report_is_last(const struct report *report, uint32_t node)
{
	return !text_report_is_shown(report, report->tree->nodes[node].next_sibling);
}

/* The branches between the root and a node: whether more siblings follow. */
struct branches {
	bool *more;
	size_t count, capacity;
};

static void print_branches(const struct report *report, const struct branches *branches,
			   uint32_t node)
{
	const bool ascii = report->options->ascii;
	size_t own = is_branch(report, node), i;

	for (i = 0; i + own < branches->count; i++)
		fputs(branches->more[i] ? (ascii ? "|  " : "│  ") : "   ", report->out);
	if (i < branches->count)
		fputs(ascii ? (branches->more[i] ? "|- " : "`- ")
			    : (branches->more[i] ? "├─ " : "└─ "),
		      report->out);
}

static int print_node(const struct report *report, const struct branches *branches, uint32_t node)
{
	const int width = report->options->raw_values ? RAW_VALUE_WIDTH : VALUE_WIDTH;
	const struct calltree_node *at = &report->tree->nodes[node];

	if (report->options->base)
		print_percent(report, at->base_total);
	print_percent(report, at->total);
	fputc(' ', report->out);
	text_report_print_value(report, subtract_saturated(at->total, at->base_total));
	fputc(' ', report->out);
	text_report_print_value(report, subtract_saturated(at->self, at->base_self));
	fprintf(report->out, "  ");
	print_branches(report, branches, node);
	return print_name(report, report->tree->names[at->name],
			  (size_t)width * 2 +
				  (size_t)PERCENT_WIDTH * (report->options->base ? 2 : 1) + 4 +
				  branches->count * BRANCH_WIDTH,
			  enables_irqs(report->tree, node));
}

static uint32_t next_shown(const struct report *report, uint32_t node)
{
	uint32_t next = calltree_next(report->tree, node, false);

	while (next != CALLTREE_NONE && !text_report_is_shown(report, next))
		next = calltree_next(report->tree, next, true);
	return next;
}

static struct unit tree_unit(const struct report *report)
{
	int64_t smallest = add_saturated(report->tree->total, report->tree->base_total), value;
	const struct calltree_node *at;
	uint32_t node;

	for (node = 0; node != CALLTREE_NONE; node = next_shown(report, node)) {
		at = &report->tree->nodes[node];
		value = magnitude(subtract_saturated(at->total, at->base_total));
		if (value && value < smallest)
			smallest = value;
	}
	return choose_unit(report, smallest);
}

static int text_report_print_nodes(const struct report *report, struct branches *branches,
				   size_t *rows)
{
	const struct calltree_node *nodes = report->tree->nodes;
	uint32_t node = 0, next, left;

	for (;;) {
		if (print_node(report, branches, node))
			return -ENOMEM;
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
		branches->more[branches->count++] = !text_report_is_last(report, node);
	}
}

static int print_tree(struct report *report, struct error *error)
{
	const int width = report->options->raw_values ? RAW_VALUE_WIDTH : VALUE_WIDTH;
	size_t rows = report->options->rows ? report->options->rows : SIZE_MAX;
	struct branches branches = {0};
	int err;

	report->unit = tree_unit(report);
	text_report_print_head(report, 0, 0);
	if (report->options->base)
		fprintf(report->out, " %6s", "base%");
	fprintf(report->out, " %6s %*s %*s\n", "cum%", width, "cum", width, "flat");
	err = text_report_print_nodes(report, &branches, &rows);
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
	struct calltree *tree;
	bool has_mark = false;
	struct report report = {
		.profile = profile,
		.options = options,
		.tree_options = tree_options,
		.has_mark = &has_mark,
		.type = profile_text(profile, type->type),
		.type_unit = profile_text(profile, type->unit),
		.out = out,
	};
	int err = calltree_new(profile, tree_options, &tree, error);

	if (err)
		return err;
	report.tree = tree;
	err = find_irqs_off(&report) ? error_errno(error, ENOMEM, "the report")
				     : print(&report, error);
	free(report.enable_irqs);
	calltree_free(tree);
	if (has_mark)
		fputs("[irqs off]: sampled when interrupts were enabled again: the time is of the "
		      "code before (--fold-irqs-off: the caller's)\n",
		      out);
	/* Programs read rows. */
	if (!err && (!options->raw_values || options->verbose))
		profile_notes_print(profile, options->verbose, out);
	return err;
}

int report_top(const struct profile *profile, const struct report_options *options, FILE *out,
	       struct error *error)
{
	struct calltree_options tree = {
		.group = options->group,
		.base = options->base,
		.absolute = options->absolute,
		.whole = options->whole,
		.base_whole = options->base_whole,
	};
	int err = calltree_find_types(profile, options->sample_type, &tree, error);

	return err ? err : write_report(profile, options, &tree, print_top, out, error);
}

int report_diff(const struct profile *profile, const struct report_options *options, FILE *out,
		struct error *error)
{
	struct calltree_options tree = {
		.group = LABEL_BLOCK_KEY,
		.base = options->base,
		.absolute = options->absolute,
		.whole = options->whole,
		.base_whole = options->base_whole,
	};
	int err = calltree_find_types(profile, options->sample_type, &tree, error);

	return err ? err : write_report(profile, options, &tree, print_diff, out, error);
}

int report_calls(const struct profile *profile, const struct report_options *options, FILE *out,
		 struct error *error)
{
	struct calltree_options tree = {.marks_truncated = true};
	int err = calltree_find_types(profile, options->sample_type, &tree, error);

	return err ? err : write_report(profile, options, &tree, print_calls, out, error);
}

int report_tree(const struct profile *profile, const struct report_options *options, FILE *out,
		struct error *error)
{
	struct calltree_options tree = {
		.group = options->group,
		.marks_truncated = true,
		.base = options->base,
		.absolute = options->absolute,
		.whole = options->whole,
		.base_whole = options->base_whole,
	};
	char *function = NULL;
	int err = calltree_find_types(profile, options->sample_type, &tree, error);

	if (!err && options->function)
		err = call_edges_resolve(profile, &tree, options->function, &function, error);
	tree.from = function;
	tree.upwards = options->callers;
	if (!err)
		err = write_report(profile, options, &tree, print_tree, out, error);
	free(function);
	return err;
}
