/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_REFCOUNT_H
#define SHIM_LINUX_REFCOUNT_H

typedef struct {
	int count;
} refcount_t;

#endif
