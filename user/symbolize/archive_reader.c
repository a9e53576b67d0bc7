// SPDX-License-Identifier: GPL-2.0
#include "symbolize/archive_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/array.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/file_limit.h"
#include "lib/regular_file.h"
#include "lib/string_table.h"
#include "lib/utf8.h"
#include "pprof/profile.h"
#include "sandbox/fork_server.h"
#include "symbolize/archive_unpacker.h"

#define ENTRIES_MAX 100000u
/* Limit of the silence of a worker, which skips up to BINARY_ARCHIVE_FILE_MAX bytes meanwhile. */
#define SILENCE_SECONDS_MAX 600

struct archive_reader {
	pid_t pid; /* of the process that has the files open */
	struct string_table names; /* of the files */
	int *fds; /* of each name */
	size_t fds_capacity;
};

/* One pass over an archive. */
struct unpacking {
	struct archive_reader *reader;
	const char *path; /* of the archive */
	int socket;
	struct error *error;
	struct string_table wanted; /* names that the profile needs */
	struct string_table binaries; /* names of entries by build ID, without debug files */
	size_t entries;
	uint64_t bytes; /* of all entries */
	uint64_t shared_bytes; /* of the shared debug files that were unpacked */
	int fd; /* of the current file, owned by `reader`; -1: it is not wanted */
	struct timespec mtime; /* of the current file */
	uint64_t size; /* of the current file */
	uint64_t received; /* bytes of it */
};

/* Names */

static int unpacking_want(struct unpacking *unpacking, const char *name)
{
	return string_table_add(&unpacking->wanted, name, strlen(name)) == STRING_NONE ? -ENOMEM
										       : 0;
}

static int want_by_build_id(struct unpacking *unpacking, const char *id)
{
	char name[sizeof(".build-id//.debug") + BUILD_ID_SIZE];
	int err;

	if (!build_id_valid(id) || strlen(id) >= BUILD_ID_SIZE)
		return 0;
	snprintf(name, sizeof(name), ".build-id/%.2s/%s", id, id + 2);
	err = unpacking_want(unpacking, name);
	strcat(name, ".debug");
	return err ? err : unpacking_want(unpacking, name);
}

/* The places where binary_finder_open() looks. */
static int want_by_path(struct unpacking *unpacking, const char *path)
{
	const char *slash = strrchr(path, '/');
	int err = *path == '/' ? unpacking_want(unpacking, path + 1) : 0;

	return err || !slash ? err : unpacking_want(unpacking, slash + 1);
}

static int want_kernel_files(struct unpacking *unpacking)
{
	static const char *const paths[] = {KALLSYMS_PATH, MODULES_PATH, KERNEL_NOTES_PATH};
	int err = 0;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && !err; i++)
		err = unpacking_want(unpacking, paths[i] + 1);
	return err;
}

static int want_module_notes(struct unpacking *unpacking, const char *path)
{
	char name[PATH_MAX];

	if (*path != '[' || snprintf(name, sizeof(name), "sys/module/%.*s/notes/.note.gnu.build-id",
				     (int)strlen(path) - 2, path + 1) >= (int)sizeof(name))
		return 0;
	return unpacking_want(unpacking, name);
}

static int want_files_of(struct unpacking *unpacking, const struct profile *profile)
{
	int err = want_kernel_files(unpacking);

	for (size_t i = 1; i < profile->mappings.count && !err; i++) {
		const struct profile_mapping *mapping = &profile->mappings.items[i];
		const char *path = profile_text(profile, mapping->file);

		err = want_by_build_id(unpacking, profile_text(profile, mapping->build_id));
		if (!err)
			err = want_by_path(unpacking, path);
		if (!err)
			err = want_module_notes(unpacking, path);
	}
	return err;
}

/*
 * Returns whether an entry is a debug file without its binary. That may be a file that several
 * binaries share: only these name it. A binary comes before its debug file.
 */
static bool is_shared_debug_file(const struct unpacking *unpacking, const char *name)
{
	static const char suffix[] = ".debug";
	char binary[sizeof(".build-id//") + BUILD_ID_SIZE];
	size_t length = strlen(name), kept = length - (sizeof(suffix) - 1);

	if (strncmp(name, ".build-id/", 10) || length < sizeof(suffix) || kept >= sizeof(binary) ||
	    strcmp(name + kept, suffix))
		return false;
	snprintf(binary, sizeof(binary), "%.*s", (int)kept, name);
	return string_table_find(&unpacking->binaries, binary) == STRING_NONE;
}

/* Remembers a binary for is_shared_debug_file(). */
static int note_binary(struct unpacking *unpacking, const char *name)
{
	size_t length = strlen(name);

	if (strncmp(name, ".build-id/", 10) || length >= sizeof(".build-id//") + BUILD_ID_SIZE)
		return 0;
	return string_table_add(&unpacking->binaries, name, length) == STRING_NONE ? -ENOMEM : 0;
}

/* Files */

/* Returns an fd of a file without a name, or a negative errno value. */
static int create_file(void)
{
	const char *directory = getenv("TMPDIR");
	int fd;

	raise_file_limit(1);
	fd = open(directory && *directory ? directory : "/var/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC,
		  0600);
	if (fd < 0 && errno != EMFILE && errno != ENFILE)
		fd = memfd_create("stackbeat-archive", MFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Adds an empty file; unpacking->fd is -1 if the archive has the name twice. */
static int unpacking_add_file(struct unpacking *unpacking, const char *name,
			      const struct unpack_message *message)
{
	struct archive_reader *reader = unpacking->reader;
	size_t index = reader->names.count;
	int fd;

	if (string_table_find(&reader->names, name) != STRING_NONE)
		return 0;
	if (array_reserve(&reader->fds, &reader->fds_capacity, index, 1, sizeof(*reader->fds)))
		return -ENOMEM;
	fd = create_file();
	if (fd < 0)
		return fd;
	if (string_table_add(&reader->names, name, strlen(name)) == STRING_NONE) {
		close(fd);
		return -ENOMEM;
	}
	reader->fds[index] = fd;
	unpacking->fd = fd;
	unpacking->mtime = (struct timespec){
		.tv_sec = message->seconds,
		.tv_nsec = message->nanoseconds,
	};
	return ftruncate(fd, (off_t)message->number) ? -errno : 0;
}

/* Sets the time of the last file, which has all its data. */
static int finish_file(const struct unpacking *unpacking)
{
	const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, unpacking->mtime};

	if (unpacking->fd >= 0 && futimens(unpacking->fd, times))
		return error_errno(unpacking->error, errno, "%s: can't be unpacked",
				   unpacking->path);
	return 0;
}

/* Messages */

static int bad_archive(const struct unpacking *unpacking, const char *why)
{
	return error_set(unpacking->error, EBADMSG, "%s: %s", unpacking->path, why);
}

/* Receives exactly `size` bytes. */
static int unpacking_receive(const struct unpacking *unpacking, void *bytes, size_t size)
{
	ssize_t got;

	if (!size)
		return 0;
	got = TEMP_FAILURE_RETRY(recv(unpacking->socket, bytes, size, MSG_WAITALL));
	if (got == (ssize_t)size)
		return 0;
	return bad_archive(unpacking, got < 0 && errno == EAGAIN
					      ? "the process that reads it hangs"
					      : "the process that reads it has crashed");
}

static double unpacking_gib(uint64_t bytes)
{
	return (double)bytes / (double)(UINT64_C(1) << 30);
}

static int check_size(struct unpacking *unpacking, uint64_t size)
{
	if (size > BINARY_ARCHIVE_BYTES_MAX - unpacking->bytes)
		return error_set(unpacking->error, EFBIG, "%s: has more than %.0f GiB, unpacked",
				 unpacking->path, unpacking_gib(BINARY_ARCHIVE_BYTES_MAX));
	if (size > BINARY_ARCHIVE_FILE_MAX)
		return error_set(unpacking->error, EFBIG, "%s: has a file of more than %.0f GiB",
				 unpacking->path, unpacking_gib(BINARY_ARCHIVE_FILE_MAX));
	unpacking->bytes += size;
	return 0;
}

static int add_wanted(struct unpacking *unpacking, const char *name,
		      const struct unpack_message *message)
{
	if (string_table_find(&unpacking->wanted, name) == STRING_NONE) {
		if (!is_shared_debug_file(unpacking, name) ||
		    message->number > ARCHIVE_SHARED_BYTES_MAX - unpacking->shared_bytes)
			return note_binary(unpacking, name);
		unpacking->shared_bytes += message->number;
	}
	return unpacking_add_file(unpacking, name, message);
}

static int unpacking_begin_entry(struct unpacking *unpacking, const struct unpack_message *message,
				 const char *name)
{
	char reply;
	int err = finish_file(unpacking);

	if (err)
		return err;
	unpacking->fd = -1;
	unpacking->received = 0;
	if (++unpacking->entries > ENTRIES_MAX)
		return bad_archive(unpacking, "not an archive of stackbeat's");
	err = check_size(unpacking, message->number);
	if (err)
		return err;
	unpacking->size = message->number;
	err = add_wanted(unpacking, name, message);
	if (err)
		return error_errno(unpacking->error, -err, "%s: can't store %s", unpacking->path,
				   name);
	reply = unpacking->fd >= 0 ? 1 : 0;
	/* There is room, as the worker waits for each reply. */
	if (send(unpacking->socket, &reply, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		return bad_archive(unpacking, "the process that reads it has crashed");
	return 0;
}

static int store_data(struct unpacking *unpacking, const struct unpack_message *message,
		      const char *bytes)
{
	uint64_t at = message->number;
	uint32_t done = 0;
	ssize_t written;

	if (unpacking->fd < 0 || at > unpacking->size || message->size > unpacking->size - at)
		return bad_archive(unpacking, "a file in it is larger than its header says");
	/* No byte comes twice. */
	if (!message->size || message->size > unpacking->size - unpacking->received)
		return bad_archive(unpacking, "the process that reads it has crashed");
	unpacking->received += message->size;
	while (done < message->size) {
		written = pwrite(unpacking->fd, bytes + done, message->size - done,
				 (off_t)(at + done));
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return error_errno(unpacking->error, written ? errno : ENOSPC,
					   "%s: can't be unpacked", unpacking->path);
		done += (uint32_t)written;
	}
	return 0;
}

static int unpacking_handle_message(struct unpacking *unpacking,
				    const struct unpack_message *message, char *bytes)
{
	switch (message->type) {
	case UNPACK_ENTRY:
		if (strlen(bytes) != message->size || message->size >= PATH_MAX)
			return bad_archive(unpacking, "not an archive of stackbeat's");
		return unpacking_begin_entry(unpacking, message, bytes);
	case UNPACK_DATA:
		return store_data(unpacking, message, bytes);
	case UNPACK_ERROR:
		utf8_sanitize(bytes);
		return bad_archive(unpacking, bytes);
	default:
		return bad_archive(unpacking, "the process that reads it has crashed");
	}
}

/* Handles the messages of the worker, which may be compromised. */
static int receive_files(struct unpacking *unpacking)
{
	static const struct timeval silence = {.tv_sec = SILENCE_SECONDS_MAX};
	char *bytes = malloc(UNPACK_BYTES_MAX + 1);
	struct unpack_message message;
	int err = 0;

	if (!bytes)
		return error_errno(unpacking->error, ENOMEM, "%s", unpacking->path);
	setsockopt(unpacking->socket, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
	while (!err) {
		err = unpacking_receive(unpacking, &message, sizeof(message));
		if (!err && message.type == UNPACK_END) {
			err = finish_file(unpacking);
			break;
		}
		if (!err && message.size > UNPACK_BYTES_MAX)
			err = bad_archive(unpacking, "the process that reads it has crashed");
		if (!err)
			err = unpacking_receive(unpacking, bytes, message.size);
		if (err)
			break;
		bytes[message.size] = '\0';
		err = unpacking_handle_message(unpacking, &message, bytes);
	}
	free(bytes);
	return err;
}

/* Runs the worker, which reads the archive `file`. */
static int unpacking_run(struct unpacking *unpacking, const struct sandbox_server *sandbox,
			 int file)
{
	int sockets[2], lifeline, err;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return error_errno(unpacking->error, errno, "%s", unpacking->path);
	lifeline = sandbox_worker_start(sandbox, WORKER_UNPACK, (int[]){file, sockets[1]}, 2);
	close(sockets[1]);
	unpacking->socket = sockets[0];
	err = lifeline < 0 ? error_errno(unpacking->error, -lifeline, "%s", unpacking->path)
			   : receive_files(unpacking);
	close(sockets[0]);
	/* The worker is killed. */
	if (lifeline >= 0)
		close(lifeline);
	return err;
}

int archive_reader_open(const struct sandbox_server *sandbox, const char *path,
			const struct profile *profile, struct archive_reader **reader,
			struct error *error)
{
	struct unpacking unpacking = {.path = path, .error = error, .fd = -1};
	int file = open(path, O_RDONLY | O_CLOEXEC), err;

	if (file < 0)
		return error_errno(error, errno, "%s", path);
	unpacking.reader = calloc(1, sizeof(*unpacking.reader));
	if (!unpacking.reader || want_files_of(&unpacking, profile)) {
		err = error_errno(error, ENOMEM, "%s", path);
	} else {
		unpacking.reader->pid = getpid();
		err = unpacking_run(&unpacking, sandbox, file);
	}
	close(file);
	string_table_clear(&unpacking.wanted);
	string_table_clear(&unpacking.binaries);
	if (err)
		archive_reader_close(unpacking.reader);
	else
		*reader = unpacking.reader;
	return err;
}

void archive_reader_close(struct archive_reader *reader)
{
	if (!reader)
		return;
	for (size_t i = 0; i < reader->names.count; i++)
		close(reader->fds[i]);
	free(reader->fds);
	string_table_clear(&reader->names);
	free(reader);
}

bool archive_reader_path(const struct archive_reader *reader, const char *name, char path[PATH_MAX])
{
	uint32_t index = string_table_find(&reader->names, name);

	/* Not by /proc/self: a worker that is confined has closed its copy. */
	return index != STRING_NONE && snprintf(path, PATH_MAX, "/proc/%ld/fd/%d",
						(long)reader->pid, reader->fds[index]) > 0;
}

int archive_reader_file(const struct archive_reader *reader, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	return archive_reader_path(reader, name, path) ? open_regular_file(path, 0, &st) : -ENOENT;
}

int archive_reader_debug_file(const struct archive_reader *reader, const char *build_id)
{
	char name[PATH_MAX];

	if (!build_id_valid(build_id))
		return -ENOENT;
	snprintf(name, sizeof(name), ".build-id/%.2s/%s.debug", build_id, build_id + 2);
	return archive_reader_file(reader, name);
}
