// SPDX-License-Identifier: GPL-2.0
#include "report/folded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/error.h"
#include "lib/utf8.h"
#include "report/call_tree.h"

/* The name of what has no frame. */
#define NO_FRAMES "[no frames]"

/* Separators of the format can't be in a name. */
static void folded_print_name(const char *name, FILE *out)
{
	char character[5];
	size_t length;

	for (; *name; name += length) {
		length = utf8_decode(name, NULL);
		/* Also if it is not UTF-8. */
		length += !length;
		memcpy(character, name, length);
		character[length] = '\0';
		if (*name == ';')
			fputc(':', out);
		else if (*name == '\n' || *name == '\r')
			fputc(' ', out);
		else
			utf8_print(out, character);
	}
}

/* The names from the root to a node, which begin in the array at its end. */
struct path {
	uint32_t *nodes;
	size_t count, capacity;
};

static int print_line(const struct calltree *tree, uint32_t node, struct path *path, FILE *out)
{
	path->count = 0;
	for (uint32_t at = node; at; at = tree->nodes[at].parent) {
		if (array_reserve(&path->nodes, &path->capacity, path->count, 1,
				  sizeof(*path->nodes)))
			return -ENOMEM;
		path->nodes[path->count++] = at;
	}
	if (!path->count)
		fputs(NO_FRAMES, out);
	for (size_t i = path->count; i-- > 0;) {
		folded_print_name(tree->names[tree->nodes[path->nodes[i]].name], out);
		if (i)
			fputc(';', out);
	}
	fprintf(out, " %" PRId64 "\n", tree->nodes[node].self);
	return 0;
}

int print_folded(const struct profile *profile, size_t type, FILE *out, struct error *error)
{
	const struct calltree_options options = {.sample_type = type};
	struct path path = {.nodes = NULL};
	struct calltree *tree;
	int err = calltree_new(profile, &options, &tree, error);

	if (err)
		return err;
	for (uint32_t node = 0; node != CALLTREE_NONE && !err;
	     node = calltree_next(tree, node, false)) {
		if (tree->nodes[node].self)
			err = print_line(tree, node, &path, out);
	}
	free(path.nodes);
	calltree_free(tree);
	return err ? error_errno(error, -err, "the report") : 0;
}
