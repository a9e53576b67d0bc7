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
struct objects;

/* A network file system may hang for ever. */
#define OBJECTS_PATIENCE_S 30u
#define OBJECTS_KEEP_PATIENCE_S 600u

/* Of such files, that are given up one by one; then what is left is given up as well. */
#define OBJECTS_HUNG_MAX 8u

/* Of the symbols of all files, in memory. */
#define OBJECTS_SYMBOL_BYTES_MAX (UINT64_C(2) << 30)

/* Files without a name that are kept open until the profile is written. */
#define OBJECTS_OPEN_MAX 256u

struct object {
	uint32_t index; /* see objects_at() */
	char *path; /* as the process sees it; "" if it is not known */
	const char *build_id; /* GNU build id, hex; "" if there is none */
	const char *problem; /* why symbols are missing, one line; "" if none are */
};

/* Where the files come from: the device, but for tests. May be called by any thread. */
struct object_source {
	int (*open)(uint64_t id, void *arg); /* as device_object_open() */
	int (*release)(uint64_t id, void *arg); /* as device_object_release() */
	void *arg;
	/* Seconds that a file may take at the end; 0: OBJECTS_PATIENCE_S, or _KEEP_ where it is
	 * kept. */
	unsigned int patience;
	uint64_t symbol_bytes; /* 0: OBJECTS_SYMBOL_BYTES_MAX */
};

struct objects_counts {
	uint64_t read; /* objects that were needed, and read */
	uint64_t kept; /* of these, copied to the directory of objects_keep() */
	uint64_t not_kept; /* of these, could not be */
	uint64_t without_id; /* of these, have no build id */
};

/*
 * A table of objects. `root` is put before /proc and before paths ("" but for
 * tests). `source` is copied. Returns NULL when out of memory. objects_free() takes
 * NULL too, waits for what is being read, and frees the objects.
 */
struct objects *objects_new(const char *root, const struct object_source *source,
			    struct error *error);
void objects_free(struct objects *objects);

/*
 * From now on each object that is read is copied to DIRECTORY/.build-id/ab/cdef...
 * (its build id, without a suffix), if it is not there yet. Returns 0, or a negative
 * errno value when the directory can't be made. `directory` must stay.
 */
int objects_keep(struct objects *objects, const char *directory, struct error *error);

/*
 * From now on, no symbols are read: only what the kernel could not tell, which are the
 * notes and segments of some. To be called before anything is needed.
 */
void objects_leave_symbols(struct objects *objects);
bool objects_have_symbols(const struct objects *objects);

/* Takes what the kernel told of an object. Returns 0 or -ENOMEM. */
int objects_add(struct objects *objects, const struct stackbeat_object *record);

/* The object of an id of the kernel, told or not. Owned by the table; NULL: no memory. */
struct object *objects_get(struct objects *objects, uint64_t id);

/*
 * The object of a file that the kernel has not kept, as a living process maps it. NULL
 * if it can't be found, or there is no memory.
 */
struct object *objects_mapped(struct objects *objects, uint32_t pid, uint64_t start, uint64_t end);

/* The 64-bit vdso, read from this process: NULL if there is none or no memory. */
struct object *objects_vdso(struct objects *objects);

/* The object of an index that one of these has. */
struct object *objects_at(const struct objects *objects, uint32_t index);

/* Notes a process that maps it, as a way to the file. */
void object_seen(struct objects *objects, struct object *object, uint32_t pid, uint64_t start,
		 uint64_t end);

/* A frame needs it: has it read. Again, it does nothing. Returns 0 or -ENOMEM. */
int object_need(struct objects *objects, struct object *object);

/* Gives the kernel back what was read. */
void objects_give_back(struct objects *objects);

/*
 * Gives the kernel back what is of no use: objects that were neither needed nor marked
 * since the last but two sweeps. To be called where no sample is waiting.
 */
void objects_mark(struct objects *objects, uint32_t index);
void objects_sweep(struct objects *objects);

/*
 * Waits until all that is needed was read, and gives the kernel all of it back; the
 * source is not used any more. Nothing can be needed afterwards. A file that hangs is given
 * up, and stays in memory with all the table; what is on the same device is read after all
 * else then.
 */
void objects_finish(struct objects *objects);

/* Uses the source no more, whatever is needed, and gives nothing back. Takes NULL too. */
void objects_abandon(struct objects *objects);

/* These two are for afterwards. */
void objects_counts(const struct objects *objects, struct objects_counts *counts);

/* What objects_keep() could not keep, first of all: one line, or "". */
const char *objects_keep_problem(const struct objects *objects);

/*
 * The rest is for after objects_finish().
 *
 * The ELF virtual address of the byte at `offset` in the file. False if no executable
 * segment holds it.
 */
bool object_vaddr(const struct object *object, uint64_t offset, uint64_t *vaddr);

/* As elf_lookup(). */
bool object_lookup(const struct object *object, uint64_t vaddr, struct symbol *symbol);

/* Whether its symbols come from a file that file_is_trusted() not: they may not be kept. */
bool object_is_others(const struct object *object);

/*
 * Opens the very file that was mapped: the one that was kept because it has no name,
 * or what is found in /proc or by path and proven to be it. Returns a read-only file
 * descriptor of a regular file, which the caller closes, or a negative errno value:
 * -ESTALE when another file is there.
 */
int object_open(const struct objects *objects, const struct object *object);

#endif
