// SPDX-License-Identifier: GPL-2.0
#include "report/irqs_off.h"

#include <stddef.h>
#include <string.h>

bool irqs_off_ends_in(const char *function)
{
	/* Of Linux 5.10 to 7.2; locks are released out of line in kernels of distributions. */
	static const char *const names[] = {
		"_raw_spin_unlock_irqrestore",
		"_raw_spin_unlock_irq",
		"_raw_read_unlock_irqrestore",
		"_raw_read_unlock_irq",
		"_raw_write_unlock_irqrestore",
		"_raw_write_unlock_irq",
		"exit_to_user_mode_prepare",
		"exit_to_user_mode_loop",
		"syscall_exit_to_user_mode",
		"syscall_enter_from_user_mode",
		"syscall_enter_from_user_mode_prepare",
		"irqentry_exit_to_user_mode",
		"finish_task_switch",
		"finish_lock_switch",
		"raw_spin_rq_unlock_irq",
		"__do_softirq",
		"handle_softirqs",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const size_t length = strlen(names[i]);

		if (!strncmp(function, names[i], length) &&
		    (!function[length] || function[length] == '.'))
			return true;
	}
	return false;
}
