// SPDX-License-Identifier: GPL-2.0
// VMA_ITERATOR() and for_each_vma(), instead of the list mm->mmap (6.1).
#include <linux/mm.h>

unsigned long sb_probe(struct mm_struct *mm);

unsigned long sb_probe(struct mm_struct *mm)
{
	VMA_ITERATOR(iterator, mm, 0);
	struct vm_area_struct *vma;
	unsigned long end = 0;

	for_each_vma(iterator, vma)
		end = vma->vm_end;
	return end;
}
