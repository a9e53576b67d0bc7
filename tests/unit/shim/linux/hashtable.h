/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_HASHTABLE_H
#define SHIM_LINUX_HASHTABLE_H

#include <linux/list.h>

#define DECLARE_HASHTABLE(name, bits) struct hlist_head name[1 << (bits)]

#endif
