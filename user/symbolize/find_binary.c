// SPDX-License-Identifier: GPL-2.0
#include "symbolize/find_binary.h"

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

struct attempt {
	const struct binary_finder *search;
	const char *build_id;
	unsigned int candidate; /* that is wanted */
	unsigned int skipped; /* candidates found so far */
	struct error mismatch; /* the first file that does not match; "": none */
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
static bool is_unchanged(const struct attempt *attempt, const struct stat *st, bool is_copy)
{
	const int64_t time = attempt->search->time;

	return is_not_newer(&st->st_mtim, time) && (is_copy || is_not_newer(&st->st_ctim, time));
}

/* Returns whether a file may be the one that is searched. A worker compares the build ID. */
static bool may_match(struct attempt *attempt, const char *path, int fd, const struct stat *st,
		      bool is_copy)
{
	/* A profile may name any file: only ELF files are read or archived. */
	if (!is_elf_file(fd)) {
		note_mismatch(attempt, "%s: not an ELF file", path);
		return false;
	}
	if (*attempt->build_id || is_unchanged(attempt, st, is_copy))
		return true;
	note_mismatch(attempt, "%s has changed since the profile was taken", path);
	return false;
}

/* Returns an fd if the file is the candidate that is wanted, or -1. */
__attribute__((format(printf, 3, 4))) static int try_path(struct attempt *attempt, bool is_copy,
							  const char *format, ...)
{
	char path[PATH_MAX];
	struct stat st;
	va_list args;
	int fd, length;

	va_start(args, format);
	length = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(path))
		return -1;
	fd = open_regular_file(path, 0, &st);
	if (fd < 0)
		return -1;
	if (may_match(attempt, path, fd, &st, is_copy) && attempt->skipped++ == attempt->candidate)
		return fd;
	close(fd);
	return -1;
}

int open_vdso(void)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	size_t size;
	int fd;

	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64)
		return -ENOENT;
	/* Its section headers are last. */
	size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	fd = memfd_create(VDSO_PATH, MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, header, size) == (ssize_t)size)
		return fd;
	close(fd);
	return -EIO;
}

/* Without a build ID to compare, this process may have another vdso. */
static int try_vdso(struct attempt *attempt)
{
	return *attempt->build_id && attempt->skipped++ == attempt->candidate ? open_vdso() : -1;
}

static int try_paths(struct attempt *attempt, const char *path)
{
	const char *directory = attempt->search->directory, *id = attempt->build_id;
	const char *slash = strrchr(path, '/');
	int fd = -1;

	if (directory && build_id_valid(id))
		fd = try_path(attempt, true, "%s/.build-id/%.2s/%s", directory, id, id + 2);
	if (fd < 0 && !strcmp(path, VDSO_PATH))
		fd = try_vdso(attempt);
	if (fd >= 0 || !slash)
		return fd;
	if (directory && *path == '/')
		fd = try_path(attempt, true, "%s%s", directory, path);
	if (fd < 0 && directory && slash[1])
		fd = try_path(attempt, true, "%s%s", directory, slash);
	return fd < 0 && *path == '/' ? try_path(attempt, false, "%s", path) : fd;
}

int binary_finder_open(const struct binary_finder *search, const char *path, const char *build_id,
		       unsigned int candidate, struct error *error)
{
	struct attempt attempt = {
		.search = search,
		.build_id = build_id,
		.candidate = candidate,
	};
	int fd = try_paths(&attempt, path);

	if (fd >= 0)
		return fd;
	if (*attempt.mismatch.text)
		return error_set(error, ENOENT, "%s: not taken", attempt.mismatch.text);
	if (search->directory)
		return error_set(error, ENOENT, "was not found in %s nor at its path",
				 search->directory);
	return error_set(error, ENOENT, "is not there any more");
}
