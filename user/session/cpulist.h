/* SPDX-License-Identifier: GPL-2.0 */
/* Lists of CPUs as the kernel writes them: "0,2-3". */
#ifndef STACKBEAT_SESSION_CPULIST_H
#define STACKBEAT_SESSION_CPULIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

#define CPULIST_CPUS_MAX 8192u /* as NR_CPUS has it at most */

struct cpulist {
	bool all; /* every CPU, whatever `bits` say */
	uint64_t bits[CPULIST_CPUS_MAX / 64];
};

/*
 * Parses `text` into `list`; "" stands for all CPUs. Returns 0 or -EINVAL, with
 * a message that names what is wrong.
 */
int cpulist_parse(const char *text, struct cpulist *list, struct error *error);

/*
 * The CPUs to sample where none are named: all but those that are kept free of
 * the kernel's own work, by isolcpus= and nohz_full=. They are read below `root`
 * ("" but for tests). `text` gets the list, "" for all. Returns 0 or -EINVAL
 * when all of them are kept free.
 */
int cpulist_default(const char *root, char *text, size_t size, struct cpulist *list,
		    struct error *error);

bool cpulist_has(const struct cpulist *list, uint32_t cpu);

#endif
