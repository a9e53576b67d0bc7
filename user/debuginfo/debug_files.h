/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds the files with symbols and debug information of a binary: the binary itself, its separate
 * debug file, the file that dwz shares between debug files, and the compressed symbols in the
 * binary (MiniDebugInfo).
 *
 * The files are not trusted. A file with another build ID, machine or type is rejected. Files are
 * mapped: access to a shrunk mapping raises SIGBUS, and a network file system may hang. So call
 * this in a worker process, which may die and may be killed.
 */
#ifndef STACKBEAT_DEBUGINFO_DEBUG_FILES_H
#define STACKBEAT_DEBUGINFO_DEBUG_FILES_H

#include "debuginfo/debug_paths.h"
#include "debuginfo/elf_symbols.h"
#include "lib/error.h"

#include <libelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct debug_search {
	/* As debug_paths_open(), by a process that may open files. */
	int (*open)(void *arg, enum debug_name kind, const char *name, const char *beside,
		    unsigned int *candidate, char **path);
	/*
	 * Socket of debuginfod_helper_fetch(), which fetches missing files, or NULL. `progress` is
	 * called from time to time meanwhile, with bytes (`total` 0: not yet known); a value other
	 * than 0 stops the fetching.
	 */
	int *fetcher;
	int (*progress)(void *arg, long done, long total);
	void *arg;
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
 * with `error` set: -ESTALE for a binary with another build ID, -ENODATA for one without, -EINVAL
 * if it is not an ELF file, or -ENOMEM.
 */
int debug_files_open(struct debug_files *files, int fd, const char *path, const char *build_id,
		     const struct debug_search *search, struct error *error);
void debug_files_close(struct debug_files *files);

/*
 * Returns 0 if a file is an ELF file and has a build ID ("": any), or a negative errno value as
 * debug_files_open().
 */
int debug_files_check_binary(int fd, const char *path, const char *build_id, struct error *error);

/* Linkers make one or two; further ones are left out. */
#define ELF_HEADERS_SEGMENTS_MAX 32u

struct elf_headers {
	char build_id[BUILD_ID_SIZE]; /* hex; "": none */
	bool has_dwarf;
	char link[NAME_MAX + 1]; /* .gnu_debuglink; "": none */
	char alt_link[PATH_MAX]; /* .gnu_debugaltlink; "": none */
	char alt_build_id[BUILD_ID_SIZE]; /* of the file of `alt_link`, hex; "": none */
	uint32_t segment_count;
	struct elf_segment segments[ELF_HEADERS_SEGMENTS_MAX]; /* executable ones */
};

/* Reads the build ID and the links to debug files. `headers` is all zero. */
void debug_file_headers(Elf *elf, struct elf_headers *headers);

/* Gets the GNU build ID in the note sections, or else segments, as hex; "": none. */
void debug_build_id(Elf *elf, char hex[BUILD_ID_SIZE]);

#endif
