/* SPDX-License-Identifier: GPL-2.0 */
/* Allocations of kmod code go to the test, and may fail. */
#ifndef SHIM_LINUX_SLAB_H
#define SHIM_LINUX_SLAB_H

#include <stdlib.h>

#include <linux/gfp.h>
#include <linux/types.h>

void *shim_alloc(size_t size);

#define kmalloc(size, flags) shim_alloc(size)
#define kvmalloc(size, flags) shim_alloc(size)
#define kfree(memory) free(memory)
#define kvfree(memory) free(memory)

static inline void *kvcalloc(size_t count, size_t size, int flags)
{
	(void)flags;
	return calloc(count, size);
}

#endif
