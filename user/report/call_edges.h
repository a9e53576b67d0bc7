/* SPDX-License-Identifier: GPL-2.0 */
/* A function of a call tree with its direct callers, or with what it calls. */
#ifndef STACKBEAT_REPORT_CALL_EDGES_H
#define STACKBEAT_REPORT_CALL_EDGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"

struct calltree;
struct calltree_options;
struct profile;

struct call_edge {
	uint32_t name; /* of the caller or callee; 0, the name of the root: there is none */
	int64_t value; /* of the samples with this call, each counted once */
};

struct call_edges {
	int64_t flat, cum; /* of the function */
	struct call_edge *items; /* largest first, then by name */
	size_t count;
};

/*
 * Finds the name of a function by what someone has typed: the name, or the name without its
 * arguments, template arguments, packages and namespaces, if it is the only such function. Returns
 * 0, or -ENOENT with a message that has similar names.
 */
int call_edges_find_function(const struct calltree *tree, const char *typed, uint32_t *name,
			     struct error *error);

/*
 * Sets *function to the name of the function in the tree of a profile, which the caller frees.
 * Returns 0, or as call_edges_find_function() and calltree_new().
 */
int call_edges_resolve(const struct profile *profile, const struct calltree_options *options,
		       const char *typed, char **function, struct error *error);

/*
 * Sums up the calls of a function: by its callers, or of its callees, as `pprof -peek`. Samples
 * without a caller or callee are the edge 0. Returns 0, and the caller frees the items, or -ENOMEM.
 */
int call_edges_make(const struct calltree *tree, uint32_t function, bool callers,
		    struct call_edges *edges);

#endif
