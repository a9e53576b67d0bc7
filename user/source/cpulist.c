// SPDX-License-Identifier: GPL-2.0
#include "source/cpulist.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/error.h"

/* Parses a CPU number at *text and advances *text behind it. */
static bool parse_cpu(const char **text, unsigned long *cpu)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	*cpu = strtoul(*text, &end, 10);
	*text = end;
	return !errno && *cpu < CPULIST_CPUS_MAX;
}

int cpulist_parse(const char *text, struct cpulist *list, struct error *error)
{
	const char *at = text;
	unsigned long first, last;

	memset(list, 0, sizeof(*list));
	list->all = !*text;
	while (*at) {
		if (!parse_cpu(&at, &first))
			goto invalid;
		last = first;
		if (*at == '-') {
			at++;
			if (!parse_cpu(&at, &last) || last < first)
				goto invalid;
		}
		for (; first <= last; first++)
			list->bits[first / 64] |= UINT64_C(1) << first % 64;
		if (*at == ',' && at[1])
			at++;
		else if (*at)
			goto invalid;
	}
	return 0;

invalid:
	return error_set(error, EINVAL, "'%s' is not a list of CPUs like 0,2-3", text);
}

/* Reads a list of sysfs; it is empty where the file is missing or contains "(null)". */
static void cpulist_read_file(const char *root, const char *name, struct cpulist *list)
{
	char path[4096], text[4096] = "";
	FILE *stream;

	snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/%s", root, name);
	stream = fopen(path, "re");
	if (stream && !fgets(text, sizeof(text), stream))
		*text = '\0';
	if (stream)
		fclose(stream);
	text[strcspn(text, "\n")] = '\0';
	if (!*text || cpulist_parse(text, list, NULL))
		memset(list, 0, sizeof(*list));
}

void cpulist_format(const struct cpulist *list, char *text, size_t size)
{
	size_t used = 0;
	uint32_t first, last;

	snprintf(text, size, "%s", list->all ? "all" : "");
	if (list->all)
		return;
	for (first = 0; first < CPULIST_CPUS_MAX && used < size; first = last + 1) {
		last = first;
		if (!cpulist_has(list, first))
			continue;
		while (cpulist_has(list, last + 1))
			last++;
		used += snprintf(text + used, size - used, "%s%u", used ? "," : "", first);
		if (last > first && used < size)
			used += snprintf(text + used, size - used, "-%u", last);
	}
}

int cpulist_default(const char *root, char *text, size_t size, struct cpulist *list)
{
	struct cpulist isolated, nohz_full;
	uint64_t excluded = 0, sampled = 0;

	cpulist_read_file(root, "isolated", &isolated);
	cpulist_read_file(root, "nohz_full", &nohz_full);
	cpulist_read_file(root, "possible", list);
	for (size_t i = 0; i < CPULIST_CPUS_MAX / 64; i++) {
		excluded |= list->bits[i] & (isolated.bits[i] | nohz_full.bits[i]);
		list->bits[i] &= ~(isolated.bits[i] | nohz_full.bits[i]);
		sampled |= list->bits[i];
	}
	*text = '\0';
	list->all = !excluded;
	if (!excluded)
		return 0;
	if (!sampled)
		return -EINVAL;
	cpulist_format(list, text, size);
	return 0;
}

void cpulist_online(const char *root, struct cpulist *list)
{
	cpulist_read_file(root, "online", list);
	/* A CPU runs this. */
	list->all = true;
	for (size_t i = 0; i < CPULIST_CPUS_MAX / 64; i++)
		list->all = list->all && !list->bits[i];
}

uint32_t cpulist_count_online(const char *root, const struct cpulist *list)
{
	struct cpulist online;
	uint32_t end = CPULIST_CPUS_MAX, count = 0;

	cpulist_online(root, &online);
	if (online.all)
		end = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	for (uint32_t cpu = 0; cpu < end; cpu++)
		count += cpulist_has(&online, cpu) && cpulist_has(list, cpu);
	return count;
}

bool cpulist_equal(const struct cpulist *a, const struct cpulist *b)
{
	return a->all == b->all && (a->all || !memcmp(a->bits, b->bits, sizeof(a->bits)));
}

bool cpulist_has(const struct cpulist *list, uint32_t cpu)
{
	return list->all || (cpu < CPULIST_CPUS_MAX && (list->bits[cpu / 64] >> cpu % 64 & 1));
}
