// SPDX-License-Identifier: GPL-2.0
#include "report/units.h"

#include "lib/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define KIB 1024.0

/* The units of one kind, smallest first. `aliases` are their names in profiles, singular. */
struct scale {
	const char *name;
	const char *aliases[4];
	double factor;
};

static const struct scale times[] = {
	{"ns", {"ns", "nanosecond"}, 1},    {"us", {"us", "\xce\xbcs", "microsecond"}, 1e3},
	{"ms", {"ms", "millisecond"}, 1e6}, {"s", {"s", "sec", "second"}, 1e9},
	{"hrs", {"hr", "hour"}, 3600e9},    {0},
};

static const struct scale sizes[] = {
	{"B", {"b", "byte"}, 1},
	{"kB", {"kb", "kbyte", "kilobyte"}, KIB},
	{"MB", {"mb", "mbyte", "megabyte"}, KIB *KIB},
	{"GB", {"gb", "gbyte", "gigabyte"}, KIB *KIB *KIB},
	{"TB", {"tb", "tbyte", "terabyte"}, KIB *KIB *KIB *KIB},
	{0},
};

static const struct scale *const kinds[] = {times, sizes, NULL};

static bool is_alias(const char *name, const char *alias)
{
	size_t length = strlen(alias);

	if (strncasecmp(name, alias, length))
		return false;
	return !name[length] || (length > 1 && !strcasecmp(name + length, "s"));
}

static const struct scale *find_in_kind(const struct scale *scale, const char *name)
{
	size_t i;

	for (; scale->name; scale++)
		for (i = 0; i < sizeof(scale->aliases) / sizeof(*scale->aliases); i++)
			if (scale->aliases[i] && is_alias(name, scale->aliases[i]))
				return scale;
	return NULL;
}

size_t unit_list(const char *profile_unit, struct unit *units)
{
	const struct scale *const *kind, *from = NULL, *scale;
	size_t count = 0;

	for (kind = kinds; *kind && !from; kind++)
		from = find_in_kind(*kind, profile_unit);
	if (!from) {
		units[0] = (struct unit){!strcmp(profile_unit, "count") ? "" : profile_unit, 1};
		return 1;
	}
	scale = kind[-1];
	do {
		units[count++] = (struct unit){scale->name, scale->factor / from->factor};
	} while ((++scale)->name);
	return count;
}

struct unit unit_choose(const char *profile_unit, double value)
{
	struct unit units[UNITS_MAX];
	size_t count = unit_list(profile_unit, units), best = 0;

	while (best + 1 < count && fabs(value) >= units[best + 1].factor)
		best++;
	return units[best];
}

struct unit unit_raw(void)
{
	return (struct unit){.name = NULL};
}

const char *unit_format(char *text, int64_t value, const struct unit *unit)
{
	char *decimals;

	if (!unit->name) {
		snprintf(text, UNIT_TEXT_MAX, "%" PRId64, value);
		return text;
	}
	snprintf(text, UNIT_TEXT_MAX, "%.2f", (double)value / unit->factor);
	decimals = strstr(text, ".00");
	if (decimals)
		*decimals = '\0';
	if (!strcmp(text, "0") || !strcmp(text, "-0"))
		return strcpy(text, "0");
	strncat(text, unit->name, UNIT_TEXT_MAX - 1 - strlen(text));
	/* Values of an unknown unit are printed as they are in the profile. */
	utf8_sanitize(text);
	return text;
}

const char *unit_format_best(char *text, int64_t value, const char *profile_unit)
{
	struct unit unit = unit_choose(profile_unit, value);

	return unit_format(text, value, &unit);
}

const char *percent_format(char *text, int64_t value, int64_t total)
{
	double percent = total ? fabs((double)value / (double)total) * 100 : 0;

	if (percent >= 99.95 && percent <= 100.05)
		snprintf(text, PERCENT_TEXT_MAX, "100%%");
	else if (percent >= 1)
		snprintf(text, PERCENT_TEXT_MAX, "%.2f%%", percent);
	else
		snprintf(text, PERCENT_TEXT_MAX, "%.2g%%", percent);
	return text;
}
