// SPDX-License-Identifier: GPL-2.0
#include <linux/bitops.h>
#include <linux/nospec.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <asm/alternative.h>
#include <asm/cpufeatures.h>
#include <asm/unwind.h>

#include "compat/compat.h"
#include "stackbeat.h"
#include "unwind.h"
#include "unwind_user.h"
#include "uretprobe.h"

#if !defined(CONFIG_X86_64) || !defined(CONFIG_UNWINDER_ORC)
#error "stackbeat needs x86-64 and the ORC unwinder"
#endif

/*
 * Truncates a stack after an unwinding error, at its first frame that is no address of kernel
 * text, of a module or of generated code. For an unknown address the unwinder guesses, and its
 * return addresses may be any words of the stack.
 */
static noinline u64 sb_unwind_truncate(u64 *frames, u32 count, u64 *hash)
{
	struct unwind_state state = { .stack_info.type = STACK_TYPE_TASK };
	u64 sum = sb_hash(*hash, frames[0]);
	u32 i;

	for (i = 1; i < count; i++) {
		state.ip = frames[i];
		if (!unwind_get_return_address(&state))
			break;
		sum = sb_hash(sum, frames[i]);
	}
	/* Words that are no code addresses must not leak: the ring is mapped. */
	memset(frames + i, 0, (count - i) * sizeof(*frames));
	*hash = sum;
	return SB_SHAPE_KERNEL(i, STACKBEAT_STOP_BAD_FRAME);
}

u64 sb_unwind_kernel(struct pt_regs *regs, u64 *frames, u32 max, u64 *hash)
{
	struct unwind_state state __uninitialized; /* unwind_start() zeroes it */
	const unsigned long entry = (unsigned long)task_pt_regs(current);
	u64 sum = sb_hash(*hash, regs->ip), address;
	u32 count = 0;
	u64 stop = SB_SHAPE_KERNEL(0, STACKBEAT_STOP_OUTERMOST);

	/* The unwinder starts with the caller of the interrupted function. */
	frames[count++] = regs->ip;

	for (unwind_start(&state, current, regs, (unsigned long *)regs->sp); !unwind_done(&state);
	     unwind_next_frame(&state)) {
		/*
		 * unwind_get_return_address() is not called for each frame: it searches
		 * kernel text, all modules and generated code for the address. So does
		 * the unwinder in the next step, which fails if the address is in none of
		 * them.
		 */
		if (unlikely((long)state.ip >= 0)) {
			/* User registers at the kernel's entry end a stack. */
			if (unlikely(!state.regs || !user_mode(state.regs)))
				return sb_unwind_truncate(frames, count, hash);
			break;
		}
		if (count == max) {
			stop = SB_SHAPE_KERNEL(0, STACKBEAT_STOP_MAX_DEPTH);
			break;
		}
		/* An interrupted instruction may be the first of its function. */
		address = state.ip + state.signal;
		frames[count++] = address;
		sum = sb_hash(sum, address);
		/* The unwinder would find the same, after a table lookup for the last frame. */
		if (state.sp == entry)
			break;
	}
	if (unlikely(unwind_error(&state)))
		return sb_unwind_truncate(frames, count, hash);
	*hash = sum;
	return count | stop;
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
 * Whether, by the first byte of the instruction, the caller may be missing in the frame chain:
 * in a prologue or at a return. This is false for most instructions.
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
 * In the fast path of a walk the next frame is less than SB_STRIDE above the current one, and a
 * round reads SB_ROUND frames. SB_STRIDE_BITS are the bits of the distance that may be set.
 */
#define SB_STRIDE (1ul << 20)
#define SB_STRIDE_BITS (SB_STRIDE - sizeof(u64))
#define SB_ROUND 16u

/* How a round ended. */
#define SB_LEFT 0u		/* at a frame that does not qualify */
#define SB_UNREADABLE 1u	/* at an unreadable frame */
#define SB_WHOLE 2u		/* after all frames */

/*
 * One frame of the fast path, the n-th of a round: 11 instructions. The chain ascends by less
 * than SB_STRIDE, in whole words: one test of the distance, in `next`, refuses everything
 * else, except a frame that is its own caller. The return addresses are checked after the
 * round. The mask is against speculation: whatever is predicted, reads are in the user half.
 */
#define SB_FRAME(n)                                                            \
	"1: movq (%[fp]), %[next]\n"                                           \
	"2: movq 8(%[fp]), %[ret]\n"                                           \
	"subq %[fp], %[next]\n"                                                \
	"testq %[not_stride], %[next]\n"                                       \
	"jnz .Lleft_%=_" #n "\n"                                               \
	"addq %[next], %[fp]\n"                                                \
	"andq %[user_mask], %[fp]\n"                                           \
	"leaq -4096(%[ret]), %[tmp]\n"                                         \
	"orq %[tmp], %[seen]\n"                                                \
	"movq %[ret], 8*" #n "(%[to])\n"                                       \
	"sb_hash\n"                                                            \
	_ASM_EXTABLE_UA(1b, .Lbad_%=_##n)                                      \
	_ASM_EXTABLE_UA(2b, .Lbad_%=_##n)

#define SB_LEAVE(n) "sb_leave " #n "\n"

#define SB_EACH_OF_ROUND(macro)                                                \
	macro(0) macro(1) macro(2) macro(3) macro(4) macro(5) macro(6)         \
	macro(7) macro(8) macro(9) macro(10) macro(11) macro(12) macro(13)     \
	macro(14) macro(15)

/* The common code of frames, and the exit from the n-th frame of a round. */
#define SB_ROUND_MACROS                                                        \
	".macro sb_hash\n"                                                     \
	SB_HASH "\n"                                                           \
	".endm\n"                                                              \
	".macro sb_leave n\n"                                                  \
	".Lleft_%=_\\n: leaq 8*\\n(%[to]), %[to]\n"                            \
	"xorl %k[tmp], %k[tmp]\n"                                              \
	"jmp .Lout_%=\n"                                                       \
	".Lbad_%=_\\n: leaq 8*\\n(%[to]), %[to]\n"                             \
	"movl %[unreadable], %k[tmp]\n"                                        \
	"jmp .Lout_%=\n"                                                       \
	".endm\n"

/*
 * Reads up to SB_ROUND frames from *fp on. *fp must be below the end of the user half by one
 * stride for each frame, and masked against speculation. Advances *to after the frames read,
 * and ORs (return address - PAGE_SIZE) of each frame into *seen. If the round ends early, *fp
 * is the first frame that was not taken, *address its return address, and *distance the
 * distance to its caller's frame. Returns how the round ended. In assembler, because compilers
 * spill registers: two more instructions a frame.
 */
static __always_inline u64 sb_walk_round(unsigned long *fp, unsigned long *distance,
					 unsigned long *address, unsigned long *seen, u64 *hash,
					 u64 **to, unsigned long user_mask)
{
	u64 status = SB_LEFT;

	asm_inline volatile(SB_ROUND_MACROS
			    SB_EACH_OF_ROUND(SB_FRAME)
			    "addq %[round_size], %[to]\n"
			    "movl %[whole], %k[tmp]\n"
			    "jmp .Lout_%=\n"
			    SB_EACH_OF_ROUND(SB_LEAVE)
			    ".Lout_%=:\n"
			    ".purgem sb_hash\n"
			    ".purgem sb_leave\n"
			    : [fp] "+&r" (*fp), [next] "=&r" (*distance),
			      [ret] "=&r" (*address), [seen] "+&r" (*seen),
			      [hash] "+&r" (*hash), [tmp] "=&r" (status), [to] "+&r" (*to)
			    : [user_mask] "r" (user_mask), [not_stride] "i" (~SB_STRIDE_BITS),
			      [round_size] "i" (SB_ROUND * sizeof(u64)),
			      [whole] "i" (SB_WHOLE), [unreadable] "i" (SB_UNREADABLE)
			    : "cc", "memory");
	return status;
}

/*
 * The stack walk, compiled for 64-bit and for 32-bit programs: in both a frame is the
 * caller's frame pointer and, above it, the return address. The whole walk is one user
 * access section, in which function calls are not allowed. In hard interrupt context a
 * fault is handled by the exception table, never by the memory manager.
 * `uretprobe`: a list from sb_uretprobes().
 */
static __always_inline u64 sb_walk_user(const struct pt_regs *regs, u64 *frames, u64 *to_end,
					u64 *stack_hash, const bool compat,
					const struct return_instance *uretprobe)
{
	const u32 word = compat ? sizeof(u32) : sizeof(u64);
	unsigned long user_size = TASK_SIZE_MAX;
	unsigned long fp = compat ? (u32)regs->bp : regs->bp;
	unsigned long sp = compat ? (u32)regs->sp : regs->sp;
	unsigned long ip = regs->ip;
	unsigned long user_mask, limit, next, address, caller = 0, place = sp, seen;
	unsigned long chain_limit, fast_limit;
	u64 *to = frames, *first, hash, first_hash, status;
	u32 stop = STACKBEAT_STOP_OUTERMOST, descents = 0, code, following;
	u8 before;

#define sb_read_word(value, at, error_label)                                         \
	do {                                                                         \
		if (compat)                                                          \
			sb_read_user(value, u32, at, limit, user_mask, error_label); \
		else                                                                 \
			sb_read_user(value, u64, at, limit, user_mask, error_label); \
	} while (0)

	/* Keep it in a register: a 64-bit constant would be loaded repeatedly. */
	OPTIMIZER_HIDE_VAR(user_size);
	user_mask = user_size | (PAGE_SIZE - 1);
	limit = user_size - sizeof(u64);
	chain_limit = user_size - PAGE_SIZE - 2 * sizeof(u64);
	fast_limit = user_size - PAGE_SIZE - (SB_ROUND + 1) * SB_STRIDE;
	*to++ = ip;
	hash = sb_hash(*stack_hash, ip);

	__uaccess_begin_nospec();

	sb_read_user(code, u32, ip, limit, user_mask, frame_chain);
	if (likely(!sb_may_lack_frame(code)))
		goto frame_chain;
	if (sb_is_ret(code) || sb_is_prologue(code, compat)) {
		sb_read_word(caller, sp, frame_chain);
	} else if (code == (compat ? SB_CODE_ENDBR32 : SB_CODE_ENDBR64)) {
		sb_read_user(following, u32, ip + 4, limit, user_mask, frame_chain);
		if (sb_is_prologue(following, compat))
			sb_read_word(caller, sp, frame_chain);
	} else if (sb_is_mov_sp_bp(code, compat)) {
		sb_read_user(before, u8, ip - 1, limit, user_mask, frame_chain);
		if (before == SB_CODE_PUSH_BP) {
			place = sp + word;
			sb_read_word(caller, place, frame_chain);
		}
	}
	caller = sb_uretprobe_original(uretprobe, place, caller);
	if (sb_is_user_code(caller, user_mask) && to < to_end) {
		*to++ = caller;
		hash = sb_hash(hash, caller);
	}

frame_chain:
	first = to;
	first_hash = hash;
	if (compat || uretprobe || (fp & (word - 1)))
		goto careful;
	seen = 0;
	while (fp - PAGE_SIZE < fast_limit && to + SB_ROUND <= to_end) {
		fp &= user_mask; /* changes nothing, except under speculation */
		status = sb_walk_round(&fp, &next, &address, &seen, &hash, &to, user_mask);
		if (unlikely(seen > user_mask))
			goto again; /* some addresses are not code */
		if (likely(status == SB_LEFT)) {
			next += fp;
			goto examine;
		}
		if (status == SB_UNREADABLE)
			goto unreadable;
		if (unlikely(!next))
			goto again; /* the last frame is its own caller */
	}
	goto careful;

again:
	/* The careful path finds the exact end. */
	to = first;
	hash = first_hash;
	fp = regs->bp;
careful:
	for (;;) {
		if (unlikely(fp - PAGE_SIZE >= chain_limit || (fp & (word - 1)))) {
			if (fp & (word - 1) || (fp && fp - PAGE_SIZE >= user_size - PAGE_SIZE))
				stop = STACKBEAT_STOP_BAD_FRAME;
			else if (fp)
				stop = STACKBEAT_STOP_FAULT;
			break;
		}
		sb_read_word(next, fp, unreadable);
		sb_read_word(address, fp + word, unreadable);
		address = sb_uretprobe_original(uretprobe, fp + word, address);
examine:
		if (unlikely(!sb_is_user_code(address, user_mask))) {
			if (address)
				stop = STACKBEAT_STOP_BAD_FRAME;
			break;
		}
		if (unlikely(to == to_end)) {
			stop = STACKBEAT_STOP_MAX_DEPTH;
			break;
		}
		*to++ = address;
		hash = sb_hash(hash, address);
		if (unlikely(next <= fp) && next && ++descents > STACKBEAT_FP_DESCENTS_MAX) {
			stop = STACKBEAT_STOP_BAD_FRAME;
			break;
		}
		fp = next;
	}
	goto out;

unreadable:
	stop = STACKBEAT_STOP_FAULT;
out:
	__uaccess_end();
	*stack_hash = hash;
	return SB_SHAPE_USER(to - frames, stop);
#undef sb_read_word
}

u32 sb_unwind_leaf_size(unsigned long ip)
{
	const unsigned long user_size = TASK_SIZE_MAX, user_mask = user_size | (PAGE_SIZE - 1);
	const unsigned long limit = user_size - sizeof(u64);
	u32 code, following, size = 0;
	u8 before;

	__uaccess_begin_nospec();
	sb_read_user(code, u32, ip, limit, user_mask, out);
	if (!sb_may_lack_frame(code))
		goto out;
	if (sb_is_ret(code) || sb_is_prologue(code, false)) {
		size = sizeof(u64);
	} else if (code == SB_CODE_ENDBR64) {
		sb_read_user(following, u32, ip + 4, limit, user_mask, out);
		if (sb_is_prologue(following, false))
			size = sizeof(u64);
	} else if (sb_is_mov_sp_bp(code, false)) {
		sb_read_user(before, u8, ip - 1, limit, user_mask, out);
		if (before == SB_CODE_PUSH_BP)
			size = 2 * sizeof(u64);
	}
out:
	__uaccess_end();
	return size;
}

u64 sb_unwind_user(const struct pt_regs *regs, u64 *frames, u64 *frames_end, u64 *hash)
{
	return sb_walk_user(regs, frames, frames_end, hash, false, NULL);
}

u64 sb_unwind_user_restored(const struct pt_regs *regs, u64 *frames, u64 *frames_end, u64 *hash)
{
	const struct return_instance *uretprobe = sb_uretprobes();

	return likely(!uretprobe) ? sb_unwind_user(regs, frames, frames_end, hash) :
				    sb_walk_user(regs, frames, frames_end, hash, false, uretprobe);
}

u64 sb_unwind_user32(const struct pt_regs *regs, u64 *frames, u64 *frames_end, u64 *hash)
{
	return sb_walk_user(regs, frames, frames_end, hash, true, sb_uretprobes());
}
