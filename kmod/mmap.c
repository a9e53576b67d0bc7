// SPDX-License-Identifier: GPL-2.0
#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "mmap.h"
#include "ring.h"

void sb_mapping_init_ring(struct sb_mapping *consumer, struct sb_mapping *data,
			  const struct sb_ring *ring)
{
	consumer->memory = (void *)ring->consumer;
	consumer->pages = 1;
	consumer->writable = true;
	data->memory = (void *)ring->consumer;
	data->page = 1;
	data->pages = 1 + ring->size / PAGE_SIZE;
}

static void sb_mapping_open(struct vm_area_struct *vma)
{
	struct sb_mapping *mapping = vma->vm_private_data;

	atomic_inc(&mapping->count);
}

static void sb_mapping_close(struct vm_area_struct *vma)
{
	struct sb_mapping *mapping = vma->vm_private_data;

	atomic_dec(&mapping->count);
}

static int sb_mapping_split(struct vm_area_struct *vma, unsigned long address)
{
	return -EINVAL;
}

static const struct vm_operations_struct sb_mapping_ops = {
	.open = sb_mapping_open,
	.close = sb_mapping_close,
	.SB_VM_OPS_MAY_SPLIT = sb_mapping_split,
};

/*
 * remap_vmalloc_range() accepts only memory of vmalloc_user(), which can't be charged to a control
 * group.
 */
static int sb_mapping_insert(const struct sb_mapping *mapping, struct vm_area_struct *vma)
{
	const u8 *at = (const u8 *)mapping->memory + mapping->page * PAGE_SIZE;
	unsigned long page;
	int err = 0;

	for (page = 0; page < mapping->pages && !err; page++)
		err = vm_insert_page(vma, vma->vm_start + page * PAGE_SIZE,
				     vmalloc_to_page(at + page * PAGE_SIZE));
	return err;
}

int sb_mapping_map(struct sb_mapping *mapping, struct vm_area_struct *vma)
{
	int err;

	if (vma->vm_end - vma->vm_start != mapping->pages * PAGE_SIZE)
		return -EINVAL;
	if ((vma->vm_flags & VM_EXEC) ||
	    ((vma->vm_flags & VM_WRITE) && !mapping->writable))
		return -EPERM;
	if (atomic_cmpxchg(&mapping->count, 0, 1))
		return -EBUSY;

	/* VM_IO: MADV_DOFORK can't clear VM_DONTCOPY, and get_user_pages() fails. */
	sb_vm_flags_mod(vma, VM_IO | VM_DONTEXPAND | VM_DONTCOPY | VM_DONTDUMP,
			VM_MAYEXEC | (mapping->writable ? 0 : VM_MAYWRITE));
	err = sb_mapping_insert(mapping, vma);
	if (err) {
		atomic_dec(&mapping->count);
		return err;
	}
	vma->vm_private_data = mapping;
	vma->vm_ops = &sb_mapping_ops;
	return 0;
}
