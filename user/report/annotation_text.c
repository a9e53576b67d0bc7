// SPDX-License-Identifier: GPL-2.0
#include "report/annotation_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/error.h"
#include "lib/path.h"
#include "lib/utf8.h"
#include "pprof/profile.h"
#include "report/annotation.h"
#include "report/source_text.h"
#include "report/units.h"

/* As in perf: percentages that matter, and those that do not. */
#define HOT_PERCENT 5
#define WARM_PERCENT 0.5
#define COLOR_HOT "\033[31m"
#define COLOR_WARM "\033[32m"
#define COLOR_PLACE "\033[34m"
#define COLOR_RESET "\033[m"

#define SUMMARY_LINES 10u
#define BYTES_SHOWN 8u /* of an instruction, in a column: more make the line longer */

/* A source line of a function with its values. */
struct line_value {
	const char *file;
	uint32_t line;
	int64_t self, cum;
};

struct annotation_printer {
	const struct annotation *annotation;
	const struct annotated_function *function;
	const struct annotation_text_options *options;
	const struct profile *profile;
	struct source_text sources;
	struct line_value *values;
	size_t count, capacity;
	const struct annotated_instruction *before; /* the last one with lines; NULL: none */
	FILE *out;
};

static void print_share(const struct annotation_printer *printer, int64_t value, int64_t total)
{
	const double percent = total ? 100 * (double)value / (double)total : 0;
	const char *color = "";

	if (printer->options->colors && percent >= WARM_PERCENT)
		color = percent >= HOT_PERCENT ? COLOR_HOT : COLOR_WARM;
	fprintf(printer->out, " %s%7.2f%s", color, percent, *color ? COLOR_RESET : "");
}

static void print_shares(const struct annotation_printer *printer, int64_t self, int64_t cum)
{
	print_share(printer, self, printer->function->self);
	if (printer->options->cum)
		print_share(printer, cum, printer->function->cum);
}

static void print_no_shares(const struct annotation_printer *printer)
{
	fprintf(printer->out, printer->options->cum ? "%16s : " : "%8s : ", "");
}

/* The source line of an instruction, or NULL. */
static const struct source_line *instruction_place(const struct annotated_instruction *instruction)
{
	const struct source_line *line = instruction->lines;

	return instruction->line_count && line->file && line->line ? line : NULL;
}

/* Summary */

static int add_line_value(struct annotation_printer *printer,
			  const struct annotated_instruction *instruction)
{
	const struct source_line *place = instruction_place(instruction);
	struct line_value *value;
	size_t i = 0;

	if (!place || (!instruction->self && !instruction->cum))
		return 0;
	while (i < printer->count && (printer->values[i].line != place->line ||
				      strcmp(printer->values[i].file, place->file)))
		i++;
	if (array_reserve(&printer->values, &printer->capacity, printer->count, 1,
			  sizeof(*printer->values)))
		return -ENOMEM;
	value = &printer->values[i];
	if (i == printer->count) {
		*value = (struct line_value){.file = place->file, .line = place->line};
		printer->count++;
	}
	value->self += instruction->self;
	value->cum += instruction->cum;
	return 0;
}

static int compare_line_values(const void *left, const void *right)
{
	const struct line_value *a = left, *b = right;

	if (a->self != b->self)
		return a->self > b->self ? -1 : 1;
	if (a->cum != b->cum)
		return a->cum > b->cum ? -1 : 1;
	return strcmp(a->file, b->file) ?: (a->line > b->line) - (a->line < b->line);
}

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t\f\r");
}

static int print_summary(struct annotation_printer *printer)
{
	const bool with_cum = printer->options->cum;
	struct error why;
	int err = 0;

	printer->count = 0;
	for (size_t i = 0; i < printer->function->count && !err; i++)
		err = add_line_value(printer, &printer->function->instructions[i]);
	if (err || !printer->count)
		return err;
	qsort(printer->values, printer->count, sizeof(*printer->values), compare_line_values);
	fprintf(printer->out, "\nSorted summary by source line%s\n",
		printer->options->places || printer->count <= SUMMARY_LINES ? ""
									    : ", the first 10");
	for (size_t i = 0; i < printer->count; i++) {
		const struct line_value *value = &printer->values[i];
		const char *text;

		if ((!printer->options->places && i >= SUMMARY_LINES) ||
		    (!value->self && !with_cum))
			break;
		print_shares(printer, value->self, value->cum);
		fputs("  ", printer->out);
		utf8_print(printer->out, path_base_name(value->file));
		fprintf(printer->out, ":%" PRIu32, value->line);
		text = source_text_line(&printer->sources, value->file, value->line, &why);
		if (text) {
			fputs("  ", printer->out);
			utf8_print(printer->out, skip_blanks(text));
		}
		fputc('\n', printer->out);
	}
	return 0;
}

/* Instructions */

static bool text_equal(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* Whether two instructions have the same places from level `from` on, from the innermost one. */
static bool places_equal(const struct annotated_instruction *a,
			 const struct annotated_instruction *b, size_t from)
{
	if (!a || a->line_count != b->line_count)
		return false;
	for (size_t i = from; i < a->line_count; i++) {
		if (a->lines[i].line != b->lines[i].line ||
		    !text_equal(a->lines[i].file, b->lines[i].file) ||
		    !text_equal(a->lines[i].function, b->lines[i].function))
			return false;
	}
	return true;
}

static void annotation_print_place(const struct annotation_printer *printer,
				   const struct source_line *line)
{
	if (line->file)
		utf8_print(printer->out, path_base_name(line->file));
	fprintf(printer->out, "%s%" PRIu32, line->file ? ":" : "", line->line);
}

/* A line for each inlined call, the outermost first. */
static void print_inlined(const struct annotation_printer *printer,
			  const struct annotated_instruction *instruction)
{
	const struct source_line *lines = instruction->lines;

	for (size_t i = instruction->line_count - 1; i > 0; i--) {
		print_no_shares(printer);
		fprintf(printer->out, "%*s> ", (int)(2 * (instruction->line_count - 1 - i)), "");
		utf8_print(printer->out, lines[i - 1].function ? lines[i - 1].function : "?");
		fputs(", inlined at ", printer->out);
		annotation_print_place(printer, &lines[i]);
		fputc('\n', printer->out);
	}
}

static void print_source(struct annotation_printer *printer,
			 const struct annotated_instruction *instruction)
{
	const struct source_line *place = instruction_place(instruction);
	const struct source_line *outer = instruction->lines + instruction->line_count - 1;
	const char *color = printer->options->colors ? COLOR_PLACE : "", *text;
	struct error why;

	if (!place)
		return;
	text = source_text_line(&printer->sources, place->file, place->line, &why);
	print_no_shares(printer);
	fputs(color, printer->out);
	if (printer->options->places || !text || !text_equal(place->file, outer->file))
		annotation_print_place(printer, place);
	else
		fprintf(printer->out, "%" PRIu32, place->line);
	fputs(*color ? COLOR_RESET : "", printer->out);
	if (text) {
		fputs("  ", printer->out);
		for (; *text == '\t'; text++)
			fputs("        ", printer->out);
		utf8_print(printer->out, text);
	}
	fputc('\n', printer->out);
}

static void print_code(const struct annotation_printer *printer,
		       const struct annotated_instruction *instruction)
{
	const struct instruction *code = &instruction->code;

	print_shares(printer, instruction->self, instruction->cum);
	fprintf(printer->out, " : %8" PRIx64 ":  ", code->address);
	if (printer->options->bytes) {
		for (size_t i = 0; i < code->size || i < BYTES_SHOWN; i++) {
			if (i < code->size)
				fprintf(printer->out, "%02x ", code->bytes[i]);
			else
				fputs("   ", printer->out);
		}
		fputc(' ', printer->out);
	}
	utf8_print(printer->out, code->text);
	fputc('\n', printer->out);
}

static void print_instruction(struct annotation_printer *printer,
			      const struct annotated_instruction *instruction)
{
	const struct annotated_instruction *before = printer->before;

	if (!printer->options->no_source && instruction->line_count &&
	    !places_equal(before, instruction, 0)) {
		if (!places_equal(before, instruction, 1) ||
		    !text_equal(before->lines[0].function, instruction->lines[0].function))
			print_inlined(printer, instruction);
		print_source(printer, instruction);
		printer->before = instruction;
	}
	print_code(printer, instruction);
}

/* Functions */

/* Says why instructions have no source: the first reason. */
static void print_missing_source(struct annotation_printer *printer)
{
	const struct annotated_function *function = printer->function;
	const char *reason = "no debug information has its lines: build it with -g, or install its "
			     "debug package";
	struct error why;

	for (size_t i = 0; i < function->count; i++) {
		const struct source_line *place = instruction_place(&function->instructions[i]);

		if (!place)
			continue;
		reason = NULL;
		if (source_text_line(&printer->sources, place->file, place->line, &why))
			continue;
		reason = why.text;
		break;
	}
	if (!reason || printer->options->no_source)
		return;
	fputs("No source: ", printer->out);
	utf8_print(printer->out, reason);
	fputc('\n', printer->out);
}

static void print_function_head(const struct annotation_printer *printer)
{
	const struct annotated_function *function = printer->function;
	const struct annotation *annotation = printer->annotation;
	const struct profile_value_type *type = &printer->profile->types.items[annotation->type];
	const char *unit = profile_text(printer->profile, type->unit);
	char self[UNIT_TEXT_MAX], cum[UNIT_TEXT_MAX], percent[PERCENT_TEXT_MAX];

	utf8_print(printer->out, function->name);
	fputs(": ", printer->out);
	utf8_print(printer->out, profile_text(printer->profile, type->type));
	fprintf(printer->out, " flat %s (%s), cum %s", unit_format_best(self, function->self, unit),
		percent_format(percent, function->self, annotation->total),
		unit_format_best(cum, function->cum, unit));
	fprintf(printer->out, " (%s)\n", percent_format(percent, function->cum, annotation->total));
}

static void print_listing(struct annotation_printer *printer)
{
	const struct annotated_function *function = printer->function;

	fprintf(printer->out, printer->options->cum ? "\n Percent    Cum. | " : "\n Percent | ");
	fputs(printer->options->no_source ? "Disassembly of " : "Source code & Disassembly of ",
	      printer->out);
	utf8_print(printer->out, function->path);
	fputs(" (percent of the function)\n", printer->out);
	for (size_t i = 0; i < 72; i++)
		fputc('-', printer->out);
	fputc('\n', printer->out);
	print_no_shares(printer);
	fprintf(printer->out, "%016" PRIx64 " <", function->start);
	utf8_print(printer->out, function->name);
	fputs(">:\n", printer->out);
	printer->before = NULL;
	for (size_t i = 0; i < function->count; i++)
		print_instruction(printer, &function->instructions[i]);
}

int annotation_print(const struct annotation *annotation, const struct profile *profile,
		     const struct annotation_text_options *options, FILE *out)
{
	struct annotation_printer printer = {
		.annotation = annotation,
		.options = options,
		.profile = profile,
		.out = out,
	};
	int err = 0;

	for (size_t i = 0; i < annotation->count && !err; i++) {
		printer.function = &annotation->functions[i];
		if (i)
			fputs("\n\n", out);
		print_function_head(&printer);
		print_missing_source(&printer);
		err = print_summary(&printer);
		if (!err)
			print_listing(&printer);
	}
	free(printer.values);
	source_text_clear(&printer.sources);
	return err;
}
