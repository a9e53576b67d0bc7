// SPDX-License-Identifier: GPL-2.0
#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "unwind_object.h"

struct sb_unwind_table sb_unwind_no_table;

/* Of all sessions with CAP_PERFMON. */
static struct sb_unwind_registry sb_unwind_shared;

static atomic_t sb_unwind_last_id;

/* Memory of an object without its table: objects known to have no table count, too. */
#define SB_UNWIND_OBJECT_BYTES sizeof(struct sb_unwind_object)

static void sb_unwind_registry_init(struct sb_unwind_registry *registry)
{
	mutex_init(&registry->lock);
	hash_init(registry->objects);
	INIT_LIST_HEAD(&registry->order);
}

static bool sb_unwind_registry_is_shared(const struct sb_unwind_registry *registry)
{
	return registry == &sb_unwind_shared;
}

int sb_unwind_user_init(struct sb_unwind_user *user, bool own)
{
	struct sb_unwind_registry *registry = &sb_unwind_shared;

	if (own) {
		registry = kzalloc(sizeof(*registry), GFP_KERNEL_ACCOUNT);
		if (!registry)
			return -ENOMEM;
		sb_unwind_registry_init(registry);
	}
	user->registry = registry;
	mutex_lock(&registry->lock);
	/* All bits are used only while sessions that were closed wait for being freed. */
	if (registry->users != U64_MAX)
		user->bit = BIT_ULL(ffz(registry->users));
	registry->users |= user->bit;
	mutex_unlock(&registry->lock);
	return 0;
}

static struct sb_unwind_table *sb_unwind_table_of(const struct sb_unwind_object *object)
{
	return rcu_dereference_protected(object->table, lockdep_is_held(&object->registry->lock));
}

/* Frees an object and its table after a grace period. */
static void sb_unwind_object_remove(struct sb_unwind_object *object)
{
	struct sb_unwind_table *table = sb_unwind_table_of(object);

	lockdep_assert_held(&object->registry->lock);

	hash_del(&object->node);
	list_del(&object->order);
	object->registry->bytes -= object->bytes;
	if (table && table != &sb_unwind_no_table)
		kvfree_rcu(table, rcu);
	kfree_rcu(object, rcu);
}

/* Removes an object without references, unless it is kept. */
static void sb_unwind_object_settle(struct sb_unwind_object *object)
{
	if (!object->users || !sb_unwind_table_of(object))
		sb_unwind_object_remove(object);
}

void sb_unwind_user_exit(struct sb_unwind_user *user)
{
	struct sb_unwind_registry *registry = user->registry;
	struct sb_unwind_object *object, *next;

	if (!registry)
		return;
	mutex_lock(&registry->lock);
	list_for_each_entry_safe(object, next, &registry->order, order) {
		object->users &= ~user->bit;
		if (!refcount_read(&object->refs))
			sb_unwind_object_settle(object);
	}
	registry->users &= ~user->bit;
	mutex_unlock(&registry->lock);
	user->registry = NULL;
	if (!sb_unwind_registry_is_shared(registry)) {
		mutex_destroy(&registry->lock);
		kfree(registry);
	}
}

static struct sb_unwind_identity sb_unwind_identify(const struct inode *inode)
{
	struct sb_unwind_identity identity = {};
	struct timespec64 changed;

	if (inode) {
		changed = sb_inode_ctime(inode);
		identity.device = inode->i_sb->s_dev;
		identity.inode = inode->i_ino;
		identity.size = i_size_read(inode);
		identity.changed = changed.tv_sec;
		identity.changed_ns = changed.tv_nsec;
		identity.generation = inode->i_generation;
	}
	return identity;
}

static struct sb_unwind_object *sb_unwind_object_find(struct sb_unwind_registry *registry,
						      const struct sb_unwind_identity *identity)
{
	struct sb_unwind_object *object;

	hash_for_each_possible(registry->objects, object, node, identity->inode) {
		if (!memcmp(&object->identity, identity, sizeof(*identity)))
			return object;
	}
	return NULL;
}

struct sb_unwind_object *sb_unwind_object_get(struct sb_unwind_user *user,
					      const struct inode *inode)
{
	struct sb_unwind_registry *registry = user->registry;
	struct sb_unwind_identity identity = sb_unwind_identify(inode);
	struct sb_unwind_object *object;

	mutex_lock(&registry->lock);
	object = sb_unwind_object_find(registry, &identity);
	if (object) {
		if (!refcount_inc_not_zero(&object->refs))
			refcount_set(&object->refs, 1);
	} else {
		object = kzalloc(sizeof(*object), GFP_KERNEL_ACCOUNT);
		if (object) {
			refcount_set(&object->refs, 1);
			object->registry = registry;
			object->identity = identity;
			hash_add(registry->objects, &object->node, identity.inode);
			list_add_tail(&object->order, &registry->order);
		}
	}
	if (object)
		object->users |= user->bit;
	mutex_unlock(&registry->lock);
	return object;
}

struct sb_unwind_object *sb_unwind_object_hold(struct sb_unwind_object *object)
{
	refcount_inc(&object->refs);
	return object;
}

void sb_unwind_object_put(struct sb_unwind_object *object)
{
	struct sb_unwind_registry *registry;

	if (!object)
		return;
	registry = object->registry;
	if (!refcount_dec_and_mutex_lock(&object->refs, &registry->lock))
		return;
	sb_unwind_object_settle(object);
	mutex_unlock(&registry->lock);
}

/*
 * Frees tables of objects without references, oldest first, until `bytes` more fit. Waits for a grace
 * period, without a lock: the memory is free when it is used again.
 */
static void sb_unwind_registry_evict(struct sb_unwind_registry *registry, u64 bytes, u64 limit)
{
	struct sb_unwind_object *object, *next;
	struct sb_unwind_table *table;
	LIST_HEAD(evicted);
	u64 freed = 0;

	mutex_lock(&registry->lock);
	list_for_each_entry_safe(object, next, &registry->order, order) {
		if (registry->bytes - freed + bytes <= limit)
			break;
		if (refcount_read(&object->refs))
			continue;
		hash_del(&object->node);
		list_move_tail(&object->order, &evicted);
		freed += object->bytes;
	}
	mutex_unlock(&registry->lock);
	if (list_empty(&evicted))
		return;
	synchronize_rcu();
	list_for_each_entry_safe(object, next, &evicted, order) {
		table = rcu_dereference_protected(object->table, true);
		if (table != &sb_unwind_no_table)
			kvfree(table);
		kfree(object);
		cond_resched();
	}
	mutex_lock(&registry->lock);
	registry->bytes -= freed;
	mutex_unlock(&registry->lock);
}

static bool sb_unwind_registry_reserve(struct sb_unwind_registry *registry, u64 bytes, u64 limit)
{
	bool fits;

	mutex_lock(&registry->lock);
	fits = bytes <= limit && registry->bytes <= limit - bytes;
	if (fits)
		registry->bytes += bytes;
	mutex_unlock(&registry->lock);
	return fits;
}

/* Copies a table from user memory, and checks it. */
static struct sb_unwind_table *sb_unwind_table_copy(const void __user *from, u64 size,
						    const struct sb_elf *elf)
{
	struct sb_unwind_table *table = __vmalloc(sizeof(*table) + size,
						  GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	int err;

	if (!table)
		return ERR_PTR(-ENOMEM);
	memset(table, 0, sizeof(*table));
	err = copy_from_user(table->data, from, size) ? -EFAULT : 0;
	if (!err && !stackbeat_unwind_check(table->data, size))
		err = -EINVAL;
	if (err) {
		vfree(table);
		return ERR_PTR(err);
	}
	stackbeat_unwind_open(table->data, &table->view);
	table->frame_pointers = table->data->flags & STACKBEAT_UNWIND_FRAME_POINTERS;
	if (elf)
		table->elf = *elf;
	return table;
}

/* Publishes the table of an object. EEXIST; ENOSPC: all ids are used. */
static int sb_unwind_object_publish(struct sb_unwind_object *object, struct sb_unwind_table *table,
				    u64 bytes)
{
	struct sb_unwind_registry *registry = object->registry;
	int err = 0;

	mutex_lock(&registry->lock);
	if (sb_unwind_table_of(object))
		err = -EEXIST;
	else if (table != &sb_unwind_no_table)
		table->id = atomic_fetch_add_unless(&sb_unwind_last_id, 1, -1) + 1;
	if (!err && table != &sb_unwind_no_table && !table->id)
		err = -ENOSPC;
	if (err) {
		registry->bytes -= bytes;
	} else {
		object->bytes = bytes;
		rcu_assign_pointer(object->table, table);
		list_move_tail(&object->order, &registry->order);
	}
	mutex_unlock(&registry->lock);
	return err;
}

static int sb_unwind_object_fill(struct sb_unwind_object *object, const void __user *from, u64 size,
				 const struct sb_elf *elf, u64 bytes)
{
	struct sb_unwind_registry *registry = object->registry;
	struct sb_unwind_table *table = &sb_unwind_no_table;
	int err;

	if (from) {
		table = sb_unwind_table_copy(from, size, elf);
		if (IS_ERR(table)) {
			mutex_lock(&registry->lock);
			registry->bytes -= bytes;
			mutex_unlock(&registry->lock);
			return PTR_ERR(table);
		}
	}
	err = sb_unwind_object_publish(object, table, bytes);
	if (err && table != &sb_unwind_no_table)
		vfree(table);
	return err;
}

int sb_unwind_object_set(struct sb_unwind_user *user, struct sb_unwind_object *object,
			 const void __user *from, u64 size, const struct sb_elf *elf, u64 limit)
{
	struct sb_unwind_registry *registry = user->registry;
	u64 bytes = SB_UNWIND_OBJECT_BYTES;

	if (sb_unwind_object_is_known(object))
		return -EEXIST;
	if (from) {
		if (size < sizeof(struct stackbeat_unwind_table) || size > U32_MAX)
			return -EINVAL;
		bytes += PAGE_ALIGN(sizeof(struct sb_unwind_table) + size);
	}
	if (!sb_unwind_registry_reserve(registry, bytes, limit)) {
		if (bytes <= limit)
			sb_unwind_registry_evict(registry, bytes, limit);
		if (!sb_unwind_registry_reserve(registry, bytes, limit))
			return -ENOSPC;
	}
	return sb_unwind_object_fill(object, from, size, elf, bytes);
}

void sb_unwind_user_count(const struct sb_unwind_user *user, u64 *tables, u64 *bytes)
{
	struct sb_unwind_registry *registry = user->registry;
	const struct sb_unwind_object *object;
	const struct sb_unwind_table *table;

	mutex_lock(&registry->lock);
	list_for_each_entry(object, &registry->order, order) {
		table = sb_unwind_table_of(object);
		if (!(object->users & user->bit) || !table || table == &sb_unwind_no_table)
			continue;
		++*tables;
		*bytes += table->data->size;
	}
	mutex_unlock(&registry->lock);
}

void sb_unwind_object_init(void)
{
	sb_unwind_registry_init(&sb_unwind_shared);
}
