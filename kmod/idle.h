/* SPDX-License-Identifier: GPL-2.0 */
/* Idle CPUs: the timers of samplers are cancelled (parked) while there is nothing to sample. */
#ifndef STACKBEAT_IDLE_H
#define STACKBEAT_IDLE_H

#include <linux/types.h>

#include "compat/compat-config.h"

struct task_struct;

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

#endif
