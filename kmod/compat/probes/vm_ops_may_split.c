// SPDX-License-Identifier: GPL-2.0
// vm_operations_struct.may_split, formerly .split (5.11).
#include <linux/mm.h>

static int sb_may_split(struct vm_area_struct *vma, unsigned long address)
{
	return -EINVAL;
}

extern const struct vm_operations_struct sb_probe;
const struct vm_operations_struct sb_probe = {
	.may_split = sb_may_split,
};
