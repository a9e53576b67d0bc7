// SPDX-License-Identifier: GPL-2.0
#include <linux/cpuhotplug.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <asm/irq_regs.h>

#include "beat.h"
#include "compat/compat.h"
#include "filter.h"
#include "unwind.h"

#define SB_FRAMES_OFFSET offsetof(struct stackbeat_sample, frames)

/*
 * Sets the timer one period on, past intervals whose time is over already.
 * Returns what the beat at hand stands for, in ns, and how many intervals of
 * that had no beat of their own.
 */
static u64 sb_beat_advance(struct sb_beat *beat, u64 now, u32 *missed)
{
	u64 period = READ_ONCE(beat->session->period);
	u64 weight = beat->interval;
	u64 next = ktime_to_ns(hrtimer_get_expires(&beat->timer)) + period;

	*missed = 0;
	if (unlikely(next <= now)) {
		*missed = div64_u64(now - next, period) + 1;
		beat->missed += *missed;
		weight += *missed * period;
		next += *missed * period;
	}
	beat->interval = period;
	hrtimer_set_expires(&beat->timer, ns_to_ktime(next));
	return weight;
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

/*
 * Writes one record of the interrupted context. The recipe: which parts, room
 * for the largest record, header, kernel frames, user frames, publish.
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
	if (!sample)
		return;

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
	memcpy(sample->comm, current->comm, sizeof(sample->comm));
	/* Another thread may be about to change the name. */
	sample->comm[sizeof(sample->comm) - 1] = '\0';

	if (!in_kernel)
		sample->kernel_end = STACKBEAT_END_NOT_ENTERED;
	else if (!(parts & STACKBEAT_PART_KERNEL))
		sample->kernel_end = STACKBEAT_END_OMITTED;
	else
		kernel_frames = sb_unwind_kernel(regs, sample->frames,
						 STACKBEAT_KERNEL_FRAMES_MAX,
						 &sample->kernel_end);

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
					     max_depth, &sample->user_end);
	}

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
 * interrupts off: an RCU read side, and alone with the ring.
 */
static enum hrtimer_restart sb_beat_callback(struct hrtimer *timer)
{
	struct sb_beat *beat = container_of(timer, struct sb_beat, timer);
	u64 now = ktime_get_mono_fast_ns();
	const struct sb_filter *filter;
	u64 weight;
	u32 missed;

	if (WARN_ON_ONCE(smp_processor_id() != beat->cpu))
		return HRTIMER_NORESTART;

	beat->beats++;
	weight = sb_beat_advance(beat, now, &missed);
	filter = rcu_dereference_sched(beat->session->filter);

	if (sb_cpu_is_idle())
		beat->idle++;
	else if (filter && !sb_filter_has(filter, current))
		beat->filtered++;
	else
		sb_beat_sample(beat, now, weight, missed);

	beat->cost += ktime_get_mono_fast_ns() - now;
	return HRTIMER_RESTART;
}

/* Waking takes locks that a timer callback must not take. */
static void sb_beat_wake(struct irq_work *work)
{
	wake_up_interruptible(&container_of(work, struct sb_beat, wake)->session->wait);
}

struct sb_beat *sb_beat_alloc(struct sb_session *session, u32 cpu, u32 ring_size)
{
	struct sb_beat *beat = kzalloc_node(sizeof(*beat), GFP_KERNEL, cpu_to_node(cpu));
	int err;

	if (!beat)
		return ERR_PTR(-ENOMEM);
	err = sb_ring_alloc(&beat->ring, ring_size, cpu);
	if (err) {
		kfree(beat);
		return ERR_PTR(err);
	}
	beat->session = session;
	beat->cpu = cpu;
	init_irq_work(&beat->wake, sb_beat_wake);
	sb_hrtimer_setup(&beat->timer, sb_beat_callback, CLOCK_MONOTONIC,
			 HRTIMER_MODE_ABS_PINNED_HARD);

	beat->consumer_mapping.memory = (void *)beat->ring.consumer;
	beat->consumer_mapping.pages = 1;
	beat->consumer_mapping.writable = true;
	beat->ring_mapping.memory = (void *)beat->ring.consumer;
	beat->ring_mapping.page = 1;
	beat->ring_mapping.pages = 1 + ring_size / PAGE_SIZE;
	return beat;
}

void sb_beat_free(struct sb_beat *beat)
{
	if (!beat)
		return;
	irq_work_sync(&beat->wake);
	sb_ring_free(&beat->ring);
	kfree(beat);
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

	beat->interval = READ_ONCE(session->period);
	hrtimer_start(&beat->timer, ns_to_ktime(ktime_get_mono_fast_ns() + beat->interval),
		      HRTIMER_MODE_ABS_PINNED_HARD);
	/* The reader may have a ring to map. */
	wake_up_interruptible(&session->wait);
	return 0;
}

/* Runs on the CPU that goes offline while its timers are still its own. */
static int sb_beat_offline(unsigned int cpu, struct hlist_node *node)
{
	struct sb_session *session = hlist_entry(node, struct sb_session, hotplug);
	struct sb_beat *beat = sb_session_find_beat(session, cpu);

	if (beat)
		hrtimer_cancel(&beat->timer);
	return 0;
}

int sb_beats_start(struct sb_session *session)
{
	return cpuhp_state_add_instance(sb_beat_hotplug_state, &session->hotplug);
}

void sb_beats_stop(struct sb_session *session)
{
	cpuhp_state_remove_instance(sb_beat_hotplug_state, &session->hotplug);
}

int sb_beat_init(void)
{
	int state = cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "stackbeat:online",
					    sb_beat_online, sb_beat_offline);

	if (state < 0)
		return state;
	sb_beat_hotplug_state = state;
	return 0;
}

void sb_beat_exit(void)
{
	cpuhp_remove_multi_state(sb_beat_hotplug_state);
}
