// SPDX-License-Identifier: GPL-2.0
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/threads.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>

#include "filter.h"
#include "session.h"

static int sb_filter_follow(void);
static void sb_filter_unfollow(void);

/* All of it is on the account of whoever asks for it: many may ask at once. */
struct sb_id_set *sb_id_set_alloc(u32 capacity)
{
	struct sb_id_set *set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);
	int err = -ENOMEM;

	if (!set)
		return ERR_PTR(-ENOMEM);
	kref_init(&set->refs);
	set->ids = kcalloc(capacity, sizeof(*set->ids), GFP_KERNEL_ACCOUNT);
	set->bits = __vmalloc(PID_MAX_LIMIT / BITS_PER_BYTE, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!set->ids || !set->bits)
		goto failed;
	err = sb_filter_follow();
	if (err)
		goto failed;
	return set;

failed:
	vfree(set->bits);
	kfree(set->ids);
	kfree(set);
	return ERR_PTR(err);
}

static void sb_id_set_release(struct kref *refs)
{
	struct sb_id_set *set = container_of(refs, struct sb_id_set, refs);

	sb_filter_unfollow();
	vfree(set->bits);
	kfree(set->ids);
	kfree(set);
}

void sb_id_set_put(struct sb_id_set *set)
{
	if (set)
		kref_put(&set->refs, sb_id_set_release);
}

/* Adds the id, in the initial namespace, of what `pid` is as a `type`. */
static int sb_id_set_add(struct sb_id_set *set, pid_t pid, enum pid_type type)
{
	struct task_struct *task;
	pid_t id = 0;

	rcu_read_lock();
	task = pid_task(find_vpid(pid), type);
	if (task)
		id = task->pid;
	rcu_read_unlock();
	if (!id)
		return -ESRCH;

	set_bit(id, set->bits);
	set->ids[set->count++] = id;
	return 0;
}

int sb_id_set_add_process(struct sb_id_set *set, pid_t pid)
{
	return sb_id_set_add(set, pid, PIDTYPE_TGID);
}

int sb_id_set_add_thread(struct sb_id_set *set, pid_t tid)
{
	return sb_id_set_add(set, tid, PIDTYPE_PID);
}

void sb_filter_free(struct sb_filter *filter)
{
	if (!filter)
		return;
	sb_id_set_put(filter->processes);
	sb_id_set_put(filter->threads);
	kfree(filter);
}

static void sb_filter_on_fork(void *data, struct task_struct *parent,
			      struct task_struct *child)
{
	struct sb_filter *filter;
	struct sb_session *session;

	rcu_read_lock();
	sb_session_for_each_rcu(session) {
		filter = rcu_dereference(session->filter);
		if (filter && filter->processes && READ_ONCE(session->inherit) &&
		    test_bit(parent->tgid, filter->processes->bits))
			set_bit(child->tgid, filter->processes->bits);
	}
	rcu_read_unlock();
}

static void sb_id_set_forget(struct sb_id_set *set, pid_t id)
{
	if (set && test_bit(id, set->bits))
		clear_bit(id, set->bits);
}

/*
 * The id of a thread is free for another one when the thread is freed, that of a
 * process when its leader is; from then on it must not be in a filter.
 */
static void sb_filter_on_free(void *data, struct task_struct *task)
{
	struct sb_filter *filter;
	struct sb_session *session;

	rcu_read_lock();
	sb_session_for_each_rcu(session) {
		filter = rcu_dereference(session->filter);
		if (!filter)
			continue;
		sb_id_set_forget(filter->threads, task->pid);
		if (task->pid == task->tgid)
			sb_id_set_forget(filter->processes, task->tgid);
	}
	rcu_read_unlock();
}

static struct sb_filter_probe {
	const char *name;
	void *function;
	struct tracepoint *tracepoint;
} sb_filter_probes[] = {
	{ .name = "sched_process_fork", .function = sb_filter_on_fork },
	{ .name = "sched_process_free", .function = sb_filter_on_free },
};

static DEFINE_MUTEX(sb_filter_follow_lock);
static u32 sb_filter_followers; /* under sb_filter_follow_lock */

static void sb_filter_find(struct tracepoint *tracepoint, void *data)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sb_filter_probes); i++) {
		if (!strcmp(tracepoint->name, sb_filter_probes[i].name))
			sb_filter_probes[i].tracepoint = tracepoint;
	}
}

static void sb_filter_unregister(size_t count)
{
	while (count--)
		tracepoint_probe_unregister(sb_filter_probes[count].tracepoint,
					    sb_filter_probes[count].function, NULL);
	tracepoint_synchronize_unregister();
}

static int sb_filter_register(void)
{
	size_t i;
	int err;

	for_each_kernel_tracepoint(sb_filter_find, NULL);
	for (i = 0; i < ARRAY_SIZE(sb_filter_probes); i++) {
		err = -ENOENT;
		if (sb_filter_probes[i].tracepoint)
			err = tracepoint_probe_register(sb_filter_probes[i].tracepoint,
							sb_filter_probes[i].function,
							NULL);
		if (err) {
			sb_filter_unregister(i);
			return err;
		}
	}
	return 0;
}

/* Registers the probes while there is a set; calls nest. */
static int sb_filter_follow(void)
{
	int err = 0;

	mutex_lock(&sb_filter_follow_lock);
	if (!sb_filter_followers)
		err = sb_filter_register();
	if (!err)
		sb_filter_followers++;
	mutex_unlock(&sb_filter_follow_lock);
	return err;
}

static void sb_filter_unfollow(void)
{
	mutex_lock(&sb_filter_follow_lock);
	if (!--sb_filter_followers)
		sb_filter_unregister(ARRAY_SIZE(sb_filter_probes));
	mutex_unlock(&sb_filter_follow_lock);
}
