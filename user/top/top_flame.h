/* SPDX-License-Identifier: GPL-2.0 */
/* A flame graph of characters. */
#ifndef STACKBEAT_TOP_TOP_FLAME_H
#define STACKBEAT_TOP_TOP_FLAME_H

#include <stddef.h>

struct profile;
struct top_lines;

/*
 * Adds `rows` lines of the flame graph of the CPU time of a profile, from the depth `first` on: the
 * root is at the top, and a frame is as wide as its share of lines->columns. Each begins with '|',
 * followed by as much of its name as fits. Frames of less than a column are left out, with what
 * they call. Sets *depth (may be NULL) to the depth of the graph. Returns 0 or -ENOMEM.
 */
int top_flame_add(struct top_lines *lines, const struct profile *profile, size_t first, size_t rows,
		  size_t *depth);

#endif
