/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions of the kernel that enable interrupts. The timer of a sample is an interrupt: if it
 * fires while they are off, the sample is taken where they are enabled again. So the time of such a
 * leaf is mostly of the code before: its caller, or what its caller has called.
 */
#ifndef STACKBEAT_REPORT_IRQS_OFF_H
#define STACKBEAT_REPORT_IRQS_OFF_H

#include <stdbool.h>

/* Whether a function of the kernel, also a part of it such as NAME.isra.0, enables interrupts. */
bool irqs_off_ends_in(const char *function);

#endif
