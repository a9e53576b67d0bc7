/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds a mapped file that the kernel does not open: in /proc/PID/map_files, by its path in the
 * root of a process that maps it, and by its path here.
 *
 * Nothing of a file is parsed. The functions may block for as long as a file system hangs, unless
 * they have a time-out.
 */
#ifndef STACKBEAT_MAPPINGS_FIND_MAPPED_FILE_H
#define STACKBEAT_MAPPINGS_FIND_MAPPED_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* The file that was mapped, as the kernel sees it. */
struct file_identity {
	uint64_t device, inode, size;
	uint32_t generation; /* of the inode; 0: unknown */
};

/* Where a file can be found. */
struct file_place {
	const char *path; /* as the process sees it */
	/* A mapping of it, and its process; pid 0: none is known. */
	uint32_t pid;
	uint64_t start, end;
};

/* The number of places, see find_mapped_file(). */
#define FILE_PLACES 3u

/*
 * Opens the regular file at the place with a number below FILE_PLACES. `root` is prepended to /proc
 * and to paths ("", except in tests). Returns a read-only fd, which the caller closes, or a
 * negative errno value; never -ENOENT: -ESTALE if nothing is there.
 */
int find_mapped_file(const char *root, const struct file_place *place, unsigned int number);

/* Returns whether an open file is the file that was mapped: has the same inode and size. */
bool is_identical_file(const struct file_identity *identity, int fd);

/* As find_mapped_file(), for at most 5 s (see timed_call()). If `identity` is not NULL, the file is
 * identical. */
int find_mapped_file_timed(const char *root, const struct file_place *place, unsigned int number,
			   const struct file_identity *identity);

/* What /proc/PID/map_files knows about a mapping of a regular file. */
struct mapping_link {
	char path[PATH_MAX];
	struct file_identity identity;
};

/*
 * Reads the entry of a mapping, for at most 1 s (see timed_call()): a process can block it by a
 * lock of its address space. Returns 0 or a negative errno value.
 */
int read_mapping_link(const char *root, uint32_t pid, uint64_t start, uint64_t end,
		      struct mapping_link *link);

#endif
