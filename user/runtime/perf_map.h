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

#define PERF_MAP_LINE_MAX 4096u /* bytes; longer names are truncated */

/*
 * Finds the directory in which a process writes its perf map: /tmp, within the root directory of
 * the process, which must live. The descriptor finds the map also after the process has ended, when
 * some runtimes have just written it. `pid` is its id in our PID namespace; `root` is prepended to
 * /proc ("" except in tests). Returns an fd of O_PATH, with *user set to the uid of the process, or
 * a negative errno value: -ESRCH if the process has ended.
 */
int perf_map_directory(const char *root, uint32_t pid, uint32_t *user);

/* As perf_map_directory(), of this process. */
int perf_map_own_directory(const char *root, uint32_t *user);

/*
 * Opens the perf map of a process of `user` in a directory. `ns_pid` is its id in its own PID
 * namespace, `start_time` its start (the kernel's CLOCK_BOOTTIME, ns). Returns an fd, or a negative
 * errno value:
 *	-ENOENT	the process has no map
 *	-EPERM	the owner is neither the user of the process, nor root with a file for all users
 *	-EINVAL, -ELOOP, -EXDEV
 *		the map is not a regular file, or a symbolic link or a mount point
 *	-ESTALE	an earlier process with this id wrote it
 *	or the error of open()
 */
int perf_map_open(int directory, uint32_t ns_pid, uint64_t start_time, uint32_t user);

/* How much of a map may be read. */
struct perf_map_quota {
	uint64_t bytes; /* the rest of the file is dropped */
	/* Receives the bytes that were read since the last call. NULL: nobody counts them. */
	void (*charge)(void *arg, uint64_t bytes);
	void *arg;
};

/*
 * Finds the names of `count` addresses in the current content of the file. Its size costs time, but
 * no memory: it is read once, and only the names of the addresses are kept. Holes are skipped, and
 * cost nothing: anybody can make one of any size. Skips malformed lines, and the line that a hole
 * interrupts. Where functions overlap, the later line wins. Returns 0 and sets *map, to be freed
 * with perf_map_free() (which takes NULL, too); or a negative errno value.
 */
int perf_map_read(int fd, const uint64_t *addresses, size_t count,
		  const struct perf_map_quota *quota, struct perf_map **map);
void perf_map_free(struct perf_map *map);

/* Returns whether the file exceeded the quota and its rest was dropped. */
bool perf_map_is_truncated(const struct perf_map *map);

/*
 * Returns the name of the function at an address that perf_map_read() was called with, or NULL. The
 * map owns the string.
 */
const char *perf_map_lookup(const struct perf_map *map, uint64_t address);

#endif
