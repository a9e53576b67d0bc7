/* SPDX-License-Identifier: GPL-2.0 */
/* Values with units, for people, as in pprof. */
#ifndef STACKBEAT_REPORT_UNITS_H
#define STACKBEAT_REPORT_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* A display unit. All zero: values are shown as they are, without a unit. */
struct unit {
	const char *name;
	double factor; /* in units of the profile */
};

#define UNIT_TEXT_MAX 48
#define PERCENT_TEXT_MAX 32

/* The best unit for values around `value`, which is in `profile_unit` ("nanoseconds", "bytes"). */
struct unit unit_choose(const char *profile_unit, double value);

/* The unit of the profile itself: values are integers, without the name of a unit. */
struct unit unit_raw(void);

#define UNITS_MAX 8

/*
 * Sets units[UNITS_MAX] to all units that unit_choose() may return, smallest first, and returns
 * their number. A unit is the best one for values from its factor on.
 */
size_t unit_list(const char *profile_unit, struct unit *units);

/* Writes `value` in `unit` into text[UNIT_TEXT_MAX], which it returns. */
const char *unit_format(char *text, int64_t value, const struct unit *unit);

/* As unit_format(), in the best unit for the value. */
const char *unit_format_best(char *text, int64_t value, const char *profile_unit);

/* Writes "12.34%" into text[PERCENT_TEXT_MAX], which it returns, without the sign. */
const char *percent_format(char *text, int64_t value, int64_t total);

#endif
