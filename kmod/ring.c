// SPDX-License-Identifier: GPL-2.0
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "ring.h"

void *sb_alloc_mapped(size_t size)
{
#ifdef HAVE_PAGE_KMEMCG
	return vmalloc_user(size);
#else
	return __vmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
#endif
}

/*
 * Allocates a ring with `size` bytes of data, a power of two. Its memory is one
 * zeroed allocation that can be mapped: consumer page, producer page, data. ENOMEM.
 */
int sb_ring_alloc(struct sb_ring *ring, u32 size, u32 cpu)
{
	u8 *memory = sb_alloc_mapped(2 * PAGE_SIZE + size);

	if (!memory)
		return -ENOMEM;
	ring->consumer = (void *)memory;
	ring->producer = (void *)(memory + PAGE_SIZE);
	ring->data = memory + 2 * PAGE_SIZE;
	ring->size = size;
	ring->producer->size = size;
	ring->producer->cpu = cpu;
	return 0;
}

void sb_ring_free(struct sb_ring *ring)
{
	vfree(ring->consumer);
}
