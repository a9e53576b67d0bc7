/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads the GNU build ID and the executable segments of an ELF file. The file is not
 * trusted: every length and count has a limit, and data read twice may have changed.
 */
#ifndef STACKBEAT_ELF_H
#define STACKBEAT_ELF_H

#include <linux/types.h>

#include "stackbeat.h"

#define SB_ELF_HEADERS_MAX 64u	/* program headers that are read */
#define SB_ELF_SEGMENTS_MAX 8u	/* executable segments that are kept */
#define SB_ELF_NOTES_MAX 4096u	/* bytes of a note segment that are read */
#define SB_ELF_NOTE_COUNT_MAX 256u	/* notes of a file that are read */

struct sb_elf {
	u32 segment_count;
	u32 build_id_size;	/* bytes; 0: none found */
	u8 build_id[STACKBEAT_BUILD_ID_MAX];
	struct sb_elf_segment {
		u64 offset, size;	/* in the file */
		u64 vaddr;
	} segments[SB_ELF_SEGMENTS_MAX];
};

/*
 * Copies `size` bytes at `offset` of a file. False: they do not exist, or can't be read
 * now; sb_elf_read() then goes on without them.
 */
typedef bool sb_elf_read_fn(void *file, u64 offset, void *to, size_t size);

/*
 * Reads a file of either ELF class and of this machine's byte order with `read`.
 * Returns 0, also for a file that is not ELF, which has no segments. EAGAIN: a read
 * failed, or the file has more notes than are read: the result may be incomplete.
 */
int sb_elf_read(sb_elf_read_fn *read, void *file, struct sb_elf *elf);

/* Sets the ELF virtual address of the byte at `offset` of the file. False: it has none. */
bool sb_elf_vaddr(const struct sb_elf *elf, u64 offset, u64 *vaddr);

#endif
