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

struct jitmaps;

/* Processes whose maps are kept open. Those without a map do not count. */
#define JITMAPS_OPEN_MAX 256u
/* How long jitmaps_finish() waits for a file system, in seconds. */
#define JITMAPS_PATIENCE_S 2u

/* `root` is put before /proc ("" but for tests). NULL when out of memory. */
struct jitmaps *jitmaps_new(const char *root);
/* Takes NULL, too. */
void jitmaps_free(struct jitmaps *maps);

/*
 * Has the map of a process opened, if it has one: see perfmap_open(). Returns a number for
 * jitmaps_fd(), or UINT32_MAX: there is no memory.
 */
uint32_t jitmaps_add(struct jitmaps *maps, uint32_t pid, uint32_t inner_pid, uint64_t start_time);

/* Looks once more for a map that was not there, or has been replaced. */
void jitmaps_look(struct jitmaps *maps, uint32_t number);

/* Waits until all has been looked for, unless a file system hangs. Nothing can be added then. */
void jitmaps_finish(struct jitmaps *maps);

/*
 * How many processes have a map that was left out, as it is beyond JITMAPS_OPEN_MAX, or is not
 * their own (see perfmap_open()), or may have one, and a file system hung before it was looked for.
 */
uint64_t jitmaps_left_out(struct jitmaps *maps);

/* The file descriptor of a map, or -1. It stays open until jitmaps_free(). */
int jitmaps_fd(struct jitmaps *maps, uint32_t number);

#endif
