// SPDX-License-Identifier: GPL-2.0
#include "process/mapped_files.h"

#include "lib/array.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "lib/regular_file.h"
#include "process/binary_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <linux/fs.h>
#include <pthread.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Sweeps that an object must have seen without a mark before it is of no use. */
#define SWEEPS_UNMARKED 2u
/* gcc's analyzer loses sight of what is stored in the table, and calls it leaked. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* More would not fit into the numbers of address_space.h. */
#define OBJECTS_COUNT_MAX (1u << 30)
/* Sweeps after which no record that waited can name an id that was given back. */
#define SWEEPS_REMEMBERED 8u

enum state {
	FILE_UNTOUCHED,
	FILE_WANTED, /* it is in the queue, or being read: the thread's */
	FILE_READ, /* it was read, or can't be */
};

/* A way to a file: a process that maps it. pid 0: none is known. */
struct way {
	uint32_t pid;
	uint64_t start, end;
};

struct object_file {
	struct mapped_file object; /* first, for object_file() */
	/* As the kernel told; `told` if it did. */
	uint64_t device, inode, size;
	uint32_t generation;
	bool told, unread, unlinked;
	bool needed_early; /* before it was told */
	char *build_id; /* hex, or NULL */
	const void *image; /* of the vdso, instead of a file */
	size_t image_size;
	uint64_t id; /* of the kernel, that can be opened; 0: none */
	struct way way;
	enum state state; /* FILE_WANTED to _READ: under the lock */
	bool hung; /* the thread that reads it was given up: under the lock */
	unsigned int unmarked; /* sweeps */
	/* Of the thread while it is FILE_WANTED: */
	struct object_file *next; /* in the queue, or in what was read */
	uint64_t wanted_id;
	struct way wanted_way;
	struct elf_file elf;
	char *problem; /* NULL: none */
	int fd; /* kept, as the file has no name; -1: none */
	bool is_others; /* somebody else can write to what was read */
};

/* What an id of the kernel stands for. */
struct name {
	uint64_t id;
	struct object_file *object;
	struct name *next; /* in `forgotten` */
	uint64_t sweep; /* in which it was given back */
};

struct mapped_files {
	char *root;
	struct file_source source;
	struct object_file **list; /* by index */
	size_t count, capacity;
	struct hash identities; /* indices of `list` */
	void *names; /* tree of struct name by id */
	struct name *forgotten, **forgotten_end; /* given back, oldest first */
	struct object_file *vdso;
	const char *keep; /* directory, or NULL */
	uint64_t sweep;
	unsigned int open; /* fds that are kept; atomic: a thread that hung may come back */
	uint64_t symbol_bytes; /* that are kept; atomic, too */
	bool finished;
	bool without_symbols;

	/* The thread that reads, and what is under the lock. */
	pthread_t thread;
	bool thread_runs;
	pthread_mutex_t lock;
	pthread_cond_t wanted; /* the queue is not empty, or `stop` */
	struct object_file *queue, **queue_end;
	pthread_cond_t read; /* one more was read, or the thread has ended */
	struct object_file *reading; /* what the thread is at */
	struct object_file *done; /* that were read since the last tick */
	uint64_t read_count;
	struct mapped_files_counts counts;
	struct error keep_problem;
	bool stop;
	bool ended;
	unsigned int hung; /* threads that were given up, and may still write to their objects */
};

/* What has come of reading an object. */
struct outcome {
	struct mapped_files_counts counts;
	struct error keep_problem; /* where it was not kept */
};

static struct object_file *object_file(struct mapped_file *object)
{
	return (struct object_file *)object;
}

/* Finding files */

/*
 * Overlayfs and btrfs tell stat() other device numbers than the kernel's inode has;
 * both have no device of their own, which shows as major number 0. For them the rest
 * has to do.
 */
static bool is_same_inode(const struct object_file *object, int fd, const struct stat *st)
{
	int generation;

	if (st->st_ino != object->inode || (uint64_t)st->st_size != object->size)
		return false;
	if (st->st_dev != object->device && major(st->st_dev) && major(object->device))
		return false;
	/* Not all file systems have one, or tell it. */
	return !object->generation || ioctl(fd, FS_IOC_GETVERSION, &generation) || !generation ||
	       (uint32_t)generation == object->generation;
}

/* Whether a file is the one that was mapped: by its build id, or else by its inode. */
static bool is_proven(const struct object_file *object, int fd)
{
	struct elf_file elf = {0};
	struct error problem;
	struct stat st;
	bool proven;

	if (fstat(fd, &st))
		return false;
	if (object->unread && !object->build_id)
		return is_same_inode(object, fd, &st);
	elf_read(&elf, fd, NULL, 0, false, &problem);
	proven = !strcmp(elf.build_id, object->build_id ? object->build_id : "");
	elf_clear(&elf);
	return proven && (object->build_id || is_same_inode(object, fd, &st));
}

/* `fd` if it is proven to be the file that was mapped; else it is closed. */
static int take_proven(const struct object_file *object, int fd)
{
	if (fd < 0 || is_proven(object, fd))
		return fd;
	close(fd);
	return -ESTALE;
}

__attribute__((format(printf, 3, 4))) static int try_path(const struct object_file *object,
							  int flags, const char *format, ...)
{
	char path[PATH_MAX];
	struct stat st;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENAMETOOLONG;
	return take_proven(object, open_regular_file(path, flags, &st));
}

/* By path as a process sees it, which may mean harm by its links. */
static int try_path_of(const struct object_file *object, const char *root, uint32_t pid)
{
	char directory[PATH_MAX];
	struct stat st;
	int length = snprintf(directory, sizeof(directory), "%s/proc/%" PRIu32 "/root", root, pid);

	if (length < 0 || (size_t)length >= sizeof(directory))
		return -ENAMETOOLONG;
	return take_proven(object,
			   open_regular_file_in(directory, object->object.path, O_NOFOLLOW, &st));
}

/* Through a mapping, then by path as the process sees it, then by path as we do. */
static int find_file(const char *root, const struct object_file *object, const struct way *way)
{
	const char *path = object->object.path;
	int fd = -ENOENT;

	if (!object->told)
		return -ENOENT;
	if (way->pid)
		fd = try_path(object, 0, "%s/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, root,
			      way->pid, way->start, way->end);
	if (fd >= 0 || *path != '/')
		return fd;
	if (way->pid)
		fd = try_path_of(object, root, way->pid);
	return fd >= 0 ? fd : try_path(object, O_NOFOLLOW, "%s%s", root, path);
}

int mapped_file_open(const struct mapped_files *objects, const struct mapped_file *object)
{
	const struct object_file *file = (const struct object_file *)object;
	int fd;

	if (file->state == FILE_WANTED)
		return -ETIMEDOUT;
	if (file->fd < 0)
		return find_file(objects->root, file, &file->way);
	fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* Reading, by the thread */

/* The file of the kernel, or one that is proven to be it. */
static int open_wanted(const struct mapped_files *objects, const struct object_file *object)
{
	int fd = -ENOENT, found;
	struct stat st;

	if (object->wanted_id)
		fd = objects->source.open(object->wanted_id, objects->source.arg);
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -EINVAL;
	}
	if (fd >= 0)
		return fd;
	found = find_file(objects->root, object, &object->wanted_way);
	return found >= 0 || !object->wanted_id ? found : fd;
}

static void keep_copy(const struct mapped_files *objects, const struct object_file *object, int fd,
		      struct outcome *outcome)
{
	if (!*object->elf.build_id)
		outcome->counts.without_id++;
	else if (!binary_store_add(objects->keep, object->elf.build_id, fd, object->image,
				   object->image_size, &outcome->keep_problem))
		outcome->counts.kept++;
	else
		outcome->counts.not_kept++;
}

/* Whether a file that has a name no more is to stay open. */
static bool is_worth_an_fd(struct mapped_files *objects, const struct object_file *object, int fd)
{
	struct stat st;

	if (!object->unlinked && (fstat(fd, &st) || st.st_nlink))
		return false;
	if (__atomic_add_fetch(&objects->open, 1, __ATOMIC_RELAXED) <= MAPPED_FILES_OPEN_MAX)
		return true;
	__atomic_sub_fetch(&objects->open, 1, __ATOMIC_RELAXED);
	return false;
}

/* Lets go of symbols that are beyond what is kept of all files. */
static void bound_symbols(struct mapped_files *objects, struct object_file *object,
			  struct error *problem)
{
	uint64_t size = elf_functions_size(&object->elf), max = objects->source.symbol_bytes;

	if (__atomic_add_fetch(&objects->symbol_bytes, size, __ATOMIC_RELAXED) <=
	    (max ? max : MAPPED_FILES_SYMBOL_BYTES_MAX))
		return;
	__atomic_sub_fetch(&objects->symbol_bytes, size, __ATOMIC_RELAXED);
	elf_drop_functions(&object->elf);
	error_set(problem, E2BIG, "has more symbols than there is room for");
}

static int read_symbols(struct mapped_files *objects, struct object_file *object, int fd,
			struct error *problem)
{
	int err = elf_read(&object->elf, fd, object->image, object->image_size,
			   !objects->without_symbols, problem);

	if (err)
		return err;
	if (!object->build_id || !strcmp(object->build_id, object->elf.build_id)) {
		bound_symbols(objects, object, problem);
		return 0;
	}
	/* Written to since it was mapped: its symbols are not those of the samples. */
	elf_clear(&object->elf);
	return error_set(problem, ESTALE, "was changed during the recording");
}

static void read_object(struct mapped_files *objects, struct object_file *object,
			struct outcome *outcome)
{
	int fd = object->image ? -1 : open_wanted(objects, object), err = 0;
	struct error problem;

	if (!object->image && fd < 0)
		err = error_errno(&problem, -fd, "can't be opened");
	else
		err = read_symbols(objects, object, fd, &problem);
	if (*problem.text)
		object->problem = strdup(problem.text);
	object->is_others = fd >= 0 && !file_is_trusted(fd);
	outcome->counts.read += !err;
	if (!err && objects->keep)
		keep_copy(objects, object, fd, outcome);
	if (!err && fd >= 0 && is_worth_an_fd(objects, object, fd))
		object->fd = fd;
	else if (fd >= 0)
		close(fd);
}

/* With the lock. */
static void take_outcome(struct mapped_files *objects, const struct outcome *outcome)
{
	if (outcome->counts.not_kept && !objects->counts.not_kept)
		objects->keep_problem = outcome->keep_problem;
	objects->counts.read += outcome->counts.read;
	objects->counts.kept += outcome->counts.kept;
	objects->counts.not_kept += outcome->counts.not_kept;
	objects->counts.without_id += outcome->counts.without_id;
}

/* The next one of the queue. NULL: it is to end. With the lock. */
static struct object_file *next_wanted(struct mapped_files *objects)
{
	struct object_file *object;

	while (!objects->queue && !objects->stop)
		pthread_cond_wait(&objects->wanted, &objects->lock);
	object = objects->queue;
	objects->reading = object;
	if (!object)
		return NULL;
	objects->queue = object->next;
	if (!objects->queue)
		objects->queue_end = &objects->queue;
	return object;
}

static void *read_objects(void *arg)
{
	struct mapped_files *objects = arg;
	struct object_file *object;

	pthread_mutex_lock(&objects->lock);
	while ((object = next_wanted(objects))) {
		struct outcome outcome = {.counts = {0}};

		pthread_mutex_unlock(&objects->lock);
		read_object(objects, object, &outcome);
		pthread_mutex_lock(&objects->lock);
		if (object->hung) {
			/* It was given up, and all of the rest is another thread's. */
			pthread_mutex_unlock(&objects->lock);
			return NULL;
		}
		take_outcome(objects, &outcome);
		object->next = objects->done;
		objects->done = object;
		objects->read_count++;
		pthread_cond_signal(&objects->read);
	}
	objects->ended = true;
	pthread_cond_signal(&objects->read);
	pthread_mutex_unlock(&objects->lock);
	return NULL;
}

int mapped_file_request(struct mapped_files *objects, struct mapped_file *object)
{
	struct object_file *file = object_file(object);

	if (file->state != FILE_UNTOUCHED || objects->finished)
		return 0;
	if (!file->told) {
		file->needed_early = true;
		return 0;
	}
	if (objects->without_symbols && !file->unread && !file->image && !objects->keep)
		return 0;
	if (!objects->thread_runs) {
		if (pthread_create(&objects->thread, NULL, read_objects, objects))
			return -ENOMEM;
		objects->thread_runs = true;
	}
	file->state = FILE_WANTED;
	file->wanted_id = file->id;
	file->wanted_way = file->way;
	file->next = NULL;
	pthread_mutex_lock(&objects->lock);
	*objects->queue_end = file;
	objects->queue_end = &file->next;
	pthread_cond_signal(&objects->wanted);
	pthread_mutex_unlock(&objects->lock);
	return 0;
}

/* The table */

struct mapped_files *mapped_files_new(const char *root, const struct file_source *source,
				      struct error *error)
{
	struct mapped_files *objects = calloc(1, sizeof(*objects));

	if (objects)
		objects->root = strdup(root);
	if (!objects || !objects->root) {
		free(objects);
		error_errno(error, ENOMEM, "can't make the table of object files");
		return NULL;
	}
	objects->source = *source;
	objects->forgotten_end = &objects->forgotten;
	objects->queue_end = &objects->queue;
	pthread_mutex_init(&objects->lock, NULL);
	pthread_cond_init(&objects->wanted, NULL);
	pthread_cond_init(&objects->read, NULL);
	return objects;
}

static void free_object(struct object_file *object)
{
	if (object->fd >= 0)
		close(object->fd);
	elf_clear(&object->elf);
	free(object->problem);
	free(object->build_id);
	free(object->object.path);
	free(object);
}

/* How long one file may take: less and less, as others have hung. */
static unsigned int patience(const struct mapped_files *objects)
{
	unsigned int seconds = objects->source.patience;

	if (!seconds)
		seconds = objects->keep ? MAPPED_FILES_SAVE_TIMEOUT_S : MAPPED_FILES_TIMEOUT_S;
	seconds >>= objects->hung;
	return seconds ? seconds : 1;
}

/* Waits until the thread has ended; false: it hangs. With the lock. */
static bool wait_for_thread(struct mapped_files *objects)
{
	struct timespec deadline;
	uint64_t seen;

	while (!objects->ended) {
		seen = objects->read_count;
		clock_gettime(CLOCK_MONOTONIC, &deadline);
		deadline.tv_sec += patience(objects);
		while (!objects->ended && seen == objects->read_count) {
			if (pthread_cond_clockwait(&objects->read, &objects->lock, CLOCK_MONOTONIC,
						   &deadline) == ETIMEDOUT)
				return objects->ended || seen != objects->read_count;
		}
	}
	return true;
}

static void drop_queue(struct mapped_files *objects)
{
	objects->queue = NULL;
	objects->queue_end = &objects->queue;
}

/* Moves what is on a device behind all else in the queue. */
static void defer_device(struct mapped_files *objects, uint64_t device)
{
	struct object_file *deferred = NULL, **deferred_end = &deferred, *object;
	struct object_file **at = &objects->queue;

	while ((object = *at)) {
		if (object->device != device) {
			at = &object->next;
			continue;
		}
		*at = object->next;
		object->next = NULL;
		*deferred_end = object;
		deferred_end = &object->next;
	}
	*at = deferred;
	objects->queue_end = deferred ? deferred_end : at;
}

/*
 * Leaves the thread alone with the file in which it hangs, and has another one read the rest.
 * False: there is no other one. With the lock.
 */
static bool replace_thread(struct mapped_files *objects)
{
	pthread_detach(objects->thread);
	objects->thread_runs = false;
	objects->hung++;
	if (!objects->reading) {
		drop_queue(objects);
		return false;
	}
	objects->reading->hung = true;
	defer_device(objects, objects->reading->device);
	objects->reading = NULL;
	if (objects->queue && objects->hung < MAPPED_FILES_STUCK_MAX)
		objects->thread_runs =
			!pthread_create(&objects->thread, NULL, read_objects, objects);
	if (!objects->thread_runs)
		drop_queue(objects);
	return objects->thread_runs;
}

/* Has the thread end once the queue is empty, or gives up what hangs. */
static void stop_thread(struct mapped_files *objects)
{
	if (!objects->thread_runs)
		return;
	pthread_mutex_lock(&objects->lock);
	objects->stop = true;
	pthread_cond_signal(&objects->wanted);
	while (!wait_for_thread(objects) && replace_thread(objects))
		;
	pthread_mutex_unlock(&objects->lock);
	if (objects->thread_runs)
		pthread_join(objects->thread, NULL);
	objects->thread_runs = false;
}

void mapped_files_free(struct mapped_files *objects)
{
	if (!objects)
		return;
	mapped_files_abandon(objects);
	/* The thread would find what it works on gone. */
	if (objects->hung)
		return;
	tdestroy(objects->names, free);
	for (size_t i = 0; i < objects->count; i++)
		free_object(objects->list[i]);
	free(objects->list);
	hash_clear(&objects->identities);
	pthread_cond_destroy(&objects->wanted);
	pthread_cond_destroy(&objects->read);
	pthread_mutex_destroy(&objects->lock);
	free(objects->root);
	free(objects);
}

int mapped_files_save(struct mapped_files *objects, const char *directory, struct error *error)
{
	int err = binary_store_prepare(directory, error);

	if (!err)
		objects->keep = directory;
	return err;
}

static struct object_file *new_object(struct mapped_files *objects)
{
	struct object_file *object = calloc(1, sizeof(*object));

	if (!object || objects->count == OBJECTS_COUNT_MAX ||
	    array_reserve(&objects->list, &objects->capacity, objects->count, 1,
			  sizeof(struct object_file *))) {
		free(object);
		return NULL;
	}
	object->fd = -1;
	object->object.index = (uint32_t)objects->count;
	object->object.build_id = "";
	object->object.problem = "";
	object->object.path = strdup("");
	if (!object->object.path) {
		free(object);
		return NULL;
	}
	objects->list[objects->count++] = object;
	return object;
}

/* Names: which object an id of the kernel is */

static int compare_names(const void *a, const void *b)
{
	const struct name *left = a, *right = b;

	return (left->id > right->id) - (left->id < right->id);
}

static struct name *find_name(const struct mapped_files *objects, uint64_t id)
{
	const struct name key = {.id = id};
	struct name **node = tfind(&key, &objects->names, compare_names);

	return node ? *node : NULL;
}

static struct name *add_name(struct mapped_files *objects, uint64_t id, struct object_file *object)
{
	struct name *name = calloc(1, sizeof(*name));
	struct name **node;

	if (!name)
		return NULL;
	name->id = id;
	name->object = object;
	node = tsearch(name, &objects->names, compare_names);
	if (!node) {
		free(name);
		return NULL;
	}
	/* As tsearch() has set it. Analyzers do not know that, and would see a leak. */
	*node = name;
	return name;
}

/* Gives an id back. Records that waited may still name it for a while. */
static void release_id(struct mapped_files *objects, uint64_t id)
{
	struct name *name = find_name(objects, id);

	objects->source.release(id, objects->source.arg);
	if (!name || name->sweep)
		return;
	name->sweep = objects->sweep + 1;
	*objects->forgotten_end = name;
	objects->forgotten_end = &name->next;
}

static void forget_names(struct mapped_files *objects)
{
	struct name *name;

	while ((name = objects->forgotten) && name->sweep + SWEEPS_REMEMBERED < objects->sweep) {
		objects->forgotten = name->next;
		if (!objects->forgotten)
			objects->forgotten_end = &objects->forgotten;
		tdelete(name, &objects->names, compare_names);
		free(name);
	}
}

void mapped_files_skip_symbols(struct mapped_files *objects)
{
	objects->without_symbols = true;
}

bool mapped_files_have_symbols(const struct mapped_files *objects)
{
	return !objects->without_symbols;
}

/* What is told */

static uint32_t identity_hash(const struct object_file *object)
{
	uint32_t hash = hash_number(HASH_START, object->device);

	hash = hash_number(hash, object->inode);
	hash = hash_number(hash, object->size);
	hash = hash_number(hash, (uint64_t)object->generation << 1 | object->unread);
	return hash_string(hash, object->build_id ? object->build_id : "");
}

static bool is_identical(const void *context, uint32_t index, const void *key)
{
	const struct object_file *a = ((const struct mapped_files *)context)->list[index], *b = key;

	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->generation == b->generation && a->unread == b->unread &&
	       !strcmp(a->build_id ? a->build_id : "", b->build_id ? b->build_id : "");
}

/* Sets what tells one file from another. */
static int set_identity(struct object_file *object, const struct stackbeat_file *record)
{
	object->device = makedev(record->device_major, record->device_minor);
	object->inode = record->inode;
	object->size = record->size;
	object->generation = record->inode_generation;
	object->unread = record->record.flags & STACKBEAT_FILE_HEADERS_NOT_READ;
	if (!record->build_id_size)
		return 0;
	object->build_id = malloc(2 * (size_t)record->build_id_size + 1);
	if (!object->build_id)
		return -ENOMEM;
	for (uint32_t i = 0; i < record->build_id_size; i++)
		sprintf(object->build_id + 2 * (size_t)i, "%02x", record->build_id[i]);
	return 0;
}

/* Makes `object` the one that is told of, with the identity of `key`, which it takes over. */
static int tell_object(struct mapped_files *objects, struct object_file *object,
		       struct object_file *key, const struct stackbeat_file *record)
{
	char *path = strdup(record->path);

	if (!path)
		return -ENOMEM;
	free(object->object.path);
	object->object.path = path;
	object->device = key->device;
	object->inode = key->inode;
	object->size = key->size;
	object->generation = key->generation;
	object->unread = key->unread;
	object->build_id = key->build_id;
	key->build_id = NULL;
	object->object.build_id = object->build_id ? object->build_id : "";
	object->told = true;
	return hash_add(&objects->identities, identity_hash(object), object->object.index);
}

/* The object of a file of which the kernel tells under a new id. */
static struct object_file *known_object(struct mapped_files *objects, const struct object_file *key)
{
	uint32_t index =
		hash_find(&objects->identities, identity_hash(key), is_identical, objects, key);

	return index == HASH_NONE ? NULL : objects->list[index];
}

int mapped_files_add(struct mapped_files *objects, const struct stackbeat_file *record)
{
	struct name *name = find_name(objects, record->file);
	struct object_file key = {0};
	struct object_file *object;
	int err = set_identity(&key, record);

	if (err)
		return err;
	/* A mapping of it may have come before: then it is an object of its own. */
	object = name ? name->object : known_object(objects, &key);
	if (!object)
		object = new_object(objects);
	if (!object || (!name && !add_name(objects, record->file, object)))
		err = -ENOMEM;
	else if (!object->told)
		err = tell_object(objects, object, &key, record);
	free(key.build_id);
	if (err)
		return err;
	object->unmarked = 0;
	if (object->state == FILE_UNTOUCHED && (!object->id || object->id == record->file)) {
		object->unlinked |= record->record.flags & STACKBEAT_FILE_UNLINKED;
		object->id = record->file;
	} else {
		/* One that is read, or can be opened, needs no other id. */
		release_id(objects, record->file);
	}
	return object->needed_early ? mapped_file_request(objects, &object->object) : 0;
}

struct mapped_file *mapped_files_find_mapped(struct mapped_files *objects, uint32_t pid,
					     uint64_t start, uint64_t end)
{
	struct object_file key = {.unread = true, .told = true}, *object;
	char link[PATH_MAX], path[PATH_MAX];
	struct statx st;
	ssize_t length;
	char *copy;

	snprintf(link, sizeof(link), "%s/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64,
		 objects->root, pid, start, end);
	length = readlink(link, path, sizeof(path) - 1);
	/* Its server or FUSE process is not asked, and so can't hold us: what the kernel has must
	 * do. */
	if (length < 0 ||
	    statx(AT_FDCWD, link, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_SIZE, &st) ||
	    !S_ISREG(st.stx_mode))
		return NULL;
	path[length] = '\0';
	key.device = makedev(st.stx_dev_major, st.stx_dev_minor);
	key.inode = st.stx_ino;
	key.size = st.stx_size;
	object = known_object(objects, &key);
	if (object)
		return &object->object;
	copy = strdup(path);
	object = copy ? new_object(objects) : NULL;
	if (!object) {
		free(copy);
		return NULL;
	}
	free(object->object.path);
	object->object.path = copy;
	object->device = key.device;
	object->inode = key.inode;
	object->size = key.size;
	object->unread = true;
	object->told = true;
	hash_add(&objects->identities, identity_hash(object), object->object.index);
	return &object->object;
}

struct mapped_file *mapped_files_get(struct mapped_files *objects, uint64_t id)
{
	struct name *name = find_name(objects, id);
	struct object_file *object = name ? name->object : new_object(objects);

	if (!object || (!name && !add_name(objects, id, object)))
		return NULL;
	if (!name)
		object->id = id;
	return &object->object;
}

struct mapped_file *mapped_files_vdso(struct mapped_files *objects)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct object_file *vdso;
	char *path;

	if (objects->vdso)
		return &objects->vdso->object;
	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64)
		return NULL;
	path = strdup("[vdso]");
	vdso = path ? new_object(objects) : NULL;
	if (!vdso) {
		free(path);
		return NULL;
	}
	free(vdso->object.path);
	vdso->object.path = path;
	/* The section headers are at the end of the image. */
	vdso->image = header;
	vdso->image_size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	vdso->told = true;
	objects->vdso = vdso;
	return &vdso->object;
}

struct mapped_file *mapped_files_at(const struct mapped_files *objects, uint32_t index)
{
	return &objects->list[index]->object;
}

void mapped_file_note_mapping(struct mapped_files *objects, struct mapped_file *object,
			      uint32_t pid, uint64_t start, uint64_t end)
{
	struct object_file *file = object_file(object);

	(void)objects;
	file->way = (struct way){pid, start, end};
	file->unmarked = 0;
}

/* Giving back */

void mapped_files_mark(struct mapped_files *objects, uint32_t index)
{
	objects->list[index]->unmarked = 0;
}

static void release_object(struct mapped_files *objects, struct object_file *object)
{
	if (object->id)
		release_id(objects, object->id);
	object->id = 0;
}

static void publish(struct object_file *object)
{
	object->state = FILE_READ;
	object->object.problem = object->problem ? object->problem : "";
	if (*object->elf.build_id)
		object->object.build_id = object->elf.build_id;
}

void mapped_files_release_read(struct mapped_files *objects)
{
	struct object_file *done, *next;

	pthread_mutex_lock(&objects->lock);
	done = objects->done;
	objects->done = NULL;
	pthread_mutex_unlock(&objects->lock);
	for (; done; done = next) {
		next = done->next;
		publish(done);
		release_object(objects, done);
	}
}

void mapped_files_sweep(struct mapped_files *objects)
{
	objects->sweep++;
	forget_names(objects);
	for (size_t i = 0; i < objects->count; i++) {
		struct object_file *object = objects->list[i];

		if (object->state == FILE_UNTOUCHED && object->id &&
		    object->unmarked++ >= SWEEPS_UNMARKED)
			release_object(objects, object);
	}
}

void mapped_files_abandon(struct mapped_files *objects)
{
	if (!objects || objects->finished)
		return;
	pthread_mutex_lock(&objects->lock);
	drop_queue(objects);
	pthread_mutex_unlock(&objects->lock);
	stop_thread(objects);
	objects->finished = true;
}

void mapped_files_finish(struct mapped_files *objects)
{
	if (objects->finished)
		return;
	stop_thread(objects);
	mapped_files_release_read(objects);
	for (size_t i = 0; i < objects->count; i++) {
		if (objects->list[i]->state == FILE_WANTED)
			objects->list[i]->object.problem = "reading it has hung";
		release_object(objects, objects->list[i]);
	}
	objects->finished = true;
}

void mapped_files_counts(const struct mapped_files *objects, struct mapped_files_counts *counts)
{
	*counts = objects->counts;
}

const char *mapped_files_save_problem(const struct mapped_files *objects)
{
	return objects->keep_problem.text;
}

bool mapped_file_vaddr(const struct mapped_file *object, uint64_t offset, uint64_t *vaddr)
{
	const struct object_file *file = (const struct object_file *)object;

	return file->state != FILE_WANTED && elf_vaddr(&file->elf, offset, vaddr);
}

bool mapped_file_lookup(const struct mapped_file *object, uint64_t vaddr, struct symbol *symbol)
{
	const struct object_file *file = (const struct object_file *)object;

	return file->state != FILE_WANTED && elf_lookup(&file->elf, vaddr, symbol);
}

bool mapped_file_is_untrusted(const struct mapped_file *object)
{
	const struct object_file *file = (const struct object_file *)object;

	return file->state != FILE_WANTED && file->is_others;
}
