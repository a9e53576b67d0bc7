// SPDX-License-Identifier: GPL-2.0
/* Whether a task may be dumped: in its exec_state, no longer in its mm. 7.2. */
#include <linux/sched.h>
#include <linux/sched/coredump.h>
#include <linux/sched/exec_state.h>

bool probe(const struct task_struct *task);

bool probe(const struct task_struct *task)
{
	return rcu_dereference(task->exec_state)->dumpable == TASK_DUMPABLE_OWNER;
}
