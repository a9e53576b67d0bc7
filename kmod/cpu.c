// SPDX-License-Identifier: GPL-2.0
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include "beat.h"
#include "compat/compat.h"
#include "cpu.h"
#include "session.h"

DEFINE_PER_CPU(struct sb_cpu, sb_cpus);

/* Starts and stops, on the CPUs of a session. */

/* Runs on each of the CPUs. */
static void sb_start_here(void *arg)
{
	struct sb_session *session = arg;
	struct sb_beat *beat = sb_session_find_beat(session, smp_processor_id());

	if (beat)
		sb_beat_start(beat);
}

static void sb_stop_here(void *arg)
{
	struct sb_session *session = arg;
	struct sb_beat *beat = sb_session_find_beat(session, smp_processor_id());

	if (beat)
		sb_beat_stop(beat);
}

static void sb_update_here(void *arg)
{
	struct sb_session *session = arg;

	if (!cpumask_test_cpu(smp_processor_id(), session->cpus)) {
		sb_stop_here(session);
		return;
	}
	sb_start_here(session);
	sb_beat_retime(sb_session_find_beat(session, smp_processor_id()));
}

static bool sb_has_beat(int cpu, void *session)
{
	return sb_session_find_beat(session, cpu);
}

static bool sb_beat_is_running(int cpu, void *session)
{
	struct sb_beat *beat = sb_session_find_beat(session, cpu);

	return beat && READ_ONCE(beat->running);
}

/* A CPU that goes offline meanwhile stops its beats by itself, or does not start them. */
void sb_beats_start(struct sb_session *session)
{
	on_each_cpu_cond_mask(sb_has_beat, sb_start_here, session, true, session->cpus);
}

bool sb_beats_start_on(struct sb_session *session, u32 cpu)
{
	smp_call_function_single(cpu, sb_start_here, session, true);
	return sb_beat_is_running(cpu, session);
}

void sb_beats_stop(struct sb_session *session)
{
	on_each_cpu_cond_mask(sb_beat_is_running, sb_stop_here, session, true, cpu_online_mask);
}

int sb_beats_update(struct sb_session *session)
{
	struct sb_beat *beat;
	int err = 0;
	u32 cpu;

	for_each_cpu_and(cpu, session->cpus, cpu_online_mask) {
		beat = sb_session_beat(session, cpu);
		if (IS_ERR(beat))
			err = PTR_ERR(beat);
	}
	on_each_cpu_cond_mask(sb_has_beat, sb_update_here, session, true, cpu_online_mask);
	return err;
}

/* CPUs that come and go. */

/*
 * Has the beats of all running sessions started on the CPUs that have come online. In a work
 * item, which can run on any CPU: the thread of CPU hotplug, which may have to wait for
 * real-time tasks of its CPU, must not hold up the sessions with the locks that this takes.
 */
static void sb_take_up_cpus(struct work_struct *work)
{
	struct sb_session *session;
	u32 id = 0;

	while ((session = sb_session_next(id))) {
		id = session->id + 1;
		sb_session_take_up_cpus(session);
		sb_session_put(session);
	}
}

static DECLARE_WORK(sb_take_up_work, sb_take_up_cpus);
static struct workqueue_struct *sb_cpu_workqueue;

static int sb_cpu_online(unsigned int cpu)
{
	/* Before the work is queued, and before the start of a session sees the CPU. */
	this_cpu_write(sb_cpus.online, true);
	queue_work(sb_cpu_workqueue, &sb_take_up_work);
	return 0;
}

/* Runs on the CPU that goes offline while its timers are still its own. */
static int sb_cpu_offline(unsigned int cpu)
{
	struct sb_cpu *here;
	struct hlist_node *next;
	struct sb_beat *beat;
	unsigned long flags;

	local_irq_save(flags);
	here = this_cpu_ptr(&sb_cpus);
	here->online = false;
	hlist_for_each_entry_safe(beat, next, &here->beats, node) {
		beat->gone = true;
		sb_beat_stop(beat);
	}
	local_irq_restore(flags);
	return 0;
}

/* Idle CPUs. */

/*
 * The CPU goes idle: nothing to sample, and nothing to wake it for. Where it goes idle so
 * often that this would take a quarter of a session's budget, its timer stays: a CPU that
 * is woken that often does not sleep.
 */
static noinline void sb_cpu_park(struct sb_cpu *here)
{
	u64 start = rdtsc(), end;
	struct sb_beat *beat;

	hlist_for_each_entry(beat, &here->beats, node) {
		if (here->parking > READ_ONCE(beat->session->budget) / 4)
			continue;
		sb_beat_park(beat);
		here->parked |= beat->parked;
		end = rdtsc();
		sb_beat_add_parking(beat, end - start);
		start = end;
	}
}

/* It is not idle any more. */
static noinline void sb_cpu_unpark(struct sb_cpu *here)
{
	u64 start = rdtsc(), end;
	struct sb_beat *beat;

	here->parked = false;
	hlist_for_each_entry(beat, &here->beats, node) {
		sb_beat_unpark(beat);
		end = rdtsc();
		sb_beat_add_parking(beat, end - start);
		start = end;
	}
}

/*
 * Where the idle task comes in, the timers are cancelled before the governor of idle states
 * looks for the next one, and where another task comes in they are armed again: so not at each
 * interrupt that an idle CPU takes. Runs with the lock of the run queue held.
 */
static __always_inline void sb_cpu_on_switch(const struct task_struct *next)
{
	const bool idle = is_idle_task(next);

	if (likely(idle == __this_cpu_read(sb_cpus.parked)))
		return;
	if (idle)
		sb_cpu_park(this_cpu_ptr(&sb_cpus));
	else
		sb_cpu_unpark(this_cpu_ptr(&sb_cpus));
}

#ifdef HAVE_SCHED_SWITCH_PREV_STATE
void sb_cpu_on_sched_switch(void *data, bool preempt, struct task_struct *prev,
			    struct task_struct *next, unsigned int prev_state)
#else
void sb_cpu_on_sched_switch(void *data, bool preempt, struct task_struct *prev,
			    struct task_struct *next)
#endif
{
	sb_cpu_on_switch(next);
}

/* Softirqs that interrupt the idle task are work: for their time the timers are armed. */
void sb_cpu_on_softirq_entry(void *data, unsigned int softirq)
{
	unsigned long flags;

	if (likely(!is_idle_task(current)))
		return;
	local_irq_save(flags);
	if (__this_cpu_read(sb_cpus.parked))
		sb_cpu_unpark(this_cpu_ptr(&sb_cpus));
	local_irq_restore(flags);
}

void sb_cpu_on_softirq_exit(void *data, unsigned int softirq)
{
	unsigned long flags;

	if (likely(!is_idle_task(current)))
		return;
	local_irq_save(flags);
	if (!__this_cpu_read(sb_cpus.parked))
		sb_cpu_park(this_cpu_ptr(&sb_cpus));
	local_irq_restore(flags);
}

static enum cpuhp_state sb_cpu_hotplug_state;

/*
 * Without having the callback run on each CPU by the thread of CPU hotplug there, which may
 * have to wait for real-time tasks.
 */
static int sb_cpu_register(void)
{
	int cpu, state;

	cpus_read_lock();
	state = cpuhp_setup_state_nocalls_cpuslocked(CPUHP_AP_ONLINE_DYN, "stackbeat:online",
						     sb_cpu_online, sb_cpu_offline);
	if (state >= 0) {
		/* Of these the callback for CPUs that go is called. */
		for_each_cpu(cpu, cpu_active_mask)
			per_cpu(sb_cpus, cpu).online = true;
	}
	cpus_read_unlock();
	if (state < 0)
		return state;
	sb_cpu_hotplug_state = state;
	return 0;
}

int sb_cpu_init(void)
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

void sb_cpu_exit(void)
{
	cpuhp_remove_state_nocalls(sb_cpu_hotplug_state);
	destroy_workqueue(sb_cpu_workqueue);
}
