/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The perf maps of sampled processes. They are opened while the processes live, as they
 * see them, and read when the recording is over: they have grown until then, and the
 * processes may have gone.
 *
 * A thread of its own opens them: the file system of a process may hang.
 */
#ifndef STACKBEAT_RUNTIME_PERF_MAP_WATCHER_H
#define STACKBEAT_RUNTIME_PERF_MAP_WATCHER_H

#include <stdint.h>

struct perf_map_watcher;

/* Processes whose maps are kept open. Those without a map do not count. */
#define PERF_MAP_WATCHER_OPEN_MAX 256u
/* How long perf_map_watcher_finish() waits for a file system, in seconds. */
#define PERF_MAP_WATCHER_TIMEOUT_S 2u

/* `root` is put before /proc ("" but for tests). NULL when out of memory. */
struct perf_map_watcher *perf_map_watcher_new(const char *root);
/* Takes NULL, too. */
void perf_map_watcher_free(struct perf_map_watcher *maps);

/*
 * Has the map of a process opened, if it has one: see perf_map_open(). Returns a number for
 * perf_map_watcher_fd(), or UINT32_MAX: there is no memory.
 */
uint32_t perf_map_watcher_add(struct perf_map_watcher *maps, uint32_t pid, uint32_t ns_pid,
			      uint64_t start_time);

/* Looks once more for a map that was not there, or has been replaced. */
void perf_map_watcher_poll(struct perf_map_watcher *maps, uint32_t number);

/* Waits until all has been looked for, unless a file system hangs. Nothing can be added then. */
void perf_map_watcher_finish(struct perf_map_watcher *maps);

/*
 * How many processes have a map that was left out, as it is beyond PERF_MAP_WATCHER_OPEN_MAX, or is
 * not their own (see perf_map_open()), or may have one, and a file system hung before it was looked
 * for.
 */
uint64_t perf_maps_dropped(struct perf_map_watcher *maps);

/* The file descriptor of a map, or -1. It stays open until perf_map_watcher_free(). */
int perf_map_watcher_fd(struct perf_map_watcher *maps, uint32_t number);

#endif
