// SPDX-License-Identifier: GPL-2.0
// hrtimer_setup(), instead of hrtimer_init() and .function (6.13).
#include <linux/hrtimer.h>

void sb_probe(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *timer));

void sb_probe(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *timer))
{
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
}
