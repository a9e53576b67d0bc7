// SPDX-License-Identifier: GPL-2.0
#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/kprobes.h>

#include "kprobe_test.h"

static atomic_t sb_kprobe_test_hits;
static void (*sb_kprobe_test_function)(void); /* with the kprobe; NULL: none */

/* ftrace finds the begin of the first function only. */
static noinline void sb_kprobe_test_by_ftrace(void)
{
	asm volatile("nop" : : : "memory");
}

static noinline notrace void sb_kprobe_test_by_breakpoint(void)
{
	asm volatile("nop" : : : "memory");
}

static int sb_kprobe_test_on_hit(struct kprobe *probe, struct pt_regs *regs)
{
	atomic_inc(&sb_kprobe_test_hits);
	return 0;
}
NOKPROBE_SYMBOL(sb_kprobe_test_on_hit);

/*
 * Without such a handler, the kernel replaces the breakpoint by a jump. If the text of the probe
 * goes before the jump is replaced again, kill_optimized_kprobe() of Linux 6.12 takes the probe
 * off the list that frees it: its entry stays in the table of probes, for an address at which the
 * module may be loaded again.
 */
static void sb_kprobe_test_after_hit(struct kprobe *probe, struct pt_regs *regs,
				     unsigned long flags)
{
}
NOKPROBE_SYMBOL(sb_kprobe_test_after_hit);

static struct kprobe sb_kprobe_test_probe = {
	.pre_handler = sb_kprobe_test_on_hit,
};

void sb_kprobe_test_register(bool by_ftrace)
{
	void (*function)(void) = by_ftrace ? sb_kprobe_test_by_ftrace :
					     sb_kprobe_test_by_breakpoint;

	sb_kprobe_test_probe.flags = 0;
	/* With it, a probe by ftrace would exclude livepatches of the function. */
	sb_kprobe_test_probe.post_handler = by_ftrace ? NULL : sb_kprobe_test_after_hit;
	sb_kprobe_test_probe.addr = (kprobe_opcode_t *)function;
	if (!register_kprobe(&sb_kprobe_test_probe))
		sb_kprobe_test_function = function;
}

void sb_kprobe_test_unregister(void)
{
	if (sb_kprobe_test_function)
		unregister_kprobe(&sb_kprobe_test_probe);
}

bool sb_kprobe_test(void)
{
	int hits = atomic_read(&sb_kprobe_test_hits);

	if (!sb_kprobe_test_function)
		return true;
	sb_kprobe_test_function();
	return atomic_read(&sb_kprobe_test_hits) != hits;
}
