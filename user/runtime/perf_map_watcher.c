// SPDX-License-Identifier: GPL-2.0
#include "runtime/perf_map_watcher.h"

#include "lib/array.h"
#include "runtime/perf_map.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NONE UINT32_MAX

struct entry {
	uint32_t pid, ns_pid;
	uint64_t start_time;
	int fd; /* -1: none */
	uint32_t next; /* in the queue */
	bool wanted; /* it is in the queue */
	bool left_out; /* it has a map, and there was no room */
	bool refused; /* it has a map that can't be its own: see perf_map_open() */
};

struct perf_map_watcher {
	char *root;
	pthread_t thread;
	bool thread_runs;
	bool abandoned; /* the thread hangs, and may come back: all of this stays */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t asked; /* something is wanted, or `stop` */
	struct entry *entries;
	size_t count, capacity;
	uint32_t first, last; /* of the queue of those to be looked for, or NONE */
	uint32_t open;
	uint64_t left_out;
	bool stop;
};

struct perf_map_watcher *perf_map_watcher_new(const char *root)
{
	struct perf_map_watcher *maps = calloc(1, sizeof(*maps));

	if (maps)
		maps->root = strdup(root);
	if (!maps || !maps->root) {
		free(maps);
		return NULL;
	}
	maps->first = maps->last = NONE;
	pthread_mutex_init(&maps->lock, NULL);
	pthread_cond_init(&maps->asked, NULL);
	return maps;
}

/* Whether it is the file that is open already. */
static bool is_open(const struct entry *entry, int fd)
{
	struct stat old, new;

	return entry->fd >= 0 && fstat(entry->fd, &old) == 0 && fstat(fd, &new) == 0 &&
	       old.st_dev == new.st_dev &&old.st_ino == new.st_ino;
}

static void leave_out(struct perf_map_watcher *maps, struct entry *entry)
{
	maps->left_out += !entry->left_out;
	entry->left_out = true;
}

/*
 * A map that was written anew under its old name is the better one. Returns what is to be
 * closed, or -1. With the lock.
 */
static int take(struct perf_map_watcher *maps, struct entry *entry, int fd)
{
	int old = entry->fd;

	if (fd < 0 || is_open(entry, fd))
		return fd;
	if (old < 0 && maps->open == PERF_MAP_WATCHER_OPEN_MAX) {
		leave_out(maps, entry);
		return fd;
	}
	maps->open += old < 0;
	entry->fd = fd;
	return old;
}

/* The number of the next one to be looked for, or NONE: it is over. With the lock. */
static uint32_t next_wanted(struct perf_map_watcher *maps)
{
	uint32_t number;

	while (maps->first == NONE && !maps->stop)
		pthread_cond_wait(&maps->asked, &maps->lock);
	number = maps->first;
	if (number == NONE)
		return NONE;
	maps->first = maps->entries[number].next;
	if (maps->first == NONE)
		maps->last = NONE;
	maps->entries[number].wanted = false;
	return number;
}

/* Of what perf_map_open() returns: a file that is there is not the map. */
static bool is_refused(int fd)
{
	return fd == -EPERM || fd == -ESTALE || fd == -EINVAL || fd == -ELOOP;
}

static void *open_maps(void *arg)
{
	struct perf_map_watcher *maps = arg;
	uint32_t number;

	pthread_mutex_lock(&maps->lock);
	while ((number = next_wanted(maps)) != NONE) {
		struct entry entry = maps->entries[number];
		int fd;

		pthread_mutex_unlock(&maps->lock);
		fd = perf_map_open(maps->root, entry.pid, entry.ns_pid, entry.start_time);
		pthread_mutex_lock(&maps->lock);
		/* It stays so: a process that has ended has no map at the last look. */
		maps->entries[number].refused |= is_refused(fd);
		fd = take(maps, &maps->entries[number], fd);
		pthread_mutex_unlock(&maps->lock);
		if (fd >= 0)
			close(fd);
		pthread_mutex_lock(&maps->lock);
	}
	pthread_mutex_unlock(&maps->lock);
	return NULL;
}

/* With the lock. */
static void ask(struct perf_map_watcher *maps, uint32_t number)
{
	struct entry *entry = &maps->entries[number];

	if (entry->wanted || entry->left_out)
		return;
	entry->wanted = true;
	entry->next = NONE;
	if (maps->first == NONE)
		maps->first = number;
	else
		maps->entries[maps->last].next = number;
	maps->last = number;
	pthread_cond_signal(&maps->asked);
}

uint32_t perf_map_watcher_add(struct perf_map_watcher *maps, uint32_t pid, uint32_t ns_pid,
			      uint64_t start_time)
{
	uint32_t number = NONE;

	if (maps->stop)
		return NONE;
	if (!maps->thread_runs)
		maps->thread_runs = !pthread_create(&maps->thread, NULL, open_maps, maps);
	pthread_mutex_lock(&maps->lock);
	if (maps->count < NONE && array_reserve(&maps->entries, &maps->capacity, maps->count, 1,
						sizeof(*maps->entries)) == 0) {
		number = (uint32_t)maps->count++;
		maps->entries[number] = (struct entry){
			.pid = pid, .ns_pid = ns_pid, .start_time = start_time, .fd = -1};
		if (maps->thread_runs)
			ask(maps, number);
		else
			leave_out(maps, &maps->entries[number]);
	}
	pthread_mutex_unlock(&maps->lock);
	return number;
}

void perf_map_watcher_poll(struct perf_map_watcher *maps, uint32_t number)
{
	if (maps->stop)
		return;
	pthread_mutex_lock(&maps->lock);
	if (number < maps->count)
		ask(maps, number);
	pthread_mutex_unlock(&maps->lock);
}

/* Those that may have a map, which will not be looked for. */
static void leave_out_wanted(struct perf_map_watcher *maps)
{
	pthread_mutex_lock(&maps->lock);
	for (uint32_t i = maps->first; i != NONE; i = maps->entries[i].next) {
		if (maps->entries[i].fd < 0)
			leave_out(maps, &maps->entries[i]);
	}
	maps->first = maps->last = NONE;
	pthread_mutex_unlock(&maps->lock);
}

void perf_map_watcher_finish(struct perf_map_watcher *maps)
{
	struct timespec deadline;

	if (!maps->thread_runs)
		return;
	pthread_mutex_lock(&maps->lock);
	maps->stop = true;
	pthread_cond_signal(&maps->asked);
	pthread_mutex_unlock(&maps->lock);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += PERF_MAP_WATCHER_TIMEOUT_S;
	if (pthread_timedjoin_np(maps->thread, NULL, &deadline) != 0) {
		pthread_detach(maps->thread);
		maps->abandoned = true;
		leave_out_wanted(maps);
	}
	maps->thread_runs = false;
}

int perf_map_watcher_fd(struct perf_map_watcher *maps, uint32_t number)
{
	int fd = -1;

	pthread_mutex_lock(&maps->lock);
	if (number < maps->count)
		fd = maps->entries[number].fd;
	pthread_mutex_unlock(&maps->lock);
	return fd;
}

uint64_t perf_maps_dropped(struct perf_map_watcher *maps)
{
	uint64_t left_out;

	pthread_mutex_lock(&maps->lock);
	left_out = maps->left_out;
	for (size_t i = 0; i < maps->count; i++) {
		const struct entry *entry = &maps->entries[i];

		left_out += entry->refused && entry->fd < 0 && !entry->left_out;
	}
	pthread_mutex_unlock(&maps->lock);
	return left_out;
}

void perf_map_watcher_free(struct perf_map_watcher *maps)
{
	if (!maps)
		return;
	perf_map_watcher_finish(maps);
	if (maps->abandoned)
		return;
	for (size_t i = 0; i < maps->count; i++) {
		if (maps->entries[i].fd >= 0)
			close(maps->entries[i].fd);
	}
	pthread_mutex_destroy(&maps->lock);
	pthread_cond_destroy(&maps->asked);
	free(maps->entries);
	free(maps->root);
	free(maps);
}
