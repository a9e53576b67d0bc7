// SPDX-License-Identifier: GPL-2.0
#include "store/window_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A digit for each 0. */
#define PATTERN "00000000T000000.000000Z-"
#define SUFFIX "s.pb.gz"

bool window_name_format(const struct window_name *name, char text[WINDOW_NAME_SIZE])
{
	const time_t seconds = name->start_us / US_PER_SECOND;
	struct tm utc;
	size_t length;

	*text = '\0';
	if (name->start_us < 0 || name->start_us > WINDOW_START_MAX || !gmtime_r(&seconds, &utc))
		return false;
	length = strftime(text, WINDOW_NAME_SIZE, "%Y%m%dT%H%M%S", &utc);
	snprintf(text + length, WINDOW_NAME_SIZE - length, ".%06dZ-%u" SUFFIX,
		 (int)(name->start_us % US_PER_SECOND), name->seconds);
	return true;
}

static bool matches_pattern(const char *text)
{
	for (const char *pattern = PATTERN; *pattern; pattern++, text++) {
		if (*pattern == '0' ? *text < '0' || *text > '9' : *text != *pattern)
			return false;
	}
	return true;
}

/* Moves *text behind at most `digits` digits, and returns their number. */
static uint32_t take_number(const char **text, unsigned int digits)
{
	uint32_t number = 0;

	for (; digits && **text >= '0' && **text <= '9'; digits--)
		number = number * 10 + (uint32_t)(*(*text)++ - '0');
	return number;
}

/* timegm() turns a date that does not exist into another one. */
static bool is_same_date(const struct tm *left, const struct tm *right)
{
	return left->tm_year == right->tm_year && left->tm_mon == right->tm_mon &&
	       left->tm_mday == right->tm_mday && left->tm_hour == right->tm_hour &&
	       left->tm_min == right->tm_min && left->tm_sec == right->tm_sec;
}

bool window_name_parse(const char *text, struct window_name *name)
{
	struct tm given, utc = {0};
	uint32_t microseconds;

	if (!matches_pattern(text))
		return false;
	utc.tm_year = (int)take_number(&text, 4) - 1900;
	utc.tm_mon = (int)take_number(&text, 2) - 1;
	utc.tm_mday = (int)take_number(&text, 2);
	text++;
	utc.tm_hour = (int)take_number(&text, 2);
	utc.tm_min = (int)take_number(&text, 2);
	utc.tm_sec = (int)take_number(&text, 2);
	text++;
	microseconds = take_number(&text, 6);
	text += 2;
	given = utc;
	name->start_us = timegm(&utc) * US_PER_SECOND + microseconds;
	/* The number has one spelling. */
	if (name->start_us < 0 || !is_same_date(&given, &utc) || *text == '0')
		return false;
	name->seconds = take_number(&text, 6);
	return name->seconds && name->seconds <= WINDOW_SECONDS_MAX && !strcmp(text, SUFFIX);
}

int64_t window_slot(int64_t time_us, uint32_t seconds)
{
	return time_us - time_us % (seconds * US_PER_SECOND);
}

int64_t window_end(const struct window_name *name)
{
	return window_slot(name->start_us, name->seconds) + name->seconds * US_PER_SECOND;
}
