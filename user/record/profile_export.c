// SPDX-License-Identifier: GPL-2.0
#include "record/profile_export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "debuginfo/gone_modules.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "debuginfo/kernel_symbols.h"
#include "lib/error.h"
#include "lib/invariant.h"
#include "mappings/address_space.h"
#include "pprof/blocks.h"
#include "pprof/labels.h"
#include "pprof/origin.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "record/counters.h"
#include "record/gone_parts.h"
#include "record/window.h"
#include "runtime/go_layout.h"
#include "symbolize/go_runtime.h"
#include "symbolize/live_source.h"
#include "symbolize/normalize.h"
#include "symbolize/symbolize_options.h"
#include "symbolize/symbolizer.h"

/* Of the longest comment with counters, each of which has 20 digits. */
#define COUNTERS_COMMENT_SIZE 768

double recording_overhead_seconds(const struct recording *recording)
{
	return ((double)counters_kernel_overhead_ns(recording->counts) +
		(double)recording->counts[COUNTER_READER_OVERHEAD_NS]) /
	       1e9;
}

double recording_overhead_percent(const struct recording *recording)
{
	double available = (double)recording->duration_ns * recording->cpus;

	return available > 0 ? 100 * 1e9 * recording_overhead_seconds(recording) / available : 0;
}

double recording_mean_rate(const struct recording *recording)
{
	const double tick_time_ns = (double)recording->counts[STACKBEAT_S_TICK_TIME_NS];

	return tick_time_ns > 0 ? (double)recording->counts[STACKBEAT_S_TICKS] * 1e9 / tick_time_ns
				: 0;
}

/* Adds a comment with the counters of a group: `head`, `begin`, "NAME NUMBER, ...", `end`. */
static void comment_counters(struct profile *profile, const struct recording *recording,
			     enum counter_group group, const char *head, const char *begin,
			     const char *end)
{
	char text[COUNTERS_COMMENT_SIZE];
	const char *separator = begin;
	size_t used = 0;

	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		if (counter_table[i].group != group)
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %" PRIu64,
					 separator, counter_table[i].name, recording->counts[i]);
		invariant(used < sizeof(text));
		separator = ", ";
	}
	profile_comment(profile, "%s%s%s", head, text, end);
}

static void encode_unwinding(const struct window *window, const struct recording *recording)
{
	const struct window_callers *callers = &window->callers;

	profile_comment(window->profile,
			"callers in user mode: by unwind tables %" PRIu64
			", by frame pointers %" PRIu64 ", by copies of stacks %" PRIu64,
			callers->by_table, callers->by_frame_pointer, callers->by_copy);
	if (!recording->unwinds_by_tables)
		return;
	comment_counters(window->profile, recording, COUNTERS_UNWINDING, "unwinding", ": ", "");
	if (recording->unknown_go)
		profile_comment(window->profile,
				"Go 1.%u is newer than this version of stackbeat: its goroutines "
				"are read as in Go 1.%u",
				recording->unknown_go,
				go_layout_of_version(1, recording->unknown_go)->last);
}

static void encode_cpu_parts(struct profile *profile, const uint64_t counts[COUNTER_COUNT])
{
	char text[COUNTERS_COMMENT_SIZE];
	const char *separator = "";
	size_t used = 0;

	for (enum cpu_part part = 0; part < CPU_PARTS; part++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %" PRIu64 " ns",
					 separator, cpu_part_name(part),
					 counters_cpu_ns(counts, part));
		invariant(used < sizeof(text));
		separator = ", ";
	}
	profile_comment(profile, "overhead by part: %s", text);
}

/* `counts` is NULL if they are unknown. */
static void encode_comments(const struct window *window, const struct recording *recording,
			    const struct truncation_counts *counts)
{
	struct profile *profile = window->profile;
	struct window_merged merged;
	char text[TRUNCATION_COMMENT_SIZE], head[64];
	struct utsname kernel = {0};

	uname(&kernel);
	origin_add(profile, &kernel);
	profile_comment(profile, "command: %s", recording->command_line);
	if (recording->ended_by)
		profile_comment(profile, "ended by an error: %s", recording->ended_by);
	if (recording->source)
		profile_comment(profile, "source: %s", recording->source);
	if (recording->counts[STACKBEAT_S_TICK_TIME_NS])
		snprintf(head, sizeof(head), "%.1f Hz on average", recording_mean_rate(recording));
	else
		snprintf(head, sizeof(head), "average not measured");
	profile_comment(profile, "rate: %u Hz requested, %s, on %u CPU%s", recording->rate, head,
			recording->cpus, recording->cpus == 1 ? "" : "s");
	profile_comment(profile, "throttled: %" PRIu64 " times",
			recording->counts[STACKBEAT_S_THROTTLED]);
	profile_comment(profile, "samples: %" PRIu64, window->samples);
	snprintf(head, sizeof(head), "lost: %" PRIu64, counters_lost(recording->counts));
	comment_counters(profile, recording, COUNTERS_LOST, head, " (", ")");
	if (counts) {
		truncation_comment(counts, text);
		profile_comment(profile, "%s", text);
	}
	snprintf(head, sizeof(head), "address spaces: %" PRIu64,
		 recording->counts[STACKBEAT_S_ADDRESS_SPACES]);
	comment_counters(profile, recording, COUNTERS_ADDRESS_SPACES, head, "; ", "");
	if (counts) {
		frames_comment(counts, text);
		profile_comment(profile, "%s", text);
	}
	encode_unwinding(window, recording);
	window_count_merged(window, &merged);
	if (recording->labels->chosen & LABEL_SET(LABEL_MOMENT))
		profile_comment(profile, "timestamps: of %zu of %" PRIu64 " samples",
				profile->moments.count, window->samples);
	if (merged.stacks)
		profile_comment(profile,
				"merged for lack of memory: stacks %" PRIu64
				", samples without labels %" PRIu64
				", samples without callers %" PRIu64,
				merged.stacks, merged.labels, merged.callers);
	profile_comment(profile, "missed ticks: %" PRIu64,
			recording->counts[STACKBEAT_S_MISSED_TICKS]);
	comment_counters(profile, recording, COUNTERS_WITHOUT_SAMPLE, "ticks without a sample",
			 ": ", "");
	if (recording->is_perf)
		snprintf(head, sizeof(head), "not measured");
	else
		snprintf(head, sizeof(head), "%" PRIu64 " ns",
			 counters_kernel_overhead_ns(recording->counts));
	profile_comment(profile,
			"overhead: %s in the kernel, %" PRIu64
			" ns in the reader, %.3f %% of the sampled CPUs",
			head, recording->counts[COUNTER_READER_OVERHEAD_NS],
			recording_overhead_percent(recording));
	encode_cpu_parts(profile, recording->counts);
}

static bool is_missing(const struct profile *profile, const struct kallsyms *kallsyms,
		       uint32_t index)
{
	const struct profile_location *location = &profile->locations.items[index];
	const struct profile_mapping *mapping = &profile->mappings.items[location->mapping];

	return mapping->place.segment != SEGMENT_KERNEL && !mapping->place.part &&
	       is_kernel_mapping(profile_text(profile, mapping->file), location->address) &&
	       !kernel_symbols_have(kallsyms, location->address);
}

/* Returns whether few enough samples have functions of the kernel that the kept symbols lack. */
static bool are_rare(const struct profile *profile, const struct kallsyms *kallsyms,
		     unsigned int percentage)
{
	int64_t total = 0, missing = 0;

	for (size_t i = 0; i < profile->samples.count; i++) {
		const uint32_t stack = profile->samples.items[i].stack;
		const uint32_t *locations = profile_stack_locations(profile, stack);
		const int64_t value = profile_values(profile, i)[0];
		uint32_t depth = profile->stacks.items[stack].count;

		while (depth > 0 && !is_missing(profile, kallsyms, locations[depth - 1]))
			depth--;
		total += value;
		missing += depth ? value : 0;
	}
	return missing * 100 <= total * percentage;
}

/* Returns whether the cached kernel symbols suffice for this profile. */
static bool kept_symbols_suffice(const struct profile *profile, const struct recording *recording,
				 const struct kallsyms *kallsyms)
{
	for (uint32_t i = 1; kallsyms && i < profile->locations.count; i++) {
		if (is_missing(profile, kallsyms, i))
			return are_rare(profile, kallsyms, recording->tolerated_missing);
	}
	return kallsyms != NULL;
}

/* Returns 0 or -ENOMEM. */
static int profile_export_symbolize(struct profile *profile, const struct live_source *live,
				    const struct recording *recording, struct error *warning)
{
	struct kallsyms *kallsyms = NULL, *on_disk = NULL;
	const struct kallsyms *kept = recording->kallsyms;
	struct file_cache *cache = recording->symbolize ? recording->symbolize->cache : NULL;
	struct symbolize_counts ignored;
	struct symbol_source source;
	struct error error;
	int err;

	if (recording->symbolize && !kept)
		kept = on_disk = kernel_symbols_find(cache, "");
	err = kernel_place_modules(live->kernel, kept);
	if (!err)
		err = live_source_describe(live, profile);
	if (!err && recording->symbolize) {
		if (!kept_symbols_suffice(profile, recording, kept)) {
			if (kept && recording->reads_kernel)
				*recording->reads_kernel = true;
			kept = NULL;
			err = kernel_symbols_read(cache, "", &kallsyms, warning);
		}
		/* Without kernel symbols, the other ones are worth a profile. */
		if (err != -ENOMEM) {
			live_source_init(&source, live, kept ?: kallsyms, "");
			err = symbolize_profile(profile, &source, recording->symbolize, &ignored,
						&error);
		}
	}
	kallsyms_free(kallsyms);
	kallsyms_free(on_disk);
	return err;
}

/*
 * Clears the error of a step that adds to a profile. A function that lacks memory adds nothing, so
 * that all samples are there, and the next step can go on. Returns the error of the step.
 */
static int end_step(struct profile *profile, int err)
{
	if (!err)
		err = profile->error;
	profile->error = 0;
	return err;
}

int export_profile(struct window *window, struct mapped_files *files,
		   const struct recording *recording, struct truncation_counts *counts,
		   struct error *warning, struct error *error)
{
	struct live_source live = {
		.sandbox = recording->sandbox,
		.files = files,
		.perf_maps = window->perf_maps,
		.perf_map_count = window->perf_map_count,
		.kernel = kernel_new_at("", recording->kernel_text),
		.names_gone = recording->symbolize,
		.cache = recording->cache,
		.stop = recording->symbolize ? recording->symbolize->stop : 0,
	};
	struct gone_modules *gone = NULL;
	bool drop_label = !(recording->labels->chosen & LABEL_SET(LABEL_TRUNCATED));
	struct profile *profile = window->profile;
	const char *missing = NULL;
	int err = -ENOMEM, normalize_err;

	*warning->text = '\0';
	profile->main_file = profile_string(profile, recording->main_path);
	/* Without memory for it, functions of these modules have no names. */
	if (recording->gone && recording->gone->count)
		live.gone = gone = gone_modules_new(recording->gone->items, recording->gone->count);
	if (live.kernel)
		err = end_step(profile,
			       profile_export_symbolize(profile, &live, recording, warning));
	gone_modules_free(gone);
	kernel_free(live.kernel);
	blocks_join(profile);
	if (err)
		missing = "symbols are missing";
	normalize_err = end_step(profile, normalize_profile(profile, drop_label, counts));
	if (normalize_err)
		missing = err ? "symbols are missing, and stacks are not normalized"
			      : "stacks are not normalized";
	if (recording->symbolized)
		recording->symbolized(recording->symbolized_arg);
	profile_move_moments(profile, recording->clock_ns);
	profile->time_ns = recording->start_ns;
	profile->duration_ns = recording->duration_ns;
	profile->period = 1000000000 / recording->rate;
	encode_comments(window, recording, normalize_err ? NULL : counts);
	if (end_step(profile, 0) && !missing)
		missing = "comments are missing";
	if (recording->hides_go_runtime && end_step(profile, go_runtime_hide(profile)) && !missing)
		missing = "functions of Go's runtime are not hidden";
	if (!missing)
		return 0;
	profile_comment(profile, "out of memory: %s", missing);
	profile->error = 0;
	return error_set(error, ENOMEM, "out of memory: %s", missing);
}
