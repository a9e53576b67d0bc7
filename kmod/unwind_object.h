/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unwind tables (stackbeat_unwind.h) of the files that sampled programs map, by file identity.
 *
 * An object stands for a file, or for the vDSO. The reader of a session sets its table once. All
 * sessions with CAP_PERFMON share their objects; a restricted session has its own. An object is
 * referenced by the mapped files and the mappings of sessions. Beyond that, it is kept while it has
 * a table (or is known to have none) and a session that has used it is open, unless the memory is
 * wanted for another table. If others can make a file of the same identity, an object is found as
 * long as a mapped file holds the inode, and is not kept.
 *
 * Any user can run programs that map many files. Each owner of files has a share of the shared registry,
 * so that the tables of these files leave room for tables of others. All owners but root together have a
 * share that leaves room for root's files.
 *
 * The tick reads objects and tables under RCU.
 */
#ifndef STACKBEAT_UNWIND_OBJECT_H
#define STACKBEAT_UNWIND_OBJECT_H

#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "elf.h"
#include "stackbeat_unwind.h"

struct inode;
struct super_block;

/* Walks keep two bits of their own above the id of a table. */
#define SB_UNWIND_ID_MAX ((1 << 30) - 1)

/* A table, checked. Constant once it is published. */
struct sb_unwind_table {
	struct rcu_head rcu;
	u32 id;			/* never used twice while the module is loaded */
	struct stackbeat_unwind_view view;
	/* The file's segments; none if its headers could not be read. */
	struct sb_elf elf;
	struct stackbeat_unwind_table data[];
};

/* The table of an object that has none, by the reader. */
extern struct sb_unwind_table sb_unwind_no_table;

/* All fields are 0 for the vDSO. */
struct sb_unwind_identity {
	u64 device, inode, size;
	u64 disk;		/* sb_disk_sequence(); 0: the file system is on no disk */
	s64 changed;		/* seconds */
	u32 changed_ns;
	u32 generation;
};

struct sb_unwind_object {
	struct rcu_head rcu;
	/* NULL: not known yet; &sb_unwind_no_table: none. Written under the registry's lock. */
	struct sb_unwind_table __rcu *table;
	refcount_t refs;	/* 0: may be kept, see above; changes to and from 0 under the lock */
	u64 users;		/* under the lock: sb_unwind_user.bit of the sessions that have used it */
	u64 bytes;		/* of its table, and of those that are being set; under the lock */
	u32 files;		/* mapped files, which hold the inode; under the lock */
	bool lasting;		/* see sb_unwind_identity_lasts() */
	kuid_t owner;		/* of the file; INVALID_UID if a user may choose it */
	struct sb_unwind_registry *registry;
	struct sb_unwind_identity identity;
	struct hlist_node node;	/* in registry->objects */
	struct list_head order;	/* in registry->order */
};

#define SB_UNWIND_OBJECTS_BITS 10

struct sb_unwind_registry {
	struct mutex lock;
	DECLARE_HASHTABLE(objects, SB_UNWIND_OBJECTS_BITS);
	struct list_head order;	/* objects, the most recently found or set one at the end */
	u64 users;		/* bits in use */
	u64 bytes;		/* of all tables, including those that are being set or freed */
	u64 user_bytes;		/* the same, of files that are not root's */
};

/* The use of a registry by a session. */
struct sb_unwind_user {
	struct sb_unwind_registry *registry;
	u64 bit;		/* its own in `users`; 0: none was free, and no object is kept for it */
};

/*
 * Joins the registry of all sessions with CAP_PERFMON, or, if `own`, a new one. ENOMEM.
 */
int sb_unwind_user_init(struct sb_unwind_user *user, bool own);
/*
 * Called when the user has no references to objects, and no tick uses them. Allowed if
 * sb_unwind_user_init() has failed.
 */
void sb_unwind_user_exit(struct sb_unwind_user *user);

/*
 * Returns the object of a file's inode, or of the vDSO (NULL), with a reference, which
 * sb_unwind_object_release() drops. The caller has a reference to the inode as long. NULL: no memory.
 * May sleep.
 */
struct sb_unwind_object *sb_unwind_object_get(struct sb_unwind_user *user,
					      const struct inode *inode);
void sb_unwind_object_release(struct sb_unwind_object *object);
/* Adds a reference to an object to which the caller has one. */
struct sb_unwind_object *sb_unwind_object_hold(struct sb_unwind_object *object);
/* Drops a reference. NULL is allowed. May sleep. */
void sb_unwind_object_put(struct sb_unwind_object *object);

/*
 * Whether a file system is on a loop device or a removable disk, whose number another image or medium gets
 * without a restart.
 */
bool sb_unwind_device_is_exchanged(const struct super_block *sb);

/* Whether the object has a table, or is known to have none. */
static inline bool sb_unwind_object_is_known(const struct sb_unwind_object *object)
{
	return rcu_access_pointer(object->table);
}

/* Whether a session may have mappings of an object. */
static inline bool sb_unwind_object_is_used_by(const struct sb_unwind_object *object,
					       const struct sb_unwind_user *user)
{
	return !user->bit || READ_ONCE(object->users) & user->bit;
}

/* Returns the table of an object to which the caller has a reference, or NULL: not known. */
static inline const struct sb_unwind_table *
sb_unwind_object_table(const struct sb_unwind_object *object)
{
	return rcu_dereference_protected(object->table, true);
}

/*
 * Sets the table of an object, to which the caller has a reference: `size` bytes at `from` in user
 * memory; NULL: the object has none. `elf`: the segments of the file, or NULL. `limit`: bytes of all
 * tables of the registry, of which the tables of one owner may use a share. `charge` is called with the bytes
 * of all tables, this one included, before memory is allocated for it, and may refuse. Waits for a grace
 * period if it frees another table. EEXIST, EINVAL, ENOSPC, EFAULT, ENOMEM as
 * STACKBEAT_IOC_UNWIND_TABLE.
 */
int sb_unwind_object_set(struct sb_unwind_user *user, struct sb_unwind_object *object,
			 const void __user *from, u64 size, const struct sb_elf *elf, u64 limit,
			 int (*charge)(void *arg, u64 bytes), void *arg);

/* Counts the tables that a session has used, and their bytes. */
void sb_unwind_user_count(const struct sb_unwind_user *user, u64 *tables, u64 *bytes);

void sb_unwind_object_init(void);

#endif
