// SPDX-License-Identifier: GPL-2.0
#include <linux/cred.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "access.h"
#include "compat/compat.h"

/*
 * The access rule of ptrace, without its locks. Uses __task_cred(), because credentials that the
 * task has overridden, such as the rights of an overlay file system, do not change its owner.
 */
static bool sb_owner_has_rights(const struct cred *owner, const struct task_struct *task,
				struct mm_struct *mm)
{
	const struct cred *cred = __task_cred(task);

	if (!uid_eq(cred->uid, owner->uid) || !uid_eq(cred->euid, owner->uid) ||
	    !uid_eq(cred->suid, owner->uid) || !gid_eq(cred->gid, owner->gid) ||
	    !gid_eq(cred->egid, owner->gid) || !gid_eq(cred->sgid, owner->gid) ||
	    cred->user_ns != owner->user_ns ||
	    !cap_issubset(cred->cap_permitted, owner->cap_permitted))
		return false;
	/*
	 * A task that gives up rights becomes undumpable first. Pairs with the barrier in
	 * commit_creds().
	 */
	smp_rmb();
	return sb_is_dumpable(task, mm);
}

static bool sb_has_id_in(const struct task_struct *task, const struct pid_namespace *ns)
{
	const struct pid *pid = READ_ONCE(task->thread_pid);

	return pid && pid->level >= ns->level && pid->numbers[ns->level].ns == ns;
}

bool sb_owner_may_see(const struct sb_session *session, const struct task_struct *task,
		      struct mm_struct *mm)
{
	bool may;

	rcu_read_lock();
	may = sb_has_id_in(task, session->pid_ns) && sb_owner_has_rights(session->cred, task, mm);
	rcu_read_unlock();
	return may;
}

/*
 * The pid namespace of a process does not change. If the process has executed another program, its
 * rights now belong to that program: its rights while it used `mm` were checked at the sample.
 */
bool sb_owner_may_still_see(const struct sb_session *session, const struct task_struct *leader,
			    struct mm_struct *mm)
{
	const struct mm_struct *now = READ_ONCE(leader->mm);
	bool may;

	if (now && now != mm)
		return true;
	rcu_read_lock();
	may = sb_owner_has_rights(session->cred, leader, mm);
	rcu_read_unlock();
	return may;
}
