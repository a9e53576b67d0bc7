/* SPDX-License-Identifier: GPL-2.0 */
/* The descriptors that the table of mapped files keeps: which to close if there are too many. */
#ifndef STACKBEAT_MAPPINGS_KEPT_FILES_H
#define STACKBEAT_MAPPINGS_KEPT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kept_file {
	uint32_t file; /* the caller's */
	uint32_t owner; /* uid */
	bool is_linked; /* the file has a name, by which it can be opened again */
	uint32_t rank; /* private */
};

/* Returns whether an open file has a name, as far as that is cached: the call does not block. */
bool is_file_linked(int fd);

/*
 * Sorts files into the order in which they are to be closed: those that have a name first; among
 * these, and among the others, files of the owner who has the most left.
 */
void kept_files_sort(struct kept_file *files, size_t count);

/* Returns how many of `max` descriptors may be kept: at most half of the process's. */
size_t kept_files_max(size_t max);

#endif
