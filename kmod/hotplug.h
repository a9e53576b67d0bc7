/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CPU hotplug: samplers are stopped on a CPU that goes offline. A work item starts them on a CPU
 * that comes online.
 */
#ifndef STACKBEAT_HOTPLUG_H
#define STACKBEAT_HOTPLUG_H

int sb_hotplug_init(void);
/* Waits for the work item. */
void sb_hotplug_exit(void);

#endif
