/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files that processes map: executables, shared libraries, and any other mapped code.
 *
 * The kernel holds each of them open for its session. A file that a sampled frame needs is opened
 * through the kernel once, read by a separate thread (so that the rings are drained meanwhile),
 * and released; a file that no frame can need any more is released without. If the kernel refuses
 * to open it, the file is searched for in /proc and by its path, and used only if it is verified
 * to be the one that was mapped.
 */
#ifndef STACKBEAT_PROCESS_MAPPED_FILES_H
#define STACKBEAT_PROCESS_MAPPED_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "debuginfo/elf_symbols.h"

struct error;
struct mapped_files;

/* Seconds that one file may take, as a network file system may hang for ever. */
#define MAPPED_FILES_TIMEOUT_S 30u
#define MAPPED_FILES_SAVE_TIMEOUT_S 600u

/* Files that may time out one by one. After the last one, all remaining files are given up. */
#define MAPPED_FILES_STUCK_MAX 8u

/* Memory for the symbols of all files, in bytes. */
#define MAPPED_FILES_SYMBOL_BYTES_MAX (UINT64_C(2) << 30)

/* Unlinked files that are kept open until the profile is written. */
#define MAPPED_FILES_OPEN_MAX 256u

struct mapped_file {
	uint32_t index; /* see mapped_files_at() */
	char *path; /* as the process sees it; "": unknown */
	const char *build_id; /* GNU build ID, hex; "": none */
	const char *problem; /* why symbols are missing, one line; "": none are */
};

/* Source of the files: the device, except in tests. The callbacks may run in any thread. */
struct file_source {
	int (*open)(uint64_t id, void *arg); /* as device_file_open() */
	int (*release)(uint64_t id, void *arg); /* as device_file_release() */
	void *arg;
	/* Of one file, in mapped_files_finish(). 0: the default, MAPPED_FILES_TIMEOUT_S, or
	 * MAPPED_FILES_SAVE_TIMEOUT_S if files are saved. */
	unsigned int timeout_s;
	uint64_t symbol_bytes; /* 0: MAPPED_FILES_SYMBOL_BYTES_MAX */
};

struct mapped_files_counts {
	uint64_t read; /* files that were requested, and read */
	uint64_t saved; /* read files that mapped_files_save() has saved */
	uint64_t not_saved; /* read files that could not be saved */
	uint64_t without_id; /* read files without build ID, which are not saved */
};

/*
 * Returns an empty table, or NULL with `error` set when out of memory. `root` is prepended to
 * /proc and to paths ("", except in tests). `source` is copied. mapped_files_free() accepts NULL,
 * waits for the file that is being read, and frees all files.
 */
struct mapped_files *mapped_files_new(const char *root, const struct file_source *source,
				      struct error *error);
void mapped_files_free(struct mapped_files *files);

/*
 * From now on, saves a copy of each file that is read as DIRECTORY/.build-id/ab/cdef... (its build
 * ID, without suffix), unless it exists. Returns 0, or a negative errno value if the directory
 * can't be made. `directory` must stay valid.
 */
int mapped_files_save(struct mapped_files *files, const char *directory, struct error *error);

/*
 * From now on, reads no symbols: only the build IDs and segments of files whose headers the kernel
 * could not read. Call before the first request.
 */
void mapped_files_skip_symbols(struct mapped_files *files);
bool mapped_files_have_symbols(const struct mapped_files *files);

/* Adds the record of a file. Returns 0 or -ENOMEM. */
int mapped_files_add(struct mapped_files *files, const struct stackbeat_file *record);

/*
 * Returns the file of a kernel's id, whether its record has arrived or not. Owned by the table;
 * NULL when out of memory.
 */
struct mapped_file *mapped_files_get(struct mapped_files *files, uint64_t id);

/*
 * Returns the file that a live process maps in a range, for files that the kernel does not hold.
 * NULL if it can't be found, or when out of memory.
 */
struct mapped_file *mapped_files_find_mapped(struct mapped_files *files, uint32_t pid,
					     uint64_t start, uint64_t end);

/* Returns the 64-bit vdso, read from this process. NULL if there is none, or out of memory. */
struct mapped_file *mapped_files_vdso(struct mapped_files *files);

/* Returns the file with an index, which must be that of one of these files. */
struct mapped_file *mapped_files_at(const struct mapped_files *files, uint32_t index);

/* Notes a process that maps the file, through which the file can be opened. */
void mapped_file_note_mapping(struct mapped_files *files, struct mapped_file *file, uint32_t pid,
			      uint64_t start, uint64_t end);

/*
 * Requests that a file is read, as a frame needs it. Does nothing if it is requested already.
 * Returns 0 or -ENOMEM.
 */
int mapped_file_request(struct mapped_files *files, struct mapped_file *file);

/* Releases the files that were read, so that the kernel closes them. */
void mapped_files_release_read(struct mapped_files *files);

/*
 * mapped_files_sweep() releases unused files: those neither requested nor marked since the last
 * sweep but two. Call it where no sample is pending.
 */
void mapped_files_mark(struct mapped_files *files, uint32_t index);
void mapped_files_sweep(struct mapped_files *files);

/*
 * Waits until all requested files were read, and releases all files; the source is not used
 * afterwards, and requests do nothing. A file that hangs is given up after a timeout, and stays in
 * memory with the whole table; files of the same device are read last then.
 */
void mapped_files_finish(struct mapped_files *files);

/* Stops using the source, whatever is requested, and releases nothing. Accepts NULL. */
void mapped_files_abandon(struct mapped_files *files);

/* Call these two after mapped_files_finish() or mapped_files_abandon(). */
void mapped_files_counts(const struct mapped_files *files, struct mapped_files_counts *counts);

/* Returns the first error of saving a file: one line, or "". */
const char *mapped_files_save_problem(const struct mapped_files *files);

/*
 * Call the functions below after mapped_files_finish() only.
 *
 * Sets *vaddr to the ELF virtual address of the byte at `offset` in the file. Returns false if no
 * executable segment holds it.
 */
bool mapped_file_vaddr(const struct mapped_file *file, uint64_t offset, uint64_t *vaddr);

/* Looks up a symbol, as elf_lookup(). */
bool mapped_file_lookup(const struct mapped_file *file, uint64_t vaddr, struct symbol *symbol);

/*
 * Opens the very file that was mapped: the one that was kept open because it is unlinked, or the
 * file in /proc or by path that is verified to be it. Returns a read-only file descriptor of a
 * regular file, which the caller closes, or a negative errno value: -ESTALE if another file is
 * there.
 */
int mapped_file_open(const struct mapped_files *files, const struct mapped_file *file);

#endif
