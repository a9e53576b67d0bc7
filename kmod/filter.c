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

struct sb_filter *sb_filter_alloc(u32 capacity)
{
	struct sb_filter *filter = kzalloc(sizeof(*filter), GFP_KERNEL);

	if (!filter)
		return NULL;
	filter->pids = kcalloc(capacity, sizeof(*filter->pids), GFP_KERNEL);
	filter->bits = vzalloc(PID_MAX_LIMIT / BITS_PER_BYTE);
	if (!filter->pids || !filter->bits) {
		sb_filter_free(filter);
		return NULL;
	}
	return filter;
}

void sb_filter_free(struct sb_filter *filter)
{
	if (!filter)
		return;
	vfree(filter->bits);
	kfree(filter->pids);
	kfree(filter);
}

int sb_filter_add(struct sb_filter *filter, pid_t pid)
{
	struct task_struct *task;
	pid_t tgid = 0;

	rcu_read_lock();
	task = pid_task(find_vpid(pid), PIDTYPE_TGID);
	if (task)
		tgid = task->tgid;
	rcu_read_unlock();
	if (!tgid)
		return -ESRCH;

	set_bit(tgid, filter->bits);
	filter->pids[filter->count++] = tgid;
	return 0;
}

static void sb_filter_on_fork(void *data, struct task_struct *parent,
			      struct task_struct *child)
{
	struct sb_filter *filter;
	struct sb_session *session;

	rcu_read_lock();
	sb_session_for_each_rcu(session) {
		filter = rcu_dereference(session->filter);
		if (filter && READ_ONCE(session->inherit) &&
		    sb_filter_has(filter, parent))
			set_bit(child->tgid, filter->bits);
	}
	rcu_read_unlock();
}

/*
 * The id of a process is free for another one when its leader is freed; from
 * then on it must not be in a filter.
 */
static void sb_filter_on_free(void *data, struct task_struct *task)
{
	struct sb_filter *filter;
	struct sb_session *session;

	if (task->pid != task->tgid)
		return;
	rcu_read_lock();
	sb_session_for_each_rcu(session) {
		filter = rcu_dereference(session->filter);
		if (filter && sb_filter_has(filter, task))
			clear_bit(task->tgid, filter->bits);
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

int sb_filter_follow(void)
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

void sb_filter_unfollow(void)
{
	mutex_lock(&sb_filter_follow_lock);
	if (!--sb_filter_followers)
		sb_filter_unregister(ARRAY_SIZE(sb_filter_probes));
	mutex_unlock(&sb_filter_follow_lock);
}
