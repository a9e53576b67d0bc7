// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/elf_dynamic.h"

#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/param.h>

#include "debuginfo/elf_memory.h"

/* Files beyond these limits are broken or malicious. */
#define TAGS_MAX 4096u
#define BUCKETS_MAX (1u << 22)

/* Values of tags; 0: there is none. */
struct tags {
	uint64_t symbols, names, names_size, hash, gnu_hash;
};

static void set_tag(struct tags *tags, const Elf64_Dyn *entry)
{
	switch (entry->d_tag) {
	case DT_SYMTAB:
		tags->symbols = entry->d_un.d_ptr;
		break;
	case DT_STRTAB:
		tags->names = entry->d_un.d_ptr;
		break;
	case DT_STRSZ:
		tags->names_size = entry->d_un.d_val;
		break;
	case DT_HASH:
		tags->hash = entry->d_un.d_ptr;
		break;
	case DT_GNU_HASH:
		tags->gnu_hash = entry->d_un.d_ptr;
		break;
	default:
		break;
	}
}

static bool read_tags(Elf *elf, const struct elf_memory *memory, struct tags *tags)
{
	GElf_Phdr header;
	Elf64_Dyn entry;
	size_t count;

	if (gelf_getclass(elf) != ELFCLASS64 || elf_getphdrnum(elf, &count))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_DYNAMIC)
			continue;
		for (uint64_t at = 0; at < TAGS_MAX; at++) {
			if (!elf_memory_read(memory, header.p_vaddr + at * sizeof(entry), &entry,
					     sizeof(entry)) ||
			    entry.d_tag == DT_NULL)
				break;
			set_tag(tags, &entry);
		}
		return tags->symbols && tags->names && tags->names_size;
	}
	return false;
}

static size_t count_by_hash(const struct elf_memory *memory, uint64_t hash)
{
	uint32_t header[2]; /* buckets, symbols */

	return elf_memory_read(memory, hash, header, sizeof(header)) ? header[1] : 0;
}

/* The symbols of a bucket follow each other, and the last one of the last bucket ends the table. */
static size_t count_by_gnu_hash(const struct elf_memory *memory, uint64_t hash, size_t most)
{
	uint32_t header[4]; /* buckets, first symbol, words of the filter, its shift */
	uint64_t buckets, chains;
	uint32_t *list, last = 0, value;

	if (!elf_memory_read(memory, hash, header, sizeof(header)) || header[0] > BUCKETS_MAX)
		return 0;
	buckets = hash + sizeof(header) + header[2] * sizeof(uint64_t);
	chains = buckets + header[0] * sizeof(uint32_t);
	list = elf_memory_copy(memory, buckets, header[0] * sizeof(uint32_t));
	for (uint32_t i = 0; list && i < header[0]; i++)
		last = MAX(last, list[i]);
	free(list);
	if (last < header[1])
		return header[1];
	for (; last < most; last++) {
		if (!elf_memory_read(memory, chains + (last - header[1]) * sizeof(value), &value,
				     sizeof(value)))
			return 0;
		if (value & 1)
			return last + 1;
	}
	return 0;
}

int elf_dynamic_read(Elf *elf, const struct elf_memory *memory, size_t symbols_max,
		     size_t names_max, struct elf_dynamic *dynamic)
{
	struct tags tags = {0};
	size_t count = 0;

	*dynamic = (struct elf_dynamic){0};
	if (!read_tags(elf, memory, &tags))
		return -ENOENT;
	if (tags.hash)
		count = count_by_hash(memory, tags.hash);
	if (!count && tags.gnu_hash)
		count = count_by_gnu_hash(memory, tags.gnu_hash, symbols_max);
	if (!count || count > symbols_max || tags.names_size > names_max)
		return -ENOENT;
	dynamic->symbols = elf_memory_copy(memory, tags.symbols, count * sizeof(Elf64_Sym));
	dynamic->symbol_count = count;
	dynamic->names = elf_memory_copy(memory, tags.names, tags.names_size);
	dynamic->names_size = tags.names_size;
	if (dynamic->symbols && dynamic->names)
		return 0;
	elf_dynamic_clear(dynamic);
	return -ENOENT;
}

void elf_dynamic_clear(struct elf_dynamic *dynamic)
{
	free(dynamic->symbols);
	free(dynamic->names);
	*dynamic = (struct elf_dynamic){0};
}
