/* SPDX-License-Identifier: GPL-2.0 */
/* The processes, and the ids of processes, that the opener of a restricted session may see. */
#ifndef STACKBEAT_ACCESS_H
#define STACKBEAT_ACCESS_H

#include <linux/sched.h>
#include <linux/types.h>

#include "session_types.h"

/*
 * Whether the opener of a restricted session may see the current task and its memory. The opener
 * could look into them by other means too: the task belongs to the same user, has no rights
 * that the opener does not have, and has an id in the opener's pid namespace.
 */
bool sb_owner_may_see(const struct sb_session *session, const struct task_struct *task,
		      struct mm_struct *mm);

/*
 * Whether the opener may still see memory that sb_owner_may_see() has allowed before. `leader`,
 * dead or alive, is the leader of the process of that time. The caller has a reference to both.
 */
bool sb_owner_may_still_see(const struct sb_session *session, const struct task_struct *leader,
			    struct mm_struct *mm);

/*
 * The process id of a task in the records of a session: its id in the initial namespace, or, in a
 * restricted session, in the opener's namespace, 0 if it has none there. Under RCU.
 */
static inline pid_t sb_session_tgid(const struct sb_session *session, struct task_struct *task)
{
	return session->restricted ? task_tgid_nr_ns(task, session->pid_ns) : task->tgid;
}

#endif
