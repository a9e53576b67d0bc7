/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Services: what samples are attributed to when a profile of a machine is divided. The service of a
 * sample is its container, pod or systemd unit (its label "container"), else "kernel" for kernel
 * threads, else the name of its process; "unknown" if the profile has none of them.
 */
#ifndef STACKBEAT_PPROF_SERVICE_H
#define STACKBEAT_PPROF_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/string_table.h"

struct profile;

#define SERVICE_KERNEL "kernel"
#define SERVICE_UNKNOWN "unknown"

/* Returns the service of a sample, a string of the profile or a constant. */
const char *service_of(const struct profile *profile, size_t sample);

struct service {
	const char *name; /* in the table of names */
	int64_t samples, cpu_ns;
};

/* Sums by service. All zero: none. */
struct services {
	struct service *items;
	size_t count, capacity;
	struct string_table names; /* private: numbered as the items, until they are sorted */
};

/*
 * Adds the values of a recording (see profile_set_recorded_types()). Returns 0 or -ENOMEM;
 * services_clear() is to be called in both cases.
 */
int services_add(struct services *services, const struct profile *profile);

/* Adds to the sums of a service. Returns 0 or -ENOMEM. */
int services_add_sum(struct services *services, const char *name, int64_t samples, int64_t cpu_ns);

#define SERVICE_OTHERS "others"
#define USER_SERVICES_MAX 16u /* of each user, with the prefix of container.h, in a division */

/* The samples of a profile by service, of which there are few. All zero: none. */
struct service_division {
	struct services services; /* sorted, but for SERVICE_OTHERS, which is the last one */
	const char **names; /* of the service of each sample */
	size_t merged; /* services that are a part of another one */
	struct string_table strings; /* private */
};

/*
 * Divides a recording into at most `max` services, from 2 on. The number of services is up to the
 * users: a user with more than USER_SERVICES_MAX has one alone, user@UID.service, and the smallest
 * beyond `max` are SERVICE_OTHERS. Returns 0 or -ENOMEM; service_division_clear() is to be called
 * in both cases.
 */
int service_division_make(struct service_division *division, const struct profile *profile,
			  size_t max);
void service_division_clear(struct service_division *division);

/* Sorts the services by CPU time, the largest first. Nothing can be added afterwards. */
void services_sort(struct services *services);
void services_clear(struct services *services);

#endif
