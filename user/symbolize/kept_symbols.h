/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a worker has read of the files of a job, and keeps for later ones in a cache
 * (debuginfo/file_cache.h): the sorted functions of symbol tables, and the contents of compressed
 * sections with debug information. Everything else of the files is read again, so that a lookup
 * takes the same way with it and without it.
 */
#ifndef STACKBEAT_SYMBOLIZE_KEPT_SYMBOLS_H
#define STACKBEAT_SYMBOLIZE_KEPT_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debuginfo/dwarf_lookup.h"
#include "debuginfo/dwarf_unit.h"
#include "debuginfo/elf_symbols.h"

/* Larger ones are not kept. Smaller ones take as long to find as to read again. */
#define KEPT_SYMBOLS_MAX ((size_t)32 << 20)
#define KEPT_SYMBOLS_MIN ((size_t)16 << 10)

/* The files of a job with symbol tables. */
enum kept_file {
	KEPT_DEBUG,
	KEPT_MINI,
	KEPT_BINARY,
	KEPT_FILES,
};

/* All zero: nothing. */
struct kept_symbols {
	struct {
		bool is_known;
		struct elf_packed packed;
		struct iovec parts[ELF_PARTS]; /* as of elf_pack(), or all in the first one */
	} files[KEPT_FILES];
	struct dwarf_contents contents[DWARF_FILES];
};

/* Takes the next bytes. Returns 0 or a negative errno value, which ends kept_symbols_write(). */
typedef int (*kept_symbols_fn)(void *arg, const void *bytes, size_t size);

/* Returns the number of bytes, a multiple of 8, that kept_symbols_write() writes. */
size_t kept_symbols_size(const struct kept_symbols *kept);
int kept_symbols_write(const struct kept_symbols *kept, kept_symbols_fn write, void *arg);

/*
 * Finds what was written in `size` bytes, which are aligned to 8 bytes, and must outlive it.
 * Returns false if they are damaged, with nothing in `kept`. The contents of sections are
 * not trusted, as the file is not.
 */
bool kept_symbols_read(struct kept_symbols *kept, const void *bytes, size_t size);

#endif
