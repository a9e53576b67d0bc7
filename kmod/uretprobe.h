/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The return addresses that uretprobes have replaced. A uretprobe makes the probed function return
 * to a trampoline, at the start of the page [uprobes], and the task has the original address. A
 * return address is replaced if it starts a page, and if the task has a uretprobe for its place.
 */
#ifndef STACKBEAT_URETPROBE_H
#define STACKBEAT_URETPROBE_H

#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/uprobes.h>
#include <asm/irq_regs.h>
#include <asm/ptrace.h>

#include "compat/compat.h"

/* More than the kernel allows for a task. */
#define SB_URETPROBES_MAX 128u

#ifdef CONFIG_UPROBES

/*
 * Whether the uretprobes of the current task can be read in this hard interrupt. Before 6.13 the
 * kernel frees them first, and unlinks them then: while it handles a breakpoint, and when the task
 * ends or executes another program. In user mode none of these is under way, nor in any other
 * system call: orig_ax is negative outside of system calls.
 */
static inline bool sb_uretprobes_are_stable(void)
{
#ifdef HAVE_RETURN_INSTANCE_RCU
	return true;
#else
	const struct task_struct *task = current;

	return user_mode(get_irq_regs()) ||
	       ((long)task_pt_regs(current)->orig_ax >= 0 && !(task->flags & PF_EXITING) &&
		!task->in_execve);
#endif
}

/* Returns the innermost uretprobe of the current task in a list; NULL: none, or it can't be read. */
static inline const struct return_instance *sb_uretprobes(void)
{
	const struct uprobe_task *utask = READ_ONCE(current->utask);

	return unlikely(utask) && sb_uretprobes_are_stable() ? READ_ONCE(utask->return_instances) :
							       NULL;
}

/*
 * Returns the original of a return address at the address `place` of the stack; the same address if
 * it was not replaced. Allowed in a user access section.
 */
static __always_inline u64 sb_uretprobe_original(const struct return_instance *uretprobe,
						 u64 place, u64 address)
{
	u32 left = SB_URETPROBES_MAX;

	if (likely(address & ~PAGE_MASK))
		return address;
	for (; uretprobe && left; uretprobe = READ_ONCE(uretprobe->next), left--) {
		if (uretprobe->stack == place)
			return uretprobe->orig_ret_vaddr;
	}
	return address;
}

/* Puts the original return addresses into a copy of `size` bytes of the stack at the address `sp`. */
static inline void sb_uretprobes_restore(const struct return_instance *uretprobe, u64 sp,
					 u64 *copy, u32 size)
{
	u32 left = SB_URETPROBES_MAX;
	u64 offset;

	for (; uretprobe && left; uretprobe = READ_ONCE(uretprobe->next), left--) {
		offset = uretprobe->stack - sp;
		/* An outer uretprobe of a tail call has the same place, and finds the original. */
		if (offset < size && !(offset % sizeof(u64)) &&
		    !(copy[offset / sizeof(u64)] & ~PAGE_MASK))
			copy[offset / sizeof(u64)] = uretprobe->orig_ret_vaddr;
	}
}

#else

struct return_instance;

static inline const struct return_instance *sb_uretprobes(void)
{
	return NULL;
}

static __always_inline u64 sb_uretprobe_original(const struct return_instance *uretprobe,
						 u64 place, u64 address)
{
	return address;
}

static inline void sb_uretprobes_restore(const struct return_instance *uretprobe, u64 sp,
					 u64 *copy, u32 size)
{
}

#endif

#endif
