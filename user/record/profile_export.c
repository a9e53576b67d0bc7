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
#include "record/stack_table.h"
#include "symbolize/stack_roots.h"
#include "symbolize/symbolizer.h"

#define FRAMES_MAX (STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX)

struct encoder {
	struct profile *profile;
	struct symbolizer *symbolizer;
	struct truncation_counts *counts;
	const struct labels *chosen;
	struct label_values labels; /* of one stack */
	const struct frame_name *names[FRAMES_MAX];
	uint32_t locations[FRAMES_MAX];
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

/* Counts the user frames among the first `count` frames, and those outside all mappings. */
static void count_unmapped(struct encoder *encoder, const struct stack *stack, size_t count)
{
	for (size_t i = stack->kernel_frames; i < count; i++) {
		encoder->counts->user_frames += stack->samples;
		if (!*encoder->names[i]->mapping_path)
			encoder->counts->unmapped += stack->samples;
	}
}

static uint32_t encode_labels(struct encoder *encoder, const struct stack *stack,
			      enum truncation cause)
{
	const struct label_process process = {
		.truncated = truncation_name(cause),
		.comm = address_space_comm(stack->space),
		.cgroup_path = address_space_cgroup_path(stack->space),
		.ns_pid = address_space_ns_pid(stack->space),
	};

	label_values(encoder->chosen, &stack->origin, &process, &encoder->labels);
	return labels_intern(encoder->profile, encoder->labels.items, encoder->labels.count);
}

/* Symbolizes the frames of a stack into encoder->names. */
static int symbolize_frames(struct encoder *encoder, const struct stack *stack)
{
	size_t count = (size_t)stack->kernel_frames + stack->user_frames;

	for (size_t i = 0; i < count; i++) {
		if (i < stack->kernel_frames)
			encoder->names[i] = symbolize_kernel(encoder->symbolizer, stack->frames[i]);
		else
			encoder->names[i] = symbolize_user(
				encoder->symbolizer, stack->space,
				stack_segments(stack)[i - stack->kernel_frames], stack->frames[i]);
		if (!encoder->names[i])
			return -ENOMEM;
	}
	return 0;
}

static int add_frames(const struct stack *stack, void *arg)
{
	return symbolize_frames(arg, stack);
}

static int encode_stack(const struct stack *stack, void *arg)
{
	struct encoder *encoder = arg;
	size_t count = (size_t)stack->kernel_frames + stack->user_frames;
	const int64_t values[PROFILE_RECORDED_TYPES] = {
		[PROFILE_SAMPLES] = (int64_t)stack->samples,
		[PROFILE_CPU] = (int64_t)stack->weight,
	};
	size_t complete, depth = 0;
	int err = symbolize_frames(encoder, stack);
	enum truncation cause;

	if (err)
		return err;
	complete = stack_root_depth(encoder->names + stack->kernel_frames, stack->user_frames,
				    stack->user_stop);
	cause = truncation_of(stack->kernel_stop, stack->user_stop,
			      complete || !stack->user_frames);
	if (cause != TRUNCATED_NOT)
		encoder->counts->samples[cause] += stack->samples;
	if (complete)
		count = stack->kernel_frames + complete;
	count_unmapped(encoder, stack, count);

	for (size_t i = 0; i < count; i++) {
		if (!encoder->names[i]->elided)
			encoder->locations[depth++] = encode_location(encoder, encoder->names[i]);
	}
	/* pprof drops samples without locations. */
	if (!depth && count)
		encoder->locations[depth++] = encode_location(encoder, encoder->names[0]);
	profile_add(encoder->profile, profile_stack(encoder->profile, encoder->locations, depth),
		    encode_labels(encoder, stack, cause), values);
	return encoder->profile->error;
}

static void encode_comments(struct profile *profile, const struct stack_table *stacks,
			    const struct recording *recording,
			    const struct truncation_counts *counts)
{
	const struct sample_totals *totals = stack_table_totals(stacks);
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
	profile_comment(profile, "samples: %" PRIu64, totals->samples);
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
	profile_comment(profile, "missed ticks: %" PRIu64, recording->missed);
	profile_comment(profile, "ticks without a sample: idle %" PRIu64 ", filtered %" PRIu64,
			recording->idle, recording->filtered);
	profile_comment(profile,
			"overhead: %" PRIu64 " ns in the kernel, %" PRIu64
			" ns in the reader, %.3f %% of the machine",
			recording->kernel_overhead_ns, recording->reader_overhead_ns,
			recording_overhead_percent(recording));
}

/*
 * Adds all frames to the symbolizer, then resolves them. If that fails, the profile is written with
 * fewer names.
 */
static int resolve_symbols(struct encoder *encoder, const struct stack_table *stacks,
			   const struct symbolize_options *options)
{
	int err = stack_table_each(stacks, add_frames, encoder);
	struct error error;

	if (!err)
		err = symbolizer_resolve(encoder->symbolizer, options);
	if (!err || err == -ENOMEM)
		return err;
	error_errno(&error, -err, "can't be read");
	if (options->problem)
		options->problem(options->arg, "debug information", error.text);
	return 0;
}

int export_profile(const struct stack_table *stacks, const struct mapped_files *files,
		   const struct recording *recording, const char *path,
		   struct truncation_counts *counts, uint64_t *size, struct error *warning,
		   struct error *error)
{
	struct encoder *encoder = calloc(1, sizeof(*encoder));
	struct kernel *kernel = kernel_new("");
	struct kallsyms *kallsyms = NULL;
	int err = -ENOMEM;

	*counts = (struct truncation_counts){0};
	*warning->text = '\0';
	if (!encoder || !kernel)
		goto out;
	encoder->counts = counts;
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
	err = recording->symbolize ? resolve_symbols(encoder, stacks, recording->symbolize) : 0;
	if (!err)
		err = stack_table_each(stacks, encode_stack, encoder);
	if (err)
		goto out;
	encode_comments(encoder->profile, stacks, recording, counts);
	encoder->profile->time_ns = recording->start_ns;
	encoder->profile->duration_ns = recording->duration_ns;
	encoder->profile->period = 1000000000 / recording->rate;
	err = pprof_write(encoder->profile, path, size, error);
out:
	if (err == -ENOMEM)
		error_errno(error, ENOMEM, "can't write %s", path);
	if (encoder) {
		symbolizer_free(encoder->symbolizer);
		profile_free(encoder->profile);
	}
	kallsyms_free(kallsyms);
	kernel_free(kernel);
	free(encoder);
	return err;
}
