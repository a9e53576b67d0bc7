/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The beat of one session on one CPU: a pinned timer in hard interrupt context
 * that writes a record of what it interrupted into the ring of that CPU.
 */
#ifndef STACKBEAT_BEAT_H
#define STACKBEAT_BEAT_H

#include <linux/hrtimer.h>
#include <linux/irq_work.h>

#include "ring.h"
#include "session.h"

struct sb_beat {
	/* Written by the timer callback on this CPU alone. */
	struct hrtimer timer;
	struct sb_session *session;
	u64 interval;		/* ns from the beat before to the one awaited */
	u32 cpu;
	struct sb_ring ring;
	u64 beats;
	u64 samples;
	u64 idle;
	u64 filtered;
	u64 missed;
	u64 cost;		/* ns */
	struct irq_work wake;

	/* For device.c. */
	struct sb_mapping consumer_mapping;
	struct sb_mapping ring_mapping;
};

/* ENOMEM. `cpu` need not be online. */
struct sb_beat *sb_beat_alloc(struct sb_session *session, u32 cpu, u32 ring_size);
/* Frees a beat that is not started; NULL is allowed. */
void sb_beat_free(struct sb_beat *beat);

/*
 * Start and stop the session's timers on the CPUs of its filter that are online
 * and on those that come online in between. Called under session->lock.
 */
int sb_beats_start(struct sb_session *session);
void sb_beats_stop(struct sb_session *session);

int sb_beat_init(void);
void sb_beat_exit(void);

#endif
