/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a CPU has: the beats that run on it, of all sessions, whether it is idle, and
 * an account of the time that these beats take.
 *
 * All of it is used on that CPU alone, with interrupts off, so nothing here needs a
 * lock. Beats are started and stopped by interrupts that are sent to the CPUs of the
 * session, and to no other: no thread of a CPU has to run for that, and no lock of CPU
 * hotplug is taken. A CPU that comes online is taken up by a work item.
 */
#ifndef STACKBEAT_CPU_H
#define STACKBEAT_CPU_H

#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/types.h>

#include "compat/compat-config.h"

struct sb_beat;
struct sb_session;
struct task_struct;

struct sb_cpu {
	struct hlist_head beats;	/* those that run here */
	u32 running;			/* their number */
	bool online;			/* beats may be started */
	bool parked;			/* it is idle: the timer of a beat is cancelled */

	/* The budget's account, in cycles of the time-stamp counter. */
	u64 cost;		/* of all beats here, also of those that are gone */
	u64 gone;		/* of those that do not run any more, while they ran */
	u64 parking;		/* of parking, since the window began */
	u64 window_end;		/* ns: of the window for beats that are new */
	u64 window_cost;	/* cost when it began */
	u64 window_gone;	/* gone when it began */

	/*
	 * The period, in ns, below which beats of restricted sessions that are new do
	 * not begin: what throttling had left when others were stopped. It is halved
	 * in each window.
	 */
	u64 floor;
	u64 floor_time;		/* ns, when it was set */
};

DECLARE_PER_CPU(struct sb_cpu, sb_cpus);

/*
 * Start and stop the session's timers on the CPUs of its filter that are online
 * and on those that come online in between. They wait for nobody but for the
 * interrupt on these CPUs. Called under session->lock, after the state was changed.
 */
void sb_beats_start(struct sb_session *session);
void sb_beats_stop(struct sb_session *session);
/* As sb_beats_start(), on one CPU. Whether its beat runs now. */
bool sb_beats_start_on(struct sb_session *session, u32 cpu);

/*
 * Makes a changed set of CPUs, or a changed rate, take effect in a running
 * session before it returns. ENOMEM: not all CPUs got a ring.
 */
int sb_beats_update(struct sb_session *session);

/* Probes of tracepoints, see probes.c. */
#ifdef HAVE_SCHED_SWITCH_PREV_STATE
void sb_cpu_on_sched_switch(void *data, bool preempt, struct task_struct *prev,
			    struct task_struct *next, unsigned int prev_state);
#else
void sb_cpu_on_sched_switch(void *data, bool preempt, struct task_struct *prev,
			    struct task_struct *next);
#endif
void sb_cpu_on_softirq_entry(void *data, unsigned int softirq);
void sb_cpu_on_softirq_exit(void *data, unsigned int softirq);

int sb_cpu_init(void);
void sb_cpu_exit(void);

#endif
