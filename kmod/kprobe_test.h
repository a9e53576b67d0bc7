/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests whether the kernel runs kprobes. Root can switch all of them off while they are registered
 * (sysctl kernel.ftrace_enabled, kprobes/enabled in debugfs), and no call reports it.
 */
#ifndef STACKBEAT_KPROBE_TEST_H
#define STACKBEAT_KPROBE_TEST_H

#include <linux/types.h>

/*
 * Puts a kprobe on a function of the module, by ftrace or by a breakpoint: only kprobes by ftrace
 * end with kernel.ftrace_enabled. Without memory, no test is possible.
 */
void sb_kprobe_test_register(bool by_ftrace);
/* Allowed without sb_kprobe_test_register(). Waits for a grace period. */
void sb_kprobe_test_unregister(void);

/*
 * Returns whether kprobes run; true if no test is possible. Called by one task at a time, in any
 * context in which kprobes run.
 */
bool sb_kprobe_test(void);

#endif
