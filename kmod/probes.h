/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoint probes: of task switches and softirqs (idle.c), and of forks (filter.c). These
 * tracepoints are not exported to modules; they are found by their names.
 */
#ifndef STACKBEAT_PROBES_H
#define STACKBEAT_PROBES_H

/*
 * Get and put a reference to the registered probes, one for each session. The probes stay
 * registered for a minute after the last session, since registering them again may wait for a
 * grace period. The first sb_probes_get() may wait for CPU hotplug. EOPNOTSUPP: the kernel lacks
 * one of the tracepoints.
 */
int sb_probes_get(void);
void sb_probes_put(void);

int sb_probes_init(void);
/* Unregisters the probes, and waits until none is running. */
void sb_probes_exit(void);

#endif
