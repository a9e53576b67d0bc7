// SPDX-License-Identifier: GPL-2.0
// sched_switch has an argument prev_state, after the next task (5.19).
#include <trace/events/sched.h>

void sb_probe(void (*on_switch)(void *data, bool preempt, struct task_struct *prev,
				struct task_struct *next, unsigned int prev_state));

void sb_probe(void (*on_switch)(void *data, bool preempt, struct task_struct *prev,
				struct task_struct *next, unsigned int prev_state))
{
	check_trace_callback_type_sched_switch(on_switch);
}
