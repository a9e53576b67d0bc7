/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a session samples: processes, threads, control groups, and names that it
 * leaves out. A session points to its filter under RCU; a beat reads it with
 * interrupts off, which is a read side. A filter does not change but for the
 * bits of its sets: a setting replaces it by another one, which takes over the
 * sets that stay.
 */
#ifndef STACKBEAT_FILTER_H
#define STACKBEAT_FILTER_H

#include <linux/bitops.h>
#include <linux/cgroup.h>
#include <linux/kref.h>
#include <linux/sched.h>
#include <linux/types.h>

#include "stackbeat.h"

/*
 * A set of process or thread ids: a bitmap with a bit for each id that there
 * can be, so that a beat asks with one load and a fork adds a child with one
 * atomic store. It takes 512 KiB while it is in use.
 */
struct sb_id_set {
	struct kref refs;
	u32 count;		/* of ids[] */
	pid_t *ids;		/* as they were asked for, initial namespace */
	unsigned long *bits;	/* by id, initial namespace */
};

struct sb_filter {
	struct sb_id_set *processes;	/* NULL: not a criterion */
	struct sb_id_set *threads;	/* NULL: not a criterion */
	u32 cgroup_count;		/* 0: not a criterion */
	u32 comm_count;
	u64 cgroups[STACKBEAT_CGROUPS_MAX];
	char excluded_comms[STACKBEAT_COMMS_MAX][STACKBEAT_COMM_SIZE]; /* padded with 0 */
};

/*
 * An empty set with room for `capacity` ids; forks and deaths are followed while
 * it lives. ENOMEM; ENOENT when the kernel has no tracepoints for them.
 */
struct sb_id_set *sb_id_set_alloc(u32 capacity);
/* Drops a reference; NULL is allowed. May sleep. */
void sb_id_set_put(struct sb_id_set *set);

/*
 * Add the process or thread with this id in the caller's pid namespace. ESRCH:
 * there is none. The set's capacity must suffice.
 */
int sb_id_set_add_process(struct sb_id_set *set, pid_t pid);
int sb_id_set_add_thread(struct sb_id_set *set, pid_t tid);

/* Frees a filter that no beat can see any more; NULL is allowed. */
void sb_filter_free(struct sb_filter *filter);

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

static inline bool sb_filter_has_cgroup(const struct sb_filter *filter,
					struct task_struct *task)
{
	struct cgroup *cgroup;
	u32 i;

	for (cgroup = task_dfl_cgroup(task); cgroup; cgroup = cgroup_parent(cgroup)) {
		for (i = 0; i < filter->cgroup_count; i++) {
			if (cgroup_id(cgroup) == filter->cgroups[i])
				return true;
		}
	}
	return false;
}

/* Whether a task is one to be sampled; asked by each beat, for the current one. */
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
