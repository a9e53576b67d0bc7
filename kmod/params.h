/* SPDX-License-Identifier: GPL-2.0 */
/* The parameters of the module. */
#ifndef STACKBEAT_PARAMS_H
#define STACKBEAT_PARAMS_H

#include <linux/types.h>

/* Highest rate that STACKBEAT_A_RATE may have, in Hz. Constant after sb_params_check(). */
extern unsigned int sb_rate_max;

/* Users without CAP_PERFMON may open a restricted session. Read with READ_ONCE(). */
extern bool sb_unprivileged;

/* Rate of a new session, in Hz. */
u32 sb_default_rate(void);

/* EINVAL: a parameter is out of its range. */
int sb_params_check(void);

#endif
