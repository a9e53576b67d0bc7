// SPDX-License-Identifier: GPL-2.0
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

u32 sb_unwind_kernel(struct pt_regs *regs, u64 *frames, u32 max, u8 *end)
{
	struct unwind_state state;
	unsigned long address;
	u32 count = 0;

	/* The unwinder begins with the caller of the interrupted function. */
	frames[count++] = regs->ip;

	*end = STACKBEAT_END_ROOT;
	for (unwind_start(&state, current, regs, NULL); !unwind_done(&state);
	     unwind_next_frame(&state)) {
		address = unwind_get_return_address(&state);
		if (!address)
			break;
		if (count == max) {
			*end = STACKBEAT_END_DEPTH;
			return count;
		}
		frames[count++] = address;
	}
	if (unwind_error(&state))
		*end = STACKBEAT_END_FRAME;
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
 * One walk, compiled for 64-bit and for 32-bit programs: in both a frame is the
 * caller's frame pointer and, above it, the return address. All of it happens in
 * one window of access to user memory; no call is allowed inside.
 */
static __always_inline u32 sb_walk_user(const struct pt_regs *regs, u64 *frames,
					u32 max, u8 *end, const bool compat)
{
	const u32 word = compat ? sizeof(u32) : sizeof(u64);
	unsigned long fp = compat ? (u32)regs->bp : regs->bp;
	unsigned long sp = compat ? (u32)regs->sp : regs->sp;
	unsigned long at, next, address, caller = 0;
	unsigned long limit = TASK_SIZE_MAX - sizeof(u64);
	unsigned long chain_limit = TASK_SIZE_MAX - PAGE_SIZE - 2 * sizeof(u64);
	u32 count = 0, hops = 0, code, following;
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
	OPTIMIZER_HIDE_VAR(chain_limit);
	frames[count++] = regs->ip;
	*end = STACKBEAT_END_ROOT;

	/*
	 * In hard interrupt context a fault goes to the exception table, never
	 * to the memory manager.
	 */
	pagefault_disable();
	__uaccess_begin_nospec();

	sb_read_user(code, u32, regs->ip, limit, frame_chain);
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
	if (sb_is_user_code(caller) && count < max)
		frames[count++] = caller;

frame_chain:
	/*
	 * The path of a frame in order is straight, 20 instructions or so: one
	 * check each for both words of the frame and for the address. What they
	 * refuse is looked at outside.
	 */
	for (;;) {
		at = fp - PAGE_SIZE;
		if (unlikely(at >= chain_limit || (fp & (word - 1))))
			break;
		at &= array_index_mask_nospec(at, chain_limit);
		at += PAGE_SIZE;
		if (compat) {
			unsafe_get_user(next, (u32 __user *)at, unreadable);
			unsafe_get_user(address, (u32 __user *)at + 1, unreadable);
		} else {
			unsafe_get_user(next, (u64 __user *)at, unreadable);
			unsafe_get_user(address, (u64 __user *)at + 1, unreadable);
		}
		if (unlikely(!sb_is_user_code(address)))
			goto not_code;
		if (unlikely(count == max)) {
			*end = STACKBEAT_END_DEPTH;
			goto out;
		}
		frames[count++] = address;
		if (unlikely(next <= fp) && next && ++hops > STACKBEAT_STACK_HOPS_MAX) {
			*end = STACKBEAT_END_FRAME;
			goto out;
		}
		fp = next;
	}
	if (fp)
		*end = fp & (word - 1) || !sb_is_user_code(fp) ? STACKBEAT_END_FRAME :
								STACKBEAT_END_MEMORY;
	goto out;

not_code:
	if (address)
		*end = STACKBEAT_END_FRAME;
	goto out;

unreadable:
	*end = STACKBEAT_END_MEMORY;
out:
	__uaccess_end();
	pagefault_enable();
	return count;
#undef sb_read_word
}

u32 sb_unwind_user(const struct pt_regs *regs, u64 *frames, u32 max, u8 *end)
{
	if (likely(user_64bit_mode((struct pt_regs *)regs)))
		return sb_walk_user(regs, frames, max, end, false);
	return sb_walk_user(regs, frames, max, end, true);
}
