/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data of a session: an open file of the device, with its settings, its samplers (one for
 * each CPU that it has sampled, each with a ring) and its state.
 *
 * Locks, outermost first:
 *	sb_sessions_lock	the list of sessions
 *	session->lock		settings and state
 *	session->samplers_lock	the array of samplers, and the ring size while it is empty;
 *				also taken under the reader's mmap_lock
 * A tick takes none of them: the fields that it reads are marked below.
 *
 * sb_spaces_lock (space.c) and sb_module_symbols_lock are leaves; none of these locks is held around
 * them.
 *
 * The holder of one of these locks waits for no grace period, no work item, no CPU hotplug and no
 * thread of another CPU. So a session starts, changes, stops and closes even while real-time tasks
 * block all of these. A work item frees a closed session after a grace period.
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
struct mem_cgroup;
struct pid_namespace;
struct sb_sampler;
struct sb_filter;
struct sb_filter_account;
struct sb_spaces;

struct sb_session {
	/*
	 * Read by ticks with READ_ONCE() or under RCU; period and no_jitter only by ticks that
	 * change the rate in effect, since samplers have what they compute from both.
	 */
	u64 period;		/* ns, of the rate without throttling */
	u64 budget;		/* cycles of a CPU in each STACKBEAT_BUDGET_WINDOW_NS */
	u64 overhead_max;	/* maximum number of cycles that the budget counts for a tick */
	bool no_jitter;		/* the intervals between ticks are equal */
	bool unwind_tables;	/* user stacks are unwound by tables */
	u8 goroutines;		/* STACKBEAT_GOROUTINE_*: what samples have of goroutines */
	bool restricted;	/* constant: the opener has no CAP_PERFMON */
	u32 parts;		/* STACKBEAT_PART_* */
	u32 record_max;		/* bytes of the largest sample */
	u32 watermark;		/* bytes, never 0 */
	u32 stack_copy;		/* bytes of stack of a sample without its tables; 0: none */
	u32 stack_copy_every;	/* one in N samples has a copy anyway; 0: none */
	struct sb_filter __rcu *filter;	/* NULL: every process */
	bool inherit;		/* children of the filter's processes are added */

	/* Under lock; the fields that ticks read are also written under it only. */
	struct mutex lock;
	u32 rate;		/* Hz, the source of period */
	u32 max_depth;		/* user frames, the source of record_max */
	u32 budget_permille;	/* of a CPU, the source of budget */
	u32 state;		/* enum stackbeat_state; poll reads it without lock */
	cpumask_var_t cpus;	/* CPUs of the filter; all bits set: every CPU */
	bool closed;		/* also read by the worker */

	/* Under samplers_lock; array entries are set once and stay until the session is freed. */
	struct mutex samplers_lock;
	bool watermark_set;	/* false: the watermark is half of the ring size */
	/* Pages that are charged to the opener. Without the lock before open and after close. */
	unsigned long locked;
	unsigned long unwind_locked;	/* of these for unwind tables */
	struct sb_sampler **samplers;	/* by CPU, nr_cpu_ids of them */

	/* Constant after sb_session_open(). */
	u32 id;
	const struct cred *cred;	/* of the opener */
	struct mem_cgroup *memcg;	/* of the opener, with a reference; NULL: none */
	struct sb_filter_account *filters;	/* number of filters waiting to be freed */
	pid_t owner;		/* process id of the opener, from sb_session_tgid() */
	/* Namespaces and root directory of the opener of a restricted session; else NULL. */
	struct pid_namespace *pid_ns;
	struct cgroup_namespace *cgroup_ns;
	struct path root;
	char owner_comm[TASK_COMM_LEN];
	struct stackbeat_session_page *page;	/* contents: under samplers_lock */
	struct page **page_pages;	/* its memory */
	struct sb_mapping page_mapping;
	struct sb_spaces *spaces;

	unsigned long locked_max;	/* limit of charged pages; ULONG_MAX: none */

	wait_queue_head_t wait;
	struct list_head list;	/* in sb_sessions, under sb_sessions_lock */
	struct list_head slot;	/* in sb_slots, under sb_sessions_lock */
	bool closing;		/* closed, but not freed yet; under sb_sessions_lock */
	struct kref refs;
	struct rcu_work free;
};

#endif
