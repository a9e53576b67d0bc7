// SPDX-License-Identifier: GPL-2.0
#include "report/speedscope.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pprof/profile.h"
#include "report/frame_name.h"
#include "report/json_string.h"

#define NO_FRAME UINT32_MAX

/* Indices in the table of frames, which has frames of functions, then frames of other locations. */
struct frames {
	uint32_t *of_functions, *of_locations; /* NO_FRAME: none */
	uint32_t count;
};

/* Frames */

static int print_function(const struct profile *profile, uint32_t number, FILE *out)
{
	const struct profile_function *function = &profile->functions.items[number];
	int err;

	fputs("{\"name\":", out);
	err = json_string_print(function_name(profile, number), out);
	if (function->file) {
		fputs(",\"file\":", out);
		err = err ? err : json_string_print(profile_text(profile, function->file), out);
	}
	if (function->start_line > 0)
		fprintf(out, ",\"line\":%" PRId64, function->start_line);
	fputc('}', out);
	return err;
}

static int speedscope_print_address(const struct profile *profile,
				    const struct profile_location *location, FILE *out)
{
	char *name = address_name(profile, location);
	int err;

	if (!name)
		return -ENOMEM;
	fputs("{\"name\":", out);
	err = json_string_print(name, out);
	fputc('}', out);
	free(name);
	return err;
}

/* Whether a frame of the location has no function with a name. */
static bool needs_address(const struct profile *profile, const struct profile_location *location)
{
	const struct profile_line *lines = profile_lines(profile, location);

	for (uint32_t i = 0; i < location->line_count; i++) {
		if (!*function_name(profile, lines[i].function))
			return true;
	}
	return !location->line_count;
}

static const char *comma_before(uint64_t index)
{
	return index ? ",\n" : "";
}

static int speedscope_print_frames(const struct profile *profile, struct frames *frames, FILE *out)
{
	int err = 0;

	for (uint32_t i = 0; i < profile->functions.count && !err; i++) {
		frames->of_functions[i] = NO_FRAME;
		if (!*function_name(profile, i))
			continue;
		fputs(comma_before(frames->count), out);
		frames->of_functions[i] = frames->count++;
		err = print_function(profile, i, out);
	}
	/* No stack refers to location 0. */
	for (uint32_t i = 1; i < profile->locations.count && !err; i++) {
		const struct profile_location *location = &profile->locations.items[i];

		frames->of_locations[i] = NO_FRAME;
		if (!needs_address(profile, location))
			continue;
		fputs(comma_before(frames->count), out);
		frames->of_locations[i] = frames->count++;
		err = speedscope_print_address(profile, location, out);
	}
	return err;
}

/* Samples */

static void speedscope_print_location(const struct profile *profile, const struct frames *frames,
				      uint32_t number, const char **comma, FILE *out)
{
	const struct profile_location *location = &profile->locations.items[number];
	uint32_t line = location->line_count;

	do {
		uint32_t frame = NO_FRAME;

		if (line)
			frame = frames->of_functions[profile_lines(profile, location)[--line]
							     .function];
		if (frame == NO_FRAME)
			frame = frames->of_locations[number];
		fprintf(out, "%s%" PRIu32, *comma, frame);
		*comma = ",";
	} while (line);
}

static void print_samples(const struct profile *profile, const struct frames *frames, size_t type,
			  FILE *out)
{
	uint64_t printed = 0;

	for (size_t i = 0; i < profile->samples.count; i++) {
		uint32_t stack = profile->samples.items[i].stack;
		const uint32_t *locations = profile_stack_locations(profile, stack);
		const char *comma = "";

		if (profile_values(profile, i)[type] <= 0)
			continue;
		fprintf(out, "%s[", comma_before(printed++));
		for (uint32_t depth = profile->stacks.items[stack].count; depth-- > 0;)
			speedscope_print_location(profile, frames, locations[depth], &comma, out);
		fputc(']', out);
	}
}

/* Returns their sum: speedscope's numbers are of this type, too. */
static double print_weights(const struct profile *profile, size_t type, FILE *out)
{
	uint64_t printed = 0;
	double sum = 0;

	for (size_t i = 0; i < profile->samples.count; i++) {
		int64_t value = profile_values(profile, i)[type];

		if (value <= 0)
			continue;
		fprintf(out, "%s%" PRId64, printed++ ? "," : "", value);
		sum += (double)value;
	}
	return sum;
}

/* Returns the unit by its name there. */
static const char *unit_name(const char *unit)
{
	static const char *const units[] = {"nanoseconds", "microseconds", "milliseconds",
					    "seconds", "bytes"};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!strcmp(unit, units[i]))
			return unit;
	}
	return "none";
}

static int print_document(const struct profile *profile, size_t type, struct frames *frames,
			  FILE *out)
{
	const struct profile_value_type *value_type = &profile->types.items[type];
	double sum;
	int err;

	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
	      "\"exporter\":\"stackbeat\",\n\"shared\":{\"frames\":[\n",
	      out);
	err = speedscope_print_frames(profile, frames, out);
	fputs("]},\n\"profiles\":[{\"type\":\"sampled\",\"name\":", out);
	err = err ? err : json_string_print(profile_text(profile, value_type->type), out);
	if (err)
		return err;
	fprintf(out, ",\"unit\":\"%s\",\n\"samples\":[\n",
		unit_name(profile_text(profile, value_type->unit)));
	print_samples(profile, frames, type, out);
	fputs("],\n\"weights\":[", out);
	sum = print_weights(profile, type, out);
	fprintf(out, "],\n\"startValue\":0,\"endValue\":%.0f}]}\n", sum);
	return 0;
}

int print_speedscope(const struct profile *profile, size_t type, FILE *out)
{
	struct frames frames = {
		.of_functions = calloc(profile->functions.count, sizeof(uint32_t)),
		.of_locations = calloc(profile->locations.count, sizeof(uint32_t)),
	};
	int err = -ENOMEM;

	if (frames.of_functions && frames.of_locations)
		err = print_document(profile, type, &frames, out);
	free(frames.of_functions);
	free(frames.of_locations);
	return err;
}
