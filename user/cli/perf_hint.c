// SPDX-License-Identifier: GPL-2.0
#include "cli/perf_hint.h"

#include <stddef.h>
#include <string.h>

#define RATE_HINT "samples are of CPU time, not of events; -F HZ sets their rate"
#define BRANCH_HINT "branches are not recorded; use 'perf record'"
#define TREE_HINT                                                                                  \
	"--tree prints the call tree, --callers FUNC and --callees FUNC the calls of a function"
#define FOCUS_HINT "--focus REGEX chooses samples by functions, source files and libraries"
#define STDIO_HINT "leave it out: the report is text, 'stackbeat top' is interactive"
#define NAMES_HINT                                                                                 \
	"names are read at the end of record, or by 'stackbeat symbolize --kallsyms FILE'"
#define SHARE_HINT "leave it out: flat is of the function alone, cum with its callees"
#define ROTATE_HINT "--snapshot SEC writes the profile so far, --rotate SEC begins a new file"
#define KCORE_HINT "leave it out: code of the kernel and its modules is read from /proc/kcore"
#define COLOR_HINT "leave it out: a hue says whether code is the kernel's, and shades are of names"
#define FONT_HINT "leave it out: a browser's zoom makes text larger"
#define LEAVE_HINT "leave it out: stackbeat does so always"

/*
 * Options of perf-record(1), perf-report(1), perf-annotate(1) and perf-top(1) of Linux 6.12, and of
 * flamegraph.pl, that are not options here, nor the beginning of one. The name of a letter whose
 * long option has another meaning here is the letter.
 */
static const struct {
	const char *command, *name;
	int letter;
	const char *hint;
} hints[] = {
	{"record", "--count", 'c', RATE_HINT},
	{"record", "--branch-any", 'b', BRANCH_HINT},
	{"record", "--branch-filter", 'j', BRANCH_HINT},
	{"record", "--no-samples", 'n', "samples are what is recorded; use 'perf stat' for counts"},
	{"record", "--data", 0, "memory accesses are not recorded; use 'perf record'"},
	{"record", "--mmap-pages", 'm', "--ring-size SIZE sets the size of the buffers"},
	{"record", "--delay", 'D', "sleep before, or use 'stackbeat pause' and 'stackbeat resume'"},
	{"record", "--uid", 'u', "-a with '--labels comm,pid', or -p PID,... for some processes"},
	{"record", "--realtime", 'r', LEAVE_HINT " without a real-time priority"},
	{"record", "--period", 'P', "leave it out: samples have their CPU time"},
	{"record", "--stat", 's', "--labels tid keeps threads apart"},
	{"record", "--raw-samples", 'R', "raw records of events are not kept; use 'perf record'"},
	{"record", "--intr-regs", 'I', "registers are not kept; use 'perf record'"},
	{"record", "--filter", 0,
	 "samples are of CPU time, which has no filters; -p, -t, -G and -C choose"},
	{"record", "--no-buildid", 'B', "leave it out: build IDs are in the profile"},
	{"record", "--no-buildid-cache", 'N',
	 "leave it out: no binary is kept without --save-binaries"},
	{"record", "--buildid-all", 0, "leave it out: build IDs are in the profile"},
	{"record", "--switch-output", 0, ROTATE_HINT},
	{"record", "--overwrite", 0, ROTATE_HINT},
	{"record", "--per-thread", 0, "-t TID,... samples threads; --labels tid keeps them apart"},
	{"record", "--exclude-perf", 0, "--exclude-comm stackbeat leaves out the profiler"},
	{"record", "--max-size", 0, "--memory SIZE bounds what is recorded"},
	{"record", "--compression-level", 'z', "leave it out: the profile is compressed"},
	{"record", "--off-cpu", 0, "samples are of CPU time; use 'perf record'"},
	{"record", "--clockid", 'k',
	 "leave it out: no clock can be chosen; --timestamps keeps the time of each sample"},
	{"record", "--kcore", 0,
	 "leave it out: the profile has names of the kernel; annotate reads /proc/kcore"},
	{"record", "--namespaces", 0,
	 "leave it out: files are found in the namespaces of their processes"},
	{"record", "--all-cgroups", 0,
	 "leave it out: samples have the labels cgroup and container"},
	{"record", "--synth", 0, LEAVE_HINT " for processes that run already"},
	{"record", "--user-callchains", 0, "--user samples the user part of stacks only"},
	{"record", "--kernel-callchains", 0, "--kernel samples the kernel part of stacks only"},
	{"record", "--no-bpf-event", 0,
	 "leave it out: BPF programs have the names that they had when they were sampled"},
	{"record", "--append", 'A', "'stackbeat report FILE...' adds up several files"},
	{"record", "-S", 'S', "hardware traces are not recorded; use 'perf record'"},
	{"record", "--weight", 'W', "memory accesses are not recorded; use 'perf record'"},
	{"record", "--metrics", 'M', "events are not counted; use 'perf stat'"},
	{"record", "--dry-run", 0, "'stackbeat doctor' says whether a recording is possible"},
	{"record", "--aio", 0, "leave it out: samples are added up, and not written one by one"},
	{"record", "--control", 0, "'stackbeat pause' and 'stackbeat resume' control a session"},
	{"record", "--threads", 0, "leave it out: samples of all CPUs make one file"},
	{"record", "--vmlinux", 0, NAMES_HINT},
	{"record", "--strict-freq", 0,
	 "leave it out: the end of a recording says which rate was reached"},
	{"record", "--sample-cpu", 0, "--labels cpu keeps CPUs apart"},
	{"record", "--user-regs", 0, "registers are not kept; use 'perf record'"},
	{"report", "--tui", 0, STDIO_HINT},
	{"report", "--call-graph", 'g', TREE_HINT},
	{"report", "--children", 0, SHARE_HINT},
	{"report", "--no-children", 0, SHARE_HINT},
	{"report", "--inverted", 'G', "--callers FUNC, or 'stackbeat flamegraph --inverted'"},
	{"report", "--comms", 'c', "--group comm, or --sort comm,sym"},
	{"report", "--pid", 0, "--group pid, or --sort pid,sym"},
	{"report", "--tid", 0, "--group tid, or --sort tid,sym"},
	{"report", "--threads", 'T', "--group tid, or --sort tid,sym"},
	{"report", "--dsos", 'd', FOCUS_HINT},
	{"report", "--symbols", 'S', FOCUS_HINT},
	{"report", "--symbol-filter", 0, FOCUS_HINT},
	{"report", "--parent", 'p', FOCUS_HINT},
	{"report", "--fields", 'F',
	 "--csv and --json print values for programs, --sort KEY,... chooses keys"},
	{"report", "--field-separator", 't', "--csv separates fields by commas"},
	{"report", "--header", 0, "-v prints what the recording says of itself"},
	{"report", "--header-only", 0, "-v prints what the recording says of itself"},
	{"report", "--dump-raw-trace", 'D', "'stackbeat report --folded FILE' prints all stacks"},
	{"report", "--show-nr-samples", 0, "--sample-type samples"},
	{"report", "--sample-type-period", 0, "--sample-type cpu"},
	{"report", "--vmlinux", 'k', NAMES_HINT},
	{"report", "--kallsyms", 0, NAMES_HINT},
	{"report", "--symfs", 0, "'stackbeat symbolize --binaries DIR FILE'"},
	{"report", "--show-total-period", 0, SHARE_HINT},
	{"report", "--hide-unresolved", 'U',
	 "leave it out: code without a symbol is shown by its file and address"},
	{"report", "--max-stack", 0, "stacks are printed whole; --hide REGEX leaves out frames"},
	{"annotate", "--vmlinux", 'k', KCORE_HINT},
	{"annotate", "--modules", 'm', KCORE_HINT},
	{"annotate", "--force", 'f', "leave it out: the profile may have any owner"},
	{"annotate", "--quiet", 'q', "leave it out: 2>/dev/null hides messages"},
	{"annotate", "--show-nr-samples", 'n', "--json prints values, with --sample-type samples"},
	{"annotate", "--full-paths", 'P',
	 "leave it out: paths are printed as debug information has them"},
	{"annotate", "--dump-raw-trace", 'D', "'stackbeat report --folded FILE' prints all stacks"},
	{"annotate", "--tui", 0,
	 "leave it out: the output is text; the page of 'stackbeat serve' annotates, too"},
	{"annotate", "--percent-type", 0,
	 "leave it out: shares are of the samples of the function"},
	{"annotate", "--objdump", 0, "leave it out: libcapstone disassembles"},
	{"annotate", "--cpu", 'C', "'stackbeat record -C LIST' samples some CPUs"},
	{"annotate", "--source", 0, "leave it out: source is printed, but with --no-source"},
	{"annotate", "--symfs", 0, "--binaries DIR looks for programs and libraries there"},
	{"flamegraph", "--reverse", 0, "--inverted begins with the functions that have samples"},
	{"flamegraph", "--colors", 0, COLOR_HINT},
	{"flamegraph", "--hash", 0, COLOR_HINT},
	{"flamegraph", "--cp", 0, COLOR_HINT},
	{"flamegraph", "--width", 0, "leave it out: the picture is as wide as the window"},
	{"flamegraph", "--height", 0, "leave it out: rows are as high as their text"},
	{"flamegraph", "--minwidth", 0, "leave it out: a click shows frames that are too narrow"},
	{"flamegraph", "--fontsize", 0, FONT_HINT},
	{"flamegraph", "--fonttype", 0, FONT_HINT},
	{"flamegraph", "--countname", 0,
	 "--sample-type NAME chooses the value, which has its unit"},
	{"flamegraph", "--nametype", 0,
	 "leave it out: frames are functions, or lines with --lines"},
	{"flamegraph", "--subtitle", 0, "--title TEXT sets the title"},
	{"top", "--count", 'c', RATE_HINT},
	{"top", "--entries", 'E', "--rows N"},
	{"top", "--sort", 's', "--tab functions, services, processes or containers"},
	{"top", "--zero", 'z', "--window SEC sets of what time the functions are"},
	{"top", "--hide_kernel_symbols", 'K', "'stackbeat record --user' samples user code only"},
	{"top", "--hide_user_symbols", 'U', "'stackbeat record --kernel' samples kernel code only"},
	{"top", "--mmap-pages", 'm', LEAVE_HINT " with a size that fits"},
	{"top", "--stdio", 0, "-b prints text"},
};

const char *perf_option_hint(const char *command, const char *word, int letter)
{
	const size_t length = strcspn(word, "=");

	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		if (strcmp(command, hints[i].command))
			continue;
		if ((letter && letter == hints[i].letter) ||
		    (!strncmp(word, hints[i].name, length) && !hints[i].name[length]))
			return hints[i].hint;
	}
	return NULL;
}
