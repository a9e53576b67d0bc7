// SPDX-License-Identifier: GPL-2.0
/* ELF notes. The first byte of the input selects their alignment. */
#include "fuzz.h"

#include "debuginfo/elf_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char hex[BUILD_ID_SIZE];
	uint8_t *notes;

	if (size == 0)
		return 0;
	notes = malloc(size); /* one byte more than the notes: malloc(0) may return NULL */
	if (!notes)
		abort();
	memcpy(notes, data + 1, size - 1);
	memset(hex, 0xaa, sizeof(hex));
	if (build_id_from_notes(notes, size - 1, data[0] & 1 ? 8 : 4, hex) &&
	    strspn(hex, "0123456789abcdef") != strnlen(hex, sizeof(hex)))
		abort();
	free(notes);
	return 0;
}
