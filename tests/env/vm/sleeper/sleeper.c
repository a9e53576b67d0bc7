// SPDX-License-Identifier: GPL-2.0
/*
 * A cpuidle driver for emulated machines, which have none. With it a governor chooses the idle
 * state of a CPU and whether its scheduler tick is stopped. All states are the same sleep, with
 * the names and latencies of real states. With `masked` the CPU sleeps with interrupts off, as in
 * MWAIT: the interrupt that wakes it is handled after the idle state has ended for cpuidle.
 */
#include <linux/cpu.h>
#include <linux/cpuidle.h>
#include <linux/module.h>
#include <linux/workqueue.h>
#include <asm/apic.h>
#include <asm/fixmap.h>
#include <asm/msr.h>

static bool masked;
module_param(masked, bool, 0444);
MODULE_PARM_DESC(masked, "Sleep with interrupts off");

/* Returns the interrupts pending in the local APIC of this CPU, 32 from `first` on. */
static notrace u32 sleeper_requests(bool x2apic, unsigned int first)
{
	unsigned int reg = APIC_IRR + first / 2;

	if (x2apic)
		return __rdmsr(APIC_BASE_MSR + (reg >> 4));
	return *(volatile u32 *)(APIC_BASE + reg);
}

static notrace bool sleeper_is_interrupted(bool x2apic)
{
	unsigned int first;

	for (first = 0; first < 256; first += 32) {
		if (sleeper_requests(x2apic, first))
			return true;
	}
	return false;
}

static notrace void sleeper_wait(void)
{
	bool x2apic = __rdmsr(MSR_IA32_APICBASE) & X2APIC_ENABLE;

	while (!sleeper_is_interrupted(x2apic))
		cpu_relax();
}

/* Nothing here may be traced: RCU does not watch an idle CPU. */
static notrace int sleeper_enter(struct cpuidle_device *dev, struct cpuidle_driver *drv, int index)
{
	if (masked)
		sleeper_wait();
	else
		asm volatile("sti; hlt; cli" : : : "memory");
	return index;
}

#define SLEEPER_STATE(_name, _latency, _residency) {	\
	.name = _name,					\
	.desc = _name,					\
	.exit_latency = _latency,			\
	.target_residency = _residency,			\
	.enter = sleeper_enter,				\
}

static struct cpuidle_driver sleeper_driver = {
	/* No owner: the devices would hold a reference to the module until its exit. */
	.name = "sleeper",
	.states = {
		{ /* POLL */ },
		SLEEPER_STATE("C1", 2, 2),
		SLEEPER_STATE("C3", 50, 200),
		SLEEPER_STATE("C6", 200, 3000),
	},
	.state_count = 4,
};

static int __init sleeper_init(void)
{
	cpuidle_poll_state_init(&sleeper_driver);
	return cpuidle_register(&sleeper_driver, NULL);
}

static long sleeper_nothing(void *unused)
{
	return 0;
}

static void __exit sleeper_exit(void)
{
	unsigned int cpu;

	cpuidle_unregister(&sleeper_driver);
	/* A CPU that has run other work has left sleeper_enter(). */
	cpus_read_lock();
	for_each_online_cpu(cpu)
		work_on_cpu(cpu, sleeper_nothing, NULL);
	cpus_read_unlock();
}

module_init(sleeper_init);
module_exit(sleeper_exit);

MODULE_DESCRIPTION("A cpuidle driver for emulated machines");
MODULE_LICENSE("GPL");
