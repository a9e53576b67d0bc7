// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "lib/error.h"
#include "lib/suggest.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{"record", cmd_record, "sample stacks into a pprof profile"},
	{"top", cmd_top, "show what the CPUs do, live"},
	{"report", cmd_report, "print a profile as text"},
	{"annotate", cmd_annotate, "print source and instructions of a function with samples"},
	{"export", cmd_export, "write a profile in order of time for another viewer"},
	{"flamegraph", cmd_flamegraph, "draw a profile as an SVG"},
	{"symbolize", cmd_symbolize, "symbolize a profile, also later and on another machine"},
	{"archive", cmd_archive, "collect the files that symbolize a profile elsewhere"},
	{"goroutines", cmd_goroutines, "write the goroutines of a Go program as pprof or text"},
	{"stack", cmd_stack, "print the stack of a thread or goroutine word by word"},
	{"serve", cmd_serve, "sample always, answer HTTP requests, store profiles"},
	{"push", cmd_push, "send profiles to a Pyroscope, Parca or OpenTelemetry server"},
	{"doctor", cmd_doctor, "check what keeps this machine from good profiles"},
	{"load", cmd_load, "load the kernel module"},
	{"unload", cmd_unload, "unload the kernel module"},
	{"status", cmd_status, "show the module and its sessions"},
	{"rate", cmd_rate, "show or set the sampling rate of a session"},
	{"pause", cmd_pause, "pause a recording"},
	{"resume", cmd_resume, "resume a paused recording"},
	{"events", cmd_events, "print the events of sessions"},
};

static const char version_usage[] = "Usage: stackbeat version\n\nPrint the version of stackbeat.";

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* What to use instead of the subcommands of perf that have no namesake here. */
static const struct replacement {
	const char *name, *use;
} replacements[] = {
	{"bench", "'perf bench': stackbeat has no benchmarks"},
	{"buildid-cache", "'stackbeat archive' or 'stackbeat record --save-binaries'"},
	{"buildid-list", "'stackbeat archive', which lists what it collects"},
	{"c2c", "'perf c2c': stackbeat samples CPU time only"},
	{"config", "options: stackbeat reads no configuration"},
	{"daemon", "'stackbeat serve', which samples always"},
	{"data", "'stackbeat export'"},
	{"diff", "'stackbeat report --diff BASE FILE'"},
	{"evlist", "'perf list': stackbeat samples CPU time, and has no events"},
	{"ftrace", "'perf ftrace': stackbeat samples CPU time, and has no tracepoints"},
	{"inject", "'stackbeat symbolize FILE'"},
	{"iostat", "'perf iostat': stackbeat samples CPU time only"},
	{"kallsyms", "'grep NAME /proc/kallsyms'"},
	{"kmem", "'perf kmem': stackbeat samples CPU time only"},
	{"kvm", "'perf kvm': stackbeat samples this kernel, not the kernels of guests"},
	{"kwork", "'perf kwork': stackbeat samples CPU time only"},
	{"list", "'perf list': stackbeat samples CPU time, and has no events"},
	{"lock", "'perf lock': stackbeat samples CPU time only"},
	{"mem", "'perf mem': stackbeat samples CPU time only"},
	{"probe", "'perf probe': stackbeat samples CPU time, and has no probes"},
	{"sched", "'perf sched': stackbeat samples CPU time only"},
	{"script", "'stackbeat report --folded FILE'"},
	{"stat", "'perf stat': stackbeat samples CPU time, and counts no events"},
	{"test", "'stackbeat doctor', which checks this machine"},
	{"timechart", "'perf timechart': stackbeat samples CPU time only"},
	{"trace", "'perf trace': stackbeat samples CPU time, and traces no calls"},
};

static void print_usage(FILE *stream)
{
	fputs("Usage: stackbeat COMMAND [ARG]...\n\n"
	      "A sampling profiler: kernel and user stacks, written as pprof.\n\n",
	      stream);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(stream, "  %-12s%s\n", commands[i].name, commands[i].summary);
	fputs("\nSee 'stackbeat COMMAND --help', and for more 'stackbeat help COMMAND' and\n"
	      "'man stackbeat', the man pages of a command and of all in common.\n"
	      "'stackbeat version' prints the version.\n",
	      stream);
}

/*
 * Repairs the state that the parent may have left: opens closed standard streams, as a file that
 * takes the place of one would receive messages; and resets SIGCHLD, as ignoring it hides how
 * children end.
 */
static void sanitize_process_state(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
	signal(SIGCHLD, SIG_DFL);
}

static const char *command_name(const void *context, size_t index)
{
	(void)context;
	return index < COMMANDS ? commands[index].name : NULL;
}

static void explain_unknown_command(const char *typed, struct error *error)
{
	const char *name;

	for (size_t i = 0; i < sizeof(replacements) / sizeof(replacements[0]); i++) {
		if (!strcmp(typed, replacements[i].name)) {
			error_set(error, EINVAL, "there is no command '%s'; use %s", typed,
				  replacements[i].use);
			return;
		}
	}
	if (*typed == '-') {
		error_set(error, EINVAL, "unknown option '%s'; see 'stackbeat --help'", typed);
		return;
	}
	name = suggest_word(typed, command_name, NULL);
	if (name)
		error_set(error, EINVAL, "there is no command '%s'; did you mean '%s'?", typed,
			  name);
	else
		error_set(error, EINVAL, "there is no command '%s'; see 'stackbeat --help'", typed);
}

static int unknown_command(const char *typed)
{
	struct error error;

	explain_unknown_command(typed, &error);
	fprintf(stderr, "stackbeat: %s\n", error.text);
	return STATUS_USAGE;
}

static int run_command(int argc, char **argv)
{
	for (size_t i = 0; i < COMMANDS; i++) {
		if (!strcmp(argv[0], commands[i].name))
			return commands[i].run(argc, argv);
	}
	return unknown_command(argv[0]);
}

/* Becomes man(1) with the page of a command, as in git; without man(1) or the page, its --help. */
static int open_page(char *name)
{
	static char script[] = "man -w \"$0\" >/dev/null 2>&1 || exec \"$1\" \"$2\" --help\n"
			       "exec man \"$0\"";
	char page[64], own[PATH_MAX];
	ssize_t length;
	size_t i = 0;

	while (i < COMMANDS && strcmp(name, commands[i].name))
		i++;
	if (i == COMMANDS)
		return unknown_command(name);
	snprintf(page, sizeof(page), "stackbeat-%s", name);
	length = readlink("/proc/self/exe", own, sizeof(own) - 1);
	if (length > 0) {
		own[length] = '\0';
		execlp("sh", "sh", "-c", script, page, own, name, (char *)NULL);
	}
	return run_command(2, (char *[]){name, "--help", NULL});
}

/* `word` is a subcommand, or the long or short option of the same name. */
static bool is_word(const char *typed, const char *word, const char *letter)
{
	return !strcmp(typed, word) || !strcmp(typed, letter) ||
	       (!strncmp(typed, "--", 2) && !strcmp(typed + 2, word));
}

static int refuse_argument(const char *word, const char *argument)
{
	struct error error;

	error_set(&error, EINVAL, "unexpected argument '%s'", argument);
	fprintf(stderr, "stackbeat %s: %s\n", word, error.text);
	return STATUS_USAGE;
}

/* argv[0] is the word for help. */
static int show_help(int argc, char **argv)
{
	if (argc > 2)
		return refuse_argument(argv[0], argv[2]);
	if (argc == 1 || is_word(argv[1], "help", "-h"))
		print_usage(stdout);
	else if (!strcmp(argv[1], "version"))
		puts(version_usage);
	else
		return open_page(argv[1]);
	return 0;
}

/* argv[0] is the word for the version. */
static int show_version(int argc, char **argv)
{
	const bool is_help = argc > 1 && is_word(argv[1], "--help", "-h");

	if (argc > 1 + is_help)
		return refuse_argument(argv[0], argv[1 + is_help]);
	puts(argc == 1 ? "stackbeat " STACKBEAT_VERSION : version_usage);
	return 0;
}

int main(int argc, char **argv)
{
	sanitize_process_state();

	if (argc < 2) {
		print_usage(stderr);
		return STATUS_USAGE;
	}
	if (is_word(argv[1], "help", "-h"))
		return show_help(argc - 1, argv + 1);
	if (is_word(argv[1], "version", "-V"))
		return show_version(argc - 1, argv + 1);
	return run_command(argc - 1, argv + 1);
}
