/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds the files with symbols and debug information of a binary: the binary itself, its separate
 * debug file, the file that dwz shares between debug files, and the compressed symbols in the
 * binary (MiniDebugInfo).
 *
 * The files are not trusted. A file with another build ID, machine or type is rejected. Files are
 * mapped: access to one that shrinks raises SIGBUS, and a network file system may hang. So call
 * this in a worker process, which may die and may be killed.
 */
#ifndef STACKBEAT_DEBUGINFO_DEBUG_FILES_H
#define STACKBEAT_DEBUGINFO_DEBUG_FILES_H

#include "debuginfo/elf_symbols.h"
#include "lib/error.h"

#include <libelf.h>
#include <stddef.h>

/* Default directory of debug files. */
#define DEBUG_DIRECTORY "/usr/lib/debug"

struct debuginfod_helper;

struct debug_search {
	const char *root; /* prepended to the paths of binaries; NULL: "" */
	const char *const *directories; /* NULL: DEBUG_DIRECTORY */
	size_t directory_count;
	/*
	 * Fetches missing files if not NULL. `progress` is called from time to time meanwhile, with
	 * bytes (`total` 0: not yet known); a value other than 0 stops the fetching.
	 */
	struct debuginfod_helper *fetcher;
	int (*progress)(void *arg, long done, long total);
	void *arg;
	/*
	 * NULL, or opens the debug file of a build ID (hex) before the directories are searched.
	 * Returns an fd or a negative errno value.
	 */
	int (*find)(const void *find_arg, const char *build_id);
	const void *find_arg;
};

struct debug_file {
	Elf *elf; /* NULL: none */
	int fd; /* -1: none */
	void *image; /* memory of elf, if not in a file */
	size_t image_size;
	char *path; /* NULL: no path of its own */
};

struct debug_files {
	struct debug_file binary;
	struct debug_file mini; /* decompressed .gnu_debugdata: symbols only */
	struct debug_file debug; /* separate debug file */
	struct debug_file alt; /* shared file of dwz */
	Elf *dwarf; /* of the file with DWARF, or NULL */
	char build_id[BUILD_ID_SIZE]; /* of all files, hex; "": unknown */
	struct error problem; /* why a file was rejected; "": none was */
	struct error missing; /* why there is no DWARF, if nothing is wrong; "" */
};

/*
 * Finds the files of the binary `path` with this build ID (hex; "": unknown). `fd` is the binary,
 * and remains the caller's; -1 if the binary is missing.
 *
 * Returns 0, to be followed by debug_files_close(), also without DWARF; or a negative errno value
 * with `error` set: -ESTALE for a binary with another build ID, -EINVAL if it is not an ELF file,
 * or -ENOMEM.
 */
int debug_files_open(struct debug_files *files, int fd, const char *path, const char *build_id,
		     const struct debug_search *search, struct error *error);
void debug_files_close(struct debug_files *files);

/*
 * Opens the debug file of a build ID (hex) by `find` or in one of the directories, without a check
 * of its contents. Returns an fd and sets *path, to be freed; or -ENOENT.
 */
int debug_file_by_build_id(const char *build_id, const struct debug_search *search, char **path);

/* Gets the GNU build ID in the note sections, or else segments, as hex; "": none. */
void debug_build_id(Elf *elf, char hex[BUILD_ID_SIZE]);

#endif
