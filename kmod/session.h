/* SPDX-License-Identifier: GPL-2.0 */
/* Life and settings of sessions. */
#ifndef STACKBEAT_SESSION_H
#define STACKBEAT_SESSION_H

#include <linux/cpumask.h>
#include <linux/types.h>

#include "session_types.h"

struct netlink_ext_ack;
struct sb_filter;

/*
 * Opens a session for the current process, `restricted` to what a user without
 * CAP_PERFMON may see. EUSERS, ENOMEM, and as sb_spaces_alloc().
 */
struct sb_session *sb_session_open(bool restricted);
/* Stops it, takes it off the list, and drops the reference of its file. */
void sb_session_close(struct sb_session *session);

/* Starts a running session's beats on CPUs that have come online. */
void sb_session_add_online_cpus(struct sb_session *session);

int sb_session_init(void);
/* No session is open. Waits until what is left of closed ones is freed. */
void sb_session_exit(void);

/* The session with this id, or NULL; the caller must put it. */
struct sb_session *sb_session_get(u32 id);
/* The open session with the lowest id of at least `id`, or NULL; to be put. */
struct sb_session *sb_session_next(u32 id);
void sb_session_put(struct sb_session *session);
u32 sb_session_count(void);

/* What a message wants to change; a field counts where its bit is set. */
struct sb_settings {
	u64 set;		/* BIT_ULL(enum stackbeat_attr) */
	u32 state;
	u32 rate;
	u32 parts;
	u32 max_depth;
	u32 ring_size;
	u32 watermark;
	u32 budget_permille;
	bool inherit;
	bool no_jitter;
	cpumask_var_t cpus;
	struct sb_filter *filter;	/* of this, the members that are set; to be freed */
};

/*
 * Changes all settings or none. Values must be in their ranges already. Fails
 * as STACKBEAT_CMD_SESSION_SET is documented to, with a message in extack. What
 * needs memory comes last: a start that fails, and rings for CPUs that come in,
 * leave the other settings changed.
 */
int sb_session_set(struct sb_session *session, struct sb_settings *settings,
		   struct netlink_ext_ack *extack);

#endif
