// SPDX-License-Identifier: GPL-2.0
#include "symbolize/archive_contents.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debuginfo/debug_files.h"
#include "debuginfo/elf_symbols.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/pidfd.h"
#include "pprof/pprof_writer.h"
#include "sandbox/fd_passing.h"
#include "sandbox/seccomp_filter.h"
#include "sandbox/worker_limits.h"
#include "symbolize/find_binary.h"
#include "symbolize/normalize.h"

struct source {
	const struct archive_plan *plan;
	const struct pprof_profile *profile;
	const struct archive_sink *sink;
};

/* Where build ids are a part of a path; false where one can't be. */
static bool name_of(const char *build_id, const char *suffix, char name[PATH_MAX])
{
	if (!build_id_valid(build_id))
		return false;
	snprintf(name, PATH_MAX, ".build-id/%.2s/%s%s", build_id, build_id + 2, suffix);
	return true;
}

/* How long a process may take to look into a file, which may be of a server that is gone. */
#define FILE_SECONDS_MAX 600u
/* And how long to end when it has told all. */
#define END_MS 200

static void limit_time(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	signal(SIGALRM, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(FILE_SECONDS_MAX);
}

/* Waits for a process that looks into the file, and says so where it has not come to its end. */
static void end_process(const struct source *source, pid_t child, const char *path)
{
	int status;

	process_exits_within(child, END_MS);
	kill(child, SIGKILL);
	if (waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
	    WTERMSIG(status) != SIGKILL)
		source->sink->missing(source->sink->arg, path,
				      "its debug information could not be looked for");
}

/* What the process that looks into `fd` found: a build id; "" if there is none. */
static int read_id(const struct source *source, int fd, const char *path, char id[BUILD_ID_SIZE])
{
	pid_t parent = getpid(), child;
	int ends[2];
	ssize_t got;
	Elf *elf;

	*id = '\0';
	if (pipe(ends) != 0)
		return -errno;
	child = fork();
	if (child == 0) {
		limit_worker(parent);
		limit_time();
		sandbox_enter((int[]){ends[1], -1}, fd);
		if (elf_begin_read(fd, NULL, 0, true, &elf, NULL) == 0) {
			debug_build_id(elf, id);
			got = write(ends[1], id, strlen(id));
			_exit(got <= 0);
		}
		_exit(1);
	}
	close(ends[1]);
	got = child > 0 ? read(ends[0], id, BUILD_ID_SIZE - 1) : 0;
	id[got > 0 ? got : 0] = '\0';
	close(ends[0]);
	if (child < 0)
		return -EAGAIN;
	end_process(source, child, path);
	return 0;
}

/*
 * Takes a debug file, and closes it, if it is an ELF file of this build id: whoever found it may
 * have been misled, but this very file is what is packed.
 */
static int take_debug_file(const struct source *source, int fd, const char *path,
			   const char *build_id)
{
	char name[PATH_MAX], id[BUILD_ID_SIZE];
	struct stat st;
	int err = 0;

	if (fd < 0)
		return 0;
	if (name_of(build_id, ".debug", name) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		err = read_id(source, fd, path, id);
		if (!err && build_id_equal(id, build_id))
			err = source->sink->debug_file(source->sink->arg, path, name, fd);
	}
	close(fd);
	return err;
}

/* Debug files */

/* A message is a build id, and goes with the file, which is open: paths may change. */
static void tell_file(int socket, const struct debug_file *file)
{
	char id[BUILD_ID_SIZE];

	if (!file->elf || file->fd < 0)
		return;
	debug_build_id(file->elf, id);
	/* Where that fails, nobody listens any more. */
	if (*id && send_fd(socket, id, strlen(id), file->fd) != 0)
		_exit(1);
}

/* False when all was told. *fd is -1 if there came none. */
static bool hear_file(int socket, char id[BUILD_ID_SIZE], int *fd)
{
	ssize_t got = receive_fd(socket, id, BUILD_ID_SIZE - 1, fd);

	if (got > 0)
		id[got] = '\0';
	return got > 0;
}

/* Debug information of one file, and what is common to several. */
#define DEBUG_FILES_MAX 2

/* The files are not trusted: a process of its own looks into them. */
static void tell_debug_files(const struct source *source, int fd, const char *path,
			     const char *build_id, int socket)
{
	const struct debug_search search = {
		.directories = source->plan->directories,
		.directory_count = source->plan->directory_count,
	};
	struct debug_files files;
	struct error error;

	if (debug_files_open(&files, fd, path, build_id, &search, &error) != 0)
		return;
	tell_file(socket, &files.debug);
	tell_file(socket, &files.alt);
	debug_files_close(&files);
}

static int collect_debug_files(const struct source *source, int fd, const char *path,
			       const char *build_id)
{
	char id[BUILD_ID_SIZE];
	pid_t parent = getpid(), child;
	int ends[2], found, err;

	if (source->plan->without_debug || !*build_id)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -errno;
	child = fork();
	if (child == 0) {
		limit_worker(parent);
		limit_time();
		sandbox_enter((int[]){ends[1], -1}, fd);
		tell_debug_files(source, fd, path, build_id, ends[1]);
		_exit(0);
	}
	close(ends[1]);
	err = child < 0 ? -EAGAIN : 0;
	/* No more than it should tell, if it was misled to go on for ever. */
	for (int i = 0; i < DEBUG_FILES_MAX && !err && hear_file(ends[0], id, &found); i++)
		err = take_debug_file(source, found, path, id);
	close(ends[0]);
	if (child > 0)
		end_process(source, child, path);
	return err;
}

/* Files */

static int collect_file(const struct source *source, const char *path, const char *build_id)
{
	const struct archive_sink *sink = source->sink;
	char name[PATH_MAX];
	struct error error;
	int fd, err;

	if (!name_of(build_id, "", name)) {
		/* A way up would be refused where it is unpacked, with all the rest. */
		if (*path != '/' || strlen(path) >= sizeof(name) || strstr(path, "/..")) {
			sink->missing(sink->arg, path, "has neither a build id nor a plain path");
			return 0;
		}
		strcpy(name, path + 1);
	}
	fd = binary_finder_open(source->plan->search, path, build_id, &error);
	if (fd < 0)
		sink->missing(sink->arg, path, error.text);
	err = fd >= 0 ? sink->object(sink->arg, path, name, fd) : 0;
	if (!err)
		err = collect_debug_files(source, fd, path, build_id);
	if (fd >= 0)
		close(fd);
	return err;
}

/* The kernel */

static int collect_vmlinux(const struct source *source, const char *build_id)
{
	char release[NORMALIZE_RELEASE_SIZE];

	if (source->plan->without_debug || !normalize_release(source->profile, release))
		return 0;
	return take_debug_file(source, kernel_open_vmlinux("", release), KERNEL_MAPPING, build_id);
}

/* A file by its build id is better than the module itself, which may have no DWARF. */
static int collect_module(const struct source *source, const char *name, const char *build_id)
{
	const struct debug_search search = {
		.directories = source->plan->directories,
		.directory_count = source->plan->directory_count,
	};
	char release[NORMALIZE_RELEASE_SIZE], *path = NULL;
	int fd;

	if (source->plan->without_debug || !normalize_release(source->profile, release))
		return 0;
	fd = debug_file_by_build_id(build_id, &search, &path);
	free(path);
	if (fd < 0)
		fd = kernel_open_module("", release, name);
	return take_debug_file(source, fd, name, build_id);
}

static int collect_kernel(const struct source *source, struct kernel *kernel, const char *name,
			  const char *build_id)
{
	const struct kernel_mapping *part = kernel_mapping_by_name(kernel, name);
	const struct archive_sink *sink = source->sink;
	char notes[PATH_MAX];
	int err;

	if (!part || !build_id_equal(part->build_id, build_id)) {
		sink->missing(sink->arg, name, "this kernel is of another build, or without it");
		return 0;
	}
	if (!part->start) {
		sink->missing(sink->arg, name, "the kernel hides its symbols");
		return 0;
	}
	if (strcmp(name, KERNEL_MAPPING) == 0) {
		err = sink->text(sink->arg, KERNEL_NOTES_PATH);
		if (!err)
			err = collect_debug_files(source, -1, name, build_id);
		if (!err)
			err = collect_vmlinux(source, build_id);
	} else {
		snprintf(notes, sizeof(notes), "/sys/module/%.*s/notes/.note.gnu.build-id",
			 (int)strlen(name) - 2, name + 1);
		err = sink->text(sink->arg, notes);
		if (!err)
			err = collect_module(source, name, build_id);
	}
	if (!err)
		err = sink->text(sink->arg, KALLSYMS_PATH);
	return err ? err : sink->text(sink->arg, MODULES_PATH);
}

/* Whether a location of a mapping, by its id, is in the kernel. */
static bool is_of_kernel(const struct pprof_profile *profile, uint64_t id, const char *path)
{
	for (size_t i = 0; i < profile->message->n_location; i++) {
		if (profile->message->location[i]->mapping_id == id)
			return kernel_has_mapping(path, profile->message->location[i]->address);
	}
	return false;
}

int archive_contents_collect(const struct archive_plan *plan, const struct pprof_profile *profile,
			     const struct archive_sink *sink)
{
	const struct source source = {plan, profile, sink};
	const Perftools__Profiles__Profile *message = profile->message;
	struct kernel *kernel = kernel_new("");
	int err = kernel ? 0 : -ENOMEM;

	for (size_t i = 0; i < message->n_mapping && !err; i++) {
		const char *path = pprof_text(profile, message->mapping[i]->filename);
		const char *build_id = pprof_text(profile, message->mapping[i]->build_id);

		if (is_of_kernel(profile, message->mapping[i]->id, path))
			err = collect_kernel(&source, kernel, path, build_id);
		else if (*path && (*path != '[' || strcmp(path, "[vdso]") == 0))
			err = collect_file(&source, path, build_id);
	}
	kernel_free(kernel);
	return err;
}
