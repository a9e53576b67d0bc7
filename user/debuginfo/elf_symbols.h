/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ELF files: build IDs, load segments and function symbols. The files are not trusted: a broken one
 * loses its own symbols only, and a message says why.
 */
#ifndef STACKBEAT_DEBUGINFO_ELF_SYMBOLS_H
#define STACKBEAT_DEBUGINFO_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "lib/build_id.h"

struct error;
typedef struct Elf Elf; /* of libelf */

#define ELF_PARTS 2u /* of elf_pack() */

/* An executable PT_LOAD. */
struct elf_segment {
	uint64_t offset, size; /* in the file */
	uint64_t vaddr;
};

/* Contents of a file. All zero: nothing was read. */
struct elf_file {
	char build_id[BUILD_ID_SIZE]; /* GNU build ID, hex; "": none */
	struct elf_segment *loads;
	size_t load_count;
	struct elf_function *functions; /* this and all below: private */
	size_t function_count;
	char *names;
	size_t names_size; /* at most the size of the file's string tables */
	bool is_borrowed; /* functions and names */
	size_t steps; /* of nesting the functions, at most one per function; for tests */
};

/* The functions of a file as bytes, without its headers: first the functions, then the names. */
struct elf_packed {
	uint64_t function_count;
	uint64_t names_size;
};

/* Follows the name of the function that a stub of the PLT jumps to, as in objdump. */
#define ELF_STUB_SUFFIX "@plt"

struct symbol {
	const char *name; /* without a version ("@GLIBC_2.2.5"); owned by the elf_file */
	uint64_t start; /* ELF virtual address */
	uint64_t size; /* bytes; see elf_lookup() for a symbol without a size */
};

/*
 * Reads a regular file, or the `size` bytes of `image` if that is not NULL: build ID, executable
 * load segments, and with `functions` the symbol tables (.symtab and .dynsym, merged; without
 * section headers, the table of PT_DYNAMIC) and the stubs of the PLT. The fd stays open, and is not
 * needed afterwards. The size of these tables bounds the memory.
 *
 * Returns 0, to be followed by elf_clear(); or -EINVAL or -ENOMEM with `file` unchanged.
 * problem->text explains missing symbols, also if 0 is returned; "" if no symbols are missing.
 */
int elf_read(struct elf_file *file, int fd, const void *image, size_t size, bool functions,
	     struct error *problem);

/*
 * Opens a regular file, or the `size` bytes of `image` if that is not NULL, for reading with
 * libelf. With `map` the file is mapped: access raises SIGBUS if the file shrinks. Returns 0 and
 * sets *elf, to be closed with elf_end(); or -EINVAL with `error` set.
 */
int elf_begin_read(int fd, const void *image, size_t size, bool map, Elf **elf,
		   struct error *error);

/* Gets the GNU build ID in the note segments, as hex; "": none. */
void elf_build_id(Elf *elf, char hex[BUILD_ID_SIZE]);

/*
 * Describes the functions of a file, of which there may be none, so that elf_unpack() finds them in
 * the bytes of `parts`, which are valid as long as the file.
 */
void elf_pack(const struct elf_file *file, struct elf_packed *packed,
	      struct iovec parts[ELF_PARTS]);

/*
 * Returns the size of packed functions; SIZE_MAX if it is more than `size`.
 */
size_t elf_packed_size(const struct elf_packed *packed, size_t size);

/*
 * Sets the functions of a file that was read without them, to packed ones at `bytes`, which must be
 * aligned to 8 bytes and valid until elf_clear(): of elf_packed_size() bytes, of a command with the
 * same build ID. Returns false if they are damaged, with the file unchanged.
 */
bool elf_unpack(struct elf_file *file, const struct elf_packed *packed, const void *bytes);

/* Frees the contents. */
void elf_clear(struct elf_file *file);

/*
 * Gets the ELF virtual address of the byte at `offset` in the file, by the executable PT_LOAD that
 * holds it. False if none does.
 */
bool elf_vaddr(const struct elf_file *file, uint64_t offset, uint64_t *vaddr);
bool elf_segments_vaddr(const struct elf_segment *segments, size_t count, uint64_t offset,
			uint64_t *vaddr);

/*
 * Finds the function that holds an ELF virtual address. An address past the end of a sized symbol
 * does not belong to it. A symbol without a size extends to the next one, but not over the end of
 * its function, or the start of another one, in the index of call frame information. Without an
 * index and .symtab, it has one byte, as the functions after it may have no symbols. Among symbols
 * with the same address, typed ones are preferred to untyped ones, then global to weak to local,
 * then fewer leading underscores, then the shorter name. Among nested ones, the innermost wins.
 */
bool elf_lookup(const struct elf_file *file, uint64_t vaddr, struct symbol *symbol);

/*
 * Narrows the range from *start to before *end, which holds `vaddr`, to addresses for which
 * elf_lookup() has the same result.
 */
void elf_lookup_range(const struct elf_file *file, uint64_t vaddr, uint64_t *start, uint64_t *end);

/* Gets the start of the code: the lowest address of an executable PT_LOAD. False if none. */
bool elf_code_start(const struct elf_file *file, uint64_t *vaddr);

/*
 * Finds the GNU build ID in ELF notes of this machine's byte order, padded to `align` (4 or 8)
 * bytes, and writes it as hex. False if there is none.
 */
bool build_id_from_notes(const void *notes, size_t size, size_t align, char hex[BUILD_ID_SIZE]);

#endif
