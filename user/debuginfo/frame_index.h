/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where functions begin and end by .eh_frame_hdr, the sorted index of call frame information
 * (LSB 5, "DWARF Extensions"). It says where the code of a symbol without a size ends.
 */
#ifndef STACKBEAT_DEBUGINFO_FRAME_INDEX_H
#define STACKBEAT_DEBUGINFO_FRAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_memory;
typedef struct Elf Elf; /* of libelf */

struct frame_index {
	const struct elf_memory *memory;
	uint64_t vaddr; /* of the header */
	struct frame_entry *entries;
	size_t count; /* 0: a file without an index, or with one of another encoding */
};

/*
 * Reads the index of a file, whose `memory` must outlive it. Returns 0, to be followed by
 * frame_index_clear(), or -ENOMEM.
 */
int frame_index_read(struct frame_index *index, Elf *elf, const struct elf_memory *memory);

void frame_index_clear(struct frame_index *index);

/*
 * Returns the end of the code at an address that has one description: of the function that holds
 * it, or, between two functions, the start of the next one; UINT64_MAX: there is no next one.
 */
uint64_t frame_index_end(const struct frame_index *index, uint64_t vaddr);

/* Sets the range of the function that holds an address. Returns false if none is known to. */
bool frame_index_range(const struct frame_index *index, uint64_t vaddr, uint64_t *start,
		       uint64_t *end);

#endif
