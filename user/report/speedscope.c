// SPDX-License-Identifier: GPL-2.0
#include "report/speedscope.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "pprof/profile.h"
#include "report/frame_name.h"
#include "report/json_string.h"
#include "report/trace.h"

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

static int frames_init(struct frames *frames, const struct profile *profile)
{
	*frames = (struct frames){
		.of_functions = calloc(profile->functions.count, sizeof(uint32_t)),
		.of_locations = calloc(profile->locations.count, sizeof(uint32_t)),
	};
	return frames->of_functions && frames->of_locations ? 0 : -ENOMEM;
}

static void frames_clear(struct frames *frames)
{
	free(frames->of_functions);
	free(frames->of_locations);
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

static void speedscope_print_stack(const struct profile *profile, const struct frames *frames,
				   uint32_t stack, FILE *out)
{
	const uint32_t *locations = profile_stack_locations(profile, stack);
	const char *comma = "";

	fputc('[', out);
	for (uint32_t depth = profile->stacks.items[stack].count; depth-- > 0;)
		speedscope_print_location(profile, frames, locations[depth], &comma, out);
	fputc(']', out);
}

static void print_samples(const struct profile *profile, const struct frames *frames, size_t type,
			  FILE *out)
{
	uint64_t printed = 0;

	for (size_t i = 0; i < profile->samples.count; i++) {
		if (profile_values(profile, i)[type] <= 0)
			continue;
		fputs(comma_before(printed++), out);
		speedscope_print_stack(profile, frames, profile->samples.items[i].stack, out);
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

static void print_head(FILE *out)
{
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
	      "\"exporter\":\"stackbeat\",\n",
	      out);
}

static int print_document(const struct profile *profile, size_t type, struct frames *frames,
			  FILE *out)
{
	const struct profile_value_type *value_type = &profile->types.items[type];
	double sum;
	int err;

	print_head(out);
	fputs("\"shared\":{\"frames\":[\n", out);
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
	struct frames frames;
	int err = frames_init(&frames, profile);

	if (!err)
		err = print_document(profile, type, &frames, out);
	frames_clear(&frames);
	return err;
}

/* Traces */

/* Samples with the same stack that follow each other without a gap. */
struct run {
	int64_t begin, end;
	uint32_t stack;
};

/*
 * Replaces the run before by the run from the sample *next on, and sets *next to the sample behind
 * it. Before the first run, run->end is INT64_MIN. Returns whether there is a run.
 */
static bool next_run(const struct trace *trace, const struct trace_track *track, size_t *next,
		     struct run *run)
{
	int64_t before = run->end;
	bool is_first = true;

	for (; *next < track->count; ++*next) {
		const struct trace_sample *sample = trace_track_sample(trace, track, *next);
		const int64_t begin = MAX(trace->start_ns, trace_begin(trace, before, sample));

		if (!is_first && (begin != run->end || sample->stack != run->stack))
			return true;
		if (is_first)
			*run = (struct run){.begin = begin, .stack = sample->stack};
		is_first = false;
		before = run->end = sample->time_ns;
	}
	return !is_first;
}

/* Prints the stacks, or the weights; in both, a gap is a sample of its own. */
static void print_runs(const struct trace *trace, const struct trace_track *track,
		       const struct frames *frames, FILE *out)
{
	int64_t end = trace->start_ns;
	size_t next = 0;
	uint64_t printed = 0;
	struct run run = {.end = INT64_MIN};

	while (next_run(trace, track, &next, &run)) {
		if (run.begin > end && frames)
			fprintf(out, "%s[]", comma_before(printed++));
		else if (run.begin > end)
			fprintf(out, "%s%" PRId64, printed++ ? "," : "", run.begin - end);
		end = run.end;
		if (frames) {
			fputs(comma_before(printed++), out);
			speedscope_print_stack(trace->profile, frames, run.stack, out);
		} else {
			fprintf(out, "%s%" PRId64, printed++ ? "," : "", run.end - run.begin);
		}
	}
}

static int print_track(const struct trace *trace, const struct trace_track *track, const char *name,
		       const struct frames *frames, FILE *out)
{
	fputs("{\"type\":\"sampled\",\"name\":", out);
	if (json_string_print(name, out))
		return -ENOMEM;
	fputs(",\"unit\":\"nanoseconds\",\n\"samples\":[\n", out);
	print_runs(trace, track, frames, out);
	fputs("],\n\"weights\":[", out);
	print_runs(trace, track, NULL, out);
	fprintf(out, "],\n\"startValue\":0,\"endValue\":%" PRId64 "}",
		trace->end_ns - trace->start_ns);
	return 0;
}

/* The thread with the most samples is shown first. */
static size_t busiest_thread(const struct trace *trace)
{
	size_t busiest = 0;

	for (size_t i = 1; i < trace->thread_count; i++) {
		if (trace->threads[i].count > trace->threads[busiest].count)
			busiest = i;
	}
	return busiest;
}

static int print_tracks(const struct trace *trace, const struct frames *frames, FILE *out)
{
	char cpu[32], *name;
	int err = 0;

	for (size_t i = 0; i < trace->thread_count && !err; i++) {
		const struct trace_track *thread = &trace->threads[i];

		err = trace_thread_name(thread, &name);
		fputs(comma_before(i), out);
		err = err ? err : print_track(trace, thread, name, frames, out);
		free(name);
	}
	for (size_t i = 0; i < trace->cpu_count && !err; i++) {
		snprintf(cpu, sizeof(cpu), "CPU %" PRIu32, trace->cpus[i].cpu);
		fputs(comma_before(trace->thread_count + i), out);
		err = print_track(trace, &trace->cpus[i], cpu, frames, out);
	}
	return err;
}

int print_speedscope_trace(const struct trace *trace, const char *name, FILE *out)
{
	struct frames frames;
	int err = frames_init(&frames, trace->profile);

	if (!err) {
		print_head(out);
		fputs("\"name\":", out);
		err = json_string_print(name, out);
		fprintf(out, ",\n\"activeProfileIndex\":%zu,\n\"shared\":{\"frames\":[\n",
			busiest_thread(trace));
	}
	if (!err)
		err = speedscope_print_frames(trace->profile, &frames, out);
	fputs("]},\n\"profiles\":[", out);
	if (!err)
		err = print_tracks(trace, &frames, out);
	fputs("]}\n", out);
	frames_clear(&frames);
	return err;
}
