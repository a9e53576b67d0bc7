// SPDX-License-Identifier: GPL-2.0
#include "report/annotation_json.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>

#include "lib/utf8.h"
#include "pprof/profile.h"
#include "report/annotation.h"

/* Prints "KEY":"TEXT", of an untrusted text, which may be NULL. */
static int print_text_member(FILE *out, const char *key, const char *text)
{
	struct json_object *string = json_object_new_string(text ? text : "");
	const char *json = NULL;

	if (string)
		json = json_object_to_json_string_ext(string, JSON_C_TO_STRING_NOSLASHESCAPE);
	if (json) {
		fprintf(out, "\"%s\":", key);
		utf8_print_json(out, json);
	}
	json_object_put(string);
	return json ? 0 : -ENOMEM;
}

static int print_json_line(FILE *out, const struct source_line *line)
{
	int err;

	fputc('{', out);
	err = print_text_member(out, "function", line->function);
	fputc(',', out);
	if (!err)
		err = print_text_member(out, "file", line->file);
	fprintf(out, ",\"line\":%" PRIu32 "}", line->line);
	return err;
}

/* Addresses of the kernel are larger than the integers of JavaScript: their offsets are not. */
static int print_json_instruction(FILE *out, const struct annotated_instruction *instruction,
				  uint64_t start)
{
	const struct instruction *code = &instruction->code;
	int err;

	fprintf(out, "{\"address\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"bytes\":\"", code->address,
		code->address - start);
	for (size_t i = 0; i < code->size; i++)
		fprintf(out, "%02x", code->bytes[i]);
	fputs("\",", out);
	err = print_text_member(out, "text", code->text);
	fprintf(out, ",\"flat\":%" PRId64 ",\"cum\":%" PRId64 ",\"lines\":[", instruction->self,
		instruction->cum);
	for (size_t i = 0; i < instruction->line_count && !err; i++) {
		fputs(i ? "," : "", out);
		err = print_json_line(out, &instruction->lines[i]);
	}
	fputs("]}", out);
	return err;
}

static int print_json_function(FILE *out, const struct annotated_function *function)
{
	int err;

	fputc('{', out);
	err = print_text_member(out, "function", function->name);
	fputc(',', out);
	if (!err)
		err = print_text_member(out, "file", function->path);
	fputc(',', out);
	if (!err)
		err = print_text_member(out, "build_id", function->build_id);
	fprintf(out,
		",\"start\":%" PRIu64 ",\"size\":%" PRIu64 ",\"flat\":%" PRId64 ",\"cum\":%" PRId64
		",\"instructions\":[",
		function->start, function->size, function->self, function->cum);
	for (size_t i = 0; i < function->count && !err; i++) {
		fputs(i ? ",\n" : "\n", out);
		err = print_json_instruction(out, &function->instructions[i], function->start);
	}
	fputs("]}", out);
	return err;
}

int annotation_print_json(const struct annotation *annotation, const struct profile *profile,
			  FILE *out)
{
	const struct profile_value_type *type = &profile->types.items[annotation->type];
	int err;

	fputc('{', out);
	err = print_text_member(out, "type", profile_text(profile, type->type));
	fputc(',', out);
	if (!err)
		err = print_text_member(out, "unit", profile_text(profile, type->unit));
	fprintf(out, ",\"total\":%" PRId64 ",", annotation->total);
	if (annotation->is_inlined)
		fputs("\"inlined\":true,", out);
	if (*annotation->left_out.text && !err) {
		err = print_text_member(out, "problem", annotation->left_out.text);
		fputc(',', out);
	}
	fputs("\"functions\":[", out);
	for (size_t i = 0; i < annotation->count && !err; i++) {
		fputs(i ? ",\n" : "\n", out);
		err = print_json_function(out, &annotation->functions[i]);
	}
	fputs("]}\n", out);
	return err;
}
