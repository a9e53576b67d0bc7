// SPDX-License-Identifier: GPL-2.0
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/workqueue.h>

#include "cpu.h"
#include "hotplug.h"
#include "sampler.h"
#include "session.h"

/*
 * Starts the samplers of all running sessions on CPUs that have come online. This is a work item,
 * which can run on any CPU, because it takes locks of sessions: the thread of CPU hotplug may have
 * to wait for real-time tasks of its CPU, and would delay the sessions.
 */
static void sb_add_online_cpus(struct work_struct *work)
{
	struct sb_session *session;
	u32 id = 0;

	while ((session = sb_session_next(id))) {
		id = session->id + 1;
		sb_session_add_online_cpus(session);
		sb_session_put(session);
	}
}

static DECLARE_WORK(sb_online_work, sb_add_online_cpus);
static struct workqueue_struct *sb_cpu_workqueue;

static int sb_cpu_online(unsigned int cpu)
{
	/* Set before the work is queued, and before the start of a session sees the CPU. */
	this_cpu_write(sb_cpus.online, true);
	queue_work(sb_cpu_workqueue, &sb_online_work);
	return 0;
}

/* Runs on the CPU that goes offline, before its timers are migrated. */
static int sb_cpu_offline(unsigned int cpu)
{
	struct sb_cpu *here;
	struct hlist_node *next;
	struct sb_sampler *sampler;
	unsigned long flags;

	local_irq_save(flags);
	here = this_cpu_ptr(&sb_cpus);
	here->online = false;
	hlist_for_each_entry_safe(sampler, next, &here->samplers, node) {
		sampler->went_offline = true;
		sb_sampler_stop(sampler);
	}
	local_irq_restore(flags);
	return 0;
}

static enum cpuhp_state sb_cpu_hotplug_state;

/*
 * Does not run sb_cpu_online() on each CPU: the thread of CPU hotplug would run it there, which
 * may have to wait for real-time tasks.
 */
static int sb_cpu_register(void)
{
	int cpu, state;

	cpus_read_lock();
	state = cpuhp_setup_state_nocalls_cpuslocked(CPUHP_AP_ONLINE_DYN, "stackbeat:online",
						     sb_cpu_online, sb_cpu_offline);
	if (state >= 0) {
		/* The callback for CPUs that go offline is called on these. */
		for_each_cpu(cpu, cpu_active_mask)
			per_cpu(sb_cpus, cpu).online = true;
	}
	cpus_read_unlock();
	if (state < 0)
		return state;
	sb_cpu_hotplug_state = state;
	return 0;
}

int __init sb_hotplug_init(void)
{
	int err;

	sb_cpu_workqueue = alloc_workqueue("stackbeat-cpus", WQ_UNBOUND, 0);
	if (!sb_cpu_workqueue)
		return -ENOMEM;
	err = sb_cpu_register();
	if (err)
		destroy_workqueue(sb_cpu_workqueue);
	return err;
}

void sb_hotplug_exit(void)
{
	cpuhp_remove_state_nocalls(sb_cpu_hotplug_state);
	destroy_workqueue(sb_cpu_workqueue);
}
