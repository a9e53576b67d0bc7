// SPDX-License-Identifier: GPL-2.0
#include "symbolize/source_line.h"

#include <stdlib.h>
#include <string.h>

struct source_line *source_lines_copy(const struct source_line *lines, size_t count)
{
	struct source_line *copy = malloc(count * sizeof(*copy));

	if (copy)
		memcpy(copy, lines, count * sizeof(*copy));
	return copy;
}
