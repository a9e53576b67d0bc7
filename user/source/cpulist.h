/* SPDX-License-Identifier: GPL-2.0 */
/* Lists of CPUs in the format of the kernel: "0,2-3". */
#ifndef STACKBEAT_SOURCE_CPULIST_H
#define STACKBEAT_SOURCE_CPULIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

#define CPULIST_CPUS_MAX 8192u /* the maximum of NR_CPUS */

struct cpulist {
	bool all; /* every CPU; `bits` are ignored */
	uint64_t bits[CPULIST_CPUS_MAX / 64];
};

/* Parses `text` into `list`; "" stands for all CPUs. Returns 0 or -EINVAL with a message. */
int cpulist_parse(const char *text, struct cpulist *list, struct error *error);

/*
 * Finds the CPUs to sample by default: all except isolated (isolcpus=) and nohz_full= ones, as read
 * from sysfs below `root` ("" except in tests). Sets `list`, and `text` of `size` bytes to the same
 * list, "" for all CPUs. Returns 0, or -EINVAL when all CPUs are isolated or nohz_full.
 */
int cpulist_default(const char *root, char *text, size_t size, struct cpulist *list);

/*
 * Sets `list` to the CPUs that are online, as read from sysfs below `root` ("" except in tests); to
 * all CPUs where sysfs can't be read.
 */
void cpulist_online(const char *root, struct cpulist *list);

/*
 * Returns how many CPUs of a list are online, as cpulist_online() reads them; where it can't, how
 * many of them the machine has.
 */
uint32_t cpulist_count_online(const char *root, const struct cpulist *list);

/* Writes a list as ranges, such as 0,2-3, or as "all"; it is truncated to `size` bytes. */
void cpulist_format(const struct cpulist *list, char *text, size_t size);

/* Returns whether both are the same list: all CPUs, or the same bits. */
bool cpulist_equal(const struct cpulist *a, const struct cpulist *b);

/* Returns whether `cpu` is in the list. */
bool cpulist_has(const struct cpulist *list, uint32_t cpu);

#endif
