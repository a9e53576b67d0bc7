/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unwinds user stacks by unwind tables, in hard interrupt context. Nothing here locks, allocates,
 * faults or sleeps.
 */
#ifndef STACKBEAT_UNWIND_TABLES_H
#define STACKBEAT_UNWIND_TABLES_H

#include <linux/types.h>

struct pt_regs;
struct sb_unwind_maps;

/* The result of sb_unwind_user_tables() if the table of a mapping is not known. */
#define SB_UNWIND_TABLE_MISSING (~0ull)

/* In the shape of sb_unwind_user_tables(): the program may have goroutines. A kernel part has its frames there. */
#define SB_SHAPE_GO 1ull

/*
 * As sb_unwind_user(), for a 64-bit program with these mappings. The shape has the number of frames
 * found by tables, and SB_SHAPE_GO, too. SB_UNWIND_TABLE_MISSING: then *hash is unchanged, and the frames written are
 * to be replaced. Adds to *misses the rules that were not in the CPU's cache.
 */
u64 sb_unwind_user_tables(const struct pt_regs *regs, const struct sb_unwind_maps *maps,
			  u64 *frames, u64 *frames_end, u64 *hash, u64 *misses);

/*
 * As sb_goroutine_read(), for the goroutine that the current thread runs, right after its stack was
 * unwound by sb_unwind_user_tables() with SB_SHAPE_GO.
 */
u32 sb_unwind_goroutine(u32 wanted, u64 *words);

/* Copies the user registers, in the order of STACKBEAT_REGISTERS. */
void sb_user_registers(const struct pt_regs *regs, u64 *registers);

/* ENOMEM. */
int sb_unwind_tables_init(void);
void sb_unwind_tables_exit(void);

#endif
