// SPDX-License-Identifier: GPL-2.0
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/atomic_file.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/sparse_copy.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/service.h"
#include "store/merge.h"
#include "store/parts.h"

#define DIRECTORY_MODE 0750
/* A crash has left a temporary file (atomic_file.h) that is older. */
#define TEMPORARY_AGE_S 3600
/*
 * Held while sources are replaced by a merged window, and shared while windows are opened. Readers
 * can't write to it, and so they can't lock out other readers (fcntl(2), F_OFD_SETLK).
 */
#define LOCK_NAME ".lock"
/* Held by the process that writes. No other user can open it: who can open a file can lock it. */
#define WRITER_LOCK_NAME ".writer"
#define WRITER_LOCK_MODE 0600
/* A reader opens windows within milliseconds. A merge that must wait longer is left for later. */
#define LOCK_TRIES 20u
#define LOCK_PAUSE_MS 10
/* On a full disk, at most this many times the size of a new window is removed. */
#define ROOM_FACTOR 4u
/* More than one, so that windows of a time without a writer go, too. */
#define REMOVED_OLD_MAX 2u
/* Windows of this part of the limit of age stay, whatever the clock says. */
#define KEPT_PART 4
/* A longer pause, as a part of that limit, counts as long as this: it may be a step of the clock.
 */
#define PAUSE_PART 14
/* A window that begins later than the newest one by this was taken by a clock that was ahead. */
#define FUTURE_US (3600 * US_PER_SECOND)
/* The file system may use more than the size of a file. */
#define BLOCK UINT64_C(4096)
/* Other users may write to the directory: neither links nor pipes are followed. */
#define OPEN_FLAGS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
#define PARTS_NAME_SIZE (WINDOW_NAME_SIZE + sizeof(PARTS_SUFFIX))

static const uint32_t merged_seconds[] = {600, 3600};

#define LEVELS (sizeof(merged_seconds) / sizeof(merged_seconds[0]))

static int compare_windows(const void *left, const void *right)
{
	const struct window_name *a = &((const struct store_window *)left)->name;
	const struct window_name *b = &((const struct store_window *)right)->name;

	if (a->start_us != b->start_us)
		return a->start_us < b->start_us ? -1 : 1;
	return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

/* The index of a window, or where it is to be inserted. */
static size_t find_window(const struct store *store, const struct window_name *name, bool *found)
{
	const struct store_window wanted = {.name = *name};
	size_t low = 0, high = store->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_windows(&store->windows[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*found = low < store->count && !compare_windows(&store->windows[low], &wanted);
	return low;
}

static int reserve_window(struct store *store)
{
	return array_reserve(&store->windows, &store->capacity, store->count, 1,
			     sizeof(*store->windows));
}

/* Notes a window that was written, for which there is room. */
static void note_window(struct store *store, const struct window_name *name, uint64_t size)
{
	bool found;
	size_t i = find_window(store, name, &found);

	if (found) {
		store->bytes -= store->windows[i].size;
	} else {
		memmove(store->windows + i + 1, store->windows + i,
			(store->count - i) * sizeof(*store->windows));
		store->count++;
	}
	store->windows[i] = (struct store_window){*name, size};
	store->bytes += size;
}

static bool is_merged(const struct window_name *name)
{
	for (size_t level = 0; level < LEVELS; level++) {
		if (name->seconds == merged_seconds[level])
			return window_slot(name->start_us, name->seconds) == name->start_us;
	}
	return false;
}

static void parts_name(const struct window_name *name, char text[PARTS_NAME_SIZE])
{
	window_name_format(name, text);
	strcat(text, PARTS_SUFFIX);
}

static void remove_parts(const struct store *store, const struct window_name *name)
{
	char text[PARTS_NAME_SIZE];

	if (!is_merged(name))
		return;
	parts_name(name, text);
	unlinkat(store->directory, text, 0);
}

static int remove_window(struct store *store, size_t i)
{
	char text[WINDOW_NAME_SIZE];

	window_name_format(&store->windows[i].name, text);
	if (unlinkat(store->directory, text, 0) && errno != ENOENT)
		return -errno;
	remove_parts(store, &store->windows[i].name);
	store->bytes -= store->windows[i].size;
	store->count--;
	memmove(store->windows + i, store->windows + i + 1,
		(store->count - i) * sizeof(*store->windows));
	return 0;
}

static void window_path(const struct store *store, const struct window_name *name,
			char path[PATH_MAX])
{
	char text[WINDOW_NAME_SIZE];

	window_name_format(name, text);
	snprintf(path, PATH_MAX, "%s/%s", store->path, text);
}

static struct profile *read_window(const struct store *store, const struct window_name *name)
{
	char path[PATH_MAX];

	window_path(store, name, path);
	return pprof_read(path, NULL);
}

/* Windows that can't be read */

static bool is_damaged(const struct store *store, const struct window_name *name)
{
	for (size_t i = 0; i < store->damaged.count; i++) {
		const struct window_name *damaged = &store->damaged.names[i];

		if (damaged->start_us == name->start_us && damaged->seconds == name->seconds)
			return true;
	}
	return false;
}

/* Those for which there is no room are read again. */
static void note_damaged(struct store *store, const struct window_name *name)
{
	if (store->damaged.count < STORE_DAMAGED_MAX)
		store->damaged.names[store->damaged.count++] = *name;
}

/* The sources of merged windows */

static bool is_in_slot(const struct window_name *name, const struct window_name *slot)
{
	return name->seconds < slot->seconds &&
	       window_slot(name->start_us, slot->seconds) == slot->start_us;
}

/* Windows are in the order of their starts: only those that begin in the slot are looked at. */
static bool has_sources(const struct store *store, const struct window_name *slot)
{
	const int64_t end_us = slot->start_us + slot->seconds * US_PER_SECOND;
	bool found;

	for (size_t i = find_window(store, slot, &found);
	     i < store->count && store->windows[i].name.start_us < end_us; i++) {
		if (is_in_slot(&store->windows[i].name, slot) &&
		    !is_damaged(store, &store->windows[i].name))
			return true;
	}
	return false;
}

/* Those that were removed make room, and slots without windows to be merged. */
static void note_all_damaged(struct store *store, const struct store_damaged *damaged)
{
	bool found;

	for (size_t i = 0; i < damaged->count; i++) {
		find_window(store, &damaged->names[i], &found);
		if (found || has_sources(store, &damaged->names[i]))
			note_damaged(store, &damaged->names[i]);
	}
}

/*
 * A process has ended in the merge of a slot. If it had written the merged window, its sources are
 * removed by now.
 */
static void note_ended_merge(struct store *store, const struct window_name *slot)
{
	if (slot->seconds && !is_damaged(store, slot) && has_sources(store, slot))
		note_damaged(store, slot);
}

/* Removes the sources of a merged window that a crash has left. */
static int remove_sources(struct store *store, const struct window_name *merged)
{
	struct profile *profile;
	int err = 0;

	if (is_damaged(store, merged) || !has_sources(store, merged))
		return 0;
	profile = read_window(store, merged);
	if (!profile) {
		note_damaged(store, merged);
		return 0;
	}
	for (size_t i = store->count; i-- > 0 && !err;) {
		if (is_in_slot(&store->windows[i].name, merged) &&
		    merge_contains(profile, &store->windows[i].name))
			err = remove_window(store, i);
	}
	profile_free(profile);
	return err;
}

/* Windows move in the array when others are removed. */
static int remove_all_sources(struct store *store)
{
	struct window_name *merged = calloc(store->count + 1, sizeof(*merged));
	size_t count = 0;
	int err = 0;

	if (!merged)
		return -ENOMEM;
	for (size_t i = 0; i < store->count; i++) {
		if (is_merged(&store->windows[i].name))
			merged[count++] = store->windows[i].name;
	}
	for (size_t i = 0; i < count && !err; i++) {
		bool found;

		find_window(store, &merged[i], &found);
		/* An hour may have removed it. */
		if (found)
			err = remove_sources(store, &merged[i]);
	}
	free(merged);
	return err;
}

/* Opening */

/* By its fd: the path may lead elsewhere by now. */
static int give_directory(int fd, uid_t owner)
{
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	/* Another directory was put in its place. */
	if (status.st_uid != geteuid())
		return -EPERM;
	return fchown(fd, owner, owner) ? -errno : 0;
}

int store_create(const char *path, uid_t owner, struct error *error)
{
	int fd, err;

	if (mkdir(path, DIRECTORY_MODE))
		return errno == EEXIST ? 0 : error_errno(error, errno, "%s", path);
	if (owner == (uid_t)-1)
		return 0;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	err = fd < 0 ? -errno : give_directory(fd, owner);
	if (fd >= 0)
		close(fd);
	return err ? error_errno(error, -err, "%s", path) : 0;
}

static int note_file(struct store *store, const char *text)
{
	char parts[PARTS_NAME_SIZE];
	struct window_name name;
	struct stat status;
	uint64_t size;

	if (!window_name_parse(text, &name) ||
	    fstatat(store->directory, text, &status, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(status.st_mode))
		return 0;
	if (reserve_window(store))
		return -ENOMEM;
	size = (uint64_t)status.st_size;
	strcat(strcpy(parts, text), PARTS_SUFFIX);
	if (is_merged(&name) && !fstatat(store->directory, parts, &status, AT_SYMLINK_NOFOLLOW) &&
	    S_ISREG(status.st_mode))
		size += (uint64_t)status.st_size;
	store->windows[store->count++] = (struct store_window){name, size};
	store->bytes += size;
	return 0;
}

/* Removes a file that was left without its name. `push` may write to the directory, too. */
static void store_check_temporary(const struct store *store, const char *text)
{
	struct stat status;

	if (!fstatat(store->directory, text, &status, AT_SYMLINK_NOFOLLOW) &&
	    S_ISREG(status.st_mode) &&
	    time_ns(status.st_mtim) < now_ns(CLOCK_REALTIME) - TEMPORARY_AGE_S * NS_PER_SECOND)
		unlinkat(store->directory, text, 0);
}

/* Removes parts whose window was removed before a crash. Returns false if it is no file of parts.
 */
static bool check_parts(const struct store *store, const char *text)
{
	size_t length = strlen(text) - MIN(strlen(text), strlen(PARTS_SUFFIX));
	char window[WINDOW_NAME_SIZE];
	struct window_name name;
	struct stat status;

	if (strcmp(text + length, PARTS_SUFFIX) || length >= sizeof(window))
		return false;
	memcpy(window, text, length);
	window[length] = '\0';
	if (!window_name_parse(window, &name))
		return false;
	if (fstatat(store->directory, window, &status, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
		unlinkat(store->directory, text, 0);
	return true;
}

static int read_directory(struct store *store, bool writes)
{
	int fd = openat(store->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!directory) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && (entry = readdir(directory))) {
		if (writes && atomic_file_is_temporary(entry->d_name))
			store_check_temporary(store, entry->d_name);
		else if (!writes || !check_parts(store, entry->d_name))
			err = note_file(store, entry->d_name);
	}
	closedir(directory);
	if (store->count)
		qsort(store->windows, store->count, sizeof(*store->windows), compare_windows);
	return err;
}

/* Returns 0 or a negative errno value. It is released with the fd. */
static int lock_to_read(const struct store *store)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

	return TEMP_FAILURE_RETRY(fcntl(store->lock, F_OFD_SETLKW, &lock)) ? -errno : 0;
}

/* Returns 0, -EAGAIN if others read for long, or another negative errno value. */
static int lock_to_write(const struct store *store)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	for (unsigned int i = 0; i < LOCK_TRIES; i++) {
		if (!fcntl(store->lock, F_OFD_SETLK, &lock))
			return 0;
		if (errno != EAGAIN && errno != EACCES)
			return -errno;
		poll(NULL, 0, LOCK_PAUSE_MS);
	}
	return -EAGAIN;
}

static void store_unlock(const struct store *store)
{
	struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

	fcntl(store->lock, F_OFD_SETLK, &lock);
}

static int store_open_directory(struct store *store, const char *path, bool writes,
				struct error *error)
{
	int err;

	*store = (struct store){.directory = -1, .lock = -1, .path = strdup(path)};
	if (!store->path)
		return error_errno(error, ENOMEM, "%s", path);
	store->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->directory < 0)
		return error_errno(error, errno, "%s", path);
	store->lock = openat(store->directory, LOCK_NAME,
			     OPEN_FLAGS | (writes ? O_RDWR | O_CREAT : O_RDONLY), 0640);
	if (store->lock < 0 && (writes || errno != ENOENT))
		return error_errno(error, errno, "%s/" LOCK_NAME, path);
	err = !writes && store->lock >= 0 ? lock_to_read(store) : 0;
	if (err)
		return error_errno(error, -err, "%s/" LOCK_NAME, path);
	err = read_directory(store, writes);
	return err ? error_errno(error, -err, "%s", path) : 0;
}

int store_open(struct store *store, const char *path, const struct store_limits *limits,
	       struct error *error)
{
	return store_open_knowing(store, path, limits, &(struct store_damaged){0}, error);
}

int store_open_knowing(struct store *store, const char *path, const struct store_limits *limits,
		       const struct store_damaged *damaged, struct error *error)
{
	int err = store_open_directory(store, path, true, error);

	if (err)
		return err;
	store->limits = *limits;
	note_all_damaged(store, damaged);
	err = remove_all_sources(store);
	note_ended_merge(store, &damaged->merging);
	return err ? error_errno(error, -err, "%s", path) : 0;
}

int store_list(struct store *store, const char *path, struct error *error)
{
	int err = store_open_directory(store, path, false, error);

	if (store->lock >= 0)
		close(store->lock);
	store->lock = -1;
	return err;
}

void store_close(struct store *store)
{
	if (store->directory >= 0)
		close(store->directory);
	if (store->lock >= 0)
		close(store->lock);
	free(store->windows);
	free(store->path);
	*store = (struct store){.directory = -1, .lock = -1};
}

/* Others may have made it where they may write, or given it more rights. */
static int make_private(int fd)
{
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	if (!S_ISREG(status.st_mode) || status.st_uid != geteuid())
		return -EPERM;
	if ((status.st_mode & ACCESSPERMS) == WRITER_LOCK_MODE)
		return 0;
	return fchmod(fd, WRITER_LOCK_MODE) ? -errno : 0;
}

/* Returns an fd or a negative errno value. */
static int take_writer_lock(int directory)
{
	int fd = openat(directory, WRITER_LOCK_NAME, OPEN_FLAGS | O_RDWR | O_CREAT,
			WRITER_LOCK_MODE),
	    err;

	if (fd < 0)
		return -errno;
	err = make_private(fd);
	if (!err && flock(fd, LOCK_EX | LOCK_NB))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

int store_lock(const char *path, struct error *error)
{
	int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), lock;

	if (directory < 0)
		return error_errno(error, errno, "%s", path);
	lock = take_writer_lock(directory);
	close(directory);
	if (lock == -EWOULDBLOCK)
		return error_set(error, EBUSY, "%s: another process writes to this store", path);
	return lock < 0 ? error_errno(error, -lock, "%s/" WRITER_LOCK_NAME, path) : lock;
}

/* Writing */

/* Removes what is no regular file: a link would be followed, and a pipe has no end. */
static void remove_other(const struct store *store, const char *text)
{
	struct stat status;

	if (!fstatat(store->directory, text, &status, AT_SYMLINK_NOFOLLOW) &&
	    !S_ISREG(status.st_mode))
		unlinkat(store->directory, text, 0);
}

/* What becomes a window: a profile, or a file of it. */
struct content {
	const struct profile *profile; /* NULL: `file` */
	int file;
	uint64_t bytes; /* of the file; of a profile, its memory, which is more than is written */
	int64_t start_ns;
};

static struct content content_of(const struct profile *profile)
{
	return (struct content){
		.profile = profile,
		.file = -1,
		.bytes = profile_bytes(profile),
		.start_ns = profile->time_ns,
	};
}

static int write_copy(const char *path, const struct content *content, uint64_t *size,
		      struct error *error)
{
	struct atomic_file file;
	int err = atomic_file_create(&file, path, error);

	if (err)
		return err;
	err = sparse_copy(file.fd, content->file, (off_t)content->bytes, NULL);
	if (err) {
		error_errno(error, -err, "%s", path);
		atomic_file_discard(&file);
		return err;
	}
	*size = content->bytes;
	return atomic_file_commit(&file, error);
}

/* Writes a window, or replaces it. Returns 0 or a negative errno value. */
static int store_write_window(struct store *store, const struct window_name *name,
			      const struct content *content, struct error *error)
{
	char path[PATH_MAX], text[WINDOW_NAME_SIZE];
	uint64_t size;
	int err = reserve_window(store);

	if (err)
		return error_errno(error, -err, "%s", store->path);
	window_name_format(name, text);
	remove_other(store, text);
	window_path(store, name, path);
	/* A new window is compressed again when it is merged. */
	if (!content->profile)
		err = write_copy(path, content, &size, error);
	else if (is_merged(name))
		err = pprof_write(content->profile, path, &size, error);
	else
		err = pprof_write_fast(content->profile, path, &size, error);
	if (err)
		return err;
	note_window(store, name, size);
	return fsync(store->directory) ? error_errno(error, errno, "%s", store->path) : 0;
}

static bool store_is_full(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

static bool has_start(const struct store *store, const struct window_name *name, int64_t start_ns)
{
	struct profile *profile = read_window(store, name);
	const bool has = profile && profile->time_ns == start_ns;

	profile_free(profile);
	return has;
}

/*
 * A name must be new: no merged window and none of its sources has it. After the clock was set
 * back, a window may begin when another one did. But `again`, the window from `start_ns` on gives
 * its name, if there is one.
 */
static void choose_name(const struct store *store, struct window_name *name, bool again,
			int64_t start_ns)
{
	struct profile *merged[LEVELS] = {0};
	bool is_used = true, found;

	for (size_t level = 0; level < LEVELS; level++) {
		const struct window_name slot = {
			window_slot(name->start_us, merged_seconds[level]),
			merged_seconds[level],
		};

		find_window(store, &slot, &found);
		if (found)
			merged[level] = read_window(store, &slot);
	}
	while (is_used) {
		find_window(store, name, &is_used);
		if (again && is_used && !is_merged(name) && has_start(store, name, start_ns))
			break;
		is_used |= is_merged(name);
		for (size_t level = 0; level < LEVELS; level++)
			is_used |= merged[level] && merge_contains(merged[level], name);
		name->start_us += is_used;
	}
	for (size_t level = 0; level < LEVELS; level++)
		profile_free(merged[level]);
}

static bool store_is_last(const struct store *store, const struct window_name *name)
{
	return name->start_us == store->last.start_us && name->seconds == store->last.seconds;
}

/*
 * Returns the window that makes room for others: the oldest one. But after the clock was ahead, or
 * if it is behind now, these are windows of the future, as seen from `now_us`; the newest one by
 * name may be the oldest one by name, and is kept. There are two windows at least.
 */
static size_t least_window(const struct store *store, int64_t now_us)
{
	size_t i = 0;

	while (i < store->count && store->windows[i].name.start_us <= now_us + FUTURE_US)
		i++;
	if (i == store->count)
		i = 0;
	if (!store_is_last(store, &store->windows[i].name))
		return i;
	return i + 1 < store->count ? i + 1 : i - 1;
}

static int store_add_window(struct store *store, const struct content *content, uint32_t seconds,
			    bool again, struct error *error)
{
	struct window_name name = {.start_us = content->start_ns / 1000, .seconds = seconds};
	uint64_t freed = 0, wanted = BLOCK + content->bytes;
	char text[WINDOW_NAME_SIZE];
	int err;

	if (!seconds || seconds > WINDOW_SECONDS_MAX || !window_name_format(&name, text))
		return error_set(error, EINVAL, "%s: the start of the window is not valid",
				 store->path);
	choose_name(store, &name, again, content->start_ns);
	err = store_write_window(store, &name, content, error);
	while (store_is_full(err) && store->count && freed < ROOM_FACTOR * wanted) {
		const size_t i = store->count > 1 ? least_window(store, name.start_us) : 0;

		freed += store->windows[i].size + BLOCK;
		if (remove_window(store, i))
			break;
		store->counts.removed_full++;
		err = store_write_window(store, &name, content, error);
	}
	store->counts.written += !err;
	store->counts.dropped += err != 0;
	if (!err)
		store->last = name;
	return err;
}

int store_add(struct store *store, const struct profile *profile, uint32_t seconds,
	      struct error *error)
{
	const struct content content = content_of(profile);

	return store_add_window(store, &content, seconds, false, error);
}

int store_add_again(struct store *store, const struct profile *profile, uint32_t seconds,
		    struct error *error)
{
	const struct content content = content_of(profile);

	return store_add_window(store, &content, seconds, true, error);
}

int store_add_file(struct store *store, int file, int64_t start_ns, uint32_t seconds, bool again,
		   struct error *error)
{
	struct content content = {.file = file, .start_ns = start_ns};
	struct stat status;

	if (fstat(file, &status))
		return error_errno(error, errno, "can't read a window");
	content.bytes = (uint64_t)status.st_size;
	return store_add_window(store, &content, seconds, again, error);
}

/* Maintenance */

/* The time from the start of a window until now, as far as windows say so. */
static int64_t time_since_us(const struct store *store, size_t i, int64_t now_us)
{
	const int64_t pause_us = store->limits.age_s * US_PER_SECOND / PAUSE_PART;
	int64_t sum = 0;

	for (; i < store->count && store->windows[i].name.start_us < now_us; i++) {
		int64_t next = i + 1 < store->count ? store->windows[i + 1].name.start_us : now_us;

		sum += MIN(MIN(next, now_us) - store->windows[i].name.start_us, pause_us);
	}
	return sum;
}

static bool is_old(const struct store *store, size_t i, int64_t now_us)
{
	const int64_t age_us = store->limits.age_s * US_PER_SECOND;
	const struct window_name *name = &store->windows[i].name;

	return window_end(name) < now_us - age_us && !store_is_last(store, name) &&
	       time_since_us(store, i, now_us) >= age_us / KEPT_PART;
}

static int keep_limits(struct store *store, int64_t now_us)
{
	int err = 0;

	while (!err && store->count && store->counts.removed_old < REMOVED_OLD_MAX &&
	       is_old(store, 0, now_us)) {
		err = remove_window(store, 0);
		store->counts.removed_old += !err;
	}
	/* The newest window stays. */
	while (!err && store->count > 1 && store->bytes > store->limits.bytes) {
		err = remove_window(store, least_window(store, now_us));
		store->counts.removed_size += !err;
	}
	return err;
}

void store_leave_last(struct store *store)
{
	store->leaves_last = true;
}

void store_note_merges(struct store *store, store_note_fn *note, void *arg)
{
	store->note = note;
	store->note_arg = arg;
}

/* Returns whether a window may become a part of the merged one of a slot. */
static bool may_merge(const struct store *store, const struct window_name *name,
		      const struct window_name *slot)
{
	return is_in_slot(name, slot) && !is_damaged(store, name) &&
	       !(store->leaves_last && store_is_last(store, name));
}

/* Adds the readable windows of a slot to a merge. Returns 0 or -ENOMEM. */
static int store_gather(struct store *store, struct merge *merge, const struct window_name *slot)
{
	int err = 0;

	for (size_t i = 0; i < store->count && err != -ENOMEM; i++) {
		const struct window_name *name = &store->windows[i].name;
		struct profile *profile;

		if (!may_merge(store, name, slot))
			continue;
		profile = read_window(store, name);
		/* One with values of other types is left alone, too. */
		err = profile ? merge_add(merge, profile, name) : -EBADMSG;
		profile_free(profile);
		if (err && err != -ENOMEM) {
			store->counts.unreadable++;
			note_damaged(store, name);
		}
	}
	return err == -ENOMEM ? err : 0;
}

/* Without them, a query reads the window. */
static void write_window_parts(struct store *store, const struct window_name *name,
			       const struct profile *profile)
{
	char path[PATH_MAX], text[PARTS_NAME_SIZE];
	uint64_t size;
	bool found;
	size_t i = find_window(store, name, &found);

	if (!found)
		return;
	parts_name(name, text);
	remove_other(store, text);
	window_path(store, name, path);
	if (parts_write(profile, path, &size, NULL)) {
		remove_parts(store, name);
		return;
	}
	store->windows[i].size += size;
	store->bytes += size;
}

/* Readers see the sources, or the merged window. */
static int replace_sources(struct store *store, const struct window_name *slot,
			   const struct merge *merge, struct error *error)
{
	const struct content content = content_of(merge->profile);
	bool found;
	int err;

	err = lock_to_write(store);
	if (err)
		return error_errno(error, -err, "%s/" LOCK_NAME, store->path);
	err = store_write_window(store, slot, &content, error);
	for (size_t i = 0; i < merge->count && !err; i++) {
		size_t at = find_window(store, &merge->sources[i], &found);

		err = found ? remove_window(store, at) : 0;
		if (err)
			error_errno(error, -err, "%s: can't remove a merged window", store->path);
		store->counts.merged += !err;
	}
	store_unlock(store);
	if (!err)
		write_window_parts(store, slot, merge->profile);
	return err;
}

/*
 * Merges the windows of a slot, and the merged window that is there. Returns 1 if it has merged
 * some, 0, or a negative errno value.
 */
static int merge_slot(struct store *store, const struct window_name *slot, struct error *error)
{
	struct profile *existing;
	struct merge merge;
	bool found;
	int err = merge_init(&merge);

	store->damaged.merging = *slot;
	if (store->note)
		store->note(store, store->note_arg);
	find_window(store, slot, &found);
	if (!err && found) {
		existing = read_window(store, slot);
		/* A damaged one is not replaced. */
		err = existing ? merge_add(&merge, existing, NULL) : -EBADMSG;
		profile_free(existing);
		if (err && err != -ENOMEM)
			note_damaged(store, slot);
	}
	if (!err)
		err = store_gather(store, &merge, slot);
	if (!err && merge.count)
		err = merge_finish(&merge);
	if (err == -ENOMEM)
		error_errno(error, ENOMEM, "%s: can't merge windows", store->path);
	else if (err)
		err = 0;
	else if (merge.count)
		err = replace_sources(store, slot, &merge, error) ?: 1;
	if (err != -ENOMEM)
		store->damaged.merging.seconds = 0;
	merge_clear(&merge);
	return err;
}

int store_maintain(struct store *store, int64_t now_us, struct error *error)
{
	int err = keep_limits(store, now_us);

	if (err)
		return error_errno(error, -err, "%s", store->path);
	/* The longest first: what is due for an hour need not be merged to 10 minutes before. */
	for (size_t level = LEVELS; level-- > 0;) {
		int64_t before = now_us - store->limits.merge_age_s[level] * US_PER_SECOND;

		for (size_t i = 0; i < store->count; i++) {
			const struct window_name *name = &store->windows[i].name;
			const struct window_name slot = {
				window_slot(name->start_us, merged_seconds[level]),
				merged_seconds[level],
			};

			if (name->seconds >= slot.seconds || window_end(&slot) > before ||
			    is_damaged(store, name) || is_damaged(store, &slot))
				continue;
			err = merge_slot(store, &slot, error);
			if (err)
				return store_is_full(err) || err == -EAGAIN ? 0 : err;
			/* None of them is readable: on to the next slot. */
			while (i + 1 < store->count &&
			       is_in_slot(&store->windows[i + 1].name, &slot))
				i++;
		}
	}
	return 0;
}

/* Reading */

/* A window that is being read. */
struct open_window {
	struct window_name name;
	int fd; /* -1: it was removed */
	bool skipped; /* a merged window contains it */
};

/* Opens the windows of a time. They can be read then, even if they are merged or removed. */
static int open_windows(const struct store *store, int64_t from_us, int64_t until_us,
			struct open_window **windows, size_t *count)
{
	char text[WINDOW_NAME_SIZE];

	*count = 0;
	*windows = calloc(store->count + 1, sizeof(**windows));
	if (!*windows)
		return -ENOMEM;
	for (size_t i = 0; i < store->count; i++) {
		const struct window_name *name = &store->windows[i].name;

		if (name->start_us >= until_us || window_end(name) <= from_us)
			continue;
		window_name_format(name, text);
		(*windows)[*count].name = *name;
		(*windows)[*count].fd = openat(store->directory, text, O_RDONLY | OPEN_FLAGS);
		++*count;
	}
	return 0;
}

static struct profile *read_open_window(const struct open_window *window)
{
	char text[WINDOW_NAME_SIZE];
	struct profile *profile = NULL;
	struct stat status;
	void *bytes;

	if (window->fd < 0 || fstat(window->fd, &status) || !S_ISREG(status.st_mode) ||
	    !status.st_size)
		return NULL;
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, window->fd, 0);
	if (bytes == MAP_FAILED)
		return NULL;
	window_name_format(&window->name, text);
	profile = pprof_decode(bytes, (size_t)status.st_size, text, NULL);
	munmap(bytes, (size_t)status.st_size);
	return profile;
}

/* A crash has left the sources of a merged window. They are behind it, as they begin later. */
static void skip_sources(const struct profile *merged, struct open_window *windows, size_t first,
			 size_t count)
{
	if (!is_merged(&windows[first].name))
		return;
	for (size_t i = first + 1; i < count; i++) {
		if (is_in_slot(&windows[i].name, &windows[first].name))
			windows[i].skipped |= merge_contains(merged, &windows[i].name);
	}
}

/* Returns an fd with the parts of a window, or -1. They may belong to another version of it. */
static int open_window_parts(const struct store *store, const struct open_window *windows, size_t i,
			     size_t count)
{
	char text[PARTS_NAME_SIZE];

	if (windows[i].fd < 0 || !is_merged(&windows[i].name))
		return -1;
	/* Only the whole window lists its sources. */
	if (i + 1 < count && is_in_slot(&windows[i + 1].name, &windows[i].name))
		return -1;
	parts_name(&windows[i].name, text);
	return openat(store->directory, text, O_RDONLY | OPEN_FLAGS);
}

/*
 * What becomes of the windows: `add` gets them with `arg`, or without it, they are added to
 * `services`, which `each` gets after each window.
 */
struct reading {
	const char *service; /* NULL: all */
	struct services *services;
	store_sums_fn *each;
	store_add_fn *add;
	void *arg;
};

/* Reads the parts of a window. Returns -EBADMSG if the window is to be read. */
static int store_add_parts(const struct reading *reading, int parts,
			   const struct open_window *window)
{
	struct profile *profile;
	int err = -EBADMSG;

	if (parts < 0)
		return -EBADMSG;
	if (!reading->add)
		return parts_add_services(parts, window->fd, reading->services);
	profile = reading->service ? parts_read(parts, window->fd, reading->service) : NULL;
	if (profile)
		err = reading->add(profile, &window->name, reading->arg);
	profile_free(profile);
	return err;
}

/* The time of a window. */
struct store_span {
	int64_t start_us, end_us;
};

static void correct_span(struct store_span *span, const struct profile *profile)
{
	const int64_t start_us = profile->time_ns / 1000;
	const int64_t duration_us = profile->duration_ns / 1000;

	if (start_us > 0 && duration_us > 0)
		*span = (struct store_span){start_us, start_us + duration_us};
}

/* Returns -EBADMSG if it can't be read. */
static int add_window_of(const struct reading *reading, struct open_window *windows, size_t i,
			 size_t count, struct store_span *span)
{
	struct profile *profile = read_open_window(&windows[i]);
	int err;

	if (!profile)
		return -EBADMSG;
	skip_sources(profile, windows, i, count);
	if (!is_merged(&windows[i].name))
		correct_span(span, profile);
	err = !reading->add ? services_add(reading->services, profile)
			    : reading->add(profile, &windows[i].name, reading->arg);
	profile_free(profile);
	return err;
}

static int read_windows(const struct store *store, struct open_window *windows, size_t count,
			const struct reading *reading, struct store_query *result)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		const struct window_name *name = &windows[i].name;
		struct store_span span = {name->start_us, window_end(name)};
		int parts;

		if (windows[i].skipped)
			continue;
		parts = open_window_parts(store, windows, i, count);
		err = store_add_parts(reading, parts, &windows[i]);
		if (parts >= 0)
			close(parts);
		if (err == -EBADMSG)
			err = add_window_of(reading, windows, i, count, &span);
		if (err == -EBADMSG) {
			result->unreadable++;
			err = 0;
			continue;
		}
		if (!err && reading->each) {
			err = reading->each(reading->services, span.start_us, span.end_us,
					    reading->arg);
			services_clear(reading->services);
		}
		if (!result->windows++)
			result->from_us = name->start_us;
		result->until_us = MAX(result->until_us, window_end(name));
	}
	return err;
}

static int query_store(const char *path, int64_t from_us, int64_t until_us,
		       const struct reading *reading, struct store_query *result,
		       struct error *error)
{
	struct open_window *windows = NULL;
	struct store store;
	size_t count = 0;
	int err;

	*result = (struct store_query){0};
	err = store_open_directory(&store, path, false, error);
	if (!err) {
		err = open_windows(&store, from_us, until_us, &windows, &count);
		if (err)
			error_errno(error, -err, "%s", path);
	}
	/* Windows may be merged from now on. */
	if (store.lock >= 0)
		close(store.lock);
	store.lock = -1;
	if (!err) {
		err = read_windows(&store, windows, count, reading, result);
		if (err)
			error_errno(error, -err, "%s: can't merge windows", path);
	}
	for (size_t i = 0; i < count; i++) {
		if (windows[i].fd >= 0)
			close(windows[i].fd);
	}
	free(windows);
	store_close(&store);
	return err;
}

int store_query(const char *path, int64_t from_us, int64_t until_us, const char *service,
		store_add_fn *add, void *arg, struct store_query *result, struct error *error)
{
	const struct reading reading = {.service = service, .add = add, .arg = arg};

	return query_store(path, from_us, until_us, &reading, result, error);
}

int store_query_services(const char *path, int64_t from_us, int64_t until_us,
			 struct services *services, struct store_query *result, struct error *error)
{
	const struct reading reading = {.services = services};

	return query_store(path, from_us, until_us, &reading, result, error);
}

int store_query_sums(const char *path, int64_t from_us, int64_t until_us, store_sums_fn *each,
		     void *arg, struct store_query *result, struct error *error)
{
	struct services services = {0};
	const struct reading reading = {.services = &services, .each = each, .arg = arg};
	int err = query_store(path, from_us, until_us, &reading, result, error);

	services_clear(&services);
	return err;
}
