/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STACKBEAT_LIB_PIDFD_H
#define STACKBEAT_LIB_PIDFD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether a process has ended, or does within so many milliseconds. Its parent may still have
 * to wait for it. False, too, where it can't be asked.
 */
bool process_exits_within(pid_t pid, int milliseconds);

#endif
