// SPDX-License-Identifier: GPL-2.0
#include "symbolize/find_binary.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "debuginfo/debug_paths.h"
#include "lib/build_id.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/regular_file.h"
#include "symbolize/archive_reader.h"

#define VDSO "[vdso]"

struct attempt {
	const struct binary_finder *search;
	const char *build_id;
	unsigned int candidate; /* that is wanted */
	unsigned int skipped; /* candidates found so far */
	struct error mismatch; /* the first file that does not match; "": none */
	bool is_ambiguous; /* files of untrusted users differ */
};

__attribute__((format(printf, 2, 3))) static void note_mismatch(struct attempt *attempt,
								const char *format, ...)
{
	char text[sizeof(attempt->mismatch.text)];
	va_list args;

	if (*attempt->mismatch.text)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	error_set(&attempt->mismatch, ESTALE, "%s", text);
}

static bool is_not_newer(const struct timespec *time, int64_t than)
{
	return time_ns(*time) <= than;
}

/*
 * Package managers, archives and images preserve mtime, so at its original path also check ctime.
 * For a copy, mtime must do.
 */
static bool binary_is_unchanged(const struct attempt *attempt, const struct stat *st, bool is_copy)
{
	const int64_t time = attempt->search->time;

	return is_not_newer(&st->st_mtim, time) && (is_copy || is_not_newer(&st->st_ctim, time));
}

/* Returns whether a file may be the file that is searched. A worker compares the build ID. */
static bool may_match(struct attempt *attempt, const char *path, int fd, const struct stat *st,
		      bool is_copy)
{
	/* A profile may name any file: only ELF files are read or archived. */
	if (!is_elf_file(fd)) {
		note_mismatch(attempt, "%s: not an ELF file", path);
		return false;
	}
	if (*attempt->build_id || binary_is_unchanged(attempt, st, is_copy))
		return true;
	note_mismatch(attempt, "%s has changed since the profile was taken", path);
	return false;
}

/* Returns an fd if the file may match, or -1. */
static int binary_open_path(struct attempt *attempt, bool is_copy, const char *path)
{
	struct stat st;
	int fd = open_regular_file(path, 0, &st);

	if (fd < 0)
		return -1;
	if (may_match(attempt, path, fd, &st, is_copy))
		return fd;
	close(fd);
	return -1;
}

/* Returns the fd of a candidate (-1: none) if it is the wanted file, or -1. */
static int take_candidate(struct attempt *attempt, int fd)
{
	if (fd < 0 || attempt->skipped++ == attempt->candidate)
		return fd;
	close(fd);
	return -1;
}

/* Returns an fd if the file is the candidate that is wanted, or -1. */
__attribute__((format(printf, 3, 4))) static int try_path(struct attempt *attempt, bool is_copy,
							  const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(path))
		return -1;
	return take_candidate(attempt, binary_open_path(attempt, is_copy, path));
}

/* As try_path(), with what untrusted users have saved, unless their files differ. */
static int try_untrusted(struct attempt *attempt)
{
	const char *id = attempt->build_id;
	const struct dirent *owner;
	char directory[PATH_MAX], path[PATH_MAX];
	int found = -1, fd;
	DIR *owners;

	if ((size_t)snprintf(directory, sizeof(directory), "%s/.untrusted",
			     attempt->search->directory) >= sizeof(directory))
		return -1;
	owners = opendir(directory);
	while (owners && !attempt->is_ambiguous && (owner = readdir(owners))) {
		if (*owner->d_name == '.' ||
		    (size_t)snprintf(path, sizeof(path), "%s/%s/.build-id/%.2s/%s", directory,
				     owner->d_name, id, id + 2) >= sizeof(path))
			continue;
		fd = binary_open_path(attempt, true, path);
		if (fd < 0)
			continue;
		attempt->is_ambiguous = found >= 0 && !file_contents_equal(found, fd);
		if (found >= 0)
			close(found);
		found = fd;
	}
	if (owners)
		closedir(owners);
	if (!attempt->is_ambiguous)
		return take_candidate(attempt, found);
	close(found);
	return -1;
}

/* As try_path(), with the name of an entry of the archive. */
__attribute__((format(printf, 2, 3))) static int try_entry(struct attempt *attempt,
							   const char *format, ...)
{
	char name[PATH_MAX];
	struct stat st;
	va_list args;
	int fd, length;

	va_start(args, format);
	length = vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(name))
		return -1;
	fd = archive_reader_file(attempt->search->archive, name);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && may_match(attempt, name, fd, &st, true))
		return take_candidate(attempt, fd);
	close(fd);
	return -1;
}

static int try_archive(struct attempt *attempt, const char *path)
{
	const char *id = attempt->build_id, *slash = strrchr(path, '/');
	int fd = -1;

	if (build_id_valid(id))
		fd = try_entry(attempt, ".build-id/%.2s/%s", id, id + 2);
	if (fd < 0 && *path == '/')
		fd = try_entry(attempt, "%s", path + 1);
	return fd < 0 && slash ? try_entry(attempt, "%s", slash + 1) : fd;
}

/* Returns an fd with a copy of the vdso of this process, which may be the same, or -1. */
static int open_vdso(const struct attempt *attempt)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	size_t size;
	int fd;

	/* Without a build ID to compare, this process may have another vdso. */
	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 || !*attempt->build_id)
		return -1;
	/* Its section headers are last. */
	size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	fd = memfd_create(VDSO, MFD_CLOEXEC);
	if (fd >= 0 && write(fd, header, size) != (ssize_t)size) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int try_paths(struct attempt *attempt, const char *path)
{
	const char *directory = attempt->search->directory, *id = attempt->build_id;
	const char *slash = strrchr(path, '/');
	int fd = attempt->search->archive ? try_archive(attempt, path) : -1;

	if (fd < 0 && directory && build_id_valid(id))
		fd = try_path(attempt, true, "%s/.build-id/%.2s/%s", directory, id, id + 2);
	if (fd < 0 && !strcmp(path, VDSO))
		fd = take_candidate(attempt, open_vdso(attempt));
	if (fd >= 0 || !slash)
		return fd;
	if (directory && *path == '/')
		fd = try_path(attempt, true, "%s%s", directory, path);
	if (fd < 0 && directory && slash[1])
		fd = try_path(attempt, true, "%s%s", directory, slash);
	return fd < 0 && *path == '/' ? try_path(attempt, false, "%s", path) : fd;
}

int binary_finder_open(const struct binary_finder *search, const char *path, const char *build_id,
		       unsigned int candidate, bool *is_trusted, struct error *error)
{
	struct attempt attempt = {
		.search = search,
		.build_id = build_id,
		.candidate = candidate,
	};
	struct file_owner owner = {.is_trusted = false};
	int fd = try_paths(&attempt, path);

	if (fd >= 0)
		file_owner_read(&owner, fd);
	*is_trusted = owner.is_trusted;
	if (fd < 0 && search->directory && build_id_valid(build_id))
		fd = try_untrusted(&attempt);
	if (fd >= 0)
		return fd;
	if (attempt.is_ambiguous)
		return error_set(error, ENOENT,
				 "is not taken: users have saved different files with build ID %s",
				 build_id);
	if (*attempt.mismatch.text)
		return error_set(error, ENOENT, "%s: not taken", attempt.mismatch.text);
	if (search->archive)
		return error_set(error, ENOENT, "was not found in the archive nor at its path");
	if (search->directory)
		return error_set(error, ENOENT, "was not found in %s nor at its path",
				 search->directory);
	return error_set(error, ENOENT, "is not there any more");
}
