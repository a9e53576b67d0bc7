// SPDX-License-Identifier: GPL-2.0
#include "runtime/perf_map_watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/thread_state.h"
#include "runtime/perf_map.h"

#define NONE UINT32_MAX

struct watched_map {
	uint32_t pid, ns_pid;
	uint64_t start_time;
	uint32_t id; /* 0: the entry is unused */
	int fd; /* -1: none */
	uint32_t user; /* uid of the process, if `fd` was opened; else UINT32_MAX */
	uint32_t directory; /* index of `directories`, or NONE */
	uint32_t directory_user; /* uid of the process when the directory was found */
	uint32_t next; /* index in the queue, or of unused entries, or NONE */
	bool queued;
	bool busy; /* the thread looks for it */
	bool ended; /* the process, whose id may be another one's */
	bool retired; /* nothing asks for the entry any more; the process has ended */
	bool dropped; /* may have a map, but it is not open */
	bool rejected; /* has a file that is not its map: see perf_map_open() */
};

/* The open maps of the processes of a user. */
struct watcher_share {
	uint32_t user; /* uid */
	uint32_t open; /* not 0 */
};

/*
 * A directory in which processes write their maps. Most share the /tmp of this machine. Only the
 * thread adds directories and opens files in them.
 */
struct watched_directory {
	dev_t device;
	ino_t inode;
	uint32_t user; /* uid of the process for which it was added */
	uint32_t uses; /* entries with its index; 0: unused */
	int fd; /* -1: unused */
};

struct perf_map_watcher {
	char *root;
	pthread_t thread;
	pid_t tid; /* 0: the thread has not begun; atomic */
	bool thread_runs;
	bool abandoned; /* the thread hangs and may resume: never free this struct */
	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t wakeup; /* the queue is not empty, or `stop` */
	struct watched_map *entries;
	size_t count, capacity;
	uint32_t first, last; /* of the queue, or NONE */
	uint32_t unused; /* the first unused entry, or NONE */
	uint32_t last_id;
	uint32_t open; /* number of open maps */
	struct watcher_share shares[PERF_MAP_WATCHER_OPEN_MAX];
	size_t share_count;
	struct watched_directory directories[PERF_MAP_WATCHER_DIRECTORIES_MAX];
	uint64_t dropped; /* number of dropped entries, and of rejected ones that are unused now */
	bool stop;
};

struct perf_map_watcher *perf_map_watcher_new(const char *root)
{
	struct perf_map_watcher *watcher = calloc(1, sizeof(*watcher));

	if (watcher)
		watcher->root = strdup(root);
	if (!watcher || !watcher->root) {
		free(watcher);
		return NULL;
	}
	watcher->first = watcher->last = watcher->unused = NONE;
	for (uint32_t i = 0; i < PERF_MAP_WATCHER_DIRECTORIES_MAX; i++)
		watcher->directories[i].fd = -1;
	pthread_mutex_init(&watcher->lock, NULL);
	pthread_cond_init(&watcher->wakeup, NULL);
	return watcher;
}

static void drop_entry(struct perf_map_watcher *watcher, struct watched_map *entry)
{
	watcher->dropped += !entry->dropped;
	entry->dropped = true;
}

/* Returns the share of a user, or NULL: no map of it is open. Call with the lock held. */
static struct watcher_share *find_share(struct perf_map_watcher *watcher, uint32_t user)
{
	for (size_t i = 0; i < watcher->share_count; i++) {
		if (watcher->shares[i].user == user)
			return &watcher->shares[i];
	}
	return NULL;
}

/* There is room for a map. Call with the lock held. */
static void watcher_charge(struct perf_map_watcher *watcher, uint32_t user)
{
	struct watcher_share *share = find_share(watcher, user);

	if (!share) {
		share = &watcher->shares[watcher->share_count++];
		*share = (struct watcher_share){.user = user};
	}
	share->open++;
	watcher->open++;
}

/* A map of the user is open. Call with the lock held. */
static void watcher_discharge(struct perf_map_watcher *watcher, uint32_t user)
{
	size_t i = 0;

	while (watcher->shares[i].user != user)
		i++;
	watcher->open--;
	if (!--watcher->shares[i].open)
		watcher->shares[i] = watcher->shares[--watcher->share_count];
}

/*
 * Returns the largest share, if a map of it is to make room for one of `user`: not if that user
 * would have the most then. NULL: none is. Call with the lock held.
 */
static const struct watcher_share *larger_share(struct perf_map_watcher *watcher, uint32_t user)
{
	const struct watcher_share *own = find_share(watcher, user), *largest = NULL;

	for (size_t i = 0; i < watcher->share_count; i++) {
		if (!largest || watcher->shares[i].open > largest->open)
			largest = &watcher->shares[i];
	}
	return largest && largest->open > (own ? own->open : 0) + 1 ? largest : NULL;
}

/* Directories */

/* The entry does not need its directory any more. Call with the lock held. */
static void leave_directory(struct perf_map_watcher *watcher, struct watched_map *entry)
{
	struct watched_directory *directory;

	if (entry->directory == NONE)
		return;
	directory = &watcher->directories[entry->directory];
	entry->directory = NONE;
	if (--directory->uses)
		return;
	close(directory->fd);
	directory->fd = -1;
}

/*
 * Returns the index of the same directory, or of an unused place for it, or NONE: there is none for
 * this user. Call with the lock held.
 */
static uint32_t place_of_directory(const struct perf_map_watcher *watcher, const struct stat *st,
				   uint32_t user)
{
	uint32_t unused = NONE, of_user = 0;

	for (uint32_t i = 0; i < PERF_MAP_WATCHER_DIRECTORIES_MAX; i++) {
		const struct watched_directory *directory = &watcher->directories[i];

		if (!directory->uses)
			unused = i;
		else if (directory->device == st->st_dev && directory->inode == st->st_ino)
			return i;
		else
			of_user += directory->user == user;
	}
	return of_user < PERF_MAP_WATCHER_DIRECTORIES_OF_USER ? unused : NONE;
}

/* Keeps a directory for an entry, as long as it is the newest one. Call with the lock held. */
static void keep_directory(struct perf_map_watcher *watcher, struct watched_map *entry, int fd,
			   uint32_t user)
{
	struct watched_directory *directory;
	struct stat st;
	uint32_t place;

	entry->directory_user = user;
	if (fstat(fd, &st))
		return;
	place = place_of_directory(watcher, &st, user);
	if (place == entry->directory)
		return;
	leave_directory(watcher, entry);
	if (place == NONE)
		return;
	directory = &watcher->directories[place];
	if (!directory->uses) {
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return;
		*directory = (struct watched_directory){
			.device = st.st_dev, .inode = st.st_ino, .user = user, .fd = fd};
	}
	directory->uses++;
	entry->directory = place;
}

/* Waits for the next index; NONE: the queue is empty and `stop` is set. Call with the lock. */
static uint32_t watcher_dequeue(struct perf_map_watcher *watcher)
{
	uint32_t index;

	while (watcher->first == NONE && !watcher->stop)
		pthread_cond_wait(&watcher->wakeup, &watcher->lock);
	index = watcher->first;
	if (index == NONE)
		return NONE;
	watcher->first = watcher->entries[index].next;
	if (watcher->first == NONE)
		watcher->last = NONE;
	watcher->entries[index].queued = false;
	watcher->entries[index].busy = true;
	return index;
}

/* Whether the map may still be opened. Call with the lock held. */
static bool watcher_is_pending(const struct watched_map *entry)
{
	return entry->queued || entry->busy;
}

/* Whether an entry is of an ended process that has no map. Call with the lock held. */
static bool is_garbage(const struct watched_map *entry)
{
	return entry->retired && entry->fd < 0 && !watcher_is_pending(entry);
}

/* Frees an entry, whose fd is closed or the caller's. Call with the lock held. */
static void release_entry(struct perf_map_watcher *watcher, uint32_t index)
{
	struct watched_map *entry = &watcher->entries[index];

	if (entry->fd >= 0)
		watcher_discharge(watcher, entry->user);
	watcher->dropped += entry->rejected && entry->fd < 0 && !entry->dropped;
	leave_directory(watcher, entry);
	*entry = (struct watched_map){.fd = -1, .directory = NONE, .next = watcher->unused};
	watcher->unused = index;
}

/* Returns the fd of the newest map of a user, which is dropped. Call with the lock held. */
static int take_newest(struct perf_map_watcher *watcher, uint32_t user)
{
	uint32_t newest = NONE;
	struct watched_map *entry;
	int fd;

	for (uint32_t i = 0; i < watcher->count; i++) {
		entry = &watcher->entries[i];
		if (entry->fd >= 0 && entry->user == user &&
		    (newest == NONE || entry->id > watcher->entries[newest].id))
			newest = i;
	}
	entry = &watcher->entries[newest];
	fd = entry->fd;
	watcher_discharge(watcher, user);
	entry->fd = -1;
	drop_entry(watcher, entry);
	if (is_garbage(entry))
		release_entry(watcher, newest);
	return fd;
}

/*
 * Stores the fd of a map. The old one may belong to a file that was replaced. Returns the fd
 * for the caller to close, or -1. Call with the lock held.
 */
static int store_fd(struct perf_map_watcher *watcher, struct watched_map *entry, int fd,
		    uint32_t user)
{
	const struct watcher_share *larger;
	int old = entry->fd;

	if (fd < 0)
		return fd;
	if (old < 0) {
		entry->user = user;
		if (watcher->open == PERF_MAP_WATCHER_OPEN_MAX) {
			larger = larger_share(watcher, user);
			if (!larger) {
				drop_entry(watcher, entry);
				return fd;
			}
			old = take_newest(watcher, larger->user);
		}
		watcher_charge(watcher, user);
	}
	watcher->dropped -= entry->dropped;
	entry->dropped = false;
	entry->fd = fd;
	return old;
}

/* Returns whether a result of perf_map_open() means a file that is not the process's map. */
static bool is_rejected(int fd)
{
	return fd == -EPERM || fd == -ESTALE || fd == -EINVAL || fd == -ELOOP;
}

/*
 * Opens the map of an entry. While the process lives, its directory may change, as it may change
 * its root. A process that has ended before the first look may have written its map to our
 * directory: the map counts if it is not older, and belongs to our user, as the user of the process
 * is not known. Call without the lock.
 */
static int watcher_open_map(struct perf_map_watcher *watcher, uint32_t index,
			    const struct watched_map *entry, uint32_t *user)
{
	int directory = -ESRCH, fd;

	if (!entry->ended)
		directory = perf_map_directory(watcher->root, entry->pid, user);
	if (directory == -ESRCH && entry->directory == NONE && entry->ns_pid == entry->pid &&
	    entry->start_time)
		directory = perf_map_own_directory(watcher->root, user);
	if (directory >= 0) {
		fd = perf_map_open(directory, entry->ns_pid, entry->start_time, *user);
		pthread_mutex_lock(&watcher->lock);
		keep_directory(watcher, &watcher->entries[index], directory, *user);
		pthread_mutex_unlock(&watcher->lock);
		close(directory);
		return fd;
	}
	if (entry->directory == NONE)
		return directory;
	*user = entry->directory_user;
	return perf_map_open(watcher->directories[entry->directory].fd, entry->ns_pid,
			     entry->start_time, *user);
}

static void *run_watcher(void *arg)
{
	struct perf_map_watcher *watcher = arg;
	uint32_t index;

	__atomic_store_n(&watcher->tid, gettid(), __ATOMIC_RELAXED);
	pthread_mutex_lock(&watcher->lock);
	while ((index = watcher_dequeue(watcher)) != NONE) {
		struct watched_map entry = watcher->entries[index];
		uint32_t user = UINT32_MAX;
		int fd;

		pthread_mutex_unlock(&watcher->lock);
		fd = watcher_open_map(watcher, index, &entry, &user);
		pthread_mutex_lock(&watcher->lock);
		/* Sticky: the last lookup of an ended process finds no map. */
		watcher->entries[index].rejected |= is_rejected(fd);
		fd = store_fd(watcher, &watcher->entries[index], fd, user);
		watcher->entries[index].busy = false;
		if (is_garbage(&watcher->entries[index]))
			release_entry(watcher, index);
		pthread_mutex_unlock(&watcher->lock);
		if (fd >= 0)
			close(fd);
		pthread_mutex_lock(&watcher->lock);
	}
	pthread_mutex_unlock(&watcher->lock);
	return NULL;
}

/* A dropped map is tried again only if there is room: see store_fd(). Call with the lock held. */
static bool has_room(struct perf_map_watcher *watcher, const struct watched_map *entry)
{
	return watcher->open < PERF_MAP_WATCHER_OPEN_MAX || larger_share(watcher, entry->user);
}

/* Call with the lock held. */
static void watcher_enqueue(struct perf_map_watcher *watcher, uint32_t index)
{
	struct watched_map *entry = &watcher->entries[index];

	if (entry->queued || (entry->dropped && !has_room(watcher, entry)))
		return;
	entry->queued = true;
	entry->next = NONE;
	if (watcher->first == NONE)
		watcher->first = index;
	else
		watcher->entries[watcher->last].next = index;
	watcher->last = index;
	pthread_cond_signal(&watcher->wakeup);
}

/* Returns the index of an unused entry, or NONE. Call with the lock held. */
static uint32_t unused_entry(struct perf_map_watcher *watcher)
{
	if (watcher->unused != NONE)
		return watcher->unused;
	if (watcher->count == NONE || array_reserve(&watcher->entries, &watcher->capacity,
						    watcher->count, 1, sizeof(*watcher->entries)))
		return NONE;
	watcher->unused = (uint32_t)watcher->count++;
	watcher->entries[watcher->unused] =
		(struct watched_map){.fd = -1, .directory = NONE, .next = NONE};
	return watcher->unused;
}

/* Returns whether the thread runs. */
static bool start_thread(struct perf_map_watcher *watcher)
{
	if (!watcher->thread_runs)
		watcher->thread_runs =
			!pthread_create(&watcher->thread, NULL, run_watcher, watcher);
	return watcher->thread_runs;
}

uint32_t perf_map_watcher_add(struct perf_map_watcher *watcher, uint32_t pid, uint32_t ns_pid,
			      uint64_t start_time)
{
	uint32_t index = NONE;

	if (watcher->stop)
		return NONE;
	start_thread(watcher);
	pthread_mutex_lock(&watcher->lock);
	index = unused_entry(watcher);
	if (index != NONE) {
		struct watched_map *entry = &watcher->entries[index];

		watcher->unused = entry->next;
		*entry = (struct watched_map){.pid = pid,
					      .ns_pid = ns_pid,
					      .start_time = start_time,
					      .id = ++watcher->last_id,
					      .fd = -1,
					      .user = UINT32_MAX,
					      .directory = NONE};
		if (watcher->thread_runs)
			watcher_enqueue(watcher, index);
		else
			drop_entry(watcher, entry);
	}
	pthread_mutex_unlock(&watcher->lock);
	return index;
}

void perf_map_watcher_poll(struct perf_map_watcher *watcher, uint32_t index, bool is_alive)
{
	if (watcher->stop || !start_thread(watcher))
		return;
	pthread_mutex_lock(&watcher->lock);
	watcher->entries[index].ended = !is_alive;
	watcher_enqueue(watcher, index);
	pthread_mutex_unlock(&watcher->lock);
}

/* Drops queued entries without an fd: they may have a map, but the thread hangs. */
static void drop_queued(struct perf_map_watcher *watcher)
{
	pthread_mutex_lock(&watcher->lock);
	for (uint32_t i = watcher->first; i != NONE; i = watcher->entries[i].next) {
		if (watcher->entries[i].fd < 0)
			drop_entry(watcher, &watcher->entries[i]);
	}
	watcher->first = watcher->last = NONE;
	pthread_mutex_unlock(&watcher->lock);
}

/* Returns whether the thread has ended in time. */
static bool watcher_join(struct perf_map_watcher *watcher)
{
	int64_t sleeps = THREAD_SLEEPS_UNKNOWN;
	bool waits = true;

	for (unsigned int i = 0; i < PERF_MAP_WATCHER_WAITS_MAX && waits; i++) {
		struct timespec deadline;
		pid_t tid;

		clock_gettime(CLOCK_MONOTONIC, &deadline);
		deadline.tv_sec += PERF_MAP_WATCHER_TIMEOUT_S;
		if (!pthread_clockjoin_np(watcher->thread, NULL, CLOCK_MONOTONIC, &deadline))
			return true;
		tid = __atomic_load_n(&watcher->tid, __ATOMIC_RELAXED);
		waits = !tid || thread_awaits_cpu(tid, &sleeps);
	}
	return false;
}

void perf_map_watcher_finish(struct perf_map_watcher *watcher)
{
	if (!watcher->thread_runs)
		return;
	pthread_mutex_lock(&watcher->lock);
	watcher->stop = true;
	pthread_cond_signal(&watcher->wakeup);
	pthread_mutex_unlock(&watcher->lock);
	if (!watcher_join(watcher)) {
		pthread_detach(watcher->thread);
		watcher->abandoned = true;
		drop_queued(watcher);
	}
	watcher->thread_runs = false;
}

uint32_t perf_map_watcher_id(struct perf_map_watcher *watcher, uint32_t index, bool is_alive)
{
	const struct watched_map *entry;
	bool may_appear;
	uint32_t id;

	pthread_mutex_lock(&watcher->lock);
	entry = &watcher->entries[index];
	may_appear = watcher_is_pending(entry) || (is_alive && !watcher->stop);
	id = entry->fd >= 0 || may_appear ? entry->id : 0;
	pthread_mutex_unlock(&watcher->lock);
	return id;
}

void perf_map_watcher_retire(struct perf_map_watcher *watcher, uint32_t index)
{
	struct watched_map *entry;

	pthread_mutex_lock(&watcher->lock);
	entry = &watcher->entries[index];
	entry->retired = true;
	if (is_garbage(entry))
		release_entry(watcher, index);
	pthread_mutex_unlock(&watcher->lock);
}

/* Call with the lock held. */
static void take_maps(struct perf_map_watcher *watcher, struct perf_map_fd *maps, size_t *count)
{
	for (uint32_t i = 0; i < watcher->count; i++) {
		const struct watched_map *entry = &watcher->entries[i];
		int fd;

		if (entry->fd < 0)
			continue;
		fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
		/* A map that can't be taken costs its names only. */
		if (fd < 0)
			continue;
		maps[(*count)++] = (struct perf_map_fd){entry->id, fd};
	}
}

/* Call with the lock held. */
static void release_retired(struct perf_map_watcher *watcher)
{
	for (uint32_t i = 0; i < watcher->count; i++) {
		struct watched_map *entry = &watcher->entries[i];

		if (!entry->retired || watcher_is_pending(entry) || entry->fd < 0)
			continue;
		close(entry->fd);
		release_entry(watcher, i);
	}
}

int perf_map_watcher_take(struct perf_map_watcher *watcher, bool forget, struct perf_map_fd **maps,
			  size_t *count)
{
	*count = 0;
	*maps = calloc(PERF_MAP_WATCHER_OPEN_MAX, sizeof(**maps));
	if (!*maps)
		return -ENOMEM;
	pthread_mutex_lock(&watcher->lock);
	take_maps(watcher, *maps, count);
	if (forget)
		release_retired(watcher);
	pthread_mutex_unlock(&watcher->lock);
	return 0;
}

uint64_t perf_maps_dropped(struct perf_map_watcher *watcher)
{
	uint64_t dropped;

	pthread_mutex_lock(&watcher->lock);
	dropped = watcher->dropped;
	for (size_t i = 0; i < watcher->count; i++) {
		const struct watched_map *entry = &watcher->entries[i];

		dropped += entry->rejected && entry->fd < 0 && !entry->dropped;
	}
	pthread_mutex_unlock(&watcher->lock);
	return dropped;
}

void perf_map_watcher_free(struct perf_map_watcher *watcher)
{
	if (!watcher)
		return;
	perf_map_watcher_finish(watcher);
	if (watcher->abandoned)
		return;
	for (size_t i = 0; i < watcher->count; i++) {
		leave_directory(watcher, &watcher->entries[i]);
		if (watcher->entries[i].fd >= 0)
			close(watcher->entries[i].fd);
	}
	pthread_mutex_destroy(&watcher->lock);
	pthread_cond_destroy(&watcher->wakeup);
	free(watcher->entries);
	free(watcher->root);
	free(watcher);
}
