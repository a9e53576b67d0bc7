/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * One step of a walk by unwind tables (stackbeat_unwind.h): from a frame to that of its caller. The
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
};

#define STACKBEAT_UNWIND_ALL_KNOWN ((1u << STACKBEAT_REGISTERS) - 1)

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

/* Steps by a rule of kind STACKBEAT_UNWIND_CALLER. If it fails, the frame is as before. */
static __always_inline enum stackbeat_unwind_result
stackbeat_unwind_step_caller(struct stackbeat_unwind_frame *frame,
			     const struct stackbeat_unwind_rule *rule, int may_descend,
			     stackbeat_unwind_read *read, void *arg)
{
	const __u32 followed = 1u << STACKBEAT_REGISTER_RSP | 1u << STACKBEAT_REGISTER_RBP |
			       1u << STACKBEAT_REGISTER_RBX | 1u << STACKBEAT_REGISTER_RIP;
	__u32 base = rule->kind_base >> 4, known = frame->known & followed;
	__u64 rsp = frame->registers[STACKBEAT_REGISTER_RSP], cfa, rip;

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
	frame->is_return_address = 1;
	return STACKBEAT_UNWIND_STEPPED;
}

/* Steps by the frame pointer, in code without a table. */
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
		return STACKBEAT_UNWIND_OUTERMOST;
	return stackbeat_unwind_step_caller(frame, &rule, 1, read, arg);
}

/* Steps by the rule of a frame, from stackbeat_unwind_find(); NULL: none. */
static __always_inline enum stackbeat_unwind_result
stackbeat_unwind_step(struct stackbeat_unwind_frame *frame,
		      const struct stackbeat_unwind_rule *rule, stackbeat_unwind_read *read,
		      void *arg)
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
	default:
		return STACKBEAT_UNWIND_NO_RULE;
	}
}

#endif
