/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A session: an open file of the device, with its settings, its beats (one for
 * each CPU that it has sampled, each with a ring) and its state.
 *
 * Locks, outermost first:
 *	sb_sessions_lock	the list of sessions
 *	session->lock		settings and state
 *	session->beats_lock	which beats exist, and the ring size before that;
 *				also taken under the reader's mmap_lock
 * A beat takes none of them: what it reads of a session is marked below.
 *
 * Nobody waits for others while he holds one: not for a grace period, a work item, CPU
 * hotplug or a thread of another CPU. So a session starts, changes, stops and closes also
 * where real-time tasks let none of these go on. What is left of a closed session is freed by a
 * work item after a grace period.
 */
#ifndef STACKBEAT_SESSION_H
#define STACKBEAT_SESSION_H

#include <linux/cpumask.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/path.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "mmap.h"
#include "stackbeat.h"

struct cgroup_namespace;
struct cred;
struct netlink_ext_ack;
struct pid_namespace;
struct sb_beat;
struct sb_filter;
struct sb_filter_account;
struct sb_spaces;

struct sb_session {
	/* Read by each beat with READ_ONCE() or under RCU. */
	u64 period;		/* ns, of the rate that was asked for */
	u64 budget;		/* cycles of a CPU in each STACKBEAT_BUDGET_WINDOW_NS */
	u64 cost_max;		/* cycles that the budget counts of one beat at most */
	bool fixed;		/* intervals are equal */
	bool restricted;	/* constant: the opener has no CAP_PERFMON */
	u32 parts;		/* STACKBEAT_PART_* */
	u32 record_max;		/* bytes of the largest sample */
	u32 watermark;		/* bytes, never 0 */
	struct sb_filter __rcu *filter;	/* NULL: every process */
	bool inherit;		/* what the filter's processes fork is added */

	/* Under lock; what a beat reads is also written only under it. */
	struct mutex lock;
	u32 rate;		/* Hz, the source of period */
	u32 max_depth;		/* user frames, the source of record_max */
	u32 budget_permille;	/* of a CPU, the source of budget */
	u32 state;		/* enum stackbeat_state; poll reads it without lock */
	cpumask_var_t cpus;	/* the filter; all bits set: every CPU */
	bool closed;		/* also read by the worker */

	/* Under beats_lock; entries are set once and stay until the end. */
	struct mutex beats_lock;
	bool watermark_set;	/* else it follows the ring size */
	unsigned long locked;	/* pages that are charged to the opener */
	struct sb_beat **beats;	/* by CPU, nr_cpu_ids of them */

	/* Constant after sb_session_open(). */
	u32 id;
	const struct cred *cred;	/* of the opener */
	struct sb_filter_account *filters;	/* those that wait to be freed */
	pid_t owner;		/* process id, as sb_session_tgid() has it */
	/* Where the opener of a restricted session is; else they are NULL. */
	struct pid_namespace *pid_ns;
	struct cgroup_namespace *cgroup_ns;
	struct path root;
	char owner_comm[TASK_COMM_LEN];
	struct stackbeat_session_page *page;	/* its contents: under beats_lock */
	struct sb_mapping page_mapping;
	struct sb_spaces *spaces;

	unsigned long locked_max;	/* pages that may be charged to the opener; ULONG_MAX: any */

	wait_queue_head_t wait;
	struct list_head list;	/* under sb_sessions_lock, read under RCU */
	struct list_head slot;	/* of those that count, under sb_sessions_lock */
	bool closing;		/* it is closed, and not freed yet; under sb_sessions_lock */
	struct kref refs;
	struct rcu_work free;
};

extern struct list_head sb_sessions;

#define sb_session_for_each_rcu(session)                                       \
	list_for_each_entry_rcu(session, &sb_sessions, list)

/*
 * Opens a session for the current process, `restricted` to what a user without
 * CAP_PERFMON may see. EUSERS, ENOMEM, and as sb_spaces_alloc().
 */
struct sb_session *sb_session_open(bool restricted);
/* Stops it, takes it off the list, and drops the reference of its file. */
void sb_session_close(struct sb_session *session);

/* Starts a running session's beats on CPUs that have come online. */
void sb_session_take_up_cpus(struct sb_session *session);

int sb_session_init(void);
/* No session is open. Waits until what is left of closed ones is freed. */
void sb_session_exit(void);

/* The session with this id, or NULL; the caller must put it. */
struct sb_session *sb_session_get(u32 id);
/* The open session with the lowest id of at least `id`, or NULL; to be put. */
struct sb_session *sb_session_next(u32 id);
void sb_session_put(struct sb_session *session);
u32 sb_session_count(void);

/*
 * The beat of a CPU, allocated with its ring if there is none yet. ENOMEM. May
 * be called under mmap_lock.
 */
struct sb_beat *sb_session_beat(struct sb_session *session, u32 cpu);
/* As above, but NULL where there is none. */
struct sb_beat *sb_session_find_beat(const struct sb_session *session, u32 cpu);

/*
 * The process id of a task in the records of this session: that in the initial namespace, or
 * in a restricted session that in its opener's, 0 if it has none there. An RCU read side.
 */
static inline pid_t sb_session_tgid(const struct sb_session *session, struct task_struct *task)
{
	return session->restricted ? task_tgid_nr_ns(task, session->pid_ns) : task->tgid;
}

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
	bool fixed;
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
