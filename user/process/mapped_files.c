// SPDX-License-Identifier: GPL-2.0
#include "process/mapped_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "lib/regular_file.h"
#include "process/binary_store.h"

/* gcc's analyzer loses sight of what is stored in the table, and reports it as leaked. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* Sweeps that a file must have seen without a mark before it is released. */
#define SWEEPS_UNMARKED 2u
/* More would not fit into the segments of address_space.h. */
#define FILES_MAX (1u << 30)
/* Sweeps after which no pending record can refer to an id that was released. */
#define SWEEPS_RETIRED 8u

enum state {
	FILE_UNTOUCHED,
	FILE_REQUESTED, /* in the queue, or being read */
	FILE_READ, /* it was read, or can't be */
};

/* An entry of /proc/PID/map_files, through which a file can be opened. pid 0: none is known. */
struct map_files_entry {
	uint32_t pid;
	uint64_t start, end;
};

struct file_entry {
	struct mapped_file file; /* first, for file_entry() */
	/* From the record, if `announced`. */
	uint64_t device, inode, size;
	uint32_t generation; /* of the inode */
	bool announced, headers_not_read, unlinked;
	bool requested_early; /* before it was announced */
	char *build_id; /* hex, or NULL */
	const void *image; /* of the vdso, instead of a file */
	size_t image_size;
	uint64_t id; /* the kernel's, that can be opened; 0: none */
	struct map_files_entry map_files;
	enum state state; /* of the main thread */
	bool stuck; /* the thread that reads it was given up; under the lock */
	unsigned int unmarked_sweeps;
	/* The reading thread owns these while the state is FILE_REQUESTED. */
	struct file_entry *next; /* in the queue, or in `done` */
	uint64_t requested_id;
	struct map_files_entry requested_map_files;
	struct elf_file elf;
	char *problem; /* NULL: none */
	int fd; /* kept open, as the file is unlinked; -1: none */
};

/* The file of an id of the kernel. */
struct id_entry {
	uint64_t id;
	struct file_entry *entry; /* NULL: the slot is free */
	uint64_t retired; /* sweep after the release of the id; 0: not released */
	uint32_t next_free; /* as `free_id`, if the slot is free */
};

struct mapped_files {
	char *root;
	struct file_source source;
	struct file_entry **list; /* by index */
	size_t count, capacity;
	struct hash identities; /* indices of `list` */
	struct id_entry *ids;
	size_t id_count, id_capacity;
	uint32_t free_id; /* 1 + index of the first free slot of `ids`; 0: none */
	struct hash by_id; /* indices of `ids` */
	size_t retired_count; /* of `ids` */
	struct file_entry *vdso;
	const char *save_directory; /* or NULL */
	uint64_t sweep;
	unsigned int open_fds; /* kept open; atomic, as a stuck thread may resume */
	uint64_t symbol_bytes; /* in memory; atomic for the same reason */
	bool finished;
	bool skip_symbols;

	/* The reading thread, and fields under the lock. */
	pthread_t thread;
	bool thread_running;
	pthread_mutex_t lock;
	pthread_cond_t queue_changed; /* the queue is not empty, or `stop` */
	struct file_entry *queue, **queue_end;
	pthread_cond_t file_read; /* one more file was read, or the thread has ended */
	struct file_entry *reading; /* by the thread now */
	struct file_entry *done; /* read since mapped_files_release_read() */
	uint64_t read_count;
	struct mapped_files_counts counts;
	struct error save_problem;
	bool stop;
	bool thread_ended;
	unsigned int stuck_threads; /* given up, but may still write to their files */
};

/* The result of reading a file. */
struct read_result {
	struct mapped_files_counts counts;
	struct error save_problem; /* if it could not be saved */
};

static struct file_entry *file_entry(struct mapped_file *file)
{
	return (struct file_entry *)file;
}

/* Finding files */

/*
 * On overlayfs and btrfs, stat() returns another device number than that of the kernel's inode.
 * Both have no block device of their own, so that the major number is 0. The other fields must
 * do there.
 */
static bool is_same_inode(const struct file_entry *entry, int fd, const struct stat *st)
{
	int generation;

	if (st->st_ino != entry->inode || (uint64_t)st->st_size != entry->size)
		return false;
	if (st->st_dev != entry->device && major(st->st_dev) && major(entry->device))
		return false;
	/* Not all file systems have a generation, or report it. */
	return !entry->generation || ioctl(fd, FS_IOC_GETVERSION, &generation) || !generation ||
	       (uint32_t)generation == entry->generation;
}

/* Returns whether a file is the one that was mapped: by its build ID, or else by its inode. */
static bool is_mapped_file(const struct file_entry *entry, int fd)
{
	struct elf_file elf = {0};
	struct error problem;
	struct stat st;
	bool matches;

	if (fstat(fd, &st))
		return false;
	if (entry->headers_not_read && !entry->build_id)
		return is_same_inode(entry, fd, &st);
	elf_read(&elf, fd, NULL, 0, false, &problem);
	matches = build_id_equal(elf.build_id, entry->build_id ? entry->build_id : "");
	elf_clear(&elf);
	return matches && (entry->build_id || is_same_inode(entry, fd, &st));
}

/* Returns `fd` if it is the file that was mapped; otherwise closes it, and returns -ESTALE. */
static int verify_fd(const struct file_entry *entry, int fd)
{
	if (fd < 0 || is_mapped_file(entry, fd))
		return fd;
	close(fd);
	return -ESTALE;
}

__attribute__((format(printf, 3, 4))) static int open_path(const struct file_entry *entry,
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
	return verify_fd(entry, open_regular_file(path, flags, &st));
}

/* Opens the path as a process sees it. The process may have put malicious links there. */
static int open_path_in_process(const struct file_entry *entry, const char *root, uint32_t pid)
{
	char directory[PATH_MAX];
	struct stat st;
	int length = snprintf(directory, sizeof(directory), "%s/proc/%" PRIu32 "/root", root, pid);

	if (length < 0 || (size_t)length >= sizeof(directory))
		return -ENAMETOOLONG;
	return verify_fd(entry, open_regular_file_in(directory, entry->file.path, O_NOFOLLOW, &st));
}

/* Tries map_files first, then the path in the root of the process, then the path here. */
static int find_file(const char *root, const struct file_entry *entry,
		     const struct map_files_entry *map_files)
{
	const char *path = entry->file.path;
	int fd = -ENOENT;

	if (!entry->announced)
		return -ENOENT;
	if (map_files->pid)
		fd = open_path(entry, 0, "%s/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, root,
			       map_files->pid, map_files->start, map_files->end);
	if (fd >= 0 || *path != '/')
		return fd;
	if (map_files->pid)
		fd = open_path_in_process(entry, root, map_files->pid);
	return fd >= 0 ? fd : open_path(entry, O_NOFOLLOW, "%s%s", root, path);
}

int mapped_file_open(const struct mapped_files *files, const struct mapped_file *file)
{
	const struct file_entry *entry = (const struct file_entry *)file;
	int fd;

	if (entry->state == FILE_REQUESTED)
		return -ETIMEDOUT;
	if (entry->fd < 0)
		return find_file(files->root, entry, &entry->map_files);
	fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* Reading, in the thread */

/* Opens the kernel's file, or one that is verified to be it. */
static int open_requested(const struct mapped_files *files, const struct file_entry *entry)
{
	int fd = -ENOENT, found;
	struct stat st;

	if (entry->requested_id)
		fd = files->source.open(entry->requested_id, files->source.arg);
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -EINVAL;
	}
	if (fd >= 0)
		return fd;
	found = find_file(files->root, entry, &entry->requested_map_files);
	return found >= 0 || !entry->requested_id ? found : fd;
}

static void save_copy(const struct mapped_files *files, const struct file_entry *entry, int fd,
		      struct read_result *result)
{
	if (!*entry->elf.build_id)
		result->counts.without_id++;
	else if (!binary_store_add(files->save_directory, entry->elf.build_id, fd, entry->image,
				   entry->image_size, &result->save_problem))
		result->counts.saved++;
	else
		result->counts.not_saved++;
}

/* Returns whether a file must stay open, because it is unlinked. */
static bool must_stay_open(struct mapped_files *files, const struct file_entry *entry, int fd)
{
	struct stat st;

	if (!entry->unlinked && (fstat(fd, &st) || st.st_nlink))
		return false;
	if (__atomic_add_fetch(&files->open_fds, 1, __ATOMIC_RELAXED) <= MAPPED_FILES_OPEN_MAX)
		return true;
	__atomic_sub_fetch(&files->open_fds, 1, __ATOMIC_RELAXED);
	return false;
}

/* Frees the symbols of a file if they exceed the memory for those of all files. */
static void bound_symbols(struct mapped_files *files, struct file_entry *entry,
			  struct error *problem)
{
	uint64_t size = elf_functions_size(&entry->elf), max = files->source.symbol_bytes;

	if (__atomic_add_fetch(&files->symbol_bytes, size, __ATOMIC_RELAXED) <=
	    (max ? max : MAPPED_FILES_SYMBOL_BYTES_MAX))
		return;
	__atomic_sub_fetch(&files->symbol_bytes, size, __ATOMIC_RELAXED);
	elf_free_functions(&entry->elf);
	error_set(problem, E2BIG, "has more symbols than there is room for");
}

static int read_symbols(struct mapped_files *files, struct file_entry *entry, int fd,
			struct error *problem)
{
	int err = elf_read(&entry->elf, fd, entry->image, entry->image_size, !files->skip_symbols,
			   problem);

	if (err)
		return err;
	if (!entry->build_id || build_id_equal(entry->build_id, entry->elf.build_id)) {
		bound_symbols(files, entry, problem);
		return 0;
	}
	/* It was modified after it was mapped: its symbols do not fit the samples. */
	elf_clear(&entry->elf);
	return error_set(problem, ESTALE, "was changed during the recording");
}

static void read_file(struct mapped_files *files, struct file_entry *entry,
		      struct read_result *result)
{
	int fd = entry->image ? -1 : open_requested(files, entry), err = 0;
	struct error problem;

	if (!entry->image && fd < 0)
		err = error_errno(&problem, -fd, "can't be opened");
	else
		err = read_symbols(files, entry, fd, &problem);
	if (*problem.text)
		entry->problem = strdup(problem.text);
	result->counts.read += !err;
	if (!err && files->save_directory)
		save_copy(files, entry, fd, result);
	if (!err && fd >= 0 && must_stay_open(files, entry, fd))
		entry->fd = fd;
	else if (fd >= 0)
		close(fd);
}

/* With the lock. */
static void merge_result(struct mapped_files *files, const struct read_result *result)
{
	if (result->counts.not_saved && !files->counts.not_saved)
		files->save_problem = result->save_problem;
	files->counts.read += result->counts.read;
	files->counts.saved += result->counts.saved;
	files->counts.not_saved += result->counts.not_saved;
	files->counts.without_id += result->counts.without_id;
}

/* Waits for the next file of the queue. NULL: the thread must end. With the lock. */
static struct file_entry *next_request(struct mapped_files *files)
{
	struct file_entry *entry;

	while (!files->queue && !files->stop)
		pthread_cond_wait(&files->queue_changed, &files->lock);
	entry = files->queue;
	files->reading = entry;
	if (!entry)
		return NULL;
	files->queue = entry->next;
	if (!files->queue)
		files->queue_end = &files->queue;
	return entry;
}

static void *read_thread(void *arg)
{
	struct mapped_files *files = arg;
	struct file_entry *entry;

	pthread_mutex_lock(&files->lock);
	while ((entry = next_request(files))) {
		struct read_result result = {.counts = {0}};

		pthread_mutex_unlock(&files->lock);
		read_file(files, entry, &result);
		pthread_mutex_lock(&files->lock);
		if (entry->stuck) {
			/* The main thread gave up on this file. Another thread owns the queue. */
			pthread_mutex_unlock(&files->lock);
			return NULL;
		}
		merge_result(files, &result);
		entry->next = files->done;
		files->done = entry;
		files->read_count++;
		pthread_cond_signal(&files->file_read);
	}
	files->thread_ended = true;
	pthread_cond_signal(&files->file_read);
	pthread_mutex_unlock(&files->lock);
	return NULL;
}

int mapped_file_request(struct mapped_files *files, struct mapped_file *file)
{
	struct file_entry *entry = file_entry(file);

	if (entry->state != FILE_UNTOUCHED || files->finished)
		return 0;
	if (!entry->announced) {
		entry->requested_early = true;
		return 0;
	}
	if (files->skip_symbols && !entry->headers_not_read && !entry->image &&
	    !files->save_directory)
		return 0;
	if (!files->thread_running) {
		if (pthread_create(&files->thread, NULL, read_thread, files))
			return -ENOMEM;
		files->thread_running = true;
	}
	entry->state = FILE_REQUESTED;
	entry->requested_id = entry->id;
	entry->requested_map_files = entry->map_files;
	entry->next = NULL;
	pthread_mutex_lock(&files->lock);
	*files->queue_end = entry;
	files->queue_end = &entry->next;
	pthread_cond_signal(&files->queue_changed);
	pthread_mutex_unlock(&files->lock);
	return 0;
}

/* The table */

struct mapped_files *mapped_files_new(const char *root, const struct file_source *source,
				      struct error *error)
{
	struct mapped_files *files = calloc(1, sizeof(*files));

	if (files)
		files->root = strdup(root);
	if (!files || !files->root) {
		free(files);
		error_errno(error, ENOMEM, "can't make the table of mapped files");
		return NULL;
	}
	files->source = *source;
	files->queue_end = &files->queue;
	pthread_mutex_init(&files->lock, NULL);
	pthread_cond_init(&files->queue_changed, NULL);
	pthread_cond_init(&files->file_read, NULL);
	return files;
}

static void free_entry(struct file_entry *entry)
{
	if (entry->fd >= 0)
		close(entry->fd);
	elf_clear(&entry->elf);
	free(entry->problem);
	free(entry->build_id);
	free(entry->file.path);
	free(entry);
}

/* Seconds that one file may take: half as many after each one that hung. */
static unsigned int stuck_timeout_s(const struct mapped_files *files)
{
	unsigned int seconds = files->source.timeout_s;

	if (!seconds)
		seconds = files->save_directory ? MAPPED_FILES_SAVE_TIMEOUT_S
						: MAPPED_FILES_TIMEOUT_S;
	seconds >>= files->stuck_threads;
	return seconds ? seconds : 1;
}

/* Waits until the thread has ended. Returns false if it hangs. With the lock. */
static bool wait_for_thread(struct mapped_files *files)
{
	struct timespec deadline;
	uint64_t seen;

	while (!files->thread_ended) {
		seen = files->read_count;
		clock_gettime(CLOCK_MONOTONIC, &deadline);
		deadline.tv_sec += stuck_timeout_s(files);
		while (!files->thread_ended && seen == files->read_count) {
			if (pthread_cond_clockwait(&files->file_read, &files->lock, CLOCK_MONOTONIC,
						   &deadline) == ETIMEDOUT)
				return files->thread_ended || seen != files->read_count;
		}
	}
	return true;
}

static void clear_queue(struct mapped_files *files)
{
	files->queue = NULL;
	files->queue_end = &files->queue;
}

/* Moves the files of a device to the end of the queue. */
static void defer_device(struct mapped_files *files, uint64_t device)
{
	struct file_entry *deferred = NULL, **deferred_end = &deferred, *entry;
	struct file_entry **at = &files->queue;

	while ((entry = *at)) {
		if (entry->device != device) {
			at = &entry->next;
			continue;
		}
		*at = entry->next;
		entry->next = NULL;
		*deferred_end = entry;
		deferred_end = &entry->next;
	}
	*at = deferred;
	files->queue_end = deferred ? deferred_end : at;
}

/*
 * Gives up the thread with the file in which it hangs, and starts another one for the queue.
 * Returns false if there is no other one. With the lock.
 */
static bool replace_thread(struct mapped_files *files)
{
	pthread_detach(files->thread);
	files->thread_running = false;
	files->stuck_threads++;
	if (!files->reading) {
		clear_queue(files);
		return false;
	}
	files->reading->stuck = true;
	defer_device(files, files->reading->device);
	files->reading = NULL;
	if (files->queue && files->stuck_threads < MAPPED_FILES_STUCK_MAX)
		files->thread_running = !pthread_create(&files->thread, NULL, read_thread, files);
	if (!files->thread_running)
		clear_queue(files);
	return files->thread_running;
}

/* Ends the thread once the queue is empty, or gives up the files that hang. */
static void stop_thread(struct mapped_files *files)
{
	if (!files->thread_running)
		return;
	pthread_mutex_lock(&files->lock);
	files->stop = true;
	pthread_cond_signal(&files->queue_changed);
	while (!wait_for_thread(files) && replace_thread(files))
		;
	pthread_mutex_unlock(&files->lock);
	if (files->thread_running)
		pthread_join(files->thread, NULL);
	files->thread_running = false;
}

void mapped_files_free(struct mapped_files *files)
{
	if (!files)
		return;
	mapped_files_abandon(files);
	/* A stuck thread still uses its file and the table. */
	if (files->stuck_threads)
		return;
	free(files->ids);
	hash_clear(&files->by_id);
	for (size_t i = 0; i < files->count; i++)
		free_entry(files->list[i]);
	free(files->list);
	hash_clear(&files->identities);
	pthread_cond_destroy(&files->queue_changed);
	pthread_cond_destroy(&files->file_read);
	pthread_mutex_destroy(&files->lock);
	free(files->root);
	free(files);
}

int mapped_files_save(struct mapped_files *files, const char *directory, struct error *error)
{
	int err = binary_store_prepare(directory, error);

	if (!err)
		files->save_directory = directory;
	return err;
}

static struct file_entry *add_entry(struct mapped_files *files)
{
	struct file_entry *entry = calloc(1, sizeof(*entry));

	if (!entry || files->count == FILES_MAX ||
	    array_reserve(&files->list, &files->capacity, files->count, 1,
			  sizeof(struct file_entry *))) {
		free(entry);
		return NULL;
	}
	entry->fd = -1;
	entry->file.index = (uint32_t)files->count;
	entry->file.build_id = "";
	entry->file.problem = "";
	entry->file.path = strdup("");
	if (!entry->file.path) {
		free(entry);
		return NULL;
	}
	files->list[files->count++] = entry;
	return entry;
}

/* The kernel's ids */

static bool is_id(const void *context, uint32_t index, const void *key)
{
	return ((const struct mapped_files *)context)->ids[index].id == *(const uint64_t *)key;
}

static uint32_t id_hash(uint64_t id)
{
	return hash_number(HASH_START, id);
}

/* Valid until add_id(). */
static struct id_entry *find_id(const struct mapped_files *files, uint64_t id)
{
	uint32_t index = hash_find(&files->by_id, id_hash(id), is_id, files, &id);

	return index == HASH_NONE ? NULL : &files->ids[index];
}

static int add_id(struct mapped_files *files, uint64_t id, struct file_entry *entry)
{
	uint32_t index = files->free_id ? files->free_id - 1 : (uint32_t)files->id_count;

	if (!files->free_id && (files->id_count == HASH_NONE ||
				array_reserve(&files->ids, &files->id_capacity, files->id_count, 1,
					      sizeof(*files->ids))))
		return -ENOMEM;
	if (hash_add(&files->by_id, id_hash(id), index))
		return -ENOMEM;
	if (files->free_id)
		files->free_id = files->ids[index].next_free;
	else
		files->id_count++;
	files->ids[index] = (struct id_entry){.id = id, .entry = entry};
	return 0;
}

/* Releases an id. Pending records may refer to it for a while. */
static void release_id(struct mapped_files *files, uint64_t id)
{
	struct id_entry *id_entry = find_id(files, id);

	files->source.release(id, files->source.arg);
	if (!id_entry || id_entry->retired)
		return;
	id_entry->retired = files->sweep + 1;
	files->retired_count++;
}

static void forget_retired_ids(struct mapped_files *files)
{
	for (size_t i = 0; i < files->id_count && files->retired_count; i++) {
		struct id_entry *id_entry = &files->ids[i];

		if (!id_entry->retired || id_entry->retired + SWEEPS_RETIRED >= files->sweep)
			continue;
		hash_remove(&files->by_id, id_hash(id_entry->id), (uint32_t)i);
		*id_entry = (struct id_entry){.next_free = files->free_id};
		files->free_id = (uint32_t)i + 1;
		files->retired_count--;
	}
}

void mapped_files_skip_symbols(struct mapped_files *files)
{
	files->skip_symbols = true;
}

bool mapped_files_have_symbols(const struct mapped_files *files)
{
	return !files->skip_symbols;
}

/* Records */

static uint32_t identity_hash(const struct file_entry *entry)
{
	uint32_t hash = hash_number(HASH_START, entry->device);

	hash = hash_number(hash, entry->inode);
	hash = hash_number(hash, entry->size);
	hash = hash_number(hash, (uint64_t)entry->generation << 1 | entry->headers_not_read);
	return hash_string(hash, entry->build_id ? entry->build_id : "");
}

static bool is_identical(const void *context, uint32_t index, const void *key)
{
	const struct file_entry *a = ((const struct mapped_files *)context)->list[index], *b = key;

	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->generation == b->generation && a->headers_not_read == b->headers_not_read &&
	       build_id_equal(a->build_id ? a->build_id : "", b->build_id ? b->build_id : "");
}

/* Sets the fields that identify a file. */
static int set_identity(struct file_entry *entry, const struct stackbeat_file *record)
{
	entry->device = makedev(record->device_major, record->device_minor);
	entry->inode = record->inode;
	entry->size = record->size;
	entry->generation = record->inode_generation;
	entry->headers_not_read = record->record.flags & STACKBEAT_FILE_HEADERS_NOT_READ;
	if (!record->build_id_size)
		return 0;
	entry->build_id = malloc(2 * (size_t)record->build_id_size + 1);
	if (!entry->build_id)
		return -ENOMEM;
	build_id_format(record->build_id, record->build_id_size, entry->build_id);
	return 0;
}

/* Sets the path and the identity of an entry; moves the build ID out of `key`. */
static int announce_file(struct mapped_files *files, struct file_entry *entry,
			 struct file_entry *key, const struct stackbeat_file *record)
{
	char *path = strdup(record->path);

	if (!path)
		return -ENOMEM;
	free(entry->file.path);
	entry->file.path = path;
	entry->device = key->device;
	entry->inode = key->inode;
	entry->size = key->size;
	entry->generation = key->generation;
	entry->headers_not_read = key->headers_not_read;
	entry->build_id = key->build_id;
	key->build_id = NULL;
	entry->file.build_id = entry->build_id ? entry->build_id : "";
	entry->announced = true;
	return hash_add(&files->identities, identity_hash(entry), entry->file.index);
}

/* Returns the entry with the same identity, which the kernel announced by another id, or NULL. */
static struct file_entry *find_identical(struct mapped_files *files, const struct file_entry *key)
{
	uint32_t index =
		hash_find(&files->identities, identity_hash(key), is_identical, files, key);

	return index == HASH_NONE ? NULL : files->list[index];
}

int mapped_files_add(struct mapped_files *files, const struct stackbeat_file *record)
{
	const struct id_entry *known = find_id(files, record->file);
	struct file_entry key = {0};
	struct file_entry *entry;
	int err = set_identity(&key, record);

	if (err)
		return err;
	/* A mapping record of it may have come first: then it has an entry already. */
	entry = known ? known->entry : find_identical(files, &key);
	if (!entry)
		entry = add_entry(files);
	if (!entry || (!known && add_id(files, record->file, entry)))
		err = -ENOMEM;
	else if (!entry->announced)
		err = announce_file(files, entry, &key, record);
	free(key.build_id);
	if (err)
		return err;
	entry->unmarked_sweeps = 0;
	if (entry->state == FILE_UNTOUCHED && (!entry->id || entry->id == record->file)) {
		entry->unlinked |= record->record.flags & STACKBEAT_FILE_UNLINKED;
		entry->id = record->file;
	} else {
		/* A file that was requested, or has an id already, needs no other one. */
		release_id(files, record->file);
	}
	return entry->requested_early ? mapped_file_request(files, &entry->file) : 0;
}

struct mapped_file *mapped_files_find_mapped(struct mapped_files *files, uint32_t pid,
					     uint64_t start, uint64_t end)
{
	struct file_entry key = {.headers_not_read = true, .announced = true}, *entry;
	char link[PATH_MAX], path[PATH_MAX];
	struct statx st;
	ssize_t length;
	char *copy;

	snprintf(link, sizeof(link), "%s/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64,
		 files->root, pid, start, end);
	length = readlink(link, path, sizeof(path) - 1);
	/* AT_STATX_DONT_SYNC: cached attributes must do, as the server of a network file system,
	 * or a FUSE process, could block the call. */
	if (length < 0 ||
	    statx(AT_FDCWD, link, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_SIZE, &st) ||
	    !S_ISREG(st.stx_mode))
		return NULL;
	path[length] = '\0';
	key.device = makedev(st.stx_dev_major, st.stx_dev_minor);
	key.inode = st.stx_ino;
	key.size = st.stx_size;
	entry = find_identical(files, &key);
	if (entry)
		return &entry->file;
	copy = strdup(path);
	entry = copy ? add_entry(files) : NULL;
	if (!entry) {
		free(copy);
		return NULL;
	}
	free(entry->file.path);
	entry->file.path = copy;
	entry->device = key.device;
	entry->inode = key.inode;
	entry->size = key.size;
	entry->headers_not_read = true;
	entry->announced = true;
	hash_add(&files->identities, identity_hash(entry), entry->file.index);
	return &entry->file;
}

struct mapped_file *mapped_files_get(struct mapped_files *files, uint64_t id)
{
	const struct id_entry *known = find_id(files, id);
	struct file_entry *entry = known ? known->entry : add_entry(files);

	if (!entry || (!known && add_id(files, id, entry)))
		return NULL;
	if (!known)
		entry->id = id;
	return &entry->file;
}

struct mapped_file *mapped_files_vdso(struct mapped_files *files)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct file_entry *vdso;
	char *path;

	if (files->vdso)
		return &files->vdso->file;
	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64)
		return NULL;
	path = strdup("[vdso]");
	vdso = path ? add_entry(files) : NULL;
	if (!vdso) {
		free(path);
		return NULL;
	}
	free(vdso->file.path);
	vdso->file.path = path;
	/* The section headers are at the end of the image. */
	vdso->image = header;
	vdso->image_size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	vdso->announced = true;
	files->vdso = vdso;
	return &vdso->file;
}

struct mapped_file *mapped_files_at(const struct mapped_files *files, uint32_t index)
{
	return &files->list[index]->file;
}

void mapped_file_note_mapping(struct mapped_files *files, struct mapped_file *file, uint32_t pid,
			      uint64_t start, uint64_t end)
{
	struct file_entry *entry = file_entry(file);

	(void)files;
	entry->map_files = (struct map_files_entry){pid, start, end};
	entry->unmarked_sweeps = 0;
}

/* Releasing */

void mapped_files_mark(struct mapped_files *files, uint32_t index)
{
	files->list[index]->unmarked_sweeps = 0;
}

static void release_file(struct mapped_files *files, struct file_entry *entry)
{
	if (entry->id)
		release_id(files, entry->id);
	entry->id = 0;
}

static void publish_result(struct file_entry *entry)
{
	entry->state = FILE_READ;
	entry->file.problem = entry->problem ? entry->problem : "";
	if (*entry->elf.build_id)
		entry->file.build_id = entry->elf.build_id;
}

void mapped_files_release_read(struct mapped_files *files)
{
	struct file_entry *done, *next;

	pthread_mutex_lock(&files->lock);
	done = files->done;
	files->done = NULL;
	pthread_mutex_unlock(&files->lock);
	for (; done; done = next) {
		next = done->next;
		publish_result(done);
		release_file(files, done);
	}
}

void mapped_files_sweep(struct mapped_files *files)
{
	files->sweep++;
	forget_retired_ids(files);
	for (size_t i = 0; i < files->count; i++) {
		struct file_entry *entry = files->list[i];

		if (entry->state == FILE_UNTOUCHED && entry->id &&
		    entry->unmarked_sweeps++ >= SWEEPS_UNMARKED)
			release_file(files, entry);
	}
}

void mapped_files_abandon(struct mapped_files *files)
{
	if (!files || files->finished)
		return;
	pthread_mutex_lock(&files->lock);
	clear_queue(files);
	pthread_mutex_unlock(&files->lock);
	stop_thread(files);
	files->finished = true;
}

void mapped_files_finish(struct mapped_files *files)
{
	if (files->finished)
		return;
	stop_thread(files);
	mapped_files_release_read(files);
	for (size_t i = 0; i < files->count; i++) {
		if (files->list[i]->state == FILE_REQUESTED)
			files->list[i]->file.problem = "reading it has hung";
		release_file(files, files->list[i]);
	}
	files->finished = true;
}

void mapped_files_counts(const struct mapped_files *files, struct mapped_files_counts *counts)
{
	*counts = files->counts;
}

const char *mapped_files_save_problem(const struct mapped_files *files)
{
	return files->save_problem.text;
}

bool mapped_file_vaddr(const struct mapped_file *file, uint64_t offset, uint64_t *vaddr)
{
	const struct file_entry *entry = (const struct file_entry *)file;

	return entry->state != FILE_REQUESTED && elf_vaddr(&entry->elf, offset, vaddr);
}

bool mapped_file_lookup(const struct mapped_file *file, uint64_t vaddr, struct symbol *symbol)
{
	const struct file_entry *entry = (const struct file_entry *)file;

	return entry->state != FILE_REQUESTED && elf_lookup(&entry->elf, vaddr, symbol);
}
