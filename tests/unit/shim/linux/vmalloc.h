/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_VMALLOC_H
#define SHIM_LINUX_VMALLOC_H

#include <linux/slab.h>

#define __vmalloc(size, flags) shim_alloc(size)

#endif
