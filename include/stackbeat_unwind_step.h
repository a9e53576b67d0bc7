/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * One step of a walk by unwind tables (stackbeat_unwind.h): from a frame to its caller's. The
 * kernel module and the reader compile the same steps.
 */
#ifndef STACKBEAT_UNWIND_STEP_H
#define STACKBEAT_UNWIND_STEP_H

#include <linux/stddef.h> /* __always_inline */

#include "stackbeat.h"
#include "stackbeat_unwind.h"

/* A frame, by the registers that its function had at the call, or at the interrupt. */
struct stackbeat_unwind_frame {
	__u64 registers[STACKBEAT_REGISTERS];
	__u32 known; /* bit n: registers[n] is the value in this frame */
	/* rip is a return address: its call is before it. */
	__u16 is_return_address;
	__u16 descents; /* number of steps to a lower stack pointer */
	__u64 fs_base; /* of the thread, for Go's rules */
};

#define STACKBEAT_UNWIND_ALL_KNOWN ((1u << STACKBEAT_REGISTERS) - 1)

/*
 * Registers that functions save before they use them: r12 to r15. A walk does not follow where, so
 * they are unknown in a caller. rbx and rbp are followed. Each other register is, in a caller, as in
 * its callee: a rule needs it only where the callee leaves it alone, which assembly may rely on. So
 * does OpenSSL's AES-GCM, whose CFA is in rax during calls.
 */
#define STACKBEAT_UNWIND_NOT_FOLLOWED (0xfu << 12)

enum stackbeat_unwind_result {
	STACKBEAT_UNWIND_STEPPED,
	STACKBEAT_UNWIND_OUTERMOST, /* there is no caller */
	STACKBEAT_UNWIND_NO_RULE, /* the table has no rule for the address */
	STACKBEAT_UNWIND_UNREADABLE, /* memory can't be read */
	STACKBEAT_UNWIND_BAD_FRAME, /* the caller's frame is not above this one, or not aligned */
	STACKBEAT_UNWIND_LOST_REGISTER, /* the rule needs a register whose value is not known */
};

/* Reads the word at an address. Returns 0 if it can't be read. */
typedef int stackbeat_unwind_read(void *arg, __u64 address, __u64 *word);

/* Returns the address by which the rule of a frame is found. */
static __always_inline __u64 stackbeat_unwind_address(const struct stackbeat_unwind_frame *frame)
{
	return frame->registers[STACKBEAT_REGISTER_RIP] - frame->is_return_address;
}

/*
 * A stack may pass over to another one, of lower addresses: at a signal frame, or where frame
 * pointers lead to it. The number of such steps has a limit, so that no walk is endless.
 */
static __always_inline int stackbeat_unwind_may_descend(struct stackbeat_unwind_frame *frame)
{
	return frame->descents++ < STACKBEAT_FP_DESCENTS_MAX;
}

/*
 * The frame of a signal handler's return trampoline: restores all registers from struct ucontext,
 * in which the kernel has saved them.
 */
static __always_inline enum stackbeat_unwind_result
stackbeat_unwind_step_signal(struct stackbeat_unwind_frame *frame, stackbeat_unwind_read *read,
			     void *arg)
{
	/* The general registers of struct sigcontext, in its order; then rip. */
	static const __u8 numbers[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16};
	/* 40: the offset of uc_mcontext in struct ucontext. */
	__u64 rsp = frame->registers[STACKBEAT_REGISTER_RSP], at = rsp + 40;
	__u32 i;

	for (i = 0; i < sizeof(numbers); i++, at += sizeof(__u64)) {
		if (!read(arg, at, &frame->registers[numbers[i]]))
			return STACKBEAT_UNWIND_UNREADABLE;
	}
	frame->known = STACKBEAT_UNWIND_ALL_KNOWN;
	frame->is_return_address = 0;
	if (frame->registers[STACKBEAT_REGISTER_RSP] <= rsp && !stackbeat_unwind_may_descend(frame))
		return STACKBEAT_UNWIND_BAD_FRAME;
	return STACKBEAT_UNWIND_STEPPED;
}

static __always_inline __u64 stackbeat_unwind_offset(__u64 address, int words)
{
	return address + (__u64)(long long)words * sizeof(__u64);
}

/* Sets the caller's rbp. If it can't be read, only the frames that need it are lost. */
static __always_inline void stackbeat_unwind_step_rbp(struct stackbeat_unwind_frame *frame,
						      const struct stackbeat_unwind_rule *rule,
						      __u64 cfa, stackbeat_unwind_read *read,
						      void *arg, __u32 *known)
{
	const __u32 bit = 1u << STACKBEAT_REGISTER_RBP;
	__u64 *rbp = &frame->registers[STACKBEAT_REGISTER_RBP], at;

	if (rule->flags & STACKBEAT_UNWIND_RBP_IN_REGISTER) {
		*rbp = frame->registers[rule->rbp & 0xf];
		*known = frame->known >> (rule->rbp & 0xf) & 1 ? *known | bit : *known & ~bit;
		return;
	}
	if (rule->flags & STACKBEAT_UNWIND_RBP_SAVED)
		at = stackbeat_unwind_offset(cfa, rule->rbp);
	else if (rule->flags & STACKBEAT_UNWIND_RBP_AT_RBP)
		at = stackbeat_unwind_offset(*rbp, rule->rbp);
	else
		return;
	*known = read(arg, at, rbp) ? *known | bit : *known & ~bit;
}

/*
 * Steps by a rule, by which the caller's rsp is `cfa`, to the caller at `rip`. If it fails, the frame is
 * as before.
 */
static __always_inline enum stackbeat_unwind_result
stackbeat_unwind_step_to(struct stackbeat_unwind_frame *frame,
			 const struct stackbeat_unwind_rule *rule, __u64 cfa, __u64 rip, __u32 known,
			 int may_descend, stackbeat_unwind_read *read, void *arg)
{
	__u64 rsp = frame->registers[STACKBEAT_REGISTER_RSP];

	/* The leaf may have the CFA of its caller's frame; beyond it, each call has pushed. */
	if (cfa % 8)
		return STACKBEAT_UNWIND_BAD_FRAME;
	if ((cfa < rsp || (frame->is_return_address && cfa == rsp)) &&
	    !(may_descend && stackbeat_unwind_may_descend(frame)))
		return STACKBEAT_UNWIND_BAD_FRAME;
	stackbeat_unwind_step_rbp(frame, rule, cfa, read, arg, &known);
	if (rule->flags & STACKBEAT_UNWIND_RBX_SAVED)
		known = read(arg, stackbeat_unwind_offset(cfa, rule->extra),
			     &frame->registers[STACKBEAT_REGISTER_RBX])
				? known | 1u << STACKBEAT_REGISTER_RBX
				: known & ~(1u << STACKBEAT_REGISTER_RBX);
	frame->registers[STACKBEAT_REGISTER_RSP] = cfa;
	frame->registers[STACKBEAT_REGISTER_RIP] = rip;
	frame->known = known;
	frame->is_return_address = !(rule->flags & STACKBEAT_UNWIND_RIP_EXACT);
	return STACKBEAT_UNWIND_STEPPED;
}

/* Steps by a rule of kind STACKBEAT_UNWIND_CALLER. If it fails, the frame is as before. */
static __always_inline enum stackbeat_unwind_result
stackbeat_unwind_step_caller(struct stackbeat_unwind_frame *frame,
			     const struct stackbeat_unwind_rule *rule, int may_descend,
			     stackbeat_unwind_read *read, void *arg)
{
	__u32 base = rule->kind_base >> 4, known = frame->known & ~STACKBEAT_UNWIND_NOT_FOLLOWED;
	__u64 cfa, rip;

	if (!(frame->known >> base & 1))
		return STACKBEAT_UNWIND_LOST_REGISTER;
	cfa = frame->registers[base] + (__u64)(long long)rule->cfa;
	if (rule->flags & STACKBEAT_UNWIND_INDIRECT) {
		if (!read(arg, cfa, &cfa))
			return STACKBEAT_UNWIND_UNREADABLE;
		cfa = stackbeat_unwind_offset(cfa, rule->extra);
	}
	if (rule->flags & STACKBEAT_UNWIND_RIP_IN_REGISTER) {
		if (!(frame->known >> (rule->extra & 0xf) & 1))
			return STACKBEAT_UNWIND_LOST_REGISTER;
		rip = frame->registers[rule->extra & 0xf];
	} else if (!read(arg, cfa - sizeof(__u64), &rip)) {
		return STACKBEAT_UNWIND_UNREADABLE;
	}
	return stackbeat_unwind_step_to(frame, rule, cfa, rip, known, may_descend, read, arg);
}

/*
 * Sets *go to `of` of a table, with the offset that ld.so has written where the file is mapped with this
 * bias. Returns 0 if it can't be read: then nothing is known of goroutines.
 */
static __always_inline int stackbeat_unwind_go_in_process(struct stackbeat_unwind_go *go,
							  const struct stackbeat_unwind_go *of,
							  __u64 bias, stackbeat_unwind_read *read,
							  void *arg)
{
	__u64 tls = 0;

	*go = *of;
	go->tls_in_memory = 0;
	if (of->tls_in_memory && !read(arg, bias + (__u64)of->tls, &tls)) {
		go->curg = 0;
		return 0;
	}
	if (of->tls_in_memory)
		go->tls = (__s64)tls;
	return 1;
}

/*
 * Sets *g to the goroutine that the thread runs, also while it is on another stack; 0: none. Returns
 * 0 if memory can't be read.
 */
static __always_inline int stackbeat_unwind_goroutine(const struct stackbeat_unwind_frame *frame,
						      const struct stackbeat_unwind_go *go,
						      stackbeat_unwind_read *read, void *arg,
						      __u64 *g)
{
	__u64 at = frame->fs_base + (__u64)go->tls, m = 0, its_m = 0;

	*g = 0;
	/* Another thread may run the goroutine: then its m is another one. */
	if (!read(arg, at, &at) || (at && !read(arg, at + go->m, &m)))
		return 0;
	if (!at || !m)
		return 1;
	if (!read(arg, m + go->curg, &at) || (at && !read(arg, at + go->m, &its_m)))
		return 0;
	if (at && its_m == m)
		*g = at;
	return 1;
}

/*
 * Steps by a rule of kind STACKBEAT_UNWIND_GO_SWITCH or STACKBEAT_UNWIND_GO_RESUME. Go clears sp and pc
 * of a goroutine that runs on its own stack again.
 */
static __always_inline enum stackbeat_unwind_result
stackbeat_unwind_step_goroutine(struct stackbeat_unwind_frame *frame,
				const struct stackbeat_unwind_rule *rule,
				const struct stackbeat_unwind_go *go, stackbeat_unwind_read *read,
				void *arg)
{
	static const struct stackbeat_unwind_rule resume = {.flags = 0};
	const __u32 known = 1u << STACKBEAT_REGISTER_RSP | 1u << STACKBEAT_REGISTER_RBP |
			    1u << STACKBEAT_REGISTER_RIP;
	int resumes = (rule->kind_base & 0xf) == STACKBEAT_UNWIND_GO_RESUME;
	__u64 g = 0, cfa, rip, rbp;

	if (go->curg && !stackbeat_unwind_goroutine(frame, go, read, arg, &g))
		return STACKBEAT_UNWIND_UNREADABLE;
	if (!g)
		return resumes ? STACKBEAT_UNWIND_OUTERMOST : STACKBEAT_UNWIND_NO_RULE;
	if (!read(arg, g + go->sched_sp, &cfa) || !read(arg, g + go->sched_bp, &rbp))
		return STACKBEAT_UNWIND_UNREADABLE;
	if (resumes && !cfa)
		return STACKBEAT_UNWIND_OUTERMOST;
	if (resumes)
		rule = &resume;
	else
		cfa += (__u64)(long long)rule->cfa;
	if (!read(arg, resumes ? g + go->sched_pc : cfa - sizeof(__u64), &rip))
		return STACKBEAT_UNWIND_UNREADABLE;
	frame->registers[STACKBEAT_REGISTER_RBP] = rbp;
	return stackbeat_unwind_step_to(frame, rule, cfa, rip, known, 1, read, arg);
}

/* Steps by a rule of kind STACKBEAT_UNWIND_GO_CALL. */
static __always_inline enum stackbeat_unwind_result
stackbeat_unwind_step_go_call(struct stackbeat_unwind_frame *frame,
			      const struct stackbeat_unwind_rule *rule,
			      const struct stackbeat_unwind_go *go, stackbeat_unwind_read *read,
			      void *arg)
{
	__u64 at = stackbeat_unwind_offset(frame->registers[STACKBEAT_REGISTER_RSP], rule->extra);
	__u64 cfa, rip, g, end;

	if (!read(arg, at, &cfa) || !read(arg, at + sizeof(__u64), &g))
		return STACKBEAT_UNWIND_UNREADABLE;
	/* The stack may have been moved during the call: only the distance from its end is the same. */
	if (g) {
		if (!read(arg, g + go->stack_hi, &end))
			return STACKBEAT_UNWIND_UNREADABLE;
		cfa = end - cfa;
	}
	cfa += (__u64)(long long)rule->cfa;
	if (!read(arg, cfa - sizeof(__u64), &rip))
		return STACKBEAT_UNWIND_UNREADABLE;
	return stackbeat_unwind_step_to(frame, rule, cfa, rip,
					frame->known & ~STACKBEAT_UNWIND_NOT_FOLLOWED, 1, read, arg);
}

/*
 * Returns the size of a frame of which nothing is left after a call, but to free it and to return, by
 * the word of code at the return address: add $size, %rsp; ret. 0: the code is another one. So are
 * CPython's trampolines of -X perf, which have no frame pointer (Python/asm_trampoline.S since 3.12).
 */
static __always_inline __u32 stackbeat_unwind_epilogue_size(__u64 code)
{
	__u32 size = code >> 24 & 0xff;

	return (code & 0xff00ffffffULL) == 0xc300c48348ULL && !(size & 0x87) ? size : 0;
}

/*
 * Steps by the frame pointer, in code without a table. Where the thread was interrupted, a frame pointer
 * of 0 may as well be data of a function that has none.
 */
static __always_inline enum stackbeat_unwind_result
stackbeat_unwind_step_frame_pointer(struct stackbeat_unwind_frame *frame,
				    stackbeat_unwind_read *read, void *arg)
{
	static const struct stackbeat_unwind_rule rule = {
		.cfa = 16,
		.kind_base = STACKBEAT_UNWIND_CALLER | STACKBEAT_REGISTER_RBP << 4,
		.flags = STACKBEAT_UNWIND_RBP_SAVED,
		.rbp = -2,
	};

	if (frame->known >> STACKBEAT_REGISTER_RBP & 1 && !frame->registers[STACKBEAT_REGISTER_RBP])
		return frame->is_return_address ? STACKBEAT_UNWIND_OUTERMOST :
						  STACKBEAT_UNWIND_BAD_FRAME;
	return stackbeat_unwind_step_caller(frame, &rule, 1, read, arg);
}

/*
 * Steps by the rule of a frame, from stackbeat_unwind_find(); NULL: none. `go` belongs to the table, by
 * stackbeat_unwind_go_in_process(). Only Go's rules need it and frame->fs_base.
 */
static __always_inline enum stackbeat_unwind_result
stackbeat_unwind_step(struct stackbeat_unwind_frame *frame,
		      const struct stackbeat_unwind_rule *rule,
		      const struct stackbeat_unwind_go *go, stackbeat_unwind_read *read, void *arg)
{
	switch (rule ? rule->kind_base & 0xf : STACKBEAT_UNWIND_NONE) {
	case STACKBEAT_UNWIND_CALLER:
		/* Where Go switches stacks, the frame pointer leads to the first one. */
		return stackbeat_unwind_step_caller(
			frame, rule, rule->kind_base >> 4 == STACKBEAT_REGISTER_RBP, read, arg);
	case STACKBEAT_UNWIND_SIGNAL:
		return stackbeat_unwind_step_signal(frame, read, arg);
	case STACKBEAT_UNWIND_END:
		return STACKBEAT_UNWIND_OUTERMOST;
	case STACKBEAT_UNWIND_GO_SWITCH:
	case STACKBEAT_UNWIND_GO_RESUME:
		return stackbeat_unwind_step_goroutine(frame, rule, go, read, arg);
	case STACKBEAT_UNWIND_GO_CALL:
		return stackbeat_unwind_step_go_call(frame, rule, go, read, arg);
	default:
		return STACKBEAT_UNWIND_NO_RULE;
	}
}

#endif
