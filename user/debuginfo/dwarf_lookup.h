/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Looks up functions, inlined ones too, and lines of addresses of a binary by its DWARF. A call
 * takes many addresses; it reads each compilation unit with such an address once, and keeps none in
 * memory.
 *
 * The files are not trusted: see debug_files.h. There is no shared state: threads may look up
 * different binaries at a time.
 */
#ifndef STACKBEAT_DEBUGINFO_DWARF_LOOKUP_H
#define STACKBEAT_DEBUGINFO_DWARF_LOOKUP_H

#include "lib/error.h"

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit of the frames at an address. Beyond it, inlined functions are dropped. */
#define INLINE_DEPTH_MAX 128u

/* The file, and its alternate one. */
#define DWARF_FILES 2u

struct dwarf_contents;
struct dwarf_lookup;

/* A function at an address. Unknown strings are NULL, unknown numbers 0. */
struct dwarf_frame {
	const char *linkage_name; /* mangled; NULL where it equals `name` */
	const char *name; /* as in the source, without namespaces */
	const char *file; /* with its directory */
	uint32_t line;
	uint32_t start_line; /* line of the declaration, if that is in `file` */
	uint64_t start; /* start address; 0 for an inlined function */
};

/*
 * Takes the frames at the address with `index`, innermost first; the last one is the function that
 * is not inlined. `count` is 0 for an unknown address. The frames are valid during the call. A
 * value other than 0 stops dwarf_lookup_each().
 */
typedef int (*dwarf_lookup_fn)(void *arg, size_t index, const struct dwarf_frame *frames,
			       size_t count);

/*
 * Opens the DWARF of `elf`; `alt` is the file that dwz shares between binaries, or NULL. Both must
 * stay open until the close. `known` are contents of the sections of DWARF_FILES files
 * (debuginfo/dwarf_unit.h), which must be valid until the close; NULL: unknown. Returns 0 and sets
 * *lookup, to be freed with dwarf_lookup_close() (which takes NULL, too); or -EINVAL for broken
 * DWARF or -ENOMEM, with `error` set.
 */
int dwarf_lookup_open(Elf *elf, Elf *alt, const struct dwarf_contents *known,
		      struct dwarf_lookup **lookup, struct error *error);
void dwarf_lookup_close(struct dwarf_lookup *lookup);

/* Sets the contents of the compressed sections of DWARF_FILES files, valid until the close. */
void dwarf_lookup_contents(const struct dwarf_lookup *lookup, struct dwarf_contents *contents);

/*
 * Calls `callback` once for each of the `count` ELF virtual addresses, in any order. Returns 0,
 * the callback's value other than 0, or -ENOMEM.
 */
int dwarf_lookup_each(struct dwarf_lookup *lookup, const uint64_t *vaddrs, size_t count,
		      dwarf_lookup_fn callback, void *arg);

#endif
