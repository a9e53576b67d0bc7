// SPDX-License-Identifier: GPL-2.0
/*
 * A module with a function that is interrupted at its first instruction, by a timer that takes
 * long: samples of the timer have a stack through both.
 */
#include <linux/jiffies.h>
#include <linux/linkage.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/timer.h>
#include <linux/version.h>
#include <asm/msr.h>
#include <asm/processor.h>
#include <asm/tsc.h>

/* Counts down to 0. Its two instructions take turns: many interrupts find the first. */
asmlinkage void sb_interrupted_count(unsigned long count);

asm(".pushsection .text\n"
    ".balign 16\n"
    ".type sb_interrupted_count, @function\n"
    "sb_interrupted_count:\n\t"
    "subq $1, %rdi\n\t"
    "jnz sb_interrupted_count\n\t"
    ASM_RET
    ".size sb_interrupted_count, . - sb_interrupted_count\n"
    ".popsection");

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define timer_delete_sync del_timer_sync
#endif

static void sb_interrupted_tick(struct timer_list *timer);

static DEFINE_TIMER(sb_interrupted_timer, sb_interrupted_tick);

/* The timer is set, or its function has not ended. */
static bool sb_interrupted_set;

/* Spins for 2 ms, with interrupts enabled. */
static void sb_interrupted_tick(struct timer_list *timer)
{
	const u64 end = rdtsc() + 2ull * tsc_khz;

	while (rdtsc() < end)
		cpu_relax();
	WRITE_ONCE(sb_interrupted_set, false);
}

/* Is interrupted for the given number of milliseconds, in process context. */
static int sb_interrupted_spin(const char *text, const struct kernel_param *param)
{
	unsigned int ms;
	u64 end;
	int err = kstrtouint(text, 0, &ms);

	if (err)
		return err;
	end = rdtsc() + (u64)ms * tsc_khz;
	while (rdtsc() < end) {
		/* Not while it runs: it would stay on its CPU, and this process may be on another. */
		if (!READ_ONCE(sb_interrupted_set)) {
			WRITE_ONCE(sb_interrupted_set, true);
			mod_timer(&sb_interrupted_timer, jiffies + 1);
		}
		sb_interrupted_count(1000000);
		/* Timers may wait for ksoftirqd, and ksoftirqd for this CPU. */
		cond_resched();
	}
	timer_delete_sync(&sb_interrupted_timer);
	sb_interrupted_set = false;
	return 0;
}

static const struct kernel_param_ops sb_interrupted_ops = { .set = sb_interrupted_spin };
module_param_cb(spin, &sb_interrupted_ops, NULL, 0200);

static int __init sb_interrupted_init(void)
{
	return 0;
}

static void __exit sb_interrupted_exit(void)
{
}

module_init(sb_interrupted_init);
module_exit(sb_interrupted_exit);

MODULE_DESCRIPTION("Is interrupted at the first instruction of a function");
MODULE_LICENSE("GPL");
