/* SPDX-License-Identifier: GPL-2.0 */
/* What checks have in common. Private to this directory. */
#ifndef STACKBEAT_DOCTOR_PATIENT_H
#define STACKBEAT_DOCTOR_PATIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "doctor/finding.h"
#include "lib/module_rules.h"

/* A machine, and what is known of it before the first check. */
struct patient {
	const char *root, *build_tree;
	finding_fn *fn;
	void *arg;
	const char *check; /* that runs */

	char release[128]; /* of the kernel */
	bool is_root;
	uint64_t capabilities; /* effective ones */
	struct module_rules rules;
	bool has_module; /* loaded, or can be */
	bool can_use_module, can_use_perf; /* with these rights */
};

/* Whether a capability (CAP_*) is effective. */
bool patient_has_capability(const struct patient *patient, unsigned int number);

/* Whether the user may sample all processes. */
bool patient_has_perfmon(const struct patient *patient);

/* Reads a number of a file; `otherwise` if there is none. */
long patient_number(const struct patient *patient, const char *path, long otherwise);

/* Whether a file is there, by a path below the root. */
bool patient_has_file(const struct patient *patient, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Reports a finding. `remedy` may be empty. Texts may have names from other users' processes.
 */
void patient_report(const struct patient *patient, enum finding_status status, const char *remedy,
		    const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
