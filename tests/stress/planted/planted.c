// SPDX-License-Identifier: GPL-2.0
/*
 * planted bug=NAME: triggers one bug of a kind that a debug kernel must detect, when it is
 * loaded. tests/stress/planted/run tests that each of them is detected.
 */
#include <linux/compiler.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

static char *bug = "";
module_param(bug, charp, 0444);
MODULE_PARM_DESC(bug, "Name of the bug");

static DEFINE_MUTEX(sb_first_lock);
static DEFINE_MUTEX(sb_second_lock);
static DEFINE_SPINLOCK(sb_sleeping_lock);
static void __rcu *sb_pointer;
static int sb_number = 40;

static void sb_use_after_free(void)
{
	u8 *memory = kmalloc(64, GFP_KERNEL);

	kfree(memory);
	/* Else the compiler would detect it. */
	OPTIMIZER_HIDE_VAR(memory);
	WRITE_ONCE(memory[8], 1);
}

static void sb_out_of_bounds(void)
{
	u8 *memory = vmalloc(2 * PAGE_SIZE);
	size_t size = 2 * PAGE_SIZE;

	OPTIMIZER_HIDE_VAR(size);
	WRITE_ONCE(memory[size], 1);
	vfree(memory);
}

static void sb_leak(void)
{
	void *memory = kmalloc(1000, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(memory);
}

static void sb_undefined(void)
{
	pr_info("planted: %d\n", 1 << READ_ONCE(sb_number));
}

static void sb_sleep_in_atomic(void)
{
	preempt_disable();
	mutex_lock(&sb_first_lock);
	mutex_unlock(&sb_first_lock);
	preempt_enable();
}

static void sb_lock_inversion(void)
{
	mutex_lock(&sb_first_lock);
	mutex_lock(&sb_second_lock);
	mutex_unlock(&sb_second_lock);
	mutex_unlock(&sb_first_lock);

	mutex_lock(&sb_second_lock);
	mutex_lock(&sb_first_lock);
	mutex_unlock(&sb_first_lock);
	mutex_unlock(&sb_second_lock);
}

/* A bug on PREEMPT_RT, where a spinlock sleeps. */
static void sb_lock_in_interrupt(void *unused)
{
	spin_lock(&sb_sleeping_lock);
	spin_unlock(&sb_sleeping_lock);
}

static void sb_sleeping_lock_in_interrupt(void)
{
	on_each_cpu(sb_lock_in_interrupt, NULL, 1);
}

static void sb_no_read_side(void)
{
	if (rcu_dereference(sb_pointer))
		pr_info("planted: a pointer\n");
}

static void sb_count(void *unused)
{
	u32 i;

	for (i = 0; i < 1000000; i++) {
		sb_number++;
		barrier(); /* one at a time */
	}
}

/* Without a lock, on all CPUs at the same time. */
static void sb_race(void)
{
	on_each_cpu(sb_count, NULL, 1);
}

static enum hrtimer_restart sb_on_timer(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

static void sb_free_active_timer(void)
{
	struct hrtimer *timer = kzalloc(sizeof(*timer), GFP_KERNEL);

	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer->function = sb_on_timer;
	hrtimer_start(timer, ktime_set(3600, 0), HRTIMER_MODE_REL);
	kfree(timer);
}

static const struct {
	const char *name;
	void (*make)(void);
} sb_bugs[] = {
	{ "use-after-free", sb_use_after_free },
	{ "out-of-bounds", sb_out_of_bounds },
	{ "leak", sb_leak },
	{ "undefined", sb_undefined },
	{ "sleep-in-atomic", sb_sleep_in_atomic },
	{ "lock-inversion", sb_lock_inversion },
	{ "sleeping-lock-in-interrupt", sb_sleeping_lock_in_interrupt },
	{ "no-read-side", sb_no_read_side },
	{ "free-active-timer", sb_free_active_timer },
	{ "race", sb_race },
	{ "none", NULL },
};

static int __init sb_planted_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sb_bugs); i++) {
		if (strcmp(bug, sb_bugs[i].name))
			continue;
		if (sb_bugs[i].make)
			sb_bugs[i].make();
		return 0;
	}
	return -EINVAL;
}

static void __exit sb_planted_exit(void)
{
}

module_init(sb_planted_init);
module_exit(sb_planted_exit);

MODULE_DESCRIPTION("Triggers a bug on purpose");
MODULE_LICENSE("GPL");
