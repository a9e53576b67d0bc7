// SPDX-License-Identifier: GPL-2.0
/* Tables for programs: their columns, and names that no one may trust. */
#include "unit.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/machine_report.h"
#include "report/text_report.h"
#include "sample_profile.h"

typedef int machine_fn(const struct profile *profile, const struct report_options *options,
		       enum machine_format format, FILE *out, struct error *error);

static char *text_of(const struct profile *profile, machine_fn *report,
		     const struct report_options *options, enum machine_format format)
{
	struct error error;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(report(profile, options, format, out, &error), 0);
	fclose(out);
	return text;
}

static void expect_csv(const struct profile *profile, machine_fn *report,
		       const struct report_options *options, const char *expected)
{
	char *text = text_of(profile, report, options, MACHINE_CSV);

	assert_string_equal(text, expected);
	free(text);
}

static void rows_have_columns(void **state)
{
	const struct report_options three = {.rows = 3}, grouped = {.rows = 1, .group = "comm"};
	const struct report_options limited = {.min_percent = 90, .limits_top = true};
	const struct report_options callers = {.function = "vfs_read", .callers = true};
	struct profile *profile = example_profile();

	(void)state;
	expect_csv(profile, machine_report_top, &three,
		   "group,function,flat,cum\r\n"
		   ",\"vfs_read\",40000000,40000000\r\n"
		   ",\"fib\",30000000,30000000\r\n"
		   ",\"inner\",20000000,20000000\r\n");
	expect_csv(profile, machine_report_top, &grouped,
		   "group,function,flat,cum\r\n"
		   "\"app\",\"fib\",30000000,30000000\r\n"
		   "\"<io> & \"\"co\"\"\",\"vfs_read\",40000000,40000000\r\n");
	expect_csv(profile, machine_report_top, &limited,
		   "group,function,flat,cum\r\n,\"main\",0,110000000\r\n");
	expect_csv(profile, machine_report_tree, &three,
		   "id,parent,kind,function,flat,cum\r\n"
		   "0,,\"root\",\"all\",0,110000000\r\n"
		   "1,0,\"user\",\"main\",0,110000000\r\n"
		   "7,1,\"user\",\"read\",0,40000000\r\n");
	expect_csv(profile, machine_report_calls, &callers,
		   "function,caller,callee,cum\r\n"
		   "\"vfs_read\",\"entry\",\"vfs_read\",40000000\r\n");
	profile_free(profile);
}

/* A JSON document that a parser reads back, with all bytes below 0x80 that a terminal may get. */
static void names_are_escaped(void **state)
{
	static const char name[] = "\"\\,;\x1b]0;x\a\r\n\t\xe2\x80\xae=cmd|' /C calc'!A0</script>";
	const struct report_options all = {.rows = 0};
	struct profile *profile = empty_profile();
	uint32_t location = example_location(profile, 0, 1, NULL, name);
	struct json_object *document, *rows, *function;
	char *text;

	(void)state;
	example_sample(profile, &location, 1, 1, "app");
	profile_comment(profile, "a \"comment\"\x1b");
	text = text_of(profile, machine_report_top, &all, MACHINE_JSON);
	for (const char *at = text; *at; at++)
		assert_true(*at == '\n' || (unsigned char)*at >= 0x20);
	document = json_tokener_parse(text);
	assert_non_null(document);
	assert_true(json_object_object_get_ex(document, "rows", &rows));
	assert_true(json_object_object_get_ex(json_object_array_get_idx(rows, 0), "function",
					      &function));
	assert_string_equal(json_object_get_string(function), name);
	json_object_put(document);
	free(text);
	expect_csv(profile, machine_report_top, &all,
		   "group,function,flat,cum\r\n"
		   ",\"\"\"\\,;\\x1b]0;x\\x07\\x0d\\x0a\\x09\\u202e=cmd|' /C calc'!A0</script>\","
		   "10000000,10000000\r\n");
	profile_free(profile);
}

static void unknown_functions_print_nothing(void **state)
{
	const struct report_options unknown = {.function = "mian"};
	struct profile *profile = example_profile();
	struct error error;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(machine_report_calls(profile, &unknown, MACHINE_JSON, out, &error),
			 -ENOENT);
	assert_string_equal(error.text, "no function 'mian'; did you mean 'main'?");
	assert_int_equal(machine_report_tree(profile, &unknown, MACHINE_JSON, out, &error),
			 -ENOENT);
	fclose(out);
	assert_string_equal(text, "");
	free(text);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_have_columns),
		cmocka_unit_test(names_are_escaped),
		cmocka_unit_test(unknown_functions_print_nothing),
	};

	return cmocka_run_group_tests_name("machine_report", tests, NULL, NULL);
}
