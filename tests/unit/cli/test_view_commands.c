// SPDX-License-Identifier: GPL-2.0
/* report, flamegraph, symbolize and archive, with files. */
#include <errno.h>

#include "command.h"
#include "pprof/pprof_reader.h"
#include "profile_file.h"
#include "sample_profile.h"

/* Runs a command with the file NAME of the sandbox, after other words. */
static int run_with(int (*command)(int argc, char **argv), const char *words, const char *name)
{
	char line[512];

	snprintf(line, sizeof(line), "%s %s", words, in_sandbox("%s", name));
	return run_command(command, line);
}

static size_t count_lines(void)
{
	size_t count = 0;

	for (const char *at = output; *at; at++)
		count += *at == '\n';
	return count;
}

static void report_prints_functions_or_a_tree(void **state)
{
	size_t all, few;

	(void)state;
	move_profile(example_profile(), in_sandbox("a.pb.gz"));
	assert_int_equal(run_with(cmd_report, "report", "a.pb.gz"), STATUS_OK);
	assert_string_equal(messages, "");
	assert_non_null(strstr(output, "vfs_read"));
	all = count_lines();
	assert_int_equal(run_with(cmd_report, "report -n 2", "a.pb.gz"), STATUS_OK);
	few = count_lines();
	assert_int_equal(run_with(cmd_report, "report -n 3", "a.pb.gz"), STATUS_OK);
	assert_int_equal(count_lines(), few + 1);
	assert_true(few < all);
	assert_int_equal(run_with(cmd_report, "report --tree", "a.pb.gz"), STATUS_OK);
	assert_non_null(strstr(output, "outer"));
	all = count_lines();
	assert_int_equal(run_with(cmd_report, "report --tree --top", "a.pb.gz"), STATUS_OK);
	assert_int_equal(run_with(cmd_report, "report --tree --min-percent 100", "a.pb.gz"),
			 STATUS_OK);
	assert_null(strstr(output, "outer"));
	assert_true(count_lines() < all);
	assert_int_equal(run_with(cmd_report, "report --tree --min-percent 0", "a.pb.gz"),
			 STATUS_OK);
	/* There is no line that says what is left out. */
	assert_int_equal(count_lines(), all - 1);
	assert_int_equal(run_with(cmd_report, "report --raw-values", "a.pb.gz"), STATUS_OK);
	assert_non_null(strstr(output, "110000000"));
	assert_int_equal(run_with(cmd_report, "report --min-percent 100.1", "a.pb.gz"),
			 STATUS_USAGE);
	assert_int_equal(run_with(cmd_report, "report --min-percent -1", "a.pb.gz"), STATUS_USAGE);
}

static void report_prints_stacks_for_other_tools(void **state)
{
	(void)state;
	move_profile(example_profile(), in_sandbox("a.pb.gz"));
	assert_int_equal(run_with(cmd_report, "report --folded", "a.pb.gz"), STATUS_OK);
	assert_string_equal(messages, "");
	assert_non_null(strstr(output, "\nmain;fib;fib;fib 30000000\n"));
	assert_int_equal(run_with(cmd_report, "report --folded --sample-type samples", "a.pb.gz"),
			 STATUS_OK);
	assert_non_null(strstr(output, "\nmain;fib;fib;fib 3\n"));
	assert_int_equal(run_with(cmd_report, "report --speedscope", "a.pb.gz"), STATUS_OK);
	assert_memory_equal(output, "{\"$schema\":", 11);
	assert_int_equal(run_with(cmd_report, "report --folded --sample-type x", "a.pb.gz"),
			 STATUS_FAILED);
	/* They have all stacks of one profile. */
	assert_int_equal(run_with(cmd_report, "report --folded -n 3", "a.pb.gz"), STATUS_USAGE);
	assert_string_equal(messages, "stackbeat report: --rows, --group and --diff are for --top "
				      "and --tree\n");
	assert_int_equal(run_with(cmd_report, "report --speedscope --group comm", "a.pb.gz"),
			 STATUS_USAGE);
	assert_int_equal(run_with(cmd_report, "report --folded --diff x", "a.pb.gz"), STATUS_USAGE);
	assert_int_equal(run_with(cmd_report, "report --folded --top -n 3", "a.pb.gz"), STATUS_OK);
}

/* The tables of many functions have 30 rows, trees have all. */
static void report_prints_the_first_functions(void **state)
{
	struct profile *profile = empty_profile();
	size_t rows;

	(void)state;
	for (uint64_t i = 0; i < 40; i++) {
		char name[16];
		uint32_t location;

		snprintf(name, sizeof(name), "f%d", (int)i);
		location = example_location(profile, 0, 0x1000 + i, NULL, name);
		example_add(profile, &location, 1, 1, 1, NULL, 0);
	}
	move_profile(profile, in_sandbox("a.pb.gz"));
	assert_int_equal(run_with(cmd_report, "report", "a.pb.gz"), STATUS_OK);
	rows = count_lines();
	assert_int_equal(run_with(cmd_report, "report -n 30", "a.pb.gz"), STATUS_OK);
	assert_int_equal(count_lines(), rows);
	assert_int_equal(run_with(cmd_report, "report -n 0", "a.pb.gz"), STATUS_OK);
	assert_int_equal(count_lines(), rows + 10);
	assert_int_equal(run_with(cmd_report, "report --tree", "a.pb.gz"), STATUS_OK);
	rows = count_lines();
	assert_int_equal(run_with(cmd_report, "report --tree -n 0", "a.pb.gz"), STATUS_OK);
	assert_int_equal(count_lines(), rows);
	assert_true(rows >= 40);
	/* Half a percent of the total is shown, less is not. */
	profile = empty_profile();
	for (uint64_t i = 0; i < 3; i++) {
		static const char *const names[] = {"much", "enough", "little"};
		static const int64_t values[] = {9910, 51, 39};
		uint32_t location = example_location(profile, 0, 0x1000 + i, NULL, names[i]);

		example_add(profile, &location, 1, values[i], values[i], NULL, 0);
	}
	move_profile(profile, in_sandbox("b.pb.gz"));
	assert_int_equal(run_with(cmd_report, "report --tree", "b.pb.gz"), STATUS_OK);
	assert_non_null(strstr(output, "enough"));
	assert_null(strstr(output, "little"));
}

static void full_output_is_an_error(void **state)
{
	int saved = dup(STDOUT_FILENO), status;
	char *argv[] = {"report", (char *)in_sandbox("a.pb.gz"), NULL};
	FILE *full;

	(void)state;
	move_profile(example_profile(), in_sandbox("a.pb.gz"));
	fflush(stdout);
	full = fopen("/dev/full", "we");
	assert_non_null(full);
	dup2(fileno(full), STDOUT_FILENO);
	optind = 0;
	status = cmd_report(2, argv);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	fclose(full);
	assert_int_equal(status, STATUS_FAILED);
	clearerr(stdout);
}

/* Returns whether a file of the sandbox has a text. */
static bool file_has(const char *name, const char *text)
{
	size_t size;
	unsigned char *bytes = read_bytes(in_sandbox("%s", name), &size);
	bool found;

	bytes[size] = '\0';
	found = strstr((char *)bytes, text);
	free(bytes);
	return found;
}

static void flamegraph_is_written(void **state)
{
	char words[256];
	struct stat st;
	size_t frames;
	unsigned int size;

	(void)state;
	move_profile(example_profile(), in_sandbox("a.pb.gz"));
	snprintf(words, sizeof(words), "flamegraph -o %s", in_sandbox("a.svg"));
	assert_int_equal(run_with(cmd_flamegraph, words, "a.pb.gz"), STATUS_OK);
	assert_string_equal(messages, "");
	assert_memory_equal(output, in_sandbox("a.svg: "), strlen(in_sandbox("a.svg: ")));
	assert_int_equal(
		sscanf(output + strlen(in_sandbox("a.svg: ")), "%zu frames, %u kB", &frames, &size),
		2);
	assert_int_equal(stat(in_sandbox("a.svg"), &st), 0);
	assert_int_equal(size, (st.st_size + 512) / 1024);
	assert_true(frames >= 8 && frames < 20);
	/* The title is the name of the file. */
	assert_true(file_has("a.svg", ">a.pb.gz<"));
	snprintf(words, sizeof(words), "flamegraph --title Title -o %s", in_sandbox("b.svg"));
	assert_int_equal(run_with(cmd_flamegraph, words, "a.pb.gz"), STATUS_OK);
	assert_true(file_has("b.svg", ">Title<"));
	assert_false(file_has("b.svg", ">a.pb.gz<"));
	/* The graph itself. */
	assert_int_equal(run_with(cmd_flamegraph, "flamegraph -o -", "a.pb.gz"), STATUS_OK);
	assert_non_null(strstr(output, "<svg"));
	assert_null(strstr(output, " frames, "));
	assert_int_equal(run_with(cmd_flamegraph, "flamegraph -o /no/such/file", "a.pb.gz"),
			 STATUS_FAILED);
	assert_non_null(strstr(messages, "stackbeat flamegraph: /no/such/file"));
	assert_string_equal(output, "");
	assert_int_equal(run_with(cmd_flamegraph, "flamegraph -o - --sample-type x", "a.pb.gz"),
			 STATUS_FAILED);
	assert_non_null(strstr(messages, "'x'"));
	assert_string_equal(output, "");
}

/* Draws a file with options, and returns the graph, which the caller frees. */
static char *draw(const char *options, const char *more, const char *name)
{
	char words[256];
	size_t size;
	char *graph;

	snprintf(words, sizeof(words), "flamegraph --title x -o %s%s%s", in_sandbox("graph.svg"),
		 options, more);
	assert_int_equal(run_with(cmd_flamegraph, words, name), STATUS_OK);
	graph = (char *)read_bytes(in_sandbox("graph.svg"), &size);
	graph[size] = '\0';
	return graph;
}

/* Checks whether more options change the graph. */
static void assert_change(bool changes, const char *options, const char *more, const char *name)
{
	char *a = draw(options, "", name), *b = draw(options, more, name);

	if (!strcmp(a, b) == changes)
		fail_msg("%s:%s%s", name, options, more);
	free(a);
	free(b);
}

/* By programs, if there are such labels, unless something else is asked for. */
static void flamegraph_is_divided_by_a_label(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t location = example_location(profile, 0, 0x1000, NULL, "main");
	uint32_t label = example_label(profile, "zone", "west");
	char options[256];

	(void)state;
	example_add(profile, &location, 1, 1, 1, &label, 1);
	move_profile(profile, in_sandbox("zone.pb.gz"));
	move_profile(example_profile(), in_sandbox("a.pb.gz"));
	assert_change(false, "", " --group comm", "a.pb.gz");
	assert_change(true, "", " --group none", "a.pb.gz");
	assert_change(true, "", " --group pid", "a.pb.gz");
	assert_change(true, " --group none", " --group pid", "a.pb.gz");
	assert_change(false, "", " --group none", "zone.pb.gz");
	assert_change(true, "", " --group zone", "zone.pb.gz");
	assert_change(true, " --group none", " --group service", "a.pb.gz");
	assert_int_equal(run_with(cmd_flamegraph, "flamegraph --group zo", "zone.pb.gz"),
			 STATUS_FAILED);
	assert_string_equal(messages, "stackbeat flamegraph: --group: no sample has the label "
				      "'zo'; there are: service, none, zone\n");
	assert_int_equal(run_with(cmd_flamegraph, "flamegraph --group ,", "zone.pb.gz"),
			 STATUS_FAILED);
	/* Both files need the label. */
	snprintf(options, sizeof(options), " --diff %s", in_sandbox("a.pb.gz"));
	assert_change(false, options, " --group comm", "a.pb.gz");
	assert_change(true, options, " --group none", "a.pb.gz");
	assert_change(false, options, " --group none", "zone.pb.gz");
	snprintf(options, sizeof(options), " --diff %s", in_sandbox("zone.pb.gz"));
	assert_change(false, options, " --group none", "a.pb.gz");
}

/* The second file; the total is scaled to it, unless that is not wanted. */
static void differences_are_scaled(void **state)
{
	static const char *const forms[] = {"report", "report --tree"};
	struct profile *profile = empty_profile();
	uint32_t location = example_location(profile, 0, 0x1000, NULL, "main");
	char words[256], scaled[sizeof(output)];

	(void)state;
	example_add(profile, &location, 1, 5, 50 * MS, NULL, 0);
	move_profile(profile, in_sandbox("base.pb.gz"));
	move_profile(example_profile(), in_sandbox("a.pb.gz"));
	for (size_t i = 0; i < 2; i++) {
		snprintf(words, sizeof(words), "%s --diff %s", forms[i], in_sandbox("base.pb.gz"));
		assert_int_equal(run_with(cmd_report, words, "a.pb.gz"), STATUS_OK);
		assert_string_equal(messages, "");
		strcpy(scaled, output);
		strcat(words, " --absolute");
		assert_int_equal(run_with(cmd_report, words, "a.pb.gz"), STATUS_OK);
		assert_string_not_equal(scaled, output);
		assert_int_equal(run_with(cmd_report, forms[i], "a.pb.gz"), STATUS_OK);
		assert_string_not_equal(scaled, output);
	}
	assert_int_equal(run_with(cmd_report, "report --diff /no/such", "a.pb.gz"), STATUS_FAILED);
	assert_string_equal(output, "");
	assert_string_equal(messages, "stackbeat report: /no/such: No such file or directory\n");
	snprintf(words, sizeof(words), " --diff %s", in_sandbox("base.pb.gz"));
	assert_change(true, "", words, "a.pb.gz");
	assert_change(true, words, " --absolute", "a.pb.gz");
}

/* In the file and its base. */
static void runtime_of_go_is_hidden_if_wanted(void **state)
{
	char words[256];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct profile *profile = empty_profile();
		uint32_t app = example_mapping(profile, 0, UINT64_MAX, 0, "/bin/app", "aabb");
		uint32_t stack[] = {
			example_location(profile, app, 1, NULL,
					 i ? "runtime.memmove" : "runtime.mallocgc"),
			example_location(profile, app, 2, NULL, "main.work"),
		};

		example_add(profile, stack, 2, 5 + i, 7 + i, NULL, 0);
		move_profile(profile, in_sandbox(i ? "base.pb.gz" : "a.pb.gz"));
	}
	assert_int_equal(run_with(cmd_report, "report --folded", "a.pb.gz"), STATUS_OK);
	assert_string_equal(output, "main.work;runtime.mallocgc 7\n");
	assert_int_equal(run_with(cmd_report, "report --folded --go-hide-runtime", "a.pb.gz"),
			 STATUS_OK);
	assert_string_equal(output, "main.work 7\n");
	snprintf(words, sizeof(words), "report --all --diff %s", in_sandbox("base.pb.gz"));
	assert_int_equal(run_with(cmd_report, words, "a.pb.gz"), STATUS_OK);
	assert_non_null(strstr(output, "runtime.mallocgc"));
	assert_non_null(strstr(output, "runtime.memmove"));
	strcat(words, " --absolute --go-hide-runtime");
	assert_int_equal(run_with(cmd_report, words, "a.pb.gz"), STATUS_OK);
	assert_non_null(strstr(output, "main.work"));
	assert_null(strstr(output, "runtime."));
}

static void percentages_have_bounds(void **state)
{
	(void)state;
	move_profile(example_profile(), in_sandbox("a.pb.gz"));
	assert_int_equal(run_with(cmd_report, "report --tree --min-percent 100", "a.pb.gz"),
			 STATUS_OK);
	assert_int_equal(run_with(cmd_report, "report --min-percent 100.001", "a.pb.gz"),
			 STATUS_USAGE);
	assert_string_equal(messages, "stackbeat report: --min-percent: '100.001' is not a "
				      "percentage from 0 to 100\n");
	assert_int_equal(run_with(cmd_report, "report --min-percent -0.001", "a.pb.gz"),
			 STATUS_USAGE);
	assert_int_equal(run_with(cmd_report, "report --min-percent=", "a.pb.gz"), STATUS_USAGE);
	assert_int_equal(run_with(cmd_report, "report --min-percent 1x", "a.pb.gz"), STATUS_USAGE);
	assert_int_equal(run_with(cmd_report, "report -n 4294967295", "a.pb.gz"), STATUS_OK);
	assert_int_equal(run_with(cmd_report, "report -n 4294967296", "a.pb.gz"), STATUS_USAGE);
	assert_string_equal(messages, "stackbeat report: -n: '4294967296' is not a number from 0 "
				      "to 4294967295\n");
	assert_int_equal(run_command(cmd_report, "report --help"), STATUS_OK);
	assert_string_equal(messages, "");
	assert_memory_equal(output, "Usage: stackbeat report ", 24);
	assert_int_equal(run_command(cmd_flamegraph, "flamegraph -h"), STATUS_OK);
	assert_memory_equal(output, "Usage: stackbeat flamegraph ", 28);
	assert_fails(cmd_flamegraph, "flamegraph", STATUS_FAILED,
		     "stackbeat flamegraph: stackbeat.pb.gz: No such file or directory\n");
}

static const char source[] = ".text\n.globl first\n.type first, @function\n"
			     "first: .skip 16, 0x90\n.size first, 16\n";

/* Two addresses of sandbox/a.so, one of which has a symbol, and one of a file that is gone. */
static void write_raw_profile(void)
{
	struct profile *profile = empty_profile();
	const char *const paths[] = {in_sandbox("a.so"), in_sandbox("a.so"), "/gone"};
	static const char *const build_ids[] = {"0123", "0123", "4567"};
	static const uint64_t addresses[] = {0x5008, 0x6000, 0x1000};

	write_text(in_sandbox("source.s"), source);
	run("cd '%s' && cc -nostdlib -shared -Wl,-Ttext=0x5000 -Wl,--build-id=0x0123 -o a.so "
	    "source.s",
	    sandbox);
	for (size_t i = 0; i < 3; i++) {
		uint32_t location = profile_location(
			profile, example_mapping(profile, 0, UINT64_MAX, 0, paths[i], build_ids[i]),
			addresses[i], NULL, 0);

		example_add(profile, &location, 1, 1, 1, NULL, 0);
	}
	profile->time_ns = INT64_C(4000000000000000000);
	move_profile(profile, in_sandbox("raw.pb.gz"));
}

static void expect_names(const char *name)
{
	assert_int_equal(run_with(cmd_report, "report", name), STATUS_OK);
	assert_non_null(strstr(output, "first"));
}

static void symbolize_says_what_it_did(void **state)
{
	char words[256], expected[256];

	(void)state;
	write_raw_profile();
	snprintf(words, sizeof(words), "symbolize -o %s", in_sandbox("named.pb.gz"));
	assert_int_equal(run_with(cmd_symbolize, words, "raw.pb.gz"), STATUS_OK);
	assert_string_equal(output, "");
	assert_non_null(
		strstr(messages, "stackbeat: symbolized 1 of 3 addresses without symbols; "));
	assert_non_null(strstr(messages, "named.pb.gz, "));
	snprintf(expected, sizeof(expected),
		 "stackbeat: %s (build ID 0123): 1 address still without symbols\n",
		 in_sandbox("a.so"));
	assert_non_null(strstr(messages, expected));
	assert_non_null(strstr(messages, "stackbeat: /gone (build ID 4567): 1 address still"));
	expect_names("named.pb.gz");
	/* In the same file, and quietly. */
	assert_int_equal(run_with(cmd_symbolize, "symbolize -q", "raw.pb.gz"), STATUS_OK);
	assert_null(strstr(messages, "still without"));
	assert_null(strstr(messages, "symbolized"));
	expect_names("raw.pb.gz");
	assert_int_equal(run_with(cmd_symbolize, "symbolize --binaries /no/such", "raw.pb.gz"),
			 STATUS_FAILED);
	assert_string_equal(messages, "stackbeat symbolize: /no/such: No such file or directory\n");
	assert_int_equal(run_with(cmd_symbolize, "symbolize --kallsyms /no/such", "raw.pb.gz"),
			 STATUS_FAILED);
}

static void kernel_symbols_may_be_copies(void **state)
{
	const uint64_t start = UINT64_C(0xffffffff81000000);
	char words[256];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct profile *profile = empty_profile();
		uint32_t location = profile_location(
			profile,
			example_mapping(profile, start, UINT64_MAX, 0, "[kernel.kallsyms]", ""),
			start + 0x110, NULL, 0);

		example_add(profile, &location, 1, 1, 1, NULL, 0);
		move_profile(profile, in_sandbox("kernel.pb.gz"));
		run("mkdir -p '%s'", in_sandbox("proc"));
		write_text(in_sandbox("proc/kallsyms"), "ffffffff82000000 T _text\n"
							"ffffffff82000100 T first_of_kernel\n"
							"ffffffff82000200 T _etext\n");
		snprintf(words, sizeof(words), "symbolize %s %s", i ? "--binaries" : "--kallsyms",
			 i ? sandbox : in_sandbox("proc/kallsyms"));
		assert_int_equal(run_with(cmd_symbolize, words, "kernel.pb.gz"), STATUS_OK);
		assert_non_null(strstr(messages, "symbolized 1 of 1 addresses"));
		expect_names("kernel.pb.gz");
	}
}

static void archive_has_what_symbolizes_the_profile(void **state)
{
	char words[256];

	(void)state;
	write_raw_profile();
	assert_int_equal(run_with(cmd_archive, "archive", "raw.pb.gz"), STATUS_OK);
	assert_string_equal(output, "");
	assert_non_null(strstr(messages, "stackbeat: 1 binaries and 0 debug files, 1 missing; "));
	assert_non_null(strstr(messages, "stackbeat: /gone: "));
	/* The name of the profile without its endings. */
	assert_non_null(strstr(messages, "/raw.archive.tar.zst, "));
	assert_int_equal(access(in_sandbox("raw.archive.tar.zst"), R_OK), 0);
	run("rm '%s'", in_sandbox("a.so"));
	snprintf(words, sizeof(words), "symbolize --binaries %s",
		 in_sandbox("raw.archive.tar.zst"));
	assert_int_equal(run_with(cmd_symbolize, words, "raw.pb.gz"), STATUS_OK);
	assert_non_null(strstr(messages, "symbolized 1 of 3 addresses"));
	expect_names("raw.pb.gz");
	/* Nothing is left to archive. */
	snprintf(words, sizeof(words), "archive -q -o %s", in_sandbox("other"));
	run("mv '%s' '%s'", in_sandbox("raw.pb.gz"), in_sandbox(".gz"));
	assert_int_equal(run_with(cmd_archive, words, ".gz"), STATUS_FAILED);
	assert_int_equal(access(in_sandbox("other"), F_OK), -1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(report_prints_functions_or_a_tree),
		TEST(report_prints_stacks_for_other_tools),
		TEST(report_prints_the_first_functions),
		TEST(full_output_is_an_error),
		TEST(flamegraph_is_written),
		TEST(flamegraph_is_divided_by_a_label),
		TEST(differences_are_scaled),
		TEST(runtime_of_go_is_hidden_if_wanted),
		TEST(percentages_have_bounds),
		TEST(symbolize_says_what_it_did),
		TEST(kernel_symbols_may_be_copies),
		TEST(archive_has_what_symbolizes_the_profile),
	};

	return cmocka_run_group_tests_name("view_commands", tests, NULL, NULL);
}
