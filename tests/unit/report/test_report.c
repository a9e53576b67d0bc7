// SPDX-License-Identifier: GPL-2.0
/* Reports of a profile whose values can be computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>

#include "cli/commands.h"
#include "lib/utf8.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "profile_file.h"
#include "report/call_tree.h"
#include "report/text_report.h"
#include "report/units.h"
#include "sample_profile.h"
#include "scratch.h"

static struct profile *read_back(void **state, struct profile *built)
{
	char *path = scratch_file(state, "profile");
	struct profile *profile;

	assert_int_equal(pprof_write(built, path, NULL, NULL), 0);
	profile = pprof_read(path, NULL);
	assert_non_null(profile);
	profile_free(built);
	free(path);
	return profile;
}

typedef int (*report_function)(const struct profile *, const struct report_options *, FILE *,
			       struct error *);

static void assert_report(const struct profile *profile, report_function report,
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

static void report_top_lists_functions(void **state)
{
	struct profile *profile = read_back(state, example_profile());
	const struct report_options all = {0}, three = {.rows = 3};

	assert_report(profile, report_top, &all,
		      "cpu 110ms in 1s (11.00%), 2023-11-14 22:13:20 UTC\n"
		      "      flat  flat%   sum%        cum   cum%\n"
		      "      40ms 36.36% 36.36%       40ms 36.36%  vfs_read\n"
		      "      30ms 27.27% 63.64%       30ms 27.27%  fib\n"
		      "      20ms 18.18% 81.82%       20ms 18.18%  inner\n"
		      "      10ms  9.09% 90.91%       30ms 27.27%  outer\n"
		      "      10ms  9.09%   100%       10ms  9.09%  libx.so+0x1234\n"
		      "         0     0%   100%      110ms   100%  main\n"
		      "         0     0%   100%       40ms 36.36%  entry\n"
		      "         0     0%   100%       40ms 36.36%  read\n");
	assert_report(profile, report_top, &three,
		      "cpu 110ms in 1s (11.00%), 2023-11-14 22:13:20 UTC, 3 of 8 functions\n"
		      "      flat  flat%   sum%        cum   cum%\n"
		      "      40ms 36.36% 36.36%       40ms 36.36%  vfs_read\n"
		      "      30ms 27.27% 63.64%       30ms 27.27%  fib\n"
		      "      20ms 18.18% 81.82%       20ms 18.18%  inner\n");
	profile_free(profile);
}

static void report_top_of_another_sample_type(void **state)
{
	struct profile *profile = read_back(state, example_profile());
	const struct report_options samples = {.rows = 1, .sample_type = "samples"};
	const struct report_options raw = {.rows = 1, .raw_values = true};
	const struct report_options wrong = {.sample_type = "wrong"};

	assert_report(profile, report_top, &samples,
		      "samples 11 in 1s, 2023-11-14 22:13:20 UTC, 1 of 8 functions\n"
		      "      flat  flat%   sum%        cum   cum%\n"
		      "         4 36.36% 36.36%          4 36.36%  vfs_read\n");
	assert_report(profile, report_top, &raw,
		      "cpu 110ms in 1s (11.00%), 2023-11-14 22:13:20 UTC, 1 of 8 functions\n"
		      "                flat  flat%   sum%                  cum   cum%\n"
		      "            40000000 36.36% 36.36%             40000000 36.36%  vfs_read\n");
	assert_int_equal(report_top(profile, &wrong, stdout, NULL), -EINVAL);
	profile_free(profile);
}

static void assert_unit(void **state, int64_t small, int64_t large, const char *expected)
{
	const struct report_options options = {0};
	struct profile *built = empty_profile();
	uint32_t a = example_location(built, 0, 1, NULL, "small");
	uint32_t b = example_location(built, 0, 2, NULL, "large");
	struct profile *profile;

	built->duration_ns = 1000000000;
	example_add(built, &a, 1, 1, small, NULL, 0);
	example_add(built, &b, 1, 1, large, NULL, 0);
	profile = read_back(state, built);
	assert_report(profile, report_top, &options, expected);
	profile_free(profile);
}

/* The unit suits the smallest value, unless the total is more than its hundredfold. */
static void report_chooses_one_unit(void **state)
{
	assert_unit(state, 10000000, 990000000,
		    "cpu 1s in 1s (100%)\n"
		    "      flat  flat%   sum%        cum   cum%\n"
		    "     990ms 99.00% 99.00%      990ms 99.00%  large\n"
		    "      10ms  1.00%   100%       10ms  1.00%  small\n");
	assert_unit(state, 10000000, 991000000,
		    "cpu 1s in 1s (100.10%)\n"
		    "      flat  flat%   sum%        cum   cum%\n"
		    "     0.99s 99.00% 99.00%      0.99s 99.00%  large\n"
		    "     0.01s     1%   100%      0.01s     1%  small\n");
}

static void report_tree_draws_calls(void **state)
{
	struct profile *profile = read_back(state, example_profile());
	const struct report_options ten = {.min_percent = 10};
	const struct report_options grouped = {.group = "comm", .rows = 4};

	assert_report(profile, report_tree, &ten,
		      "cpu 110ms in 1s (11.00%), 2023-11-14 22:13:20 UTC\n"
		      "   cum%        cum       flat\n"
		      "   100%      110ms          0  all\n"
		      "   100%      110ms          0  main\n"
		      " 36.36%       40ms          0  ├─ read\n"
		      " 36.36%       40ms          0  │  entry\n"
		      " 36.36%       40ms       40ms  │  vfs_read\n"
		      " 27.27%       30ms          0  ├─ fib\n"
		      " 27.27%       30ms          0  │  fib\n"
		      " 27.27%       30ms       30ms  │  fib\n"
		      " 27.27%       30ms       10ms  └─ outer\n"
		      " 18.18%       20ms       20ms     inner\n"
		      "(without calls below 10% of the total)\n");
	assert_report(profile, report_tree, &grouped,
		      "cpu 110ms in 1s (11.00%), 2023-11-14 22:13:20 UTC\n"
		      "   cum%        cum       flat\n"
		      "   100%      110ms          0  all\n"
		      " 54.55%       60ms          0  ├─ app\n"
		      " 54.55%       60ms          0  │  main\n"
		      " 27.27%       30ms          0  │  ├─ fib\n"
		      "(only the first 4 lines)\n");
	profile_free(profile);
}

/* Twice the time of the example: as much of it in fib, less in vfs_read, most in a new function. */
static struct profile *changed_profile(void)
{
	struct profile *profile = empty_profile();
	uint32_t main = example_location(profile, 0, 0x400100, NULL, "main");
	uint32_t fib = example_location(profile, 0, 0x400200, NULL, "fib");
	uint32_t vfs = example_location(profile, 0, 0x400300, NULL, "vfs_read");
	uint32_t added = example_location(profile, 0, 0x400400, NULL, "new");

	example_add(profile, (uint32_t[]){fib, main}, 2, 6, 60 * MS, NULL, 0);
	example_add(profile, (uint32_t[]){vfs, main}, 2, 2, 20 * MS, NULL, 0);
	example_add(profile, (uint32_t[]){added, main}, 2, 14, 140 * MS, NULL, 0);
	profile->duration_ns = 2000LL * MS;
	return profile;
}

static void differences_are_listed(void **state)
{
	struct profile *profile = read_back(state, changed_profile());
	struct profile *base = read_back(state, example_profile());
	struct report_options options = {.base = base, .rows = 4, .all = true};

	/* 220 ms are scaled to 110 ms. */
	assert_report(
		profile, report_diff, &options,
		"cpu 220ms in 2s (11.00%), compared with 110ms, scaled by 0.5, 4 of 7 functions\n"
		"22 samples, compared with 11 samples; +- is the interval of 95%\n"
		"without blocks of time ('stackbeat record --blocks'), samples count as a 10th of "
		"independent ones\n"
		"      flat  flat%      +-        cum   cum%      +-\n"
		"     +70ms 63.64% 113.12%      +70ms 63.64% 113.12%  new\n"
		"     -30ms 27.27%  88.28%      -30ms 27.27%  88.28%  vfs_read\n"
		"     -20ms 18.18%  54.61%      -20ms 18.18%  54.61%  inner\n"
		"     -10ms  9.09%  39.23%      -30ms 27.27%  65.80%  outer\n");
	options.all = false;
	assert_report(
		profile, report_diff, &options,
		"cpu 220ms in 2s (11.00%), compared with 110ms, scaled by 0.5, 0 of 7 functions\n"
		"22 samples, compared with 11 samples; +- is the interval of 95%\n"
		"without blocks of time ('stackbeat record --blocks'), samples count as a 10th of "
		"independent ones\n"
		"no difference: 7 functions differ by no more than noise (--all shows them)\n");
	options = (struct report_options){.base = profile};
	assert_report(
		profile, report_diff, &options,
		"cpu 220ms in 2s (11.00%), compared with 220ms, scaled by 1\n"
		"22 samples, compared with 22 samples; +- is the interval of 95%\n"
		"without blocks of time ('stackbeat record --blocks'), samples count as a 10th of "
		"independent ones\n"
		"no difference\n");
	/* Values that are not scaled, as integers. */
	options = (struct report_options){
		.base = base, .absolute = true, .all = true, .raw_values = true, .rows = 1};
	assert_report(
		profile, report_diff, &options,
		"cpu 220ms in 2s (11.00%), compared with 110ms, 1 of 9 functions\n"
		"22 samples, compared with 11 samples; +- is the interval of 95%\n"
		"without blocks of time ('stackbeat record --blocks'), samples count as a 10th of "
		"independent ones\n"
		"                flat  flat%      +-                  cum   cum%      +-\n"
		"           140000000 127.27%  82.06%            140000000 127.27%  82.06%  new\n");
	profile_free(profile);
	profile_free(base);
}

/* Calls are sorted and omitted by the sum of both profiles. */
static void differences_are_a_tree(void **state)
{
	struct profile *profile = read_back(state, changed_profile());
	struct profile *base = read_back(state, example_profile());
	struct report_options options = {.base = base, .min_percent = 10};

	assert_report(profile, report_tree, &options,
		      "cpu 220ms in 2s (11.00%), compared with 110ms, scaled by 0.5\n"
		      "  base%   cum%        cum       flat\n"
		      "   100%   100%          0          0  all\n"
		      "   100%   100%          0          0  main\n"
		      "     0% 63.64%      +70ms      +70ms  ├─ new\n"
		      " 27.27% 27.27%          0      +30ms  ├─ fib\n"
		      " 27.27%     0%      -30ms          0  │  fib\n"
		      " 27.27%     0%      -30ms      -30ms  │  fib\n"
		      " 36.36%     0%      -40ms          0  ├─ read\n"
		      " 36.36%     0%      -40ms          0  │  entry\n"
		      " 36.36%     0%      -40ms      -40ms  │  vfs_read\n"
		      " 27.27%     0%      -30ms      -10ms  └─ outer\n"
		      "(without calls below 10% of the total)\n");
	profile_free(profile);
	profile_free(base);
}

/* A third of each of 7 values of 10: the sum of the rounded values is the total of the base. */
static void scaled_values_keep_their_sum(void **state)
{
	struct profile *profile = empty_profile(), *base = empty_profile();
	struct calltree_options options = {.sample_type = 1, .base = base, .base_type = 1};
	uint32_t location = example_location(base, 0, 1, NULL, "f");
	struct calltree *tree;

	(void)state;
	example_add(base, &location, 1, 1, 23, NULL, 0);
	for (uint32_t i = 0; i < 7; i++) {
		location = example_location(profile, 0, i, NULL, (char[]){(char)('a' + i), 0});
		example_add(profile, &location, 1, 1, 10, NULL, 0);
	}
	assert_int_equal(calltree_new(profile, &options, &tree, NULL), 0);
	assert_int_equal(tree->unscaled_total, 70);
	assert_int_equal(tree->total, 23);
	assert_int_equal(tree->base_total, 23);
	for (size_t i = 1; i < tree->node_count; i++)
		assert_true(tree->nodes[i].base_self || tree->nodes[i].self == 3 ||
			    tree->nodes[i].self == 4);
	calltree_free(tree);
	profile_free(profile);
	profile_free(base);
}

static void types_of_differences_must_be_equal(void **state)
{
	struct profile *profile = example_profile(), *base = profile_new();
	struct calltree_options options = {.base = base};
	struct error error;

	(void)state;
	profile_add_type(base, "samples", "count");
	assert_int_equal(calltree_find_types(profile, NULL, &options, &error), -EINVAL);
	assert_string_equal(error.text,
			    "the base: no sample type 'cpu' in the profile: it has samples");
	assert_int_equal(calltree_find_types(profile, "samples", &options, &error), 0);
	profile_add_type(base, "cpu", "milliseconds");
	assert_int_equal(calltree_find_types(profile, NULL, &options, &error), -EINVAL);
	assert_string_equal(error.text,
			    "'cpu' has the unit 'nanoseconds', and 'milliseconds' in the base");
	profile_free(base);
	base = example_profile();
	options.base = base;
	assert_int_equal(calltree_find_types(profile, NULL, &options, &error), 0);
	assert_int_equal(options.sample_type, PROFILE_CPU);
	assert_int_equal(options.base_type, PROFILE_CPU);
	profile_free(profile);
	profile_free(base);
}

static int64_t flat_of(const struct calltree *tree, const char *name, int64_t *cum)
{
	struct calltree_function *functions;
	int64_t flat = -1;
	size_t count, i;

	functions = calltree_functions(tree, 0, &count);
	*cum = -1;
	for (i = 0; i < count; i++) {
		if (strcmp(tree->names[functions[i].name], name))
			continue;
		flat = functions[i].flat;
		*cum = functions[i].cum;
	}
	free(functions);
	return flat;
}

/* a b a b, and b a: each sample counts once for each function. */
static void recursion_counts_once_per_function(void **state)
{
	struct profile *built = empty_profile();
	uint32_t a = example_location(built, 0, 1, NULL, "a");
	uint32_t b = example_location(built, 0, 2, NULL, "b");
	struct calltree_options options = {.sample_type = 1};
	struct profile *profile;
	struct calltree *tree;
	int64_t cum;

	example_add(built, (uint32_t[]){b, a, b, a}, 4, 1, 100, NULL, 0);
	example_add(built, (uint32_t[]){a, b}, 2, 1, 10, NULL, 0);
	profile = read_back(state, built);
	assert_int_equal(calltree_new(profile, &options, &tree, NULL), 0);
	assert_int_equal(tree->total, 110);
	assert_int_equal(flat_of(tree, "a", &cum), 10);
	assert_int_equal(cum, 110);
	assert_int_equal(flat_of(tree, "b", &cum), 100);
	assert_int_equal(cum, 110);
	calltree_free(tree);
	profile_free(profile);
}

/* Values at the limits, and below 0 as in differences of profiles. */
static void extreme_values_saturate(void **state)
{
	struct profile *built = empty_profile();
	uint32_t a = example_location(built, 0, 1, NULL, "a");
	uint32_t b = example_location(built, 0, 2, NULL, "b");
	struct calltree_options options = {.sample_type = 1};
	struct profile *profile;
	struct calltree *tree;
	int64_t cum;

	example_add(built, &a, 1, 1, INT64_MAX, NULL, 0);
	example_add(built, &a, 1, 1, INT64_MAX, NULL, 0);
	example_add(built, &b, 1, 1, INT64_MIN, NULL, 0);
	example_add(built, NULL, 0, 1, 0, NULL, 0);
	profile = read_back(state, built);
	assert_int_equal(calltree_new(profile, &options, &tree, NULL), 0);
	assert_int_equal(tree->total, INT64_MAX);
	assert_int_equal(flat_of(tree, "a", &cum), INT64_MAX);
	assert_int_equal(flat_of(tree, "b", &cum), INT64_MIN);
	calltree_free(tree);

	options.only_positive = true;
	assert_int_equal(calltree_new(profile, &options, &tree, NULL), 0);
	assert_int_equal(flat_of(tree, "b", &cum), -1);
	calltree_free(tree);
	profile_free(profile);
}

/* One location of 30 functions, 30 times in a stack: 900 nodes of a few bytes. */
static void too_large_tree_is_an_error(void **state)
{
	struct calltree_options options = {.sample_type = 1, .node_max = 900};
	struct profile *built = empty_profile();
	struct profile_line lines[30];
	struct profile *profile;
	uint32_t stack[30], location;
	struct calltree *tree;
	struct error error;

	for (size_t i = 0; i < 30; i++)
		lines[i] = (struct profile_line){.function = example_function(built, "f", "f.c"),
						 .line = 1};
	location = profile_location(built, 0, 0x1000, lines, 30);
	for (size_t i = 0; i < 30; i++)
		stack[i] = location;
	example_add(built, stack, 30, 1, 1, NULL, 0);
	profile = read_back(state, built);
	assert_int_equal(calltree_new(profile, &options, &tree, &error), -E2BIG);
	assert_string_equal(error.text,
			    "the call tree is too large: its stacks or names are no program's");
	options.node_max = 901;
	assert_int_equal(calltree_new(profile, &options, &tree, &error), 0);
	assert_int_equal(tree->node_count, 901);
	calltree_free(tree);
	/* "all", and 30 times "f". */
	options.name_bytes_max = 4 + 30 * 2 - 1;
	assert_int_equal(calltree_new(profile, &options, &tree, &error), -E2BIG);
	options.name_bytes_max++;
	assert_int_equal(calltree_new(profile, &options, &tree, &error), 0);
	calltree_free(tree);
	profile_free(profile);
}

static void empty_profile_is_reported(void **state)
{
	struct profile *profile = read_back(state, empty_profile());
	const struct report_options options = {.min_percent = 0.5};
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(report_top(profile, &options, out, NULL), 0);
	assert_int_equal(report_tree(profile, &options, out, NULL), 0);
	fclose(out);
	assert_non_null(strstr(text, "cpu 0"));
	free(text);
	profile_free(profile);
}

static void frames_have_kinds(void **state)
{
	struct profile *profile = read_back(state, example_profile());
	struct calltree_options options = {.sample_type = 1, .group = "comm"};
	struct calltree *tree;
	uint32_t node;

	assert_int_equal(calltree_new(profile, &options, &tree, NULL), 0);
	for (node = 0; node != CALLTREE_NONE; node = calltree_next(tree, node, false)) {
		const char *name = tree->names[tree->nodes[node].name];
		enum frame_kind expected = FRAME_USER;

		if (!strcmp(name, "all"))
			expected = FRAME_ROOT;
		if (!strcmp(name, "app") || !strcmp(name, EXAMPLE_COMM))
			expected = FRAME_GROUP;
		if (!strcmp(name, "entry") || !strcmp(name, "vfs_read"))
			expected = FRAME_KERNEL;
		if (!strcmp(name, "libx.so+0x1234"))
			expected = FRAME_UNRESOLVED;
		assert_int_equal(tree->nodes[node].kind, expected);
	}
	assert_true(calltree_has_label(profile, "pid"));
	assert_false(calltree_has_label(profile, "cpu"));
	calltree_free(tree);
	profile_free(profile);
}

/* Names in brackets are of the kernel, but for user memory, and for what was merged. */
static void names_in_brackets_have_kinds(void **state)
{
	static const struct {
		const char *file;
		enum frame_kind kind;
	} files[] = {
		{"[kernel.kallsyms]", FRAME_KERNEL},
		{"[ext4]", FRAME_KERNEL},
		{"[vdso]", FRAME_USER},
		{"[anon]", FRAME_USER},
		{"[merged]", FRAME_USER},
		{"[file]", FRAME_USER},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct profile *profile = empty_profile();
		struct calltree_options options = {.sample_type = 1};
		uint32_t mapping = example_mapping(profile, 0x1000, 0x2000, 0, files[i].file, "");
		uint32_t location = example_location(profile, mapping, 0x1000, NULL, "f");
		struct calltree *tree;
		bool found = false;

		example_add(profile, &location, 1, 1, 1, NULL, 0);
		assert_int_equal(calltree_new(profile, &options, &tree, NULL), 0);
		for (uint32_t node = 0; node != CALLTREE_NONE;
		     node = calltree_next(tree, node, false)) {
			if (strcmp(tree->names[tree->nodes[node].name], "f"))
				continue;
			assert_int_equal(tree->nodes[node].kind, files[i].kind);
			found = true;
		}
		assert_true(found);
		calltree_free(tree);
		profile_free(profile);
	}
}

/* Code without a function has the name of its file, without the directory. */
static void unresolved_frames_have_the_file_name(void **state)
{
	static const struct {
		const char *file, *name;
	} cases[] = {
		{"/usr/lib/liba.so", "liba.so+0x1"},
		{"relative", "relative+0x1"},
		{"/", "/+0x1"},
		{"/only/a/directory/", "/only/a/directory/+0x1"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile *built = empty_profile(), *profile;
		uint32_t mapping = example_mapping(built, 0, 0x1000, 0, cases[i].file, NULL);
		uint32_t location = profile_location(built, mapping, 1, NULL, 0);
		struct calltree_options options = {.sample_type = 1};
		struct calltree *tree;
		int64_t cum;

		example_add(built, &location, 1, 1, 5, NULL, 0);
		profile = read_back(state, built);
		assert_int_equal(calltree_new(profile, &options, &tree, NULL), 0);
		assert_int_equal(flat_of(tree, cases[i].name, &cum), 5);
		calltree_free(tree);
		profile_free(profile);
	}
}

static void values_have_units(void **state)
{
	static const struct {
		int64_t value;
		const char *unit, *expected;
	} values[] = {
		{0, "nanoseconds", "0"},
		{1, "nanoseconds", "1ns"},
		{1500, "nanoseconds", "1.50us"},
		{10000000, "nanoseconds", "10ms"},
		{61000000000, "nanoseconds", "61s"},
		{7200, "seconds", "2hrs"},
		{7, "secs", "7s"},
		{7, "S", "7s"},
		{7, "ss", "7ss"},
		{7, "secx", "7secx"},
		{3, "B", "3B"},
		{3, "bs", "3bs"},
		{-2500, "ms", "-2.50s"},
		{1536, "bytes", "1.50kB"},
		{12, "count", "12"},
		{12, "apples", "12apples"},
		{12, "", "12"},
		{999, "ns", "999ns"},
		{1000, "ns", "1us"},
		{1024, "b", "1kB"},
		{1, "hrs", "1hrs"},
		/* Cut, to the size of the text. */
		{12, "a unit of more than forty-eight characters: it is cut",
		 "12a unit of more than forty-eight characters: i"},
	};
	char text[UNIT_TEXT_MAX];
	struct unit unit;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(values) / sizeof(*values); i++)
		assert_string_equal(unit_format_best(text, values[i].value, values[i].unit),
				    values[i].expected);
	assert_string_equal(percent_format(text, 1, 3), "33.33%");
	assert_string_equal(percent_format(text, 9999, 10000), "100%");
	assert_string_equal(percent_format(text, 1, 1000), "0.1%");
	assert_string_equal(percent_format(text, 1, 0), "0%");
	assert_string_equal(percent_format(text, 9995, 10000), "100%");
	assert_string_equal(percent_format(text, 9994, 10000), "99.94%");
	assert_string_equal(percent_format(text, 10006, 10000), "100.06%");
	assert_string_equal(percent_format(text, 1, 100), "1.00%");
	assert_string_equal(percent_format(text, -1, 2), "50.00%");
	unit = unit_choose("nanoseconds", 1e9);
	assert_string_equal(unit_format(text, -1, &unit), "0");
	assert_string_equal(unit_format(text, 1, &unit), "0");
	assert_string_equal(unit_format(text, 10000000, &unit), "0.01s");
	unit = unit_choose("nanoseconds", -2e9);
	assert_string_equal(unit_format(text, -2000000000, &unit), "-2s");
}

static void control_characters_are_escaped(void **state)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	utf8_print(out, "a\x1b[31m\n\x7f\xc2\x9b\xe2\x80\xae\xff ü\u061c\u200e\u200f\u200d");
	fclose(out);
	assert_string_equal(text,
			    "a\\x1b[31m\\x0a\\x7f\\x9b\\u202e\\xff ü\\u061c\\u200e\\u200f\u200d");
	free(text);
}

/* Runs a command with its output and errors discarded. */
static int run_quietly(int (*command)(int, char **), const char *first, const char *second,
		       const char *third)
{
	char *argv[] = {"command", (char *)first, (char *)second, (char *)third, NULL};
	int argc = 1, saved[2], null = open("/dev/null", O_WRONLY), status;

	while (argv[argc])
		argc++;
	fflush(NULL);
	saved[0] = dup(STDOUT_FILENO);
	saved[1] = dup(STDERR_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	status = command(argc, argv);
	fflush(NULL);
	dup2(saved[0], STDOUT_FILENO);
	dup2(saved[1], STDERR_FILENO);
	close(saved[0]);
	close(saved[1]);
	close(null);
	return status;
}

/* Returns what the command prints, to be freed. */
static char *output_of(int (*command)(int, char **), void **state, const char *option,
		       const char *path)
{
	char *argv[] = {"command", (char *)option, (char *)path, NULL};
	char *printed = scratch_file(state, "printed"), *text = calloc(1, 1 << 16);
	int out = open(printed, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int saved = dup(STDOUT_FILENO);

	assert_non_null(text);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	assert_int_equal(command(3, argv), STATUS_OK);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_true(pread(out, text, (1 << 16) - 1, 0) > 0);
	close(out);
	unlink(printed);
	free(printed);
	return text;
}

static void options_select_the_report(void **state)
{
	static const struct {
		const char *option, *expected, *excluded;
	} cases[] = {
		{"-n2", "40ms 36.36% 36.36%       40ms 36.36%  vfs_read\n", "inner"},
		{"-n0", "10ms  9.09%   100%       10ms  9.09%  libx.so+0x1234\n", "Showing"},
		{"--raw-values", " 40000000 36.36% ", "40ms"},
		{"--sample-type=samples", "         4 36.36% ", "40ms"},
		{"--tree", " 36.36%       40ms       40ms  │  vfs_read\n", "flat%"},
	};
	char *path = scratch_file(state, "profile");

	move_profile(example_profile(), path);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = output_of(cmd_report, state, cases[i].option, path);

		if (!strstr(text, cases[i].expected) || strstr(text, cases[i].excluded))
			fail_msg("%s: %s", cases[i].option, text);
		free(text);
	}
	free(path);
}

static void exit_statuses(void **state)
{
	char *path = scratch_file(state, "profile");

	move_profile(example_profile(), path);
	assert_int_equal(run_quietly(cmd_report, path, NULL, NULL), STATUS_OK);
	assert_int_equal(run_quietly(cmd_report, "--tree", path, NULL), STATUS_OK);
	assert_int_equal(run_quietly(cmd_report, "--help", NULL, NULL), STATUS_OK);
	assert_int_equal(run_quietly(cmd_report, "/nonexistent", NULL, NULL), STATUS_FAILED);
	assert_int_equal(run_quietly(cmd_report, "--diff", path, path), STATUS_OK);
	assert_int_equal(run_quietly(cmd_report, "--diff", "/nonexistent", path), STATUS_FAILED);
	assert_int_equal(run_quietly(cmd_report, "--diff=-", "-", NULL), STATUS_USAGE);
	assert_int_equal(run_quietly(cmd_report, "--absolute", path, NULL), STATUS_USAGE);
	assert_int_equal(run_quietly(cmd_report, "--sample-type=x", path, NULL), STATUS_FAILED);
	assert_int_equal(run_quietly(cmd_report, NULL, NULL, NULL), STATUS_FAILED);
	assert_int_equal(run_quietly(cmd_report, path, path, NULL), STATUS_OK);
	assert_int_equal(run_quietly(cmd_report, "--wrong", path, NULL), STATUS_USAGE);
	assert_int_equal(run_quietly(cmd_report, "-n", "-1", path), STATUS_USAGE);
	assert_int_equal(run_quietly(cmd_report, "-n", "1x", path), STATUS_USAGE);
	assert_int_equal(run_quietly(cmd_report, "--min-percent", "101", path), STATUS_USAGE);
	assert_int_equal(run_quietly(cmd_report, "--min-percent", "nan", path), STATUS_USAGE);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(report_top_lists_functions),
		SCRATCH_TEST(report_top_of_another_sample_type),
		SCRATCH_TEST(report_chooses_one_unit),
		SCRATCH_TEST(report_tree_draws_calls),
		SCRATCH_TEST(differences_are_listed),
		SCRATCH_TEST(differences_are_a_tree),
		SCRATCH_TEST(scaled_values_keep_their_sum),
		SCRATCH_TEST(types_of_differences_must_be_equal),
		SCRATCH_TEST(recursion_counts_once_per_function),
		SCRATCH_TEST(extreme_values_saturate),
		SCRATCH_TEST(too_large_tree_is_an_error),
		SCRATCH_TEST(empty_profile_is_reported),
		SCRATCH_TEST(frames_have_kinds),
		cmocka_unit_test(names_in_brackets_have_kinds),
		SCRATCH_TEST(unresolved_frames_have_the_file_name),
		cmocka_unit_test(values_have_units),
		cmocka_unit_test(control_characters_are_escaped),
		SCRATCH_TEST(options_select_the_report),
		SCRATCH_TEST(exit_statuses),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
