/* SPDX-License-Identifier: GPL-2.0 */
/* Generic netlink: the commands STACKBEAT_CMD_*, see stackbeat.h. */
#ifndef STACKBEAT_NETLINK_H
#define STACKBEAT_NETLINK_H

int sb_netlink_init(void);
void sb_netlink_exit(void);

#endif
