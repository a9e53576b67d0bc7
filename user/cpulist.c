// SPDX-License-Identifier: GPL-2.0
#include "cpulist.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* Parses a CPU number at *text and moves behind it. */
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

bool cpulist_has(const struct cpulist *list, uint32_t cpu)
{
	return list->all || (cpu < CPULIST_CPUS_MAX && (list->bits[cpu / 64] >> cpu % 64 & 1));
}
