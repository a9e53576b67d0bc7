/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keeps the perf maps of sampled processes open. They are opened within the root directories of the
 * processes, and read when the code is symbolized: maps grow until then, and the processes may have
 * exited. The directory of the maps stays open, too: some runtimes write their map when they exit.
 *
 * A separate thread opens them, because the file system of a process may hang.
 */
#ifndef STACKBEAT_RUNTIME_PERF_MAP_WATCHER_H
#define STACKBEAT_RUNTIME_PERF_MAP_WATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_map_watcher;

struct perf_map_fd {
	uint32_t id; /* not 0 */
	int fd;
};

/*
 * Limit of open maps. Processes without a map do not count. At the limit, the newest map of the
 * user whose processes have the most makes room for maps of users with fewer. A map that is closed
 * then, or not opened, is tried again by perf_map_watcher_poll() when there is room.
 */
#define PERF_MAP_WATCHER_OPEN_MAX 256u
/*
 * Limits of open directories, and of the directories that processes of a user have added. Without
 * its directory, a map is found only while its process lives.
 */
#define PERF_MAP_WATCHER_DIRECTORIES_MAX 128u
#define PERF_MAP_WATCHER_DIRECTORIES_OF_USER (PERF_MAP_WATCHER_DIRECTORIES_MAX / 2)
/*
 * Seconds that perf_map_watcher_finish() waits for a file system, and how often while the thread
 * gets no CPU (thread_awaits_cpu()).
 */
#define PERF_MAP_WATCHER_TIMEOUT_S 2u
#define PERF_MAP_WATCHER_WAITS_MAX 10u

/* `root` is prepended to /proc ("" except in tests). Returns NULL when out of memory. */
struct perf_map_watcher *perf_map_watcher_new(const char *root);
/* Closes all maps. Takes NULL, too. */
void perf_map_watcher_free(struct perf_map_watcher *watcher);

/*
 * Queues the map of a process for opening: see perf_map_open(). Returns an index for
 * perf_map_watcher_poll(), or UINT32_MAX when out of memory or after perf_map_watcher_finish().
 */
uint32_t perf_map_watcher_add(struct perf_map_watcher *watcher, uint32_t pid, uint32_t ns_pid,
			      uint64_t start_time);

/*
 * Queues a map once more: it was missing or dropped so far, or may have been replaced. Call it with
 * `is_alive` false when the process has ended: it may have written its map at last.
 */
void perf_map_watcher_poll(struct perf_map_watcher *watcher, uint32_t index, bool is_alive);

/*
 * Waits until the queue is empty, at most PERF_MAP_WATCHER_TIMEOUT_S, or
 * PERF_MAP_WATCHER_WAITS_MAX times as long. Afterwards nothing can be added.
 */
void perf_map_watcher_finish(struct perf_map_watcher *watcher);

/*
 * Returns the number of processes with a dropped map, which is not open now: it exceeds
 * PERF_MAP_WATCHER_OPEN_MAX, is not the map of the process (see perf_map_open()), or may exist, but
 * a file system hung before the lookup, or there is no thread for it.
 */
uint64_t perf_maps_dropped(struct perf_map_watcher *watcher);

/*
 * Returns the id of a map that is open, or may still be opened: a process that `is_alive` may write
 * its map later. 0: the process has no map. Ids are not used again, unlike indices.
 */
uint32_t perf_map_watcher_id(struct perf_map_watcher *watcher, uint32_t index, bool is_alive);

/*
 * Call when the process has ended. The index is used again. If the map is open, it stays open until
 * perf_map_watcher_take().
 */
void perf_map_watcher_retire(struct perf_map_watcher *watcher, uint32_t index);

/*
 * Sets *maps to the *count open maps, by id. The caller closes the fds and frees the array. With
 * `forget`, retired maps are forgotten then; the others stay open in the watcher, too. Maps for
 * which there are no descriptors are missing. Returns 0, or -ENOMEM with nothing taken.
 */
int perf_map_watcher_take(struct perf_map_watcher *watcher, bool forget, struct perf_map_fd **maps,
			  size_t *count);

#endif
