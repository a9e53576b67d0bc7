/* SPDX-License-Identifier: GPL-2.0 */
/* Lines of text for a screen, without a terminal: what is shown, and how it stands out. */
#ifndef STACKBEAT_TOP_TOP_LINES_H
#define STACKBEAT_TOP_TOP_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum top_style {
	TOP_PLAIN,
	TOP_STRONG, /* bold: status */
	TOP_HEAD, /* inverse: names of columns */
	TOP_SELECTED, /* inverse */
	TOP_HIGH, /* a large share; red where there are colours */
	TOP_MIDDLE, /* a share that matters; green */
	TOP_STYLES
};

struct top_line {
	char *text; /* UTF-8, without control characters; only ASCII if `ascii` */
	enum top_style style;
};

/* All zero, but for `columns` and `ascii`: empty. */
struct top_lines {
	size_t columns; /* of the screen: longer lines are cut; 0: no limit */
	bool ascii; /* the terminal has no UTF-8 */
	struct top_line *items;
	size_t count, capacity;
};

/*
 * Adds a line of any text: control characters, also those that change the direction of writing, are
 * shown as '?'. Returns 0 or -ENOMEM.
 */
int top_lines_add(struct top_lines *lines, enum top_style style, const char *text);
int top_lines_format(struct top_lines *lines, enum top_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Adds a line that ends in a name of any text, shortened to what is left of the line. */
int top_lines_add_name(struct top_lines *lines, enum top_style style, const char *before,
		       const char *name);

void top_lines_clear(struct top_lines *lines);

/*
 * Returns a name of any text, to be freed, as it is shown in `columns` columns, see short_name();
 * SIZE_MAX: as a whole. NULL when out of memory.
 */
char *top_lines_name(const struct top_lines *lines, const char *name, size_t columns);

#endif
