// SPDX-License-Identifier: GPL-2.0
#include <linux/pid.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/threads.h>
#include <linux/vmalloc.h>

#include "filter.h"
#include "limits.h"

static struct workqueue_struct *sb_filter_workqueue;

static LIST_HEAD(sb_id_sets);
static DEFINE_SPINLOCK(sb_id_sets_lock); /* serializes changes of the list */

static void sb_id_set_free(struct sb_id_set *set)
{
	vfree(set->bits);
	kfree(set->ids);
	kfree(set);
}

/* All memory is charged to the caller's control group: many sets may be requested at once. */
struct sb_id_set *sb_id_set_alloc(u32 capacity, bool of_processes, bool inherit)
{
	struct sb_id_set *set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);

	if (!set)
		return ERR_PTR(-ENOMEM);
	kref_init(&set->refs);
	set->of_processes = of_processes;
	set->inherit = inherit;
	set->ids = kcalloc(capacity, sizeof(*set->ids), GFP_KERNEL_ACCOUNT);
	set->bits = __vmalloc(PID_MAX_LIMIT / BITS_PER_BYTE, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!set->ids || !set->bits) {
		sb_id_set_free(set);
		return ERR_PTR(-ENOMEM);
	}
	spin_lock(&sb_id_sets_lock);
	list_add_rcu(&set->list, &sb_id_sets);
	spin_unlock(&sb_id_sets_lock);
	return set;
}

/* Removes a set from the list. Forks may use it until a grace period has passed. */
static void sb_id_set_release(struct kref *refs)
{
	struct sb_id_set *set = container_of(refs, struct sb_id_set, refs);

	spin_lock(&sb_id_sets_lock);
	list_del_rcu(&set->list);
	spin_unlock(&sb_id_sets_lock);
}

/* Drops a reference. Returns the set if it was the last one: the caller frees the set. */
static struct sb_id_set *sb_id_set_put(struct sb_id_set *set)
{
	return set && kref_put(&set->refs, sb_id_set_release) ? set : NULL;
}

static struct task_struct *sb_id_set_find(const struct sb_id_set *set, pid_t id)
{
	return pid_task(find_vpid(id), set->of_processes ? PIDTYPE_TGID : PIDTYPE_PID);
}

int sb_id_set_add(struct sb_id_set *set, pid_t id)
{
	struct task_struct *task;
	int err = -ESRCH;

	rcu_read_lock();
	task = sb_id_set_find(set, id);
	if (task) {
		set_bit(task->pid, set->bits);
		smp_mb__after_atomic(); /* pairs with the lock under which ids are allocated */
		/* If the task still has the id, a later fork that reuses it clears the bit. */
		if (sb_id_set_find(set, id) == task) {
			set->ids[set->count++] = task->pid;
			err = 0;
		}
	}
	rcu_read_unlock();
	return err;
}

struct sb_filter_account *sb_filter_account_alloc(void)
{
	struct sb_filter_account *account = kzalloc(sizeof(*account), GFP_KERNEL_ACCOUNT);

	if (account)
		kref_init(&account->refs);
	return account;
}

static void sb_filter_account_free(struct kref *refs)
{
	kfree(container_of(refs, struct sb_filter_account, refs));
}

void sb_filter_account_put(struct sb_filter_account *account)
{
	if (account)
		kref_put(&account->refs, sb_filter_account_free);
}

bool sb_filter_account_is_full(const struct sb_filter_account *account)
{
	return kref_read(&account->refs) > SB_FILTERS_WAITING_MAX;
}

static void sb_filter_free_now(struct sb_filter *filter)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(filter->last); i++) {
		if (filter->last[i])
			sb_id_set_free(filter->last[i]);
	}
	kfree(filter);
}

static void sb_filter_free_work(struct work_struct *work)
{
	struct sb_filter *filter = container_of(to_rcu_work(work), struct sb_filter, free);
	struct sb_filter_account *account = filter->account;

	sb_filter_free_now(filter);
	sb_filter_account_put(account);
}

struct sb_filter *sb_filter_alloc(struct sb_filter_account *account)
{
	struct sb_filter *filter = kzalloc(sizeof(*filter), GFP_KERNEL_ACCOUNT);

	if (!filter)
		return NULL;
	filter->account = account;
	INIT_RCU_WORK(&filter->free, sb_filter_free_work);
	return filter;
}

void sb_filter_free(struct sb_filter *filter)
{
	if (!filter)
		return;
	filter->last[0] = sb_id_set_put(filter->processes);
	filter->last[1] = sb_id_set_put(filter->threads);
	if (!filter->published && !filter->last[0] && !filter->last[1]) {
		sb_filter_free_now(filter);
		return;
	}
	kref_get(&filter->account->refs);
	queue_rcu_work(sb_filter_workqueue, &filter->free);
}

/*
 * The child's id may still be in a set, from another process or thread that had it
 * before: its bit is cleared here, before the child runs, and not when the old task
 * is freed, since the id is freed earlier.
 */
static void sb_id_set_on_fork(struct sb_id_set *set, const struct task_struct *parent,
			      const struct task_struct *child)
{
	bool add = false;

	if (set->of_processes) {
		if (child->pid != child->tgid)
			return;
		add = READ_ONCE(set->inherit) && test_bit(parent->tgid, set->bits);
	}
	if (add == test_bit(child->pid, set->bits))
		return;
	if (add)
		set_bit(child->pid, set->bits);
	else
		clear_bit(child->pid, set->bits);
}

void sb_filter_on_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	struct sb_id_set *set;

	rcu_read_lock();
	list_for_each_entry_rcu(set, &sb_id_sets, list)
		sb_id_set_on_fork(set, parent, child);
	rcu_read_unlock();
}

int sb_filter_init(void)
{
	sb_filter_workqueue = alloc_workqueue("stackbeat-filters", WQ_UNBOUND, 0);
	return sb_filter_workqueue ? 0 : -ENOMEM;
}

void sb_filter_exit(void)
{
	/* Work that waits for a grace period is queued; then destroy_workqueue() drains it. */
	rcu_barrier();
	destroy_workqueue(sb_filter_workqueue);
}
