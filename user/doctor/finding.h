/* SPDX-License-Identifier: GPL-2.0 */
/* What a check finds. */
#ifndef STACKBEAT_DOCTOR_FINDING_H
#define STACKBEAT_DOCTOR_FINDING_H

enum finding_status {
	FINDING_OK,
	FINDING_WARNING, /* profiles lack something */
	FINDING_PROBLEM, /* there are none, or not by the module */
};

/* One line of text each, without control characters. `remedy` is empty if there is nothing to do.
 */
struct finding {
	const char *check; /* its name */
	enum finding_status status;
	char text[256], remedy[256];
};

typedef void finding_fn(void *arg, const struct finding *finding);

#endif
