// SPDX-License-Identifier: GPL-2.0
// task_struct.exec_state.dumpable, instead of a flag of the mm (7.2).
#include <linux/sched.h>
#include <linux/sched/coredump.h>
#include <linux/sched/exec_state.h>

bool probe(const struct task_struct *task);

bool probe(const struct task_struct *task)
{
	return rcu_dereference(task->exec_state)->dumpable == TASK_DUMPABLE_OWNER;
}
