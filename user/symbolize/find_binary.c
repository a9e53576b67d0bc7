// SPDX-License-Identifier: GPL-2.0
#include "symbolize/find_binary.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <link.h>

#include "debuginfo/elf_symbols.h"
#include "lib/build_id.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/regular_file.h"

#define VDSO "[vdso]"

struct attempt {
	const struct binary_finder *search;
	const char *build_id;
	struct error refused; /* what was there instead, first of all; "" */
};

__attribute__((format(printf, 2, 3))) static void refuse(struct attempt *attempt,
							 const char *format, ...)
{
	char text[sizeof(attempt->refused.text)];
	va_list args;

	if (*attempt->refused.text)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	error_set(&attempt->refused, ESTALE, "%s", text);
}

static bool is_older(const struct timespec *time, int64_t than)
{
	return time_ns(*time) <= than;
}

/*
 * Packages, archives and images give what they install the age that it had elsewhere, so that at
 * its own place it is asked since when it is there, too. What was copied is as old as it is told.
 */
static bool has_not_changed(const struct attempt *attempt, const struct stat *st, bool is_copy)
{
	const int64_t time = attempt->search->time;

	return is_older(&st->st_mtim, time) && (is_copy || is_older(&st->st_ctim, time));
}

static bool is_wanted(struct attempt *attempt, const char *path, int fd, const struct stat *st,
		      bool is_copy)
{
	struct elf_file elf = {0};
	struct error problem;
	bool wanted;

	/* A profile may name any file: what is no program is not looked into, or carried away. */
	if (elf_read(&elf, fd, NULL, 0, false, &problem) != 0) {
		refuse(attempt, "%s %s", path, problem.text);
		return false;
	}
	if (!*attempt->build_id) {
		wanted = has_not_changed(attempt, st, is_copy);
		if (!wanted)
			refuse(attempt, "%s has changed since the profile was taken", path);
		elf_clear(&elf);
		return wanted;
	}
	wanted = build_id_equal(elf.build_id, attempt->build_id);
	if (!wanted)
		refuse(attempt, "%s has %s%s, not %s", path,
		       *elf.build_id ? "build id " : "no build id", elf.build_id,
		       attempt->build_id);
	elf_clear(&elf);
	return wanted;
}

/* An fd, or -1. */
__attribute__((format(printf, 3, 4))) static int try(struct attempt *attempt, bool is_copy,
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
	if (is_wanted(attempt, path, fd, &st, is_copy))
		return fd;
	close(fd);
	return -1;
}

/* The vdso is no file. The one of this process may be the same. */
static int open_vdso(const struct attempt *attempt)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct elf_file elf = {0};
	struct error problem;
	size_t size;
	int fd = -1;

	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 || !*attempt->build_id)
		return -1;
	size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	elf_read(&elf, -1, header, size, false, &problem);
	if (build_id_equal(elf.build_id, attempt->build_id))
		fd = memfd_create(VDSO, MFD_CLOEXEC);
	elf_clear(&elf);
	if (fd >= 0 && write(fd, header, size) != (ssize_t)size) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int try_all(struct attempt *attempt, const char *path)
{
	const char *directory = attempt->search->directory, *id = attempt->build_id;
	const char *slash = strrchr(path, '/');
	int fd = -1;

	if (directory && build_id_valid(id))
		fd = try(attempt, true, "%s/.build-id/%.2s/%s", directory, id, id + 2);
	if (fd < 0 && strcmp(path, VDSO) == 0)
		fd = open_vdso(attempt);
	if (fd >= 0 || !slash)
		return fd;
	if (directory && *path == '/')
		fd = try(attempt, true, "%s%s", directory, path);
	if (fd < 0 && directory && slash[1])
		fd = try(attempt, true, "%s%s", directory, slash);
	return fd < 0 && *path == '/' ? try(attempt, false, "%s", path) : fd;
}

int binary_finder_open(const struct binary_finder *search, const char *path, const char *build_id,
		       struct error *error)
{
	struct attempt attempt = {.search = search, .build_id = build_id};
	int fd = try_all(&attempt, path);

	if (fd >= 0)
		return fd;
	if (*attempt.refused.text)
		return error_set(error, ENOENT, "%s: not taken", attempt.refused.text);
	if (search->directory)
		return error_set(error, ENOENT, "is neither in %s nor where it was",
				 search->directory);
	return error_set(error, ENOENT, "is not there any more");
}
