/* SPDX-License-Identifier: GPL-2.0 */
/* Conversion between nanoseconds and cycles of the time-stamp counter. */
#ifndef STACKBEAT_CYCLES_H
#define STACKBEAT_CYCLES_H

#include <linux/compiler.h>
#include <linux/types.h>

/* ns of a cycle, times 2^32. */
extern u64 sb_cycle_ns;

/* For less than 2^32 cycles; the result of more is wrong. */
static __always_inline u64 sb_cycles_to_ns(u64 cycles)
{
	return cycles * sb_cycle_ns >> 32;
}

/* As above, for any number of cycles; slower. */
u64 sb_long_cycles_to_ns(u64 cycles);

/* For less than a minute. */
u64 sb_ns_to_cycles(u64 ns);

/* ENODEV: the machine has no time-stamp counter that keeps time. */
int sb_cycles_init(void);

#endif
