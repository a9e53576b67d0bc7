// SPDX-License-Identifier: GPL-2.0
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>

#include "params.h"
#include "stackbeat.h"

#define SB_UNWIND_MEMORY_MAX 4096u	/* MiB */

unsigned int sb_rate_max = STACKBEAT_RATE_MAX;
module_param_named(rate_max, sb_rate_max, uint, 0444);
MODULE_PARM_DESC(rate_max, "Maximum sampling rate of a session in Hz, 1 to 20000 (default 20000)");

bool sb_unprivileged;
module_param_named(unprivileged, sb_unprivileged, bool, 0644);
MODULE_PARM_DESC(unprivileged, "Allow users with access to the device but without CAP_PERFMON to profile the user part of their own processes (default N)");

unsigned int sb_unwind_memory = 64;
module_param_named(unwind_memory, sb_unwind_memory, uint, 0444);
MODULE_PARM_DESC(unwind_memory, "Maximum memory of all unwind tables in MiB, 0 to 4096 (default 64)");

unsigned int sb_kernel_stack_check = 1000;
module_param_named(kernel_stack_check, sb_kernel_stack_check, uint, 0644);
MODULE_PARM_DESC(kernel_stack_check, "One in N kernel stacks found by learnt rules is compared with the kernel's unwinder; 0: all by the unwinder (default 1000)");

u32 sb_default_rate(void)
{
	return min(STACKBEAT_RATE_DEFAULT, sb_rate_max);
}

int __init sb_params_check(void)
{
	if (sb_rate_max < STACKBEAT_RATE_MIN || sb_rate_max > STACKBEAT_RATE_MAX) {
		pr_err("stackbeat: rate_max=%u: must be %u to %u\n", sb_rate_max,
		       STACKBEAT_RATE_MIN, STACKBEAT_RATE_MAX);
		return -EINVAL;
	}
	if (sb_unwind_memory > SB_UNWIND_MEMORY_MAX) {
		pr_err("stackbeat: unwind_memory=%u: must be 0 to %u\n", sb_unwind_memory,
		       SB_UNWIND_MEMORY_MAX);
		return -EINVAL;
	}
	return 0;
}
