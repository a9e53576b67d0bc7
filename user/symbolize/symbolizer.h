/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names for addresses: each unique address is resolved once. Call it when the
 * recording is over, with the address that stands for the call: a return
 * address minus 1, the leaf as it is.
 *
 * At first a frame has the name that the symbols of its object give it. When all
 * frames are known, symbolizer_resolve() reads debug information for all of them.
 */
#ifndef STACKBEAT_SYMBOLIZE_SYMBOLIZER_H
#define STACKBEAT_SYMBOLIZE_SYMBOLIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "symbolize/source_line.h"
#include "symbolize/symbolize_options.h"

struct error;
struct kallsyms;
struct kernel;
struct kernel_mapping;
struct mapped_files;
struct address_space;
struct symbolizer;

struct frame_name {
	/* Of the function that holds the address, and is not inlined. */
	const char *function; /* demangled; NULL if not resolved */
	const char *system_name; /* as in the object; NULL if not resolved */
	const struct source_line *lines; /* all functions there, innermost first */
	size_t line_count; /* 0 if not resolved */
	const char *mapping_path; /* file, "[kernel.kallsyms]", "[MODULE]", "[vdso]",
				   * "[anon]", ...; "" if the address is in no mapping */
	const char *build_id; /* hex; "" if there is none */
	uint32_t file; /* which one, from 1, where nothing but the path tells; 0: not needed */
	const struct kernel_mapping *kernel; /* of the kernel; NULL: user code */
	/*
	 * ELF virtual address if normalized; offset in the file where it has no segments;
	 * else as sampled.
	 */
	uint64_t vaddr;
	uint64_t start; /* of the function, as vaddr; 0 if not resolved */
	bool normalized; /* vaddr is an address of the ELF file */
	bool resolved; /* function and system_name are set */
	bool hidden; /* a wrapper that a compiler made: not to be shown */
};

/*
 * `kallsyms` may be NULL: kernel addresses stay unresolved then. It is not
 * owned, and must live as long as the symbolizer, as must the kernel, and the objects,
 * of which all that is needed was read. `root` is put before /sys ("" but for tests). Returns NULL
 * and sets `error` when out of memory. symbolizer_free() takes NULL too.
 */
struct symbolizer *symbolizer_new(const struct kallsyms *kallsyms, struct kernel *kernel,
				  const struct mapped_files *objects, const char *root,
				  struct error *error);
void symbolizer_free(struct symbolizer *symbolizer);

/*
 * The name of an address: of the kernel, or of the number in a place of a space (see
 * process/address_space.h). The same function or file gives the same strings.
 * Owned by the symbolizer. NULL when out of memory. Addresses that are the same
 * place of the same file share one frame_name, also between processes.
 */
const struct frame_name *symbolize_kernel(struct symbolizer *symbolizer, uint64_t address);
const struct frame_name *symbolize_user(struct symbolizer *symbolizer,
					const struct address_space *space, uint32_t place,
					uint64_t number);

/*
 * Reads debug information for all frames so far: the same struct frame_name has other
 * lines then. Frames of which it tells nothing stay as they are. Returns 0 or a negative
 * errno value.
 */
int symbolizer_resolve(struct symbolizer *symbolizer, const struct symbolize_options *options);

#endif
