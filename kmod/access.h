/* SPDX-License-Identifier: GPL-2.0 */
/* The processes that the opener of a restricted session may look into. */
#ifndef STACKBEAT_ACCESS_H
#define STACKBEAT_ACCESS_H

#include <linux/types.h>

struct mm_struct;
struct sb_session;
struct task_struct;

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

#endif
