/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The beats of a session, one for each CPU that it has sampled: allocation, start and stop.
 *
 * Beats are started and stopped by interrupts that are sent to the CPUs of the session, and to
 * no other: no thread of a CPU has to run for that, and no lock of CPU hotplug is taken.
 */
#ifndef STACKBEAT_SAMPLERS_H
#define STACKBEAT_SAMPLERS_H

#include <linux/types.h>

struct sb_sampler;
struct sb_session;

/*
 * The beat of a CPU, allocated with its ring if there is none yet. ENOMEM. May
 * be called under mmap_lock.
 */
struct sb_sampler *sb_session_get_sampler(struct sb_session *session, u32 cpu);
/* As above, but NULL where there is none. Without a lock. */
struct sb_sampler *sb_session_find_sampler(const struct sb_session *session, u32 cpu);

/*
 * Start and stop the session's timers on the CPUs of its filter that are online, and on CPUs
 * that come online meanwhile. Both wait for nothing but the interrupts on these CPUs. Called
 * under session->lock, after the state was changed.
 */
void sb_samplers_start(struct sb_session *session);
void sb_samplers_stop(struct sb_session *session);
/* As sb_samplers_start(), on one CPU. Returns whether its beat runs now. */
bool sb_samplers_start_on(struct sb_session *session, u32 cpu);

/*
 * Applies a changed set of CPUs, or a changed rate, to a running session before it returns.
 * ENOMEM: not all CPUs got a ring.
 */
int sb_samplers_update(struct sb_session *session);

#endif
