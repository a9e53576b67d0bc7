// SPDX-License-Identifier: GPL-2.0
// vm_flags_set() and vm_flags_clear(); before them, vm_flags is written (6.3, and stable updates).
#include <linux/mm.h>

void sb_probe(struct vm_area_struct *vma);

void sb_probe(struct vm_area_struct *vma)
{
	vm_flags_set(vma, VM_DONTEXPAND);
	vm_flags_clear(vma, VM_MAYWRITE);
}
