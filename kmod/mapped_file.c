// SPDX-License-Identifier: GPL-2.0
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/pagemap.h>
#include <linux/path.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "compat/compat.h"
#include "limits.h"
#include "mapped_file.h"
#include "ring.h"
#include "worker_memory.h"

#define SB_DELETED " (deleted)"

int sb_mapped_files_init(struct sb_mapped_files *files, struct sb_unwind_user *unwind)
{
	files->unwind = unwind;
	hash_init(files->by_path);
	hash_init(files->by_id);
	INIT_LIST_HEAD(&files->unwritten);
	files->path = kmalloc(STACKBEAT_PATH_MAX, GFP_KERNEL_ACCOUNT);
	return files->path ? 0 : -ENOMEM;
}

void sb_mapped_file_free(struct sb_mapped_file *file)
{
	sb_unwind_object_release(file->object);
	iput(file->inode);
	path_put(&file->path);
	kfree(file->name);
	kfree(file);
}

void sb_mapped_files_remove(struct sb_mapped_files *files, struct sb_mapped_file *file)
{
	hash_del(&file->node);
	hash_del(&file->id_node);
	files->count--;
}

void sb_mapped_files_free(struct sb_mapped_files *files)
{
	struct sb_mapped_file *file;
	struct hlist_node *next;
	int bucket;

	hash_for_each_safe(files->by_path, bucket, next, file, node) {
		sb_mapped_files_remove(files, file);
		sb_mapped_file_free(file);
	}
	kfree(files->path);
}

/*
 * Reads from the page cache only, without waiting: the file system may be on a network, or
 * controlled by a hostile process. Pages of a running program are mostly cached; the reader
 * of the session reads missing headers from the file itself.
 */
static bool sb_read_cached(void *from, u64 offset, void *to, size_t size)
{
	struct inode *inode = from;
	struct address_space *mapping = inode->i_mapping;
	u64 end = i_size_read(inode);
	struct page *page;
	u8 *at = to;
	size_t part;
	bool valid;

	if (offset > end || size > end - offset)
		return false;
	while (size) {
		part = min_t(size_t, size, PAGE_SIZE - offset_in_page(offset));
		page = find_get_page(mapping, offset >> PAGE_SHIFT);
		if (!page)
			return false;
		valid = PageUptodate(page) && !PageHWPoison(page);
		if (valid)
			/* page_address() uses flags that do not change; others in the word do. */
			memcpy(at, data_race(page_address(page)) + offset_in_page(offset), part);
		put_page(page);
		if (!valid)
			return false;
		offset += part;
		at += part;
		size -= part;
	}
	return true;
}

/* The page cache of hugetlbfs is indexed in another unit. */
static bool sb_inode_can_be_read(const struct inode *inode)
{
	return inode->i_sb->s_magic != HUGETLBFS_MAGIC;
}

/* Whether the file was unlinked, or, like a memfd, never had a name. */
static bool sb_path_is_unlinked(const struct path *path)
{
	/* It may be unlinked concurrently. */
	return data_race(d_unlinked(path->dentry)) ||
	       !READ_ONCE(d_inode(path->dentry)->i_nlink);
}

/* Returns the path string in the mount namespace, in files->path; NULL: none. */
static char *sb_path_string(struct sb_mapped_files *files, const struct path *path)
{
	char *string = d_path(path, files->path, STACKBEAT_PATH_MAX);

	return IS_ERR(string) ? NULL : string;
}

/*
 * Returns the length of the prefix files->root of the path string; 0 if it is the root of its
 * mount namespace. ENOENT: the path is not below it. Overwrites files->path.
 */
static ssize_t sb_path_skip(struct sb_mapped_files *files, const struct path *path)
{
	const char *root;

	if (!files->root)
		return 0;
	root = sb_path_string(files, files->root);
	if (!root)
		return -ENOENT;
	if (!strcmp(root, "/"))
		return 0;
	return path_is_under(path, files->root) ? strlen(root) : -ENOENT;
}

/* Returns a copy of the path string from files->root on, without " (deleted)"; NULL: none. */
static char *sb_path_name(struct sb_mapped_files *files, const struct path *path)
{
	ssize_t skip = sb_path_skip(files, path);
	char *name = skip < 0 ? NULL : sb_path_string(files, path);
	size_t length, deleted = strlen(SB_DELETED);

	if (!name)
		return NULL;
	length = strlen(name);
	/* Directories may have been renamed since sb_path_skip(). */
	if (skip && (length <= skip || name[skip] != '/'))
		return NULL;
	if (sb_path_is_unlinked(path) && length > deleted &&
	    !strcmp(name + length - deleted, SB_DELETED))
		name[length - deleted] = '\0';
	return kstrdup(name + skip, SB_GFP_WORKER);
}

/* The key is the path, since there may be thousands of paths of one inode. */
static unsigned long sb_path_key(const struct path *path)
{
	return (unsigned long)path->dentry ^ ((unsigned long)path->mnt >> 1);
}

void sb_mapped_file_reread(struct sb_mapped_file *file)
{
	if (file->unread && sb_inode_can_be_read(file->inode))
		file->unread = sb_elf_read(sb_read_cached, file->inode, &file->elf);
}

static struct sb_mapped_file *sb_mapped_file_alloc(struct sb_mapped_files *files,
						   const struct path *path, struct inode *inode)
{
	struct sb_mapped_file *file = kzalloc(sizeof(*file), SB_GFP_WORKER);

	if (!file)
		return NULL;
	file->path = *path;
	path_get(&file->path);
	file->inode = inode;
	ihold(file->inode);
	file->id = ++files->last_id;
	file->name = sb_path_name(files, &file->path);
	file->unlinked = sb_path_is_unlinked(&file->path);
	file->object = sb_unwind_object_get(files->unwind, inode);
	/* Its mappings would be walked by frame pointers, as if the file had no table. */
	if (!file->object) {
		sb_mapped_file_free(file);
		return NULL;
	}
	file->unread = true;
	sb_mapped_file_reread(file);
	hash_add(files->by_path, &file->node, sb_path_key(path));
	hash_add(files->by_id, &file->id_node, file->id);
	list_add_tail(&file->unwritten, &files->unwritten);
	files->count++;
	return file;
}

struct sb_mapped_file *sb_mapped_files_find_or_add(struct sb_mapped_files *files,
						   const struct path *path, struct inode *inode)
{
	struct sb_mapped_file *file;

	hash_for_each_possible(files->by_path, file, node, sb_path_key(path)) {
		if (file->inode == inode && path_equal(&file->path, path))
			return file;
	}
	if (files->count == SB_MAPPED_FILES_MAX)
		return NULL;
	return sb_mapped_file_alloc(files, path, inode);
}

/*
 * Whether a reader may recognize the file in another session. A program may have opened it through a
 * stacked file system, which says which inode it is.
 */
static bool sb_mapped_file_lasts(const struct sb_mapped_file *file)
{
	const struct super_block *sb = file->inode->i_sb;
	const struct vfsmount *mnt = file->path.mnt;

	return file->object && file->object->lasting && !file->unlinked &&
	       !sb_unwind_device_is_exchanged(sb) &&
	       mnt->mnt_sb->s_user_ns == &init_user_ns &&
	       !(data_race(mnt->mnt_flags) & MNT_NOSUID) &&
	       (file->elf.build_id_size || !sb_rdonly(sb));
}

static void sb_mapped_file_fill_record(const struct sb_mapped_file *file, size_t name_length,
				       struct stackbeat_file *record, u32 size)
{
	const struct inode *inode = file->inode;

	memset(record, 0, size);
	record->record.type = STACKBEAT_RECORD_FILE;
	record->record.flags = (file->unread ? STACKBEAT_FILE_HEADERS_NOT_READ : 0) |
			       (file->unlinked ? STACKBEAT_FILE_UNLINKED : 0) |
			       (file->object && sb_unwind_object_is_known(file->object) ?
					STACKBEAT_FILE_UNWIND_TABLE : 0) |
			       (sb_mapped_file_lasts(file) ? STACKBEAT_FILE_LASTING : 0);
	record->record.size = size;
	record->file = file->id;
	record->inode = inode->i_ino;
	record->size = i_size_read(inode);
	record->device_major = MAJOR(inode->i_sb->s_dev);
	record->device_minor = MINOR(inode->i_sb->s_dev);
	record->inode_generation = inode->i_generation;
	record->build_id_size = file->elf.build_id_size;
	memcpy(record->build_id, file->elf.build_id, sizeof(record->build_id));
	memcpy(record->path, file->name, name_length);
}

bool sb_mapped_files_write(struct sb_mapped_files *files, struct sb_ring *ring)
{
	struct sb_mapped_file *file;
	size_t length;
	u32 size;

	while (!list_empty(&files->unwritten)) {
		file = list_first_entry(&files->unwritten, struct sb_mapped_file, unwritten);
		length = file->name ? strlen(file->name) : 0;
		size = ALIGN(sizeof(struct stackbeat_file) + length + 1, sizeof(u64));
		if (!sb_ring_has_room(ring, size))
			return false;
		sb_mapped_file_fill_record(file, length, sb_ring_reserve(ring, size), size);
		sb_ring_commit(ring, size);
		list_del_init(&file->unwritten);
		kfree(file->name);
		file->name = NULL;
	}
	return true;
}

struct sb_mapped_file *sb_mapped_files_find(struct sb_mapped_files *files, u64 id)
{
	struct sb_mapped_file *file;

	hash_for_each_possible(files->by_id, file, id_node, id) {
		if (file->id == id)
			return list_empty(&file->unwritten) ? file : NULL;
	}
	return NULL;
}

/*
 * Whether the current credentials must not open a file without a name (memfd, shared memory).
 * Its mode permits everything, since only processes that have it open or mapped can reach it;
 * and a process that has it open can open it again for writing, in /proc/self/fd.
 */
static bool sb_path_has_other_owner(const struct path *path)
{
	return !uid_eq(current_fsuid(), d_backing_inode(path->dentry)->i_uid) &&
	       !capable(CAP_SYS_PTRACE);
}

static bool sb_path_is_nameless(const struct path *path)
{
	const struct inode *inode = d_backing_inode(path->dentry);

	return IS_PRIVATE(inode) || inode->i_sb->s_flags & SB_KERNMOUNT;
}

/*
 * Checks that the current credentials may search the directories of a path, from `root`, or,
 * if it is not on the path, all of them. The directory of a deleted file is its former one.
 */
static int sb_path_search(const struct path *path, const struct path *root)
{
	struct path at = *path;
	struct dentry *parent;
	int err = 0;

	path_get(&at);
	while (!err && !path_equal(&at, root)) {
		if (at.dentry == at.mnt->mnt_root) {
			if (!follow_up(&at))
				break;
		} else {
			parent = dget_parent(at.dentry);
			/* A disconnected dentry has no directories to check. */
			err = parent == at.dentry ? -EACCES : 0;
			dput(at.dentry);
			at.dentry = parent;
			if (!err)
				err = path_permission(&at, MAY_EXEC);
		}
	}
	path_put(&at);
	return err;
}

static int sb_path_permission(const struct path *path, const struct path *root)
{
	int err = 0;

	if (sb_path_is_nameless(path))
		err = sb_path_has_other_owner(path) ? -EACCES : 0;
	else if (root)
		err = sb_path_search(path, root);
	return err ?: path_permission(path, MAY_READ);
}

int sb_path_open(const struct path *path, const struct cred *cred, const struct path *root)
{
	const struct cred *old = override_creds(cred);
	struct file *opened;
	int fd = sb_path_permission(path, root);

	if (fd)
		goto out;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		goto out;
	/* A lease of its owner does not make the caller wait until it is broken. */
	opened = dentry_open(path, O_RDONLY | O_LARGEFILE | O_CLOEXEC | O_NONBLOCK, cred);
	if (IS_ERR(opened)) {
		put_unused_fd(fd);
		fd = PTR_ERR(opened);
		goto out;
	}
	fd_install(fd, opened);
out:
	revert_creds(old);
	return fd;
}
