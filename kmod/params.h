/* SPDX-License-Identifier: GPL-2.0 */
/* The parameters of the module. */
#ifndef STACKBEAT_PARAMS_H
#define STACKBEAT_PARAMS_H

#include <linux/types.h>

/* Maximum of STACKBEAT_A_RATE, in Hz. Constant after sb_params_check(). */
extern unsigned int sb_rate_max;

/* Users without CAP_PERFMON may open restricted sessions. Read with READ_ONCE(). */
extern bool sb_unprivileged;

/*
 * Maximum memory of the unwind tables of all sessions with CAP_PERFMON, in MiB. Constant after
 * sb_params_check().
 */
extern unsigned int sb_unwind_memory;

/*
 * One in N kernel stacks that are found by rules is compared with the unwinder's; 0: all are
 * found by the unwinder. Read with READ_ONCE().
 */
extern unsigned int sb_kernel_stack_check;

/* Rate of a new session, in Hz. */
u32 sb_default_rate(void);

/* Checks the parameters. EINVAL: one is out of its range. */
int sb_params_check(void);

#endif
