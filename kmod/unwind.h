/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unwinds the stacks of the interrupted context, in hard interrupt context, into
 * memory of the caller. Nothing here locks, allocates, faults or sleeps.
 */
#ifndef STACKBEAT_UNWIND_H
#define STACKBEAT_UNWIND_H

#include <linux/types.h>

struct pt_regs;

/*
 * The shape of a stack: number of frames and enum stackbeat_unwind_stop of both parts, as one
 * word with the layout of a sample's fields kernel_frames to table_frames. The shapes of the two
 * parts are combined by OR.
 */
#define SB_SHAPE_KERNEL(frames, stop) ((u64)(frames) | (u64)(stop) << 32)
#define SB_SHAPE_USER(frames, stop) ((u64)(frames) << 16 | (u64)(stop) << 40)
#define SB_SHAPE_TABLE_FRAMES(frames) ((u64)(frames) << 48)
#define SB_SHAPE_KERNEL_FRAMES(shape) ((u16)(shape))
#define SB_SHAPE_USER_FRAMES(shape) ((u32)(shape) >> 16)
#define SB_SHAPE_COUNT_TABLE_FRAMES(shape) ((shape) >> 48)

/*
 * Unwinds the kernel part: regs belong to the interrupted kernel code. Writes up to
 * `max` (at least 1) addresses, leaf first, and adds them to the hash. Returns the shape.
 */
u64 sb_unwind_kernel(struct pt_regs *regs, u64 *frames, u32 max, u64 *hash);

/*
 * Unwinds the user part of the current task, which must have user memory: regs are those with
 * which it entered the kernel. Writes addresses up to `frames_end`, but at least one;
 * otherwise as above.
 *
 * Follows frame pointers. If the interrupted instruction is in a prologue or is a return, the
 * caller is missing in the chain of frame pointers, and is read at the stack pointer.
 *
 * Not inlined into the timer callback, where the loop would have too few registers.
 */
u64 sb_unwind_user(const struct pt_regs *regs, u64 *frames, u64 *frames_end, u64 *hash);
/* The same, with the original return addresses where uretprobes have replaced them. */
u64 sb_unwind_user_restored(const struct pt_regs *regs, u64 *frames, u64 *frames_end, u64 *hash);
/* The same for 32-bit programs. */
u64 sb_unwind_user32(const struct pt_regs *regs, u64 *frames, u64 *frames_end, u64 *hash);

/*
 * Returns the size of the frame of a 64-bit function that is interrupted at the address `ip`, where it
 * has not set the frame pointer yet, or no longer: bytes from the stack pointer to the caller's.
 * 0: the frame pointer belongs to the function, or the code can't be read.
 */
u32 sb_unwind_leaf_size(unsigned long ip);

#endif
