// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/debug_paths.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/build_id.h"
#include "lib/regular_file.h"

static size_t directory_count(const struct debug_paths *paths)
{
	return paths->directories ? paths->directory_count : 1;
}

static const char *debug_directory_at(const struct debug_paths *paths, size_t i)
{
	return paths->directories ? paths->directories[i] : DEBUG_DIRECTORY;
}

/* The functions below return 0 and set *path (NULL: out of memory), or -ENOENT at the end. */

__attribute__((format(printf, 2, 3))) static int format_path(char **path, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (vasprintf(path, format, args) < 0)
		*path = NULL;
	va_end(args);
	return 0;
}

static int path_by_build_id(const struct debug_paths *paths, const char *id, size_t candidate,
			    char **path)
{
	if (!build_id_valid(id) || candidate >= directory_count(paths))
		return -ENOENT;
	return format_path(path, "%s/.build-id/%.2s/%s.debug", debug_directory_at(paths, candidate),
			   id, id + 2);
}

static int path_by_link(const struct debug_paths *paths, const char *name, const char *beside,
			size_t candidate, char **path)
{
	const char *slash = beside ? strrchr(beside, '/') : NULL;
	int length = slash ? (int)(slash - beside) : 0;

	if (!*name || strchr(name, '/') || !slash)
		return -ENOENT;
	if (candidate == 0)
		return format_path(path, "%.*s/.debug/%s", length, beside, name);
	if (candidate == 1)
		return format_path(path, "%.*s/%s", length, beside, name);
	if (candidate - 2 >= directory_count(paths))
		return -ENOENT;
	return format_path(path, "%s%.*s/%s", debug_directory_at(paths, candidate - 2), length,
			   beside, name);
}

static int path_by_alt_link(const struct debug_paths *paths, const char *name, const char *beside,
			    size_t candidate, char **path)
{
	const char *shared = strstr(name, "/.dwz/");
	const char *slash = beside ? strrchr(beside, '/') : NULL;

	if (!*name)
		return -ENOENT;
	if (candidate == 0 && *name == '/')
		return format_path(path, "%s", name);
	if (candidate == 0 && beside)
		return format_path(path, "%.*s%s", slash ? (int)(slash + 1 - beside) : 0, beside,
				   name);
	/* The directory of `name` may be unknown, so that there is no candidate 0. */
	if (candidate == 0)
		candidate = 1;
	if (!shared || candidate - 1 >= directory_count(paths))
		return -ENOENT;
	return format_path(path, "%s%s", debug_directory_at(paths, candidate - 1), shared);
}

static int candidate_path(const struct debug_paths *paths, enum debug_name kind, const char *name,
			  const char *beside, size_t candidate, char **path)
{
	switch (kind) {
	case DEBUG_BUILD_ID:
		return path_by_build_id(paths, name, candidate, path);
	case DEBUG_LINK:
		return path_by_link(paths, name, beside, candidate, path);
	case DEBUG_ALT_LINK:
		return path_by_alt_link(paths, name, beside, candidate, path);
	default:
		return -ENOENT;
	}
}

bool is_elf_file(int fd)
{
	unsigned char head[EI_NIDENT + sizeof(Elf64_Half)] = {0};
	ssize_t got = pread(fd, head, sizeof(head), 0);
	unsigned int type = head[EI_DATA] == ELFDATA2MSB
				    ? (unsigned int)head[EI_NIDENT] << 8 | head[EI_NIDENT + 1]
				    : (unsigned int)head[EI_NIDENT + 1] << 8 | head[EI_NIDENT];

	return got >= SELFMAG && !memcmp(head, ELFMAG, SELFMAG) && type != ET_CORE;
}

static int open_elf_file(const char *path)
{
	struct stat st;
	int fd = open_regular_file(path, 0, &st);

	if (fd < 0 || is_elf_file(fd))
		return fd;
	close(fd);
	return -ENOEXEC;
}

int debug_paths_open(const struct debug_paths *paths, enum debug_name kind, const char *name,
		     const char *beside, unsigned int *candidate, char **path)
{
	int fd;

	*path = NULL;
	while (candidate_path(paths, kind, name, beside, *candidate, path) == 0) {
		if (!*path)
			return -ENOENT;
		++*candidate;
		fd = open_elf_file(*path);
		if (fd != -ENOENT && fd != -ENOTDIR)
			return fd;
		free(*path);
		*path = NULL;
	}
	return -ENOENT;
}
