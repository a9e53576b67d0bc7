// SPDX-License-Identifier: GPL-2.0
#include "jitmaps.h"

#include "perfmap.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct entry {
	uint32_t pid, inner_pid;
	int fd; /* -1: none */
	bool wanted; /* to be looked for */
};

struct jitmaps {
	char *root;
	pthread_t thread;
	bool thread_runs;
	bool abandoned; /* the thread hangs, and may come back: all of this stays */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t asked; /* something is wanted, or `stop` */
	struct entry entries[JITMAPS_OPEN_MAX];
	uint32_t count;
	bool stop;
};

struct jitmaps *jitmaps_new(const char *root)
{
	struct jitmaps *maps = calloc(1, sizeof(*maps));

	if (maps)
		maps->root = strdup(root);
	if (!maps || !maps->root) {
		free(maps);
		return NULL;
	}
	pthread_mutex_init(&maps->lock, NULL);
	pthread_cond_init(&maps->asked, NULL);
	return maps;
}

/* A map that was written anew under its old name is the better one. */
static void take(struct entry *entry, int fd)
{
	struct stat old, new;

	if (fd < 0)
		return;
	if (entry->fd >= 0 && fstat(entry->fd, &old) == 0 && fstat(fd, &new) == 0 &&
	    old.st_dev == new.st_dev && old.st_ino == new.st_ino) {
		close(fd);
		return;
	}
	if (entry->fd >= 0)
		close(entry->fd);
	entry->fd = fd;
}

static struct entry *find_wanted(struct jitmaps *maps)
{
	for (uint32_t i = 0; i < maps->count; i++) {
		if (maps->entries[i].wanted)
			return &maps->entries[i];
	}
	return NULL;
}

static void *open_maps(void *arg)
{
	struct jitmaps *maps = arg;
	struct entry *entry;
	int fd;

	pthread_mutex_lock(&maps->lock);
	for (;;) {
		entry = find_wanted(maps);
		if (!entry && maps->stop)
			break;
		if (!entry) {
			pthread_cond_wait(&maps->asked, &maps->lock);
			continue;
		}
		entry->wanted = false;
		pthread_mutex_unlock(&maps->lock);
		fd = perfmap_open(maps->root, entry->pid, entry->inner_pid);
		pthread_mutex_lock(&maps->lock);
		take(entry, fd);
	}
	pthread_mutex_unlock(&maps->lock);
	return NULL;
}

static void ask(struct jitmaps *maps, struct entry *entry)
{
	pthread_mutex_lock(&maps->lock);
	entry->wanted = true;
	pthread_cond_signal(&maps->asked);
	pthread_mutex_unlock(&maps->lock);
}

uint32_t jitmaps_add(struct jitmaps *maps, uint32_t pid, uint32_t inner_pid)
{
	uint32_t number = maps->count;

	if (number == JITMAPS_OPEN_MAX || maps->stop)
		return UINT32_MAX;
	if (!maps->thread_runs && pthread_create(&maps->thread, NULL, open_maps, maps) != 0)
		return UINT32_MAX;
	maps->thread_runs = true;
	pthread_mutex_lock(&maps->lock);
	maps->entries[number] = (struct entry){.pid = pid, .inner_pid = inner_pid, .fd = -1};
	maps->count++;
	pthread_mutex_unlock(&maps->lock);
	ask(maps, &maps->entries[number]);
	return number;
}

void jitmaps_look(struct jitmaps *maps, uint32_t number)
{
	if (number < maps->count && !maps->stop)
		ask(maps, &maps->entries[number]);
}

void jitmaps_finish(struct jitmaps *maps)
{
	struct timespec deadline;

	if (!maps->thread_runs)
		return;
	pthread_mutex_lock(&maps->lock);
	maps->stop = true;
	pthread_cond_signal(&maps->asked);
	pthread_mutex_unlock(&maps->lock);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += JITMAPS_PATIENCE_S;
	if (pthread_timedjoin_np(maps->thread, NULL, &deadline) != 0) {
		pthread_detach(maps->thread);
		maps->abandoned = true;
	}
	maps->thread_runs = false;
}

int jitmaps_fd(struct jitmaps *maps, uint32_t number)
{
	int fd = -1;

	pthread_mutex_lock(&maps->lock);
	if (number < maps->count)
		fd = maps->entries[number].fd;
	pthread_mutex_unlock(&maps->lock);
	return fd;
}

void jitmaps_free(struct jitmaps *maps)
{
	if (!maps)
		return;
	jitmaps_finish(maps);
	if (maps->abandoned)
		return;
	for (uint32_t i = 0; i < maps->count; i++) {
		if (maps->entries[i].fd >= 0)
			close(maps->entries[i].fd);
	}
	pthread_mutex_destroy(&maps->lock);
	pthread_cond_destroy(&maps->asked);
	free(maps->root);
	free(maps);
}
