// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/elf_memory.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file beyond this is broken or malicious. */
#define PROGRAM_HEADERS_MAX 4096u

int elf_memory_open(struct elf_memory *memory, Elf *elf, int fd, const void *image, size_t size)
{
	GElf_Phdr header;
	size_t count;

	*memory = (struct elf_memory){.fd = fd, .image = image, .size = size};
	if (elf_getphdrnum(elf, &count) || !count || count > PROGRAM_HEADERS_MAX)
		return 0;
	memory->loads = calloc(count, sizeof(*memory->loads));
	if (!memory->loads)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD)
			continue;
		memory->loads[memory->load_count++] = (struct elf_load){
			.vaddr = header.p_vaddr,
			.offset = header.p_offset,
			.size = header.p_filesz,
			.is_code = header.p_flags & PF_X,
		};
	}
	return 0;
}

void elf_memory_clear(struct elf_memory *memory)
{
	free(memory->loads);
	*memory = (struct elf_memory){.fd = -1};
}

static const struct elf_load *find_load(const struct elf_memory *memory, uint64_t vaddr)
{
	for (size_t i = 0; i < memory->load_count; i++) {
		if (vaddr - memory->loads[i].vaddr < memory->loads[i].size)
			return &memory->loads[i];
	}
	return NULL;
}

uint64_t elf_memory_left(const struct elf_memory *memory, uint64_t vaddr)
{
	const struct elf_load *load = find_load(memory, vaddr);

	return load ? load->size - (vaddr - load->vaddr) : 0;
}

static bool read_at(const struct elf_memory *memory, uint64_t offset, void *bytes, size_t size)
{
	char *at = bytes;

	if (memory->image) {
		if (offset > memory->size || size > memory->size - offset)
			return false;
		memcpy(bytes, (const char *)memory->image + offset, size);
		return true;
	}
	while (size && offset <= INT64_MAX) {
		ssize_t got = TEMP_FAILURE_RETRY(pread(memory->fd, at, size, (off_t)offset));

		if (got <= 0)
			return false;
		at += got;
		offset += (uint64_t)got;
		size -= (size_t)got;
	}
	return !size;
}

bool elf_memory_read(const struct elf_memory *memory, uint64_t vaddr, void *bytes, size_t size)
{
	const struct elf_load *load = find_load(memory, vaddr);

	return load && size <= elf_memory_left(memory, vaddr) &&
	       load->offset <= UINT64_MAX - load->size &&
	       read_at(memory, load->offset + (vaddr - load->vaddr), bytes, size);
}

void *elf_memory_copy(const struct elf_memory *memory, uint64_t vaddr, size_t size)
{
	void *bytes = size && size <= elf_memory_left(memory, vaddr) ? malloc(size) : NULL;

	if (bytes && !elf_memory_read(memory, vaddr, bytes, size)) {
		free(bytes);
		bytes = NULL;
	}
	return bytes;
}
