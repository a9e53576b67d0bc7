/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_MMZONE_H
#define SHIM_LINUX_MMZONE_H

#define PAGE_ALLOC_COSTLY_ORDER 3

#endif
