/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STACKBEAT_LIB_PIDFD_H
#define STACKBEAT_LIB_PIDFD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Returns whether a process has exited, or exits within `milliseconds`. It may still be a zombie.
 * Returns false, too, where pidfd_open() fails for another reason than a missing process.
 */
bool process_exits_within(pid_t pid, int milliseconds);

#endif
