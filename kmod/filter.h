/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which processes a session samples. A filter is a bitmap with a bit for each
 * process id that there can be, so that a beat asks with one load and a fork
 * adds a child with one atomic store; it takes 512 KiB while it is in use.
 *
 * A session points to its filter under RCU; a beat reads it with interrupts
 * off, which is a read side. Replaced filters wait for a grace period.
 */
#ifndef STACKBEAT_FILTER_H
#define STACKBEAT_FILTER_H

#include <linux/bitops.h>
#include <linux/sched.h>
#include <linux/types.h>

struct sb_filter {
	u32 count;		/* of pids[] */
	pid_t *pids;		/* as they were asked for, initial namespace */
	unsigned long *bits;	/* by process id, initial namespace */
};

/* A filter of no process, with room for `capacity`. NULL when out of memory. */
struct sb_filter *sb_filter_alloc(u32 capacity);
/* Frees a filter that no beat can see any more; NULL is allowed. */
void sb_filter_free(struct sb_filter *filter);

/*
 * Adds the process with this id in the caller's pid namespace. ESRCH: there is
 * none. The filter's capacity must suffice.
 */
int sb_filter_add(struct sb_filter *filter, pid_t pid);

static inline bool sb_filter_has(const struct sb_filter *filter,
				 const struct task_struct *task)
{
	return test_bit(task->tgid, filter->bits);
}

/*
 * Follows the forks and deaths of processes while at least one user is there.
 * Nested calls count. sb_filter_follow() can fail with ENOENT when the kernel
 * has no such tracepoints.
 */
int sb_filter_follow(void);
void sb_filter_unfollow(void);

#endif
