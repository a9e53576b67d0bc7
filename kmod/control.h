/* SPDX-License-Identifier: GPL-2.0 */
/* Generic netlink: what stackbeat.h says of STACKBEAT_CMD_*. */
#ifndef STACKBEAT_CONTROL_H
#define STACKBEAT_CONTROL_H

#include <linux/types.h>

/* `rate_max`, in Hz, bounds what STACKBEAT_A_RATE accepts. */
int sb_control_init(u32 rate_max);
void sb_control_exit(void);

#endif
