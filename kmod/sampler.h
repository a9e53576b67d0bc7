/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The beat of one session on one CPU: a pinned timer in hard interrupt context
 * that writes a record of what it interrupted into the ring of that CPU.
 */
#ifndef STACKBEAT_SAMPLER_H
#define STACKBEAT_SAMPLER_H

#include <linux/hrtimer.h>
#include <linux/workqueue.h>

#include "mmap.h"
#include "ring.h"
#include "session_types.h"
#include "space.h"

struct sb_sampler {
	/* Used on this CPU alone, with interrupts off. The ring first: it needs no offset. */
	struct sb_ring ring;
	struct hrtimer timer;
	struct sb_session *session;
	struct sb_cpu *here;	/* of its CPU */
	u64 period;		/* ns, mean; of the beat that is awaited */
	u32 missed;		/* intervals before it without a beat */
	u32 cpu;
	u64 ticks;
	u64 samples;
	u64 idle;
	u64 filtered;
	u64 missed_sum;
	u64 overhead;		/* cycles */
	u64 tick_time;		/* ns that the beats stood for */
	u64 limit;		/* of here->cost: the budget is looked at then */
	u64 window_end;		/* ns, of the budget's window */
	u64 window_overhead;	/* cost when it began */
	u64 window_here;	/* here->cost when it began */
	u64 window_stopped;	/* here->gone when it began */
	u64 floor;		/* ns: the period that throttling allows; 0: any */
	u64 synced;		/* cycles, when the clock was read */
	u64 synced_ns;		/* what it said */
	u64 sync_cycles;	/* how long that is good for */
	u64 throttled;		/* how often the rate was halved */
	u64 random;		/* state of the generator */
	u32 shift;		/* the rate is halved so many times now */
	bool running;		/* also read by those who start and stop it */
	bool parked;		/* running, and the CPU is idle: no timer */
	struct hlist_node node;	/* of here->samplers, while it runs */
	u64 next_loss_report;	/* ns: losses are not reported before */
	struct work_struct wake;
	struct sb_space_cursor space_cursor;

	/* The report of what happened in beats: queued by them. */
	struct work_struct report;
	int went_offline;		/* it was stopped as its CPU went offline */
	u32 reported_shift;	/* by the work alone */
	u64 reported_lost;	/* by the work alone */

	/* For device.c. */
	struct sb_mapping consumer_mapping;
	struct sb_mapping ring_mapping;
};

/* ENOMEM. `cpu` need not be online. */
struct sb_sampler *sb_sampler_alloc(struct sb_session *session, u32 cpu, u32 ring_size);
/* Frees a beat that is not started; NULL is allowed. */
void sb_sampler_free(struct sb_sampler *sampler);

/* Cycles that the budget counts of one beat at most, by the user frames of a session's stacks. */
u64 sb_sampler_overhead_max(u32 max_depth);

/* ns that its timer's interrupts, and cancelling it where the CPU is idle, have taken. */
u64 sb_sampler_overhead(const struct sb_sampler *sampler);

/* Hz in effect on its CPU now; 0 when it does not run there. */
u32 sb_sampler_rate(const struct sb_sampler *sampler);

/* Sends the event that the beat's CPU has gone, if it has and nobody has sent it. */
void sb_sampler_report_offline(struct sb_sampler *sampler);

/* On the beat's CPU. Starting one that runs and stopping one that doesn't do nothing. */
void sb_sampler_start(struct sb_sampler *sampler);
void sb_sampler_stop(struct sb_sampler *sampler);
/* After the session's rate was changed. */
void sb_sampler_retime(struct sb_sampler *sampler);

/* As above, with interrupts off: of beats that run. */
void sb_sampler_park(struct sb_sampler *sampler);
void sb_sampler_unpark(struct sb_sampler *sampler);
/* Takes cycles for the above into the account. */
void sb_sampler_add_parking(struct sb_sampler *sampler, u64 cycles);

/* ENOMEM. */
int sb_sampler_init(void);
/* Waits for what beats have queued. */
void sb_sampler_flush(void);
void sb_sampler_exit(void);

#endif
