/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_UIDGID_H
#define SHIM_LINUX_UIDGID_H

#include <linux/types.h>

typedef struct {
	u32 value;
} kuid_t;

#endif
