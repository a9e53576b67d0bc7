/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a session samples: processes, threads, control groups, and names that it
 * leaves out. A session points to its filter under RCU; a beat reads it with
 * interrupts off, which is a read side. A filter does not change but for the
 * bits of its sets: a setting replaces it by another one, which takes over the
 * sets that stay.
 *
 * Sets follow forks from their first id on, also while their filter is still being
 * read from a message. Nobody waits for the grace period after which a filter and
 * its sets are freed; a session may have SB_FILTERS_WAITING_MAX filters that wait.
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
 * A set of process or thread ids: a bitmap with a bit for each id that there
 * can be, so that a beat asks with one load and a fork adds a child with one
 * atomic store. It takes 512 KiB while it is in use.
 */
struct sb_id_set {
	struct list_head list;	/* of all sets, under RCU */
	struct kref refs;
	bool of_processes;	/* else of threads */
	bool inherit;		/* what its processes fork is added */
	u32 count;		/* of ids[] */
	pid_t *ids;		/* as they were asked for, initial namespace */
	unsigned long *bits;	/* by id, initial namespace */
};

/* Counts the filters of a session that wait for a grace period, and outlives the session. */
struct sb_filter_account {
	struct kref refs;	/* the session, and each filter that waits */
};

struct sb_filter {
	struct rcu_work free;
	struct sb_filter_account *account;
	struct sb_id_set *last[2];	/* sets that are freed with it */
	bool published;		/* a beat may have seen it */
	struct sb_id_set *processes;	/* NULL: not a criterion */
	struct sb_id_set *threads;	/* NULL: not a criterion */
	u32 cgroup_count;		/* 0: not a criterion */
	u32 comm_count;
	u64 cgroups[STACKBEAT_CGROUPS_MAX];
	char excluded_comms[STACKBEAT_COMMS_MAX][STACKBEAT_COMM_SIZE]; /* padded with 0 */
};

/* NULL: no memory. To be put. */
struct sb_filter_account *sb_filter_account_alloc(void);
/* NULL is allowed. */
void sb_filter_account_put(struct sb_filter_account *account);
/* Whether so many filters wait that there must not be one more. */
bool sb_filter_account_is_full(const struct sb_filter_account *account);

/* An empty filter; NULL: no memory. The account must be held until it is freed. */
struct sb_filter *sb_filter_alloc(struct sb_filter_account *account);

/*
 * Frees a filter once no beat can see it any more, and drops its sets. NULL is
 * allowed. From process context; waits for nothing.
 */
void sb_filter_free(struct sb_filter *filter);

/*
 * An empty set with room for `capacity` ids, which follows forks from now on.
 * ENOMEM. It is freed with the
 * filters that have it.
 */
struct sb_id_set *sb_id_set_alloc(u32 capacity, bool of_processes, bool inherit);

/*
 * Adds the process, or thread, with this id in the caller's pid namespace. ESRCH:
 * there is none. The set's capacity must suffice.
 */
int sb_id_set_add(struct sb_id_set *set, pid_t id);

/* A probe of a tracepoint, see probes.c. */
void sb_filter_on_fork(void *data, struct task_struct *parent, struct task_struct *child);

/* ENOMEM. */
int sb_filter_init(void);
/* Waits for all filters to be freed. */
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

/* From the root down: hierarchies may be thousands of levels deep, and interrupts are off. */
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

/* Whether a task is one to be sampled; asked by each sampler, for the current one. */
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
