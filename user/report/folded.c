// SPDX-License-Identifier: GPL-2.0
#include "report/folded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/utf8.h"
#include "pprof/profile.h"
#include "report/frame_name.h"

/* Separators of the format can't be in a name. */
static void print_name(const char *name, FILE *out)
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

static int print_address(const struct profile *profile, const struct profile_location *location,
			 FILE *out)
{
	char *name = address_name(profile, location);

	if (!name)
		return -ENOMEM;
	print_name(name, out);
	free(name);
	return 0;
}

/* Prints the separator before each frame, and sets it to that of all frames but the first. */
static int print_location(const struct profile *profile, const struct profile_location *location,
			  const char **separator, FILE *out)
{
	uint32_t line = location->line_count;
	int err = 0;

	do {
		const char *name = "";

		if (line)
			name = function_name(profile,
					     profile_lines(profile, location)[--line].function);
		fputs(*separator, out);
		*separator = ";";
		if (*name)
			print_name(name, out);
		else
			err = print_address(profile, location, out);
	} while (line && !err);
	return err;
}

int print_folded(const struct profile *profile, size_t type, FILE *out)
{
	for (size_t i = 0; i < profile->samples.count; i++) {
		uint32_t stack = profile->samples.items[i].stack;
		const uint32_t *locations = profile_stack_locations(profile, stack);
		const char *separator = "";

		for (uint32_t depth = profile->stacks.items[stack].count; depth-- > 0;) {
			if (print_location(profile, &profile->locations.items[locations[depth]],
					   &separator, out))
				return -ENOMEM;
		}
		if (*separator)
			fprintf(out, " %" PRId64 "\n", profile_values(profile, i)[type]);
	}
	return 0;
}
