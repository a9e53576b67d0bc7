// SPDX-License-Identifier: GPL-2.0
#include "cli/record_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "cli/sandbox_option.h"
#include "cli/view_options.h"
#include "lib/error.h"

/* Kinds of options */

int record_parse_rate(const struct cli_option *option, char *text, void *arg, struct error *error)
{
	struct record_options *options = arg;

	(void)option;
	if (!strcmp(text, "max")) {
		options->session.rate = 0;
		return 0;
	}
	return parse_number(text, "-F (samples per second)", STACKBEAT_RATE_MIN, STACKBEAT_RATE_MAX,
			    &options->session.rate, error);
}

/* Adds the IDs of a list to `ids`; `option` and `what` are for the message. */
static int parse_ids(const char *text, const char *option, const char *what, uint32_t *ids,
		     size_t *count, struct error *error)
{
	char number[16];
	char name[32];
	int err;

	snprintf(name, sizeof(name), "%s (%s)", option, what);
	do {
		size_t length = strcspn(text, ",");

		if (*count == STACKBEAT_PIDS_MAX)
			return error_set(error, EINVAL, "%s: more than %u %ss", option,
					 STACKBEAT_PIDS_MAX, what);
		if (length >= sizeof(number))
			return error_set(error, EINVAL, "%s: '%.*s' is not a %s", option,
					 (int)length, text, what);
		memcpy(number, text, length);
		number[length] = '\0';
		err = parse_number(number, name, 1, INT32_MAX, &ids[*count], error);
		if (err)
			return err;
		++*count;
		text += length;
	} while (*text++ == ',');
	return 0;
}

int record_parse_pids(const struct cli_option *option, char *text, void *arg, struct error *error)
{
	struct record_options *options = arg;

	(void)option;
	return parse_ids(text, "-p", "process ID", options->session.pids,
			 &options->session.pid_count, error);
}

int record_parse_tids(const struct cli_option *option, char *text, void *arg, struct error *error)
{
	struct record_options *options = arg;

	(void)option;
	return parse_ids(text, "-t", "thread ID", options->session.tids,
			 &options->session.tid_count, error);
}

int record_parse_cgroup(const struct cli_option *option, char *text, void *arg, struct error *error)
{
	struct record_options *options = arg;

	(void)option;
	if (!*text)
		return error_set(error, EINVAL, "-G: the path is empty");
	if (options->session.cgroup_count == STACKBEAT_CGROUPS_MAX)
		return error_set(error, EINVAL, "-G: more than %u control groups",
				 STACKBEAT_CGROUPS_MAX);
	options->session.cgroups[options->session.cgroup_count++] = text;
	return 0;
}

static int parse_comm(const struct cli_option *option, char *text, void *arg, struct error *error)
{
	struct record_options *options = arg;

	(void)option;
	if (!*text || strlen(text) >= STACKBEAT_COMM_SIZE)
		return error_set(error, EINVAL,
				 "--exclude-comm: '%s' is not a thread name of 1 to %u characters",
				 text, STACKBEAT_COMM_SIZE - 1);
	if (options->session.excluded_comm_count == STACKBEAT_COMMS_MAX)
		return error_set(error, EINVAL, "--exclude-comm: more than %u names",
				 STACKBEAT_COMMS_MAX);
	options->session.excluded_comms[options->session.excluded_comm_count++] = text;
	return 0;
}

/* Parses a percentage into thousandths. */
static int parse_budget(const struct cli_option *option, char *text, void *arg, struct error *error)
{
	char *end;
	double percent = strtod(text, &end);

	if (end == text || *end || text[strspn(text, "0123456789.")] ||
	    percent * 10 < STACKBEAT_BUDGET_MIN || percent * 10 > STACKBEAT_BUDGET_MAX)
		return error_set(error, EINVAL, "--budget: '%s' is not a percentage from %g to %g",
				 text, STACKBEAT_BUDGET_MIN / 10.0, STACKBEAT_BUDGET_MAX / 10.0);
	*(uint32_t *)option_target(option, arg) = (uint32_t)(percent * 10 + 0.5);
	return 0;
}

int record_parse_cpus(const struct cli_option *option, char *text, void *arg, struct error *error)
{
	struct record_options *options = arg;
	struct error reason;

	(void)option;
	if (!*text)
		return error_set(error, EINVAL, "-C: the list of CPUs is empty");
	if (strlen(text) >= STACKBEAT_CPULIST_MAX)
		return error_set(error, EINVAL, "-C: the list of CPUs is longer than %u characters",
				 STACKBEAT_CPULIST_MAX - 1);
	if (cpulist_parse(text, &options->session.cpulist, &reason))
		return error_set(error, EINVAL, "-C: %s", reason.text);
	options->session.cpus = text;
	return 0;
}

static int record_parse_label(const struct cli_option *option, char *text, void *arg,
			      struct error *error)
{
	return labels_add(option_target(option, arg), text, error);
}

static int set_part(uint32_t part, uint32_t *parts, struct error *error)
{
	if (*parts != STACKBEAT_PARTS_ALL)
		return error_set(error, EINVAL,
				 "only one of --user, --all-user, --kernel and --all-kernel can be "
				 "given");
	*parts = part;
	return 0;
}

static int choose_part(const struct cli_option *option, char *text, void *arg, struct error *error)
{
	(void)text;
	return set_part(option->constant, option_target(option, arg), error);
}

/* As `perf record -e`: the clocks are the only events, and a modifier selects a part of stacks. */
int record_parse_event(const struct cli_option *option, char *text, void *arg, struct error *error)
{
	static const char *const clocks[] = {"cpu-clock", "task-clock"};
	struct error reason;

	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		const char *modifier = text + strlen(clocks[i]);

		if (strncmp(text, clocks[i], strlen(clocks[i])))
			continue;
		if (!*modifier || !strcmp(modifier, ":uk"))
			return 0;
		if (strcmp(modifier, ":u") && strcmp(modifier, ":k"))
			break;
		if (!set_part(modifier[1] == 'u' ? STACKBEAT_PART_USER : STACKBEAT_PART_KERNEL,
			      option_target(option, arg), &reason))
			return 0;
		return error_set(error, EINVAL, "-e: '%s' means --%s: %s", text,
				 modifier[1] == 'u' ? "user" : "kernel", reason.text);
	}
	return error_set(error, EINVAL,
			 "-e: '%s' is not sampled: samples are of CPU time, as by cpu-clock; for "
			 "other events use 'perf record'",
			 text);
}

/* As `perf record --call-graph`. BYTES of dwarf,BYTES would be the size of each copy: ignored. */
static int parse_call_graph(const struct cli_option *option, char *text, void *arg,
			    struct error *error)
{
	enum unwind_method *method = option_target(option, arg);

	if (!strcmp(text, "fp"))
		*method = UNWIND_FRAME_POINTERS;
	else if (!strcmp(text, "dwarf") || !strncmp(text, "dwarf,", strlen("dwarf,")))
		*method = UNWIND_AUTO;
	else if (!strcmp(text, "lbr"))
		return error_set(error, EINVAL,
				 "--call-graph: there is no 'lbr' here; leave it out: callers are "
				 "found by unwind tables, also without frame pointers");
	else
		return error_set(error, EINVAL, "--call-graph: '%s' is not fp or dwarf", text);
	return 0;
}

static int parse_stack_copy(const struct cli_option *option, char *text, void *arg,
			    struct error *error)
{
	uint64_t bytes;

	if (!parse_size(text, STACKBEAT_STACK_COPY_MAX, &bytes) || bytes % sizeof(uint64_t))
		return error_set(error, EINVAL,
				 "--stack-copy: '%s' is not a multiple of 8 bytes up to %uK", text,
				 STACKBEAT_STACK_COPY_MAX >> 10);
	*(uint32_t *)option_target(option, arg) = (uint32_t)bytes;
	return 0;
}

static int parse_ring_size(const struct cli_option *option, char *text, void *arg,
			   struct error *error)
{
	uint64_t bytes;

	if (!parse_size(text, STACKBEAT_RING_SIZE_MAX, &bytes) || bytes < STACKBEAT_RING_SIZE_MIN ||
	    (bytes & (bytes - 1)))
		return error_set(error, EINVAL,
				 "--ring-size: '%s' is not a power of two from 64K to 64M", text);
	*(uint32_t *)option_target(option, arg) = (uint32_t)bytes;
	return 0;
}

/* The table */

const char *const session_source_names[] = {
	[SOURCE_AUTO] = "auto", [SOURCE_MODULE] = "module", [SOURCE_PERF] = "perf", NULL};
static const char *const unwind_method_names[] = {
	[UNWIND_AUTO] = "auto", [UNWIND_TABLES] = "tables", [UNWIND_FRAME_POINTERS] = "fp", NULL};

/* clang-format off */
static const struct cli_option record_options[] = {
	{'F', "frequency", "HZ",
	 "samples per second and CPU, 1 to 20000, or max (default: 99)",
	 OPTION_CALL(record_parse_rate), OPTION_GIVEN(struct record_options, session.rate_given)},
	{'a', "all-cpus", NULL, "sample the whole system, also while COMMAND runs",
	 OPTION_FLAG(struct record_options, session.system_wide)},
	{'p', "pid", "PID[,...]", "sample these processes, and those they fork from now on",
	 OPTION_CALL(record_parse_pids)},
	{'t', "tid", "TID[,...]", "sample these threads",
	 OPTION_CALL(record_parse_tids)},
	{'G', "cgroup", "PATH",
	 "sample this control group (version 2) and all below it; repeatable",
	 OPTION_CALL(record_parse_cgroup)},
	{'i', "no-inherit", NULL, "do not sample forked processes",
	 OPTION_FLAG(struct record_options, session.no_inherit)},
	{0, "exclude-comm", "NAME",
	 "exclude the threads of this name; repeatable",
	 OPTION_CALL(parse_comm)},
	{'C', "cpu", "LIST",
	 "sample these CPUs, such as 0,2-3 (default: all that are neither isolated nor nohz_full); "
	 "without -p, -t and -G all that runs on them, also while COMMAND runs",
	 OPTION_CALL(record_parse_cpus)},
	{'d', "duration", "SEC", "stop after this many seconds",
	 OPTION_SECONDS(struct record_options, seconds, 0)},
	{0, "labels", "LIST",
	 "labels of the samples: all, none, or some of comm, thread, pid, tid, goroutine, "
	 "go-creator, go-labels, cpu, cgroup, container, truncated (default: all but tid, goroutine, "
	 "go-creator and cpu)",
	 OPTION_LABELS(struct record_options, labels)},
	{0, "label", "KEY=VALUE", "add this label to every sample; repeatable",
	 OPTION_CALL(record_parse_label), OPTION_TARGET(struct labels, struct record_options, labels)},
	{'T', "timestamps", NULL,
	 "keep samples apart, each with its time, thread and CPU, so that 'stackbeat export' shows them "
	 "in order of time; files are larger",
	 OPTION_FLAG(struct record_options, timestamps)},
	{0, "blocks", NULL,
	 "add a label with one of up to 32 blocks of time to every sample, from which 'stackbeat report "
	 "--diff' finds what is noise; files are larger",
	 OPTION_FLAG(struct record_options, blocks)},
	{0, "save-binaries", "DIR",
	 "save programs and libraries in DIR/.build-id, to symbolize later",
	 OPTION_PATH(struct record_options, save_binaries)},
	{0, "no-symbolize", NULL,
	 "write addresses only; 'stackbeat symbolize' symbolizes them, also later and on another "
	 "machine, and 'stackbeat archive' collects what it needs",
	 OPTION_FLAG(struct record_options, no_symbolize)},
	GO_HIDE_RUNTIME_OPTION(struct record_options, hides_go_runtime),
	SYMBOLIZE_TIMEOUT_OPTION(struct record_options, sandbox),
	SANDBOX_OPTION(struct record_options, sandbox),
	{'o', "output", "FILE", "output file (default: " OUTPUT_DEFAULT "); - for standard output: what COMMAND prints "
	 "there goes to standard error",
	 OPTION_PATH(struct record_options, output)},
	{0, "snapshot", "SEC",
	 "also write the profile so far every SEC seconds, and on SIGUSR2",
	 OPTION_SECONDS(struct record_options, snapshot, 1)},
	{0, "rotate", "SEC",
	 "begin a new file every SEC seconds, and on SIGUSR2; the start time (UTC) is added to its "
	 "name",
	 OPTION_SECONDS(struct record_options, rotate, 1)},
	{0, "memory", "SIZE",
	 "memory for what is recorded, 16M to 1024G (default: 256M); beyond it, --rotate begins a new "
	 "file, or else the lightest stacks are merged",
	 OPTION_SIZE(struct record_options, memory, MEMORY_MIN, MEMORY_MAX)},
	{0, "user", NULL, "sample the user part of the stacks only",
	 OPTION_CALL(choose_part), OPTION_TARGET(uint32_t, struct record_options, session.parts),
	 .constant = STACKBEAT_PART_USER},
	{0, "kernel", NULL, "sample the kernel part of the stacks only",
	 OPTION_CALL(choose_part), OPTION_TARGET(uint32_t, struct record_options, session.parts),
	 .constant = STACKBEAT_PART_KERNEL},
	{0, "all-user", NULL, "as --user, for compatibility with perf",
	 OPTION_CALL(choose_part), OPTION_TARGET(uint32_t, struct record_options, session.parts),
	 .constant = STACKBEAT_PART_USER},
	{0, "all-kernel", NULL, "as --kernel, for compatibility with perf",
	 OPTION_CALL(choose_part), OPTION_TARGET(uint32_t, struct record_options, session.parts),
	 .constant = STACKBEAT_PART_KERNEL},
	{0, "max-depth", "N",
	 "maximum number of user frames in a stack, 1 to 1023 (default: 255)",
	 OPTION_NUMBER(struct record_options, session.max_depth, 1, STACKBEAT_USER_FRAMES_MAX)},
	{0, "source", "SOURCE",
	 "where samples come from: module, perf (perf_event_open(2), which needs no module), or auto: "
	 "the module if it can be used, or else perf (default)",
	 OPTION_CHOICE(struct record_options, session.source, session_source_names)},
	{0, "unwind", "METHOD",
	 "how to unwind the user part of stacks: tables (made from the call frame information of "
	 "programs and libraries), fp (frame pointers), or auto: tables if the module supports them "
	 "(default)",
	 OPTION_CHOICE(struct record_options, session.unwind, unwind_method_names)},
	{0, "stack-copy", "SIZE",
	 "bytes of the stack that the first samples of a program carry, before its unwind tables are "
	 "made, and with --source=perf all samples: up to 64K (default: 8K, with --source=perf 32K or "
	 "less by the rate, and 60K at most, as the kernel's record has less than 64K); 0: none",
	 OPTION_CALL(parse_stack_copy), OPTION_TARGET(uint32_t, struct record_options, session.stack_copy),
	 OPTION_GIVEN(struct record_options, session.stack_copy_given)},
	CACHE_OPTIONS(struct record_options, cache),
	{0, "verify", "N",
	 "unwind one in N user stacks once more, by elfutils and a copy of the stack, and report how "
	 "many are equal, by program and library",
	 OPTION_NUMBER(struct record_options, session.verify, 1, INT32_MAX)},
	{0, "ring-size", "SIZE",
	 "size of the ring buffer of a CPU, a power of two, 64K to 64M (default: 512K)",
	 OPTION_CALL(parse_ring_size), OPTION_TARGET(uint32_t, struct record_options, session.ring_size)},
	{0, "no-jitter", NULL,
	 "sample at equal intervals instead of random ones; a program that runs in step with them "
	 "is always sampled at the same point",
	 OPTION_FLAG(struct record_options, session.no_jitter)},
	{0, "budget", "PERCENT",
	 "CPU time that sampling may take on a CPU before the rate there is halved, 0.1 to 50 "
	 "(default: 5)",
	 OPTION_CALL(parse_budget), OPTION_TARGET(uint32_t, struct record_options, session.budget)},
	{'g', NULL, NULL, "ignored, for compatibility with perf: stacks are always recorded",
	 OPTION_CALL(option_ignore)},
	{'e', "event", "EVENT",
	 "for compatibility with perf: cpu-clock or task-clock, also with :u or :k, which is what is "
	 "always sampled",
	 OPTION_CALL(record_parse_event), OPTION_TARGET(uint32_t, struct record_options, session.parts)},
	{0, "call-graph", "METHOD",
	 "for compatibility with perf: fp is --unwind=fp, dwarf is --unwind=auto",
	 OPTION_CALL(parse_call_graph),
	 OPTION_TARGET(enum unwind_method, struct record_options, session.unwind)},
	{'q', "quiet", NULL, "print no progress and no summary",
	 OPTION_FLAG(struct record_options, quiet)},
	{'v', "verbose", NULL,
	 "list all problems with files, not only the first five, the unwind table of each file, and "
	 "the CPU time by part",
	 OPTION_FLAG(struct record_options, verbose)},
	HELP_OPTION(struct record_options, help),
};
/* clang-format on */

const struct command_help record_help = {
	.synopsis = "stackbeat record [OPTION]... [--] [COMMAND [ARG]...]",
	.description = "Sample kernel and user stacks into a pprof profile: of COMMAND and the "
		       "processes it forks, of other processes (-p), of CPUs (-C), or else of the "
		       "whole system; until COMMAND ends, the duration is over, or SIGINT (Ctrl-C) "
		       "or SIGTERM arrives.",
	.options = record_options,
	.notes = "The exit status is COMMAND's if that is not 0. Otherwise, it is 0 if a "
		 "profile with samples was written, 3 if there were no samples, 1 for "
		 "another failure, 2 for a wrong command line. Without a profile, an existing file "
		 "stays as it is.",
};
/*
 * Returns the size of the smallest ring for copies of this size. Copies use half of a ring at most,
 * and the reader wakes at a quarter.
 */
static uint32_t ring_size_for(uint32_t stack_copy)
{
	uint32_t size = STACKBEAT_RING_SIZE_MIN;

	while (stack_copy > size / 4)
		size *= 2;
	return size;
}

int record_targets_check(const struct session_config *session, struct error *error)
{
	if (session->system_wide &&
	    (session->pid_count || session->tid_count || session->cgroup_count))
		return error_set(error, EINVAL, "-a can't be combined with -p, -t or -G");
	return 0;
}

/* As in perf: CPUs without another target mean all that runs on them, also while COMMAND runs. */
static bool selects_only_cpus(const struct session_config *session)
{
	return *session->cpus && !session->pid_count && !session->tid_count &&
	       !session->cgroup_count;
}

void record_options_default(struct record_options *options)
{
	*options = (struct record_options){
		.output = OUTPUT_DEFAULT,
		.labels.chosen = LABELS_DEFAULT,
		.memory = MEMORY_DEFAULT,
	};
	session_config_init(&options->session);
	options->session.has_target_options = true;
}

int record_options_parse(int argc, char **argv, struct record_options *options, struct error *error)
{
	int first, err;

	record_options_default(options);
	options->session.has_command = true;
	/* The first argument is COMMAND; options after it are COMMAND's. */
	err = options_parse(argc, argv, record_options, true, options, &first, error);
	if (err)
		return err;
	if (first < argc)
		options->command = argv + first;
	if (record_targets_check(&options->session, error))
		return -EINVAL;
	options->session.system_wide =
		options->session.system_wide || selects_only_cpus(&options->session);
	if (options->blocks)
		options->labels.chosen |= LABEL_SET(LABEL_BLOCK);
	if (options->timestamps)
		options->labels.chosen |= LABEL_SET(LABEL_MOMENT) | LABEL_SET(LABEL_PID) |
					  LABEL_SET(LABEL_TID) | LABEL_SET(LABEL_CPU);
	options->session.goroutines = labels_of_goroutines(&options->labels);
	if (options->no_symbolize && options->hides_go_runtime)
		return error_set(error, EINVAL,
				 "--go-hide-runtime and --no-symbolize can't be combined");
	if (options->session.stack_copy > options->session.ring_size / 4)
		return error_set(
			error, EINVAL,
			"--stack-copy: copies of %u bytes need a --ring-size of %uK or more",
			options->session.stack_copy,
			ring_size_for(options->session.stack_copy) >> 10);
	if (options->session.verify && !options->session.stack_copy)
		return error_set(error, EINVAL, "--verify can't be combined with --stack-copy=0");
	if (options->snapshot && options->rotate)
		return error_set(error, EINVAL, "--snapshot and --rotate can't be combined");
	if ((options->snapshot || options->rotate) && !strcmp(options->output, "-"))
		return error_set(error, EINVAL, "%s can't be combined with -o -",
				 options->snapshot ? "--snapshot" : "--rotate");
	return 0;
}
