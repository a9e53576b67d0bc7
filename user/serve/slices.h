/* SPDX-License-Identifier: GPL-2.0 */
/* The slices of the recording that have arrived, and are still needed (see protocol.h). */
#ifndef STACKBEAT_SERVE_SLICES_H
#define STACKBEAT_SERVE_SLICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/answer.h"

struct slice {
	uint32_t number;
	struct slice_file content; /* owns the file */
	uint64_t size; /* bytes */
};

/* Sorted by number. All zero: none. */
struct slices {
	struct slice *items;
	size_t count, capacity;
	uint64_t bytes;
};

/* Adds a slice, and takes the ownership of its file. Returns 0 or -ENOMEM, with the file closed. */
int slices_add(struct slices *slices, uint32_t number, const struct slice_file *content);

/* Returns whether all slices from `first` to `last` have arrived; true if there are none. */
bool slices_have(const struct slices *slices, uint32_t first, uint32_t last);

/* Sets *found to a copy of these slices, which the caller frees; the files stay. Returns their
 * number. */
size_t slices_find(const struct slices *slices, uint32_t first, uint32_t last,
		   struct slice_file **found);

/*
 * Returns the last slice, up to `last`, after which the next one does not follow at once: the clock
 * was set, or the machine was suspended. The slices begin with `first`; without any, returns
 * `last`.
 */
uint32_t slices_connected(const struct slices *slices, uint32_t first, uint32_t last);

/* Closes the slices before `number`. */
void slices_drop(struct slices *slices, uint32_t number);
void slices_clear(struct slices *slices);

#endif
