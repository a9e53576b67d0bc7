// SPDX-License-Identifier: GPL-2.0
#include "doctor/programs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/patient.h"
#include "doctor/program_file.h"
#include "lib/clock.h"
#include "lib/small_file.h"
#include "lib/timed_call.h"
#include "runtime/perf_map.h"
#include "source/perf_process.h"

/* The programs that are looked at, those with most CPU time first, and runtimes. */
#define PROGRAMS_MAX 5u
#define RUNTIMES_MAX 8u
/* Processes that are ordered by CPU time; the rest of a very large machine is not looked at. */
#define PROCESSES_MAX 65536u
/* Of a command line, and of an environment. */
#define WORDS_MAX 65536u
/* For a process whose memory or file system may hang. */
#define RUNTIME_TIMEOUT_NS (5 * NS_PER_SECOND)

struct busy_process {
	uint64_t ticks; /* of CPU time, by all its threads so far */
	uint32_t pid;
};

static int busier_first(const void *a, const void *b)
{
	const struct busy_process *left = a, *right = b;

	return left->ticks < right->ticks ? 1 : left->ticks > right->ticks ? -1 : 0;
}

/* The CPU time of a process (proc_pid_stat(5)). Its name may have any characters. */
static bool read_cpu_ticks(const struct patient *patient, uint32_t pid, uint64_t *ticks)
{
	char path[64], text[1024];
	uint64_t user, kernel;
	const char *at;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
	small_file_read(patient->root, path, text, sizeof(text));
	at = strrchr(text, ')');
	if (!at ||
	    /* Numbers of the kernel. NOLINTNEXTLINE(cert-err34-c) */
	    sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
		   &user, &kernel) != 2)
		return false;
	*ticks = user + kernel;
	return true;
}

/* Returns the processes, the busiest first, which the caller frees, and sets *count. */
static struct busy_process *list_busy_processes(const struct patient *patient, size_t *count)
{
	struct busy_process *processes = malloc(PROCESSES_MAX * sizeof(*processes));
	struct dirent *entry;
	char path[PATH_MAX];
	DIR *directory;

	*count = 0;
	snprintf(path, sizeof(path), "%s/proc", patient->root);
	directory = processes ? opendir(path) : NULL;
	while (directory && *count < PROCESSES_MAX && (entry = readdir(directory))) {
		struct busy_process *process = &processes[*count];
		char *end;
		const unsigned long pid = strtoul(entry->d_name, &end, 10);

		if (*end || !pid || pid > INT_MAX)
			continue;
		process->pid = (uint32_t)pid;
		*count += read_cpu_ticks(patient, process->pid, &process->ticks);
	}
	if (directory)
		closedir(directory);
	if (processes)
		qsort(processes, *count, sizeof(*processes), busier_first);
	return processes;
}

/* Gets the path of a program, as its process sees it. Kernel threads and others' processes have
 * none. */
static bool read_program_path(const struct patient *patient, uint32_t pid, char path[PATH_MAX])
{
	char link[PATH_MAX];
	ssize_t length;

	if (snprintf(link, sizeof(link), "%s/proc/%" PRIu32 "/exe", patient->root, pid) >=
	    (int)sizeof(link))
		return false;
	length = readlink(link, path, PATH_MAX - 1);
	if (length <= 0)
		return false;
	path[length] = '\0';
	return true;
}

static int open_program(const struct patient *patient, uint32_t pid)
{
	char link[PATH_MAX];
	struct stat st;
	int fd;

	snprintf(link, sizeof(link), "%s/proc/%" PRIu32 "/exe", patient->root, pid);
	fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		return -EINVAL;
	}
	return fd < 0 ? -errno : fd;
}

static bool has_debug_file(const struct patient *patient, const char *build_id)
{
	return strlen(build_id) > 2 &&
	       patient_has_file(patient, "/usr/lib/debug/.build-id/%.2s/%s.debug", build_id,
				build_id + 2);
}

static void report_program(const struct patient *patient, uint32_t pid, const char *path)
{
	struct program_file program;
	const int fd = open_program(patient, pid);
	const int err = fd < 0 ? fd : program_file_read(&program, fd);
	const char *servers = getenv("DEBUGINFOD_URLS");

	if (fd >= 0)
		close(fd);
	if (err == -ENOEXEC || err == -EINVAL)
		patient_report(patient, FINDING_WARNING, "", "%s: not an ELF file of 64 bits",
			       path);
	else if (err)
		patient_report(patient, FINDING_WARNING, "run doctor as root", "%s: %s", path,
			       strerror(-err));
	else if (program.has_dwarf || has_debug_file(patient, program.build_id))
		patient_report(patient, FINDING_OK, "", "%s: names and lines", path);
	else if (servers && *servers && *program.build_id)
		patient_report(patient, FINDING_OK, "", "%s: debuginfod is asked for build ID %s",
			       path, program.build_id);
	else
		patient_report(patient, FINDING_WARNING,
			       *program.build_id
				       ? "install its debug package (-dbgsym), or set "
					 "DEBUGINFOD_URLS to the server of this distribution"
				       : "build it with -g and --build-id, and do not strip it",
			       "%s: %s", path,
			       program.has_symbols || program.has_mini
				       ? "names of functions, no lines"
				       : "stripped: exported functions only have names");
}

void check_program_symbols(struct patient *patient)
{
	char seen[PROGRAMS_MAX][PATH_MAX];
	size_t count, programs = 0;
	struct busy_process *processes = list_busy_processes(patient, &count);

	for (size_t i = 0; i < count && programs < PROGRAMS_MAX && processes[i].ticks; i++) {
		bool is_new = read_program_path(patient, processes[i].pid, seen[programs]);

		for (size_t j = 0; j < programs && is_new; j++)
			is_new = strcmp(seen[j], seen[programs]);
		if (!is_new)
			continue;
		report_program(patient, processes[i].pid, seen[programs]);
		programs++;
	}
	if (!programs)
		patient_report(patient, FINDING_OK, "", "no program that you may look into runs");
	free(processes);
}

/* Runtimes */

/* A language whose functions have names only if its programs start with an option. */
static const struct runtime_kind {
	const char *program; /* the beginning of the name of the executable's file */
	const char *option; /* each process needs this one in its words */
	const char *variable; /* or this one in its environment; NULL: there is none */
	bool has_perf_map; /* the runtime writes /tmp/perf-PID.map */
	const char *missing, *remedy;
} runtime_kinds[] = {
	{"java", "PreserveFramePointer", NULL, false, "Java callers are lost",
	 "start it with -XX:+PreserveFramePointer, and 'jcmd PID Compiler.perfmap' during a "
	 "recording"},
	{"node", "--perf-basic-prof", "--perf-basic-prof", true, "JavaScript has no names",
	 "start it with --perf-basic-prof --interpreted-frames-native-stack"},
	{"python3", "perf", "PYTHONPERFSUPPORT=1", true, "Python functions have no names",
	 "start it with -X perf or PYTHONPERFSUPPORT=1 (Python 3.12 or later)"},
};

/* A process that is examined: what it has may hang, as its memory may be a file of FUSE. */
struct runtime_process {
	char root[PATH_MAX]; /* of the machine */
	uint32_t pid;
	const struct runtime_kind *kind;
	bool is_set_up;
	char words[WORDS_MAX];
};

/* Reads words that are separated by NUL, and changes each NUL to a line break. Returns false if
 * there are none. */
static bool read_process_words(struct runtime_process *process, const char *file)
{
	char path[64];
	ssize_t size;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/%s", process->pid, file);
	size = small_file_read(process->root, path, process->words, WORDS_MAX);
	for (ssize_t i = 0; i < size; i++)
		if (!process->words[i])
			process->words[i] = '\n';
	return size > 0;
}

/* Whether a process has a perf map that would be read. */
static bool has_perf_map(const struct runtime_process *process)
{
	struct perf_process_status status;
	int directory, map = -1;
	uint32_t user;

	if (!process->kind->has_perf_map ||
	    !perf_process_read(process->root, process->pid, &status))
		return false;
	directory = perf_map_directory(process->root, process->pid, &user);
	if (directory >= 0) {
		map = perf_map_open(directory, status.ns_pid, status.start_time, user);
		close(directory);
	}
	if (map >= 0)
		close(map);
	return map >= 0;
}

/* Whether an option is among the words of a command line. */
static bool has_option(const char *words, const char *option)
{
	const char *at = words;

	while ((at = strstr(at, option))) {
		/* -X perf, -Xperf, -X perf_jit */
		if (strcmp(option, "perf") || (at - words >= 2 && !strncmp(at - 2, "-X", 2)) ||
		    (at - words >= 3 && !strncmp(at - 3, "-X\n", 3)))
			return true;
		at++;
	}
	return false;
}

/* Finds whether a process was started so that the names of its functions are found. */
static void examine_runtime(void *arg)
{
	struct runtime_process *process = arg;
	const struct runtime_kind *kind = process->kind;

	process->is_set_up =
		has_perf_map(process) ||
		(read_process_words(process, "cmdline") &&
		 has_option(process->words, kind->option)) ||
		(read_process_words(process, "environ") &&
		 strstr(process->words, kind->variable ? kind->variable : kind->option));
}

static void report_runtime(struct patient *patient, uint32_t pid, const struct runtime_kind *kind)
{
	struct runtime_process *process = malloc(sizeof(*process));
	bool is_set_up = false;
	int err = -ENOMEM;

	if (process) {
		process->pid = pid;
		process->kind = kind;
		snprintf(process->root, sizeof(process->root), "%s", patient->root);
		err = timed_call(examine_runtime, free, process, RUNTIME_TIMEOUT_NS);
		is_set_up = !err && process->is_set_up;
	}
	if (err)
		patient_report(patient, FINDING_WARNING, "look at its command line yourself",
			       "%s %" PRIu32 ": can't be examined: %s", kind->program, pid,
			       err == -ETIMEDOUT ? "it hangs" : strerror(-err));
	else if (is_set_up)
		patient_report(patient, FINDING_OK, "", "%s %" PRIu32 " is set up", kind->program,
			       pid);
	else
		patient_report(patient, FINDING_WARNING, kind->remedy, "%s %" PRIu32 ": %s",
			       kind->program, pid, kind->missing);
	if (err != -ETIMEDOUT)
		free(process);
}

static const struct runtime_kind *find_runtime(const struct patient *patient, uint32_t pid)
{
	char path[PATH_MAX];
	const char *name;

	if (!read_program_path(patient, pid, path))
		return NULL;
	name = strrchr(path, '/');
	name = name ? name + 1 : path;
	for (size_t i = 0; i < sizeof(runtime_kinds) / sizeof(*runtime_kinds); i++) {
		const size_t length = strlen(runtime_kinds[i].program);

		/* python3.12, but no javac. */
		if (!strncmp(name, runtime_kinds[i].program, length) &&
		    (!name[length] || strchr(". ", name[length])))
			return &runtime_kinds[i];
	}
	return NULL;
}

void check_runtimes(struct patient *patient)
{
	size_t count, found = 0, more = 0;
	struct busy_process *processes = list_busy_processes(patient, &count);

	for (size_t i = 0; i < count; i++) {
		const uint32_t pid = processes[i].pid;
		const struct runtime_kind *kind = find_runtime(patient, pid);

		if (!kind)
			continue;
		if (found == RUNTIMES_MAX) {
			more++;
			continue;
		}
		found++;
		report_runtime(patient, pid, kind);
	}
	if (more)
		patient_report(patient, FINDING_OK, "", "%zu others were not looked at", more);
	else if (!found)
		patient_report(patient, FINDING_OK, "",
			       "no Java, Node.js or Python that you may look into runs");
	free(processes);
}
