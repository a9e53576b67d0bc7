/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Object files: the executables and libraries that processes map, their build
 * ids, and the functions in them. They are shared by all processes that map
 * the same file, and are opened while a process that maps them lives, because
 * afterwards the file may be gone, or another one may have its path.
 *
 * The files are not trusted: what is wrong with one costs its own symbols and
 * leaves a sentence in `problem`.
 */
#ifndef STACKBEAT_ELF_H
#define STACKBEAT_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

/* Files kept open at the same time. Further ones are opened again by path. */
#define OBJECTS_OPEN_MAX 256u

/* The longest build id, as hex digits with the NUL. */
#define BUILD_ID_SIZE 129u

struct object {
	char *path; /* as the process sees it, without " (deleted)" */
	char build_id[BUILD_ID_SIZE]; /* GNU build id, hex; "" if there is none */
	char problem[128]; /* why symbols are missing, one line; "" if none are */
};

/* A file that a process maps, as /proc/PID/maps tells it. */
struct mapped_file {
	uint32_t pid;
	uint64_t start, end; /* of one of its mappings */
	uint64_t device; /* as st_dev */
	uint64_t inode;
	const char *path; /* without " (deleted)" */
	bool deleted; /* the path does not lead to it any more */
};

struct symbol {
	const char *name; /* owned by the object; without a version ("@GLIBC_2.2.5") */
	uint64_t start; /* ELF virtual address */
	uint64_t size; /* bytes; of an unsized symbol up to what follows it */
};

struct objects;

/*
 * A table of objects. `root` is put before /proc and before paths ("" but for
 * tests). Returns NULL when out of memory. objects_free() takes NULL too, and
 * frees the objects.
 */
struct objects *objects_new(const char *root, struct error *error);
void objects_free(struct objects *objects);

/*
 * The object of a mapped file: opened, with its build id read, unless it can't
 * be (`problem`). The same file seen again gives the same object; a file that
 * was changed in place meanwhile gives a new one. Owned by the table. Returns
 * NULL when out of memory.
 */
struct object *objects_get(struct objects *objects, const struct mapped_file *file);

/* The 64-bit vdso, read from this process: NULL if there is none or no memory. */
struct object *objects_vdso(struct objects *objects);

/*
 * The ELF virtual address of the byte at `offset` in the file, through the
 * executable PT_LOAD that holds it. False if there is none.
 */
bool object_vaddr(const struct object *object, uint64_t offset, uint64_t *vaddr);

/*
 * The function that holds an ELF virtual address. The first call reads the
 * symbol tables (.symtab and .dynsym, merged) and closes the file. An address
 * behind the end of a sized symbol does not belong to it. Where symbols share
 * an address, typed ones are preferred to untyped ones, then global to weak to
 * local, then fewer leading underscores, then the shorter name. Where they
 * nest, the innermost wins.
 */
bool object_lookup(struct object *object, uint64_t vaddr, struct symbol *symbol);

/*
 * Finds the GNU build id in ELF notes of this machine's byte order, which are
 * padded to `align` (4 or 8) bytes, and writes it as hex. False if there is none.
 */
bool build_id_from_notes(const void *notes, size_t size, size_t align, char hex[BUILD_ID_SIZE]);

#endif
