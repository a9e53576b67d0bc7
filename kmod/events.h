/* SPDX-License-Identifier: GPL-2.0 */
/* Events of sessions: messages STACKBEAT_CMD_EVENT to a multicast group of generic netlink. */
#ifndef STACKBEAT_EVENTS_H
#define STACKBEAT_EVENTS_H

#include <linux/types.h>

#include "stackbeat.h"

struct genl_family;
struct sb_session;

/*
 * Sends an event to the listeners, unless the session is restricted. `cpu` and `value` count
 * for the events that have them: the value is the rate of THROTTLED and RECOVERED, the count
 * of LOST. May sleep.
 */
void sb_event_send(const struct sb_session *session, enum stackbeat_event event, u32 cpu,
		   u64 value);

/* Before the first session. The family's first multicast group gets the events. */
void sb_events_init(const struct genl_family *family);

#endif
