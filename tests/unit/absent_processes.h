/* SPDX-License-Identifier: GPL-2.0 */
/* No processes of this machine, above kernel.pid_max: nothing of them is read from /proc. */
#ifndef STACKBEAT_TEST_ABSENT_PROCESSES_H
#define STACKBEAT_TEST_ABSENT_PROCESSES_H

#define PID 0x7ffffff0u
#define CHILD 0x7ffffff4u

#endif
