// SPDX-License-Identifier: GPL-2.0
#include <linux/cache.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/math64.h>
#include <linux/time64.h>
#include <asm/tsc.h>

#include "cycles.h"

u64 sb_cycle_ns __ro_after_init;

u64 sb_long_cycles_to_ns(u64 cycles)
{
	return mul_u64_u64_shr(cycles, sb_cycle_ns, 32);
}

u64 sb_ns_to_cycles(u64 ns)
{
	return div64_u64(ns * tsc_khz, USEC_PER_SEC);
}

int __init sb_cycles_init(void)
{
	if (!tsc_khz)
		return -ENODEV;
	sb_cycle_ns = div_u64((u64)NSEC_PER_MSEC << 32, tsc_khz);
	return 0;
}
