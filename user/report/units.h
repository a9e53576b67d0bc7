/* SPDX-License-Identifier: GPL-2.0 */
/* Values with their units, for people, in the manner of pprof. */
#ifndef STACKBEAT_REPORT_UNITS_H
#define STACKBEAT_REPORT_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* A unit in which values are shown. All zero: as they are, without a unit. */
struct unit {
	const char *name;
	double factor; /* how much of the profile's unit one of it is */
};

#define UNIT_TEXT_MAX 48
#define PERCENT_TEXT_MAX 32

/* The unit of a profile ("nanoseconds", "bytes") for values around `value`. */
struct unit unit_choose(const char *profile_unit, double value);

/* The unit of a profile as it is: values are integers, without a unit behind them. */
struct unit unit_raw(void);

/* Writes `value` in `unit` into text[UNIT_TEXT_MAX], which it returns. */
const char *unit_format(char *text, int64_t value, const struct unit *unit);

/* As unit_format(), in the unit that is best for the value itself. */
const char *unit_format_best(char *text, int64_t value, const char *profile_unit);

/* Writes "12.34%" into text[PERCENT_TEXT_MAX], which it returns; signs are lost. */
const char *percent_format(char *text, int64_t value, int64_t total);

#endif
