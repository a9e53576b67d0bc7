/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel stacks by rules that are learnt from the kernel's unwinder: where a frame's return
 * address and its saved frame pointer are, for each address of code. The unwinder searches its
 * tables for each frame, which takes ten times as long.
 *
 * A rule is learnt by letting the unwinder take one step on a stack of known words. So the stacks
 * are the unwinder's: what has no rule (registers of an exception, stacks other than the task's,
 * code that is neither the kernel's nor a module's, replaced return addresses) is unwound by
 * the unwinder. One stack in some (the module parameter kernel_stack_check) is unwound by both; if
 * they ever differ, no stack is unwound by rules from then on.
 */
#ifndef STACKBEAT_KERNEL_RULES_H
#define STACKBEAT_KERNEL_RULES_H

#include <linux/types.h>

struct pt_regs;

/* What became of the kernel stacks of a sampler. */
struct sb_kernel_walks {
	u64 unwound;	/* by the unwinder alone */
	u64 compared;	/* by rules, and compared with the unwinder's */
	u64 different;	/* of these, those that differed */
	/* Called at a difference, in hard interrupt context. */
	void (*differs)(struct sb_kernel_walks *walks);
};

/*
 * Unwinds the kernel part of the current task into `frames`, which has room for
 * STACKBEAT_KERNEL_FRAMES_MAX addresses, with the result of sb_unwind_kernel(). In hard interrupt
 * context.
 */
u64 sb_kernel_walk(struct pt_regs *regs, u64 *frames, u64 *hash, struct sb_kernel_walks *walks);

/*
 * Allocates the rules of a CPU, unless it has them; they stay until the module is unloaded. Without
 * memory, its stacks are unwound by the unwinder. May sleep.
 */
void sb_kernel_rules_alloc(u32 cpu);

/* Any error of registering a notifier. */
int sb_kernel_rules_init(void);
/* After the last sampler was stopped. */
void sb_kernel_rules_exit(void);

#endif
