/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a mapped file says of itself: its GNU build id and where its code is to
 * be loaded. The file is not trusted: every length and count has a limit, and
 * what is read twice may have changed.
 */
#ifndef STACKBEAT_ELF_H
#define STACKBEAT_ELF_H

#include <linux/types.h>

#include "stackbeat.h"

#define SB_ELF_HEADERS_MAX 64u	/* program headers that are looked at */
#define SB_ELF_SEGMENTS_MAX 8u	/* executable ones that are kept */
#define SB_ELF_NOTES_MAX 4096u	/* bytes of a note segment that are looked at */
#define SB_ELF_NOTE_COUNT_MAX 256u	/* notes of a file that are looked at */

struct sb_elf {
	u32 segment_count;
	u32 build_id_size;	/* 0: none was found */
	u8 build_id[STACKBEAT_BUILD_ID_MAX];
	struct sb_elf_segment {
		u64 offset, size;	/* in the file */
		u64 vaddr;
	} segments[SB_ELF_SEGMENTS_MAX];
};

/*
 * Copies `size` bytes at `offset` of a file. False: they are not there, or can't
 * be had now; sb_elf_read() then keeps what it has.
 */
typedef bool sb_elf_read_fn(void *file, u64 offset, void *to, size_t size);

/*
 * Reads a file of either class and of this machine's byte order through `read`.
 * Returns 0, also for a file that is not ELF, which has no segments; -EAGAIN
 * when a read failed, or there are more notes than are looked at: the file may
 * have more than was found.
 */
int sb_elf_read(sb_elf_read_fn *read, void *file, struct sb_elf *elf);

/* The ELF virtual address of the byte at `offset` of the file; false: none. */
bool sb_elf_vaddr(const struct sb_elf *elf, u64 offset, u64 *vaddr);

#endif
