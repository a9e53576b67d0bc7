/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/stackbeat: each open file is a session; mmap maps its rings, poll waits for records. */
#ifndef STACKBEAT_DEVICE_H
#define STACKBEAT_DEVICE_H

int sb_device_init(void);
void sb_device_exit(void);

#endif
