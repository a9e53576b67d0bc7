/* SPDX-License-Identifier: GPL-2.0 */
/* Generic netlink: what stackbeat.h says of STACKBEAT_CMD_*. */
#ifndef STACKBEAT_CONTROL_H
#define STACKBEAT_CONTROL_H

#include <linux/types.h>

#include "stackbeat.h"

struct sb_session;

/*
 * Tells the listeners what happened to a session. `cpu` and `value` count for
 * the events that have them: the value is the rate of THROTTLED and RECOVERED,
 * the count of LOST. May sleep.
 */
void sb_control_notify(const struct sb_session *session, enum stackbeat_event event, u32 cpu,
		       u64 value);

int sb_control_init(void);
void sb_control_exit(void);

#endif
