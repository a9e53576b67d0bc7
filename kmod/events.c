// SPDX-License-Identifier: GPL-2.0
#include <linux/cache.h>
#include <linux/init.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <net/genetlink.h>

#include "events.h"
#include "session_types.h"
#include "stackbeat.h"

static const struct genl_family *sb_event_family __ro_after_init;

static int sb_put_event(struct sk_buff *skb, const struct sb_session *session,
			enum stackbeat_event event, u32 cpu, u64 value)
{
	if (nla_put_u32(skb, STACKBEAT_A_EVENT, event) ||
	    nla_put_u64_64bit(skb, STACKBEAT_A_TIME, ktime_get_ns(), STACKBEAT_A_PAD) ||
	    nla_put_u32(skb, STACKBEAT_A_SESSION, session->id))
		return -EMSGSIZE;
	switch (event) {
	case STACKBEAT_EVENT_CHANGED:
		if (nla_put_u32(skb, STACKBEAT_A_STATE, READ_ONCE(session->state)) ||
		    nla_put_u32(skb, STACKBEAT_A_RATE, READ_ONCE(session->rate)))
			return -EMSGSIZE;
		fallthrough;
	case STACKBEAT_EVENT_OPENED:
		if (nla_put_u32(skb, STACKBEAT_A_OWNER, current->tgid) ||
		    nla_put_string(skb, STACKBEAT_A_OWNER_COMM, current->comm))
			return -EMSGSIZE;
		return 0;
	case STACKBEAT_EVENT_THROTTLED:
	case STACKBEAT_EVENT_RECOVERED:
		if (nla_put_u32(skb, STACKBEAT_A_RATE, value))
			return -EMSGSIZE;
		break;
	case STACKBEAT_EVENT_LOST:
		if (nla_put_u64_64bit(skb, STACKBEAT_A_LOST_SAMPLES, value, STACKBEAT_A_PAD))
			return -EMSGSIZE;
		break;
	case STACKBEAT_EVENT_CPU_OFFLINE:
	case STACKBEAT_EVENT_CPU_ONLINE:
	case STACKBEAT_EVENT_KERNEL_RULES_OFF:
		break;
	default:
		return 0;
	}
	return nla_put_u32(skb, STACKBEAT_A_CPU, cpu);
}

void sb_event_send(const struct sb_session *session, enum stackbeat_event event, u32 cpu,
		   u64 value)
{
	struct sk_buff *skb;
	void *header;

	if (session->restricted || !genl_has_listeners(sb_event_family, &init_net, 0))
		return;
	skb = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (!skb)
		return;
	header = genlmsg_put(skb, 0, 0, sb_event_family, 0, STACKBEAT_CMD_EVENT);
	if (!header || sb_put_event(skb, session, event, cpu, value)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, header);
	genlmsg_multicast(sb_event_family, skb, 0, 0, GFP_KERNEL);
}

void __init sb_events_init(const struct genl_family *family)
{
	sb_event_family = family;
}
