/* SPDX-License-Identifier: GPL-2.0 */
/* The processes, and the ids of processes, that the opener of a restricted session may see. */
#ifndef STACKBEAT_ACCESS_H
#define STACKBEAT_ACCESS_H

#include <linux/sched.h>
#include <linux/types.h>

#include "session_types.h"

/*
 * Whether the current task, and its memory, is something that the opener of a restricted
 * session could look into by other means too: his own, with no rights that he does not
 * have, and with an id in his pid namespace.
 */
bool sb_owner_may_see(const struct sb_session *session, const struct task_struct *task,
		      struct mm_struct *mm);

/*
 * Whether he still may: memory that he could look into, and the leader, dead or alive, of
 * the process of that time. Called with a reference to both.
 */
bool sb_owner_may_still_see(const struct sb_session *session, const struct task_struct *leader,
			    struct mm_struct *mm);

/*
 * The process id of a task in the records of this session: that in the initial namespace, or
 * in a restricted session that in its opener's, 0 if it has none there. An RCU read side.
 */
static inline pid_t sb_session_tgid(const struct sb_session *session, struct task_struct *task)
{
	return session->restricted ? task_tgid_nr_ns(task, session->pid_ns) : task->tgid;
}

#endif
