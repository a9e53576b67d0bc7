// SPDX-License-Identifier: GPL-2.0
#include "report/short_name.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/utf8.h"

#define ELLIPSIS "\xe2\x80\xa6"
#define COLUMNS_MIN 5 /* a shorter rest says nothing */

/* The length of a character in bytes; a byte that is not UTF-8 is one of a single column. */
static size_t character(const char *text, size_t *columns)
{
	uint32_t code_point;
	size_t length = utf8_decode(text, &code_point);

	*columns = length && code_point >= 0x1100 ? 2 : 1;
	return length ? length : 1;
}

static size_t count_columns(const char *text, const char *end)
{
	size_t columns, sum = 0;

	for (; text < end; sum += columns)
		text += character(text, &columns);
	return sum;
}

/* The end of as many characters from `text` as fit into `columns`. */
static const char *skip_columns(const char *text, const char *end, size_t columns)
{
	size_t needed, length;

	for (; text < end; text += length, columns -= needed) {
		length = character(text, &needed);
		if (needed > columns)
			break;
	}
	return text;
}

/*
 * The opening parenthesis of the arguments at the end of a name, or NULL. One after '.' is a
 * receiver of Go, or belongs to "(anonymous namespace)" as one at the start does.
 */
static const char *find_arguments(const char *name, const char *end)
{
	const char *at = end;
	size_t depth = 0;

	if (end == name || end[-1] != ')')
		return NULL;
	while (at-- > name) {
		if (*at == ')')
			depth++;
		else if (*at == '(' && !--depth)
			break;
	}
	if (at <= name || strchr(".:/ ", at[-1]) || end - at <= 3)
		return NULL;
	return at;
}

/*
 * The next part of a path of packages or namespaces, outside brackets, or NULL. The receiver of a
 * method of Go, and the method, are parts, too: "pkg.(*T).Method".
 */
static const char *next_part(const char *text, const char *end)
{
	size_t depth = 0;

	for (; text < end; text++) {
		if (strchr("([{<", *text))
			depth++;
		else if (strchr(")]}>", *text) && depth)
			depth--;
		if (depth || text + 1 == end)
			continue;
		if (*text == '/' || (*text == '.' && text[1] == '('))
			return text + 1;
		if (text + 2 < end &&
		    ((*text == ':' && text[1] == ':') || (*text == ')' && text[1] == '.')))
			return text + 2;
	}
	return NULL;
}

/* `start` up to `end` with an ellipsis in the middle, of which two thirds are behind it. */
static char *shorten_middle(const char *start, const char *end, size_t columns)
{
	const char *head = skip_columns(start, end, (columns - 1) / 3), *tail;
	size_t room = columns - 1 - count_columns(start, head);
	size_t rest = count_columns(start, end), removed;
	char *text;

	/* The first character from which the rest fits. */
	for (tail = start; rest > room; rest -= removed)
		tail += character(tail, &removed);
	if (asprintf(&text, "%.*s" ELLIPSIS "%.*s", (int)(head - start), start, (int)(end - tail),
		     tail) < 0)
		return NULL;
	return text;
}

char *short_name(const char *name, size_t columns)
{
	const char *end = name + strlen(name), *arguments, *part, *next;
	const char *suffix = "";
	char *text;

	if (count_columns(name, end) <= columns)
		return strdup(name);
	if (columns < COLUMNS_MIN)
		return strdup("");
	arguments = find_arguments(name, end);
	if (arguments) {
		end = arguments;
		suffix = "(" ELLIPSIS ")";
	}
	for (part = NULL, next = name; next; next = next_part(next, end)) {
		size_t needed = count_columns(next, end) + (arguments ? 3 : 0) + (next > name);

		part = next;
		if (needed > columns)
			continue;
		if (asprintf(&text, "%s%.*s%s", next > name ? ELLIPSIS : "", (int)(end - next),
			     next, suffix) < 0)
			return NULL;
		return text;
	}
	if (count_columns(part, end) + 1 > columns)
		return shorten_middle(part, end, columns);
	if (asprintf(&text, "%s%.*s%s", part > name ? ELLIPSIS : "", (int)(end - part), part,
		     part > name ? "" : ELLIPSIS) < 0)
		return NULL;
	return text;
}
