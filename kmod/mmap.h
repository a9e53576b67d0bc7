/* SPDX-License-Identifier: GPL-2.0 */
/* The reader's mappings of rings and of the session page. */
#ifndef STACKBEAT_MMAP_H
#define STACKBEAT_MMAP_H

#include <linux/atomic.h>
#include <linux/types.h>

struct sb_ring;
struct vm_area_struct;

/* Memory that the reader may map once. */
struct sb_mapping {
	atomic_t count;		/* of mappings: 0 or 1, or 2 while mremap() moves it */
	void *memory;		/* from sb_alloc_mapped() */
	unsigned long page;	/* index of the first page to map */
	unsigned long pages;	/* number of pages to map */
	bool writable;
};

/* Initializes the mappings of a ring: the consumer page, and the pages written by the kernel. */
void sb_mapping_init_ring(struct sb_mapping *consumer, struct sb_mapping *data,
			  const struct sb_ring *ring);

/*
 * Maps the memory, for mmap(). EINVAL: wrong size. EPERM: executable, or writable where that is not
 * allowed. EBUSY: it is mapped already.
 */
int sb_mapping_map(struct sb_mapping *mapping, struct vm_area_struct *vma);

#endif
