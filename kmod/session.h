/* SPDX-License-Identifier: GPL-2.0 */
/* Open, close and settings of sessions. */
#ifndef STACKBEAT_SESSION_H
#define STACKBEAT_SESSION_H

#include <linux/cpumask.h>
#include <linux/types.h>

#include "session_types.h"

struct netlink_ext_ack;
struct sb_filter;

/*
 * Opens a session for the current process, `restricted` if the user has no CAP_PERFMON.
 * EUSERS, ENOMEM, EOPNOTSUPP as open() in stackbeat.h.
 */
struct sb_session *sb_session_open(bool restricted);
/* Stops a session, removes it from the list, and drops the reference of its file. */
void sb_session_close(struct sb_session *session);

/* Starts a running session's samplers on CPUs that have come online. */
void sb_session_add_online_cpus(struct sb_session *session);

int sb_session_init(void);
/* No session is open. Waits until all closed sessions are freed. */
void sb_session_exit(void);

/* Returns the session with this id, or NULL. The caller must put it. */
struct sb_session *sb_session_get(u32 id);
/* Returns the open session with the lowest id >= `id`, or NULL. The caller must put it. */
struct sb_session *sb_session_next(u32 id);
void sb_session_put(struct sb_session *session);
u32 sb_session_count(void);

/*
 * Implements STACKBEAT_IOC_UNWIND_TABLE, for a session that is open. If there is no memory,
 * memory for ended processes of all sessions is freed first.
 */
int sb_session_set_table(struct sb_session *session, const struct stackbeat_unwind_push *push);

/* The settings in a message; a field is valid if its bit is set. */
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
	bool unwind_tables;
	u8 goroutines;
	u32 stack_copy;
	u32 stack_copy_every;
	cpumask_var_t cpus;
	struct sb_filter *filter;	/* with the members that are set; freed by the caller */
};

/*
 * Changes all settings or none. The caller has checked their ranges. Fails as documented for
 * STACKBEAT_CMD_SESSION_SET, with a message in extack. Allocations come last: if a start
 * fails, or the rings of added CPUs can't be allocated, the other settings stay changed.
 */
int sb_session_set(struct sb_session *session, struct sb_settings *settings,
		   struct netlink_ext_ack *extack);

#endif
