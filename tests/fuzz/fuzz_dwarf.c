// SPDX-License-Identifier: GPL-2.0
/*
 * DWARF: the input is an ELF file; if its size is odd, it is also the shared file of dwz. Its last
 * 8 bytes are an address to look up, in addition to the addresses of the seeds.
 */
#include "file.h"

#include "debuginfo/dwarf_lookup.h"
#include "lib/error.h"

#include <libelf.h>

#define TEXT 0x401000
#define TEXT_SIZE 256

static int see(void *arg, size_t index, const struct dwarf_frame *frames, size_t count)
{
	size_t *sum = arg;

	*sum += index;
	if (count > INLINE_DEPTH_MAX)
		abort();
	for (size_t at = 0; at < count; at++) {
		*sum += frames[at].name ? strlen(frames[at].name) : 0;
		*sum += frames[at].linkage_name ? strlen(frames[at].linkage_name) : 0;
		*sum += frames[at].file ? strlen(frames[at].file) : 0;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t addresses[TEXT_SIZE / 4 + 3] = {fuzz_last_number(data, size), 0, UINT64_MAX};
	struct dwarf_lookup *debuginfo;
	size_t sum = 0, count = 3;
	struct error error;
	/* A copy, aligned like a mapped file. */
	char *image = malloc(size + 1);
	Elf *elf;

	if (!image || elf_version(EV_CURRENT) == EV_NONE)
		abort();
	memcpy(image, data, size);
	elf = elf_memory(image, size);
	for (uint64_t at = 0; at < TEXT_SIZE; at += 4)
		addresses[count++] = TEXT + at;
	/* elf_begin_read() rejects all other files. */
	if (elf && elf_kind(elf) == ELF_K_ELF &&
	    dwarf_lookup_open(elf, size & 1 ? elf : NULL, NULL, &debuginfo, &error) == 0) {
		if (dwarf_lookup_each(debuginfo, addresses, count, see, &sum) != 0)
			abort();
		dwarf_lookup_close(debuginfo);
	}
	elf_end(elf);
	free(image);
	return 0;
}
