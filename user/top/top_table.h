/* SPDX-License-Identifier: GPL-2.0 */
/* The rows of a tab of `stackbeat top`, from a profile. */
#ifndef STACKBEAT_TOP_TOP_TABLE_H
#define STACKBEAT_TOP_TOP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile;

enum top_tab {
	TOP_FUNCTIONS,
	TOP_SERVICES, /* see pprof/service.h */
	TOP_PROCESSES,
	TOP_CONTAINERS, /* containers, pods and systemd units */
	TOP_TABS
};

/* Returns the name of a tab in lower case, as on the command line; NULL behind the last one. */
const char *top_tab_name(enum top_tab tab);

enum top_relation {
	TOP_ROW, /* of a tab */
	TOP_CALLER, /* of a function */
	TOP_FUNCTION, /* itself */
	TOP_CALLEE,
};

struct top_row {
	char *name;
	enum top_relation relation;
	/* CPU time in ns, of the leaf, and of all frames: with callers and callees, the time of the
	 * calls is both. */
	int64_t self, total;
};

struct top_table {
	struct top_row *rows;
	size_t count;
	int64_t total; /* of all samples, in ns */
};

/*
 * Makes the rows of a tab, sorted by self, or by total if `by_total`, the largest first. Returns 0
 * or -ENOMEM. top_table_clear() is to be called in both cases.
 */
int top_table_make(struct top_table *table, const struct profile *profile, enum top_tab tab,
		   bool by_total);

/*
 * Makes the rows of a function: its callers, itself, its callees; each with the time of the samples
 * that have this call, counted once for each sample. Inlined functions count as called. Returns and
 * clears as top_table_make().
 */
int top_table_make_calls(struct top_table *table, const struct profile *profile,
			 const char *function);

void top_table_clear(struct top_table *table);

/*
 * Sets *part to a new profile with the samples of a row of a tab other than TOP_FUNCTIONS. Returns
 * 0 or -ENOMEM, or -EINVAL for a row that stands for samples without a label.
 */
int top_table_select(const struct profile *profile, enum top_tab tab, const char *row,
		     struct profile **part);

#endif
