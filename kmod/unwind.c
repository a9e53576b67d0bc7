// SPDX-License-Identifier: GPL-2.0
#include <linux/bitops.h>
#include <linux/nospec.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <asm/unwind.h>

#include "stackbeat.h"
#include "unwind.h"

#if !defined(CONFIG_X86_64) || !defined(CONFIG_UNWINDER_ORC)
#error "stackbeat walks stacks on x86-64 with the ORC unwinder only"
#endif

/* Two instructions a frame; the reader mixes what comes out of it. */
static __always_inline u64 sb_hash(u64 hash, u64 address)
{
	return rol64(hash, 7) + address;
}

u32 sb_unwind_kernel(struct pt_regs *regs, u64 *frames, u32 max, u8 *end, u64 *hash)
{
	struct unwind_state state;
	u64 sum = sb_hash(*hash, regs->ip);
	u32 count = 0;

	/* The unwinder begins with the caller of the interrupted function. */
	frames[count++] = regs->ip;

	*end = STACKBEAT_END_ROOT;
	for (unwind_start(&state, current, regs, NULL); !unwind_done(&state);
	     unwind_next_frame(&state)) {
		/*
		 * unwind_get_return_address() looks for the address in the
		 * kernel's text, and in all modules and generated code, to say
		 * the same again: the unwinder has just found its tables by it,
		 * or has an error.
		 */
		if (unlikely((long)state.ip >= 0))
			break;
		if (count == max) {
			*end = STACKBEAT_END_DEPTH;
			break;
		}
		frames[count++] = state.ip;
		sum = sb_hash(sum, state.ip);
	}
	if (unwind_error(&state))
		*end = STACKBEAT_END_FRAME;
	*hash = sum;
	return count;
}

/*
 * Reads user memory, inside the window of access of sb_walk_user() alone. The
 * address may be anything: what is not below `limit` is refused, also under
 * speculation, since the next address depends on what was read here.
 */
#define sb_read_user(value, type, address, limit, error_label)                 \
	do {                                                                   \
		unsigned long __at = (address);                                \
									       \
		if (unlikely(__at >= (limit)))                                 \
			goto error_label;                                      \
		__at &= array_index_mask_nospec(__at, limit);                  \
		unsafe_get_user(value, (type __user *)__at, error_label);      \
	} while (0)

/*
 * An address that code can return to. Neither page 0 nor the kernel's half is
 * one; a frame that says so is not a frame.
 */
static __always_inline bool sb_is_user_code(unsigned long address)
{
	return address - PAGE_SIZE < TASK_SIZE_MAX - PAGE_SIZE;
}

#define SB_CODE_RET 0xc3u
#define SB_CODE_RET_POP 0xc2u			/* ret imm16 */
#define SB_CODE_REP_RET 0xc3f3u
#define SB_CODE_PUSH_BP 0x55u
#define SB_CODE_ENDBR64 0xfa1e0ff3u
#define SB_CODE_ENDBR32 0xfb1e0ff3u
#define SB_CODE_MOV_SP_BP_64 0xe58948u		/* mov %rsp,%rbp */
#define SB_CODE_PROLOGUE_64 0xe5894855u		/* push %rbp; mov %rsp,%rbp */
#define SB_CODE_MOV_SP_BP_32 0xe589u		/* mov %esp,%ebp */
#define SB_CODE_PROLOGUE_32 0xe58955u		/* push %ebp; mov %esp,%ebp */

static __always_inline bool sb_is_prologue(u32 code, const bool compat)
{
	return compat ? (code & 0xffffff) == SB_CODE_PROLOGUE_32 :
			code == SB_CODE_PROLOGUE_64;
}

static __always_inline bool sb_is_mov_sp_bp(u32 code, const bool compat)
{
	return compat ? (code & 0xffff) == SB_CODE_MOV_SP_BP_32 :
			(code & 0xffffff) == SB_CODE_MOV_SP_BP_64;
}

static __always_inline bool sb_is_ret(u32 code)
{
	return (code & 0xff) == SB_CODE_RET || (code & 0xff) == SB_CODE_RET_POP ||
	       (code & 0xffff) == SB_CODE_REP_RET;
}

/*
 * What the first byte of an instruction says: most are none of those at which
 * the caller is not in the frame chain yet, or not any more.
 */
static __always_inline bool sb_may_lack_frame(u32 code)
{
	switch (code & 0xff) {
	case SB_CODE_RET:
	case SB_CODE_RET_POP:
	case SB_CODE_REP_RET & 0xff: /* also endbr */
	case SB_CODE_PUSH_BP:
	case SB_CODE_MOV_SP_BP_64 & 0xff:
	case SB_CODE_MOV_SP_BP_32 & 0xff:
		return true;
	default:
		return false;
	}
}

/*
 * In the fast path of a walk the next frame is less than SB_STRIDE above, and a
 * round takes SB_ROUND frames. SB_STRIDE_BITS are those that may differ.
 */
#define SB_STRIDE (1ul << 20)
#define SB_STRIDE_BITS (SB_STRIDE - sizeof(u64))
#define SB_ROUND 8u

/*
 * One frame of the fast path, the n-th of a round: 13 instructions. The chain goes up by less than
 * SB_STRIDE, in whole words: one test of the distance refuses all else, but for a
 * frame that is its own caller, which the round notices. Anything out of the
 * ordinary is left to the careful path. The mask is against speculation: what is
 * read lies in the user's half whatever is predicted.
 */
#define sb_fast_frame(n)                                                       \
	do {                                                                   \
		fp &= user_mask;                                               \
		unsafe_get_user(next, (u64 __user *)fp, unreadable_##n);       \
		unsafe_get_user(address, (u64 __user *)fp + 1,                 \
				unreadable_##n);                               \
		if (unlikely(((next - fp) & ~SB_STRIDE_BITS) ||                \
			     address - PAGE_SIZE >= code_limit))               \
			goto careful_##n;                                      \
		to[n] = address;                                               \
		hash = sb_hash(hash, address);                                 \
		fp = next;                                                     \
	} while (0)

/*
 * Where the n-th frame of a round was not taken; those before it were. It is read again:
 * to keep what was read would be two more instructions in each frame.
 */
#define sb_leave_round(n)                                                      \
	unreadable_##n:                                                        \
	careful_##n:                                                           \
		to++

/*
 * One walk, compiled for 64-bit and for 32-bit programs: in both a frame is the
 * caller's frame pointer and, above it, the return address. All of it happens in
 * one window of access to user memory; no call is allowed inside. In hard interrupt
 * context a fault goes to the exception table, never to the memory manager.
 */
static __always_inline u32 sb_walk_user(const struct pt_regs *regs, u64 *frames,
					u64 *to_end, u8 *end, u64 *stack_hash,
					const bool compat)
{
	const u32 word = compat ? sizeof(u32) : sizeof(u64);
	unsigned long user_mask = TASK_SIZE_MAX | (PAGE_SIZE - 1);
	unsigned long fp = compat ? (u32)regs->bp : regs->bp;
	unsigned long sp = compat ? (u32)regs->sp : regs->sp;
	unsigned long next, address, caller = 0;
	unsigned long limit = TASK_SIZE_MAX - sizeof(u64);
	unsigned long chain_limit = TASK_SIZE_MAX - PAGE_SIZE - 2 * sizeof(u64);
	unsigned long fast_limit = TASK_SIZE_MAX - (SB_ROUND + 1) * SB_STRIDE;
	unsigned long code_limit = TASK_SIZE_MAX - PAGE_SIZE, round;
	u64 round_hash, hash = sb_hash(*stack_hash, regs->ip);
	u64 *to = frames;
	u32 hops = 0, code, following;
	u8 before;

#define sb_read_word(value, at, error_label)                                   \
	do {                                                                   \
		if (compat)                                                    \
			sb_read_user(value, u32, at, limit, error_label);      \
		else                                                           \
			sb_read_user(value, u64, at, limit, error_label);      \
	} while (0)

	/* As a constant it is too large for an instruction of 5.10's masking. */
	OPTIMIZER_HIDE_VAR(limit);
	*to++ = regs->ip;
	*end = STACKBEAT_END_ROOT;

	__uaccess_begin_nospec();

	sb_read_user(code, u32, regs->ip, limit, frame_chain);
	if (likely(!sb_may_lack_frame(code)))
		goto frame_chain;
	if (sb_is_ret(code) || sb_is_prologue(code, compat)) {
		sb_read_word(caller, sp, frame_chain);
	} else if (code == (compat ? SB_CODE_ENDBR32 : SB_CODE_ENDBR64)) {
		sb_read_user(following, u32, regs->ip + 4, limit, frame_chain);
		if (sb_is_prologue(following, compat))
			sb_read_word(caller, sp, frame_chain);
	} else if (sb_is_mov_sp_bp(code, compat)) {
		sb_read_user(before, u8, regs->ip - 1, limit, frame_chain);
		if (before == SB_CODE_PUSH_BP)
			sb_read_word(caller, sp + word, frame_chain);
	}
	if (sb_is_user_code(caller) && to < to_end) {
		*to++ = caller;
		hash = sb_hash(hash, caller);
	}

frame_chain:
	if (!compat && fp >= PAGE_SIZE && !(fp & (word - 1))) {
		/* In registers: constants of 64 bits would be loaded again and again. */
		OPTIMIZER_HIDE_VAR(user_mask);
		OPTIMIZER_HIDE_VAR(code_limit);
		for (;;) {
			if (fp >= fast_limit || to + SB_ROUND > to_end)
				goto careful_0;
			round = fp;
			round_hash = hash;
			sb_fast_frame(0);
			sb_fast_frame(1);
			sb_fast_frame(2);
			sb_fast_frame(3);
			sb_fast_frame(4);
			sb_fast_frame(5);
			sb_fast_frame(6);
			sb_fast_frame(7);
			/* Its own caller: the careful path says how often. */
			if (unlikely(fp == round)) {
				hash = round_hash;
				goto careful_0;
			}
			to += SB_ROUND;
		}
	}
	goto careful_0;

	sb_leave_round(7);
	sb_leave_round(6);
	sb_leave_round(5);
	sb_leave_round(4);
	sb_leave_round(3);
	sb_leave_round(2);
	sb_leave_round(1);
unreadable_0:
careful_0:
	while (fp) {
		if (unlikely(fp - PAGE_SIZE >= chain_limit || (fp & (word - 1)))) {
			*end = fp & (word - 1) || !sb_is_user_code(fp) ?
				STACKBEAT_END_FRAME : STACKBEAT_END_MEMORY;
			break;
		}
		sb_read_word(next, fp, unreadable);
		sb_read_word(address, fp + word, unreadable);
		if (!address)
			break;
		if (unlikely(!sb_is_user_code(address))) {
			*end = STACKBEAT_END_FRAME;
			break;
		}
		if (unlikely(to == to_end)) {
			*end = STACKBEAT_END_DEPTH;
			break;
		}
		*to++ = address;
		hash = sb_hash(hash, address);
		if (unlikely(next <= fp) && next && ++hops > STACKBEAT_STACK_HOPS_MAX) {
			*end = STACKBEAT_END_FRAME;
			break;
		}
		fp = next;
	}
	goto out;

unreadable:
	*end = STACKBEAT_END_MEMORY;
out:
	__uaccess_end();
	*stack_hash = hash;
	return to - frames;
#undef sb_read_word
}

u32 sb_unwind_user(const struct pt_regs *regs, u64 *frames, u64 *frames_end, u8 *end,
		   u64 *hash)
{
	return sb_walk_user(regs, frames, frames_end, end, hash, false);
}

u32 sb_unwind_user32(const struct pt_regs *regs, u64 *frames, u64 *frames_end, u8 *end,
		     u64 *hash)
{
	return sb_walk_user(regs, frames, frames_end, end, hash, true);
}
