/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_LIST_H
#define SHIM_LINUX_LIST_H

#include <linux/kernel.h>
#include <linux/types.h>

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list->prev = list;
}

static inline void list_del(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *list)
{
	entry->prev = list->prev;
	entry->next = list;
	list->prev->next = entry;
	list->prev = entry;
}

static inline void list_move_tail(struct list_head *entry, struct list_head *list)
{
	list_del(entry);
	list_add_tail(entry, list);
}

static inline void list_replace(struct list_head *old, struct list_head *entry)
{
	*entry = *old;
	entry->next->prev = entry->prev->next = entry;
}

#define list_entry(pointer, type, member) container_of(pointer, type, member)
#define list_first_entry(list, type, member) list_entry((list)->next, type, member)
#define list_for_each_entry(entry, list, member)                                                   \
	for ((entry) = list_first_entry(list, __typeof__(*(entry)), member);                       \
	     &(entry)->member != (list);                                                           \
	     (entry) = list_first_entry(&(entry)->member, __typeof__(*(entry)), member))

#define list_for_each_entry_safe(entry, after, list, member)                                       \
	for ((entry) = list_first_entry(list, __typeof__(*(entry)), member),                       \
	    (after) = list_first_entry(&(entry)->member, __typeof__(*(entry)), member);            \
	     &(entry)->member != (list); (entry) = (after),                                        \
	    (after) = list_first_entry(&(entry)->member, __typeof__(*(entry)), member))

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

static inline void INIT_HLIST_NODE(struct hlist_node *node)
{
	node->next = NULL;
	node->pprev = NULL;
}

static inline bool hlist_unhashed(const struct hlist_node *node)
{
	return !node->pprev;
}

static inline void hlist_add_head(struct hlist_node *node, struct hlist_head *head)
{
	node->next = head->first;
	if (node->next)
		node->next->pprev = &node->next;
	head->first = node;
	node->pprev = &head->first;
}

static inline void hlist_del_init(struct hlist_node *node)
{
	if (hlist_unhashed(node))
		return;
	*node->pprev = node->next;
	if (node->next)
		node->next->pprev = node->pprev;
	INIT_HLIST_NODE(node);
}

#endif
