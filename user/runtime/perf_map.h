/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code that is made while a program runs, as the program tells of it: /tmp/perf-PID.map,
 * as the Linux perf tools have it. A line for each function: its first address and its
 * size, both in hex, and its name.
 *
 *	7f2c10000000 3a0 LazyCompile:~main /app/server.js:12
 */
#ifndef STACKBEAT_RUNTIME_PERF_MAP_H
#define STACKBEAT_RUNTIME_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct perf_map;

/* What is beyond these is left out. */
#define PERF_MAP_BYTES_MAX ((uint64_t)256 << 20)
#define PERF_MAP_ENTRIES_MAX (1u << 20)
#define PERF_MAP_LINE_MAX 4096u /* the rest of a longer name */

/*
 * Opens the map of a process, with its id here and the one in its own namespace, as the
 * process itself sees it. `root` is put before /proc ("" but for tests); `start_time` is when
 * the process began (the kernel's CLOCK_BOOTTIME, ns). Returns an fd, or a negative errno
 * value: -ENOENT where there is none, -EPERM where it is neither the user's who runs the
 * process nor root's, -EINVAL or -ELOOP where it is no regular file, -ESTALE where an earlier
 * process of this id has left it.
 */
int perf_map_open(const char *root, uint32_t pid, uint32_t ns_pid, uint64_t start_time);

/*
 * Reads what is in the file now, from its beginning. Lines that make no sense are left
 * out. Where functions overlap, the one that the file tells of later is right. Returns 0,
 * and perf_map_free() (which takes NULL too) must follow; or a negative errno value.
 */
int perf_map_read(int fd, struct perf_map **map);
void perf_map_free(struct perf_map *map);

/* Whether there was more than is taken. */
bool perf_map_is_truncated(const struct perf_map *map);

/* The function at an address; NULL if there is none. Owned by the map. */
const char *perf_map_lookup(const struct perf_map *map, uint64_t address);

#endif
