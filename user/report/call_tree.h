/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The samples of a profile as a call tree, for reports and flame graphs; or of two profiles, to
 * compare them.
 */
#ifndef STACKBEAT_REPORT_CALL_TREE_H
#define STACKBEAT_REPORT_CALL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"
#include "pprof/profile.h"

enum frame_kind {
	FRAME_ROOT, /* all samples */
	FRAME_GROUP, /* all samples with one value of a label */
	FRAME_USER,
	FRAME_KERNEL,
	FRAME_UNRESOLVED, /* without a function: the name is a mapping and an address */
	FRAME_TRUNCATED, /* the unknown callers of truncated stacks: the name has the cause */
	FRAME_KIND_COUNT
};

#define CALLTREE_NONE UINT32_MAX

#define GROUP_SERVICE "service"

struct calltree_node {
	uint32_t name; /* index in names[] */
	uint32_t parent; /* indices in nodes[], or CALLTREE_NONE */
	uint32_t first_child; /* children are sorted: largest weight first, then by name */
	uint32_t next_sibling;
	int64_t self; /* of the samples with this leaf */
	int64_t total; /* with all descendants */
	int64_t base_self, base_total; /* the same of the base; 0 without one */
	int64_t weight; /* sum of the absolute values of both selves, with all descendants */
	enum frame_kind kind;
	bool inlined; /* at each of its occurrences */
};

struct calltree {
	struct calltree_node *nodes; /* parents before children; 0 is the root */
	size_t node_count;
	char **names; /* unique */
	size_t name_count;
	int64_t total; /* sum of the absolute values of the samples */
	int64_t base_total; /* the same of the base; 0 without one */
	int64_t unscaled_total; /* `total` before it was scaled to `base_total` */
	uint32_t *slots; /* by name, all 0: for calltree_functions() and calltree_sums() */
};

struct calltree_options {
	size_t sample_type; /* index of the value to sum up */
	/*
	 * Label whose values are the nodes below the root, or GROUP_SERVICE: the services of
	 * pprof/service.h, if no sample has such a label. NULL: none.
	 */
	const char *group;
	bool marks_truncated; /* truncated stacks are below a node with the cause */
	/*
	 * Stacks begin at the outermost frame of this function or, `upwards`, at the innermost one,
	 * from which they go on to its callers. Samples without it are the root's. NULL: whole
	 * stacks, `upwards` from the leaf to the root, whose truncated stacks end at the cause.
	 */
	const char *from;
	bool upwards;
	bool folds_profiler; /* samples of the profiler's own processes are one node below the root
			      */
	bool only_positive; /* ignore samples with values below 0, as in differences of profiles */
	const struct profile *base; /* to compare the profile with; NULL: none */
	size_t base_type; /* index of the value of the base */
	bool absolute; /* do not scale the profile to the total of the base */
	int64_t whole, base_whole; /* totals to scale by; 0: the sums of the samples */
	/* Limits, for tests. 0: those below. */
	size_t node_max, name_bytes_max;
};

/*
 * Limits of a tree: a few bytes of a profile can encode stacks of any depth, and names of any
 * length.
 */
#define CALLTREE_NODES_MAX ((size_t)1 << 24)
#define CALLTREE_NAME_BYTES_MAX ((size_t)2 << 30) /* counted at each occurrence */

/*
 * Sets the sample types in `options` to the type `name`, NULL for the default of the profile; the
 * base must have the same type. Returns 0, or -EINVAL with a message.
 */
int calltree_find_types(const struct profile *profile, const char *name,
			struct calltree_options *options, struct error *error);

/*
 * Makes the call tree of a profile. Functions with the same name are one, whatever their file, as
 * in pprof. Inlined functions have nodes of their own. With a base, the values of the profile are
 * scaled to the total of the base, as by -normalize of pprof, unless `absolute`. Sums saturate.
 * Returns 0, and calltree_free(*tree) must follow; or -ENOMEM, -E2BIG if a limit is exceeded, or
 * -ENODATA if a profile without samples would have to be scaled.
 */
int calltree_new(const struct profile *profile, const struct calltree_options *options,
		 struct calltree **tree, struct error *error);

void calltree_free(struct calltree *tree);

/* Whether a sample of the profile has the label `key`. */
bool calltree_has_label(const struct profile *profile, const char *key);

/* Whether a sample of the profile is of another process than the profiler's, or may be. */
bool calltree_has_other_processes(const struct profile *profile);

/* The sum, the difference, and the absolute value; all saturate. */
int64_t add_saturated(int64_t a, int64_t b);
int64_t subtract_saturated(int64_t a, int64_t b);
int64_t magnitude(int64_t value);

/*
 * The node after `node` in a preorder traversal, or CALLTREE_NONE after the last one. `skip`: skips
 * the descendants of `node`.
 */
uint32_t calltree_next(const struct calltree *tree, uint32_t node, bool skip);

/* The values of a function. */
struct calltree_function {
	uint32_t name; /* index in names[] */
	int64_t flat; /* of the samples with this leaf */
	int64_t cum; /* of the samples with the function anywhere in the stack, counted once */
	int64_t base_flat, base_cum; /* the same of the base; 0 without one */
};

/*
 * The values of all names below the node `top`, as for calltree_functions(), by name. The caller
 * frees the array. Returns NULL when out of memory.
 */
struct calltree_function *calltree_sums(const struct calltree *tree, uint32_t top);

/*
 * The functions below the node `top`, which is the root or a group whose children are no groups,
 * except those with flat and cum 0, sorted by flat, then cum (largest first), then name; with a
 * base, those that differ from it, sorted by the differences. The caller frees the array. Returns
 * NULL when out of memory. The effort follows the nodes below `top`, not all names.
 */
struct calltree_function *calltree_functions(const struct calltree *tree, uint32_t top,
					     size_t *count);

#endif
