// SPDX-License-Identifier: GPL-2.0
#include <linux/bitops.h>
#include <linux/blkdev.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/kdev_t.h>
#include <linux/log2.h>
#include <linux/major.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "unwind_object.h"
#include "worker_memory.h"

struct sb_unwind_table sb_unwind_no_table;

/* Of all sessions with CAP_PERFMON. */
static struct sb_unwind_registry sb_unwind_shared;

/*
 * Ids of tables: sessions with CAP_PERFMON have the lower half, so that what others set leaves
 * them ids.
 */
static atomic_t sb_unwind_last_shared_id;
static atomic_t sb_unwind_last_own_id = ATOMIC_INIT(SB_UNWIND_ID_MAX / 2);

/* Memory of an object without its table: objects known to have no table count, too. */
#define SB_UNWIND_OBJECT_BYTES sizeof(struct sb_unwind_object)

/* Bytes that are copied, and blocks that are checked, before other threads may run. */
#define SB_UNWIND_COPY_PART (1u << 20)
#define SB_UNWIND_CHECK_PART 1024u

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

/* Frees an object, and its table, that no tick can use. */
static void sb_unwind_object_free(struct sb_unwind_object *object)
{
	struct sb_unwind_table *table = rcu_dereference_protected(object->table, true);

	if (table != &sb_unwind_no_table)
		kvfree(table);
	kfree(object);
}

static bool sb_unwind_object_is_roots(const struct sb_unwind_object *object)
{
	return uid_eq(object->owner, GLOBAL_ROOT_UID);
}

static void sb_unwind_object_add_bytes(struct sb_unwind_object *object, s64 bytes)
{
	struct sb_unwind_registry *registry = object->registry;

	lockdep_assert_held(&registry->lock);

	object->bytes += bytes;
	registry->bytes += bytes;
	if (!sb_unwind_object_is_roots(object))
		registry->user_bytes += bytes;
}

/* Frees an object and its table after a grace period. */
static void sb_unwind_object_remove(struct sb_unwind_object *object)
{
	struct sb_unwind_table *table = sb_unwind_table_of(object);

	lockdep_assert_held(&object->registry->lock);

	hash_del(&object->node);
	list_del(&object->order);
	sb_unwind_object_add_bytes(object, -(s64)object->bytes);
	if (table && table != &sb_unwind_no_table)
		kvfree_rcu(table, rcu);
	kfree_rcu(object, rcu);
}

/* Removes an object without references, unless it is kept. */
static void sb_unwind_object_settle(struct sb_unwind_object *object)
{
	if (!object->users || !object->lasting || !sb_unwind_table_of(object))
		sb_unwind_object_remove(object);
}

/*
 * At once, and not after a grace period: the limits of restricted sessions count a session until its
 * memory is freed.
 */
static void sb_unwind_registry_free(struct sb_unwind_registry *registry)
{
	struct sb_unwind_object *object, *next;

	list_for_each_entry_safe(object, next, &registry->order, order) {
		sb_unwind_object_free(object);
		cond_resched();
	}
	mutex_destroy(&registry->lock);
	kfree(registry);
}

void sb_unwind_user_exit(struct sb_unwind_user *user)
{
	struct sb_unwind_registry *registry = user->registry;
	struct sb_unwind_object *object, *next;

	user->registry = NULL;
	if (!registry)
		return;
	if (!sb_unwind_registry_is_shared(registry)) {
		sb_unwind_registry_free(registry);
		return;
	}
	mutex_lock(&registry->lock);
	list_for_each_entry_safe(object, next, &registry->order, order) {
		WRITE_ONCE(object->users, object->users & ~user->bit);
		if (!refcount_read(&object->refs))
			sb_unwind_object_settle(object);
		cond_resched();
	}
	registry->users &= ~user->bit;
	mutex_unlock(&registry->lock);
}

bool sb_unwind_device_is_exchanged(const struct super_block *sb)
{
	/* The disk of a partition, too, and of file systems with a device number of their own. */
	const struct gendisk *disk = sb->s_bdev ? sb->s_bdev->bd_disk : NULL;

	return disk && (disk->major == LOOP_MAJOR || disk->flags & GENHD_FL_REMOVABLE);
}

/*
 * Whether no user can make another file with the same identity. One who mounts a file system, or
 * serves one of FUSE, can choose all of it, except the device; and when that is unmounted, its device
 * number is given to the next file system. One who makes an image chooses the same, and the device
 * number is given to the next image: only the sequence number of the disk differs.
 */
static bool sb_unwind_identity_lasts(const struct inode *inode)
{
	const struct super_block *sb;

	if (!inode)
		return true;
	sb = inode->i_sb;
	/* fuse and fuseblk; the server of virtiofs is the host. */
	return sb->s_user_ns == &init_user_ns && strncmp(sb->s_type->name, "fuse", 4) &&
	       (SB_HAS_DISK_SEQUENCE || !sb_unwind_device_is_exchanged(sb));
}

/* Where users choose identities, they choose owners, too: all of these files have the same one. */
static kuid_t sb_unwind_owner(const struct inode *inode)
{
	if (!inode)
		return GLOBAL_ROOT_UID;
	return sb_unwind_identity_lasts(inode) ? inode->i_uid : INVALID_UID;
}

static struct sb_unwind_identity sb_unwind_identify(const struct inode *inode)
{
	struct sb_unwind_identity identity = {};
	struct timespec64 changed;

	if (inode) {
		changed = sb_inode_ctime(inode);
		identity.device = inode->i_sb->s_dev;
		if (inode->i_sb->s_bdev)
			identity.disk = sb_disk_sequence(inode->i_sb->s_bdev->bd_disk);
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
		list_move_tail(&object->order, &registry->order);
	} else {
		object = kzalloc(sizeof(*object), SB_GFP_WORKER);
		if (object) {
			refcount_set(&object->refs, 1);
			object->registry = registry;
			object->identity = identity;
			object->lasting = sb_unwind_identity_lasts(inode);
			object->owner = sb_unwind_owner(inode);
			hash_add(registry->objects, &object->node, identity.inode);
			list_add_tail(&object->order, &registry->order);
		}
	}
	if (object) {
		WRITE_ONCE(object->users, object->users | user->bit);
		object->files++;
	}
	mutex_unlock(&registry->lock);
	return object;
}

void sb_unwind_object_release(struct sb_unwind_object *object)
{
	struct sb_unwind_registry *registry;

	if (!object)
		return;
	registry = object->registry;
	mutex_lock(&registry->lock);
	if (!--object->files && !object->lasting)
		hash_del(&object->node);
	mutex_unlock(&registry->lock);
	sb_unwind_object_put(object);
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

/* Which objects a sum, or an eviction, is about: the objects of one owner, of users, or all. */
enum sb_unwind_scope {
	SB_UNWIND_OWNER,
	SB_UNWIND_USERS,
	SB_UNWIND_ALL,
	SB_UNWIND_SCOPES
};

static bool sb_unwind_is_in_scope(const struct sb_unwind_object *object,
				  enum sb_unwind_scope scope, kuid_t owner)
{
	if (scope == SB_UNWIND_OWNER)
		return uid_eq(object->owner, owner);
	return scope == SB_UNWIND_ALL || !sb_unwind_object_is_roots(object);
}

/* Bytes of a scope; `idle`: of objects without references only. */
static u64 sb_unwind_registry_sum(const struct sb_unwind_registry *registry,
				  enum sb_unwind_scope scope, kuid_t owner, bool idle)
{
	const struct sb_unwind_object *object;
	u64 bytes = 0;

	lockdep_assert_held(&registry->lock);

	list_for_each_entry(object, &registry->order, order) {
		if (sb_unwind_is_in_scope(object, scope, owner) &&
		    !(idle && refcount_read(&object->refs)))
			bytes += object->bytes;
		cond_resched();
	}
	return bytes;
}

/* The limit of a scope, in a registry with this limit. */
static u64 sb_unwind_scope_limit(enum sb_unwind_scope scope, u64 limit)
{
	return scope == SB_UNWIND_OWNER ? limit / 2 :
	       scope == SB_UNWIND_USERS ? limit - limit / 4 : limit;
}

/* Sets the bytes by which each scope exceeds its limit with `bytes` more of an object. */
static void sb_unwind_find_excess(const struct sb_unwind_object *object, u64 bytes, u64 limit,
				  u64 excess[SB_UNWIND_SCOPES])
{
	const struct sb_unwind_registry *registry = object->registry;
	bool shares = sb_unwind_registry_is_shared(registry) && !sb_unwind_object_is_roots(object);
	u64 sums[SB_UNWIND_SCOPES] = { [SB_UNWIND_ALL] = registry->bytes }, most;
	enum sb_unwind_scope scope;

	if (shares) {
		sums[SB_UNWIND_USERS] = registry->user_bytes;
		/* An owner has not more than all users: most sums are not needed. */
		most = sb_unwind_scope_limit(SB_UNWIND_OWNER, limit);
		if (registry->user_bytes + bytes > most)
			sums[SB_UNWIND_OWNER] = sb_unwind_registry_sum(registry, SB_UNWIND_OWNER,
								       object->owner, false);
	}
	for (scope = 0; scope < SB_UNWIND_SCOPES; scope++) {
		most = sb_unwind_scope_limit(scope, limit);
		excess[scope] = 0;
		if ((shares || scope == SB_UNWIND_ALL) && sums[scope] + bytes > most)
			excess[scope] = sums[scope] + bytes - most;
	}
}

/* Moves the objects of a scope without references, in the order of their last use, to a list. */
static u64 sb_unwind_registry_detach(struct sb_unwind_registry *registry,
				     enum sb_unwind_scope scope, kuid_t owner, u64 bytes,
				     struct list_head *list)
{
	struct sb_unwind_object *object, *next;
	u64 freed = 0;

	list_for_each_entry_safe(object, next, &registry->order, order) {
		if (freed >= bytes)
			break;
		cond_resched();
		if (refcount_read(&object->refs) || !sb_unwind_is_in_scope(object, scope, owner))
			continue;
		hash_del(&object->node);
		list_move_tail(&object->order, list);
		freed += object->bytes;
	}
	return freed;
}

/*
 * Frees tables of objects without references until `bytes` more fit for an object; none if all of
 * them are too few. Waits for a grace period, without a lock: the memory is free when it is used
 * again.
 */
static void sb_unwind_registry_evict(const struct sb_unwind_object *wanting, u64 bytes, u64 limit)
{
	struct sb_unwind_registry *registry = wanting->registry;
	struct sb_unwind_object *object, *next;
	u64 excess[SB_UNWIND_SCOPES], freed = 0, freed_users = 0;
	enum sb_unwind_scope scope;
	LIST_HEAD(evicted);

	mutex_lock(&registry->lock);
	sb_unwind_find_excess(wanting, bytes, limit, excess);
	for (scope = 0; scope < SB_UNWIND_SCOPES; scope++) {
		if (excess[scope] > sb_unwind_registry_sum(registry, scope, wanting->owner, true)) {
			mutex_unlock(&registry->lock);
			return;
		}
	}
	/* What one scope frees is a part of the next one's. */
	for (scope = 0; scope < SB_UNWIND_SCOPES; scope++) {
		if (excess[scope] > freed)
			freed += sb_unwind_registry_detach(registry, scope, wanting->owner,
							   excess[scope] - freed, &evicted);
	}
	mutex_unlock(&registry->lock);
	if (list_empty(&evicted))
		return;
	synchronize_rcu();
	list_for_each_entry_safe(object, next, &evicted, order) {
		if (!sb_unwind_object_is_roots(object))
			freed_users += object->bytes;
		sb_unwind_object_free(object);
		cond_resched();
	}
	mutex_lock(&registry->lock);
	registry->bytes -= freed;
	registry->user_bytes -= freed_users;
	mutex_unlock(&registry->lock);
}

static bool sb_unwind_object_reserve(struct sb_unwind_object *object, u64 bytes, u64 limit)
{
	struct sb_unwind_registry *registry = object->registry;
	u64 excess[SB_UNWIND_SCOPES];
	bool fits;

	mutex_lock(&registry->lock);
	sb_unwind_find_excess(object, bytes, limit, excess);
	fits = !excess[SB_UNWIND_OWNER] && !excess[SB_UNWIND_USERS] && !excess[SB_UNWIND_ALL];
	if (fits)
		sb_unwind_object_add_bytes(object, bytes);
	mutex_unlock(&registry->lock);
	return fits;
}

/* Copies and checks a table. Large ones take long, so other threads may run in between. */
static int sb_unwind_table_read(struct stackbeat_unwind_table *table, const void __user *from,
				u64 size)
{
	u64 at, part;
	u32 block;

	for (at = 0; at < size; at += part) {
		part = min_t(u64, size - at, SB_UNWIND_COPY_PART);
		if (copy_from_user((u8 *)table + at, (const u8 __user *)from + at, part))
			return -EFAULT;
		cond_resched();
	}
	if (!stackbeat_unwind_check_head(table, size))
		return -EINVAL;
	for (block = 0; block < table->block_count; block += SB_UNWIND_CHECK_PART) {
		if (!stackbeat_unwind_check_blocks(table, block,
						   min(block + SB_UNWIND_CHECK_PART,
						       table->block_count)))
			return -EINVAL;
		cond_resched();
	}
	return 0;
}

/*
 * Small programs have tables of some hundred bytes. Large ones are not allocated by kvmalloc(), which
 * would round them up to a power of two.
 */
static bool sb_unwind_table_is_small(u64 size)
{
	return sizeof(struct sb_unwind_table) + size < PAGE_SIZE;
}

/* The memory that a table with `size` bytes of data takes. */
static u64 sb_unwind_table_bytes(u64 size)
{
	u64 bytes = sizeof(struct sb_unwind_table) + size;

	return sb_unwind_table_is_small(size) ? roundup_pow_of_two(bytes) : PAGE_ALIGN(bytes);
}

static struct sb_unwind_table *sb_unwind_table_alloc(u64 size)
{
	u64 bytes = sizeof(struct sb_unwind_table) + size;
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;

	return sb_unwind_table_is_small(size) ? kmalloc(bytes, gfp) : __vmalloc(bytes, gfp);
}

static struct sb_unwind_table *sb_unwind_table_copy(const void __user *from, u64 size,
						    const struct sb_elf *elf)
{
	struct sb_unwind_table *table = sb_unwind_table_alloc(size);
	int err;

	if (!table)
		return ERR_PTR(-ENOMEM);
	memset(table, 0, sizeof(*table));
	err = sb_unwind_table_read(table->data, from, size);
	if (err) {
		kvfree(table);
		return ERR_PTR(err);
	}
	stackbeat_unwind_open(table->data, &table->view);
	if (elf)
		table->elf = *elf;
	return table;
}

/* Returns an id for a table, which is never used again; 0: all are used. */
static u32 sb_unwind_next_id(const struct sb_unwind_registry *registry)
{
	bool shared = sb_unwind_registry_is_shared(registry);
	int end = shared ? SB_UNWIND_ID_MAX / 2 : SB_UNWIND_ID_MAX, last;

	last = atomic_fetch_add_unless(shared ? &sb_unwind_last_shared_id : &sb_unwind_last_own_id,
				       1, end);
	return last == end ? 0 : (u32)last + 1;
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
		table->id = sb_unwind_next_id(registry);
	if (!err && table != &sb_unwind_no_table && !table->id)
		err = -ENOSPC;
	if (err) {
		sb_unwind_object_add_bytes(object, -(s64)bytes);
	} else {
		rcu_assign_pointer(object->table, table);
		list_move_tail(&object->order, &registry->order);
	}
	mutex_unlock(&registry->lock);
	return err;
}

static void sb_unwind_object_unreserve(struct sb_unwind_object *object, u64 bytes)
{
	mutex_lock(&object->registry->lock);
	sb_unwind_object_add_bytes(object, -(s64)bytes);
	mutex_unlock(&object->registry->lock);
}

static int sb_unwind_object_fill(struct sb_unwind_object *object, const void __user *from, u64 size,
				 const struct sb_elf *elf, u64 bytes)
{
	struct sb_unwind_table *table = &sb_unwind_no_table;
	int err;

	if (from) {
		table = sb_unwind_table_copy(from, size, elf);
		if (IS_ERR(table)) {
			sb_unwind_object_unreserve(object, bytes);
			return PTR_ERR(table);
		}
	}
	err = sb_unwind_object_publish(object, table, bytes);
	if (err && table != &sb_unwind_no_table)
		kvfree(table);
	return err;
}

int sb_unwind_object_set(struct sb_unwind_user *user, struct sb_unwind_object *object,
			 const void __user *from, u64 size, const struct sb_elf *elf, u64 limit,
			 int (*charge)(void *arg, u64 bytes), void *arg)
{
	struct sb_unwind_registry *registry = user->registry;
	u64 bytes = SB_UNWIND_OBJECT_BYTES;
	int err;

	if (sb_unwind_object_is_known(object))
		return -EEXIST;
	if (from) {
		if (size < sizeof(struct stackbeat_unwind_table) ||
		    size > STACKBEAT_UNWIND_SIZE_MAX)
			return -EINVAL;
		bytes += sb_unwind_table_bytes(size);
	}
	if (!sb_unwind_object_reserve(object, bytes, limit)) {
		sb_unwind_registry_evict(object, bytes, limit);
		if (!sb_unwind_object_reserve(object, bytes, limit))
			return -ENOSPC;
	}
	/* After the reservation: of tables that are set at the same time, the last one charges all. */
	err = from ? charge(arg, READ_ONCE(registry->bytes)) : 0;
	if (err) {
		sb_unwind_object_unreserve(object, bytes);
		return err;
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
		cond_resched();
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
