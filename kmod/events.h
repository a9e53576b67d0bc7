/* SPDX-License-Identifier: GPL-2.0 */
/* Session events: messages STACKBEAT_CMD_EVENT to a multicast group of generic netlink. */
#ifndef STACKBEAT_EVENTS_H
#define STACKBEAT_EVENTS_H

#include <linux/types.h>

#include "stackbeat.h"

struct genl_family;
struct sb_session;

/*
 * Sends an event to the listeners, unless the session is restricted. `cpu` and `value` are
 * used by the events that have them: the value is the rate for THROTTLED and RECOVERED, the
 * number of lost samples for LOST. May sleep.
 */
void sb_event_send(const struct sb_session *session, enum stackbeat_event event, u32 cpu,
		   u64 value);

/* Called before the first session is opened. Events go to the family's first multicast group. */
void sb_events_init(const struct genl_family *family);

#endif
