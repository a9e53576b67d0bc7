// SPDX-License-Identifier: GPL-2.0
#include "record/profile_export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/array.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "pprof/origin.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "process/address_space.h"
#include "record/stack_table.h"
#include "runtime/perf_map_watcher.h"
#include "symbolize/live_source.h"
#include "symbolize/normalize.h"
#include "symbolize/symbolizer.h"

#define FRAMES_MAX (STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX)

struct encoder {
	struct profile *profile; /* raw, see symbolize/live_source.h */
	struct labels labels; /* the chosen ones, and LABEL_TRUNCATED */
	struct label_values values; /* of one stack */
	struct perf_map_fd *perf_maps; /* of the sampled processes */
	size_t perf_map_count, perf_map_capacity;
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

/* Returns the id of the perf map of a process, or 0. */
static uint32_t add_perf_map(struct encoder *encoder, const struct address_space *space)
{
	int fd = address_space_perf_map(space);
	const struct perf_map_fd map = {.id = (uint32_t)fd + 1, .fd = fd};

	for (size_t i = 0; fd >= 0 && i < encoder->perf_map_count; i++) {
		if (encoder->perf_maps[i].id == map.id)
			return map.id;
	}
	if (fd < 0 || array_reserve(&encoder->perf_maps, &encoder->perf_map_capacity,
				    encoder->perf_map_count, 1, sizeof(map)))
		return 0;
	encoder->perf_maps[encoder->perf_map_count++] = map;
	return map.id;
}

static uint32_t encode_location(struct encoder *encoder, const struct stack *stack, size_t i)
{
	struct profile *profile = encoder->profile;
	struct profile_mapping mapping = {.source = segment_source(SEGMENT_KERNEL, 0)};

	if (i >= stack->kernel_frames) {
		uint32_t segment = stack_segments(stack)[i - stack->kernel_frames];

		if (segment == SEGMENT_NONE)
			return profile_location(profile, 0, stack->frames[i], NULL, 0);
		mapping.source = segment_source(
			segment, segment == SEGMENT_ANON ? add_perf_map(encoder, stack->space) : 0);
	}
	return profile_location(profile, profile_mapping(profile, &mapping), stack->frames[i], NULL,
				0);
}

/* The label of truncated stacks says why the stack is truncated unless its symbols have a root. */
static uint32_t encode_labels(struct encoder *encoder, const struct stack *stack)
{
	const struct label_process process = {
		.truncated = truncation_name(
			truncation_of(stack->kernel_stop, stack->user_stop, !stack->user_frames)),
		.comm = address_space_comm(stack->space),
		.cgroup_path = address_space_cgroup_path(stack->space),
		.ns_pid = address_space_ns_pid(stack->space),
	};

	label_values(&encoder->labels, &stack->origin, &process, &encoder->values);
	return labels_intern(encoder->profile, encoder->values.items, encoder->values.count);
}

static int encode_stack(const struct stack *stack, void *arg)
{
	struct encoder *encoder = arg;
	const size_t depth = (size_t)stack->kernel_frames + stack->user_frames;
	const int64_t values[PROFILE_RECORDED_TYPES] = {
		[PROFILE_SAMPLES] = (int64_t)stack->samples,
		[PROFILE_CPU] = (int64_t)stack->weight,
	};

	for (size_t i = 0; i < depth; i++)
		encoder->locations[i] = encode_location(encoder, stack, i);
	profile_add(encoder->profile, profile_stack(encoder->profile, encoder->locations, depth),
		    encode_labels(encoder, stack), values);
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

/* Symbolizes a raw profile, and normalizes it. */
static int symbolize(struct profile *profile, const struct live_source *live,
		     const struct recording *recording, struct truncation_counts *counts,
		     struct error *warning, struct error *error)
{
	bool drop_label = !(recording->labels->chosen & LABEL_SET(LABEL_TRUNCATED));
	struct kallsyms *kallsyms = NULL;
	struct symbolize_counts ignored;
	struct symbol_source source;
	int err = live_source_describe(live, profile);

	if (!err && recording->symbolize) {
		err = kallsyms_read(KALLSYMS_PATH, &kallsyms, warning);
		/* Without kernel symbols, the other ones are worth a profile. */
		if (err != -ENOMEM) {
			live_source_init(&source, live, kallsyms, "");
			err = symbolize_profile(profile, &source, recording->symbolize, &ignored,
						error);
		}
	}
	kallsyms_free(kallsyms);
	return err ? err : normalize_profile(profile, drop_label, counts);
}

/* Encodes the stacks into a profile without comments. */
static int encode_profile(struct encoder *encoder, const struct stack_table *stacks,
			  struct mapped_files *files, const struct recording *recording,
			  struct truncation_counts *counts, struct error *warning,
			  struct error *error)
{
	struct live_source live = {.files = files, .kernel = kernel_new("")};
	int err = live.kernel ? 0 : -ENOMEM;

	encoder->labels = *recording->labels;
	encoder->labels.chosen |= LABEL_SET(LABEL_TRUNCATED);
	profile_set_recorded_types(encoder->profile);
	if (!err)
		err = stack_table_each(stacks, encode_stack, encoder);
	live.perf_maps = encoder->perf_maps;
	live.perf_map_count = encoder->perf_map_count;
	if (!err)
		err = symbolize(encoder->profile, &live, recording, counts, warning, error);
	kernel_free(live.kernel);
	return err;
}

int export_profile(const struct stack_table *stacks, struct mapped_files *files,
		   const struct recording *recording, const char *path,
		   struct truncation_counts *counts, uint64_t *size, struct error *warning,
		   struct error *error)
{
	struct encoder *encoder = calloc(1, sizeof(*encoder));
	struct profile *profile = profile_new();
	int err = -ENOMEM;

	*counts = (struct truncation_counts){0};
	*warning->text = '\0';
	if (encoder && profile) {
		encoder->profile = profile;
		err = encode_profile(encoder, stacks, files, recording, counts, warning, error);
	}
	if (!err) {
		encode_comments(profile, stacks, recording, counts);
		profile->time_ns = recording->start_ns;
		profile->duration_ns = recording->duration_ns;
		profile->period = 1000000000 / recording->rate;
		err = pprof_write(profile, path, size, error);
	}
	if (err == -ENOMEM)
		error_errno(error, ENOMEM, "can't write %s", path);
	if (encoder)
		free(encoder->perf_maps);
	free(encoder);
	profile_free(profile);
	return err;
}
