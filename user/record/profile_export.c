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
#include "pprof/pprof_writer.h"
#include "pprof/truncation.h"
#include "process/address_space.h"
#include "record/stack_table.h"
#include "symbolize/stack_roots.h"
#include "symbolize/symbolizer.h"

#define FRAMES_MAX (STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX)

struct encoder {
	struct pprof_builder *builder;
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

static uint32_t encode_location(struct encoder *encoder, const struct frame_name *name)
{
	struct pprof_line lines[INLINE_DEPTH_MAX];
	struct pprof_builder *builder = encoder->builder;
	uint32_t mapping = 0;

	if (*name->mapping_path) {
		mapping = pprof_mapping(
			builder, &(struct pprof_mapping){
					 .start = name->kernel ? name->kernel->start : 0,
					 .limit = name->kernel ? name->kernel->limit : UINT64_MAX,
					 .file = name->mapping_path,
					 .build_id = name->build_id,
					 .number = name->file,
				 });
	}
	for (size_t i = 0; i < name->line_count; i++) {
		const struct source_line *line = &name->lines[i];

		lines[i].line = line->line;
		lines[i].function = pprof_function(builder, line->function, line->system_name,
						   line->file, line->start_line);
	}
	return pprof_location(builder, mapping, name->vaddr, lines, name->line_count);
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

static void encode_labels(struct encoder *encoder, const struct stack *stack, enum truncation cause)
{
	const struct label_process process = {
		.truncated = truncation_name(cause),
		.comm = address_space_comm(stack->space),
		.cgroup_path = address_space_cgroup_path(stack->space),
		.ns_pid = address_space_ns_pid(stack->space),
	};

	label_values(encoder->chosen, &stack->origin, &process, &encoder->labels);
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
	encode_labels(encoder, stack, cause);
	pprof_sample(encoder->builder, encoder->locations, depth, (int64_t)stack->samples,
		     (int64_t)stack->weight, encoder->labels.items, encoder->labels.count);
	return 0;
}

static void encode_comments(struct pprof_builder *builder, const struct stack_table *stacks,
			    const struct recording *recording,
			    const struct truncation_counts *counts)
{
	const struct sample_totals *totals = stack_table_totals(stacks);
	char text[TRUNCATION_COMMENT_SIZE];
	struct utsname kernel = {0};

	uname(&kernel);
	pprof_comment(builder, "stackbeat %s on %s %s %s", STACKBEAT_VERSION, kernel.sysname,
		      kernel.release, kernel.machine);
	pprof_comment(builder, "command: %s", recording->command_line);
	if (recording->ended_by)
		pprof_comment(builder, "ended by an error: %s", recording->ended_by);
	pprof_comment(builder, "rate: %u Hz requested, %.1f Hz on average, on %u CPUs",
		      recording->rate, mean_rate(recording), recording->cpus);
	pprof_comment(builder, "throttled: %" PRIu64 " times", recording->throttled);
	pprof_comment(builder, "samples: %" PRIu64, totals->samples);
	pprof_comment(builder,
		      "lost: %" PRIu64 " (ring full %" PRIu64 ", bad reader position %" PRIu64 ")",
		      recording->lost_full + recording->lost_tail, recording->lost_full,
		      recording->lost_tail);
	truncation_comment(counts, text);
	pprof_comment(builder, "%s", text);
	pprof_comment(builder,
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
	pprof_comment(builder, "%s", text);
	pprof_comment(builder, "missed ticks: %" PRIu64, recording->missed);
	pprof_comment(builder, "ticks without a sample: idle %" PRIu64 ", filtered %" PRIu64,
		      recording->idle, recording->filtered);
	pprof_comment(builder,
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

int export_profile(const struct stack_table *stacks, struct mapped_files *files,
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
	encoder->builder = pprof_new();
	if (!encoder->builder)
		goto out;
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
	encode_comments(encoder->builder, stacks, recording, counts);
	pprof_set_time(encoder->builder, recording->start_ns, recording->duration_ns,
		       1000000000 / recording->rate);
	err = pprof_write(encoder->builder, path, size, error);
out:
	if (err == -ENOMEM)
		error_errno(error, ENOMEM, "can't write %s", path);
	if (encoder) {
		symbolizer_free(encoder->symbolizer);
		pprof_free(encoder->builder);
	}
	kallsyms_free(kallsyms);
	kernel_free(kernel);
	free(encoder);
	return err;
}
