/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of a CPU: the beats that run on it, of all sessions, whether it is idle, and an
 * account of the time that these beats take.
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
	struct hlist_head samplers;	/* running ones */
	u32 running;			/* number of them */
	bool online;			/* beats may be started */
	bool parked;			/* it is idle: the timer of a beat is cancelled */

	/* The budget's account, in cycles of the time-stamp counter. */
	u64 overhead;		/* of all beats here, also of those that are gone */
	u64 stopped_overhead;		/* of those that do not run any more, while they ran */
	u64 parking;		/* of parking, since the window began */
	u64 window_end;		/* ns: of the window for beats that are new */
	u64 window_overhead;	/* cost when it began */
	u64 window_stopped;	/* gone when it began */

	/*
	 * The shortest period, in ns, with which new beats of restricted sessions begin:
	 * throttling had set it for other beats, which were stopped. It is halved in each
	 * window.
	 */
	u64 floor;
	u64 floor_time;		/* ns, when it was set */
};

DECLARE_PER_CPU(struct sb_cpu, sb_cpus);

/* Opens the window of beats that are new, if the last one is over: they share its cost. */
static inline void sb_cpu_open_window(struct sb_cpu *here, u64 now)
{
	if (now < here->window_end)
		return;
	here->window_end = now + STACKBEAT_BUDGET_WINDOW_NS;
	here->window_overhead = here->overhead;
	here->window_stopped = here->stopped_overhead;
	here->parking = 0;
}

/* A floor decays: it is halved in each window. `ns` is its age. */
static inline u64 sb_floor_after(u64 floor, u64 ns)
{
	return floor >> min(div_u64(ns, STACKBEAT_BUDGET_WINDOW_NS), 63ull);
}

/* The floor of beats of restricted sessions that begin now (ns). */
u64 sb_cpu_floor(const struct sb_cpu *here, u64 now);
/* Keeps the floor of a beat that is stopped, if it is the higher one. */
void sb_cpu_raise_floor(struct sb_cpu *here, u64 floor, u64 now);

#endif
