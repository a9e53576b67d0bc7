// SPDX-License-Identifier: GPL-2.0
/* The table of options, the command line of `stackbeat record`, and views. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "cli/record_options.h"
#include "cli/view_options.h"
#include "lib/error.h"

static struct record_options options;
static struct error error;

static int parse_argv(char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	memset(&options, 0xaa, sizeof(options));
	memset(&error, 0, sizeof(error));
	return record_options_parse(argc, argv, &options, &error);
}

#define ARGV(...) ((char *[]){"record", ##__VA_ARGS__, NULL})
#define PARSES(...) assert_int_equal(parse_argv(ARGV(__VA_ARGS__)), 0)
/* The message is one line that contains `part`: the option, or the value. */
#define REFUSES(part, ...) refuses(part, ARGV(__VA_ARGS__))

static void refuses(const char *part, char **argv)
{
	if (parse_argv(argv) != -EINVAL)
		fail_msg("%s %s: was accepted", argv[1], argv[2] ? argv[2] : "");
	if (!strstr(error.text, part))
		fail_msg("'%s' is not in '%s'", part, error.text);
	assert_null(strchr(error.text, '\n'));
}

/* Invariants of parsed options, whatever the arguments. */
static void assert_valid(char **argv, int argc)
{
	assert_in_range(options.session.rate, 0, STACKBEAT_RATE_MAX);
	assert_in_range(options.session.max_depth, 1, STACKBEAT_USER_FRAMES_MAX);
	assert_in_range(options.session.ring_size, STACKBEAT_RING_SIZE_MIN,
			STACKBEAT_RING_SIZE_MAX);
	assert_int_equal(options.session.ring_size & (options.session.ring_size - 1), 0);
	assert_in_range(options.session.parts, 1, STACKBEAT_PARTS_ALL);
	assert_in_range(options.session.pid_count, 0, STACKBEAT_PIDS_MAX);
	for (size_t i = 0; i < options.session.pid_count; i++)
		assert_in_range(options.session.pids[i], 1, INT32_MAX);
	assert_in_range(options.session.tid_count, 0, STACKBEAT_PIDS_MAX);
	assert_in_range(options.session.cgroup_count, 0, STACKBEAT_CGROUPS_MAX);
	assert_in_range(options.session.excluded_comm_count, 0, STACKBEAT_COMMS_MAX);
	for (size_t i = 0; i < options.session.excluded_comm_count; i++)
		assert_in_range(strlen(options.session.excluded_comms[i]), 1,
				STACKBEAT_COMM_SIZE - 1);
	assert_in_range(options.session.budget, STACKBEAT_BUDGET_MIN, STACKBEAT_BUDGET_MAX);
	assert_true(options.seconds >= 0 && options.seconds <= 1e9);
	assert_true(*options.output);
	assert_in_range(options.labels.chosen, 0, LABELS_ALL);
	assert_in_range(options.labels.added_count, 0, LABELS_ADDED_MAX);
	for (size_t i = 0; i < options.labels.added_count; i++)
		assert_true(*options.labels.added[i].key && *options.labels.added[i].value);
	assert_true(strlen(options.session.cpus) < STACKBEAT_CPULIST_MAX);
	assert_int_equal(options.session.cpulist.all, !*options.session.cpus);
	if (options.command)
		assert_true(options.command > argv && options.command < argv + argc);
}

static void options_have_defaults(void **state)
{
	(void)state;
	PARSES();
	assert_int_equal(options.session.rate, 99);
	assert_int_equal(options.session.pid_count, 0);
	assert_string_equal(options.session.cpus, "");
	assert_true(options.session.cpulist.all);
	assert_true(options.seconds == 0);
	assert_string_equal(options.output, "stackbeat.pb.gz");
	assert_null(options.save_binaries);
	assert_int_equal(options.labels.chosen,
			 LABELS_ALL & ~(LABEL_SET(LABEL_TID) | LABEL_SET(LABEL_GOROUTINE) |
					LABEL_SET(LABEL_GO_CREATOR) | LABEL_SET(LABEL_CPU)));
	assert_int_equal(options.session.goroutines, STACKBEAT_GOROUTINE_LABELS);
	assert_int_equal(options.labels.added_count, 0);
	assert_int_equal(options.session.parts, STACKBEAT_PARTS_ALL);
	assert_int_equal(options.session.max_depth, 255);
	assert_int_equal(options.session.ring_size, 512 << 10);
	assert_int_equal(options.session.tid_count, 0);
	assert_int_equal(options.session.cgroup_count, 0);
	assert_int_equal(options.session.excluded_comm_count, 0);
	assert_int_equal(options.session.budget, 50);
	assert_true(options.session.has_target_options && options.session.has_command);
	assert_false(options.session.no_inherit);
	assert_false(options.session.no_jitter);
	assert_false(options.no_symbolize);
	assert_false(options.session.system_wide);
	assert_false(options.quiet);
	assert_false(options.verbose);
	assert_false(options.help);
	assert_null(options.command);
}

static void cpus_alone_are_sampled_as_a_whole(void **state)
{
	(void)state;
	PARSES("-C", "0", "true");
	assert_true(options.session.system_wide);
	PARSES("-C", "0");
	assert_true(options.session.system_wide);
	PARSES("-C", "0", "-p", "1", "true");
	assert_false(options.session.system_wide);
	PARSES("-C", "0", "-t", "1");
	assert_false(options.session.system_wide);
	PARSES("-C", "0", "-G", "a");
	assert_false(options.session.system_wide);
	PARSES("true");
	assert_false(options.session.system_wide);
}

static void short_and_long_options_are_parsed(void **state)
{
	(void)state;
	PARSES("-F", "997", "-a", "-C", "0,2-3", "-d", "1.5", "-o", "file", "-q", "-g", "-v");
	assert_int_equal(options.session.rate, 997);
	assert_true(options.session.system_wide);
	assert_string_equal(options.session.cpus, "0,2-3");
	assert_true(cpulist_has(&options.session.cpulist, 2));
	assert_false(cpulist_has(&options.session.cpulist, 1));
	assert_true(options.seconds == 1.5);
	assert_string_equal(options.output, "file");
	assert_true(options.quiet);
	assert_true(options.verbose);

	PARSES("--frequency=20000", "--all-cpus", "--cpu", "7", "--duration", "3", "--output=-",
	       "--quiet", "--user", "--max-depth", "1023", "--ring-size", "64M");
	assert_int_equal(options.session.rate, 20000);
	assert_true(options.session.system_wide);
	assert_string_equal(options.session.cpus, "7");
	assert_true(options.seconds == 3);
	assert_string_equal(options.output, "-");
	assert_true(options.quiet);
	assert_int_equal(options.session.parts, STACKBEAT_PART_USER);
	assert_int_equal(options.session.max_depth, 1023);
	assert_int_equal(options.session.ring_size, 64 << 20);

	PARSES("-t", "12,13", "-G", "a/b", "--exclude-comm", "idle", "--no-inherit", "--no-jitter",
	       "--budget", "2.5", "--no-symbolize", "--save-binaries", "dir", "--verify", "7");
	assert_true(options.no_symbolize);
	assert_string_equal(options.save_binaries, "dir");
	assert_int_equal(options.session.verify, 7);
	assert_int_equal(options.session.tid_count, 2);
	assert_int_equal(options.session.tids[1], 13);
	assert_int_equal(options.session.cgroup_count, 1);
	assert_string_equal(options.session.cgroups[0], "a/b");
	assert_int_equal(options.session.excluded_comm_count, 1);
	assert_string_equal(options.session.excluded_comms[0], "idle");
	assert_true(options.session.no_inherit);
	assert_true(options.session.no_jitter);
	assert_int_equal(options.session.budget, 25);
	PARSES("--tid=7", "--cgroup", "/sys/fs/cgroup/x");
	assert_int_equal(options.session.tids[0], 7);
	assert_string_equal(options.session.cgroups[0], "/sys/fs/cgroup/x");

	PARSES("--kernel");
	assert_int_equal(options.session.parts, STACKBEAT_PART_KERNEL);
	PARSES("-F", "max");
	assert_int_equal(options.session.rate, 0);
	PARSES("-agF1", "-d.5");
	assert_int_equal(options.session.rate, 1);
	assert_true(options.seconds == 0.5);
	PARSES("-h");
	assert_true(options.help);
	PARSES("--help");
	assert_true(options.help);

	PARSES("--save-binaries", "kept");
	assert_string_equal(options.save_binaries, "kept");
	assert_null(options.cache.directory);
	assert_false(options.cache.off);
	PARSES("--no-cache");
	assert_true(options.cache.off);
	/* The last one counts. */
	PARSES("--no-cache", "--cache", "kept");
	assert_string_equal(options.cache.directory, "kept");
	assert_false(options.cache.off);
}

static void ring_sizes_have_units(void **state)
{
	(void)state;
	PARSES("--ring-size", "64K");
	assert_int_equal(options.session.ring_size, 64 << 10);
	PARSES("--ring-size", "65536");
	assert_int_equal(options.session.ring_size, 65536);
	PARSES("--ring-size", "128k");
	assert_int_equal(options.session.ring_size, 128 << 10);
	PARSES("--ring-size", "1m");
	assert_int_equal(options.session.ring_size, 1 << 20);
}

static void memory_has_units_and_bounds(void **state)
{
	(void)state;
	PARSES("-q");
	assert_int_equal(options.memory, MEMORY_DEFAULT);
	PARSES("--memory", "16777216");
	assert_int_equal(options.memory, 16 << 20);
	PARSES("--memory", "64m");
	assert_int_equal(options.memory, 64 << 20);
	PARSES("--memory", "2G");
	assert_int_equal(options.memory, UINT64_C(2) << 30);
	PARSES("--memory", "16M");
	assert_int_equal(options.memory, 16 << 20);
	PARSES("--memory", "1024G");
	assert_int_equal(options.memory, UINT64_C(1) << 40);
	PARSES("--memory", "1099511627776");
	assert_int_equal(options.memory, UINT64_C(1) << 40);
	REFUSES("--memory", "--memory", "1099511627777");
	REFUSES("--memory", "--memory", "1048577M");
	REFUSES("--memory", "--memory", "16777215");
	REFUSES("--memory", "--memory", "1025G");
	REFUSES("--memory", "--memory", "18446744073709551615G");
	REFUSES("--memory", "--memory", "64MB");
	REFUSES("--memory", "--memory", "-64M");
	REFUSES("--memory", "--memory", "");
}

static void intervals_of_files_are_a_second_at_least(void **state)
{
	(void)state;
	PARSES("--snapshot", "1.5");
	assert_true(options.snapshot == 1.5);
	assert_true(options.rotate == 0);
	PARSES("--rotate", "3600");
	assert_true(options.rotate == 3600);
	PARSES("--snapshot", "1");
	assert_true(options.snapshot == 1);
	PARSES("--rotate", "1");
	assert_true(options.rotate == 1);
	PARSES("--rotate", "31536000");
	REFUSES("--rotate", "--rotate", "31536000.5");
	REFUSES("--snapshot", "--snapshot", "0.99");
	REFUSES("--rotate", "--rotate", "0");
	REFUSES("combined", "--rotate", "2", "--snapshot", "2");
	REFUSES("--rotate can't be combined with -o -", "--rotate", "2", "-o", "-");
	REFUSES("--snapshot can't be combined with -o -", "-o", "-", "--snapshot", "2");
}

static void methods_of_unwinding_have_names(void **state)
{
	(void)state;
	PARSES();
	assert_int_equal(options.session.unwind, UNWIND_AUTO);
	PARSES("--unwind", "tables");
	assert_int_equal(options.session.unwind, UNWIND_TABLES);
	PARSES("--unwind=fp");
	assert_int_equal(options.session.unwind, UNWIND_FRAME_POINTERS);
	PARSES("--unwind", "fp", "--unwind", "auto");
	assert_int_equal(options.session.unwind, UNWIND_AUTO);
	REFUSES("--unwind: '' is not auto, tables or fp", "--unwind", "");
	REFUSES("--unwind: 'FP'", "--unwind", "FP");
	REFUSES("--unwind: 'table'", "--unwind", "table");
	REFUSES("--unwind: its value is missing", "--unwind");
}

static void copies_of_stacks_are_limited(void **state)
{
	(void)state;
	PARSES();
	assert_int_equal(options.session.stack_copy, 8 << 10);
	PARSES("--stack-copy", "0");
	assert_int_equal(options.session.stack_copy, 0);
	PARSES("--stack-copy", "8");
	assert_int_equal(options.session.stack_copy, 8);
	PARSES("--stack-copy", "64K");
	assert_int_equal(options.session.stack_copy, 64 << 10);
	PARSES("--stack-copy", "32K", "--ring-size", "128K");
	REFUSES("copies of 32776 bytes need a --ring-size of 256K or more", "--stack-copy", "32776",
		"--ring-size", "64K");
	REFUSES("--stack-copy: '4'", "--stack-copy", "4");
	REFUSES("--stack-copy: '7'", "--stack-copy", "7");
	REFUSES("--stack-copy: '9'", "--stack-copy", "9");
	REFUSES("8 bytes up to 64K", "--stack-copy", "65544");
	REFUSES("--stack-copy", "--stack-copy", "65K");
	REFUSES("--stack-copy", "--stack-copy", "-8");
	/* A stack is unwound once more from its copy. */
	PARSES();
	assert_int_equal(options.session.verify, 0);
	PARSES("--verify", "1");
	assert_int_equal(options.session.verify, 1);
	PARSES("--verify", "2147483647", "--stack-copy", "8");
	assert_int_equal(options.session.verify, INT32_MAX);
	REFUSES("--verify: '0' is not a number from 1 to 2147483647", "--verify", "0");
	REFUSES("--verify", "--verify", "2147483648");
	REFUSES("--verify can't be combined with --stack-copy=0", "--verify", "1", "--stack-copy",
		"0");
}

static void symbolization_has_options(void **state)
{
	(void)state;
	PARSES();
	assert_false(options.sandbox.require);
	assert_int_equal(options.sandbox.timeout_s, 0);
	assert_false(options.hides_go_runtime);
	PARSES("--sandbox", "require", "--symbolize-timeout", "1", "--go-hide-runtime");
	assert_true(options.sandbox.require);
	assert_int_equal(options.sandbox.timeout_s, 1);
	assert_true(options.hides_go_runtime);
	assert_false(options.no_symbolize);
	PARSES("--sandbox", "require", "--sandbox=try");
	assert_false(options.sandbox.require);
	REFUSES("--sandbox: 'yes' is neither 'try' nor 'require'", "--sandbox", "yes");
	REFUSES("--sandbox: ''", "--sandbox=");
	/* A week. */
	PARSES("--symbolize-timeout", "604800");
	assert_int_equal(options.sandbox.timeout_s, 604800);
	REFUSES("--symbolize-timeout: '0' is not a number from 1 to 604800", "--symbolize-timeout",
		"0");
	REFUSES("--symbolize-timeout: '604801'", "--symbolize-timeout", "604801");
	PARSES("--no-symbolize");
	PARSES("--labels", "pid", "--blocks");
	assert_int_equal(options.labels.chosen, LABEL_SET(LABEL_PID) | LABEL_SET(LABEL_BLOCK));
	assert_false(options.hides_go_runtime);
	REFUSES("--go-hide-runtime and --no-symbolize", "--no-symbolize", "--go-hide-runtime");
}

static void pids_are_lists_and_accumulate(void **state)
{
	(void)state;
	/* With as many digits as there may be. */
	PARSES("-p", "000000000000012");
	assert_int_equal(options.session.pid_count, 1);
	assert_int_equal(options.session.pids[0], 12);
	REFUSES("-p: '0000000000000012' is not a process ID", "-p", "0000000000000012");
	REFUSES("-t: '0000000000000012' is not a thread ID", "-t", "1,0000000000000012,3");
	REFUSES("-t (thread ID): '0'", "-t", "0");
	PARSES("-p", "1");
	assert_int_equal(options.session.pid_count, 1);
	PARSES("-p", "12,2147483647", "--pid", "3");
	assert_int_equal(options.session.pid_count, 3);
	assert_int_equal(options.session.pids[0], 12);
	assert_int_equal(options.session.pids[1], INT32_MAX);
	assert_int_equal(options.session.pids[2], 3);
}

static void filters_accumulate(void **state)
{
	(void)state;
	PARSES("-p", "1", "-t", "2", "-G", "a", "-t", "3,4", "-G", "b", "--exclude-comm", "x",
	       "--exclude-comm", "y z");
	assert_int_equal(options.session.pid_count, 1);
	assert_int_equal(options.session.tid_count, 3);
	assert_int_equal(options.session.tids[2], 4);
	assert_int_equal(options.session.cgroup_count, 2);
	assert_string_equal(options.session.cgroups[1], "b");
	assert_int_equal(options.session.excluded_comm_count, 2);
	assert_string_equal(options.session.excluded_comms[1], "y z");
}

static void groups_and_names_are_limited(void **state)
{
	enum { MAX = STACKBEAT_CGROUPS_MAX };
	static const char *const option[] = {"-G", "--exclude-comm"};
	char *argv[2 + 2 * (MAX + 1)];

	(void)state;
	assert_int_equal(STACKBEAT_COMMS_MAX, MAX);
	for (size_t i = 0; i < 2; i++) {
		argv[0] = "record";
		for (size_t j = 0; j <= MAX; j++) {
			argv[1 + 2 * j] = (char *)option[i];
			argv[2 + 2 * j] = "x";
		}
		argv[3 + 2 * MAX] = NULL;
		refuses(option[i], argv);
		argv[1 + 2 * MAX] = NULL;
		assert_int_equal(parse_argv(argv), 0);
		assert_int_equal(i ? options.session.excluded_comm_count
				   : options.session.cgroup_count,
				 MAX);
	}
}

static void bad_groups_and_names_are_refused(void **state)
{
	(void)state;
	REFUSES("-G", "-G", "");
	REFUSES("-G", "-G");
	REFUSES("--exclude-comm", "--exclude-comm", "");
	REFUSES("name of 1 to 15 characters", "--exclude-comm", "sixteen letters.");
	PARSES("--exclude-comm", "fifteen letters");
}

static void budgets_are_percentages(void **state)
{
	static const char *const bad[] = {"",    "0",   "0.04",  "0.0999", "50.01", "50.1",
					  "-1",  "5%",  "5 ",    " 5",     "nan",   "inf",
					  "1e1", "0x5", "1.2.3", "."};

	(void)state;
	PARSES("--budget", "0.1");
	assert_int_equal(options.session.budget, 1);
	PARSES("--budget", "50");
	assert_int_equal(options.session.budget, 500);
	PARSES("--budget=1.25");
	assert_int_equal(options.session.budget, 13);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		REFUSES("--budget", "--budget", (char *)bad[i]);
	assert_string_equal(error.text, "--budget: '.' is not a percentage from 0.1 to 50");
}

static void pids_are_limited(void **state)
{
	char text[STACKBEAT_PIDS_MAX * 5 + 8] = "";

	(void)state;
	for (uint32_t i = 0; i < STACKBEAT_PIDS_MAX; i++)
		sprintf(text + strlen(text), "%s%u", i ? "," : "", i + 1);
	PARSES("-p", text);
	assert_int_equal(options.session.pid_count, STACKBEAT_PIDS_MAX);
	assert_int_equal(options.session.pids[STACKBEAT_PIDS_MAX - 1], STACKBEAT_PIDS_MAX);
	REFUSES("-p", "-p", text, "-p", "1");
	PARSES("-p", text, "-t", text);
	assert_int_equal(options.session.tid_count, STACKBEAT_PIDS_MAX);
	strcat(text, ",1");
	REFUSES("-p", "-p", text);
	REFUSES("-t", "-t", text);
}

static void labels_are_chosen_and_added(void **state)
{
	char **argv = ARGV("--labels", "tid,cpu", "--label", "a=b=c", "--label=\xc3\xa4=1");

	(void)state;
	assert_int_equal(parse_argv(argv), 0);
	assert_int_equal(options.labels.chosen, LABEL_SET(LABEL_TID) | LABEL_SET(LABEL_CPU));
	assert_int_equal(options.labels.added_count, 2);
	assert_string_equal(options.labels.added[0].key, "a");
	assert_string_equal(options.labels.added[0].value, "b=c");
	assert_string_equal(options.labels.added[1].key, "\xc3\xa4");
	/* argv is unchanged: it is written to the profile. */
	assert_string_equal(argv[4], "a=b=c");
	/* As with other options, the last one counts. */
	PARSES("--labels", "pid", "--labels=");
	assert_int_equal(options.labels.chosen, 0);
	REFUSES("--labels: 'x'", "--labels", "pid,x");
	REFUSES("--labels", "--labels");
	REFUSES("--label: 'x'", "--label", "x");
	REFUSES("--label: 'a' is given twice", "--label", "a=1", "--label", "a=2");
	PARSES("--labels", "goroutine");
	assert_int_equal(options.session.goroutines, STACKBEAT_GOROUTINE_ID);
	PARSES("--labels", "go-creator");
	assert_int_equal(options.session.goroutines, STACKBEAT_GOROUTINE_CREATOR);
	PARSES("--labels", "go-labels");
	assert_int_equal(options.session.goroutines, STACKBEAT_GOROUTINE_LABELS);
	PARSES("--labels", "all");
	assert_int_equal(options.session.goroutines, STACKBEAT_GOROUTINE_ALL);
	PARSES("-a");
	assert_int_equal(options.session.goroutines, STACKBEAT_GOROUTINE_LABELS);
}

static void arguments_belong_to_the_command(void **state)
{
	char **argv = ARGV("-F", "50", "make", "-F", "--no-such", "-a", "--", "-p");

	(void)state;
	assert_int_equal(parse_argv(argv), 0);
	assert_ptr_equal(options.command, argv + 3);
	assert_string_equal(options.command[4], "--");
	assert_int_equal(options.session.rate, 50);
	assert_false(options.session.system_wide);

	argv = ARGV("-a", "--", "-F", "--", "x");
	assert_int_equal(parse_argv(argv), 0);
	assert_ptr_equal(options.command, argv + 3);

	argv = ARGV("-p", "1", "--", "");
	assert_int_equal(parse_argv(argv), 0);
	assert_ptr_equal(options.command, argv + 4);

	PARSES("-a", "--");
	assert_null(options.command);
	PARSES("-");
	assert_string_equal(options.command[0], "-");
}

static void errors_name_option_and_value(void **state)
{
	static const char *const no_numbers[] = {"",
						 "0",
						 "-1",
						 "+1",
						 "1x",
						 "x1",
						 " 1",
						 "1 ",
						 "0x10",
						 "1,5",
						 "1e2",
						 "nan",
						 "4294967297",
						 "18446744073709551617",
						 "99999999999999999999999999999999999999"};
	static const char *const options_with_numbers[] = {"-F", "-p", "-t", "--max-depth",
							   "--ring-size"};

	(void)state;
	for (size_t i = 0; i < sizeof(no_numbers) / sizeof(no_numbers[0]); i++) {
		for (size_t j = 0; j < 5; j++) {
			const char *option = options_with_numbers[j];

			/* Lists of IDs. */
			if ((!strcmp(option, "-p") || !strcmp(option, "-t")) &&
			    !strcmp(no_numbers[i], "1,5"))
				continue;
			REFUSES(option, (char *)option, (char *)no_numbers[i]);
		}
	}
	PARSES("-F", "1");
	assert_int_equal(options.session.rate, 1);
	assert_true(options.session.rate_given);
	PARSES("-F", "20000");
	PARSES();
	assert_false(options.session.rate_given);
	PARSES("--max-depth", "1");
	assert_int_equal(options.session.max_depth, 1);
	REFUSES("-F", "-F", "20001");
	REFUSES("-F", "--frequency", "MAX");
	REFUSES("--max-depth", "--max-depth", "1024");
	REFUSES("--ring-size", "--ring-size", "32K");
	REFUSES("--ring-size", "--ring-size", "128M");
	REFUSES("--ring-size", "--ring-size", "100K");
	REFUSES("--ring-size", "--ring-size", "64KK");
	REFUSES("--ring-size", "--ring-size", "64KB");
	REFUSES("--ring-size", "--ring-size", "64 K");
	REFUSES("--ring-size", "--ring-size", "K");
	REFUSES("--ring-size", "--ring-size", "18014398509481985K");
	REFUSES("-o", "-o", "");
	REFUSES("-o", "--output=");
}

static void bad_lists_are_refused(void **state)
{
	static const char *const pids[] = {
		",", "1,", ",1", "1,,2", "1;2", "1, 2", "2147483648",
		/* Truncated after some digits, this would be a number. */
		"000000000000012x", "0000000000000012345x,3"};
	static const char *const cpus[] = {"",   ",",   "0,",    ",0",   "0,,1", "x",     "1-",
					   "-1", "3-2", "1-2-3", "0 ,1", "8192", "0-8192"};
	char list[STACKBEAT_CPULIST_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++)
		REFUSES("-p", "-p", (char *)pids[i]);
	for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++)
		REFUSES("-t", "-t", (char *)pids[i]);
	for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++)
		REFUSES("-C", "-C", (char *)cpus[i]);

	/* Longer than the module accepts. */
	for (size_t i = 0; i < sizeof(list) - 1; i++)
		list[i] = i % 2 ? ',' : '1';
	list[sizeof(list) - 2] = '1';
	list[sizeof(list) - 1] = '\0';
	REFUSES("-C: the list of CPUs is longer than 4095 characters", "-C", list);
	list[sizeof(list) - 3] = '\0';
	list[sizeof(list) - 4] = '1';
	PARSES("-C", list);
}

static void bad_durations_are_refused(void **state)
{
	static const char *const bad[] = {
		"",         "0",     "-1",
		"0.0",      "nan",   "inf",
		"1s",       " 1",    "1 ",
		"0x1",      "1e2",   ".",
		"31536001", "1e99",  "+1",
		"1,5",      "1.2.3", "99999999999999999999999999999999999999999999999999"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		REFUSES("-d", "-d", (char *)bad[i]);
	PARSES("-d", "31536000");
	PARSES("-d", "0.001");
}

static void errors_name_missing_values_and_unknown_options(void **state)
{
	(void)state;
	REFUSES("-F", "-F");
	REFUSES("-p", "-a", "-p");
	REFUSES("--pid", "-a", "--pid");
	REFUSES("--ring-size", "--ring-size");
	REFUSES("-aF", "-aF");
	REFUSES("'-Z'", "-Z");
	REFUSES("'-Z'", "--user", "-Zq");
	REFUSES("'-Z'", "-aZ", "5");
	REFUSES("--no-such", "--no-such");
	REFUSES("--no-such=1", "-a", "--no-such=1");
	/* --max-depth is one letter away. */
	REFUSES("--", "--m-depth", "3");
	REFUSES("'--a=1'", "--a=1", "x");
}

static void a_value_for_an_option_without_one_is_refused(void **state)
{
	(void)state;
	REFUSES("'--all-cpus=1': takes no value", "--all-cpus=1");
	REFUSES("'--quiet=yes': takes no value", "-a", "--quiet=yes", "command");
	REFUSES("'--user=': takes no value", "--user=");
	REFUSES("'--kernel=1': takes no value", "--kernel=1");
}

static void conflicting_options_are_refused(void **state)
{
	(void)state;
	REFUSES("-a can't be combined with -p", "-a", "-p", "1");
	REFUSES("-a can't be combined with -p", "-p", "1", "-a", "--", "sleep", "1");
	REFUSES("-t or -G", "-a", "-t", "1");
	REFUSES("-t or -G", "-G", "x", "-a");
	PARSES("-a", "--exclude-comm", "x");
#define ONE_PART "only one of --user, --all-user, --kernel and --all-kernel can be given"
	REFUSES(ONE_PART, "--user", "--kernel");
	REFUSES(ONE_PART, "--kernel", "--user");
	REFUSES(ONE_PART, "--user", "--user");
	REFUSES(ONE_PART, "--kernel", "--kernel");
	REFUSES(ONE_PART, "--all-user", "--all-kernel");
	REFUSES(ONE_PART, "--kernel", "--all-kernel");
}

/* Words that are, or nearly are, options and values; random words include "", too. */
static char *const words[] = {"-F",           "-a",
			      "-p",           "-C",
			      "-d",           "-o",
			      "-g",           "-q",
			      "-v",           "-h",
			      "--",           "-",
			      "--user",       "--kernel",
			      "--max-depth",  "--ring-size",
			      "--frequency",  "--pid=1,2",
			      "--cpu=0-3",    "--duration",
			      "--output",     "--quiet=",
			      "--u",          "--",
			      "-aqgF",        "99",
			      "max",          "1,2,3",
			      "0-7",          "64K",
			      "1.5",          "0",
			      "-1",           "9999999999999999999999",
			      "sleep",        "--x=\n",
			      "-\xff",        "-t",
			      "-G",           "--exclude-comm",
			      "--budget",     "--no-jitter",
			      "--no-inherit", "--labels",
			      "--label",      "a=b",
			      "comm,pid",     "all",
			      "pid=1"};

static char *random_word(char *buffer, size_t size)
{
	size_t length = (size_t)rand() % size;

	if (rand() % 4)
		return words[(size_t)rand() % (sizeof(words) / sizeof(words[0]))];
	for (size_t i = 0; i < length; i++)
		buffer[i] = rand() % 4 ? "-,.0123456789FpCdoKMmax="[rand() % 24] : rand();
	buffer[length] = '\0';
	return buffer;
}

static void random_arguments_are_parsed_or_refused_with_one_line(void **state)
{
	enum { ARGC_MAX = 10, LENGTH_MAX = 24 };
	uint32_t parsed = 0, refused = 0;

	(void)state;
	srand(2);
	for (int round = 0; round < 50000; round++) {
		char buffers[ARGC_MAX][LENGTH_MAX + 1];
		char *argv[ARGC_MAX + 1] = {"record"};
		int argc = 1 + rand() % (ARGC_MAX - 1);

		for (int i = 1; i < argc; i++)
			argv[i] = random_word(buffers[i], LENGTH_MAX);
		if (!parse_argv(argv)) {
			parsed++;
			assert_valid(argv, argc);
			continue;
		}
		refused++;
		assert_true(*error.text);
		assert_null(strchr(error.text, '\n'));
	}
	assert_true(parsed > 1000 && refused > 1000);
}

static void numbers_are_checked_against_their_range(void **state)
{
	uint32_t number = 7;

	(void)state;
	assert_int_equal(parse_number("4294967295", "it", 0, UINT32_MAX, &number, &error), 0);
	assert_int_equal(number, UINT32_MAX);
	assert_int_equal(parse_number("0", "it", 0, 0, &number, &error), 0);
	assert_int_equal(number, 0);
	assert_int_equal(parse_number("4294967296", "it", 0, UINT32_MAX, &number, &error), -EINVAL);
	assert_int_equal(parse_number("4", "it", 5, 9, &number, &error), -EINVAL);
	assert_int_equal(parse_number("10", "it", 5, 9, &number, &error), -EINVAL);
	assert_string_equal(error.text, "it: '10' is not a number from 5 to 9");
	assert_int_equal(number, 0);
	assert_int_equal(parse_number("5", "it", 5, 9, &number, &error), 0);
	assert_int_equal(number, 5);
	assert_int_equal(parse_number("9", "it", 5, 9, &number, &error), 0);
	assert_int_equal(number, 9);
	assert_int_equal(parse_number("", "it", 0, 9, &number, &error), -EINVAL);
	assert_int_equal(parse_number("5 ", "it", 0, 9, &number, &error), -EINVAL);
	/* Larger than what is calculated with. */
	assert_int_equal(parse_number("18446744073709551616", "it", 0, UINT32_MAX, &number, &error),
			 -EINVAL);
}

static void sizes_have_units_and_a_limit(void **state)
{
	static const struct {
		const char *text;
		uint64_t max, size;
	} good[] = {
		{"0", 0, 0},
		{"7", 7, 7},
		{"1K", 1024, 1024},
		{"3k", 4096, 3072},
		{"1M", 1 << 20, 1 << 20},
		{"2m", 2 << 20, 2 << 20},
		{"1G", 1 << 30, 1 << 30},
		{"3g", UINT64_MAX, UINT64_C(3) << 30},
		{"0G", 0, 0},
		{"18446744073709551615", UINT64_MAX, UINT64_MAX},
		{"17179869183G", UINT64_MAX, UINT64_C(17179869183) << 30},
	};
	static const struct {
		const char *text;
		uint64_t max;
	} bad[] = {
		{"", 99},
		{"K", 9999},
		{"8", 7},
		{"1K", 1023},
		{"2K", 2047},
		{"1M", (1 << 20) - 1},
		{"1G", (1 << 30) - 1},
		{"1T", UINT64_MAX},
		{"1KB", UINT64_MAX},
		{"1 K", UINT64_MAX},
		{" 1", UINT64_MAX},
		{"+1", UINT64_MAX},
		{"-1", UINT64_MAX},
		{"1.5K", UINT64_MAX},
		{"0x10", UINT64_MAX},
		{"17179869184G", UINT64_MAX},
		{"18446744073709551616", UINT64_MAX},
	};
	uint64_t size;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (!parse_size(good[i].text, good[i].max, &size) || size != good[i].size)
			fail_msg("'%s'", good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (parse_size(bad[i].text, bad[i].max, &size))
			fail_msg("'%s' was accepted", bad[i].text);
	}
}

/* A subcommand with an option of each kind, and a guard behind each target. */
enum color { RED, GREEN, BLUE };

struct kinds {
	bool flag, given;
	uint8_t guards[6];
	uint32_t constant, number;
	size_t count;
	uint64_t size;
	double seconds, percent;
	const char *text, *path, *directory;
	enum color color;
	uint32_t guard;
};

static const char *const color_names[] = {[RED] = "red", [GREEN] = "green", [BLUE] = "blue", NULL};

/* clang-format off */
static const struct cli_option kinds_table[] = {
	{'f', "flag", NULL, "", OPTION_FLAG(struct kinds, flag)},
	{0, "seven", NULL, "", OPTION_CONSTANT(struct kinds, constant, 7)},
	{'n', "number", "N", "", OPTION_NUMBER(struct kinds, number, 2, UINT32_MAX),
	 OPTION_GIVEN(struct kinds, given)},
	{0, "count", "N", "", OPTION_COUNT(struct kinds, count, 0, 9)},
	{0, "size", "SIZE", "", OPTION_SIZE(struct kinds, size, 1, UINT64_C(3) << 20)},
	{0, "seconds", "SEC", "", OPTION_SECONDS(struct kinds, seconds, 0)},
	{0, "percent", "P", "", OPTION_PERCENT(struct kinds, percent)},
	{0, "text", "TEXT", "", OPTION_TEXT(struct kinds, text)},
	{'p', NULL, "FILE", "", OPTION_PATH(struct kinds, path)},
	{0, "dir", "DIR", "", OPTION_PATH(struct kinds, directory)},
	{0, "color", "COLOR", "", OPTION_CHOICE(struct kinds, color, color_names)},
	{0, "ignored", "X", "", OPTION_CALL(option_ignore)},
	{0},
};
/* clang-format on */

static struct kinds kinds;

static int parse_kinds(char **argv)
{
	int argc = 0, first, err;

	while (argv[argc])
		argc++;
	memset(&kinds, 0, sizeof(kinds));
	memset(&error, 0, sizeof(error));
	err = options_parse(argc, argv, kinds_table, false, &kinds, &first, &error);
	assert_int_equal(kinds.guard, 0);
	for (size_t i = 0; i < sizeof(kinds.guards); i++)
		assert_int_equal(kinds.guards[i], 0);
	return err;
}

#define KINDS(...) assert_int_equal(parse_kinds(ARGV(__VA_ARGS__)), 0)
#define REFUSES_KIND(message, ...)                                                                 \
	do {                                                                                       \
		assert_int_equal(parse_kinds(ARGV(__VA_ARGS__)), -EINVAL);                         \
		assert_string_equal(error.text, message);                                          \
	} while (0)

static void each_kind_sets_its_target(void **state)
{
	(void)state;
	KINDS();
	assert_false(kinds.flag);
	assert_false(kinds.given);
	KINDS("--flag", "--seven", "--number=4294967295", "--count", "9", "--size", "2M",
	      "--seconds", "0.5", "--percent", "12.5", "--text", "", "-p", "a", "--dir", "b",
	      "--color", "blue", "--ignored", "x");
	assert_true(kinds.flag);
	assert_true(kinds.given);
	assert_int_equal(kinds.constant, 7);
	assert_int_equal(kinds.number, UINT32_MAX);
	assert_int_equal(kinds.count, 9);
	assert_int_equal(kinds.size, 2 << 20);
	assert_true(kinds.seconds == 0.5);
	assert_true(kinds.percent == 12.5);
	assert_string_equal(kinds.text, "");
	assert_string_equal(kinds.path, "a");
	assert_string_equal(kinds.directory, "b");
	assert_int_equal(kinds.color, BLUE);
}

/* A letter names an option in messages, or else its long name; the row has the bounds. */
static void each_kind_names_its_option_and_bounds(void **state)
{
	(void)state;
	REFUSES_KIND("-n: '1' is not a number from 2 to 4294967295", "--number", "1");
	REFUSES_KIND("--count: '10' is not a number from 0 to 9", "--count=10");
	REFUSES_KIND("--size: '0' is not a size from 1 to 3M", "--size", "0");
	REFUSES_KIND("--size: '4M' is not a size from 1 to 3M", "--size", "4M");
	REFUSES_KIND("--seconds: '0' is not a number of seconds above 0, at most 31536000",
		     "--seconds", "0");
	REFUSES_KIND("--percent: '101' is not a percentage from 0 to 100", "--percent", "101");
	REFUSES_KIND("-p: the file name is empty", "-p", "");
	REFUSES_KIND("--dir: the directory is empty", "--dir=");
	REFUSES_KIND("--color: 'pink' is not red, green or blue", "--color", "pink");
	REFUSES_KIND("'--flag=1': takes no value", "--flag=1");
	REFUSES_KIND("unknown option '--numbers'; did you mean '--number'?", "--numbers");
	/* A value that is refused leaves the target. */
	assert_int_equal(parse_kinds(ARGV("--count", "3", "--count", "x")), -EINVAL);
	assert_int_equal(kinds.count, 3);
}

/* A command that shows a file. */
struct viewer {
	struct view_options view;
	char others[256]; /* options of this command only */
};

static struct viewer viewer;

static int take_other(const struct cli_option *option, char *value, void *arg, struct error *out)
{
	assert_ptr_equal(arg, &viewer);
	snprintf(viewer.others + strlen(viewer.others),
		 sizeof(viewer.others) - strlen(viewer.others), "%c=%s ",
		 option->letter ? option->letter : '-', value ? value : "");
	return value && !strcmp(value, "bad") ? error_set(out, EINVAL, "it is bad") : 0;
}

/* clang-format off */
static const struct cli_option table[] = {
	{'o', "output", "FILE", "the output, a text that is so long that it needs a second line",
	 OPTION_CALL(take_other)},
	{0, "a-very-long-option", "VALUE", "begins on the next line", OPTION_CALL(take_other)},
	SAMPLE_TYPE_OPTION(struct viewer, view.sample_type),
	GROUP_OPTION(struct viewer, "label"),
	DIFF_OPTIONS(struct viewer),
	GO_HIDE_RUNTIME_OPTION(struct viewer, view.hides_go_runtime),
	{'x', NULL, NULL, "has no name", OPTION_CALL(take_other)},
	HELP_OPTION(struct viewer, view.help),
};
/* clang-format on */

static int parse_view(char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	memset(&viewer, 0, sizeof(viewer));
	memset(&error, 0, sizeof(error));
	return view_options_parse(argc, argv, table, &viewer, &viewer.view, &error);
}

#define VIEWS(...) assert_int_equal(parse_view(ARGV(__VA_ARGS__)), 0)
#define REFUSES_VIEW(message, ...)                                                                 \
	do {                                                                                       \
		assert_int_equal(parse_view(ARGV(__VA_ARGS__)), -EINVAL);                          \
		assert_string_equal(error.text, message);                                          \
	} while (0)

static void views_have_options_in_common(void **state)
{
	(void)state;
	VIEWS("a.pb.gz");
	assert_string_equal(viewer.view.file, "a.pb.gz");
	assert_null(viewer.view.sample_type);
	assert_null(viewer.view.group);
	assert_null(viewer.view.base);
	assert_false(viewer.view.absolute);
	assert_false(viewer.view.hides_go_runtime);
	assert_false(viewer.view.help);
	assert_string_equal(viewer.others, "");

	/* Options may follow the file. */
	VIEWS("--sample-type", "cpu", "a.pb.gz", "--group=comm", "-o", "b", "--diff", "c", "-x",
	      "--absolute", "--a-very-long-option", "d");
	assert_string_equal(viewer.view.file, "a.pb.gz");
	assert_string_equal(viewer.view.sample_type, "cpu");
	assert_string_equal(viewer.view.group, "comm");
	assert_string_equal(viewer.view.base, "c");
	assert_true(viewer.view.absolute);
	assert_false(viewer.view.hides_go_runtime);
	assert_string_equal(viewer.others, "o=b x= -=d ");
	VIEWS("--go-hide-runtime", "--", "-o");
	assert_true(viewer.view.hides_go_runtime);
	assert_string_equal(viewer.view.file, "-o");
	assert_string_equal(viewer.others, "");

	/* Help needs no file. */
	VIEWS("--help");
	assert_true(viewer.view.help);
	VIEWS("-h", "a", "b");
	assert_true(viewer.view.help);

	/* Without a file, it is what record writes; several are added up. */
	VIEWS("-x");
	assert_string_equal(viewer.view.file, "stackbeat.pb.gz");
	assert_int_equal(viewer.view.file_count, 1);
	VIEWS("a", "b", "c");
	assert_int_equal(viewer.view.file_count, 3);
	assert_string_equal(viewer.view.files[2], "c");
	REFUSES_VIEW("only one of the files can be standard input", "a", "-", "-");
	REFUSES_VIEW("--absolute needs --diff", "a", "--absolute");
	REFUSES_VIEW("it is bad", "-o", "bad", "-x", "a");
	assert_string_equal(viewer.others, "o=bad ");
	REFUSES_VIEW("'--absolute=1': takes no value", "--absolute=1");
	REFUSES_VIEW("unknown option '-Z'", "-Z");
	REFUSES_VIEW("unknown option '--rows'", "--rows");
	REFUSES_VIEW("-o: its value is missing", "a", "-o");
	/* One of both files can be standard input. */
	VIEWS("-", "--diff", "a");
	VIEWS("a", "--diff", "-");
	assert_string_equal(viewer.view.base, "-");
	VIEWS("-");
	assert_string_equal(viewer.view.file, "-");
	REFUSES_VIEW("--diff: only one of both files can be standard input", "-", "--diff", "-");
}

/* clang-format off */
static const struct cli_option short_table[] = {
	{'o', "output", "FILE",
	 "123456789 123456789 123456789 123456789 123456789 12345678 end",
	 OPTION_CALL(option_ignore)},
	{0, "sixteen-letters.", "N", "begins beside it", OPTION_CALL(option_ignore)},
	{0, "seventeen-letters", "N", "begins  below it", OPTION_CALL(option_ignore)},
	{'x', NULL, NULL, "no name", OPTION_CALL(option_ignore)},
	HELP_OPTION(struct viewer, view.help),
};
/* clang-format on */

static void help_has_columns(void **state)
{
	struct command_help help = {
		.synopsis = "stackbeat it",
		.description = "123456789 123456789 123456789 123456789 123456789 123456789 "
			       "123456789 1234567890 next",
		.options = short_table,
	};
	const char *expected =
		"Usage: stackbeat it\n\n"
		"123456789 123456789 123456789 123456789 123456789 123456789 123456789 1234567890\n"
		"next\n\n"
		"  -o, --output FILE         123456789 123456789 123456789 123456789 123456789\n"
		"                            12345678 end\n"
		"      --sixteen-letters. N  begins beside it\n"
		"      --seventeen-letters N\n"
		"                            begins below it\n"
		"  -x                        no name\n"
		"  -h, --help                show this help\n";
	/* The next word would end in column 81; the first one does not fit anyway. */
	const char *notes =
		"1234567890123456789012345678901234567890123456789012345678901234567890123456789012"
		"\n"
		"123456789 123456789 123456789 123456789 123456789 123456789 123456789\n"
		"12345678901\n";
	char text[2048], whole[2048];
	FILE *stream;

	(void)state;
	for (int has_notes = 0; has_notes < 2; has_notes++) {
		help.notes = has_notes ? "12345678901234567890123456789012345678901234567890123456"
					 "78901234567890123456789012 123456789 123456789 123456789 "
					 "123456789 123456789 123456789 123456789 12345678901"
				       : NULL;
		memset(text, 0, sizeof(text));
		stream = fmemopen(text, sizeof(text), "w");
		assert_non_null(stream);
		print_command_help(&help, stream);
		assert_int_equal(fclose(stream), 0);
		snprintf(whole, sizeof(whole), "%s%s%s", expected, has_notes ? "\n" : "",
			 has_notes ? notes : "");
		assert_string_equal(text, whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_sets_its_target),
		cmocka_unit_test(each_kind_names_its_option_and_bounds),
		cmocka_unit_test(options_have_defaults),
		cmocka_unit_test(cpus_alone_are_sampled_as_a_whole),
		cmocka_unit_test(short_and_long_options_are_parsed),
		cmocka_unit_test(ring_sizes_have_units),
		cmocka_unit_test(memory_has_units_and_bounds),
		cmocka_unit_test(methods_of_unwinding_have_names),
		cmocka_unit_test(copies_of_stacks_are_limited),
		cmocka_unit_test(symbolization_has_options),
		cmocka_unit_test(intervals_of_files_are_a_second_at_least),
		cmocka_unit_test(pids_are_lists_and_accumulate),
		cmocka_unit_test(pids_are_limited),
		cmocka_unit_test(filters_accumulate),
		cmocka_unit_test(groups_and_names_are_limited),
		cmocka_unit_test(bad_groups_and_names_are_refused),
		cmocka_unit_test(budgets_are_percentages),
		cmocka_unit_test(labels_are_chosen_and_added),
		cmocka_unit_test(arguments_belong_to_the_command),
		cmocka_unit_test(errors_name_option_and_value),
		cmocka_unit_test(bad_lists_are_refused),
		cmocka_unit_test(bad_durations_are_refused),
		cmocka_unit_test(errors_name_missing_values_and_unknown_options),
		cmocka_unit_test(a_value_for_an_option_without_one_is_refused),
		cmocka_unit_test(conflicting_options_are_refused),
		cmocka_unit_test(random_arguments_are_parsed_or_refused_with_one_line),
		cmocka_unit_test(numbers_are_checked_against_their_range),
		cmocka_unit_test(sizes_have_units_and_a_limit),
		cmocka_unit_test(views_have_options_in_common),
		cmocka_unit_test(help_has_columns),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
