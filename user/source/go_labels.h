/* SPDX-License-Identifier: GPL-2.0 */
/* The labels of goroutines (runtime/pprof.Do()) in samples. */
#ifndef STACKBEAT_SOURCE_GO_LABELS_H
#define STACKBEAT_SOURCE_GO_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

/* A label. Key and value are any bytes of the record, not NUL-terminated. */
struct go_label {
	const char *key, *value;
	uint8_t key_size, value_size; /* bytes */
};

/*
 * Sets the next label. *at: bytes of `labels` that are done, 0 at first. Returns false at the end,
 * and before a label that goes beyond labels->size.
 */
bool go_labels_next(const struct stackbeat_go_labels *labels, size_t *at, struct go_label *label);

/*
 * Returns NULL if the record of labels at the start of `available` bytes is as stackbeat.h says, or
 * what is wrong with it.
 */
const char *go_labels_check(const struct stackbeat_go_labels *labels, size_t available);

/*
 * Copies labels in ascending order of their keys, so that equal sets are equal bytes: a map has no
 * order. Of equal keys one label is kept, and none without a key or a value. `to` has
 * STACKBEAT_GO_LABELS_SIZE_MAX bytes. Returns the bytes written, a multiple of 8; 0: no labels are
 * left, nor is anything cut.
 */
size_t go_labels_sort(const struct stackbeat_go_labels *from, struct stackbeat_go_labels *to);

#endif
