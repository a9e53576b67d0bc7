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
#define MEMORY_HINT "memory accesses are not recorded; use 'perf record'"
#define OWNER_HINT "leave it out: the profile may have any owner"
#define QUIET_HINT "leave it out: 2>/dev/null hides messages"
#define COMMENTS_HINT "-v prints what the recording says of itself"
#define CODE_HINT "'stackbeat annotate FUNC' prints the instructions of a function"
#define WIDTH_HINT "leave it out: columns are as wide as their text"
#define DEMANGLED_HINT "leave it out: names are demangled"
#define STACKS_HINT "leave it out: stacks are always recorded"
#define KALLSYMS_HINT "leave it out: names of the kernel are read from /proc/kallsyms"
#define FILTER_HINT "on the screen, the key / shows only rows with a text"
#define TEXT_HINT "leave it out: the output is text; the page of 'stackbeat serve' annotates, too"

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
	{"record", "--data", 0, MEMORY_HINT},
	{"record", "--phys-data", 0, MEMORY_HINT},
	{"record", "--data-page-size", 0, "page sizes are not recorded; use 'perf record'"},
	{"record", "--code-page-size", 0, "page sizes are not recorded; use 'perf record'"},
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
	{"record", "--weight", 'W', MEMORY_HINT},
	{"record", "--transaction", 0, "transactions are not recorded; use 'perf record'"},
	{"record", "--running-time", 0, "leave it out: the timers of samples share no counter"},
	{"record", "--switch-events", 0, "context switches are not recorded; use 'perf record'"},
	{"record", "--affinity", 0, "leave it out: one process reads the buffers of all CPUs"},
	{"record", "--no-buffering", 0,
	 "leave it out: the buffers are read at least once a second"},
	{"record", "--buildid-mmap", 0, "leave it out: build IDs are in the profile"},
	{"record", "--timestamp-filename", 0, ROTATE_HINT},
	{"record", "--switch-max-files", 0, "--rotate SEC begins a new file, and keeps all files"},
	{"record", "--timestamp-boundary", 0,
	 "leave it out: the profile has its start and duration"},
	{"record", "--debuginfod", 0, "leave it out: DEBUGINFOD_URLS names the servers"},
	{"record", "--metrics", 'M', "events are not counted; use 'perf stat'"},
	{"record", "--dry-run", 0, "'stackbeat doctor' says whether a recording is possible"},
	{"record", "--aio", 0, "leave it out: samples are added up, and not written one by one"},
	{"record", "--control", 0, "'stackbeat pause' and 'stackbeat resume' control a session"},
	{"record", "--threads", 0, "leave it out: samples of all CPUs make one file"},
	{"record", "--vmlinux", 0, NAMES_HINT},
	{"record", "--strict-freq", 0,
	 "leave it out: the end of a recording says which rate was reached, if it is known"},
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
	{"report", "--header", 0, COMMENTS_HINT},
	{"report", "--header-only", 0, COMMENTS_HINT},
	{"report", "--show-info", 'I', COMMENTS_HINT},
	{"report", "--stats", 0, COMMENTS_HINT},
	{"report", "--force", 'f', OWNER_HINT},
	{"report", "--quiet", 'q', QUIET_HINT},
	{"report", "--modules", 'm', NAMES_HINT},
	{"report", "--exclude-other", 'x', FOCUS_HINT},
	{"report", "--column-widths", 'w', WIDTH_HINT},
	{"report", "--cpu", 'C',
	 "'stackbeat record -C LIST' samples some CPUs, --labels cpu keeps them apart"},
	{"report", "--time", 0,
	 "'stackbeat record --rotate SEC' begins a new file every SEC seconds"},
	{"report", "--hierarchy", 0, "--sort KEY,KEY, or --tree with --group LABEL"},
	{"report", "--inline", 0,
	 "inlined functions have frames of their own; --hide REGEX leaves some out"},
	{"report", "--no-inline", 0,
	 "inlined functions have frames of their own; --hide REGEX leaves some out"},
	{"report", "--demangle", 0, DEMANGLED_HINT},
	{"report", "--no-demangle", 0,
	 "names are shown demangled; the profile also has the linker's names"},
	{"report", "--ignore-callees", 0, "--callers FUNC, with --tree the call tree above it"},
	{"report", "--branch-stack", 'b', BRANCH_HINT},
	{"report", "--source", 0, CODE_HINT},
	{"report", "--asm-raw", 0, CODE_HINT},
	{"report", "--disassembler-style", 'M', CODE_HINT},
	{"report", "--objdump", 0, CODE_HINT},
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
	{"annotate", "--force", 'f', OWNER_HINT},
	{"annotate", "--quiet", 'q', QUIET_HINT},
	{"annotate", "--stdio2", 0, TEXT_HINT},
	{"annotate", "--gtk", 0, TEXT_HINT},
	{"annotate", "--demangle", 0, DEMANGLED_HINT},
	{"annotate", "--skip-missing", 0, "leave it out: files that are missing are named once"},
	{"annotate", "--show-nr-samples", 'n', "--json prints values, with --sample-type samples"},
	{"annotate", "--full-paths", 'P',
	 "leave it out: paths are printed as debug information has them"},
	{"annotate", "--dump-raw-trace", 'D', "'stackbeat report --folded FILE' prints all stacks"},
	{"annotate", "--tui", 0, TEXT_HINT},
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
	{"top", "--entries", 'E', "-b with --rows N"},
	{"top", "--sort", 's', "--tab functions, services, processes or containers"},
	{"top", "--zero", 'z', "--window SEC sets of what time the functions are"},
	{"top", "--hide_kernel_symbols", 'K', "'stackbeat record --user' samples user code only"},
	{"top", "--hide_user_symbols", 'U', "'stackbeat record --kernel' samples kernel code only"},
	{"top", "--mmap-pages", 'm', LEAVE_HINT " with a size that fits"},
	{"top", "--stdio", 0, "-b prints text"},
	{"top", "--tui", 0, "leave it out: a screen is what it shows on a terminal"},
	{"top", "--count-filter", 'f', "-b with --rows N"},
	{"top", "--percent-limit", 0, "-b with --rows N"},
	{"top", "--no-inherit", 'i', "-t TID,... samples threads without their children"},
	{"top", "--realtime", 'r', LEAVE_HINT " without a real-time priority"},
	{"top", "--uid", 'u', "--tab processes, or -p PID,... for some of them"},
	{"top", "--vmlinux", 'k', KALLSYMS_HINT},
	{"top", "--kallsyms", 0, KALLSYMS_HINT},
	{"top", "--column-widths", 'w', WIDTH_HINT},
	{"top", "--call-graph", 0, STACKS_HINT},
	{"top", "--children", 0,
	 "leave it out: self is of the function alone, total with its callees"},
	{"top", "--no-children", 0,
	 "leave it out: self is of the function alone, total with its callees"},
	{"top", "--comms", 0, FILTER_HINT},
	{"top", "--dsos", 0, FILTER_HINT},
	{"top", "--symbols", 0, FILTER_HINT},
	{"top", "--fields", 0, "leave it out: self, total and cpu% are always shown"},
	{"top", "--disassembler-style", 'M', CODE_HINT},
	{"top", "--sym-annotate", 0, CODE_HINT},
	{"top", "--branch-any", 0, BRANCH_HINT},
	{"top", "--branch-filter", 'j', BRANCH_HINT},
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
