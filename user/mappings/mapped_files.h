/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files that processes map: executables, shared libraries, and any other mapped code.
 *
 * The table has the identity of each file, and open descriptors; nothing of a file is parsed here,
 * but in workers. The kernel holds each file open for its session, up to a limit. A file in which a
 * frame lies is opened through the kernel once, by another thread (see file_opener.h), and is
 * released there immediately: from then on, the table keeps its descriptor. A file that no frame
 * can need any more is released without.
 *
 * A descriptor keeps the file system of the file busy. When no live process maps the file any more,
 * and it still has a name, the descriptor is replaced by a copy in memory. If there are too
 * many descriptors, files that have a name are closed first, then files of the owners with
 * the most. Such a file is opened again when it is symbolized, see mapped_file_open_candidate().
 *
 * opened_files.h has the descriptors, and table_files.h the files of unwind tables.
 *
 * An entry, and its index, lasts until no address space maps the file (mapped_files_mark()), no
 * stack has a frame in it (mapped_file_hold()), and no record that is still in a ring can mention
 * it.
 */
#ifndef STACKBEAT_MAPPINGS_MAPPED_FILES_H
#define STACKBEAT_MAPPINGS_MAPPED_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "mappings/mapped_file.h"

struct error;
struct mapped_files;

/*
 * Returns an empty table, or NULL with `error` set when out of memory. `root` is prepended to
 * /proc and to paths ("", except in tests). `source` is copied. mapped_files_free() accepts NULL,
 * waits for the file that is being opened, and frees all files.
 */
struct mapped_files *mapped_files_new(const char *root, const struct file_source *source,
				      struct error *error);
void mapped_files_free(struct mapped_files *files);

/*
 * From now on, opens no file for its symbols: only those to be saved, and those whose headers the
 * kernel could not read. Call before the first request.
 */
void mapped_files_skip_symbols(struct mapped_files *files);
bool mapped_files_have_symbols(const struct mapped_files *files);

/* Returns the bytes of memory of the table, without copies of files. */
size_t mapped_files_bytes(const struct mapped_files *files);

/* Adds the record of a file. Returns 0 or -ENOMEM. */
int mapped_files_add(struct mapped_files *files, const struct stackbeat_file *record);

/*
 * Returns the file of a kernel's id, whether its record has arrived or not. Owned by the table;
 * NULL when out of memory.
 */
struct mapped_file *mapped_files_get(struct mapped_files *files, uint64_t id);

/*
 * Returns the file that a live process maps in a range, for files that the kernel does not hold.
 * NULL if it can't be found within a second (see read_mapping_link()), or when out of memory.
 */
struct mapped_file *mapped_files_find_mapped(struct mapped_files *files, uint32_t pid,
					     uint64_t start, uint64_t end);

/*
 * Returns whether a file may be an ELF file: false if it was opened and does not begin as one, or
 * if the kernel has read its headers, and has found no build ID. Code in no load segment of such a
 * file is no code of an ELF file.
 */
bool mapped_file_may_be_elf(const struct mapped_file *file);

/* Returns the size of a file when it was mapped; 0: unknown. */
uint64_t mapped_file_size(const struct mapped_file *file);

/* Returns the file with an index, which must belong to one of these files. */
struct mapped_file *mapped_files_at(const struct mapped_files *files, uint32_t index);

/* Notes a process that maps the file, through which the file can be opened. */
void mapped_file_note_mapping(struct mapped_files *files, struct mapped_file *file, uint32_t pid,
			      uint64_t start, uint64_t end);

/*
 * A stack has a frame in the file: requests that it is opened, and holds its entry until
 * mapped_file_release(). Returns 0, or -ENOMEM with the entry not held.
 */
int mapped_file_hold(struct mapped_files *files, struct mapped_file *file);
void mapped_file_release(struct mapped_files *files, struct mapped_file *file);

/* Returns whether a stack has a frame in the file. */
bool mapped_file_is_held(const struct mapped_file *file);

/*
 * Call mapped_files_sweep() each second, where no sample is pending, after mapped_files_mark() for
 * each file that an address space maps. Does mapped_files_watch(), releases unused files (those
 * neither held nor marked since the last sweep but two), and forgets entries: pointers to files
 * that are not held are invalid afterwards.
 */
void mapped_files_mark(struct mapped_files *files, uint32_t index);
void mapped_files_sweep(struct mapped_files *files);

/*
 * Waits until all requested files were opened and saved, and releases all files; the source is not
 * used afterwards, and requests do nothing. A file that hangs is given up after a timeout; files of
 * the same device are opened last then.
 */
void mapped_files_finish(struct mapped_files *files);

/*
 * Call it in a process that was forked, which has no threads but its own: no file is opened or
 * saved from now on, but for mapped_file_open_candidate().
 */
void mapped_files_forked(struct mapped_files *files);

/* Stops using the source, whatever is requested, and releases nothing. Accepts NULL. */
void mapped_files_abandon(struct mapped_files *files);

/* Sets the build ID of a file whose headers the kernel could not read, from the file itself. */
void mapped_file_set_build_id(struct mapped_files *files, struct mapped_file *file,
			      const char *build_id);

#endif
