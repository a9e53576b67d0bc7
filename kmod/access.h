/* SPDX-License-Identifier: GPL-2.0 */
/* Access rules: processes and ids that the opener of a restricted session may see. */
#ifndef STACKBEAT_ACCESS_H
#define STACKBEAT_ACCESS_H

#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/types.h>

#include "session_types.h"

/*
 * Whether the opener of a restricted session may see the current task and its memory: the task
 * belongs to the same user, has no rights that the opener lacks, and has an id in the opener's
 * pid namespace. (So the opener could also inspect the task by other means.)
 */
bool sb_owner_may_see(const struct sb_session *session, const struct task_struct *task,
		      struct mm_struct *mm);

/*
 * Whether the opener may still see memory that sb_owner_may_see() has allowed before. `leader`,
 * dead or alive, is the leader of the process at that time. The caller holds references to both.
 */
bool sb_owner_may_still_see(const struct sb_session *session, const struct task_struct *leader,
			    struct mm_struct *mm);

/*
 * Returns the process id of a task in the records of a session: its id in the initial namespace,
 * or, in a restricted session, in the opener's namespace; 0: no id there. Called under RCU.
 */
static inline pid_t sb_session_tgid(const struct sb_session *session, struct task_struct *task)
{
	return session->restricted ? task_tgid_nr_ns(task, session->pid_ns) : task->tgid;
}

#endif
