/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbols of JIT code from the perf map that a runtime writes: /tmp/perf-PID.map, in the format of
 * the Linux perf tools. Each function has a line with its start address and its size, both in hex,
 * and its name.
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

/* The rest of a file beyond these limits is dropped. */
#define PERF_MAP_BYTES_MAX ((uint64_t)256 << 20)
#define PERF_MAP_ENTRIES_MAX (1u << 20)
#define PERF_MAP_LINE_MAX 4096u /* bytes; longer names are truncated */

/*
 * Opens the perf map of a process within the root directory of that process. `pid` is its id in
 * our PID namespace, `ns_pid` in its own. `root` is prepended to /proc ("" except in tests).
 * `start_time` is the start of the process (the kernel's CLOCK_BOOTTIME, ns). Returns an fd, with
 * *user set to the uid of the process, or a negative errno value:
 *	-ENOENT	the process has no map
 *	-EPERM	the owner is neither the user of the process, nor root with a file for all users
 *	-EINVAL, -ELOOP, -EXDEV
 *		the map is not a regular file, or a symbolic link or a mount point
 *	-ESTALE	an earlier process with this id wrote it
 *	-ENAMETOOLONG, or the error of stat() or open()
 */
int perf_map_open(const char *root, uint32_t pid, uint32_t ns_pid, uint64_t start_time,
		  uint32_t *user);

/*
 * Reads the current content of the file, from its beginning. Skips malformed lines. Where functions
 * overlap, the later line wins. Returns 0 and sets *map, to be freed with perf_map_free() (which
 * takes NULL, too); or a negative errno value.
 */
int perf_map_read(int fd, struct perf_map **map);
void perf_map_free(struct perf_map *map);

/* Returns whether the file exceeded a limit and its rest was dropped. */
bool perf_map_is_truncated(const struct perf_map *map);

/* Returns the name of the function at an address, or NULL. The map owns the string. */
const char *perf_map_lookup(const struct perf_map *map, uint64_t address);

#endif
