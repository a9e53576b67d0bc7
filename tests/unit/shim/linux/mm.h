/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_MM_H
#define SHIM_LINUX_MM_H

#define PAGE_SIZE 4096ul
#define TASK_SIZE_MAX ((1ul << 47) - PAGE_SIZE)

#endif
