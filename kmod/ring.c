// SPDX-License-Identifier: GPL-2.0
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "ring.h"

/* Until 5.11, a page that is charged to a control group can't be mapped. */
#ifdef HAVE_PAGE_KMEMCG
#define SB_GFP_MAPPED (GFP_KERNEL | __GFP_ZERO)
#else
#define SB_GFP_MAPPED (GFP_KERNEL_ACCOUNT | __GFP_ZERO)
#endif

void *sb_alloc_mapped(size_t size, int node, struct page ***mapped)
{
	u32 count = size / PAGE_SIZE, n;
	struct page **pages;
	void *memory;

	pages = kvcalloc(count, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	if (!pages)
		return NULL;
	for (n = 0; n < count; n++) {
		pages[n] = alloc_pages_node(node, SB_GFP_MAPPED, 0);
		if (!pages[n])
			goto fail;
	}
	/*
	 * Not with VM_MAP_PUT_PAGES: until 6.13, vfree() subtracts the pages from the vmalloc memory
	 * of the machine and of the control group, to which vmap() adds none.
	 */
	memory = vmap(pages, count, VM_MAP, PAGE_KERNEL);
	if (memory) {
		*mapped = pages;
		return memory;
	}
fail:
	while (n)
		__free_page(pages[--n]);
	kvfree(pages);
	return NULL;
}

void sb_free_mapped(const void *memory, struct page **pages, size_t size)
{
	u32 n;

	if (!memory)
		return;
	vunmap(memory);
	for (n = 0; n < size / PAGE_SIZE; n++)
		__free_page(pages[n]);
	kvfree(pages);
}

/*
 * Allocates a ring with `size` bytes of data, a power of two. Its memory is one
 * zeroed allocation that can be mapped: consumer page, producer page, data, on the node of its
 * CPU (U32_MAX: none). ENOMEM.
 */
int sb_ring_alloc(struct sb_ring *ring, u32 size, u32 cpu)
{
	u8 *memory = sb_alloc_mapped(2 * PAGE_SIZE + size,
				     cpu == U32_MAX ? NUMA_NO_NODE : cpu_to_node(cpu), &ring->pages);

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
	sb_free_mapped(ring->consumer, ring->pages, 2 * PAGE_SIZE + ring->size);
}
