// SPDX-License-Identifier: GPL-2.0
#include "symbolize/binary_archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/atomic_file.h"
#include "lib/error.h"
#include "symbolize/archive_contents.h"
#include "symbolize/find_binary.h"

#define BLOCK_SIZE (64u << 10)
/* Bytes of a file in /proc or /sys: kallsyms has about 20 MB. */
#define KERNEL_FILE_MAX (256u << 20)
#define ENTRIES_MAX 100000u

static double to_gib(uint64_t bytes)
{
	return (double)bytes / (double)(UINT64_C(1) << 30);
}

/* Writing */

struct writer {
	const struct archive_plan *plan;
	struct binary_archive_counts *counts;
	struct archive *archive;
	struct atomic_file file;
	struct error *error;
	int err; /* of `file` */
	bool discard; /* ignore further writes */
	char **names; /* of entries written */
	size_t name_count, name_capacity;
	uint64_t bytes; /* of all entries, uncompressed */
};

static la_ssize_t write_block(struct archive *archive, void *arg, const void *block, size_t size)
{
	struct writer *writer = arg;

	(void)archive;
	if (writer->discard)
		return (la_ssize_t)size;
	writer->err = atomic_file_write(&writer->file, block, size, writer->error);
	return writer->err ? -1 : (la_ssize_t)size;
}

static int archive_failed(struct writer *writer)
{
	const char *why = archive_error_string(writer->archive);

	if (writer->err)
		return writer->err;
	return error_set(writer->error, EIO, "%s: %s", writer->file.path,
			 why ? why : "it can't be written");
}

static bool has_entry(const struct writer *writer, const char *name)
{
	for (size_t i = 0; i < writer->name_count; i++) {
		if (!strcmp(writer->names[i], name))
			return true;
	}
	return false;
}

/* `time` is the mtime of the entry (see find_binary.h), or NULL. */
static int add_header(struct writer *writer, const char *name, uint64_t size,
		      const struct timespec *time)
{
	struct archive_entry *entry = archive_entry_new();
	int err = 0;

	if (!entry || array_add_string(&writer->names, &writer->name_capacity, &writer->name_count,
				       name) != 0) {
		archive_entry_free(entry);
		return error_errno(writer->error, ENOMEM, "%s", writer->file.path);
	}
	archive_entry_set_pathname(entry, name);
	archive_entry_set_size(entry, (la_int64_t)size);
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_perm(entry, 0644);
	if (time)
		archive_entry_set_mtime(entry, time->tv_sec, time->tv_nsec);
	if (archive_write_header(writer->archive, entry) != ARCHIVE_OK)
		err = archive_failed(writer);
	archive_entry_free(entry);
	writer->bytes += size;
	return err;
}

static int add_bytes(struct writer *writer, const void *bytes, size_t size)
{
	if (archive_write_data(writer->archive, bytes, size) != (la_ssize_t)size)
		return archive_failed(writer);
	return 0;
}

static void report_missing(void *arg, const char *path, const char *text)
{
	struct writer *writer = arg;

	writer->counts->missing++;
	writer->plan->missing(writer->plan->arg, path, text);
}

/* Whether an entry of this size fits into the archive; reports `path` as missing if not. */
static bool fits(struct writer *writer, const char *path, const char *name, uint64_t size)
{
	struct error error;

	if (size <= BINARY_ARCHIVE_FILE_MAX && size <= BINARY_ARCHIVE_BYTES_MAX - writer->bytes)
		return true;
	error_set(&error, EFBIG,
		  "%s, of %.1f GiB, is left out: there may be %.0f GiB of a file, and %.0f of all",
		  name, to_gib(size), to_gib(BINARY_ARCHIVE_FILE_MAX),
		  to_gib(BINARY_ARCHIVE_BYTES_MAX));
	report_missing(writer, path, error.text);
	return false;
}

/* Pads a file that was truncated meanwhile with zeros, to match the size in the header. */
static int add_file_bytes(struct writer *writer, const char *name, int fd, const struct stat *st)
{
	static const unsigned char zeros[BLOCK_SIZE];
	unsigned char block[BLOCK_SIZE];
	uint64_t at = 0, size = (uint64_t)st->st_size;
	int err = add_header(writer, name, size, &st->st_mtim);

	while (!err && at < size) {
		size_t want = size - at < sizeof(block) ? (size_t)(size - at) : sizeof(block);
		ssize_t got = pread(fd, block, want, (off_t)at);

		if (got > 0)
			err = add_bytes(writer, block, (size_t)got);
		else
			err = add_bytes(writer, zeros, want);
		at += got > 0 ? (size_t)got : want;
	}
	return err;
}

/* Adds a file, and counts it if it is in the archive afterwards. */
static int add_file(struct writer *writer, const char *path, const char *name, int fd,
		    size_t *count)
{
	struct stat st;
	int err = 0;

	if (fstat(fd, &st) != 0)
		return 0;
	if (!has_entry(writer, name)) {
		if (!fits(writer, path, name, (uint64_t)st.st_size))
			return 0;
		err = add_file_bytes(writer, name, fd, &st);
	}
	++*count;
	return err;
}

/* Reads a file of /proc or /sys, of unknown size. Returns false if it can't be read. */
static bool read_kernel_file(const char *path, char **bytes, size_t *size)
{
	size_t capacity = 0;
	ssize_t got = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	*bytes = NULL;
	*size = 0;
	if (fd < 0)
		return false;
	while (*size < KERNEL_FILE_MAX &&
	       array_reserve(bytes, &capacity, *size, BLOCK_SIZE, 1) == 0) {
		got = read(fd, *bytes + *size, BLOCK_SIZE);
		if (got <= 0)
			break;
		*size += (size_t)got;
	}
	close(fd);
	return got == 0;
}

/* The sink of archive_contents_collect() */

static int add_binary(void *arg, const char *path, const char *name, int fd)
{
	struct writer *writer = arg;

	return add_file(writer, path, name, fd, &writer->counts->binaries);
}

static int add_debug_file(void *arg, const char *path, const char *name, int fd)
{
	struct writer *writer = arg;

	return add_file(writer, path, name, fd, &writer->counts->debug_files);
}

static int add_kernel_file(void *arg, const char *path)
{
	struct writer *writer = arg;
	char *bytes = NULL;
	size_t size;
	int err = 0;

	if (!has_entry(writer, path + 1) && read_kernel_file(path, &bytes, &size) &&
	    fits(writer, path, path + 1, size)) {
		err = add_header(writer, path + 1, size, NULL);
		if (!err)
			err = add_bytes(writer, bytes, size);
	}
	free(bytes);
	return err;
}

static int open_archive(struct writer *writer)
{
	writer->archive = archive_write_new();
	if (!writer->archive)
		return error_errno(writer->error, ENOMEM, "%s", writer->file.path);
	if (archive_write_set_format_pax_restricted(writer->archive) != ARCHIVE_OK ||
	    archive_write_add_filter_zstd(writer->archive) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(writer->archive, 1) != ARCHIVE_OK ||
	    archive_write_open(writer->archive, writer, NULL, write_block, NULL) != ARCHIVE_OK)
		return archive_failed(writer);
	return 0;
}

int binary_archive_create(const struct archive_plan *plan, const struct profile *profile,
			  const char *path, struct binary_archive_counts *counts,
			  struct error *error)
{
	struct writer writer = {.plan = plan, .counts = counts, .error = error};
	const struct archive_sink sink = {
		.binary = add_binary,
		.debug_file = add_debug_file,
		.kernel_file = add_kernel_file,
		.missing = report_missing,
		.arg = &writer,
	};
	int err;

	*counts = (struct binary_archive_counts){0};
	err = atomic_file_create(&writer.file, path, error);
	if (err)
		return err;
	err = open_archive(&writer);
	if (!err)
		err = archive_contents_collect(plan, profile, &sink);
	if (err == -ENOMEM)
		error_errno(error, ENOMEM, "%s", path);
	if (!err && !writer.name_count)
		err = error_set(error, ENOENT, "there is nothing to collect");
	if (!err && archive_write_close(writer.archive) != ARCHIVE_OK)
		err = archive_failed(&writer);
	/* Otherwise archive_write_free() would complete a partial archive. */
	writer.discard = true;
	archive_write_free(writer.archive);
	for (size_t i = 0; i < writer.name_count; i++)
		free(writer.names[i]);
	free(writer.names);
	if (err)
		atomic_file_discard(&writer.file);
	else
		err = atomic_file_commit(&writer.file, error);
	counts->size = writer.file.size;
	return err;
}

/* Unpacking */

/* For the signal handler; the directory belongs to this process. */
static char unpack_directory[PATH_MAX];
static pid_t unpack_pid;

/* Runs rm, as exec is async-signal-safe. */
static void remove_and_raise(int number)
{
	pid_t child;

	if (getpid() == unpack_pid) {
		child = fork();
		if (child == 0) {
			execl("/bin/rm", "rm", "-rf", "--", unpack_directory, (char *)NULL);
			_exit(1);
		}
		waitpid(child, NULL, 0);
	}
	signal(number, SIG_DFL);
	raise(number);
}

static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = remove_and_raise}, old;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (!sigaction(numbers[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(numbers[i], &action, NULL);
	}
}

/* Accepts regular files below the directory, as binary_archive_create() writes them. */
static bool is_safe_entry(struct archive_entry *entry)
{
	const char *name = archive_entry_pathname(entry), *part = name;

	if (!name || !*name || *name == '/' || archive_entry_filetype(entry) != AE_IFREG ||
	    archive_entry_hardlink(entry) || archive_entry_symlink(entry) ||
	    !archive_entry_size_is_set(entry) || archive_entry_size(entry) < 0)
		return false;
	for (; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (!strncmp(part, "..", 2) && (part[2] == '/' || !part[2]))
			return false;
	}
	return true;
}

static int unpack_entry(struct archive *archive, struct archive *disk,
			const struct binary_archive *unpacked, struct archive_entry *entry)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", unpacked->directory,
		     archive_entry_pathname(entry)) >= (int)sizeof(path))
		return ARCHIVE_FATAL;
	archive_entry_set_pathname(entry, path);
	archive_entry_set_perm(entry, 0600);
	return archive_read_extract2(archive, entry, disk);
}

static int unpack_all(struct archive *archive, struct archive *disk,
		      const struct binary_archive *unpacked, const char *path, struct error *error)
{
	uint64_t left = BINARY_ARCHIVE_BYTES_MAX;
	struct archive_entry *entry;
	int status = ARCHIVE_OK;

	for (unsigned int count = 0; status == ARCHIVE_OK; count++) {
		status = archive_read_next_header(archive, &entry);
		if (status == ARCHIVE_EOF)
			return 0;
		if (status == ARCHIVE_OK && (count >= ENTRIES_MAX || !is_safe_entry(entry)))
			return error_set(error, EBADMSG, "%s: not an archive of stackbeat's", path);
		if (status != ARCHIVE_OK)
			break;
		/* libarchive writes no more than the size in the header. */
		if ((uint64_t)archive_entry_size(entry) > left)
			return error_set(error, EFBIG, "%s: has more than %.0f GiB, unpacked", path,
					 to_gib(BINARY_ARCHIVE_BYTES_MAX));
		if ((uint64_t)archive_entry_size(entry) > BINARY_ARCHIVE_FILE_MAX)
			return error_set(error, EFBIG, "%s: has a file of more than %.0f GiB", path,
					 to_gib(BINARY_ARCHIVE_FILE_MAX));
		left -= (uint64_t)archive_entry_size(entry);
		status = unpack_entry(archive, disk, unpacked, entry);
	}
	return error_set(error, EBADMSG, "%s: %s", path,
			 archive_error_string(archive) ? archive_error_string(archive)
			 : archive_error_string(disk)  ? archive_error_string(disk)
						       : "it can't be unpacked");
}

static int make_directory(struct binary_archive *unpacked, struct error *error)
{
	const char *parent = getenv("TMPDIR");
	char real[PATH_MAX];

	if (!parent || !*parent)
		parent = "/tmp";
	/* libarchive unpacks nothing through a symbolic link. */
	if (realpath(parent, real))
		parent = real;
	if (snprintf(unpacked->directory, sizeof(unpacked->directory), "%s/stackbeat-XXXXXX",
		     parent) >= (int)sizeof(unpacked->directory) ||
	    !mkdtemp(unpacked->directory)) {
		*unpacked->directory = '\0';
		return error_errno(error, errno, "can't make a directory in %s", parent);
	}
	strcpy(unpack_directory, unpacked->directory);
	unpack_pid = getpid();
	catch_signals();
	return 0;
}

int binary_archive_unpack(struct binary_archive *unpacked, const char *path, struct error *error)
{
	struct archive *archive = archive_read_new(), *disk = archive_write_disk_new();
	int err = -ENOMEM;

	if (!archive || !disk) {
		error_errno(error, ENOMEM, "%s", path);
		goto out;
	}
	archive_read_support_filter_zstd(archive);
	archive_read_support_filter_gzip(archive);
	archive_read_support_format_tar(archive);
	archive_write_disk_set_options(disk,
				       ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_TIME);
	if (archive_read_open_filename(archive, path, BLOCK_SIZE) != ARCHIVE_OK) {
		err = error_set(error, EBADMSG, "%s: neither a directory nor an archive", path);
		goto out;
	}
	err = make_directory(unpacked, error);
	if (!err)
		err = unpack_all(archive, disk, unpacked, path, error);
	if (err)
		binary_archive_remove(unpacked);
out:
	archive_read_free(archive);
	archive_write_free(disk);
	return err;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	remove(path);
	return 0;
}

void binary_archive_remove(struct binary_archive *unpacked)
{
	if (*unpacked->directory)
		nftw(unpacked->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	unpack_pid = 0; /* the signal handler has nothing to remove any more */
	*unpacked->directory = '\0';
}
