/* SPDX-License-Identifier: GPL-2.0 */
/* What keeps a machine from good profiles, and what helps. */
#ifndef STACKBEAT_DOCTOR_DOCTOR_H
#define STACKBEAT_DOCTOR_DOCTOR_H

#include <stdbool.h>

#include "doctor/finding.h"

/* Where a machine's files are, for tests: below another directory. */
struct doctor_machine {
	const char *root; /* "": this machine */
	const char *build_tree; /* where `make module` leaves modules; "": nowhere */
};

/*
 * Makes all checks, and calls `fn` for what they find, in the order of their table. Changes
 * nothing. Believes nothing that processes of others say. Returns whether a recording is possible,
 * from any source.
 */
bool doctor_run(const struct doctor_machine *machine, finding_fn *fn, void *arg);

#endif
