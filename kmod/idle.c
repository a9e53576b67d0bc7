// SPDX-License-Identifier: GPL-2.0
#include <linux/irqflags.h>
#include <linux/sched.h>
#include <asm/tsc.h>

#include "cpu.h"
#include "idle.h"
#include "sampler.h"

/*
 * Cancels the timers of a CPU that goes idle: there is nothing to sample, and no need to wake the
 * CPU. If parking takes more than a quarter of a session's budget, the session's timer stays armed:
 * a CPU that goes idle so often does not sleep.
 */
static noinline void sb_cpu_park(void)
{
	struct sb_cpu *here = this_cpu_ptr(&sb_cpus);
	u64 start = rdtsc(), end;
	struct sb_sampler *sampler;

	hlist_for_each_entry(sampler, &here->samplers, node) {
		if (here->parking > READ_ONCE(sampler->session->budget) / 4)
			continue;
		sb_sampler_park(sampler);
		if (sampler->parked)
			here->parked = PF_IDLE;
		end = rdtsc();
		sb_sampler_add_parking(sampler, end - start);
		start = end;
	}
}

/* Arms the timers of a CPU that is no longer idle. */
static noinline void sb_cpu_unpark(void)
{
	struct sb_cpu *here = this_cpu_ptr(&sb_cpus);
	u64 start = rdtsc(), end;
	struct sb_sampler *sampler;

	here->parked = 0;
	hlist_for_each_entry(sampler, &here->samplers, node) {
		sb_sampler_unpark(sampler);
		end = rdtsc();
		sb_sampler_add_parking(sampler, end - start);
		start = end;
	}
}

/*
 * A switch to the idle task cancels the timers, before the cpuidle governor looks for the next
 * timer. A switch to another task arms them again; interrupts of an idle CPU do not. Called with
 * the runqueue lock held.
 */
static __always_inline void sb_cpu_on_switch(const struct task_struct *next)
{
	const unsigned int flags = READ_ONCE(next->flags);

	/*
	 * Each switch of a machine that samples pays for this line: it compares is_idle_task()
	 * with `parked` as bits, and leaves the address of the CPU's state to the functions.
	 */
	if (likely(!((flags ^ __this_cpu_read(sb_cpus.parked)) & PF_IDLE)))
		return;
	if (flags & PF_IDLE)
		sb_cpu_park();
	else
		sb_cpu_unpark();
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

/* Softirqs that interrupt the idle task are work: the timers are armed while they run. */
void sb_cpu_on_softirq_entry(void *data, unsigned int softirq)
{
	unsigned long flags;

	if (likely(!is_idle_task(current)))
		return;
	local_irq_save(flags);
	if (__this_cpu_read(sb_cpus.parked))
		sb_cpu_unpark();
	local_irq_restore(flags);
}

void sb_cpu_on_softirq_exit(void *data, unsigned int softirq)
{
	unsigned long flags;

	if (likely(!is_idle_task(current)))
		return;
	local_irq_save(flags);
	if (!__this_cpu_read(sb_cpus.parked))
		sb_cpu_park();
	local_irq_restore(flags);
}
