/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of a CPU: its running samplers, of all sessions, whether it is idle, and the account
 * of the samplers' overhead.
 *
 * Only code on that CPU uses it, with interrupts off, so no lock is needed.
 */
#ifndef STACKBEAT_CPU_H
#define STACKBEAT_CPU_H

#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/types.h>

#include "stackbeat.h"

struct sb_cpu {
	struct hlist_head samplers;	/* running samplers */
	u32 running;			/* number of running samplers */
	bool online;			/* samplers may be started */
	/* PF_IDLE if the CPU is idle and the timer of a sampler is cancelled, else 0. */
	u32 parked;

	/* The budget's account, in cycles of the time-stamp counter. */
	u64 overhead;		/* of all samplers, including stopped ones */
	u64 stopped_overhead;	/* of stopped samplers, each in its last window */
	u64 charged;		/* of it, work outside of ticks that was charged to samplers */
	u64 parking;		/* of parking, in this window */
	u64 window_end;		/* ns, end of the window for new samplers */
	u64 window_overhead;	/* overhead at its start */
	u64 window_stopped;	/* stopped_overhead at its start */

	/*
	 * The shortest initial period, in ns, of new samplers of restricted sessions: the
	 * result of throttling of other samplers, which were stopped. It is halved in each
	 * window.
	 */
	u64 floor;
	u64 floor_time;		/* ns, time when it was set */
};

DECLARE_PER_CPU(struct sb_cpu, sb_cpus);

/* Starts a new window if the last one is over. New samplers are charged its overhead so far. */
static inline void sb_cpu_open_window(struct sb_cpu *here, u64 now)
{
	if (now < here->window_end)
		return;
	here->window_end = now + STACKBEAT_BUDGET_WINDOW_NS;
	here->window_overhead = here->overhead;
	here->window_stopped = here->stopped_overhead;
	here->parking = 0;
}

/* The overhead of ticks alone. */
static inline u64 sb_cpu_ticks(const struct sb_cpu *here)
{
	return here->overhead - here->charged;
}

/* Returns a floor that is `ns` old: it is halved in each window. */
static inline u64 sb_floor_after(u64 floor, u64 ns)
{
	return floor >> min(div_u64(ns, STACKBEAT_BUDGET_WINDOW_NS), 63ull);
}

/* Returns the floor for samplers of restricted sessions started at time `now` (ns). */
u64 sb_cpu_floor(const struct sb_cpu *here, u64 now);
/* Raises the floor to the floor of a stopped sampler, unless it is higher already. */
void sb_cpu_raise_floor(struct sb_cpu *here, u64 floor, u64 now);

#endif
