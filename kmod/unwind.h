/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walks the stacks of the interrupted context, in hard interrupt context, into
 * memory that the caller owns. Nothing here locks, allocates, faults or sleeps.
 */
#ifndef STACKBEAT_UNWIND_H
#define STACKBEAT_UNWIND_H

#include <linux/types.h>

struct pt_regs;

/*
 * The shape of a stack: how long both parts are, and how they ended (enum stackbeat_unwind_stop),
 * as the word that holds it in a record, kernel_frames to user_stop. Shapes of the two
 * parts are added up.
 */
#define SB_SHAPE_KERNEL(frames, end) ((u64)(frames) | (u64)(end) << 32)
#define SB_SHAPE_USER(frames, end) ((u64)(frames) << 16 | (u64)(end) << 40)
#define SB_SHAPE_KERNEL_FRAMES(shape) ((u16)(shape))
#define SB_SHAPE_USER_FRAMES(shape) ((u32)(shape) >> 16)

/*
 * The kernel part: regs are those of the interrupted kernel code. Writes up to
 * `max` (at least 1) addresses, leaf first, and adds them to the hash. Returns its shape.
 */
u64 sb_unwind_kernel(struct pt_regs *regs, u64 *frames, u32 max, u64 *hash);

/*
 * The user part of the current task, which must have user memory: regs are those with
 * which it entered the kernel. Writes addresses up to `frames_end`, but at least one; else
 * as above.
 *
 * Follows frame pointers; where the interrupted instruction belongs to a prologue or is a
 * return, the caller, whom the frame pointer does not know yet or any more, is taken from
 * the stack pointer.
 *
 * They are not compiled into the beat: there its loop would have too few registers.
 */
u64 sb_unwind_user(const struct pt_regs *regs, u64 *frames, u64 *frames_end, u64 *hash);
/* That of 32-bit programs. */
u64 sb_unwind_user32(const struct pt_regs *regs, u64 *frames, u64 *frames_end, u64 *hash);

#endif
