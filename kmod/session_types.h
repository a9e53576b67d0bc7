/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data of a session: an open file of the device, with its settings, its beats (one for
 * each CPU that it has sampled, each with a ring) and its state.
 *
 * Locks, outermost first:
 *	sb_sessions_lock	the list of sessions
 *	session->lock		settings and state
 *	session->samplers_lock	which beats exist, and the ring size before that;
 *				also taken under the reader's mmap_lock
 * A beat takes none of them: the fields that it reads are marked below.
 *
 * The holder of a lock waits for no grace period, no work item, no CPU hotplug and no thread of
 * another CPU. So a session starts, changes, stops and closes also where real-time tasks let
 * none of these go on. A work item frees a closed session after a grace period.
 */
#ifndef STACKBEAT_SESSION_TYPES_H
#define STACKBEAT_SESSION_TYPES_H

#include <linux/cpumask.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/path.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "mmap.h"
#include "stackbeat.h"

struct cgroup_namespace;
struct cred;
struct pid_namespace;
struct sb_sampler;
struct sb_filter;
struct sb_filter_account;
struct sb_spaces;

struct sb_session {
	/* Read by each beat with READ_ONCE() or under RCU. */
	u64 period;		/* ns, of the rate that was asked for */
	u64 budget;		/* cycles of a CPU in each STACKBEAT_BUDGET_WINDOW_NS */
	u64 overhead_max;		/* cycles that the budget counts of one beat at most */
	bool no_jitter;		/* intervals are equal */
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

	/* Under samplers_lock; entries are set once and stay until the end. */
	struct mutex samplers_lock;
	bool watermark_set;	/* else it follows the ring size */
	unsigned long locked;	/* pages that are charged to the opener */
	struct sb_sampler **samplers;	/* by CPU, nr_cpu_ids of them */

	/* Constant after sb_session_open(). */
	u32 id;
	const struct cred *cred;	/* of the opener */
	struct sb_filter_account *filters;	/* counts filters that wait to be freed */
	pid_t owner;		/* process id, by sb_session_tgid() */
	/* The namespaces and the root of the opener of a restricted session; else NULL. */
	struct pid_namespace *pid_ns;
	struct cgroup_namespace *cgroup_ns;
	struct path root;
	char owner_comm[TASK_COMM_LEN];
	struct stackbeat_session_page *page;	/* its contents: under samplers_lock */
	struct sb_mapping page_mapping;
	struct sb_spaces *spaces;

	unsigned long locked_max;	/* pages that may be charged to the opener; ULONG_MAX: any */

	wait_queue_head_t wait;
	struct list_head list;	/* of open ones, under sb_sessions_lock */
	struct list_head slot;	/* of sessions that take a slot, under sb_sessions_lock */
	bool closing;		/* it is closed, and not freed yet; under sb_sessions_lock */
	struct kref refs;
	struct rcu_work free;
};

#endif
