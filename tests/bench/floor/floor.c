// SPDX-License-Identifier: GPL-2.0
/*
 * The minimum of any sampler: a timer whose callback only rearms it, on the CPU of the process that
 * loads the module. It runs as long as the module is loaded. Only for the benchmark's kernel, 6.1.
 */
#include <linux/hrtimer.h>
#include <linux/module.h>

static unsigned long period = NSEC_PER_MSEC;
module_param(period, ulong, 0444);
MODULE_PARM_DESC(period, "ns between two interrupts");

static unsigned long ticks;
module_param(ticks, ulong, 0444);
MODULE_PARM_DESC(ticks, "number of interrupts so far");

static struct hrtimer floor_timer;

static enum hrtimer_restart floor_callback(struct hrtimer *timer)
{
	ticks++;
	hrtimer_forward_now(timer, ns_to_ktime(period));
	return HRTIMER_RESTART;
}

static int __init floor_init(void)
{
	hrtimer_init(&floor_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	floor_timer.function = floor_callback;
	hrtimer_start(&floor_timer, ns_to_ktime(period), HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

static void __exit floor_exit(void)
{
	hrtimer_cancel(&floor_timer);
}

module_init(floor_init);
module_exit(floor_exit);

MODULE_DESCRIPTION("A timer that does nothing");
MODULE_LICENSE("GPL");
