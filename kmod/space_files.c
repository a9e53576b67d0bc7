// SPDX-License-Identifier: GPL-2.0
#include <linux/dcache.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/path.h>
#include <linux/pfn.h>

#include "access.h"
#include "compat/compat.h"
#include "limits.h"
#include "memlock.h"
#include "params.h"
#include "space.h"
#include "space_files.h"

int sb_spaces_open_file(struct sb_spaces *spaces, u64 id)
{
	struct sb_mapped_file *file;
	struct path path;
	int fd;

	mutex_lock(&spaces->lock);
	file = sb_mapped_files_find(&spaces->files, id);
	if (file) {
		path = file->path;
		path_get(&path);
	}
	mutex_unlock(&spaces->lock);
	if (!file)
		return -ENOENT;
	fd = sb_path_open(&path, spaces->session->cred, spaces->files.root);
	path_put(&path);
	return fd;
}

int sb_spaces_release_file(struct sb_spaces *spaces, u64 id)
{
	struct sb_mapped_file *file;

	mutex_lock(&spaces->lock);
	file = sb_mapped_files_find(&spaces->files, id);
	if (file)
		sb_mapped_files_remove(&spaces->files, file);
	mutex_unlock(&spaces->lock);
	if (!file)
		return -ENOENT;
	/* Dropping the last reference to the inode can take long, or wait for a server. */
	sb_mapped_file_free(file);
	return 0;
}

/* Charges the tables of a restricted session, up to the most that they have ever been. ENOMEM. */
static int sb_spaces_charge_tables(void *arg, u64 bytes)
{
	const struct sb_spaces *spaces = arg;
	struct sb_session *session = spaces->session;
	unsigned long pages = PFN_UP(bytes);
	int err = 0;

	if (!session->restricted)
		return 0;
	mutex_lock(&session->samplers_lock);
	if (pages > session->unwind_locked) {
		err = sb_session_charge(session, (pages - session->unwind_locked) << PAGE_SHIFT);
		if (!err)
			session->unwind_locked = pages;
	}
	mutex_unlock(&session->samplers_lock);
	return err;
}

static u64 sb_spaces_tables_limit(const struct sb_spaces *spaces)
{
	return spaces->session->restricted ? SB_RESTRICTED_UNWIND_BYTES :
					     (u64)sb_unwind_memory << 20;
}

/*
 * Returns the object of a file, with a reference, and sets the file's segments; none if they can't be
 * read. ENOENT: there is no such file. ESTALE: its path no longer leads to the mapped inode. In an
 * overlay file system it leads to a copy once the file was changed, and what a reader has compiled may
 * be of this copy; whereas other overlays share the inode, and with it the object.
 */
static struct sb_unwind_object *sb_spaces_find_object(struct sb_spaces *spaces, u64 id,
						      struct sb_elf *elf)
{
	struct sb_unwind_object *object = id == STACKBEAT_FILE_VDSO ? spaces->vdso : NULL;
	struct sb_mapped_file *file;
	struct inode *inode;
	struct path path;
	bool stale;

	mutex_lock(&spaces->lock);
	file = object ? NULL : sb_mapped_files_find(&spaces->files, id);
	if (file) {
		sb_mapped_file_reread(file);
		*elf = file->elf;
		object = file->object;
		inode = file->inode;
		ihold(inode);
		path = file->path;
		path_get(&path);
	}
	if (object)
		sb_unwind_object_hold(object);
	mutex_unlock(&spaces->lock);
	if (file) {
		/* Without the lock: it may read from the disk. */
		stale = d_real_inode(path.dentry) != inode;
		path_put(&path);
		iput(inode);
		if (object && stale) {
			sb_unwind_object_put(object);
			return ERR_PTR(-ESTALE);
		}
	}
	return object ?: ERR_PTR(-ENOENT);
}

void sb_spaces_update_table(struct sb_spaces *spaces, const struct sb_unwind_object *object)
{
	if (!sb_unwind_object_is_used_by(object, &spaces->unwind))
		return;
	mutex_lock(&spaces->lock);
	sb_unwind_spaces_update(&spaces->unwind_spaces, object);
	mutex_unlock(&spaces->lock);
}

int sb_spaces_move_text(struct sb_spaces *spaces, const struct stackbeat_moved_text *moved)
{
	int err;

	if (moved->reserved || moved->start >= moved->end ||
	    !PAGE_ALIGNED(moved->start) || !PAGE_ALIGNED(moved->end))
		return -EINVAL;
	mutex_lock(&spaces->lock);
	err = sb_unwind_spaces_move_text(&spaces->unwind_spaces, moved, sb_spaces_lose_maps,
					 spaces);
	mutex_unlock(&spaces->lock);
	return err;
}

int sb_spaces_set_table(struct sb_spaces *spaces, const struct stackbeat_unwind_push *push,
			struct sb_unwind_object **set)
{
	struct sb_elf elf = {};
	struct sb_unwind_object *object = sb_spaces_find_object(spaces, push->file, &elf);
	int err;

	if (IS_ERR(object))
		return PTR_ERR(object);
	err = sb_unwind_object_set(&spaces->unwind, object, u64_to_user_ptr(push->table),
				   push->size, &elf, sb_spaces_tables_limit(spaces),
				   sb_spaces_charge_tables, spaces);
	if (sb_unwind_object_is_known(object))
		sb_spaces_update_table(spaces, object);
	if (err)
		sb_unwind_object_put(object);
	else
		*set = object;
	return err;
}
