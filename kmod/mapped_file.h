/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files that sampled processes map, held until the reader releases them, so that it
 * can open the file that was mapped.
 *
 * A mapped file is one inode at one path: the same file seen through two mounts is two
 * mapped files. Functions are called under the lock of the session's spaces, unless their
 * comments say otherwise.
 */
#ifndef STACKBEAT_MAPPED_FILE_H
#define STACKBEAT_MAPPED_FILE_H

#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/path.h>

#include "elf.h"
#include "unwind_object.h"

struct cred;
struct file;
struct inode;
struct sb_ring;

#define SB_MAPPED_FILES_BITS 10

struct sb_mapped_files {
	DECLARE_HASHTABLE(by_path, SB_MAPPED_FILES_BITS);
	DECLARE_HASHTABLE(by_id, SB_MAPPED_FILES_BITS);
	struct list_head unwritten;	/* files with no record yet, oldest first */
	u64 last_id;
	u32 count;
	char *path;			/* buffer for paths, STACKBEAT_PATH_MAX bytes */
	struct sb_unwind_user *unwind;	/* the session's use of unwind tables */
	const struct path *root;	/* paths are relative to it; NULL: the namespace's root */
};

struct sb_mapped_file {
	struct hlist_node node;		/* in by_path */
	struct hlist_node id_node;	/* in by_id */
	struct list_head unwritten;	/* empty once its record is written */
	/*
	 * References, but none to the mapped struct file: while that is open, locks taken
	 * through it stay, and a writable file can't be executed.
	 */
	struct path path;
	struct inode *inode;
	struct sb_unwind_object *object;	/* with a reference; NULL: no memory */
	u64 id;
	struct sb_elf elf;
	bool unread;			/* elf may be incomplete */
	bool unlinked;
	char *name;			/* path, until the record is written; NULL: unknown */
};

/* `unwind` is used until the files are freed. ENOMEM. */
int sb_mapped_files_init(struct sb_mapped_files *files, struct sb_unwind_user *unwind);
/* Frees all files. Also allowed after sb_mapped_files_init() has failed. */
void sb_mapped_files_free(struct sb_mapped_files *files);

/*
 * Returns the mapped file of a regular file, by path and inode; adds it if it is new. NULL: no
 * memory, or no room for one more. May sleep, but waits for no disk and no network.
 */
struct sb_mapped_file *sb_mapped_files_find_or_add(struct sb_mapped_files *files,
						   const struct path *path, struct inode *inode);

/* Writes the records of new files. False: the ring has no room for the next one. */
bool sb_mapped_files_write(struct sb_mapped_files *files, struct sb_ring *ring);

/* Returns the file with this id if its record is written, or NULL. */
struct sb_mapped_file *sb_mapped_files_find(struct sb_mapped_files *files, u64 id);

/* Reads headers of the file that could not be read before: the reader may have read the file since. */
void sb_mapped_file_reread(struct sb_mapped_file *file);

/* Removes a file after its record is written. The caller then frees it, without a lock. */
void sb_mapped_files_remove(struct sb_mapped_files *files, struct sb_mapped_file *file);
void sb_mapped_file_free(struct sb_mapped_file *file);

/*
 * Opens a file with the credentials `cred`, and returns a file descriptor of the current
 * process. If `root` is not NULL, the credentials must also permit to search the directories
 * of the path, from `root`, or, if it is not on the path, from the root of all mounts. EACCES,
 * EMFILE, ENFILE, ENOMEM, and errors of opening the file. Called without the lock.
 */
int sb_path_open(const struct path *path, const struct cred *cred, const struct path *root);

#endif
