/* SPDX-License-Identifier: GPL-2.0 */
/* RCU of one thread: what call_rcu() queues is called by shim_end_grace_period(). */
#ifndef SHIM_LINUX_RCUPDATE_H
#define SHIM_LINUX_RCUPDATE_H

#include <linux/compiler.h>

#define __rcu

struct rcu_head {
	struct rcu_head *next;
	void (*function)(struct rcu_head *rcu);
};

void call_rcu(struct rcu_head *rcu, void (*function)(struct rcu_head *rcu));
void shim_end_grace_period(void);

#define rcu_barrier() shim_end_grace_period()
#define rcu_access_pointer(pointer) (pointer)
#define rcu_dereference_protected(pointer, condition) (pointer)
#define rcu_dereference_sched(pointer) (pointer)
#define rcu_assign_pointer(pointer, value) smp_store_release(&(pointer), value)
#define RCU_INIT_POINTER(pointer, value) ((void)((pointer) = (value)))

#endif
