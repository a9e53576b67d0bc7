/* SPDX-License-Identifier: GPL-2.0 */
/* Adds a part of a profile to another one: some samples, with some of their labels. */
#ifndef STACKBEAT_PPROF_PROFILE_SELECT_H
#define STACKBEAT_PPROF_PROFILE_SELECT_H

#include <stdbool.h>
#include <stdint.h>

struct profile;

struct profile_selection {
	/* Samples: NULL or 0 selects all. */
	const char *service; /* see service.h */
	const char *const *services; /* of each sample of `from`; NULL: service_of() */
	const char *container; /* value of the label */
	const char *cgroup; /* this control group, and those below it */
	int64_t pid;
	/*
	 * LABEL_SET()s that stay, see labels.h; with LABEL_GO_LABELS all labels that are not
	 * stackbeat's: their keys don't distinguish them.
	 */
	uint32_t labels;
	bool without_symbols; /* addresses alone */
};

/*
 * Adds the selected samples of `from`, and the entries that they refer to, to a profile with the
 * same value types; one without value types takes over the head. Comments are not added. Sums of
 * the selected samples stay exact. Returns 0, -EINVAL with nothing added if the types differ, or
 * -ENOMEM: `into` may only be freed then.
 */
int profile_select(struct profile *into, const struct profile *from,
		   const struct profile_selection *selection);

#endif
