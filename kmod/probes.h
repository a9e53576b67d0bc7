/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's tracepoints that the module has probes of: where tasks are switched and softirqs
 * run (idle.c), and where tasks fork (filter.c). They are not exported to modules, and are
 * found by their names.
 */
#ifndef STACKBEAT_PROBES_H
#define STACKBEAT_PROBES_H

/*
 * Registers the probes while there is a session; calls nest. What is registered stays for a
 * minute after the last session: registering again may wait for a grace period.
 * EOPNOTSUPP: the kernel has no such tracepoints. The first one may wait for CPU hotplug.
 */
int sb_probes_get(void);
void sb_probes_put(void);

int sb_probes_init(void);
/* Waits until no probe is under way. */
void sb_probes_exit(void);

#endif
