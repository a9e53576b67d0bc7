/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that the worker of a session allocates. It is charged to the control group of the opener, which
 * other processes can let the worker fill: then an allocation fails after one pass of reclaim, data is lost
 * and counted, and no process is killed for it.
 */
#ifndef STACKBEAT_WORKER_MEMORY_H
#define STACKBEAT_WORKER_MEMORY_H

#include <linux/gfp.h>
#include <linux/mmzone.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define SB_GFP_WORKER (GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN)

/*
 * Returns `bytes` of memory that kvfree() frees, or NULL. This is not kvmalloc(), which with these
 * flags tries hard to find contiguous pages.
 */
static inline void *sb_worker_alloc(size_t bytes)
{
	return bytes > PAGE_SIZE << PAGE_ALLOC_COSTLY_ORDER ? __vmalloc(bytes, SB_GFP_WORKER) :
							      kmalloc(bytes, SB_GFP_WORKER);
}

#endif
