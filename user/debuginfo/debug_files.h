/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files that tell of one object: the binary itself, its debug file, what
 * that one shares with others (dwz), and the symbols packed into the binary
 * (mini debug info).
 *
 * None of them is trusted. A file of another build id, machine or kind is not
 * taken. They are mapped: where one shrinks meanwhile, SIGBUS is what follows,
 * and a network file system may hang. So call this in a process of its own,
 * which may die and may be killed.
 */
#ifndef STACKBEAT_DEBUGINFO_DEBUG_FILES_H
#define STACKBEAT_DEBUGINFO_DEBUG_FILES_H

#include "debuginfo/elf_symbols.h"
#include "lib/error.h"

#include <libelf.h>
#include <stddef.h>

/* Where debug files lie, unless something else is said. */
#define DEBUG_DIRECTORY "/usr/lib/debug"

struct debuginfod_helper;

struct debug_search {
	const char *root; /* put before the paths of binaries; NULL: "" */
	const char *const *directories; /* NULL: DEBUG_DIRECTORY */
	size_t directory_count;
	/*
	 * Files that are not here are fetched where `fetcher` is not NULL. `progress`
	 * is called now and then on the way, with bytes (`total` 0: not known yet);
	 * fetching stops when it returns other than 0.
	 */
	struct debuginfod_helper *fetcher;
	int (*progress)(void *arg, long done, long total);
	/*
	 * NULL, or called by debug_files_open() for each file but the binary, before anything
	 * looks into it.
	 */
	void (*opened)(void *arg, int fd);
	void *arg;
};

struct debug_file {
	Elf *elf; /* NULL: there is none */
	int fd; /* -1: none */
	void *image; /* what elf lies in, if not in a file */
	size_t image_size;
	char *path; /* NULL where it has none of its own */
};

struct debug_files {
	struct debug_file binary;
	struct debug_file mini; /* unpacked .gnu_debugdata: symbols only */
	struct debug_file debug; /* separate debug file */
	struct debug_file alt; /* dwz: what debug files share */
	Elf *dwarf; /* the one of them with DWARF, NULL if there is none */
	char build_id[BUILD_ID_SIZE]; /* of all of them, hex, "" if unknown */
	struct error problem; /* why something that is there was not taken; "" */
	struct error missing; /* why there is no DWARF, if nothing is wrong; "" */
};

/*
 * Finds the files of the object `path` with this build id (hex, "" if unknown).
 * `fd` is the binary, and stays the caller's; or -1 if it is not there. With a
 * build id other than the one asked for it is refused.
 *
 * Returns 0, and debug_files_close() must follow, also where there is no DWARF. Or a negative errno
 * value with `error` set: -ESTALE for a binary of another build id, -EINVAL where it is no ELF
 * file, -ENOMEM.
 */
int debug_files_open(struct debug_files *files, int fd, const char *path, const char *build_id,
		     const struct debug_search *search, struct error *error);
void debug_files_close(struct debug_files *files);

/*
 * Opens the debug file of a build id (hex) that is in one of the directories, whatever is in
 * it. Returns an fd, with *path set, to be freed; or -ENOENT.
 */
int debug_file_by_build_id(const char *build_id, const struct debug_search *search, char **path);

/* The GNU build id in the note sections of a file, as hex; "" if there is none. */
void debug_build_id(Elf *elf, char hex[BUILD_ID_SIZE]);

#endif
