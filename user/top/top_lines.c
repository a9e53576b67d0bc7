// SPDX-License-Identifier: GPL-2.0
#include "top/top_lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/utf8.h"
#include "report/short_name.h"

#define ELLIPSIS "\xe2\x80\xa6"
#define NAME_COLUMNS_MIN 5 /* see short_name() */

/* Replaces, in place, what a terminal without UTF-8 can't show. */
static void top_lines_to_ascii(char *text)
{
	char *out = text;

	while (*text) {
		const size_t length = utf8_decode(text, NULL);

		if (length == 1)
			*out++ = *text;
		else
			*out++ = strncmp(text, ELLIPSIS, strlen(ELLIPSIS)) ? '?' : '~';
		text += length ? length : 1;
	}
	*out = '\0';
}

/* Cuts a text that is wider than the screen. */
static void top_lines_cut(char *text, size_t columns)
{
	char *end = text + strlen(text);

	while (end > text && short_name_columns(text) > columns) {
		do
			end--;
		while (end > text && ((unsigned char)*end & 0xc0) == 0x80);
		*end = '\0';
	}
}

int top_lines_add(struct top_lines *lines, enum top_style style, const char *text)
{
	char *copy;

	if (array_reserve(&lines->items, &lines->capacity, lines->count, 1, sizeof(*lines->items)))
		return -ENOMEM;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	utf8_sanitize(copy);
	if (lines->ascii)
		top_lines_to_ascii(copy);
	if (lines->columns)
		top_lines_cut(copy, lines->columns);
	lines->items[lines->count++] = (struct top_line){copy, style};
	return 0;
}

int top_lines_format(struct top_lines *lines, enum top_style style, const char *format, ...)
{
	va_list arguments;
	char *text;
	int length, err;

	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0)
		return -ENOMEM;
	err = top_lines_add(lines, style, text);
	free(text);
	return err;
}

char *top_lines_name(const struct top_lines *lines, const char *name, size_t columns)
{
	char *clean = strdup(name), *text;

	if (!clean)
		return NULL;
	/* Before it is measured. */
	utf8_sanitize(clean);
	if (columns == SIZE_MAX)
		return clean;
	text = short_name(clean, columns);
	free(clean);
	if (text && lines->ascii)
		top_lines_to_ascii(text);
	return text;
}

int top_lines_add_name(struct top_lines *lines, enum top_style style, const char *before,
		       const char *name)
{
	const size_t used = short_name_columns(before);
	size_t room = SIZE_MAX;
	char *text;
	int err;

	if (lines->columns)
		room = lines->columns > used + NAME_COLUMNS_MIN ? lines->columns - used
								: NAME_COLUMNS_MIN;
	text = top_lines_name(lines, name, room);
	if (!text)
		return -ENOMEM;
	err = top_lines_format(lines, style, "%s%s", before, text);
	free(text);
	return err;
}

void top_lines_clear(struct top_lines *lines)
{
	for (size_t i = 0; i < lines->count; i++)
		free(lines->items[i].text);
	free(lines->items);
	*lines = (struct top_lines){.columns = lines->columns, .ascii = lines->ascii};
}
