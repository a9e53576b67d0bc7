// SPDX-License-Identifier: GPL-2.0
#include "report/short_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/utf8.h"

#define ELLIPSIS "\xe2\x80\xa6"
#define ELLIPSIS_CHARACTER 0x2026
#define COLUMNS_MIN 5 /* a shorter rest says nothing */
#define SUFFIX_COLUMNS 3 /* of what stands for arguments */
#define OPERATOR "operator" /* of C++, whose name may have brackets */

/* The length of a character in bytes; a byte that is not UTF-8 is one of a single column. */
static size_t next_character(const char *text, size_t *columns)
{
	uint32_t code_point;
	size_t length = utf8_decode(text, &code_point);

	*columns = length && code_point >= 0x1100 && code_point != ELLIPSIS_CHARACTER ? 2 : 1;
	return length ? length : 1;
}

static size_t count_columns(const char *text, const char *end)
{
	size_t columns, sum = 0;

	for (; text < end; sum += columns)
		text += next_character(text, &columns);
	return sum;
}

size_t short_name_columns(const char *text)
{
	return count_columns(text, text + strlen(text));
}

/* The end of as many characters from `text` as fit into `columns`. */
static const char *skip_columns(const char *text, const char *end, size_t columns)
{
	size_t needed, length;

	for (; text < end; text += length, columns -= needed) {
		length = next_character(text, &needed);
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

static bool is_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The bracket that closes the arguments of a template or of a generic type at `open`, or NULL. */
static const char *find_close(const char *name, const char *open, const char *end)
{
	const char close = *open == '<' ? '>' : ']';
	size_t depth = 0;

	if (open == name || !is_of_word(open[-1]) ||
	    ((size_t)(open - name) >= strlen(OPERATOR) &&
	     !memcmp(open - strlen(OPERATOR), OPERATOR, strlen(OPERATOR))))
		return NULL;
	for (const char *at = open; at < end; at++) {
		if (*at == *open)
			depth++;
		else if (*at == close && at[-1] != '-' && !--depth)
			return at;
	}
	return NULL;
}

/* A copy of a name with an ellipsis for the arguments of each template, or NULL. */
static char *leave_out_templates(const char *name, const char *end)
{
	/* What is replaced has four bytes at least, and becomes five. */
	char *copy = malloc((size_t)(end - name) * 2 + 1), *next = copy;
	const char *start = name, *close;

	if (!copy)
		return NULL;
	while (name < end) {
		close = *name == '<' || *name == '[' ? find_close(start, name, end) : NULL;
		if (close && close - name > 2) {
			next += sprintf(next, "%c" ELLIPSIS "%c", *name, *close);
			name = close + 1;
		} else {
			*next++ = *name++;
		}
	}
	*next = '\0';
	return copy;
}

/* The longest end of a path from the start of a part on that fits, or else its last part, cut. */
static char *shorten_path(const char *name, const char *end, const char *suffix, size_t columns)
{
	const char *part = name, *next, *cut;
	char *text;

	for (next = name; next; next = next_part(next, end)) {
		size_t needed =
			count_columns(next, end) + (*suffix ? SUFFIX_COLUMNS : 0) + (next > name);

		part = next;
		if (needed > columns)
			continue;
		if (asprintf(&text, "%s%.*s%s", next > name ? ELLIPSIS : "", (int)(end - next),
			     next, suffix) < 0)
			return NULL;
		return text;
	}
	if (part > name && count_columns(part, end) + 1 <= columns) {
		if (asprintf(&text, ELLIPSIS "%.*s", (int)(end - part), part) < 0)
			return NULL;
		return text;
	}
	cut = skip_columns(part, end, columns - 1);
	if (asprintf(&text, "%.*s" ELLIPSIS, (int)(cut - part), part) < 0)
		return NULL;
	return text;
}

char *short_name(const char *name, size_t columns)
{
	const char *end = name + strlen(name), *arguments;
	const char *suffix = "";
	char *bare, *text;

	if (count_columns(name, end) <= columns)
		return strdup(name);
	if (columns < COLUMNS_MIN)
		return strdup("");
	arguments = find_arguments(name, end);
	if (arguments) {
		end = arguments;
		suffix = "(" ELLIPSIS ")";
		if (count_columns(name, end) + SUFFIX_COLUMNS <= columns)
			return shorten_path(name, end, suffix, columns);
	}
	bare = leave_out_templates(name, end);
	if (!bare)
		return NULL;
	text = shorten_path(bare, bare + strlen(bare), suffix, columns);
	free(bare);
	return text;
}
