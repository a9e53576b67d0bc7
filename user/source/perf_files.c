// SPDX-License-Identifier: GPL-2.0
#include "source/perf_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <stackbeat.h>

#include "lib/array.h"
#include "lib/clock.h"
#include "lib/fixed_disk.h"
#include "lib/hash.h"
#include "lib/regular_file.h"
#include "lib/timed_call.h"
#include "source/elf_code.h"
#include "source/record_buffer.h"

/* Files that are remembered: of each, some hundred bytes. */
#define PERF_FILES_MAX (1u << 16)
#define OPEN_TIMEOUT_NS NS_PER_SECOND
#define OPEN_FAILURES_MAX 8u /* of a file, in processes that live */

static const char deleted[] = " (deleted)";

struct perf_file {
	struct perf_file_key key;
	struct elf_code code;
	char *path; /* owned; without " (deleted)" */
	uint64_t size; /* bytes; 0: unknown */
	uint64_t id; /* 0: none yet, or released */
	int fd; /* held; -1: none */
	uint32_t uses; /* by mappings */
	uint32_t failures; /* to open it; OPEN_FAILURES_MAX: it is not opened any more */
	bool is_unlinked;
	bool was_read; /* `code` are known */
	bool is_lasting; /* STACKBEAT_FILE_LASTING */
};

struct perf_files {
	pthread_mutex_t mutex; /* of ids and descriptors */
	struct perf_file **list; /* NULL: an index without a file */
	size_t count, capacity;
	size_t unused, first_unused; /* indices without a file; none is before the first one */
	struct hash by_key, by_id; /* indices of `list` */
	size_t held; /* descriptors */
	bool may_have_unused; /* since the last sweep, a file was released, or dropped */
	uint64_t last_id;
};

struct perf_files *perf_files_new(void)
{
	struct perf_files *files = calloc(1, sizeof(*files));

	if (files)
		pthread_mutex_init(&files->mutex, NULL);
	return files;
}

static void free_perf_file(struct perf_file *file)
{
	if (file)
		free(file->path);
	free(file);
}

/* Other threads change no list, and -1 or a descriptor is what they set. */
void perf_files_leave(struct perf_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		if (files->list[i] && files->list[i]->fd >= 0)
			close(files->list[i]->fd);
	}
}

void perf_files_free(struct perf_files *files)
{
	if (!files)
		return;
	perf_files_leave(files);
	for (size_t i = 0; i < files->count; i++)
		free_perf_file(files->list[i]);
	free(files->list);
	hash_clear(&files->by_key);
	hash_clear(&files->by_id);
	pthread_mutex_destroy(&files->mutex);
	free(files);
}

/* The table */

static bool has_key(const void *context, uint32_t index, const void *key)
{
	const struct perf_file *file = ((const struct perf_files *)context)->list[index];
	const struct perf_file_key *wanted = key;

	return file->key.inode == wanted->inode && file->key.major == wanted->major &&
	       file->key.minor == wanted->minor &&
	       (!file->key.generation || !wanted->generation ||
		file->key.generation == wanted->generation);
}

static bool has_id(const void *context, uint32_t index, const void *key)
{
	return ((const struct perf_files *)context)->list[index]->id == *(const uint64_t *)key;
}

static uint32_t file_key_hash(const struct perf_file_key *key)
{
	return hash_number(hash_number(HASH_START, key->inode), makedev(key->major, key->minor));
}

static uint32_t file_id_hash(uint64_t id)
{
	return hash_number(HASH_START, id);
}

static struct perf_file *new_file(const struct perf_file_key *key, const char *path)
{
	struct perf_file *file = calloc(1, sizeof(*file));
	size_t length = strlen(path);

	if (!file)
		return NULL;
	file->key = *key;
	file->fd = -1;
	file->uses = 1;
	file->is_unlinked =
		length >= strlen(deleted) && !strcmp(path + length - strlen(deleted), deleted);
	if (file->is_unlinked)
		length -= strlen(deleted);
	/* "//toolong": the kernel could not report it. */
	file->path = *path == '/' && path[1] != '/' && length < STACKBEAT_PATH_MAX
			     ? strndup(path, length)
			     : strdup("");
	if (file->path)
		return file;
	free(file);
	return NULL;
}

/*
 * Stores a file at an index without one. Others may be reading the list. Returns PERF_FILE_NONE
 * when out of memory.
 */
static uint32_t perf_file_store(struct perf_files *files, struct perf_file *file)
{
	uint32_t index = (uint32_t)files->count;
	int err = 0;

	pthread_mutex_lock(&files->mutex);
	if (files->unused) {
		while (files->list[files->first_unused])
			files->first_unused++;
		index = (uint32_t)files->first_unused;
	} else {
		err = array_reserve(&files->list, &files->capacity, files->count, 1,
				    sizeof(struct perf_file *));
	}
	if (!err && !hash_add(&files->by_key, file_key_hash(&file->key), index)) {
		files->list[index] = file;
		files->unused -= index < files->count;
		files->count += index == files->count;
	} else {
		index = PERF_FILE_NONE;
	}
	pthread_mutex_unlock(&files->mutex);
	return index;
}

uint32_t perf_files_index(struct perf_files *files, const struct perf_file_key *key,
			  const char *path)
{
	uint32_t index = hash_find(&files->by_key, file_key_hash(key), has_key, files, key);
	struct perf_file *file;

	if (index != HASH_NONE) {
		if (!files->list[index]->key.generation)
			files->list[index]->key.generation = key->generation;
		files->list[index]->uses++;
		return index;
	}
	file = files->count - files->unused < PERF_FILES_MAX ? new_file(key, path) : NULL;
	if (!file)
		return PERF_FILE_NONE;
	index = perf_file_store(files, file);
	if (index == PERF_FILE_NONE)
		free_perf_file(file);
	return index;
}

void perf_files_use(struct perf_files *files, uint32_t index)
{
	if (index != PERF_FILE_NONE)
		files->list[index]->uses++;
}

void perf_files_drop(struct perf_files *files, uint32_t index)
{
	if (index == PERF_FILE_NONE || --files->list[index]->uses)
		return;
	pthread_mutex_lock(&files->mutex);
	files->may_have_unused = true;
	pthread_mutex_unlock(&files->mutex);
}

void perf_files_sweep(struct perf_files *files)
{
	pthread_mutex_lock(&files->mutex);
	for (uint32_t i = 0; i < files->count && files->may_have_unused; i++) {
		struct perf_file *file = files->list[i];

		if (!file || file->uses || file->id)
			continue;
		hash_remove(&files->by_key, file_key_hash(&file->key), i);
		free_perf_file(file);
		files->list[i] = NULL;
		files->unused++;
	}
	files->may_have_unused = false;
	files->first_unused = 0;
	pthread_mutex_unlock(&files->mutex);
}

/* Opening */

struct find_file_call {
	struct perf_file_key key;
	struct perf_file_place place;
	char *path; /* owned */
	/* The result. */
	struct elf_code code;
	uint64_t size;
	int fd; /* -1: none */
	bool was_read, is_lasting;
};

/*
 * On overlayfs and btrfs, stat() returns another device number than the one of the kernel's inode.
 * Both have no block device of their own, so that the major number is 0. Of any other file system,
 * the device has to match: else a process could pass a file of its own tmpfs for another file.
 */
static bool is_mapped_file(const struct perf_file_key *key, int fd, const struct stat *st)
{
	struct statfs fs;

	if (st->st_ino != key->inode)
		return false;
	if (st->st_dev == makedev(key->major, key->minor))
		return true;
	return !major(st->st_dev) && !fstatfs(fd, &fs) &&
	       (fs.f_type == OVERLAYFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC);
}

/*
 * Returns whether another recording may recognize the file by its key, as the module decides it. Of
 * file systems with a disk, FUSE alone can be mounted in a user namespace. Files without a disk's
 * number, of overlays and btrfs, are not recognized. Sets the generation if the kernel has not
 * reported it.
 */
static bool perf_file_lasts(struct perf_file_key *key, const struct elf_code *code, int fd,
			    const struct stat *st)
{
	struct file_owner owner;
	struct statvfs system;
	/* File systems write an int, in spite of the call's number. */
	long version = 0;

	file_owner_read(&owner, fd);
	if (st->st_dev != makedev(key->major, key->minor) || !st->st_nlink ||
	    owner.uid == FILE_UID_ANY || !device_is_fixed_disk("", st->st_dev) ||
	    fstatvfs(fd, &system) || (!code->build_id_size && (system.f_flag & ST_RDONLY)) ||
	    ioctl(fd, FS_IOC_GETVERSION, &version))
		return false;
	if (!key->generation)
		key->generation = (uint32_t)version;
	return key->generation == (uint32_t)version;
}

/* Opens the file at a place with a number from 0. Returns -ENOENT if there is no such place. */
static int perf_file_open_place(const struct find_file_call *call, unsigned int number,
				struct stat *st)
{
	char path[64];

	switch (number) {
	case 0:
		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64,
			 call->place.pid, call->place.start, call->place.end);
		return open_regular_file(path, 0, st);
	case 1:
		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root", call->place.pid);
		return *call->path ? open_regular_file_in(path, call->path, O_NOFOLLOW, st) : -1;
	default:
		return *call->path ? open_regular_file(call->path, O_NOFOLLOW, st) : -1;
	}
}

static void find_file(void *arg)
{
	struct find_file_call *call = arg;
	struct stat st;

	for (unsigned int i = 0; i < 3 && call->fd < 0; i++) {
		int fd = perf_file_open_place(call, i, &st);

		if (fd < 0)
			continue;
		if (is_mapped_file(&call->key, fd, &st))
			call->fd = fd;
		else
			close(fd);
	}
	if (call->fd < 0)
		return;
	call->size = (uint64_t)st.st_size;
	call->was_read = elf_code_read(call->fd, &call->code);
	call->is_lasting = perf_file_lasts(&call->key, &call->code, call->fd, &st);
}

static void drop_find_file(void *arg)
{
	struct find_file_call *call = arg;

	if (call->fd >= 0)
		close(call->fd);
	free(call->path);
	free(call);
}

/* Returns whether a process has a root directory: it lives, and is no zombie. Does not block. */
static bool has_root(uint32_t pid)
{
	char path[32], target;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root", pid);
	return readlink(path, &target, 1) >= 0 || errno != ENOENT;
}

/*
 * Opens a file, and reads its headers. A file system that hangs costs OPEN_TIMEOUT_NS once (see
 * timed_call()). Returns what was found, which the caller drops by drop_find_file(); NULL: nothing.
 */
static struct find_file_call *open_file(struct perf_file *file, const struct perf_file_place *place)
{
	struct find_file_call *call = calloc(1, sizeof(*call));
	int err;

	if (!call)
		return NULL;
	call->key = file->key;
	call->place = *place;
	call->fd = -1;
	call->path = strdup(file->path);
	err = call->path ? timed_call(find_file, drop_find_file, call, OPEN_TIMEOUT_NS) : -ENOMEM;
	if (err == -ETIMEDOUT) {
		file->failures = OPEN_FAILURES_MAX;
		return NULL;
	}
	if (!err && call->fd >= 0)
		return call;
	if (has_root(place->pid))
		file->failures++;
	drop_find_file(call);
	return NULL;
}

/*
 * A process that has ended shows its files no longer, above all in a container, whose own root has
 * other files. The next process that maps the file may show it.
 */
static bool may_open_again(const struct perf_file *file, int fd,
			   const struct perf_file_place *place)
{
	return fd < 0 && file->failures < OPEN_FAILURES_MAX && has_root(place->pid);
}

static bool add_file_record(const struct perf_file *file, struct record_buffer *out)
{
	const size_t length = strlen(file->path) + 1;
	struct stackbeat_file *record = record_buffer_add(
		out, STACKBEAT_RECORD_FILE, file->was_read ? 0 : STACKBEAT_FILE_HEADERS_NOT_READ,
		sizeof(*record) + length);

	if (!record)
		return false;
	if (file->is_unlinked)
		record->record.flags |= STACKBEAT_FILE_UNLINKED;
	else if (file->is_lasting)
		record->record.flags |= STACKBEAT_FILE_LASTING;
	record->file = file->id;
	record->inode = file->key.inode;
	record->size = file->size;
	record->device_major = file->key.major;
	record->device_minor = file->key.minor;
	record->inode_generation = (uint32_t)file->key.generation;
	record->build_id_size = file->code.build_id_size;
	memcpy(record->build_id, file->code.build_id, sizeof(record->build_id));
	memcpy(record->path, file->path, length);
	return true;
}

uint64_t perf_files_announce(struct perf_files *files, uint32_t index,
			     const struct perf_file_place *place, struct record_buffer *out)
{
	struct perf_file *file = files->list[index];
	struct find_file_call *found;
	uint64_t id;
	int fd;

	pthread_mutex_lock(&files->mutex);
	id = file->id;
	fd = file->fd;
	pthread_mutex_unlock(&files->mutex);
	if (files->held == STACKBEAT_FILES_MAX || (id && !may_open_again(file, fd, place)))
		return id;
	found = open_file(file, place);
	if (id && !found)
		return id;
	pthread_mutex_lock(&files->mutex);
	/* The reader knows that it has no bytes: another id has them. */
	if (file->id)
		hash_remove(&files->by_id, file_id_hash(file->id), index);
	if (found) {
		file->fd = found->fd;
		file->size = found->size;
		file->code = found->code;
		file->was_read = found->was_read;
		file->is_lasting = found->is_lasting;
		file->key.generation = found->key.generation;
		found->fd = -1;
	}
	file->id = files->last_id + 1;
	if (hash_add(&files->by_id, file_id_hash(file->id), index)) {
		file->id = 0;
	} else if (!add_file_record(file, out)) {
		hash_remove(&files->by_id, file_id_hash(file->id), index);
		file->id = 0;
	}
	if (file->id) {
		files->last_id++;
		files->held += file->fd >= 0;
	} else if (file->fd >= 0) {
		close(file->fd);
		file->fd = -1;
	}
	id = file->id;
	pthread_mutex_unlock(&files->mutex);
	if (found)
		drop_find_file(found);
	return id;
}

bool perf_files_vaddr(const struct perf_files *files, uint32_t index, uint64_t offset,
		      uint64_t *vaddr)
{
	return elf_code_vaddr(&files->list[index]->code, offset, vaddr);
}

/* Returns PERF_FILE_NONE if no file has the id. */
static uint32_t index_of_id(const struct perf_files *files, uint64_t id)
{
	_Static_assert(HASH_NONE == PERF_FILE_NONE, "both stand for none");
	return hash_find(&files->by_id, file_id_hash(id), has_id, files, &id);
}

int perf_files_open(struct perf_files *files, uint64_t id)
{
	uint32_t index;
	char path[32];
	int held = -ENOENT, fd;

	pthread_mutex_lock(&files->mutex);
	index = index_of_id(files, id);
	if (index != PERF_FILE_NONE && files->list[index]->fd >= 0) {
		held = fcntl(files->list[index]->fd, F_DUPFD_CLOEXEC, 0);
		held = held < 0 ? -errno : held;
	}
	pthread_mutex_unlock(&files->mutex);
	if (held < 0)
		return held;
	/* A file of its own, as the position is the reader's. Its file system may hang: unlocked.
	 */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", held);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	fd = fd < 0 ? -errno : fd;
	close(held);
	return fd;
}

int perf_files_release(struct perf_files *files, uint64_t id)
{
	struct perf_file *file;
	uint32_t index;
	int fd = -1;

	pthread_mutex_lock(&files->mutex);
	index = index_of_id(files, id);
	if (index != PERF_FILE_NONE) {
		file = files->list[index];
		hash_remove(&files->by_id, file_id_hash(id), index);
		file->id = 0;
		files->held -= file->fd >= 0;
		fd = file->fd;
		file->fd = -1;
		files->may_have_unused = true;
	}
	pthread_mutex_unlock(&files->mutex);
	/* Its file system may hang. */
	if (fd >= 0)
		close(fd);
	return index == PERF_FILE_NONE ? -ENOENT : 0;
}
