/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files that processes map: executables, libraries, and what else is code.
 *
 * The kernel keeps each of them open for its session. One that a sampled frame
 * needs is had from it once, read by a thread of its own (so that the rings are
 * drained meanwhile), and given back; one that no frame can need any more is given
 * back without. Where the kernel refuses, the file is looked for in /proc and by its
 * path, and taken only if it is proven to be the one that was mapped.
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

/* A network file system may hang for ever. */
#define MAPPED_FILES_TIMEOUT_S 30u
#define MAPPED_FILES_SAVE_TIMEOUT_S 600u

/* Of such files, that are given up one by one; then what is left is given up as well. */
#define MAPPED_FILES_STUCK_MAX 8u

/* Of the symbols of all files, in memory. */
#define MAPPED_FILES_SYMBOL_BYTES_MAX (UINT64_C(2) << 30)

/* Files without a name that are kept open until the profile is written. */
#define MAPPED_FILES_OPEN_MAX 256u

struct mapped_file {
	uint32_t index; /* see mapped_files_at() */
	char *path; /* as the process sees it; "" if it is not known */
	const char *build_id; /* GNU build id, hex; "" if there is none */
	const char *problem; /* why symbols are missing, one line; "" if none are */
};

/* Where the files come from: the device, but for tests. May be called by any thread. */
struct file_source {
	int (*open)(uint64_t id, void *arg); /* as device_file_open() */
	int (*release)(uint64_t id, void *arg); /* as device_file_release() */
	void *arg;
	/* Seconds that a file may take at the end; 0: MAPPED_FILES_TIMEOUT_S, or _KEEP_ where it is
	 * kept. */
	unsigned int patience;
	uint64_t symbol_bytes; /* 0: MAPPED_FILES_SYMBOL_BYTES_MAX */
};

struct mapped_files_counts {
	uint64_t read; /* objects that were needed, and read */
	uint64_t kept; /* of these, copied to the directory of mapped_files_save() */
	uint64_t not_kept; /* of these, could not be */
	uint64_t without_id; /* of these, have no build id */
};

/*
 * A table of objects. `root` is put before /proc and before paths ("" but for
 * tests). `source` is copied. Returns NULL when out of memory. mapped_files_free() takes
 * NULL too, waits for what is being read, and frees the objects.
 */
struct mapped_files *mapped_files_new(const char *root, const struct file_source *source,
				      struct error *error);
void mapped_files_free(struct mapped_files *objects);

/*
 * From now on each object that is read is copied to DIRECTORY/.build-id/ab/cdef...
 * (its build id, without a suffix), if it is not there yet. Returns 0, or a negative
 * errno value when the directory can't be made. `directory` must stay.
 */
int mapped_files_save(struct mapped_files *objects, const char *directory, struct error *error);

/*
 * From now on, no symbols are read: only what the kernel could not tell, which are the
 * notes and segments of some. To be called before anything is needed.
 */
void mapped_files_skip_symbols(struct mapped_files *objects);
bool mapped_files_have_symbols(const struct mapped_files *objects);

/* Takes what the kernel told of an object. Returns 0 or -ENOMEM. */
int mapped_files_add(struct mapped_files *objects, const struct stackbeat_file *record);

/* The object of an id of the kernel, told or not. Owned by the table; NULL: no memory. */
struct mapped_file *mapped_files_get(struct mapped_files *objects, uint64_t id);

/*
 * The object of a file that the kernel has not kept, as a living process maps it. NULL
 * if it can't be found, or there is no memory.
 */
struct mapped_file *mapped_files_find_mapped(struct mapped_files *objects, uint32_t pid,
					     uint64_t start, uint64_t end);

/* The 64-bit vdso, read from this process: NULL if there is none or no memory. */
struct mapped_file *mapped_files_vdso(struct mapped_files *objects);

/* The object of an index that one of these has. */
struct mapped_file *mapped_files_at(const struct mapped_files *objects, uint32_t index);

/* Notes a process that maps it, as a way to the file. */
void mapped_file_note_mapping(struct mapped_files *objects, struct mapped_file *object,
			      uint32_t pid, uint64_t start, uint64_t end);

/* A frame needs it: has it read. Again, it does nothing. Returns 0 or -ENOMEM. */
int mapped_file_request(struct mapped_files *objects, struct mapped_file *object);

/* Gives the kernel back what was read. */
void mapped_files_release_read(struct mapped_files *objects);

/*
 * Gives the kernel back what is of no use: objects that were neither needed nor marked
 * since the last but two sweeps. To be called where no sample is waiting.
 */
void mapped_files_mark(struct mapped_files *objects, uint32_t index);
void mapped_files_sweep(struct mapped_files *objects);

/*
 * Waits until all that is needed was read, and gives the kernel all of it back; the
 * source is not used any more. Nothing can be needed afterwards. A file that hangs is given
 * up, and stays in memory with all the table; what is on the same device is read after all
 * else then.
 */
void mapped_files_finish(struct mapped_files *objects);

/* Uses the source no more, whatever is needed, and gives nothing back. Takes NULL too. */
void mapped_files_abandon(struct mapped_files *objects);

/* These two are for afterwards. */
void mapped_files_counts(const struct mapped_files *objects, struct mapped_files_counts *counts);

/* What mapped_files_save() could not keep, first of all: one line, or "". */
const char *mapped_files_save_problem(const struct mapped_files *objects);

/*
 * The rest is for after mapped_files_finish().
 *
 * The ELF virtual address of the byte at `offset` in the file. False if no executable
 * segment holds it.
 */
bool mapped_file_vaddr(const struct mapped_file *object, uint64_t offset, uint64_t *vaddr);

/* As elf_lookup(). */
bool mapped_file_lookup(const struct mapped_file *object, uint64_t vaddr, struct symbol *symbol);

/* Whether its symbols come from a file that file_is_trusted() not: they may not be kept. */
bool mapped_file_is_untrusted(const struct mapped_file *object);

/*
 * Opens the very file that was mapped: the one that was kept because it has no name,
 * or what is found in /proc or by path and proven to be it. Returns a read-only file
 * descriptor of a regular file, which the caller closes, or a negative errno value:
 * -ESTALE when another file is there.
 */
int mapped_file_open(const struct mapped_files *objects, const struct mapped_file *object);

#endif
