/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names of windows in a store: the start in UTC, with microseconds, and the length in seconds, as
 * in "20260131T235900.000000Z-60s.pb.gz".
 */
#ifndef STACKBEAT_STORE_WINDOW_NAME_H
#define STACKBEAT_STORE_WINDOW_NAME_H

#include <stdbool.h>
#include <stdint.h>

#define WINDOW_NAME_SIZE 64u /* bytes, with the NUL */
#define WINDOW_SECONDS_MAX 3600u

/* Years 1970 to 9999. */
#define WINDOW_START_MAX (INT64_C(253402300799) * 1000000 + 999999)

#define US_PER_SECOND INT64_C(1000000)

struct window_name {
	int64_t start_us; /* since 1970 */
	uint32_t seconds; /* 1 to WINDOW_SECONDS_MAX */
};

/* Writes a name. Returns false, with `text` "", if the start is out of range. */
bool window_name_format(const struct window_name *name, char text[WINDOW_NAME_SIZE]);

/* Parses a name exactly as window_name_format() writes it. Returns false if it is none. */
bool window_name_parse(const char *text, struct window_name *name);

/* Returns the start of the slot of `seconds` that has `time_us`, a time since 1970. */
int64_t window_slot(int64_t time_us, uint32_t seconds);

/*
 * Returns the end of a window, as far as the name gives it: a window does not cross the next
 * multiple of its length.
 */
int64_t window_end(const struct window_name *name);

#endif
