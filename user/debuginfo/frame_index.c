// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/frame_index.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "debuginfo/elf_memory.h"

/* An index beyond this is broken or malicious. */
#define ENTRIES_MAX (1u << 23)

/* Both are relative to the address of the header. */
struct frame_entry {
	int32_t start, description;
};

/* All linkers use these encodings. */
struct index_header {
	uint8_t version, pointer_encoding, count_encoding, table_encoding;
	int32_t pointer;
	uint32_t count;
};

/* A file of debug information has the headers of the segments, but not their contents. */
static bool lacks_contents(Elf *elf, uint64_t vaddr)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		if (gelf_getshdr(section, &header) && header.sh_addr == vaddr &&
		    header.sh_type == SHT_NOBITS)
			return true;
	}
	return false;
}

static bool find_frames(Elf *elf, uint64_t *vaddr)
{
	GElf_Phdr header;
	size_t count;

	if (elf_getphdrnum(elf, &count))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_GNU_EH_FRAME)
			continue;
		*vaddr = header.p_vaddr;
		return !lacks_contents(elf, *vaddr);
	}
	return false;
}

static bool is_known(const struct index_header *header)
{
	return header->version == 1 &&
	       header->pointer_encoding == (DW_EH_PE_pcrel | DW_EH_PE_sdata4) &&
	       header->count_encoding == DW_EH_PE_udata4 &&
	       header->table_encoding == (DW_EH_PE_datarel | DW_EH_PE_sdata4) && header->count &&
	       header->count <= ENTRIES_MAX;
}

int frame_index_read(struct frame_index *index, Elf *elf, const struct elf_memory *memory)
{
	struct index_header header;
	size_t size;

	*index = (struct frame_index){.memory = memory};
	if (!find_frames(elf, &index->vaddr) ||
	    !elf_memory_read(memory, index->vaddr, &header, sizeof(header)) || !is_known(&header))
		return 0;
	size = header.count * sizeof(*index->entries);
	if (size > elf_memory_left(memory, index->vaddr + sizeof(header)))
		return 0;
	index->entries = malloc(size);
	if (!index->entries)
		return -ENOMEM;
	if (elf_memory_read(memory, index->vaddr + sizeof(header), index->entries, size))
		index->count = header.count;
	for (size_t i = 1; i < index->count; i++) {
		if (index->entries[i].start < index->entries[i - 1].start)
			index->count = 0; /* not sorted: broken */
	}
	return 0;
}

void frame_index_clear(struct frame_index *index)
{
	free(index->entries);
	*index = (struct frame_index){0};
}

static uint64_t start_of(const struct frame_index *index, size_t entry)
{
	return index->vaddr + (uint64_t)(int64_t)index->entries[entry].start;
}

/* Returns the end of the function of an entry, or its start if its encoding is another one. */
static uint64_t frame_index_end_of(const struct frame_index *index, size_t entry)
{
	const uint64_t start = start_of(index, entry),
		       at = index->vaddr + (uint64_t)(int64_t)index->entries[entry].description;
	struct {
		uint32_t size, cie;
		int32_t start; /* relative to its own address */
		uint32_t length;
	} description;

	if (!elf_memory_read(index->memory, at, &description, sizeof(description)) ||
	    description.size == UINT32_MAX ||
	    at + 8 + (uint64_t)(int64_t)description.start != start)
		return start;
	return start + description.length;
}

/* Returns the number of entries that begin at an address or before it. */
static size_t frame_index_count_until(const struct frame_index *index, uint64_t vaddr)
{
	size_t low = 0, high = index->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (start_of(index, middle) <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t frame_index_end(const struct frame_index *index, uint64_t vaddr)
{
	const size_t count = frame_index_count_until(index, vaddr);
	const uint64_t end = count ? frame_index_end_of(index, count - 1) : 0;

	if (end > vaddr)
		return end;
	return count < index->count ? start_of(index, count) : UINT64_MAX;
}

bool frame_index_range(const struct frame_index *index, uint64_t vaddr, uint64_t *start,
		       uint64_t *end)
{
	const size_t count = frame_index_count_until(index, vaddr);

	*start = count ? start_of(index, count - 1) : 0;
	*end = count ? frame_index_end_of(index, count - 1) : 0;
	return *end > vaddr;
}
