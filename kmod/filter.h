/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The filter of a session: sampled processes, threads and control groups, and excluded
 * thread names. A session points to its filter under RCU; a tick reads it with
 * interrupts off, which is an RCU read side. A filter is immutable except for the
 * bits of its sets: a setting replaces it by a new filter, which shares the unchanged
 * sets.
 *
 * Sets follow forks from their first id on, even while their filter is still being
 * read from a message. Filters and their sets are freed after a grace period, without
 * waiting for it; a session may have SB_FILTERS_WAITING_MAX filters waiting.
 */
#ifndef STACKBEAT_FILTER_H
#define STACKBEAT_FILTER_H

#include <linux/bitops.h>
#include <linux/cgroup.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "compat/compat.h"
#include "stackbeat.h"

/*
 * A set of process or thread ids: a bitmap with a bit for each possible id, so that a
 * tick tests a task with one load and a fork adds a child with one atomic store. It
 * takes 512 KiB while it is in use.
 */
struct sb_id_set {
	struct list_head list;	/* of all sets, under RCU */
	struct kref refs;
	bool of_processes;	/* false: of threads */
	bool inherit;		/* children forked by its processes are added */
	u32 count;		/* number of ids[] */
	pid_t *ids;		/* ids of the message, initial namespace */
	unsigned long *bits;	/* by id, initial namespace */
};

/* Counts the filters of a session waiting for a grace period. Outlives the session. */
struct sb_filter_account {
	struct kref refs;	/* of the session, and of each waiting filter */
};

struct sb_filter {
	struct rcu_work free;
	struct sb_filter_account *account;
	struct sb_id_set *last[2];	/* sets freed with the filter */
	bool published;		/* a tick may have used it */
	struct sb_id_set *processes;	/* NULL: not a criterion */
	struct sb_id_set *threads;	/* NULL: not a criterion */
	u32 cgroup_count;		/* 0: not a criterion */
	u32 comm_count;
	u64 cgroups[STACKBEAT_CGROUPS_MAX];
	char excluded_comms[STACKBEAT_COMMS_MAX][STACKBEAT_COMM_SIZE]; /* padded with 0 */
};

/* Returns a new account, to be put by the caller. NULL: no memory. */
struct sb_filter_account *sb_filter_account_alloc(void);
/* NULL is allowed. */
void sb_filter_account_put(struct sb_filter_account *account);
/* Whether the maximum number of filters is waiting. */
bool sb_filter_account_is_full(const struct sb_filter_account *account);

/* Returns an empty filter; NULL: no memory. The account must be held until it is freed. */
struct sb_filter *sb_filter_alloc(struct sb_filter_account *account);

/*
 * Drops the sets of a filter, and frees it once no tick can use it any more. NULL is
 * allowed. Called in process context; does not wait.
 */
void sb_filter_free(struct sb_filter *filter);

/*
 * Returns an empty set with room for `capacity` ids, which follows forks from now on.
 * It is freed with the last filter that has it. ENOMEM.
 */
struct sb_id_set *sb_id_set_alloc(u32 capacity, bool of_processes, bool inherit);

/*
 * Adds the process, or thread, with this id in the caller's pid namespace. The set must
 * have room for it. ESRCH: no such process or thread.
 */
int sb_id_set_add(struct sb_id_set *set, pid_t id);

/* Probe of the tracepoint sched_process_fork, see probes.c. */
void sb_filter_on_fork(void *data, struct task_struct *parent, struct task_struct *child);

/* ENOMEM. */
int sb_filter_init(void);
/* Waits until all filters are freed. */
void sb_filter_exit(void);

static inline bool sb_filter_excludes(const struct sb_filter *filter,
				      const struct task_struct *task)
{
	u32 i;

	for (i = 0; i < filter->comm_count; i++) {
		if (!strncmp(filter->excluded_comms[i], task->comm, STACKBEAT_COMM_SIZE))
			return true;
	}
	return false;
}

/* Limited to levels near the root: hierarchies may be very deep, and interrupts are off. */
static inline bool sb_filter_has_cgroup(const struct sb_filter *filter,
					struct task_struct *task)
{
	const struct cgroup *cgroup = task_dfl_cgroup(task);
	int levels = min_t(int, cgroup->level + 1, STACKBEAT_CGROUP_LEVELS_MAX);
	int level;
	u64 id;
	u32 i;

	for (level = 0; level < levels; level++) {
		id = sb_cgroup_ancestor_id(cgroup, level);
		for (i = 0; i < filter->cgroup_count; i++) {
			if (id == filter->cgroups[i])
				return true;
		}
	}
	return false;
}

/* Whether the filter includes a task; called in each tick for the current task. */
static inline bool sb_filter_wants(const struct sb_filter *filter, struct task_struct *task)
{
	if (filter->comm_count && sb_filter_excludes(filter, task))
		return false;
	if (filter->processes && test_bit(task->tgid, filter->processes->bits))
		return true;
	if (filter->threads && test_bit(task->pid, filter->threads->bits))
		return true;
	if (filter->cgroup_count)
		return sb_filter_has_cgroup(filter, task);
	return !filter->processes && !filter->threads;
}

#endif
