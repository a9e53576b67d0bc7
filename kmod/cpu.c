// SPDX-License-Identifier: GPL-2.0
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/workqueue.h>
#include <trace/events/irq.h>
#include <trace/events/sched.h>

#include "beat.h"
#include "compat/compat.h"
#include "control.h"
#include "cpu.h"
#include "session.h"

/* How long the probes of idle CPUs stay when there is no session any more. */
#define SB_IDLE_PROBES_JIFFIES (60 * HZ)

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
	/* Before the work is queued, and before whoever starts a session sees the CPU. */
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
		here->parked = true;
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
static void sb_cpu_on_sched_switch(void *data, bool preempt, struct task_struct *prev,
				   struct task_struct *next, unsigned int prev_state)
#else
static void sb_cpu_on_sched_switch(void *data, bool preempt, struct task_struct *prev,
				   struct task_struct *next)
#endif
{
	sb_cpu_on_switch(next);
}

/* Softirqs that interrupt the idle task are work: for their time the timers are armed. */
static void sb_cpu_on_softirq_entry(void *data, unsigned int softirq)
{
	unsigned long flags;

	if (likely(!is_idle_task(current)))
		return;
	local_irq_save(flags);
	if (__this_cpu_read(sb_cpus.parked))
		sb_cpu_unpark(this_cpu_ptr(&sb_cpus));
	local_irq_restore(flags);
}

static void sb_cpu_on_softirq_exit(void *data, unsigned int softirq)
{
	unsigned long flags;

	if (likely(!is_idle_task(current)))
		return;
	local_irq_save(flags);
	if (!__this_cpu_read(sb_cpus.parked))
		sb_cpu_park(this_cpu_ptr(&sb_cpus));
	local_irq_restore(flags);
}

static struct sb_idle_probe {
	const char *name;
	void *function;
	struct tracepoint *tracepoint;
} sb_idle_probes[] = {
	{ .name = "sched_switch", .function = sb_cpu_on_sched_switch },
	{ .name = "softirq_entry", .function = sb_cpu_on_softirq_entry },
	{ .name = "softirq_exit", .function = sb_cpu_on_softirq_exit },
};

static DEFINE_MUTEX(sb_idle_lock);
static u32 sb_idle_followers;	/* under sb_idle_lock */
static bool sb_idle_followed;	/* under sb_idle_lock: the probes are registered */

/* They are not exported, so the compiler does not compare the types. */
static void __maybe_unused sb_idle_check_types(void)
{
	check_trace_callback_type_sched_switch(sb_cpu_on_sched_switch);
	check_trace_callback_type_softirq_entry(sb_cpu_on_softirq_entry);
	check_trace_callback_type_softirq_exit(sb_cpu_on_softirq_exit);
}

static void sb_idle_find(struct tracepoint *tracepoint, void *data)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sb_idle_probes); i++) {
		if (!strcmp(tracepoint->name, sb_idle_probes[i].name))
			sb_idle_probes[i].tracepoint = tracepoint;
	}
}

static void sb_idle_unregister(size_t count)
{
	while (count--)
		tracepoint_probe_unregister(sb_idle_probes[count].tracepoint,
					    sb_idle_probes[count].function, NULL);
	sb_idle_followed = false;
}

static int sb_idle_register(void)
{
	size_t i;
	int err;

	for (i = 0; i < ARRAY_SIZE(sb_idle_probes); i++) {
		err = -ENOENT;
		if (sb_idle_probes[i].tracepoint)
			err = tracepoint_probe_register(sb_idle_probes[i].tracepoint,
							sb_idle_probes[i].function, NULL);
		if (err) {
			sb_idle_unregister(i);
			return err;
		}
	}
	sb_idle_followed = true;
	return 0;
}

/* No beat runs: a probe that is still under way finds nothing to do. */
static void sb_idle_end(struct work_struct *work)
{
	mutex_lock(&sb_idle_lock);
	if (!sb_idle_followers && sb_idle_followed)
		sb_idle_unregister(ARRAY_SIZE(sb_idle_probes));
	mutex_unlock(&sb_idle_lock);
}

static DECLARE_DELAYED_WORK(sb_idle_end_work, sb_idle_end);

int sb_cpu_follow_idle(void)
{
	int err = 0;

	mutex_lock(&sb_idle_lock);
	if (!sb_idle_followed)
		err = sb_idle_register();
	if (!err)
		sb_idle_followers++;
	mutex_unlock(&sb_idle_lock);
	return err;
}

void sb_cpu_unfollow_idle(void)
{
	mutex_lock(&sb_idle_lock);
	if (!--sb_idle_followers)
		mod_delayed_work(sb_cpu_workqueue, &sb_idle_end_work, SB_IDLE_PROBES_JIFFIES);
	mutex_unlock(&sb_idle_lock);
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
		for_each_online_cpu(cpu)
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

	for_each_kernel_tracepoint(sb_idle_find, NULL);
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
	cancel_delayed_work_sync(&sb_idle_end_work);
	sb_idle_end(NULL);
	tracepoint_synchronize_unregister();
	destroy_workqueue(sb_cpu_workqueue);
}
