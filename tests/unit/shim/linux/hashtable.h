/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_HASHTABLE_H
#define SHIM_LINUX_HASHTABLE_H

#include <linux/kernel.h>
#include <linux/list.h>

#define DECLARE_HASHTABLE(name, bits) struct hlist_head name[1 << (bits)]

#define shim_hash_list(table, key) (&(table)[(key) / 64 % ARRAY_SIZE(table)])
#define hash_add(table, node, key) hlist_add_head(node, shim_hash_list(table, key))
#define hash_del(node) hlist_del_init(node)

#define shim_hash_entry(node, entry, member)                                                       \
	((node) ? container_of(node, __typeof__(*(entry)), member) : NULL)
#define hash_for_each_possible_safe(table, entry, after, member, key)                              \
	for ((entry) = shim_hash_entry(shim_hash_list(table, key)->first, entry, member);          \
	     (entry) && ((after) = (entry)->member.next, true);                                    \
	     (entry) = shim_hash_entry(after, entry, member))

#endif
