// SPDX-License-Identifier: GPL-2.0
/*
 * What the module reads of ELF files, as it is compiled into it. The first 8 bytes are an offset to
 * look up. Whatever the file, it is read only so often.
 */
#include "fuzz.h"

/* Before the system's header of that name. */
#include "../../kmod/elf.h"

#include "../../kmod/elf.c"

/* Of each note: what it is, its name, its contents. */
#define READS_MAX (1 + SB_ELF_HEADERS_MAX + 3 * SB_ELF_NOTE_COUNT_MAX)

struct atomic_file {
	const uint8_t *data;
	size_t size;
	size_t reads;
};

static bool read_file(void *arg, u64 offset, void *to, size_t size)
{
	struct atomic_file *file = arg;

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
	/* All of it is told. */
	for (u32 i = elf->build_id_size; i < sizeof(elf->build_id); i++) {
		if (elf->build_id[i])
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct atomic_file file = {0};
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
