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
#include "lib/hash.h"
#include "lib/pidfd.h"
#include "lib/regular_file.h"
#include "pprof/origin.h"
#include "pprof/profile.h"
#include "sandbox/fd_passing.h"
#include "sandbox/seccomp_filter.h"
#include "sandbox/worker_limits.h"
#include "symbolize/find_binary.h"

struct archive_collector {
	const struct archive_plan *plan;
	const struct profile *profile;
	const struct archive_sink *sink;
};

/*
 * Writes the path of a binary or debug file in the archive, by its build ID. Returns false if the
 * build ID is invalid.
 */
static bool archive_path(const char *build_id, const char *suffix, char name[PATH_MAX])
{
	if (!build_id_valid(build_id))
		return false;
	snprintf(name, PATH_MAX, ".build-id/%.2s/%s%s", build_id, build_id + 2, suffix);
	return true;
}

/* Limit of the time to parse a file, which may be on a dead network file system. */
#define WORKER_SECONDS_MAX 600u
/* Limit of the time to exit after the last message. */
#define EXIT_TIMEOUT_MS 200

static void limit_time(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	signal(SIGALRM, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(WORKER_SECONDS_MAX);
}

/* Reaps the worker that parsed the file; reports a crash. */
static void reap_worker(const struct archive_collector *collector, pid_t worker, const char *path)
{
	int status;

	process_exits_within(worker, EXIT_TIMEOUT_MS);
	kill(worker, SIGKILL);
	if (waitpid(worker, &status, 0) == worker && WIFSIGNALED(status) &&
	    WTERMSIG(status) != SIGKILL)
		collector->sink->missing(collector->sink->arg, path,
					 "its debug information could not be searched for");
}

/* Reads the build ID of a file in a worker process; "" if there is none. Returns 0 or -errno. */
static int read_id(const struct archive_collector *collector, int fd, const char *path,
		   char id[BUILD_ID_SIZE])
{
	pid_t parent = getpid(), worker;
	int pipe_fds[2];
	ssize_t got;
	Elf *elf;

	*id = '\0';
	if (pipe(pipe_fds) != 0)
		return -errno;
	worker = fork();
	if (worker == 0) {
		limit_worker(parent);
		limit_time();
		sandbox_enter((int[]){pipe_fds[1], -1}, fd);
		if (elf_begin_read(fd, NULL, 0, true, &elf, NULL) == 0) {
			debug_build_id(elf, id);
			got = write(pipe_fds[1], id, strlen(id));
			_exit(got <= 0);
		}
		_exit(1);
	}
	close(pipe_fds[1]);
	got = worker > 0 ? read(pipe_fds[0], id, BUILD_ID_SIZE - 1) : 0;
	id[got > 0 ? got : 0] = '\0';
	close(pipe_fds[0]);
	if (worker < 0)
		return -EAGAIN;
	reap_worker(collector, worker, path);
	return 0;
}

/*
 * Adds a debug file if it is an ELF file with this build ID, and closes it. The worker that found
 * the file may be compromised, so the build ID is read again from the fd that is archived.
 */
static int add_debug_file(const struct archive_collector *collector, int fd, const char *path,
			  const char *build_id)
{
	char name[PATH_MAX], id[BUILD_ID_SIZE];
	struct stat st;
	int err = 0;

	if (fd < 0)
		return 0;
	if (archive_path(build_id, ".debug", name) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		err = read_id(collector, fd, path, id);
		if (!err && build_id_equal(id, build_id))
			err = collector->sink->debug_file(collector->sink->arg, path, name, fd);
	}
	close(fd);
	return err;
}

/* Debug files */

/* Sends the build ID with the open file, not its path: paths may change. */
static void send_debug_file(int socket, const struct debug_file *file)
{
	char id[BUILD_ID_SIZE];

	if (!file->elf || file->fd < 0)
		return;
	debug_build_id(file->elf, id);
	/* It fails if the parent has closed the socket. */
	if (*id && send_fd(socket, id, strlen(id), file->fd) != 0)
		_exit(1);
}

/* Returns false at the end of the messages. *fd is -1 if the message had none. */
static bool receive_debug_file(int socket, char id[BUILD_ID_SIZE], int *fd)
{
	ssize_t got = receive_fd(socket, id, BUILD_ID_SIZE - 1, fd);

	if (got > 0)
		id[got] = '\0';
	return got > 0;
}

/* The debug file, and the alternate debug file shared by several binaries. */
#define DEBUG_FILES_MAX 2

/* Runs in a worker process, as the files are untrusted. */
static void send_debug_files(const struct archive_collector *collector, int fd, const char *path,
			     const char *build_id, int socket)
{
	const struct debug_search search = {
		.directories = collector->plan->directories,
		.directory_count = collector->plan->directory_count,
	};
	struct debug_files files;
	struct error error;

	if (debug_files_open(&files, fd, path, build_id, &search, &error) != 0)
		return;
	send_debug_file(socket, &files.debug);
	send_debug_file(socket, &files.alt);
	debug_files_close(&files);
}

static int collect_debug_files(const struct archive_collector *collector, int fd, const char *path,
			       const char *build_id)
{
	char id[BUILD_ID_SIZE];
	pid_t parent = getpid(), worker;
	int sockets[2], found, err;

	if (collector->plan->without_debug || !*build_id)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
		return -errno;
	worker = fork();
	if (worker == 0) {
		limit_worker(parent);
		limit_time();
		sandbox_enter((int[]){sockets[1], -1}, fd);
		send_debug_files(collector, fd, path, build_id, sockets[1]);
		_exit(0);
	}
	close(sockets[1]);
	err = worker < 0 ? -EAGAIN : 0;
	/* A compromised worker could send messages forever. */
	for (int i = 0; i < DEBUG_FILES_MAX && !err && receive_debug_file(sockets[0], id, &found);
	     i++)
		err = add_debug_file(collector, found, path, id);
	close(sockets[0]);
	if (worker > 0)
		reap_worker(collector, worker, path);
	return err;
}

/* Files */

/* The mappings of files with one build ID: any user can give a file that of another one. */
struct claims {
	size_t *next; /* the next mapping with the build ID of each; HASH_NONE: none */
	bool *repeats; /* whether an earlier mapping has the same build ID */
	struct hash by_id; /* the last mapping with each build ID */
};

static bool has_build_id(const void *profile, uint32_t mapping, const void *build_id)
{
	const struct profile *of = profile;

	return build_id_equal(profile_text(of, of->mappings.items[mapping].build_id), build_id);
}

/* Returns 0 or -ENOMEM; claims_clear() is to be called in both cases. */
static int claims_find(struct claims *claims, const struct profile *profile)
{
	size_t count = profile->mappings.count;
	int err = 0;

	*claims = (struct claims){0};
	claims->next = calloc(count + 1, sizeof(*claims->next));
	claims->repeats = calloc(count + 1, sizeof(*claims->repeats));
	if (!claims->next || !claims->repeats)
		return -ENOMEM;
	for (size_t i = 1; i < count && !err; i++) {
		const char *id = profile_text(profile, profile->mappings.items[i].build_id);
		uint32_t hash = hash_string(HASH_START, id), last;

		claims->next[i] = HASH_NONE;
		if (!*id)
			continue;
		last = hash_find(&claims->by_id, hash, has_build_id, profile, id);
		if (last != HASH_NONE) {
			claims->repeats[i] = true;
			claims->next[last] = i;
			hash_remove(&claims->by_id, hash, last);
		}
		err = hash_add(&claims->by_id, hash, (uint32_t)i);
	}
	return err;
}

static void claims_clear(struct claims *claims)
{
	free(claims->next);
	free(claims->repeats);
	hash_clear(&claims->by_id);
}

static const char *path_of(const struct archive_collector *collector, size_t mapping)
{
	return profile_text(collector->profile, collector->profile->mappings.items[mapping].file);
}

/*
 * Opens the file of a build ID at the path of the first mapping or one that follows: the first
 * trusted one, or the only one, or -1. Reports files that are missing.
 */
static int open_binary(const struct archive_collector *collector, const struct claims *claims,
		       size_t mapping, const char *build_id)
{
	const struct archive_sink *sink = collector->sink;
	const char *path = path_of(collector, mapping);
	bool is_trusted = false, differ = false;
	struct error error;
	int found = -1, fd;

	for (; mapping != HASH_NONE && !is_trusted; mapping = claims->next[mapping]) {
		path = path_of(collector, mapping);
		fd = binary_finder_open(collector->plan->search, path, build_id, &is_trusted,
					&error);
		if (fd < 0) {
			sink->missing(sink->arg, path, error.text);
			continue;
		}
		differ = !is_trusted && (differ || (found >= 0 && !file_contents_equal(found, fd)));
		if (found >= 0)
			close(found);
		found = fd;
	}
	if (!differ)
		return found;
	error_set(&error, ESTALE, "is left out: different files of users have build ID %s",
		  build_id);
	sink->missing(sink->arg, path, error.text);
	close(found);
	return -1;
}

static int collect_file(const struct archive_collector *collector, const struct claims *claims,
			size_t mapping, const char *build_id)
{
	const struct archive_sink *sink = collector->sink;
	const char *path = path_of(collector, mapping);
	char name[PATH_MAX];
	int fd, err;

	if (!archive_path(build_id, "", name)) {
		/* With "..", unpacking would reject the whole archive. */
		if (*path != '/' || strlen(path) >= sizeof(name) || strstr(path, "/..")) {
			sink->missing(sink->arg, path, "has neither a build ID nor a plain path");
			return 0;
		}
		strcpy(name, path + 1);
	}
	fd = open_binary(collector, claims, mapping, build_id);
	err = fd >= 0 ? sink->binary(sink->arg, path, name, fd) : 0;
	if (!err)
		err = collect_debug_files(collector, fd, path, build_id);
	if (fd >= 0)
		close(fd);
	return err;
}

/* Kernel */

static int collect_vmlinux(const struct archive_collector *collector, const char *build_id)
{
	char release[ORIGIN_RELEASE_SIZE];

	if (collector->plan->without_debug || !origin_release(collector->profile, release))
		return 0;
	return add_debug_file(collector, kernel_open_vmlinux("", release), KERNEL_MAPPING,
			      build_id);
}

/* Prefers a debug file by build ID to the module itself, which may have no DWARF. */
static int collect_module(const struct archive_collector *collector, const char *name,
			  const char *build_id)
{
	const struct debug_search search = {
		.directories = collector->plan->directories,
		.directory_count = collector->plan->directory_count,
	};
	char release[ORIGIN_RELEASE_SIZE], *path = NULL;
	int fd;

	if (collector->plan->without_debug || !origin_release(collector->profile, release))
		return 0;
	fd = debug_file_by_build_id(build_id, &search, &path);
	free(path);
	if (fd < 0)
		fd = kernel_open_module("", release, name);
	return add_debug_file(collector, fd, name, build_id);
}

static int collect_kernel(const struct archive_collector *collector, struct kernel *kernel,
			  const char *name, const char *build_id)
{
	const struct kernel_mapping *mapping = kernel_mapping_by_name(kernel, name);
	const struct archive_sink *sink = collector->sink;
	char notes[PATH_MAX];
	int err;

	if (!mapping || !build_id_equal(mapping->build_id, build_id)) {
		sink->missing(sink->arg, name, "this kernel is of another build, or without it");
		return 0;
	}
	if (!mapping->start) {
		sink->missing(sink->arg, name, "the kernel hides its symbols");
		return 0;
	}
	if (!strcmp(name, KERNEL_MAPPING)) {
		err = sink->kernel_file(sink->arg, KERNEL_NOTES_PATH);
		if (!err)
			err = collect_debug_files(collector, -1, name, build_id);
		if (!err)
			err = collect_vmlinux(collector, build_id);
	} else {
		snprintf(notes, sizeof(notes), "/sys/module/%.*s/notes/.note.gnu.build-id",
			 (int)strlen(name) - 2, name + 1);
		err = sink->kernel_file(sink->arg, notes);
		if (!err)
			err = collect_module(collector, name, build_id);
	}
	if (!err)
		err = sink->kernel_file(sink->arg, KALLSYMS_PATH);
	return err ? err : sink->kernel_file(sink->arg, MODULES_PATH);
}

/* Marks the mappings that have locations in the kernel; the caller frees the marks. */
static bool *mark_kernel(const struct profile *profile)
{
	bool *marks = calloc(profile->mappings.count, sizeof(*marks));

	for (size_t i = 1; marks && i < profile->locations.count; i++) {
		const struct profile_location *location = &profile->locations.items[i];
		uint32_t file = profile->mappings.items[location->mapping].file;

		if (is_kernel_mapping(profile_text(profile, file), location->address))
			marks[location->mapping] = true;
	}
	return marks;
}

int archive_contents_collect(const struct archive_plan *plan, const struct profile *profile,
			     const struct archive_sink *sink)
{
	const struct archive_collector collector = {plan, profile, sink};
	struct kernel *kernel = kernel_new("");
	bool *in_kernel = mark_kernel(profile);
	struct claims claims;
	int err = claims_find(&claims, profile);

	if (!kernel || !in_kernel)
		err = -ENOMEM;
	for (size_t i = 1; i < profile->mappings.count && !err; i++) {
		const char *path = profile_text(profile, profile->mappings.items[i].file);
		const char *build_id = profile_text(profile, profile->mappings.items[i].build_id);

		if (in_kernel[i])
			err = collect_kernel(&collector, kernel, path, build_id);
		else if (*path && !claims.repeats[i] && (*path != '[' || !strcmp(path, "[vdso]")))
			err = collect_file(&collector, &claims, i, build_id);
	}
	claims_clear(&claims);
	free(in_kernel);
	kernel_free(kernel);
	return err;
}
