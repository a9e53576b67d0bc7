/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/stackbeat: open is a session, mmap its rings, poll its wake-ups. */
#ifndef STACKBEAT_DEVICE_H
#define STACKBEAT_DEVICE_H

int sb_device_init(void);
void sb_device_exit(void);

#endif
