/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files that processes of a session map, kept until the reader gives
 * them back, so that it can have the very file that was mapped.
 *
 * One object stands for one inode at one path: the same file seen through two
 * mounts is two objects. All functions but those that say otherwise are called
 * under the lock of the session's spaces.
 */
#ifndef STACKBEAT_OBJECT_H
#define STACKBEAT_OBJECT_H

#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/path.h>

#include "elf.h"

struct cred;
struct file;
struct inode;
struct sb_ring;

#define SB_OBJECTS_BITS 10

struct sb_objects {
	DECLARE_HASHTABLE(by_path, SB_OBJECTS_BITS);
	struct list_head untold;	/* those whose record is not written yet, oldest first */
	u64 last_id;
	u32 count;
	char *path;			/* STACKBEAT_PATH_MAX bytes to make a path in */
	const struct path *root;	/* paths are written from there; NULL: all of them */
};

struct sb_object {
	struct hlist_node node;
	struct list_head untold;	/* empty once it was told */
	/*
	 * References. Not to the file that is mapped: as long as that is open, what was
	 * locked through it stays locked, and what may be written can't be executed.
	 */
	struct path path;
	struct inode *inode;
	u64 id;
	struct sb_elf elf;
	bool unread;			/* elf may lack something */
	bool unlinked;
	char *name;			/* path, until it was told; NULL: not known */
};

/* ENOMEM. */
int sb_objects_init(struct sb_objects *objects);
/* Lets go of all. Also after an sb_objects_init() that failed. */
void sb_objects_free(struct sb_objects *objects);

/*
 * The object of a regular file, by its path and inode, made if it is new. NULL: there is no memory or no
 * room for one more. May sleep, but waits for no disk and no network.
 */
struct sb_object *sb_objects_get(struct sb_objects *objects, const struct path *path,
				 struct inode *inode);

/*
 * Writes the records of objects that were not told yet. False: the ring has no
 * room for the next one.
 */
bool sb_objects_tell(struct sb_objects *objects, struct sb_ring *ring);

/* The object of an id that was told, or NULL. */
struct sb_object *sb_objects_find(struct sb_objects *objects, u64 id);

/* Takes out an object that was told. sb_object_free() follows, without a lock. */
void sb_objects_remove(struct sb_objects *objects, struct sb_object *object);
void sb_object_free(struct sb_object *object);

/*
 * Opens a file with these rights, and gives a file descriptor of the current
 * process. Where `root` is not NULL, they must also do for searching the directories on
 * the way to the file, from there or from the root of all that is mounted around it.
 * EACCES, EMFILE, ENFILE, ENOMEM, and what opening fails with. Called without lock.
 */
int sb_path_open(const struct path *path, const struct cred *cred, const struct path *root);

#endif
