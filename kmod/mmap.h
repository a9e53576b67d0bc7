/* SPDX-License-Identifier: GPL-2.0 */
/* Mappings of rings, and of the session page, in the reader. */
#ifndef STACKBEAT_MMAP_H
#define STACKBEAT_MMAP_H

#include <linux/atomic.h>
#include <linux/types.h>

struct sb_ring;
struct vm_area_struct;

/* Memory that the reader may map, and how often it is mapped: 0 or 1, or 2 while it is moved. */
struct sb_mapping {
	atomic_t count;
	void *memory;		/* from sb_alloc_mapped() */
	unsigned long page;	/* first page of the memory that is mapped */
	unsigned long pages;
	bool writable;
};

/* The two mappings of a ring: the consumer page, and the pages that the kernel writes. */
void sb_mapping_init_ring(struct sb_mapping *consumer, struct sb_mapping *data,
			  const struct sb_ring *ring);

/* For mmap(). EINVAL: another size. EPERM: executable, or not to be written. EBUSY: mapped. */
int sb_mapping_map(struct sb_mapping *mapping, struct vm_area_struct *vma);

#endif
