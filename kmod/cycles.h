/* SPDX-License-Identifier: GPL-2.0 */
/* Conversion between nanoseconds and cycles of the time-stamp counter. */
#ifndef STACKBEAT_CYCLES_H
#define STACKBEAT_CYCLES_H

#include <linux/compiler.h>
#include <linux/types.h>

/* ns per cycle, times 2^32. */
extern u64 sb_cycle_ns;

/* Valid for less than 2^32 cycles only. */
static __always_inline u64 sb_cycles_to_ns(u64 cycles)
{
	return cycles * sb_cycle_ns >> 32;
}

/* Valid for any number of cycles, but slower. */
u64 sb_long_cycles_to_ns(u64 cycles);

/* Valid for less than a minute. */
u64 sb_ns_to_cycles(u64 ns);

/* ENODEV: the machine has no time-stamp counter of known frequency. */
int sb_cycles_init(void);

#endif
