// SPDX-License-Identifier: GPL-2.0
/* Text reports: their head, the rows that they show, and the unit of the values. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report/text_report.h"
#include "sample_profile.h"

typedef int report_fn(const struct profile *profile, const struct report_options *options,
		      FILE *out, struct error *error);

static void expect(const struct profile *profile, report_fn *report,
		   const struct report_options *options, const char *expected)
{
	struct error error;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(report(profile, options, out, &error), 0);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
}

static void add_leaf(struct profile *profile, const char *name, int64_t value)
{
	uint32_t location = example_location(profile, 0, profile->locations.count, NULL, name);

	example_add(profile, &location, 1, 1, value, NULL, 0);
}

static const struct report_options all;

static void head_is_one_line(void **state)
{
	struct profile *profile = empty_profile();

	(void)state;
	add_leaf(profile, "f", 500 * MS);
	/* 2023-11-14 */
	profile->time_ns = 1700000000LL * 1000 * MS + 999 * MS;
	profile->duration_ns = 2000LL * MS;
	expect(profile, report_top, &all,
	       "cpu 500ms in 2s (25.00%), 2023-11-14 22:13:20 UTC\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "     500ms   100%   100%      500ms   100%  f\n");
	profile_free(profile);
}

/* What a profile lacks comes last, without what is 0; other comments only if they are asked for. */
static void losses_come_last(void **state)
{
	const struct report_options verbose = {.verbose = true};
	struct profile *profile = empty_profile();

	(void)state;
	profile_comment(profile, "first");
	profile_comment(profile, "second\tline");
	profile_comment(profile, "throttled: 0 times");
	profile_comment(profile, "lost: 0 (ring full 0, bad reader position 0)");
	profile_comment(profile, "truncated: 12 (kernel 0, exec 10, max-depth 2, stack-copy 0)");
	profile_comment(profile, "merged for lack of memory: stacks 3");
	profile_comment(profile, "ended by an error: no\tmemory");
	add_leaf(profile, "f", 500 * MS);
	expect(profile, report_top, &all,
	       "cpu 500ms\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "     500ms   100%   100%      500ms   100%  f\n"
	       "truncated: 12 (exec 10, max-depth 2)\n"
	       "merged for lack of memory: stacks 3\n"
	       "ended by an error: no\\x09memory\n");
	expect(profile, report_top, &verbose,
	       "cpu 500ms\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "     500ms   100%   100%      500ms   100%  f\n"
	       "first\n"
	       "second\\x09line\n"
	       "throttled: 0 times\n"
	       "lost: 0 (ring full 0, bad reader position 0)\n"
	       "truncated: 12 (kernel 0, exec 10, max-depth 2, stack-copy 0)\n"
	       "merged for lack of memory: stacks 3\n"
	       "ended by an error: no\\x09memory\n");
	profile_free(profile);
}

/* Names are cut at the width of a terminal, behind what is before them in the line. */
static void names_fit_a_terminal(void **state)
{
	const struct report_options eighty = {.columns = 80}, narrow = {.columns = 10};
	const struct report_options ascii = {.columns = 62, .ascii = true};
	const char *name = "std::map<std::string, std::vector<int> >::find(std::string const&)";
	struct profile *profile = empty_profile();

	(void)state;
	add_leaf(profile, name, 4 * MS);
	add_leaf(profile, "g", 4 * MS);
	expect(profile, report_top, &eighty,
	       "cpu 8ms\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "       4ms 50.00% 50.00%        4ms 50.00%  g\n"
	       "       4ms 50.00%   100%        4ms 50.00%  std::map<…>::find(…)\n");
	/* A name has some columns also if the line is too long then. */
	expect(profile, report_top, &narrow,
	       "cpu 8ms\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "       4ms 50.00% 50.00%        4ms 50.00%  g\n"
	       "       4ms 50.00%   100%        4ms 50.00%  …map<…>::find(…)\n");
	expect(profile, report_top, &ascii,
	       "cpu 8ms\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "       4ms 50.00% 50.00%        4ms 50.00%  g\n"
	       "       4ms 50.00%   100%        4ms 50.00%  ~map<~>::find(~)\n");
	expect(profile, report_tree, &ascii,
	       "cpu 8ms\n"
	       "   cum%        cum       flat\n"
	       "   100%        8ms          0  all\n"
	       " 50.00%        4ms        4ms  |- g\n"
	       " 50.00%        4ms        4ms  `- std::map<~>::find(~)\n");
	profile_free(profile);
}

/* What is outermost in a truncated stack is no entry point of a thread. */
static void truncated_stacks_are_apart(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t start = example_location(profile, 0, 1, NULL, "_start");
	uint32_t f = example_location(profile, 0, 2, NULL, "f"), label;

	(void)state;
	label = profile_label(profile,
			      &(struct profile_label){.key = profile_string(profile, "truncated"),
						      .text = profile_string(profile, "exec")});
	example_add(profile, (uint32_t[]){f, start}, 2, 1, 6 * MS, NULL, 0);
	profile_add(profile, profile_stack(profile, &f, 1), profile_label_set(profile, &label, 1),
		    (int64_t[]){1, 2 * MS});
	expect(profile, report_tree, &all,
	       "cpu 8ms\n"
	       "   cum%        cum       flat\n"
	       "   100%        8ms          0  all\n"
	       " 75.00%        6ms          0  ├─ _start\n"
	       " 75.00%        6ms        6ms  │  f\n"
	       " 25.00%        2ms          0  └─ [truncated: exec]\n"
	       " 25.00%        2ms        2ms     f\n");
	profile_free(profile);
}

/* As in perf: from 5 % on red, from 0.5 % on green. */
static void percentages_have_colors(void **state)
{
	const struct report_options colors = {.colors = true};
	struct profile *profile = empty_profile();

	(void)state;
	add_leaf(profile, "f", 950 * MS);
	add_leaf(profile, "g", 46 * MS);
	add_leaf(profile, "h", 4 * MS);
	expect(profile, report_top, &colors,
	       "cpu 1s\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "     950ms \033[31m95.00%\033[m \033[31m95.00%\033[m      950ms "
	       "\033[31m95.00%\033[m  f\n"
	       "      46ms \033[32m 4.60%\033[m \033[31m99.60%\033[m       46ms "
	       "\033[32m 4.60%\033[m  g\n"
	       "       4ms   0.4% \033[31m  100%\033[m        4ms   0.4%  h\n");
	profile_free(profile);
}

/* Other programs write profiles without time and duration. */
static void head_leaves_out_what_is_unknown(void **state)
{
	const struct report_options samples = {.sample_type = "samples"};
	struct profile *profile = empty_profile();

	(void)state;
	add_leaf(profile, "f", 500 * MS);
	expect(profile, report_top, &all,
	       "cpu 500ms\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "     500ms   100%   100%      500ms   100%  f\n");
	/* Below a second is no time. */
	profile->time_ns = 999999999;
	profile->duration_ns = 1;
	expect(profile, report_top, &samples,
	       "samples 1 in 1ns\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "         1   100%   100%          1   100%  f\n");
	profile_free(profile);
}

/* "Showing" is said of a part only. */
static void number_of_functions_is_limited(void **state)
{
	const struct report_options one = {.rows = 1}, two = {.rows = 2}, three = {.rows = 3};
	struct profile *profile = empty_profile();
	const char *both = "cpu 3ms\n"
			   "      flat  flat%   sum%        cum   cum%\n"
			   "       2ms 66.67% 66.67%        2ms 66.67%  f\n"
			   "       1ms 33.33%   100%        1ms 33.33%  g\n";

	(void)state;
	add_leaf(profile, "g", 1 * MS);
	add_leaf(profile, "f", 2 * MS);
	expect(profile, report_top, &all, both);
	expect(profile, report_top, &two, both);
	expect(profile, report_top, &three, both);
	expect(profile, report_top, &one,
	       "cpu 3ms, 1 of 2 functions\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "       2ms 66.67% 66.67%        2ms 66.67%  f\n");
	profile_free(profile);
}

/* The unit of functions suits the smallest flat value, or of cum where flat is 0. */
static void functions_have_the_unit_of_the_smallest_value(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t caller = example_location(profile, 0, 1, NULL, "caller");
	uint32_t f = example_location(profile, 0, 2, NULL, "f");

	(void)state;
	example_add(profile, (uint32_t[]){f, caller}, 2, 1, 20000, NULL, 0);
	add_leaf(profile, "g", 1 * MS);
	add_leaf(profile, "h", 1 * MS);
	expect(profile, report_top, &all,
	       "cpu 2.02ms\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "       1ms 49.50% 49.50%        1ms 49.50%  g\n"
	       "       1ms 49.50% 99.01%        1ms 49.50%  h\n"
	       "    0.02ms  0.99%   100%     0.02ms  0.99%  f\n"
	       "         0     0%   100%     0.02ms  0.99%  caller\n");
	add_leaf(profile, "low", -300000);
	expect(profile, report_top, &(struct report_options){.rows = 3},
	       "cpu 2.32ms, 3 of 5 functions\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "    1000us 43.10% 43.10%     1000us 43.10%  g\n"
	       "    1000us 43.10% 86.21%     1000us 43.10%  h\n"
	       "    -300us 12.93% 73.28%     -300us 12.93%  low\n");
	profile_free(profile);
}

/* The unit of one shown function, and of a value far below the total. */
static void unit_is_that_of_shown_functions(void **state)
{
	struct profile *profile = empty_profile();

	(void)state;
	add_leaf(profile, "f", 800000);
	add_leaf(profile, "g", 700000);
	expect(profile, report_top, &(struct report_options){.rows = 1},
	       "cpu 1.50ms, 1 of 2 functions\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       "     800us 53.33% 53.33%      800us 53.33%  f\n");
	profile_free(profile);
	profile = empty_profile();
	add_leaf(profile, "f", 1990050);
	add_leaf(profile, "g", 9950);
	expect(profile, report_top, &all,
	       "cpu 2ms\n"
	       "      flat  flat%   sum%        cum   cum%\n"
	       " 1990.05us 99.50% 99.50%  1990.05us 99.50%  f\n"
	       "    9.95us   0.5%   100%     9.95us   0.5%  g\n");
	profile_free(profile);
}

static void tree_has_the_unit_of_the_smallest_node(void **state)
{
	const struct report_options half = {.min_percent = 50}, raw = {.raw_values = true};
	struct profile *profile = empty_profile();

	(void)state;
	add_leaf(profile, "f", 1 * MS);
	add_leaf(profile, "g", 800000);
	add_leaf(profile, "h", 200000);
	expect(profile, report_tree, &all,
	       "cpu 2ms\n"
	       "   cum%        cum       flat\n"
	       "   100%     2000us          0  all\n"
	       " 50.00%     1000us     1000us  ├─ f\n"
	       " 40.00%      800us      800us  ├─ g\n"
	       " 10.00%      200us      200us  └─ h\n");
	/* Half is not below half. The only child has no branch. */
	expect(profile, report_tree, &half,
	       "cpu 2ms\n"
	       "   cum%        cum       flat\n"
	       "   100%        2ms          0  all\n"
	       " 50.00%        1ms        1ms  f\n"
	       "(without calls below 50% of the total)\n");
	expect(profile, report_tree, &raw,
	       "cpu 2ms\n"
	       "   cum%                  cum                 flat\n"
	       "   100%              2000000                    0  all\n"
	       " 50.00%              1000000              1000000  ├─ f\n"
	       " 40.00%               800000               800000  ├─ g\n"
	       " 10.00%               200000               200000  └─ h\n");
	profile_free(profile);
}

/* Differences of profiles: a call whose value is 0 has parts that --top shows. */
static void tree_has_negative_values(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t caller = example_location(profile, 0, 1, NULL, "caller");
	uint32_t more = example_location(profile, 0, 2, NULL, "more");
	uint32_t less = example_location(profile, 0, 3, NULL, "less");

	(void)state;
	example_add(profile, (uint32_t[]){more, caller}, 2, 1, 4 * MS, NULL, 0);
	example_add(profile, (uint32_t[]){less, caller}, 2, 1, -4 * MS, NULL, 0);
	add_leaf(profile, "f", -2 * MS);
	expect(profile, report_tree, &(struct report_options){.min_percent = 1},
	       "cpu 10ms\n"
	       "   cum%        cum       flat\n"
	       " 20.00%       -2ms          0  all\n"
	       "     0%          0          0  ├─ caller\n"
	       " 40.00%       -4ms       -4ms  │  ├─ less\n"
	       " 40.00%        4ms        4ms  │  └─ more\n"
	       " 20.00%       -2ms       -2ms  └─ f\n"
	       "(without calls below 1% of the total)\n");
	profile_free(profile);
}

static void number_of_lines_is_limited(void **state)
{
	const struct report_options two = {.rows = 2}, three = {.rows = 3};
	struct profile *profile = empty_profile();

	(void)state;
	add_leaf(profile, "f", 2 * MS);
	add_leaf(profile, "g", 1 * MS);
	expect(profile, report_tree, &two,
	       "cpu 3ms\n"
	       "   cum%        cum       flat\n"
	       "   100%        3ms          0  all\n"
	       " 66.67%        2ms        2ms  ├─ f\n"
	       "(only the first 2 lines)\n");
	expect(profile, report_tree, &three,
	       "cpu 3ms\n"
	       "   cum%        cum       flat\n"
	       "   100%        3ms          0  all\n"
	       " 66.67%        2ms        2ms  ├─ f\n"
	       " 33.33%        1ms        1ms  └─ g\n");
	profile_free(profile);
}

/* Hidden calls leave no branch; the next one is below the right parent. */
static void hidden_calls_leave_no_branch(void **state)
{
	const struct report_options ten = {.min_percent = 10};
	struct profile *profile = empty_profile();
	uint32_t a = example_location(profile, 0, 1, NULL, "a");
	uint32_t b = example_location(profile, 0, 2, NULL, "b");
	uint32_t c = example_location(profile, 0, 3, NULL, "c");
	uint32_t d = example_location(profile, 0, 4, NULL, "d");

	(void)state;
	example_add(profile, (uint32_t[]){c, b, a}, 3, 1, 30 * MS, NULL, 0);
	example_add(profile, (uint32_t[]){d, b, a}, 3, 1, 25 * MS, NULL, 0);
	example_add(profile, (uint32_t[]){c, a}, 2, 1, 5 * MS, NULL, 0);
	example_add(profile, (uint32_t[]){b, d}, 2, 1, 15 * MS, NULL, 0);
	example_add(profile, (uint32_t[]){c, d}, 2, 1, 14 * MS, NULL, 0);
	example_add(profile, (uint32_t[]){a, c}, 2, 1, 11 * MS, NULL, 0);
	expect(profile, report_tree, &ten,
	       "cpu 100ms\n"
	       "   cum%        cum       flat\n"
	       "   100%      100ms          0  all\n"
	       " 60.00%       60ms          0  ├─ a\n"
	       " 55.00%       55ms          0  │  b\n"
	       " 30.00%       30ms       30ms  │  ├─ c\n"
	       " 25.00%       25ms       25ms  │  └─ d\n"
	       " 29.00%       29ms          0  ├─ d\n"
	       " 15.00%       15ms       15ms  │  ├─ b\n"
	       " 14.00%       14ms       14ms  │  └─ c\n"
	       " 11.00%       11ms          0  └─ c\n"
	       " 11.00%       11ms       11ms     a\n"
	       "(without calls below 10% of the total)\n");
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(head_is_one_line),
		cmocka_unit_test(losses_come_last),
		cmocka_unit_test(names_fit_a_terminal),
		cmocka_unit_test(percentages_have_colors),
		cmocka_unit_test(truncated_stacks_are_apart),
		cmocka_unit_test(head_leaves_out_what_is_unknown),
		cmocka_unit_test(number_of_functions_is_limited),
		cmocka_unit_test(functions_have_the_unit_of_the_smallest_value),
		cmocka_unit_test(unit_is_that_of_shown_functions),
		cmocka_unit_test(tree_has_the_unit_of_the_smallest_node),
		cmocka_unit_test(tree_has_negative_values),
		cmocka_unit_test(number_of_lines_is_limited),
		cmocka_unit_test(hidden_calls_leave_no_branch),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests_name("text_report", tests, NULL, NULL);
}
