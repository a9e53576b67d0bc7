/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files that processes of a session map, kept until the reader gives
 * them back, so that it can have the very file that was mapped.
 *
 * One object stands for one inode at one path: the same file seen through two
 * mounts is two objects. All functions but those that say otherwise are called
 * under the lock of the session's spaces.
 */
#ifndef STACKBEAT_MAPPED_FILE_H
#define STACKBEAT_MAPPED_FILE_H

#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/path.h>

#include "elf.h"

struct cred;
struct file;
struct inode;
struct sb_ring;

#define SB_MAPPED_FILES_BITS 10

struct sb_mapped_files {
	DECLARE_HASHTABLE(by_path, SB_MAPPED_FILES_BITS);
	struct list_head unwritten;	/* those whose record is not written yet, oldest first */
	u64 last_id;
	u32 count;
	char *path;			/* STACKBEAT_PATH_MAX bytes to make a path in */
	const struct path *root;	/* paths are written from there; NULL: all of them */
};

struct sb_mapped_file {
	struct hlist_node node;
	struct list_head unwritten;	/* empty once it was told */
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
int sb_mapped_files_init(struct sb_mapped_files *files);
/* Lets go of all. Also after an sb_mapped_files_init() that failed. */
void sb_mapped_files_free(struct sb_mapped_files *files);

/*
 * The object of a regular file, by its path and inode, made if it is new. NULL: there is no memory or no
 * room for one more. May sleep, but waits for no disk and no network.
 */
struct sb_mapped_file *sb_mapped_files_get(struct sb_mapped_files *files, const struct path *path,
				 struct inode *inode);

/*
 * Writes the records of objects that were not told yet. False: the ring has no
 * room for the next one.
 */
bool sb_mapped_files_write(struct sb_mapped_files *files, struct sb_ring *ring);

/* The object of an id that was told, or NULL. */
struct sb_mapped_file *sb_mapped_files_find(struct sb_mapped_files *files, u64 id);

/* Takes out an object that was told. sb_mapped_file_free() follows, without a lock. */
void sb_mapped_files_remove(struct sb_mapped_files *files, struct sb_mapped_file *file);
void sb_mapped_file_free(struct sb_mapped_file *file);

/*
 * Opens a file with these rights, and gives a file descriptor of the current
 * process. Where `root` is not NULL, they must also do for searching the directories on
 * the way to the file, from there or from the root of all that is mounted around it.
 * EACCES, EMFILE, ENFILE, ENOMEM, and what opening fails with. Called without lock.
 */
int sb_path_open(const struct path *path, const struct cred *cred, const struct path *root);

#endif
