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

#define SB_DELETED " (deleted)"

int sb_mapped_files_init(struct sb_mapped_files *objects)
{
	hash_init(objects->by_path);
	INIT_LIST_HEAD(&objects->untold);
	objects->path = kmalloc(STACKBEAT_PATH_MAX, GFP_KERNEL);
	return objects->path ? 0 : -ENOMEM;
}

void sb_mapped_file_free(struct sb_mapped_file *object)
{
	iput(object->inode);
	path_put(&object->path);
	kfree(object->name);
	kfree(object);
}

void sb_mapped_files_remove(struct sb_mapped_files *objects, struct sb_mapped_file *object)
{
	hash_del(&object->node);
	objects->count--;
}

void sb_mapped_files_free(struct sb_mapped_files *objects)
{
	struct sb_mapped_file *object;
	struct hlist_node *next;
	int bucket;

	hash_for_each_safe(objects->by_path, bucket, next, object, node) {
		sb_mapped_files_remove(objects, object);
		sb_mapped_file_free(object);
	}
	kfree(objects->path);
}

/*
 * Reads what is in the page cache, and waits for nothing: the file system may be
 * on a network, or in the hands of a hostile process. What a program runs was
 * just read from its file; what is not there, the reader reads by itself.
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
			/* The flags by which it is found do not change; others beside them do. */
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

/* The pages of hugetlbfs are counted in another unit. */
static bool sb_inode_can_be_read(const struct inode *inode)
{
	return inode->i_sb->s_magic != HUGETLBFS_MAGIC;
}

/* Whether the file has no name any more, or, like a memfd, never had one. */
static bool sb_path_is_unlinked(const struct path *path)
{
	/* It may lose it now. */
	return data_race(d_unlinked(path->dentry)) ||
	       !READ_ONCE(d_inode(path->dentry)->i_nlink);
}

/* A path's name in its mount namespace, in objects->path; NULL if it has none. */
static char *sb_path_text(struct sb_mapped_files *objects, const struct path *path)
{
	char *text = d_path(path, objects->path, STACKBEAT_PATH_MAX);

	return IS_ERR(text) ? NULL : text;
}

/*
 * How much of a name, which is to be made then, is that of objects->root: 0 where that is
 * the root of its mount namespace. ENOENT: the path is not below it.
 */
static ssize_t sb_path_skip(struct sb_mapped_files *objects, const struct path *path)
{
	const char *root;

	if (!objects->root)
		return 0;
	root = sb_path_text(objects, objects->root);
	if (!root)
		return -ENOENT;
	if (!strcmp(root, "/"))
		return 0;
	return path_is_under(path, objects->root) ? strlen(root) : -ENOENT;
}

/* The name from objects->root on, without " (deleted)"; NULL if it has none. */
static char *sb_path_name(struct sb_mapped_files *objects, const struct path *path)
{
	ssize_t skip = sb_path_skip(objects, path);
	char *name = skip < 0 ? NULL : sb_path_text(objects, path);
	size_t length, deleted = strlen(SB_DELETED);

	if (!name)
		return NULL;
	length = strlen(name);
	/* Directories may have been renamed since. */
	if (skip && (length <= skip || name[skip] != '/'))
		return NULL;
	if (sb_path_is_unlinked(path) && length > deleted &&
	    !strcmp(name + length - deleted, SB_DELETED))
		name[length - deleted] = '\0';
	return kstrdup(name + skip, GFP_KERNEL);
}

/* By the path: there may be thousands of one file. */
static unsigned long sb_path_key(const struct path *path)
{
	return (unsigned long)path->dentry ^ ((unsigned long)path->mnt >> 1);
}

static struct sb_mapped_file *sb_mapped_file_alloc(struct sb_mapped_files *objects, const struct path *path,
					 struct inode *inode)
{
	struct sb_mapped_file *object = kzalloc(sizeof(*object), GFP_KERNEL);

	if (!object)
		return NULL;
	object->path = *path;
	path_get(&object->path);
	object->inode = inode;
	ihold(object->inode);
	object->id = ++objects->last_id;
	object->name = sb_path_name(objects, &object->path);
	object->unlinked = sb_path_is_unlinked(&object->path);
	object->unread = !sb_inode_can_be_read(object->inode) ||
			 sb_elf_read(sb_read_cached, object->inode, &object->elf);
	hash_add(objects->by_path, &object->node, sb_path_key(path));
	list_add_tail(&object->untold, &objects->untold);
	objects->count++;
	return object;
}

struct sb_mapped_file *sb_mapped_files_get(struct sb_mapped_files *objects, const struct path *path,
				 struct inode *inode)
{
	struct sb_mapped_file *object;

	hash_for_each_possible(objects->by_path, object, node, sb_path_key(path)) {
		if (object->inode == inode && path_equal(&object->path, path))
			return object;
	}
	if (objects->count == SB_MAPPED_FILES_MAX)
		return NULL;
	return sb_mapped_file_alloc(objects, path, inode);
}

static void sb_mapped_file_write(const struct sb_mapped_file *object, size_t name_length,
			    struct stackbeat_file *record, u32 size)
{
	const struct inode *inode = object->inode;

	memset(record, 0, size);
	record->record.type = STACKBEAT_RECORD_FILE;
	record->record.flags = (object->unread ? STACKBEAT_FILE_HEADERS_NOT_READ : 0) |
			       (object->unlinked ? STACKBEAT_FILE_UNLINKED : 0);
	record->record.size = size;
	record->file = object->id;
	record->inode = inode->i_ino;
	record->size = i_size_read(inode);
	record->device_major = MAJOR(inode->i_sb->s_dev);
	record->device_minor = MINOR(inode->i_sb->s_dev);
	record->inode_generation = inode->i_generation;
	record->build_id_size = object->elf.build_id_size;
	memcpy(record->build_id, object->elf.build_id, sizeof(record->build_id));
	memcpy(record->path, object->name, name_length);
}

bool sb_mapped_files_tell(struct sb_mapped_files *objects, struct sb_ring *ring)
{
	struct sb_mapped_file *object;
	size_t length;
	u32 size;

	while (!list_empty(&objects->untold)) {
		object = list_first_entry(&objects->untold, struct sb_mapped_file, untold);
		length = object->name ? strlen(object->name) : 0;
		size = ALIGN(sizeof(struct stackbeat_file) + length + 1, sizeof(u64));
		if (!sb_ring_has_room(ring, size))
			return false;
		sb_mapped_file_write(object, length, sb_ring_reserve(ring, size), size);
		sb_ring_commit(ring, size);
		list_del_init(&object->untold);
		kfree(object->name);
		object->name = NULL;
	}
	return true;
}

struct sb_mapped_file *sb_mapped_files_find(struct sb_mapped_files *objects, u64 id)
{
	struct sb_mapped_file *object;
	int bucket;

	hash_for_each(objects->by_path, bucket, object, node) {
		if (object->id == id)
			return list_empty(&object->untold) ? object : NULL;
	}
	return NULL;
}

/*
 * Whether a file without a name (memfd, shared memory) is not for the current credentials.
 * Its mode lets everybody do everything, as nobody but who has it mapped gets at it; and
 * whoever has it open can open it once more, to write, in /proc/self/fd.
 */
static bool sb_path_is_anothers(const struct path *path)
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
 * Whether the current credentials may search the directories on the way from `root` to a
 * file, or all of them where that is not on the way. That of a deleted file is the one
 * that it was in.
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
			/* Of what is in no tree nobody knows the way. */
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
		err = sb_path_is_anothers(path) ? -EACCES : 0;
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
	opened = dentry_open(path, O_RDONLY | O_LARGEFILE | O_CLOEXEC, cred);
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
