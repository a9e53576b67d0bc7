/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DWARF: which functions, inlined ones too, and which lines lie at addresses of
 * an object. It takes many addresses at once, and reads each compilation unit
 * once, only those that are asked for, and keeps none.
 *
 * What it reads is not trusted: see debug_files.h. There is no shared state, so
 * that different objects may be read by different threads.
 */
#ifndef STACKBEAT_DEBUGINFO_DWARF_LOOKUP_H
#define STACKBEAT_DEBUGINFO_DWARF_LOOKUP_H

#include "lib/error.h"

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of functions inlined in each other, those beyond are left out. */
#define INLINE_DEPTH_MAX 128u

struct dwarf_lookup;

/* A function at an address. Texts are NULL, and numbers 0, where they are unknown. */
struct dwarf_frame {
	const char *linkage_name; /* as the linker knows it, where it differs from `name` */
	const char *name; /* as in the source, without namespaces */
	const char *file; /* with its directory */
	uint32_t line;
	uint32_t start_line; /* where the function begins, if that is in `file` */
	uint64_t start; /* its first address; 0 for an inlined one */
};

/*
 * Gets the frames at the address at `index`, innermost first; the last one is the
 * function that is not inlined. `count` is 0 where nothing is known. They are
 * valid until it returns. Other than 0 ends dwarf_lookup_each().
 */
typedef int (*dwarf_lookup_fn)(void *arg, size_t index, const struct dwarf_frame *frames,
			       size_t count);

/*
 * Opens the DWARF of `elf`; `alt` is what dwz made common with others, or NULL.
 * Both must live on. Returns 0 and sets *debuginfo, to be freed with
 * dwarf_lookup_close() (which takes NULL too); or -EINVAL with `error` for broken
 * DWARF, or -ENOMEM.
 */
int dwarf_lookup_open(Elf *elf, Elf *alt, struct dwarf_lookup **debuginfo, struct error *error);
void dwarf_lookup_close(struct dwarf_lookup *debuginfo);

/*
 * Calls `callback` once for each of the `count` ELF virtual addresses, in any
 * order. Returns 0, what the callback returned, or -ENOMEM.
 */
int dwarf_lookup_each(struct dwarf_lookup *debuginfo, const uint64_t *vaddrs, size_t count,
		      dwarf_lookup_fn callback, void *arg);

#endif
