// SPDX-License-Identifier: GPL-2.0
#include "cli/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "cli/suggest.h"
#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"
#include "report/call_tree.h"
#include "report/profile_view.h"
#include "symbolize/go_runtime.h"

#define SYMBOLIZE_TIMEOUT_MAX_S (7u * 24 * 3600)
#define SECONDS_MAX (365.0 * 24 * 3600)

/* --help: the most columns of a line, and options that put their text on the next line. */
#define HELP_COLUMNS 80
#define OPTION_COLUMNS_MAX 26

#define OPTIONS_MAX 40

enum {
	OPTION_USER = OPTION_LONG_ONLY,
	OPTION_KERNEL,
	OPTION_MAX_DEPTH,
	OPTION_RING_SIZE,
	OPTION_NO_JITTER,
	OPTION_BUDGET,
	OPTION_NO_INHERIT,
	OPTION_EXCLUDE_COMM,
	OPTION_LABELS,
	OPTION_LABEL,
	OPTION_SAVE_BINARIES,
	OPTION_NO_SYMBOLIZE,
	OPTION_GO_HIDE_RUNTIME,
	OPTION_SNAPSHOT,
	OPTION_ROTATE,
	OPTION_MEMORY,
	OPTION_UNWIND,
	OPTION_STACK_COPY,
	OPTION_VERIFY,
	OPTION_CALL_GRAPH,
	OPTION_SOURCE,
};

/* clang-format off */
static const struct cli_option record_options[] = {
	{'F', "frequency", "HZ",
	 "samples per second and CPU, 1 to 20000, or max (default: 99)"},
	{'a', "all-cpus", NULL, "sample the whole system, also while COMMAND runs"},
	{'p', "pid", "PID[,...]", "sample these processes, and those they fork from now on"},
	{'t', "tid", "TID[,...]", "sample these threads"},
	{'G', "cgroup", "PATH",
	 "sample this control group (version 2) and all below it; repeatable"},
	{OPTION_NO_INHERIT, "no-inherit", NULL, "do not sample forked processes"},
	{OPTION_EXCLUDE_COMM, "exclude-comm", "NAME",
	 "exclude the threads of this name; repeatable"},
	{'C', "cpu", "LIST",
	 "sample these CPUs, such as 0,2-3 (default: all that are neither isolated nor nohz_full)"},
	{'d', "duration", "SEC", "stop after this many seconds"},
	{OPTION_LABELS, "labels", "LIST",
	 "labels of the samples: all, none, or some of comm, thread, pid, tid, goroutine, "
	 "go-creator, go-labels, cpu, cgroup, container, truncated (default: all but tid, goroutine, "
	 "go-creator and cpu)"},
	{OPTION_LABEL, "label", "KEY=VALUE", "add this label to every sample; repeatable"},
	{OPTION_SAVE_BINARIES, "save-binaries", "DIR",
	 "save programs and libraries in DIR/.build-id, to symbolize later"},
	{OPTION_NO_SYMBOLIZE, "no-symbolize", NULL,
	 "write addresses only; 'stackbeat symbolize' symbolizes them, also later and on another "
	 "machine, and 'stackbeat archive' collects what it needs"},
	GO_HIDE_RUNTIME_OPTION(OPTION_GO_HIDE_RUNTIME),
	SYMBOLIZE_TIMEOUT_OPTION,
	SANDBOX_OPTION,
	{'o', "output", "FILE", "output file (default: " OUTPUT_DEFAULT "); - for standard output"},
	{OPTION_SNAPSHOT, "snapshot", "SEC",
	 "also write the profile so far every SEC seconds, and on SIGUSR2"},
	{OPTION_ROTATE, "rotate", "SEC",
	 "begin a new file every SEC seconds, and on SIGUSR2; the start time (UTC) is added to its "
	 "name"},
	{OPTION_MEMORY, "memory", "SIZE",
	 "memory for what is recorded, 16M to 1024G (default: 256M); beyond it, --rotate begins a new "
	 "file, or else the rarest stacks are merged"},
	{OPTION_USER, "user", NULL, "sample the user part of the stacks only"},
	{OPTION_KERNEL, "kernel", NULL, "sample the kernel part of the stacks only"},
	{OPTION_MAX_DEPTH, "max-depth", "N",
	 "maximum number of user frames in a stack, 1 to 1023 (default: 255)"},
	{OPTION_SOURCE, "source", "SOURCE",
	 "where samples come from: module, perf (perf_event_open(2), which needs no module), or auto: "
	 "the module if it can be used, or else perf (default)"},
	{OPTION_UNWIND, "unwind", "METHOD",
	 "how to unwind the user part of stacks: tables (made from the call frame information of "
	 "programs and libraries), fp (frame pointers), or auto: tables if the module supports them "
	 "(default)"},
	{OPTION_STACK_COPY, "stack-copy", "SIZE",
	 "bytes of the stack that the first samples of a program carry, before its unwind tables are "
	 "made, and with --source=perf all samples: up to 64K (default: 8K, with --source=perf 32K or "
	 "less by the rate); 0: none"},
	CACHE_OPTIONS,
	{OPTION_VERIFY, "verify", "N",
	 "unwind one in N user stacks once more, by elfutils and a copy of the stack, and report how "
	 "many are equal, by program and library"},
	{OPTION_RING_SIZE, "ring-size", "SIZE",
	 "size of the ring buffer of a CPU, a power of two, 64K to 64M (default: 512K)"},
	{OPTION_NO_JITTER, "no-jitter", NULL,
	 "sample at equal intervals instead of random ones; a program that runs in step with them "
	 "is always sampled at the same point"},
	{OPTION_BUDGET, "budget", "PERCENT",
	 "CPU time that sampling may take on a CPU before the rate there is halved, 0.1 to 50 "
	 "(default: 5)"},
	{'g', NULL, NULL, "ignored, for compatibility with perf: stacks are always recorded"},
	{'e', "event", "EVENT",
	 "for compatibility with perf: cpu-clock or task-clock, also with :u or :k, which is what is "
	 "always sampled"},
	{OPTION_CALL_GRAPH, "call-graph", "METHOD",
	 "for compatibility with perf: fp is --unwind=fp, dwarf is --unwind=auto"},
	{'q', "quiet", NULL, "print no progress and no summary"},
	{'v', "verbose", NULL, "list all problems with files, not only the first five, the unwind table of each file, and the CPU time by part"},
	HELP_OPTION,
};
/* clang-format on */

const struct command_help record_help = {
	.synopsis = "stackbeat record [OPTION]... [--] [COMMAND [ARG]...]",
	.description = "Sample kernel and user stacks into a pprof profile: of COMMAND and the "
		       "processes it forks, of other processes (-p), or else of the whole "
		       "system; until COMMAND ends, the duration is over, or SIGINT (Ctrl-C) "
		       "or SIGTERM arrives.",
	.options = record_options,
	.notes = "The exit status is COMMAND's if that is not 0. Otherwise, it is 0 if a "
		 "profile with samples was written, 3 if there were no samples, 1 for "
		 "another failure, 2 for a wrong command line.",
};

/* Prints the words of a paragraph from column `indent` on, where the cursor is. */
static void print_paragraph(const char *text, int indent, FILE *stream)
{
	int column = indent;

	while (*text) {
		int length = (int)strcspn(text, " ");

		if (column > indent && column + 1 + length > HELP_COLUMNS) {
			fprintf(stream, "\n%*s", indent, "");
			column = indent;
		}
		column += fprintf(stream, "%s%.*s", column > indent ? " " : "", length, text);
		text += length;
		text += strspn(text, " ");
	}
	fputc('\n', stream);
}

/* An option with its value, as --help shows them. Returns the number of columns. */
static int format_option(const struct cli_option *option, char *text, size_t size)
{
	char letter[8] = "   ";

	if (option->id < OPTION_LONG_ONLY)
		snprintf(letter, sizeof(letter), "-%c%s", option->id, option->name ? "," : "");
	return snprintf(text, size, "  %s%s%s%s%s", letter, option->name ? " --" : "",
			option->name ? option->name : "", option->value ? " " : "",
			option->value ? option->value : "");
}

void print_command_help(const struct command_help *help, FILE *stream)
{
	const struct cli_option *option;
	char text[64];
	int indent = 0;

	fprintf(stream, "Usage: %s\n\n", help->synopsis);
	print_paragraph(help->description, 0, stream);
	fputc('\n', stream);
	for (option = help->options; option->id; option++) {
		int columns = format_option(option, text, sizeof(text));

		if (columns > indent && columns <= OPTION_COLUMNS_MAX)
			indent = columns;
	}
	indent += 2;
	for (option = help->options; option->id; option++) {
		int columns = format_option(option, text, sizeof(text));

		fputs(text, stream);
		if (columns <= OPTION_COLUMNS_MAX)
			fprintf(stream, "%*s", indent - columns, "");
		else
			fprintf(stream, "\n%*s", indent, "");
		print_paragraph(option->help, indent, stream);
	}
	if (help->notes) {
		fputc('\n', stream);
		print_paragraph(help->notes, 0, stream);
	}
}

int parse_number(const char *text, const char *what, uint32_t min, uint32_t max, uint32_t *number,
		 struct error *error)
{
	unsigned long long value = 0;
	char *end = NULL;

	errno = 0;
	if (isdigit((unsigned char)*text))
		value = strtoull(text, &end, 10);
	if (!end || *end || errno || value < min || value > max)
		return error_set(error, EINVAL, "%s: '%s' is not a number from %u to %u", what,
				 text, min, max);
	*number = value;
	return 0;
}

static int option_parse_rate(const char *text, uint32_t *rate, struct error *error)
{
	if (!strcmp(text, "max")) {
		*rate = 0;
		return 0;
	}
	return parse_number(text, "-F (samples per second)", STACKBEAT_RATE_MIN, STACKBEAT_RATE_MAX,
			    rate, error);
}

static int option_parse_seconds(const char *text, const char *option, double *seconds,
				struct error *error)
{
	char *end;

	*seconds = strtod(text, &end);
	/* strtod() accepts more than decimal numbers. */
	if (end == text || *end || text[strspn(text, "0123456789.")] || *seconds <= 0 ||
	    *seconds > SECONDS_MAX)
		return error_set(error, EINVAL,
				 "%s: '%s' is not a number of seconds above 0, at most %.0f",
				 option, text, SECONDS_MAX);
	return 0;
}

/* Parses an interval: of a second at least, as each one makes a file. */
static int parse_interval(const char *text, const char *option, double *seconds,
			  struct error *error)
{
	int err = option_parse_seconds(text, option, seconds, error);

	if (!err && *seconds < 1)
		return error_set(error, EINVAL, "%s: '%s' is less than a second", option, text);
	return err;
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

static int parse_cgroup(const char *text, struct record_options *options, struct error *error)
{
	if (!*text)
		return error_set(error, EINVAL, "-G: the path is empty");
	if (options->session.cgroup_count == STACKBEAT_CGROUPS_MAX)
		return error_set(error, EINVAL, "-G: more than %u control groups",
				 STACKBEAT_CGROUPS_MAX);
	options->session.cgroups[options->session.cgroup_count++] = text;
	return 0;
}

static int parse_comm(char *text, struct record_options *options, struct error *error)
{
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
static int parse_budget(const char *text, uint32_t *budget, struct error *error)
{
	char *end;
	double percent = strtod(text, &end);

	if (end == text || *end || text[strspn(text, "0123456789.")] ||
	    percent * 10 < STACKBEAT_BUDGET_MIN || percent * 10 > STACKBEAT_BUDGET_MAX)
		return error_set(error, EINVAL, "--budget: '%s' is not a percentage from %g to %g",
				 text, STACKBEAT_BUDGET_MIN / 10.0, STACKBEAT_BUDGET_MAX / 10.0);
	*budget = (uint32_t)(percent * 10 + 0.5);
	return 0;
}

static int parse_cpus(const char *text, struct record_options *options, struct error *error)
{
	struct error reason;

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

bool parse_size(const char *text, uint64_t max, uint64_t *size)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end = NULL;

	errno = 0;
	if (isdigit((unsigned char)*text))
		*size = strtoull(text, &end, 10);
	if (!end || errno)
		return false;
	if (*end) {
		unit = strchr(units, toupper((unsigned char)*end++));
		if (!unit || *end || *size > max >> (10 * (unit - units + 1)))
			return false;
		*size <<= 10 * (unit - units + 1);
	}
	return *size <= max;
}

static int parse_unwind(const char *text, enum unwind_method *method, struct error *error)
{
	static const struct {
		const char *name;
		enum unwind_method method;
	} methods[] = {
		{"auto", UNWIND_AUTO},
		{"tables", UNWIND_TABLES},
		{"fp", UNWIND_FRAME_POINTERS},
	};

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(text, methods[i].name))
			continue;
		*method = methods[i].method;
		return 0;
	}
	return error_set(error, EINVAL, "--unwind: '%s' is not auto, tables or fp", text);
}

static int choose_part(uint32_t part, uint32_t *parts, struct error *error)
{
	if (*parts != STACKBEAT_PARTS_ALL)
		return error_set(error, EINVAL,
				 "--user and --kernel can't be combined or repeated");
	*parts = part;
	return 0;
}

/* As `perf record -e`: the clocks are the only events, and a modifier selects a part of stacks. */
static int parse_event(const char *text, uint32_t *parts, struct error *error)
{
	static const char *const clocks[] = {"cpu-clock", "task-clock"};

	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		const char *modifier = text + strlen(clocks[i]);

		if (strncmp(text, clocks[i], strlen(clocks[i])))
			continue;
		if (!*modifier || !strcmp(modifier, ":uk"))
			return 0;
		if (strcmp(modifier, ":u") && strcmp(modifier, ":k"))
			break;
		return choose_part(modifier[1] == 'u' ? STACKBEAT_PART_USER : STACKBEAT_PART_KERNEL,
				   parts, error);
	}
	return error_set(error, EINVAL,
			 "-e: '%s' is not sampled: samples are of CPU time, as by cpu-clock; for "
			 "other events use 'perf record'",
			 text);
}

/* As `perf record --call-graph`. BYTES of dwarf,BYTES would be the size of each copy: ignored.
 */
static int parse_call_graph(const char *text, enum unwind_method *method, struct error *error)
{
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

static int parse_source(const char *text, enum session_source *source, struct error *error)
{
	static const char *const names[] = {
		[SOURCE_AUTO] = "auto", [SOURCE_MODULE] = "module", [SOURCE_PERF] = "perf"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(text, names[i]))
			continue;
		*source = (enum session_source)i;
		return 0;
	}
	return error_set(error, EINVAL, "--source: '%s' is not auto, module or perf", text);
}

static int parse_stack_copy(const char *text, uint32_t *size, struct error *error)
{
	uint64_t bytes;

	if (!parse_size(text, STACKBEAT_STACK_COPY_MAX, &bytes) || bytes % sizeof(uint64_t))
		return error_set(error, EINVAL,
				 "--stack-copy: '%s' is not a multiple of 8 bytes up to %uK", text,
				 STACKBEAT_STACK_COPY_MAX >> 10);
	*size = (uint32_t)bytes;
	return 0;
}

static int parse_ring_size(const char *text, uint32_t *size, struct error *error)
{
	uint64_t bytes;

	if (!parse_size(text, STACKBEAT_RING_SIZE_MAX, &bytes) || bytes < STACKBEAT_RING_SIZE_MIN ||
	    (bytes & (bytes - 1)))
		return error_set(error, EINVAL,
				 "--ring-size: '%s' is not a power of two from 64K to 64M", text);
	*size = (uint32_t)bytes;
	return 0;
}

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

static int parse_memory(const char *text, uint64_t *memory, struct error *error)
{
	if (!parse_size(text, MEMORY_MAX, memory) || *memory < MEMORY_MIN)
		return error_set(error, EINVAL, "--memory: '%s' is not a size from 16M to 1024G",
				 text);
	return 0;
}

int sandbox_option_parse(int id, const char *value, struct sandbox_options *options,
			 struct error *error)
{
	if (id == SANDBOX_TIMEOUT)
		return parse_number(value, "--symbolize-timeout", 1, SYMBOLIZE_TIMEOUT_MAX_S,
				    &options->timeout_s, error);
	options->require = !strcmp(value, "require");
	if (options->require || !strcmp(value, "try"))
		return 0;
	return error_set(error, EINVAL, "--sandbox: '%s' is neither 'try' nor 'require'", value);
}

static int parse_record_option(int id, char *value, void *arg, struct error *error)
{
	struct record_options *options = arg;

	switch (id) {
	case 'F':
		options->session.rate_given = true;
		return option_parse_rate(value, &options->session.rate, error);
	case 'a':
		options->session.system_wide = true;
		return 0;
	case 'p':
		return parse_ids(value, "-p", "process ID", options->session.pids,
				 &options->session.pid_count, error);
	case 't':
		return parse_ids(value, "-t", "thread ID", options->session.tids,
				 &options->session.tid_count, error);
	case 'G':
		return parse_cgroup(value, options, error);
	case OPTION_EXCLUDE_COMM:
		return parse_comm(value, options, error);
	case OPTION_NO_INHERIT:
		options->session.no_inherit = true;
		return 0;
	case OPTION_NO_JITTER:
		options->session.no_jitter = true;
		return 0;
	case OPTION_BUDGET:
		return parse_budget(value, &options->session.budget, error);
	case 'C':
		return parse_cpus(value, options, error);
	case 'd':
		return option_parse_seconds(value, "-d", &options->seconds, error);
	case OPTION_LABELS:
		return labels_choose(&options->labels, value, error);
	case OPTION_LABEL:
		return labels_add(&options->labels, value, error);
	case 'g':
		return 0;
	case 'e':
		return parse_event(value, &options->session.parts, error);
	case OPTION_CALL_GRAPH:
		return parse_call_graph(value, &options->session.unwind, error);
	case 'o':
		if (!*value)
			return error_set(error, EINVAL, "-o: the file name is empty");
		options->output = value;
		return 0;
	case OPTION_SAVE_BINARIES:
		if (!*value)
			return error_set(error, EINVAL, "--save-binaries: the directory is empty");
		options->save_binaries = value;
		return 0;
	case OPTION_NO_SYMBOLIZE:
		options->no_symbolize = true;
		return 0;
	case OPTION_GO_HIDE_RUNTIME:
		options->hides_go_runtime = true;
		return 0;
	case SANDBOX_MODE:
	case SANDBOX_TIMEOUT:
		return sandbox_option_parse(id, value, &options->sandbox, error);
	case CACHE_DIRECTORY:
	case CACHE_OFF:
		return cache_option_parse(id, value, &options->cache, error);
	case OPTION_SNAPSHOT:
		return parse_interval(value, "--snapshot", &options->snapshot, error);
	case OPTION_ROTATE:
		return parse_interval(value, "--rotate", &options->rotate, error);
	case OPTION_MEMORY:
		return parse_memory(value, &options->memory, error);
	case 'q':
		options->quiet = true;
		return 0;
	case 'v':
		options->verbose = true;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	case OPTION_USER:
	case OPTION_KERNEL:
		return choose_part(id == OPTION_USER ? STACKBEAT_PART_USER : STACKBEAT_PART_KERNEL,
				   &options->session.parts, error);
	case OPTION_MAX_DEPTH:
		return parse_number(value, "--max-depth", 1, STACKBEAT_USER_FRAMES_MAX,
				    &options->session.max_depth, error);
	case OPTION_UNWIND:
		return parse_unwind(value, &options->session.unwind, error);
	case OPTION_VERIFY:
		return parse_number(value, "--verify", 1, INT32_MAX, &options->session.verify,
				    error);
	case OPTION_SOURCE:
		return parse_source(value, &options->session.source, error);
	case OPTION_STACK_COPY:
		options->session.stack_copy_given = true;
		return parse_stack_copy(value, &options->session.stack_copy, error);
	case OPTION_RING_SIZE:
		return parse_ring_size(value, &options->session.ring_size, error);
	default:
		return error_set(error, EINVAL, "unknown option");
	}
}

/* Returns what to use instead of an option of `perf record`, or NULL. */
static const char *perf_hint(const char *command, const char *word, int letter)
{
	static const struct {
		const char *name;
		int letter;
		const char *hint;
	} hints[] = {
		{"--count", 'c', "samples are of CPU time, not of events; -F HZ sets their rate"},
		{"--branch-any", 'b', "branches are not recorded; use 'perf record'"},
		{"--branch-filter", 'j', "branches are not recorded; use 'perf record'"},
		{"--data", 'd', "memory accesses are not recorded; use 'perf record'"},
		{"--mmap-pages", 'm', "--ring-size SIZE sets the size of the buffers"},
		{"--freq", 0, "-F HZ sets the rate of samples"},
	};

	if (strcmp(command, "record"))
		return NULL;
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		size_t length = strcspn(word, "=");

		if ((letter && letter == hints[i].letter) ||
		    (!strncmp(word, hints[i].name, length) && !hints[i].name[length]))
			return hints[i].hint;
	}
	return NULL;
}

static const char *option_word(const void *context, size_t index)
{
	const struct cli_option *option = context;

	/* Options without a long name are never near. */
	return option[index].id ? option[index].name ?: "" : NULL;
}

/* Describes a long option that is unknown, or the beginning of more than one. */
static int long_option_error(const char *word, const struct cli_option *options,
			     struct error *error)
{
	const char *name = word + strspn(word, "-"), *near;
	const size_t length = strcspn(name, "=");
	char typed[64], list[256] = "";
	size_t used = 0, count = 0;

	snprintf(typed, sizeof(typed), "%.*s", (int)length, name);
	for (size_t i = 0; options[i].id; i++) {
		if (!options[i].name || strncmp(options[i].name, typed, strlen(typed)))
			continue;
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s--%s",
						 count ? ", " : "", options[i].name);
		count++;
	}
	if (count > 1)
		return error_set(error, EINVAL, "ambiguous option '%s': %s", word, list);
	near = suggest_word(typed, option_word, options);
	if (near)
		return error_set(error, EINVAL, "unknown option '%s'; did you mean '--%s'?", word,
				 near);
	return error_set(error, EINVAL, "unknown option '%s'", word);
}

/* Describes the error that getopt_long() has reported as `result`, ':' or '?'. */
static int option_error(int result, char *const *argv, const struct cli_option *options,
			struct error *error)
{
	const char *word = argv[optind - 1];
	const char *hint = perf_hint(argv[0], word, optopt);

	if (result == ':')
		return error_set(error, EINVAL, "%s: its value is missing", word);
	/* In a word of several letters, getopt_long() has not gone on to the next word. */
	if (hint && optopt && optopt < OPTION_LONG_ONLY)
		return error_set(error, EINVAL, "unknown option '-%c': %s", optopt, hint);
	if (hint)
		return error_set(error, EINVAL, "unknown option '%s': %s", word, hint);
	if (!optopt)
		return long_option_error(word, options, error);
	/* optopt is an unknown letter, or the id of a long option. */
	for (; options->id; options++) {
		if (options->id == optopt)
			return error_set(error, EINVAL, "'%s': takes no value", word);
	}
	return error_set(error, EINVAL, "unknown option '-%c'", optopt);
}

/* The options in the form of getopt_long(). */
struct getopt_tables {
	char letters[2 + 2 * OPTIONS_MAX + 1];
	struct option names[OPTIONS_MAX + 1]; /* the last one is all zero */
};

/* Fills `tables`, which are all zero. */
static void make_getopt_tables(const struct cli_option *options, bool stop_at_argument,
			       struct getopt_tables *tables)
{
	struct option *name = tables->names;
	char *letter = tables->letters;

	if (stop_at_argument)
		*letter++ = '+';
	/* A missing value is reported as ':'. */
	*letter++ = ':';
	for (size_t i = 0; options[i].id; i++) {
		assert(i < OPTIONS_MAX);
		if (options[i].id < OPTION_LONG_ONLY) {
			*letter++ = (char)options[i].id;
			if (options[i].value)
				*letter++ = ':';
		}
		if (options[i].name) {
			name->name = options[i].name;
			name->has_arg = options[i].value ? required_argument : no_argument;
			name->val = options[i].id;
			name++;
		}
	}
}

int options_parse(int argc, char **argv, const struct cli_option *options, bool stop_at_argument,
		  option_fn *fn, void *arg, int *first, struct error *error)
{
	struct getopt_tables tables = {0};
	int id, err = 0;

	make_getopt_tables(options, stop_at_argument, &tables);
	optind = 0;
	opterr = 0;
	while (!err && (id = getopt_long(argc, argv, tables.letters, tables.names, NULL)) != -1) {
		if (id == ':' || id == '?')
			err = option_error(id, argv, options, error);
		else
			err = fn(id, optarg, arg, error);
	}
	*first = optind;
	return err;
}

int options_file(int argc, char **argv, int first, const char **file, struct error *error)
{
	if (argc - first != 1)
		return error_set(error, EINVAL, "%s (see stackbeat %s --help)",
				 argc == first ? "no file is given" : "more than one file is given",
				 argv[0]);
	*file = argv[first];
	return 0;
}

int options_pid(int argc, char **argv, int first, uint32_t *pid, struct error *error)
{
	if (argc - first > (*pid ? 0 : 1))
		return error_set(error, EINVAL, "one process ID is the only argument, not '%s'",
				 argv[argc - 1]);
	if (!*pid && first == argc)
		return error_set(error, EINVAL, "no process ID is given (see stackbeat %s --help)",
				 argv[0]);
	return *pid ? 0 : parse_number(argv[first], "a process ID", 1, INT32_MAX, pid, error);
}

/* Sets the keys of a view to the words of --sort, which are in `words`; both may be NULL. */
static int split_keys(const struct view_options *options, char *words, struct profile_view *view,
		      struct error *error)
{
	const char *text = options->sort;
	size_t count = 0, length;

	for (; text; text = text[length] ? text + length + 1 : NULL) {
		length = strcspn(text, ",");
		if (!length || count == SORT_KEYS_MAX)
			return error_set(error, EINVAL,
					 "--sort: '%s' is not a list of 1 to %u keys",
					 options->sort, SORT_KEYS_MAX);
		if (view) {
			memcpy(words, text, length);
			words[length] = '\0';
			view->keys[count] = words;
			words += length + 1;
			view->key_count = count + 1;
		}
		count++;
	}
	return 0;
}

/* A key that is of no frame, and of no sample either, is a typing error. */
static int check_keys(const struct profile_view *view, const struct profile *profile,
		      struct error *error)
{
	for (size_t i = 0; i < view->key_count; i++) {
		if (!profile_view_knows_key(view->keys[i]) && profile->samples.count &&
		    !calltree_has_label(profile, view->keys[i]))
			return error_set(error, EINVAL, "--sort: no sample has the label '%s'",
					 view->keys[i]);
	}
	return 0;
}

/* Replaces a profile by what the options show of it. Returns 0 or a negative errno value. */
static int choose_view(const struct view_options *options, struct profile **profile,
		       struct error *error)
{
	regex_t regexes[VIEW_PATTERNS];
	const regex_t *compiled[VIEW_PATTERNS] = {NULL};
	struct profile_view view = {.lines = options->lines};
	char *words = options->sort ? strdup(options->sort) : NULL;
	struct profile *shown = NULL;
	int err = options->sort && !words ? -ENOMEM : 0;

	for (size_t i = 0; i < VIEW_PATTERNS && !err; i++) {
		if (!options->patterns[i])
			continue;
		err = regcomp(&regexes[i], options->patterns[i], REG_EXTENDED | REG_NOSUB) ? -ENOMEM
											   : 0;
		if (!err)
			compiled[i] = &regexes[i];
	}
	view.focus = compiled[VIEW_FOCUS];
	view.ignore = compiled[VIEW_IGNORE];
	view.hide = compiled[VIEW_HIDE];
	view.show = compiled[VIEW_SHOW];
	if (!err && words)
		split_keys(options, words, &view, NULL);
	if (err)
		error_errno(error, ENOMEM, "can't choose samples");
	else
		err = check_keys(&view, *profile, error);
	if (!err && !profile_view_is_whole(&view) && profile_view_make(*profile, &view, &shown))
		err = error_errno(error, ENOMEM, "can't choose samples");
	if (shown) {
		profile_free(*profile);
		*profile = shown;
	}
	for (size_t i = 0; i < VIEW_PATTERNS; i++) {
		if (compiled[i])
			regfree(&regexes[i]);
	}
	free(words);
	return err;
}

struct view_parser {
	struct view_options *view;
	option_fn *fn; /* for other options */
	void *arg;
};

static int check_pattern(const char *pattern, struct error *error)
{
	char reason[128];
	regex_t regex;
	int err = regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB);

	if (!err) {
		regfree(&regex);
		return 0;
	}
	regerror(err, &regex, reason, sizeof(reason));
	return error_set(error, EINVAL, "'%s' is not a regular expression: %s", pattern, reason);
}

static int parse_view_option(int id, char *value, void *arg, struct error *error)
{
	const struct view_parser *parser = arg;

	switch (id) {
	case VIEW_SAMPLE_TYPE:
		parser->view->sample_type = value;
		return 0;
	case VIEW_GROUP:
		parser->view->group = value;
		return 0;
	case VIEW_DIFF:
		parser->view->base = value;
		return 0;
	case VIEW_ABSOLUTE:
		parser->view->absolute = true;
		return 0;
	case VIEW_GO_HIDE_RUNTIME:
		parser->view->hides_go_runtime = true;
		return 0;
	case VIEW_LINES:
		parser->view->lines = true;
		return 0;
	case VIEW_PATTERN + VIEW_FOCUS:
	case VIEW_PATTERN + VIEW_IGNORE:
	case VIEW_PATTERN + VIEW_HIDE:
	case VIEW_PATTERN + VIEW_SHOW:
		parser->view->patterns[id - VIEW_PATTERN] = value;
		return check_pattern(value, error);
	case 'h':
		parser->view->help = true;
		return 0;
	default:
		return parser->fn(id, value, parser->arg, error);
	}
}

int view_options_parse(int argc, char **argv, const struct cli_option *options, option_fn *fn,
		       void *arg, struct view_options *view, struct error *error)
{
	static char default_file[] = OUTPUT_DEFAULT;
	static char *default_files[] = {default_file};
	struct view_parser parser = {view, fn, arg};
	int first, err, inputs = 0;

	*view = (struct view_options){0};
	err = options_parse(argc, argv, options, false, parse_view_option, &parser, &first, error);
	if (err || view->help)
		return err;
	view->files = first < argc ? argv + first : default_files;
	view->file_count = first < argc ? argc - first : 1;
	view->file = view->files[0];
	for (int i = 0; i < view->file_count; i++)
		inputs += !strcmp(view->files[i], "-");
	if (inputs > 1)
		return error_set(error, EINVAL, "only one of the files can be standard input");
	err = split_keys(view, NULL, NULL, error);
	if (err)
		return err;
	if (view->absolute && !view->base)
		return error_set(error, EINVAL, "--absolute needs --diff");
	if (view->base && !strcmp(view->base, "-") && inputs)
		return error_set(error, EINVAL,
				 "--diff: only one of both files can be standard input");
	return 0;
}

/* Adds a file to a profile. Its comments are added, too, if there are others already. */
static int merge_file(struct profile *profile, const char *file, struct error *error)
{
	struct profile *more = pprof_read(file, error);
	int err;

	if (!more)
		return -EINVAL;
	err = profile_merge(profile, more);
	for (size_t i = 0; !err && i < more->comments.count; i++)
		profile_add_comment(
			profile,
			profile_string(profile, profile_text(more, more->comments.items[i])));
	if (!err) {
		profile->duration_ns = add_saturated(profile->duration_ns, more->duration_ns);
		profile->time_ns = MIN(profile->time_ns, more->time_ns);
		err = profile->error;
	}
	profile_free(more);
	if (err == -EINVAL)
		return error_set(error, EINVAL, "%s: its sample types are others than those before",
				 file);
	return err ? error_errno(error, -err, "%s", file) : 0;
}

/* Reads files into *profile, which is NULL if that fails. */
static int read_view(const struct view_options *view, char *const *files, int count,
		     struct profile **profile, struct error *error)
{
	const char *file = files[0];
	int err = 0;

	*profile = pprof_read(file, error);
	if (!*profile)
		return -EINVAL;
	for (int i = 1; i < count && !err; i++)
		err = merge_file(*profile, files[i], error);
	if (err) {
		profile_free(*profile);
		*profile = NULL;
		return err;
	}
	if (view->hides_go_runtime && go_runtime_hide(*profile))
		err = error_errno(error, ENOMEM, "%s", file);
	if (!err)
		err = choose_view(view, profile, error);
	if (!err)
		return 0;
	profile_free(*profile);
	*profile = NULL;
	return err;
}

int view_read(const struct view_options *view, struct profile **profile, struct profile **base,
	      struct error *error)
{
	int err;

	*base = NULL;
	err = read_view(view, view->files, view->file_count, profile, error);
	if (err || !view->base)
		return err;
	err = read_view(view, (char *[]){view->base}, 1, base, error);
	if (!err)
		return 0;
	profile_free(*profile);
	*profile = NULL;
	return err;
}

int record_options_parse(int argc, char **argv, struct record_options *options, struct error *error)
{
	int first, err;

	*options = (struct record_options){
		.session.rate = STACKBEAT_RATE_DEFAULT,
		.session.cpus = "",
		.session.cpulist.all = true,
		.output = OUTPUT_DEFAULT,
		.session.parts = STACKBEAT_PARTS_ALL,
		.session.max_depth = STACKBEAT_USER_FRAMES_DEFAULT,
		.session.stack_copy = STACK_COPY_DEFAULT,
		.session.ring_size = STACKBEAT_RING_SIZE_DEFAULT,
		.session.budget = STACKBEAT_BUDGET_DEFAULT,
		.labels.chosen = LABELS_DEFAULT,
		.memory = MEMORY_DEFAULT,
	};
	/* The first argument is COMMAND; options after it are COMMAND's. */
	err = options_parse(argc, argv, record_options, true, parse_record_option, options, &first,
			    error);
	if (err)
		return err;
	if (first < argc)
		options->command = argv + first;
	if (options->session.system_wide &&
	    (options->session.pid_count || options->session.tid_count ||
	     options->session.cgroup_count))
		return error_set(error, EINVAL, "-a can't be combined with -p, -t or -G");
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
