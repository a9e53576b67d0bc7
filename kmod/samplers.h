/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The samplers of a session, one for each CPU that it has sampled: allocation, start and stop.
 *
 * Samplers are started and stopped by interrupts sent only to the CPUs of the session: no
 * thread of a CPU has to run for that, and no lock of CPU hotplug is taken.
 */
#ifndef STACKBEAT_SAMPLERS_H
#define STACKBEAT_SAMPLERS_H

#include <linux/types.h>

struct sb_sampler;
struct sb_session;

/*
 * Returns the sampler of a CPU. Allocates it and its ring if there is none yet. ENOMEM. May be
 * called under mmap_lock.
 */
struct sb_sampler *sb_session_ensure_sampler(struct sb_session *session, u32 cpu);
/* Returns the sampler of a CPU, or NULL. Takes no lock. */
struct sb_sampler *sb_session_find_sampler(const struct sb_session *session, u32 cpu);

/*
 * Start and stop the session's samplers on the online CPUs of its filter, and on CPUs that come
 * online meanwhile. Both wait only for the interrupts on these CPUs. Called under session->lock,
 * after the state was changed.
 */
void sb_samplers_start(struct sb_session *session);
void sb_samplers_stop(struct sb_session *session);
/* As sb_samplers_start(), on one CPU. Returns whether its sampler is running now. */
bool sb_samplers_start_on(struct sb_session *session, u32 cpu);

/*
 * Applies a changed set of CPUs, or a changed rate, to a running session; both are in effect on
 * return. ENOMEM: not all CPUs got a ring.
 */
int sb_samplers_update(struct sb_session *session);
/* Applies a changed jitter to the samplers that are running. Called under session->lock. */
void sb_samplers_retime(struct sb_session *session);

#endif
