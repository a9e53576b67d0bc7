// SPDX-License-Identifier: GPL-2.0
/* Reports without memory: wherever it is missing, there is an error, and nothing is left. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "failing_malloc.h"
#include "report/call_tree.h"
#include "report/text_report.h"
#include "sample_profile.h"

static struct profile *profile;

static int make_tree(const struct calltree_options *options, struct calltree **tree)
{
	struct error error = {""};
	int err = calltree_new(profile, options, tree, &error);

	assert_int_equal(*error.text != '\0', err != 0);
	return err;
}

/* Fails each allocation in turn. Returns their number. */
static unsigned long fail_each(const struct calltree_options *options)
{
	struct calltree *tree;
	unsigned long number;
	bool has_failed;
	int err;

	for (number = 1;; number++) {
		fail_malloc(number, false);
		err = make_tree(options, &tree);
		has_failed = malloc_has_failed();
		fail_malloc(0, false);
		if (!err) {
			assert_int_equal(tree->total, EXAMPLE_CPU);
			calltree_free(tree);
		}
		if (!has_failed)
			break;
		/* The hash table can do without more memory for a while. */
		if (err)
			assert_int_equal(err, -ENOMEM);
	}
	assert_int_equal(err, 0);
	return number - 1;
}

static void call_tree_without_memory_is_an_error(void **state)
{
	const struct calltree_options options = {.sample_type = 1};
	const struct calltree_options grouped = {.sample_type = 1, .group = "comm"};

	(void)state;
	assert_true(fail_each(&options) >= 7);
	assert_true(fail_each(&grouped) >= 7);
}

static void functions_without_memory_are_an_error(void **state)
{
	const struct calltree_options options = {.sample_type = 1};
	struct calltree *tree;
	size_t count;

	(void)state;
	assert_int_equal(make_tree(&options, &tree), 0);
	for (unsigned long number = 1; number <= 2; number++) {
		fail_malloc(number, false);
		assert_null(calltree_functions(tree, 0, &count));
		fail_malloc(0, false);
	}
	calltree_free(tree);
}

static void report_without_memory_is_an_error(void **state)
{
	const struct report_options options = {0};
	FILE *out = fopen("/dev/null", "we");
	unsigned long number = 1, failed = 0;
	bool has_failed = true;

	(void)state;
	assert_non_null(out);
	setvbuf(out, NULL, _IONBF, 0);
	for (; has_failed; number++) {
		struct error error = {""};
		int errs[2];

		fail_malloc(number, false);
		errs[0] = report_top(profile, &options, out, &error);
		has_failed = malloc_has_failed();
		fail_malloc(number, false);
		errs[1] = report_tree(profile, &options, out, &error);
		has_failed = has_failed || malloc_has_failed();
		fail_malloc(0, false);
		for (int i = 0; i < 2; i++) {
			if (errs[i])
				assert_int_equal(errs[i], -ENOMEM);
			failed += errs[i] != 0;
		}
		assert_int_equal(*error.text != '\0', errs[0] || errs[1]);
	}
	/* The functions, or the branches, are the last ones. */
	assert_true(failed >= 2 * 7 + 3);
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(call_tree_without_memory_is_an_error),
		cmocka_unit_test(functions_without_memory_are_an_error),
		cmocka_unit_test(report_without_memory_is_an_error),
	};
	int failed;

	profile = example_profile();
	failed = cmocka_run_group_tests_name("report_memory", tests, NULL, NULL);
	profile_free(profile);
	return failed;
}
