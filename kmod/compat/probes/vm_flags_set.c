// SPDX-License-Identifier: GPL-2.0
// vm_flags_set() and vm_flags_clear(), instead of writing vm_flags (6.3, and stable updates).
#include <linux/mm.h>

void sb_probe(struct vm_area_struct *vma);

void sb_probe(struct vm_area_struct *vma)
{
	vm_flags_set(vma, VM_DONTEXPAND);
	vm_flags_clear(vma, VM_MAYWRITE);
}
