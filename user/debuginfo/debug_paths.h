/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paths of debug files. Files are opened here, by a process that has the right to, and parsed
 * elsewhere (debug_files.h), by a process without rights: names that it asks for are untrusted, and
 * lead to regular files with an ELF header only.
 */
#ifndef STACKBEAT_DEBUGINFO_DEBUG_PATHS_H
#define STACKBEAT_DEBUGINFO_DEBUG_PATHS_H

#include <stdbool.h>
#include <stddef.h>

/* Default directory of debug files. */
#define DEBUG_DIRECTORY "/usr/lib/debug"

/* What a debug file is searched by. */
enum debug_name {
	DEBUG_BUILD_ID, /* hex: below .build-id of the debug directories */
	DEBUG_LINK, /* of .gnu_debuglink, a file name: near the binary */
	DEBUG_ALT_LINK, /* of .gnu_debugaltlink: absolute, or relative to the file that has it */
};

struct debug_paths {
	const char *const *directories; /* of debug files; NULL: DEBUG_DIRECTORY */
	size_t directory_count;
};

/*
 * Opens the next file for a name. `beside` is the path of the file that has the name; NULL:
 * unknown. *candidate, 0 at first, is set for the next call: a file may prove to be another one.
 * Returns an fd, and sets *path, to be freed. Returns -ENOENT, with *path NULL, if there are no
 * more, or another negative errno value for a file, at *path, that can't be opened: -EINVAL if it
 * is not regular, -ENOEXEC if it is not an ELF file.
 */
int debug_paths_open(const struct debug_paths *paths, enum debug_name kind, const char *name,
		     const char *beside, unsigned int *candidate, char **path);

/*
 * Returns whether a file starts as an ELF file that has code or debug information. Core files, as
 * which /proc/kcore appears, have memory.
 */
bool is_elf_file(int fd);

#endif
