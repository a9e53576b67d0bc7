/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_ATOMIC_H
#define SHIM_LINUX_ATOMIC_H

#include <linux/types.h>

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	int64_t counter;
} atomic64_t;

#define atomic_read(atomic) ((atomic)->counter)
#define atomic_read_acquire(atomic) ((atomic)->counter)
#define atomic_add(number, atomic) ((void)((atomic)->counter += (int)(number)))
#define atomic_sub_return_release(number, atomic) ((atomic)->counter -= (int)(number))
#define atomic64_inc_return(atomic) ((u64)++(atomic)->counter)

#endif
