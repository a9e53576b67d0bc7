// SPDX-License-Identifier: GPL-2.0
#include "record/profile_export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "debuginfo/dwarf_lookup.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "pprof/origin.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "process/address_space.h"
#include "record/window.h"
#include "runtime/perf_map_watcher.h"
#include "symbolize/stack_roots.h"
#include "symbolize/symbolizer.h"

#define FRAMES_MAX (STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX)

struct encoder {
	struct profile *profile;
	struct symbolizer *symbolizer;
	struct truncation_counts *counts;
	const struct window *window;
	const struct labels *chosen;
	/* By location of the window. */
	const struct frame_name **locations;
	uint32_t *encoded; /* its location in `profile`; 0: not encoded yet */
	/* Of one stack. */
	const struct frame_name *names[FRAMES_MAX];
	uint32_t stack[FRAMES_MAX];
};

double recording_overhead_percent(const struct recording *recording)
{
	double available = (double)recording->duration_ns * recording->cpus;
	double overhead =
		(double)recording->kernel_overhead_ns + (double)recording->reader_overhead_ns;

	return available > 0 ? 100 * overhead / available : 0;
}

/* Ticks per second of the time that they stand for; missed ticks lower it. */
static double mean_rate(const struct recording *recording)
{
	return recording->tick_time_ns
		       ? (double)recording->ticks * 1e9 / (double)recording->tick_time_ns
		       : recording->rate;
}

static uint32_t encode_function(struct profile *profile, const struct source_line *line)
{
	const struct profile_function function = {
		.start_line = line->start_line,
		.name = profile_string(profile, line->function),
		.system_name = profile_string(profile, line->system_name),
		.file = profile_string(profile, line->file),
	};

	return profile_function(profile, &function);
}

static uint32_t encode_location(struct encoder *encoder, const struct frame_name *name)
{
	struct profile_line lines[INLINE_DEPTH_MAX];
	struct profile *profile = encoder->profile;
	uint32_t mapping = 0;

	if (*name->mapping_path) {
		const struct profile_mapping new = {
			.start = name->kernel ? name->kernel->start : 0,
			.limit = name->kernel ? name->kernel->limit : UINT64_MAX,
			.source = name->file,
			.file = profile_string(profile, name->mapping_path),
			.build_id = profile_string(profile, name->build_id),
		};

		mapping = profile_mapping(profile, &new);
	}
	for (size_t i = 0; i < name->line_count; i++)
		lines[i] = (struct profile_line){
			.line = name->lines[i].line,
			.function = encode_function(profile, &name->lines[i]),
		};
	return profile_location(profile, mapping, name->vaddr, lines, name->line_count);
}

/* Returns the location in the profile of a location of the window. */
static uint32_t encode(struct encoder *encoder, uint32_t location)
{
	if (!encoder->encoded[location])
		encoder->encoded[location] = encode_location(encoder, encoder->locations[location]);
	return encoder->encoded[location];
}

static uint32_t location_segment(const struct profile *profile, uint32_t location)
{
	const uint32_t mapping = profile->locations.items[location].mapping;

	return window_segment(profile->mappings.items[mapping].source);
}

/* Returns the number of frames in the kernel, which come first. */
static size_t kernel_frames(const struct profile *profile, const uint32_t *stack, size_t depth)
{
	size_t count = 0;

	while (count < depth && location_segment(profile, stack[count]) == SEGMENT_KERNEL)
		count++;
	return count;
}

/* Counts the user frames from `first` to `count`, and those outside all mappings. */
static void count_unmapped(struct encoder *encoder, int64_t samples, size_t first, size_t count)
{
	for (size_t i = first; i < count; i++) {
		encoder->counts->user_frames += (uint64_t)samples;
		if (!*encoder->names[i]->mapping_path)
			encoder->counts->unmapped += (uint64_t)samples;
	}
}

static const struct perf_map_fd *find_perf_map(const struct window *window, uint32_t id)
{
	for (size_t i = 0; id && i < window->perf_map_count; i++) {
		if (window->perf_maps[i].id == id)
			return &window->perf_maps[i];
	}
	return NULL;
}

static const struct frame_name *symbolize_location(struct encoder *encoder,
						   const struct profile_location *location)
{
	const struct profile *profile = encoder->window->profile;
	const uint64_t source = profile->mappings.items[location->mapping].source;

	if (window_segment(source) == SEGMENT_KERNEL)
		return symbolize_kernel(encoder->symbolizer, location->address);
	return symbolize_user(encoder->symbolizer,
			      find_perf_map(encoder->window, window_perf_map(source)),
			      window_segment(source), location->address);
}

/* Symbolizes all locations. If debug information can't be read, there are fewer names. */
static int symbolize_locations(struct encoder *encoder, const struct symbolize_options *options)
{
	const struct profile *profile = encoder->window->profile;
	struct error error;
	int err;

	encoder->locations = calloc(profile->locations.count, sizeof(*encoder->locations));
	encoder->encoded = calloc(profile->locations.count, sizeof(*encoder->encoded));
	if (!encoder->locations || !encoder->encoded)
		return -ENOMEM;
	for (size_t i = 1; i < profile->locations.count; i++) {
		encoder->locations[i] = symbolize_location(encoder, &profile->locations.items[i]);
		if (!encoder->locations[i])
			return -ENOMEM;
	}
	err = options ? symbolizer_resolve(encoder->symbolizer, options) : 0;
	if (!err || err == -ENOMEM)
		return err;
	error_errno(&error, -err, "can't be read");
	if (options->problem)
		options->problem(options->arg, "debug information", error.text);
	return 0;
}

/* Sets the labels of a sample but LABEL_TRUNCATED, which sets the cause. Returns their number. */
static size_t get_labels(const struct encoder *encoder, uint32_t label_set,
			 struct label_value labels[LABELS_MAX], enum truncation *cause)
{
	const struct profile *profile = encoder->window->profile;
	const uint32_t *set = profile_set_labels(profile, label_set);
	size_t count = 0;

	*cause = TRUNCATED_NOT;
	for (size_t i = 0; i < profile->label_sets.items[label_set].count; i++) {
		const struct profile_label *label = &profile->labels.items[set[i]];
		const char *key = profile_text(profile, label->key);
		const char *text = profile_text(profile, label->text);

		if (label_of_key(key) == LABEL_TRUNCATED)
			*cause = truncation_by_name(text);
		else
			labels[count++] = (struct label_value){
				.key = key,
				.text = label->text ? text : NULL,
				.number = label->number,
				.unit = profile_text(profile, label->unit),
			};
	}
	return count;
}

static void encode_sample(struct encoder *encoder, size_t sample)
{
	const struct profile *profile = encoder->window->profile;
	const uint32_t stack = profile->samples.items[sample].stack;
	const uint32_t *locations = profile_stack_locations(profile, stack);
	const int64_t *values = profile_values(profile, sample);
	size_t count = profile->stacks.items[stack].count, depth = 0, complete, label_count;
	const size_t kernel = kernel_frames(profile, locations, count);
	struct label_value labels[LABELS_MAX];
	enum truncation cause;

	label_count = get_labels(encoder, profile->samples.items[sample].label_set, labels, &cause);
	for (size_t i = 0; i < count; i++)
		encoder->names[i] = encoder->locations[locations[i]];
	complete =
		stack_root_depth(encoder->names + kernel, count - kernel, STACKBEAT_STOP_BAD_FRAME);
	if (complete) {
		count = kernel + complete;
		if (cause != TRUNCATED_KERNEL && cause != TRUNCATED_EXEC)
			cause = TRUNCATED_NOT;
	}
	if (cause != TRUNCATED_NOT) {
		encoder->counts->samples[cause] += (uint64_t)values[PROFILE_SAMPLES];
		if (encoder->chosen->chosen & LABEL_SET(LABEL_TRUNCATED))
			labels[label_count++] = (struct label_value){
				.key = LABEL_TRUNCATED_KEY, .text = truncation_name(cause)};
	}
	count_unmapped(encoder, values[PROFILE_SAMPLES], kernel, count);

	for (size_t i = 0; i < count; i++) {
		if (!encoder->names[i]->elided)
			encoder->stack[depth++] = encode(encoder, locations[i]);
	}
	/* pprof drops samples without locations. */
	if (!depth && count)
		encoder->stack[depth++] = encode(encoder, locations[0]);
	profile_add(encoder->profile, profile_stack(encoder->profile, encoder->stack, depth),
		    labels_intern(encoder->profile, labels, label_count), values);
}

static void encode_comments(struct profile *profile, const struct window *window,
			    const struct recording *recording,
			    const struct truncation_counts *counts)
{
	struct window_merged merged;
	char text[TRUNCATION_COMMENT_SIZE];
	struct utsname kernel = {0};

	uname(&kernel);
	origin_add(profile, &kernel);
	profile_comment(profile, "command: %s", recording->command_line);
	if (recording->ended_by)
		profile_comment(profile, "ended by an error: %s", recording->ended_by);
	profile_comment(profile, "rate: %u Hz requested, %.1f Hz on average, on %u CPUs",
			recording->rate, mean_rate(recording), recording->cpus);
	profile_comment(profile, "throttled: %" PRIu64 " times", recording->throttled);
	profile_comment(profile, "samples: %" PRIu64, window->samples);
	profile_comment(profile,
			"lost: %" PRIu64 " (ring full %" PRIu64 ", bad reader position %" PRIu64
			")",
			recording->lost_full + recording->lost_tail, recording->lost_full,
			recording->lost_tail);
	truncation_comment(counts, text);
	profile_comment(profile, "%s", text);
	profile_comment(profile,
			"address spaces: %" PRIu64 "; samples without an address space %" PRIu64
			", address spaces not read %" PRIu64 ", mapping events lost %" PRIu64
			", mappings dropped %" PRIu64 ", mappings without a file %" PRIu64
			", perf maps dropped %" PRIu64
			", samples resolved before their mappings arrived %" PRIu64,
			recording->spaces, recording->samples_without_address_space,
			recording->address_spaces_unread, recording->mmap_events_lost,
			recording->mappings_dropped, recording->mappings_without_file,
			recording->perf_maps_dropped, recording->samples_early);
	frames_comment(counts, text);
	profile_comment(profile, "%s", text);
	window_count_merged(window, &merged);
	if (merged.stacks)
		profile_comment(profile,
				"merged for lack of memory: stacks %" PRIu64
				", samples without labels %" PRIu64
				", samples without callers %" PRIu64,
				merged.stacks, merged.labels, merged.callers);
	profile_comment(profile, "missed ticks: %" PRIu64, recording->missed);
	profile_comment(profile, "ticks without a sample: idle %" PRIu64 ", filtered %" PRIu64,
			recording->idle, recording->filtered);
	profile_comment(profile,
			"overhead: %" PRIu64 " ns in the kernel, %" PRIu64
			" ns in the reader, %.3f %% of the machine",
			recording->kernel_overhead_ns, recording->reader_overhead_ns,
			recording_overhead_percent(recording));
}

int export_profile(const struct window *window, const struct mapped_files *files,
		   const struct recording *recording, struct profile **profile,
		   struct truncation_counts *counts, struct error *warning, struct error *error)
{
	struct encoder *encoder = calloc(1, sizeof(*encoder));
	struct kernel *kernel = kernel_new("");
	struct kallsyms *kallsyms = NULL;
	int err = -ENOMEM;

	*profile = NULL;
	*counts = (struct truncation_counts){0};
	*warning->text = '\0';
	if (!encoder || !kernel)
		goto out;
	encoder->counts = counts;
	encoder->window = window;
	encoder->chosen = recording->labels;
	encoder->profile = profile_new();
	if (!encoder->profile)
		goto out;
	profile_set_recorded_types(encoder->profile);
	err = recording->no_symbolize ? 0 : kallsyms_read(KALLSYMS_PATH, &kallsyms, warning);
	if (err == -ENOMEM)
		goto out;
	encoder->symbolizer = symbolizer_new(kallsyms, kernel, files, "", error);
	if (!encoder->symbolizer) {
		err = -ENOMEM;
		goto out;
	}
	err = symbolize_locations(encoder, recording->symbolize);
	if (err)
		goto out;
	for (size_t i = 0; i < window->profile->samples.count; i++)
		encode_sample(encoder, i);
	encode_comments(encoder->profile, window, recording, counts);
	encoder->profile->time_ns = recording->start_ns;
	encoder->profile->duration_ns = recording->duration_ns;
	encoder->profile->period = 1000000000 / recording->rate;
	err = encoder->profile->error;
	if (err)
		goto out;
	*profile = encoder->profile;
	encoder->profile = NULL;
out:
	if (err)
		error_errno(error, -err, "can't symbolize the profile");
	if (encoder) {
		symbolizer_free(encoder->symbolizer);
		profile_free(encoder->profile);
		free(encoder->locations);
		free(encoder->encoded);
	}
	kallsyms_free(kallsyms);
	kernel_free(kernel);
	free(encoder);
	return err;
}
