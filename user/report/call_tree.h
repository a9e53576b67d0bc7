/* SPDX-License-Identifier: GPL-2.0 */
/* The samples of a profile as a tree of calls: what reports and flame graphs show. */
#ifndef STACKBEAT_REPORT_CALL_TREE_H
#define STACKBEAT_REPORT_CALL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"
#include "pprof/pprof_reader.h"

enum frame_kind {
	FRAME_ROOT, /* all samples */
	FRAME_GROUP, /* the samples with one value of a label */
	FRAME_USER,
	FRAME_KERNEL,
	FRAME_UNRESOLVED, /* no function is known: the name is a mapping and an address */
	FRAME_KIND_COUNT
};

#define CALLTREE_NONE UINT32_MAX

struct calltree_node {
	uint32_t name; /* index in names[] */
	uint32_t parent; /* indices in nodes[], or CALLTREE_NONE */
	uint32_t first_child; /* children are in order: largest total first, then by name */
	uint32_t next_sibling;
	int64_t self; /* of the samples that end here */
	int64_t total; /* with all below */
	enum frame_kind kind;
};

struct calltree {
	struct calltree_node *nodes; /* parents before children; 0 is the root */
	size_t node_count;
	char **names; /* each is there once */
	size_t name_count;
	int64_t total; /* sum of the absolute values of the samples */
};

struct calltree_options {
	size_t sample_type; /* index of the value to sum up */
	const char *group; /* label whose values are the nodes below the root; NULL: none */
	bool only_positive; /* leave out samples with values below 0, of differences */
	/* Bounds, for tests. 0: those of below. */
	size_t node_max, name_bytes_max;
};

/*
 * What a tree may have: a few bytes of a profile can stand for stacks of any depth, and for names
 * of any length.
 */
#define CALLTREE_NODES_MAX ((size_t)1 << 24)
#define CALLTREE_NAME_BYTES_MAX ((size_t)2 << 30) /* as often as they are met */

/*
 * Functions with the same name are one, whatever their file, as pprof has it. Inlined
 * functions have nodes of their own. Sums stay within the limits of their type.
 * Returns 0, and calltree_free(*tree) must follow; or -ENOMEM, or -E2BIG where a bound is exceeded.
 */
int calltree_new(const struct pprof_profile *profile, const struct calltree_options *options,
		 struct calltree **tree, struct error *error);

void calltree_free(struct calltree *tree);

/* Tells whether a sample of the profile has the label `key`. */
bool calltree_has_label(const struct pprof_profile *profile, const char *key);

/* The sum, and the absolute value, or the limit of the type that it is beyond. */
int64_t add_saturated(int64_t a, int64_t b);
int64_t magnitude(int64_t value);

/*
 * The node after `node` in a walk from the root over all nodes, each before its children,
 * or CALLTREE_NONE after the last. With `skip`, the walk leaves out what is below `node`.
 */
uint32_t calltree_next(const struct calltree *tree, uint32_t node, bool skip);

/* What is spent in a function. */
struct calltree_function {
	uint32_t name; /* index in names[] */
	int64_t flat; /* where it is the leaf */
	int64_t cum; /* where it is anywhere in the stack, counted once */
};

/*
 * The functions of a tree without groups, without those that are 0 in both, sorted by flat, then
 * cum (largest first), then name. Returns NULL when there is no memory; the caller frees it.
 */
struct calltree_function *calltree_functions(const struct calltree *tree, size_t *count);

#endif
