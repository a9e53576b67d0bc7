// SPDX-License-Identifier: GPL-2.0
/* Lines of the files that debug information names. */
#include "report/source_text.h"

#include <errno.h>
#include <unistd.h>

#include "lib/timed_call.h"
#include "sandbox.h"

/* Which call hangs, from 1 on; 0: none. */
static unsigned int hanging;
/* Whether calls are refused, as too many hang. */
static bool refused;

int timed_call(void (*fn)(void *arg), void (*drop)(void *arg), void *arg, int64_t timeout)
{
	assert_true(timeout > 0);
	if (refused)
		return -EAGAIN;
	fn(arg);
	if (!hanging || --hanging)
		return 0;
	drop(arg);
	return -ETIMEDOUT;
}

static void assert_line(struct source_text *text, const char *path, uint32_t line,
			const char *expected)
{
	struct error error = {""};
	const char *found = source_text_line(text, path, line, &error);

	if (!found || strcmp(found, expected))
		fail_msg("%s:%u is %s: %s", path, line, found ? found : "nothing", error.text);
}

static void assert_none(struct source_text *text, const char *path, uint32_t line, const char *why)
{
	struct error error = {""};

	assert_null(source_text_line(text, path, line, &error));
	if (!strstr(error.text, path) || !strstr(error.text, why))
		fail_msg("%s", error.text);
}

static void lines_are_found(void **state)
{
	struct source_text text = {0};
	const char *path = in_sandbox("a.c");
	FILE *stream = fopen(path, "w");
	char expected[16];

	(void)state;
	assert_non_null(stream);
	for (unsigned int i = 1; i <= 200; i++)
		fprintf(stream, i % 7 ? "line %u\n" : "\n", i);
	fputs("last", stream);
	fclose(stream);
	for (unsigned int i = 200; i > 0; i--) {
		snprintf(expected, sizeof(expected), i % 7 ? "line %u" : "%.0u", i % 7 ? i : 0);
		assert_line(&text, path, i, expected);
	}
	assert_line(&text, path, 201, "last");
	assert_none(&text, path, 202, "has no line 202");
	assert_none(&text, path, 0, "has no line 0");
	assert_none(&text, in_sandbox("none.c"), 1, "No such file");
	assert_none(&text, "/dev/null", 1, "Invalid argument");
	run("truncate -s 33M '%s'", in_sandbox("big.c"));
	assert_none(&text, in_sandbox("big.c"), 1, "File too large");
	source_text_clear(&text);
}

/* "#line 5 "./a.c"" names a file again. */
static void names_of_one_file_cost_it_once(void **state)
{
	struct source_text text = {0};
	char path[256] = "";

	(void)state;
	run("printf 'a\\nb\\n' > '%s' && truncate -s 30M '%s'", in_sandbox("a.c"),
	    in_sandbox("a.c"));
	for (unsigned int i = 0; i < 12; i++) {
		snprintf(path, sizeof(path), "%s/%.*sa.c", sandbox, (int)(2 * i),
			 "./././././././././././././");
		assert_line(&text, path, 2, "b");
	}
	assert_int_equal(text.bytes, 30 << 20);
	source_text_clear(&text);
}

static void all_files_have_a_limit(void **state)
{
	struct source_text text = {0};

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		const char *path = in_sandbox("%u.c", i);

		run("printf 'a\\n' > '%s' && truncate -s 30M '%s'", path, path);
		if (i < 2)
			assert_line(&text, path, 1, "a");
		else
			assert_none(&text, path, 1, "more than 64 MiB in total");
	}
	/* A smaller one has room. */
	write_text(in_sandbox("small.c"), "s\n");
	assert_line(&text, in_sandbox("small.c"), 1, "s");
	source_text_clear(&text);
}

static void hanging_files_have_no_lines(void **state)
{
	struct source_text text = {0};

	(void)state;
	write_text(in_sandbox("a.c"), "a\n");
	write_text(in_sandbox("b.c"), "b\n");
	hanging = 1;
	assert_none(&text, in_sandbox("a.c"), 1, "hangs");
	hanging = 2;
	assert_none(&text, in_sandbox("b.c"), 1, "hangs");
	/* It is not tried again. */
	assert_none(&text, in_sandbox("a.c"), 1, "hangs");
	source_text_clear(&text);
}

static void files_that_are_not_tried_say_what_helps(void **state)
{
	struct source_text text = {0};

	(void)state;
	write_text(in_sandbox("a.c"), "a\n");
	refused = true;
	assert_none(&text, in_sandbox("a.c"), 1,
		    "it is not read, as too many file systems hang: try again, or use --no-source");
	refused = false;
	source_text_clear(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_found),
		cmocka_unit_test(names_of_one_file_cost_it_once),
		cmocka_unit_test(all_files_have_a_limit),
		cmocka_unit_test(hanging_files_have_no_lines),
		cmocka_unit_test(files_that_are_not_tried_say_what_helps),
	};

	return cmocka_run_group_tests_name("source_text", tests, make_sandbox, remove_sandbox);
}
