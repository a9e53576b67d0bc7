/* SPDX-License-Identifier: GPL-2.0 */
/* The pprof labels of the goroutines of a running Go program. All that is read is untrusted. */
#ifndef STACKBEAT_INSPECT_GOROUTINE_LABELS_H
#define STACKBEAT_INSPECT_GOROUTINE_LABELS_H

#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct goroutines;
struct goroutines_source;

/* Sets of labels that are read; most goroutines share them with others. Of more, none is read. */
#define GOROUTINE_LABEL_SETS_MAX 65536u

struct goroutine_labels {
	struct goroutine_label_set {
		uint64_t address; /* in the program */
		uint64_t goroutine; /* address of a g with it */
		size_t at; /* in `words` */
	} * sets; /* in ascending order of their addresses */
	size_t set_count;
	uint64_t *words; /* struct stackbeat_go_labels, sorted as by go_labels_sort() */
	size_t word_count, word_capacity;
};

/*
 * Reads the labels of goroutines that were read before. A set is left out, and marked by
 * STACKBEAT_GO_LABELS_CUT, if its goroutine has others afterwards: its memory may have been used
 * again meanwhile. Returns 0, to be followed by goroutine_labels_clear(), or -ENOMEM.
 */
int goroutine_labels_read(const struct goroutines_source *source,
			  const struct goroutines *goroutines, struct goroutine_labels *labels);
void goroutine_labels_clear(struct goroutine_labels *labels);

/* Returns the labels at an address, sorted; NULL: none. */
const struct stackbeat_go_labels *goroutine_labels_at(const struct goroutine_labels *labels,
						      uint64_t address);

#endif
