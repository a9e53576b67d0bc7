/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The beat of one session on one CPU: a pinned timer in hard interrupt context
 * that writes a record of what it interrupted into the ring of that CPU.
 */
#ifndef STACKBEAT_BEAT_H
#define STACKBEAT_BEAT_H

#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/workqueue.h>

#include "ring.h"
#include "session.h"
#include "space.h"

struct sb_beat {
	/* Used on this CPU alone, with interrupts off. The ring first: it needs no offset. */
	struct sb_ring ring;
	struct hrtimer timer;
	struct sb_session *session;
	u64 period;		/* ns, mean; of the beat that is awaited */
	u32 missed;		/* intervals before it without a beat */
	u32 cpu;
	u64 beats;
	u64 samples;
	u64 idle;
	u64 filtered;
	u64 missed_sum;
	u64 cost;		/* cycles */
	u64 time;		/* ns that the beats stood for */
	u64 window_end;		/* ns, of the budget's window */
	u64 window_cost;	/* cost when it began */
	u64 synced;		/* cycles, when the clock was read */
	u64 synced_ns;		/* what it said */
	u64 sync_cycles;	/* how long that is good for */
	u64 throttled;		/* how often the rate was halved */
	u64 random;		/* state of the generator */
	u32 shift;		/* the rate is halved so many times now */
	bool running;
	bool parked;		/* running, and the CPU is idle: no timer */
	u64 next_report;	/* ns: losses are not reported before */
	struct irq_work wake;
	struct sb_last_space last;
	struct sb_seen_queue *seen;

	/* The report of what happened in beats: queued by them. */
	struct work_struct report;
	u32 reported_shift;	/* by the work alone */
	u64 reported_lost;	/* by the work alone */

	/* For device.c. */
	struct sb_mapping consumer_mapping;
	struct sb_mapping ring_mapping;
};

/* ENOMEM. `cpu` need not be online. */
struct sb_beat *sb_beat_alloc(struct sb_session *session, u32 cpu, u32 ring_size);
/* Frees a beat that is not started; NULL is allowed. */
void sb_beat_free(struct sb_beat *beat);

/* Cycles of the time-stamp counter, for less than a minute. */
u64 sb_ns_to_cycles(u64 ns);

/* ns that its callback has taken. */
u64 sb_beat_cost(const struct sb_beat *beat);

/* Hz in effect on its CPU now; 0 when it does not run there. */
u32 sb_beat_rate(const struct sb_beat *beat);

/*
 * Start and stop the session's timers on the CPUs of its filter that are online
 * and on those that come online in between. Called under session->lock.
 */
int sb_beats_start(struct sb_session *session);
void sb_beats_stop(struct sb_session *session);

/*
 * Makes a changed set of CPUs, or a changed rate, take effect in a running
 * session before it returns. ENOMEM: not all CPUs got a ring.
 */
int sb_beats_update(struct sb_session *session);

/*
 * Whether a task, and memory that it has or had, is something that the opener of a
 * restricted session could look into by other means too: his own, with no rights that
 * he does not have.
 */
bool sb_owner_may_see(const struct sb_session *session, const struct task_struct *task,
		      struct mm_struct *mm);

/* ENODEV: the machine has no time-stamp counter that keeps time. ENOMEM. */
int sb_beat_init(void);
void sb_beat_exit(void);

#endif
