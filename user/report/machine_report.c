// SPDX-License-Identifier: GPL-2.0
#include "report/machine_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/utf8.h"
#include "pprof/blocks.h"
#include "report/call_edges.h"
#include "report/call_tree.h"
#include "report/json_string.h"
#include "report/profile_diff.h"
#include "report/profile_view.h"
#include "report/text_report.h"

/* The column that is divided if names are made of keys. */
#define COLUMN_FUNCTION "function"

struct cell {
	enum { CELL_NONE, CELL_TEXT, CELL_INTEGER } kind;
	const char *text;
	int64_t number;
};

struct machine_report {
	const struct profile *profile;
	const struct report_options *options;
	const struct calltree_options *tree_options;
	struct calltree *tree;
	enum machine_format format;
	const char *const *columns; /* names, behind which is NULL */
	uint32_t function; /* whose callers or callees are shown */
	size_t rows;
	bool out_of_memory;
	FILE *out;
};

static struct cell text_cell(const char *text)
{
	return (struct cell){.kind = text ? CELL_TEXT : CELL_NONE, .text = text};
}

static struct cell integer_cell(int64_t number)
{
	return (struct cell){.kind = CELL_INTEGER, .number = number};
}

/* A field of RFC 4180. Line breaks are escaped, as in all text of untrusted files. */
static int print_csv_text(const struct machine_report *report, const char *text)
{
	char *copy = strdup(text), *rest = copy, *part;

	if (!copy)
		return -ENOMEM;
	fputc('"', report->out);
	for (size_t i = 0; (part = strsep(&rest, "\"")); i++) {
		if (i)
			fputs("\"\"", report->out);
		utf8_print(report->out, part);
	}
	fputc('"', report->out);
	free(copy);
	return 0;
}

static void print_cell(struct machine_report *report, const struct cell *cell)
{
	const bool is_json = report->format == MACHINE_JSON;
	int err = 0;

	if (cell->kind == CELL_TEXT)
		err = is_json ? json_string_print(cell->text, report->out)
			      : print_csv_text(report, cell->text);
	else if (cell->kind == CELL_INTEGER)
		fprintf(report->out, "%" PRId64, cell->number);
	else if (is_json)
		fputs("null", report->out);
	report->out_of_memory |= err != 0;
}

static bool is_divided(const struct machine_report *report, size_t column)
{
	return report->options->keys && !strcmp(report->columns[column], COLUMN_FUNCTION);
}

/* Takes the next part of a text with separators in between; to be freed. NULL: no memory. */
static char *take_part(const char **text, char separator)
{
	const char *end = strchrnul(*text, separator);
	char *part = strndup(*text, (size_t)(end - *text));

	*text = *end ? end + 1 : end;
	return part;
}

/* Prints a cell for each key of a name, or in the head of a table (`name` is NULL) its key. */
static void print_keys(struct machine_report *report, const char *name)
{
	const bool is_head = !name;
	const char *keys = report->options->keys;

	for (bool is_first = true; *keys; is_first = false) {
		char *key = take_part(&keys, ',');
		char *part = is_head ? NULL : take_part(&name, KEY_SEPARATOR);
		const struct cell name_cell = text_cell(key);
		const struct cell cell = is_head ? name_cell : text_cell(part);

		report->out_of_memory |= !key || (!is_head && !part);
		if (!is_first)
			fputc(',', report->out);
		if (report->format == MACHINE_JSON) {
			print_cell(report, &name_cell);
			fputc(':', report->out);
		}
		print_cell(report, &cell);
		free(key);
		free(part);
	}
}

/* Prints a cell for each column. */
static void print_row(struct machine_report *report, const struct cell *cells)
{
	const bool is_json = report->format == MACHINE_JSON;

	if (is_json)
		fputs(report->rows ? ",\n{" : "\n{", report->out);
	for (size_t i = 0; report->columns[i]; i++) {
		if (i)
			fputc(',', report->out);
		if (is_divided(report, i)) {
			print_keys(report, cells[i].text);
			continue;
		}
		if (is_json)
			fprintf(report->out, "\"%s\":", report->columns[i]);
		print_cell(report, &cells[i]);
	}
	fputs(is_json ? "}" : "\r\n", report->out);
	report->rows++;
}

static bool is_full(const struct machine_report *report, size_t rows)
{
	return report->options->rows && rows >= report->options->rows;
}

static void print_property(struct machine_report *report, const char *name, const char *text)
{
	fprintf(report->out, "\"%s\":", name);
	report->out_of_memory |= json_string_print(text, report->out) != 0;
	fputs(",\n", report->out);
}

/* The beginning of the document, up to the rows. */
static void print_json_head(struct machine_report *report, const char *kind)
{
	const struct profile *profile = report->profile;
	const struct profile_value_type *type =
		&profile->types.items[report->tree_options->sample_type];
	const struct report_options *options = report->options;

	print_property(report, "schema", MACHINE_REPORT_SCHEMA);
	print_property(report, "kind", kind);
	print_property(report, "sample_type", profile_text(profile, type->type));
	print_property(report, "unit", profile_text(profile, type->unit));
	fprintf(report->out, "\"time_ns\":%" PRId64 ",\n\"duration_ns\":%" PRId64 ",\n",
		profile->time_ns, profile->duration_ns);
	fprintf(report->out, "\"total\":%" PRId64 ",\n",
		options->whole ? options->whole : report->tree->unscaled_total);
	if (options->base)
		fprintf(report->out, "\"base_total\":%" PRId64 ",\n",
			options->base_whole ? options->base_whole : report->tree->base_total);
	fputs("\"comments\":[", report->out);
	for (size_t i = 0; i < profile->comments.count; i++) {
		if (i)
			fputc(',', report->out);
		report->out_of_memory |=
			json_string_print(profile_text(profile, profile->comments.items[i]),
					  report->out) != 0;
	}
	fputs("],\n\"rows\":[", report->out);
}

static void print_csv_head(struct machine_report *report)
{
	for (size_t i = 0; report->columns[i]; i++) {
		fputs(i ? "," : "", report->out);
		if (is_divided(report, i))
			print_keys(report, NULL);
		else
			fputs(report->columns[i], report->out);
	}
	fputs("\r\n", report->out);
}

static void print_machine_head(struct machine_report *report, const char *kind,
			       const char *const *columns)
{
	report->columns = columns;
	if (report->format == MACHINE_JSON)
		print_json_head(report, kind);
	else
		print_csv_head(report);
}

static int write_machine_report(const struct profile *profile, const struct report_options *options,
				const struct calltree_options *tree_options,
				enum machine_format format, int (*print)(struct machine_report *),
				FILE *out, struct error *error)
{
	struct machine_report report = {
		.profile = profile,
		.options = options,
		.tree_options = tree_options,
		.format = format,
		.out = out,
	};
	int err = calltree_new(profile, tree_options, &report.tree, error);

	if (err)
		return err;
	/* What is wrong with the name is known before anything is printed. */
	if (options->function && !tree_options->from)
		err = call_edges_find_function(report.tree, options->function, &report.function,
					       error);
	if (err) {
		calltree_free(report.tree);
		return err;
	}
	if (format == MACHINE_JSON)
		fputc('{', out);
	err = print(&report);
	if (format == MACHINE_JSON)
		fputs("\n]}\n", out);
	calltree_free(report.tree);
	return err || report.out_of_memory ? error_errno(error, ENOMEM, "the report") : 0;
}

/* Functions */

static const char *const function_columns[] = {"group", COLUMN_FUNCTION, "flat", "cum", NULL};

const char *machine_report_column_among(const char *keys)
{
	size_t length;

	for (const char *key = keys; key; key = key[length] ? key + length + 1 : NULL) {
		length = strcspn(key, ",");
		for (size_t i = 0; function_columns[i]; i++) {
			const char *column = function_columns[i];

			if (strcmp(column, COLUMN_FUNCTION) && strlen(column) == length &&
			    !strncmp(column, key, length))
				return column;
		}
	}
	return NULL;
}

/* Whether a value is above the limit of the options; a weight is a part of both profiles. */
static bool is_above_limit(const struct machine_report *report, int64_t value, bool is_weight)
{
	const struct report_options *options = report->options;
	const struct calltree *tree = report->tree;
	int64_t whole = options->base ? options->base_whole : options->whole;

	if (!whole)
		whole = options->base ? tree->base_total : tree->total;
	return (double)magnitude(value) * 100 >=
	       options->min_percent * (double)whole * (is_weight && options->base ? 2 : 1);
}

static int print_functions_below(struct machine_report *report, uint32_t node)
{
	const struct calltree *tree = report->tree;
	size_t count, shown = 0;
	struct calltree_function *functions = calltree_functions(tree, node, &count);

	if (!functions)
		return -ENOMEM;
	for (size_t i = 0; i < count && !is_full(report, shown); i++) {
		const struct calltree_function *function = &functions[i];
		const struct cell cells[] = {
			text_cell(node ? tree->names[tree->nodes[node].name] : NULL),
			text_cell(tree->names[function->name]),
			integer_cell(function->flat),
			integer_cell(function->cum),
		};

		if (report->options->limits_top && !is_above_limit(report, function->cum, false))
			continue;
		print_row(report, cells);
		shown++;
	}
	free(functions);
	return 0;
}

static int print_functions_or_groups(struct machine_report *report)
{
	const struct calltree_node *nodes = report->tree->nodes;
	int err = 0;

	print_machine_head(report, "functions", function_columns);
	if (!report->options->group)
		return print_functions_below(report, 0);
	for (uint32_t group = nodes[0].first_child; group != CALLTREE_NONE && !err;
	     group = nodes[group].next_sibling)
		err = print_functions_below(report, group);
	return err;
}

int machine_report_top(const struct profile *profile, const struct report_options *options,
		       enum machine_format format, FILE *out, struct error *error)
{
	struct calltree_options tree = {.group = options->group};
	int err = calltree_find_types(profile, options->sample_type, &tree, error);

	return err ? err
		   : write_machine_report(profile, options, &tree, format,
					  print_functions_or_groups, out, error);
}

/* Differences */

static void print_diff_row(struct machine_report *report, const struct profile_diff *diff,
			   const struct profile_diff_row *row)
{
	const struct calltree_function *function = &row->function;
	const struct cell cells[] = {
		text_cell(report->tree->names[function->name]),
		integer_cell(function->flat),
		integer_cell(function->cum),
		integer_cell(function->base_flat),
		integer_cell(function->base_cum),
		integer_cell((int64_t)(noise_interval(&row->flat) * diff->whole)),
		integer_cell((int64_t)(noise_interval(&row->cum) * diff->whole)),
		integer_cell(!row->flat_is_real),
		integer_cell(!row->cum_is_real),
	};

	print_row(report, cells);
}

static int print_machine_diff(struct machine_report *report)
{
	static const char *const columns[] = {
		"function",      "flat",         "cum",           "base_flat",    "base_cum",
		"flat_interval", "cum_interval", "flat_is_noise", "cum_is_noise", NULL};
	const struct report_options *options = report->options;
	struct profile_diff diff;
	int err = profile_diff_make(report->profile, report->tree_options, report->tree, &diff);

	if (err)
		return err;
	if (report->format == MACHINE_JSON)
		fprintf(report->out,
			"\"samples\":%.0f,\n\"blocks\":%zu,\n\"base_samples\":%.0f,\n"
			"\"base_blocks\":%zu,\n",
			diff.now.samples, diff.now.blocks, diff.base.samples, diff.base.blocks);
	print_machine_head(report, "diff", columns);
	for (size_t i = 0; i < diff.count && !is_full(report, report->rows); i++)
		print_diff_row(report, &diff, &diff.rows[i]);
	profile_diff_check(&diff, report->tree, options->limits, options->limit_count,
			   options->exceeded);
	profile_diff_clear(&diff);
	return 0;
}

int machine_report_diff(const struct profile *profile, const struct report_options *options,
			enum machine_format format, FILE *out, struct error *error)
{
	struct calltree_options tree = {
		.group = LABEL_BLOCK_KEY,
		.base = options->base,
		.absolute = options->absolute,
		.whole = options->whole,
		.base_whole = options->base_whole,
	};
	int err = calltree_find_types(profile, options->sample_type, &tree, error);

	return err ? err
		   : write_machine_report(profile, options, &tree, format, print_machine_diff, out,
					  error);
}

/* Callers and callees */

static int print_machine_calls(struct machine_report *report)
{
	static const char *const columns[] = {"function", "caller", "callee", "cum", NULL};
	const bool callers = report->options->callers;
	struct call_edges edges;

	if (call_edges_make(report->tree, report->function, callers, &edges))
		return -ENOMEM;
	print_machine_head(report, callers ? "callers" : "callees", columns);
	for (size_t i = 0; i < edges.count && !is_full(report, i); i++) {
		const char *name =
			edges.items[i].name ? report->tree->names[edges.items[i].name] : NULL;
		const struct cell cells[] = {
			text_cell(report->tree->names[report->function]),
			text_cell(callers ? name : report->tree->names[report->function]),
			text_cell(callers ? report->tree->names[report->function] : name),
			integer_cell(edges.items[i].value),
		};

		print_row(report, cells);
	}
	free(edges.items);
	return 0;
}

int machine_report_calls(const struct profile *profile, const struct report_options *options,
			 enum machine_format format, FILE *out, struct error *error)
{
	struct calltree_options tree = {.marks_truncated = true};
	int err = calltree_find_types(profile, options->sample_type, &tree, error);

	return err ? err
		   : write_machine_report(profile, options, &tree, format, print_machine_calls, out,
					  error);
}

/* Trees */

static const char *kind_name(enum frame_kind kind)
{
	static const char *const names[FRAME_KIND_COUNT] = {
		[FRAME_ROOT] = "root",
		[FRAME_GROUP] = "group",
		[FRAME_USER] = "user",
		[FRAME_KERNEL] = "kernel",
		[FRAME_UNRESOLVED] = "unresolved",
		[FRAME_TRUNCATED] = "truncated",
	};

	return names[kind];
}

static const char *const tree_columns[] = {"id",  "parent",    "kind",     "function", "flat",
					   "cum", "base_flat", "base_cum", NULL};
static const char *const tree_columns_without_base[] = {"id",   "parent", "kind", "function",
							"flat", "cum",    NULL};

static void print_tree_row(struct machine_report *report, uint32_t node)
{
	const struct calltree_node *at = &report->tree->nodes[node];
	const struct cell cells[] = {
		integer_cell(node),
		at->parent == CALLTREE_NONE ? text_cell(NULL) : integer_cell(at->parent),
		text_cell(kind_name(at->kind)),
		text_cell(report->tree->names[at->name]),
		integer_cell(at->self),
		integer_cell(at->total),
		integer_cell(at->base_self),
		integer_cell(at->base_total),
	};

	print_row(report, cells);
}

static int print_machine_tree(struct machine_report *report)
{
	const struct calltree *tree = report->tree;
	const bool has_base = report->options->base;
	uint32_t node = 0;

	print_machine_head(report, "tree", has_base ? tree_columns : tree_columns_without_base);
	while (node != CALLTREE_NONE && !is_full(report, report->rows)) {
		const bool is_shown = is_above_limit(report, tree->nodes[node].weight, true);

		if (is_shown)
			print_tree_row(report, node);
		node = calltree_next(tree, node, !is_shown);
	}
	return 0;
}

int machine_report_tree(const struct profile *profile, const struct report_options *options,
			enum machine_format format, FILE *out, struct error *error)
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
		err = write_machine_report(profile, options, &tree, format, print_machine_tree, out,
					   error);
	free(function);
	return err;
}
