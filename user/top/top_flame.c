// SPDX-License-Identifier: GPL-2.0
#include "top/top_flame.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/error.h"
#include "pprof/profile.h"
#include "report/call_tree.h"
#include "report/short_name.h"
#include "top/top_lines.h"

#define FLAME_COLUMNS_DEFAULT 80u

/* The frames of a depth. */
struct top_flame_row {
	char *text;
	size_t size, capacity; /* bytes */
	size_t columns; /* that have text */
	int64_t next; /* where the next frame begins, in units of the samples */
};

struct top_flame {
	const struct top_lines *lines; /* how names are shown */
	const struct calltree *tree;
	size_t columns;
	struct top_flame_row *rows;
	size_t count, capacity;
};

static size_t top_flame_column(const struct top_flame *flame, int64_t value)
{
	return (size_t)((double)value * (double)flame->columns / (double)flame->tree->total);
}

static int top_flame_append(struct top_flame_row *row, const char *text, size_t fill)
{
	const size_t length = strlen(text);

	if (array_reserve(&row->text, &row->capacity, row->size, length + fill + 1, 1))
		return -ENOMEM;
	memcpy(row->text + row->size, text, length);
	memset(row->text + row->size + length, ' ', fill);
	row->size += length + fill;
	row->text[row->size] = '\0';
	return 0;
}

/* Draws the frame of a node from column `from` to `to`. */
static int top_flame_draw(const struct top_flame *flame, struct top_flame_row *row, uint32_t node,
			  size_t from, size_t to)
{
	const char *name = flame->tree->names[flame->tree->nodes[node].name];
	char *text = top_lines_name(flame->lines, name, to - from - 1);
	int err;

	if (!text)
		return -ENOMEM;
	err = top_flame_append(row, "", from - row->columns);
	if (!err)
		err = top_flame_append(row, "|", 0);
	if (!err)
		err = top_flame_append(row, text, to - from - 1 - short_name_columns(text));
	row->columns = to;
	free(text);
	return err;
}

/* Places a node of a depth. Returns 1 if it is drawn, 0 if it is too narrow, or -ENOMEM. */
static int top_flame_place(struct top_flame *flame, uint32_t node, size_t depth)
{
	const int64_t width = flame->tree->nodes[node].total;
	int64_t start;
	size_t from, to;

	if (depth + 2 > flame->count) {
		if (array_reserve(&flame->rows, &flame->capacity, flame->count, 2,
				  sizeof(*flame->rows)))
			return -ENOMEM;
		while (flame->count < depth + 2)
			flame->rows[flame->count++] = (struct top_flame_row){0};
	}
	start = flame->rows[depth].next;
	flame->rows[depth].next = add_saturated(start, width);
	from = top_flame_column(flame, start);
	to = top_flame_column(flame, add_saturated(start, width));
	flame->rows[depth + 1].next = start;
	if (to <= from || to > flame->columns)
		return 0;
	return top_flame_draw(flame, &flame->rows[depth], node, from, to) ? -ENOMEM : 1;
}

static int top_flame_make(struct top_flame *flame)
{
	const struct calltree_node *nodes = flame->tree->nodes;
	uint32_t node = 0, next;
	size_t depth = 0;
	int placed;

	if (flame->tree->total <= 0)
		return 0;
	for (;;) {
		placed = top_flame_place(flame, node, depth);
		if (placed < 0)
			return placed;
		next = calltree_next(flame->tree, node, !placed);
		if (next == CALLTREE_NONE)
			return 0;
		for (; node != nodes[next].parent; node = nodes[node].parent)
			depth--;
		depth++;
		node = next;
	}
}

int top_flame_add(struct top_lines *lines, const struct profile *profile, size_t first, size_t rows,
		  size_t *depth)
{
	const struct calltree_options options = {.sample_type = PROFILE_CPU};
	struct top_flame flame = {
		.lines = lines,
		.columns = lines->columns ? lines->columns : FLAME_COLUMNS_DEFAULT,
	};
	struct calltree *tree;
	struct error error;
	size_t drawn = 0;
	int err = calltree_new(profile, &options, &tree, &error);

	if (err)
		return -ENOMEM;
	flame.tree = tree;
	err = top_flame_make(&flame);
	while (drawn < flame.count && flame.rows[drawn].text)
		drawn++;
	for (size_t i = first; i < drawn && i - first < rows && !err; i++)
		err = top_lines_add(lines, TOP_PLAIN, flame.rows[i].text);
	for (size_t i = 0; i < flame.count; i++)
		free(flame.rows[i].text);
	free(flame.rows);
	calltree_free(tree);
	if (depth)
		*depth = drawn;
	return err;
}
