// SPDX-License-Identifier: GPL-2.0
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cred.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>
#include <trace/events/power.h>
#include <asm/irq_regs.h>
#include <asm/tsc.h>

#include "beat.h"
#include "compat/compat.h"
#include "control.h"
#include "filter.h"
#include "space.h"
#include "unwind.h"

#define SB_FRAMES_OFFSET offsetof(struct stackbeat_sample, frames)

/*
 * What one callback counts for in the budget at most. A walk of the largest
 * stack takes less; what takes longer is a virtual machine that did not run.
 */
#define SB_COST_MAX (NSEC_PER_MSEC / 2)

/* The beats that one that slept through them takes one by one. */
#define SB_STEPS_MAX 8

static struct workqueue_struct *sb_beat_workqueue;

/* ns of a cycle of the time-stamp counter, times 2^32. */
static u64 sb_cycle_ns __ro_after_init;

/*
 * ns since the counter was at `start`, on this CPU. The clock would take ten
 * times as many instructions.
 */
static u64 sb_elapsed(u64 start)
{
	return min_t(u64, rdtsc() - start, U32_MAX) * sb_cycle_ns >> 32;
}

/* xorshift32 (Marsaglia, 2003): 32 bits that no program can follow or foresee. */
static u32 sb_random(struct sb_beat *beat)
{
	u32 x = beat->random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return beat->random = x;
}

/* A part of `ns` (less than 2^32), uniformly drawn. */
static u64 sb_draw_part(struct sb_beat *beat, u64 ns)
{
	return ns * sb_random(beat) >> 32;
}

/* The interval to the next beat: uniform between half a period and one and a half. */
static u64 sb_draw_interval(struct sb_beat *beat, u64 period)
{
	if (READ_ONCE(beat->session->fixed))
		return period;
	return period / 2 + sb_draw_part(beat, period);
}

/*
 * The time to the next beat, seen from a moment that has nothing to do with the
 * beats: the residual life of such intervals. Its density is constant up to half
 * a period, and then falls in a line to 0 at one and a half, as that of the
 * smaller of two uniform numbers does.
 */
static u64 sb_draw_residual(struct sb_beat *beat, u64 period)
{
	if (READ_ONCE(beat->session->fixed))
		return period;
	if (sb_random(beat) >> 31)
		return sb_draw_part(beat, period / 2);
	return period / 2 + min(sb_draw_part(beat, period), sb_draw_part(beat, period));
}

/* The mean period of the next beat: that of the session, doubled by throttling. */
static u64 sb_beat_period(const struct sb_beat *beat)
{
	return READ_ONCE(beat->session->period) << beat->shift;
}

/*
 * Sets the timer to `due`, or, where that is not behind `after`, as many periods
 * on as it takes; these are missed and will be in the weight of that beat.
 */
static void sb_beat_set(struct sb_beat *beat, u64 period, u64 due, u64 after)
{
	beat->period = period;
	beat->missed = 0;
	if (unlikely(due <= after)) {
		beat->missed = div64_u64(after - due, period) + 1;
		due += beat->missed * period;
	}
	hrtimer_set_expires(&beat->timer, ns_to_ktime(due));
}

static u64 sb_beat_due(const struct sb_beat *beat)
{
	return ktime_to_ns(hrtimer_get_expires(&beat->timer));
}

/*
 * Holds the callback's time against the budget: called when the window is over
 * or the budget is. Halving the rate halves the cost, and doubling it doubles
 * it, so that a quarter keeps it from going to and fro.
 */
static noinline void sb_beat_account(struct sb_beat *beat, u64 now, u64 budget)
{
	if (beat->window_cost > budget) {
		if (sb_beat_period(beat) <= NSEC_PER_SEC / 2) {
			beat->shift++;
			beat->throttled++;
			queue_work(sb_beat_workqueue, &beat->report);
		}
	} else if (beat->shift && beat->window_cost < budget / 4) {
		beat->shift--;
		queue_work(sb_beat_workqueue, &beat->report);
	}
	beat->window_start = now;
	beat->window_cost = 0;
}

static u64 sb_beat_lost(const struct sb_beat *beat)
{
	return READ_ONCE(beat->ring.lost_full) + READ_ONCE(beat->ring.lost_tail);
}

/* Has a loss reported, once a second at most. */
static noinline void sb_beat_note_loss(struct sb_beat *beat, u64 now)
{
	if (now < beat->next_report)
		return;
	beat->next_report = now + NSEC_PER_SEC;
	queue_work(sb_beat_workqueue, &beat->report);
}

/* Work in a softirq that interrupted the idle task is work all the same. */
static bool sb_cpu_is_idle(void)
{
	return is_idle_task(current) && !in_serving_softirq();
}

static bool sb_has_user_memory(const struct task_struct *task)
{
	return task->mm && !(task->flags & (PF_KTHREAD | SB_PF_USER_WORKER));
}

/* This is what ptrace asks, without the locks that it takes. */
bool sb_owner_may_see(const struct sb_session *session)
{
	const struct cred *owner = session->cred, *cred = current_cred();

	return current->mm && sb_task_is_dumpable(current) &&
	       uid_eq(cred->uid, owner->uid) && uid_eq(cred->euid, owner->uid) &&
	       uid_eq(cred->suid, owner->uid) && gid_eq(cred->gid, owner->gid) &&
	       gid_eq(cred->egid, owner->gid) && gid_eq(cred->sgid, owner->gid) &&
	       cred->user_ns == owner->user_ns &&
	       cap_issubset(cred->cap_permitted, owner->cap_permitted);
}

/*
 * Writes one record of the interrupted context. The recipe: which parts, room
 * for the largest record, header, kernel frames, address space, user frames,
 * publish.
 */
static void sb_beat_sample(struct sb_beat *beat, u64 now, u64 weight, u32 missed)
{
	struct sb_session *session = beat->session;
	struct pt_regs *regs = get_irq_regs();
	u32 parts = READ_ONCE(session->parts);
	u32 max_depth = READ_ONCE(session->max_depth);
	struct stackbeat_sample *sample;
	u32 kernel_frames = 0, user_frames = 0, size;
	bool in_kernel, has_user;
	u64 hash = 0;

	if (unlikely(!regs)) {
		beat->filtered++;
		return;
	}
	in_kernel = !user_mode(regs);
	has_user = sb_has_user_memory(current);
	if (!(in_kernel && (parts & STACKBEAT_PART_KERNEL)) &&
	    !(has_user && (parts & STACKBEAT_PART_USER))) {
		beat->filtered++;
		return;
	}

	sample = sb_ring_reserve(&beat->ring,
				 SB_FRAMES_OFFSET +
				 (STACKBEAT_KERNEL_FRAMES_MAX + max_depth) * sizeof(u64));
	if (!sample) {
		sb_beat_note_loss(beat, now);
		return;
	}

	sample->record.type = STACKBEAT_RECORD_SAMPLE;
	sample->record.flags = in_kernel ? STACKBEAT_SAMPLE_KERNEL : 0;
	sample->time = now;
	sample->weight = weight;
	sample->cpu = beat->cpu;
	sample->pid = current->tgid;
	sample->tid = current->pid;
	sample->lost = beat->ring.lost;
	sample->missed = missed;
	memset(sample->reserved, 0, sizeof(sample->reserved));
	/* Another thread may be about to change the name. */
	data_race(memcpy(sample->comm, current->comm, sizeof(sample->comm)));
	sample->comm[sizeof(sample->comm) - 1] = '\0';

	if (!in_kernel)
		sample->kernel_end = STACKBEAT_END_NOT_ENTERED;
	else if (!(parts & STACKBEAT_PART_KERNEL))
		sample->kernel_end = STACKBEAT_END_OMITTED;
	else
		kernel_frames = sb_unwind_kernel(regs, sample->frames,
						 STACKBEAT_KERNEL_FRAMES_MAX,
						 &sample->kernel_end, &hash);

	sample->space = 0;
	sample->generation = 0;
	if (has_user)
		sample->space = sb_space_see(beat, now, &sample->generation);
	if (!has_user) {
		sample->user_end = STACKBEAT_END_NO_USER;
	} else if (!(parts & STACKBEAT_PART_USER)) {
		sample->user_end = STACKBEAT_END_OMITTED;
	} else {
		if (in_kernel)
			regs = task_pt_regs(current);
		if (!user_64bit_mode(regs))
			sample->record.flags |= STACKBEAT_SAMPLE_COMPAT;
		user_frames = sb_unwind_user(regs, sample->frames + kernel_frames,
					     max_depth, &sample->user_end, &hash);
	}

	sample->hash = hash;
	sample->kernel_frames = kernel_frames;
	sample->user_frames = user_frames;
	size = SB_FRAMES_OFFSET + (kernel_frames + user_frames) * sizeof(u64);
	sample->record.size = size;
	sb_ring_commit(&beat->ring, size);
	beat->samples++;

	if (sb_ring_should_wake(&beat->ring, READ_ONCE(session->watermark)))
		irq_work_queue(&beat->wake);
}

/*
 * The timer callback, in hard interrupt context on the beat's own CPU, with
 * interrupts off: an RCU read side, and alone with the ring. It leaves the CPU
 * at least as much time as it took, whatever the rate.
 */
static enum hrtimer_restart sb_beat_callback(struct hrtimer *timer)
{
	struct sb_beat *beat = container_of(timer, struct sb_beat, timer);
	struct sb_session *session = beat->session;
	u64 start = rdtsc();
	u64 now = ktime_get_mono_fast_ns();
	u64 due = sb_beat_due(beat);
	u64 period = beat->period;
	u32 missed = beat->missed;
	const struct sb_filter *filter;
	u64 weight, cost, budget;

	if (WARN_ON_ONCE(smp_processor_id() != beat->cpu))
		return HRTIMER_NORESTART;

	if (unlikely((s64)(now - due) >= (s64)period)) {
		u64 late = div64_u64(now - due, period);

		missed += late;
		due += late * period;
	}
	weight = period + missed * period;
	beat->beats++;
	beat->missed_sum += missed;
	beat->time += weight;

	filter = rcu_dereference_sched(session->filter);
	if (sb_cpu_is_idle())
		beat->idle++;
	else if ((filter && !sb_filter_wants(filter, current)) ||
		 (unlikely(session->restricted) && !sb_owner_may_see(session)))
		beat->filtered++;
	else
		sb_beat_sample(beat, now, weight, missed);

	cost = sb_elapsed(start);
	beat->cost += cost;
	beat->window_cost += min_t(u64, cost, SB_COST_MAX);
	budget = READ_ONCE(session->budget);
	if (unlikely(beat->window_cost > budget ||
		     now - beat->window_start >= STACKBEAT_BUDGET_WINDOW_NS))
		sb_beat_account(beat, now, budget);

	period = sb_beat_period(beat);
	sb_beat_set(beat, period, due + sb_draw_interval(beat, period), now + 2 * cost);
	return HRTIMER_RESTART;
}

/* Waking takes locks that a timer callback must not take. */
static void sb_beat_wake(struct irq_work *work)
{
	wake_up_interruptible(&container_of(work, struct sb_beat, wake)->session->wait);
}

/* Hz that the session's rate is lowered to by throttling. */
static u32 sb_beat_throttled_rate(const struct sb_beat *beat, u32 shift)
{
	return max(READ_ONCE(beat->session->rate) >> shift, 1u);
}

/* Tells what happened in beats, in process context. */
static void sb_beat_report(struct work_struct *work)
{
	struct sb_beat *beat = container_of(work, struct sb_beat, report);
	u32 shift = READ_ONCE(beat->shift);
	u64 lost = sb_beat_lost(beat);

	if (shift != beat->reported_shift)
		sb_control_notify(beat->session,
				  shift > beat->reported_shift ? STACKBEAT_EVENT_THROTTLED :
								 STACKBEAT_EVENT_RECOVERED,
				  beat->cpu, sb_beat_throttled_rate(beat, shift));
	if (lost != beat->reported_lost)
		sb_control_notify(beat->session, STACKBEAT_EVENT_LOST, beat->cpu,
				  lost - beat->reported_lost);
	beat->reported_shift = shift;
	beat->reported_lost = lost;
}

struct sb_beat *sb_beat_alloc(struct sb_session *session, u32 cpu, u32 ring_size)
{
	struct sb_beat *beat = kzalloc_node(sizeof(*beat), GFP_KERNEL, cpu_to_node(cpu));
	int err;

	if (!beat)
		return ERR_PTR(-ENOMEM);
	beat->seen = sb_seen_queue_alloc(cpu);
	err = beat->seen ? sb_ring_alloc(&beat->ring, ring_size, cpu) : -ENOMEM;
	if (err) {
		sb_seen_queue_free(beat->seen);
		kfree(beat);
		return ERR_PTR(err);
	}
	beat->session = session;
	beat->cpu = cpu;
	beat->random = get_random_u32() | 1;
	init_irq_work(&beat->wake, sb_beat_wake);
	INIT_WORK(&beat->report, sb_beat_report);
	sb_hrtimer_setup(&beat->timer, sb_beat_callback, CLOCK_MONOTONIC,
			 HRTIMER_MODE_ABS_PINNED_HARD);

	sb_mapping_init_ring(&beat->consumer_mapping, &beat->ring_mapping, &beat->ring);
	return beat;
}

void sb_beat_free(struct sb_beat *beat)
{
	if (!beat)
		return;
	irq_work_sync(&beat->wake);
	cancel_work_sync(&beat->report);
	sb_seen_queue_free(beat->seen);
	sb_ring_free(&beat->ring);
	kfree(beat);
}

u32 sb_beat_rate(const struct sb_beat *beat)
{
	if (!READ_ONCE(beat->running))
		return 0;
	return sb_beat_throttled_rate(beat, READ_ONCE(beat->shift));
}

static void sb_beat_arm(struct sb_beat *beat)
{
	hrtimer_start(&beat->timer, hrtimer_get_expires(&beat->timer),
		      HRTIMER_MODE_ABS_PINNED_HARD);
}

/* Runs on the beat's CPU. */
static void sb_beat_start(void *arg)
{
	struct sb_beat *beat = arg;
	unsigned long flags;
	u64 now, period;

	local_irq_save(flags);
	if (!beat->running) {
		now = ktime_get_mono_fast_ns();
		beat->running = true;
		beat->parked = false;
		beat->shift = 0;
		beat->window_start = now;
		beat->window_cost = 0;
		period = sb_beat_period(beat);
		sb_beat_set(beat, period, now + sb_draw_residual(beat, period), now);
		sb_beat_arm(beat);
	}
	local_irq_restore(flags);
}

/* Runs on the beat's CPU: its callback can't be under way. */
static void sb_beat_stop(void *arg)
{
	struct sb_beat *beat = arg;
	unsigned long flags;

	local_irq_save(flags);
	beat->running = false;
	beat->parked = false;
	hrtimer_cancel(&beat->timer);
	local_irq_restore(flags);
	queue_work(sb_beat_workqueue, &beat->report);
}

/*
 * Gives the beat that is awaited another period: what is left of its interval is
 * stretched as the period was. In its own measure of time the beat goes on as if
 * nothing had happened, so that the new weight is right. Where intervals were
 * missed before it, which weigh what they did, it comes as it would have come.
 */
static void sb_beat_stretch(struct sb_beat *beat, u64 period)
{
	u64 now = ktime_get_mono_fast_ns();
	u64 due = sb_beat_due(beat);

	if (due > now) {
		if (beat->missed)
			return;
		hrtimer_cancel(&beat->timer);
		due = now + div64_u64((due - now) * period, beat->period);
		hrtimer_set_expires(&beat->timer, ns_to_ktime(due));
		if (!beat->parked)
			sb_beat_arm(beat);
	} else if (!beat->parked) {
		return; /* its interrupt is pending */
	}
	beat->period = period;
}

/* Runs on the beat's CPU, after the session's rate was changed. */
static void sb_beat_retime(void *arg)
{
	struct sb_beat *beat = arg;
	unsigned long flags;
	u64 period;

	local_irq_save(flags);
	if (beat->running) {
		if (beat->shift) {
			beat->shift = 0;
			queue_work(sb_beat_workqueue, &beat->report);
		}
		period = sb_beat_period(beat);
		if (period != beat->period)
			sb_beat_stretch(beat, period);
	}
	local_irq_restore(flags);
}

/* The CPU goes idle: nothing to sample, and nothing to wake it for. */
static void sb_beat_park(struct sb_beat *beat)
{
	if (!beat->running || beat->parked)
		return;
	hrtimer_cancel(&beat->timer);
	beat->parked = true;
}

/*
 * The CPU leaves idle: the beat goes on where it would be had it not been
 * parked. It must neither begin anew, or work in short bursts would never be
 * sampled, nor come at once, or it always would. Beats that fell into the idle
 * time are taken one by one, or, where it was long, forgotten.
 */
static void sb_beat_unpark(struct sb_beat *beat)
{
	u64 now = ktime_get_mono_fast_ns();
	u64 due = sb_beat_due(beat);
	u64 period = beat->period;
	u32 steps;

	if (!beat->parked)
		return;
	beat->parked = false;
	if (due <= now && READ_ONCE(beat->session->fixed)) {
		due += (div64_u64(now - due, period) + 1) * period;
	} else if (due <= now) {
		for (steps = 0; due <= now && steps < SB_STEPS_MAX; steps++)
			due += sb_draw_interval(beat, period);
		if (due <= now)
			due = now + sb_draw_residual(beat, period);
	}
	if (due != sb_beat_due(beat))
		sb_beat_set(beat, period, due, 0);
	sb_beat_arm(beat);
}

static void sb_beat_on_idle(void *data, unsigned int state, unsigned int cpu)
{
	struct sb_session *session;
	struct sb_beat *beat;
	unsigned long flags;

	rcu_read_lock();
	local_irq_save(flags);
	sb_session_for_each_rcu(session) {
		beat = sb_session_find_beat(session, smp_processor_id());
		if (!beat)
			continue;
		if (state == (unsigned int)PWR_EVENT_EXIT)
			sb_beat_unpark(beat);
		else
			sb_beat_park(beat);
	}
	local_irq_restore(flags);
	rcu_read_unlock();
}

static enum cpuhp_state sb_beat_hotplug_state;

/* Runs on the CPU that comes online, or on each when a session starts. */
static int sb_beat_online(unsigned int cpu, struct hlist_node *node)
{
	struct sb_session *session = hlist_entry(node, struct sb_session, hotplug);
	struct sb_beat *beat;

	if (!cpumask_test_cpu(cpu, session->cpus))
		return 0;
	beat = sb_session_beat(session, cpu);
	if (IS_ERR(beat))
		return 0; /* a profiler short of memory must not keep a CPU off */

	sb_beat_start(beat);
	if (READ_ONCE(session->hotplug_live))
		sb_control_notify(session, STACKBEAT_EVENT_CPU_BACK, cpu, 0);
	return 0;
}

/* Runs on the CPU that goes offline while its timers are still its own. */
static int sb_beat_offline(unsigned int cpu, struct hlist_node *node)
{
	struct sb_session *session = hlist_entry(node, struct sb_session, hotplug);
	struct sb_beat *beat = sb_session_find_beat(session, cpu);

	if (!beat || !beat->running)
		return 0;
	sb_beat_stop(beat);
	if (READ_ONCE(session->hotplug_live))
		sb_control_notify(session, STACKBEAT_EVENT_CPU_GONE, cpu, 0);
	return 0;
}

int sb_beats_start(struct sb_session *session)
{
	int err = cpuhp_state_add_instance(sb_beat_hotplug_state, &session->hotplug);

	if (!err)
		WRITE_ONCE(session->hotplug_live, true);
	return err;
}

void sb_beats_stop(struct sb_session *session)
{
	WRITE_ONCE(session->hotplug_live, false);
	cpuhp_state_remove_instance(sb_beat_hotplug_state, &session->hotplug);
}

int sb_beats_update(struct sb_session *session)
{
	struct sb_beat *beat;
	int err = 0;
	u32 cpu;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		beat = sb_session_find_beat(session, cpu);
		if (!cpumask_test_cpu(cpu, session->cpus)) {
			if (beat)
				smp_call_function_single(cpu, sb_beat_stop, beat, 1);
			continue;
		}
		beat = sb_session_beat(session, cpu);
		if (IS_ERR(beat)) {
			err = PTR_ERR(beat);
			continue;
		}
		smp_call_function_single(cpu, sb_beat_start, beat, 1);
		smp_call_function_single(cpu, sb_beat_retime, beat, 1);
	}
	cpus_read_unlock();
	return err;
}

int sb_beat_init(void)
{
	int err;

	if (!tsc_khz)
		return -ENODEV;
	sb_cycle_ns = div_u64((u64)NSEC_PER_MSEC << 32, tsc_khz);
	sb_beat_workqueue = alloc_workqueue("stackbeat", WQ_UNBOUND, 0);
	if (!sb_beat_workqueue)
		return -ENOMEM;
	err = cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "stackbeat:online",
				      sb_beat_online, sb_beat_offline);
	if (err < 0)
		goto err_hotplug;
	sb_beat_hotplug_state = err;
	err = register_trace_cpu_idle(sb_beat_on_idle, NULL);
	if (err)
		goto err_idle;
	return 0;

err_idle:
	cpuhp_remove_multi_state(sb_beat_hotplug_state);
err_hotplug:
	destroy_workqueue(sb_beat_workqueue);
	return err;
}

void sb_beat_exit(void)
{
	unregister_trace_cpu_idle(sb_beat_on_idle, NULL);
	tracepoint_synchronize_unregister();
	cpuhp_remove_multi_state(sb_beat_hotplug_state);
	destroy_workqueue(sb_beat_workqueue);
}
