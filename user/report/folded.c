// SPDX-License-Identifier: GPL-2.0
#include "report/folded.h"

#include <inttypes.h>

#include "pprof/profile.h"

/* Separators of the format can't be in a name. */
static void print_name(const char *name, FILE *out)
{
	for (; *name; name++) {
		char shown = *name;

		if (shown == ';')
			shown = ':';
		if (shown == '\n' || shown == '\r')
			shown = ' ';
		fputc(shown, out);
	}
}

static const char *file_name(const struct profile *profile, const struct profile_location *location)
{
	const char *path = profile_text(profile, profile->mappings.items[location->mapping].file);
	const char *name = path;

	for (const char *next = path; *next; next++) {
		if (*next == '/')
			name = next + 1;
	}
	return *name ? name : "unknown";
}

static void print_location(const struct profile *profile, const struct profile_location *location,
			   const char **separator, FILE *out)
{
	for (uint32_t i = location->line_count; i-- > 0;) {
		const struct profile_line *line = &profile_lines(profile, location)[i];

		fputs(*separator, out);
		print_name(profile_text(profile, profile->functions.items[line->function].name),
			   out);
		*separator = ";";
	}
	if (location->line_count)
		return;
	fputs(*separator, out);
	print_name(file_name(profile, location), out);
	fprintf(out, "+0x%" PRIx64, location->address);
	*separator = ";";
}

void print_folded(const struct profile *profile, size_t type, FILE *out)
{
	for (size_t i = 0; i < profile->samples.count; i++) {
		uint32_t stack = profile->samples.items[i].stack;
		const uint32_t *locations = profile_stack_locations(profile, stack);
		const char *separator = "";

		for (uint32_t depth = profile->stacks.items[stack].count; depth-- > 0;)
			print_location(profile, &profile->locations.items[locations[depth]],
				       &separator, out);
		if (*separator)
			fprintf(out, " %" PRId64 "\n", profile_values(profile, i)[type]);
	}
}
