// SPDX-License-Identifier: GPL-2.0
#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/workqueue.h>
#include <trace/events/irq.h>
#include <trace/events/sched.h>

#include "compat/compat.h"
#include "filter.h"
#include "idle.h"
#include "probes.h"

/* Time that the probes stay registered after the last session. */
#define SB_PROBES_JIFFIES (60 * HZ)

static struct sb_probe {
	const char *name;
	void *function;
	struct tracepoint *tracepoint;
} sb_probes[] = {
	{ .name = "sched_switch", .function = sb_cpu_on_sched_switch },
	{ .name = "softirq_entry", .function = sb_cpu_on_softirq_entry },
	{ .name = "softirq_exit", .function = sb_cpu_on_softirq_exit },
	{ .name = "sched_process_fork", .function = sb_filter_on_fork },
};

static struct workqueue_struct *sb_probes_workqueue;
static DEFINE_MUTEX(sb_probes_lock);
static u32 sb_probes_users;	/* under sb_probes_lock */
static bool sb_probes_registered; /* under sb_probes_lock */

/* The tracepoints are not exported, so the compiler checks the types only here. */
static void __maybe_unused sb_probes_check_types(void)
{
	check_trace_callback_type_sched_switch(sb_cpu_on_sched_switch);
	check_trace_callback_type_softirq_entry(sb_cpu_on_softirq_entry);
	check_trace_callback_type_softirq_exit(sb_cpu_on_softirq_exit);
	check_trace_callback_type_sched_process_fork(sb_filter_on_fork);
}

static void sb_probes_find(struct tracepoint *tracepoint, void *data)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sb_probes); i++) {
		if (!strcmp(tracepoint->name, sb_probes[i].name))
			sb_probes[i].tracepoint = tracepoint;
	}
}

static void sb_probes_unregister(size_t count)
{
	while (count--)
		tracepoint_probe_unregister(sb_probes[count].tracepoint,
					    sb_probes[count].function, NULL);
	sb_probes_registered = false;
}

static int sb_probes_register(void)
{
	size_t i;
	int err;

	for (i = 0; i < ARRAY_SIZE(sb_probes); i++) {
		err = -EOPNOTSUPP;
		if (sb_probes[i].tracepoint)
			err = tracepoint_probe_register(sb_probes[i].tracepoint,
							sb_probes[i].function, NULL);
		if (err) {
			sb_probes_unregister(i);
			return err;
		}
	}
	sb_probes_registered = true;
	return 0;
}

/* There is no running sampler and no filter: a probe that is still running has no effect. */
static void sb_probes_end(struct work_struct *work)
{
	mutex_lock(&sb_probes_lock);
	if (!sb_probes_users && sb_probes_registered)
		sb_probes_unregister(ARRAY_SIZE(sb_probes));
	mutex_unlock(&sb_probes_lock);
}

static DECLARE_DELAYED_WORK(sb_probes_end_work, sb_probes_end);

int sb_probes_get(void)
{
	int err = 0;

	mutex_lock(&sb_probes_lock);
	if (!sb_probes_registered)
		err = sb_probes_register();
	if (!err)
		sb_probes_users++;
	mutex_unlock(&sb_probes_lock);
	return err;
}

void sb_probes_put(void)
{
	mutex_lock(&sb_probes_lock);
	if (!--sb_probes_users)
		mod_delayed_work(sb_probes_workqueue, &sb_probes_end_work, SB_PROBES_JIFFIES);
	mutex_unlock(&sb_probes_lock);
}

int sb_probes_init(void)
{
	for_each_kernel_tracepoint(sb_probes_find, NULL);
	sb_probes_workqueue = alloc_workqueue("stackbeat-probes", WQ_UNBOUND, 0);
	return sb_probes_workqueue ? 0 : -ENOMEM;
}

void sb_probes_exit(void)
{
	cancel_delayed_work_sync(&sb_probes_end_work);
	sb_probes_end(NULL);
	tracepoint_synchronize_unregister();
	destroy_workqueue(sb_probes_workqueue);
}
