// SPDX-License-Identifier: GPL-2.0
/*
 * The ELF parser of the kernel module, compiled for user space. The first 8 bytes are an offset to
 * look up. The number of reads must be bounded for any file.
 */
#include "fuzz.h"

/* Must precede the system header of the same name. */
#include "../../kmod/elf.h"

#include "../../kmod/elf.c"

/* Reads per note: header, name, contents. */
#define READS_MAX (1 + SB_ELF_HEADERS_MAX + 3 * SB_ELF_NOTE_COUNT_MAX)

struct input {
	const uint8_t *data;
	size_t size;
	size_t reads;
};

static bool read_file(void *arg, u64 offset, void *to, size_t size)
{
	struct input *file = arg;

	if (++file->reads > READS_MAX)
		abort();
	if (offset > file->size || size > file->size - offset)
		return false;
	memcpy(to, file->data + offset, size);
	return true;
}

static void check(const struct sb_elf *elf)
{
	if (elf->build_id_size > sizeof(elf->build_id) || elf->segment_count > SB_ELF_SEGMENTS_MAX)
		abort();
	/* The kernel sends all bytes of it: none may be uninitialized. */
	for (u32 i = elf->build_id_size; i < sizeof(elf->build_id); i++) {
		if (elf->build_id[i])
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input file = {0};
	struct sb_elf elf;
	u64 offset, vaddr;

	if (size < sizeof(offset))
		return 0;
	file.data = data + sizeof(offset);
	file.size = size - sizeof(offset);
	memcpy(&offset, data, sizeof(offset));
	memset(&elf, 0xaa, sizeof(elf));
	sb_elf_read(read_file, &file, &elf);
	check(&elf);
	sb_elf_vaddr(&elf, offset, &vaddr);
	return 0;
}
