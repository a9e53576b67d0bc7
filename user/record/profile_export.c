// SPDX-License-Identifier: GPL-2.0
#include "record/profile_export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "pprof/origin.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "record/window.h"
#include "runtime/go_layout.h"
#include "symbolize/go_runtime.h"
#include "symbolize/live_source.h"
#include "symbolize/normalize.h"
#include "symbolize/symbolizer.h"

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

static void encode_unwinding(const struct window *window, const struct recording *recording)
{
	const struct window_callers *callers = &window->callers;

	profile_comment(window->profile,
			"callers in user mode: by unwind tables %" PRIu64
			", by frame pointers %" PRIu64 ", by copies of stacks %" PRIu64,
			callers->by_table, callers->by_frame_pointer, callers->by_copy);
	if (!recording->unwinds_by_tables)
		return;
	profile_comment(window->profile,
			"unwind tables: compiled %" PRIu64 ", files without %" PRIu64
			", files not read %" PRIu64 ", refused by the module %" PRIu64
			", ranges of code not supported %" PRIu64,
			recording->tables_compiled, recording->tables_none,
			recording->tables_failed, recording->tables_refused,
			recording->tables_unsupported);
	profile_comment(window->profile,
			"copies of stacks: used %" PRIu64 ", given up %" PRIu64 ", lost %" PRIu64,
			recording->stack_copies_walked, recording->stack_copies_given_up,
			recording->stack_copies_lost);
	if (recording->unknown_go)
		profile_comment(window->profile,
				"Go 1.%u is newer than this version of stackbeat: its goroutines "
				"are read as those of Go 1.%u",
				recording->unknown_go,
				go_layout_of_version(1, recording->unknown_go)->last);
}

/* `counts` is NULL if they are unknown. */
static void encode_comments(const struct window *window, const struct recording *recording,
			    const struct truncation_counts *counts)
{
	struct profile *profile = window->profile;
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
	if (counts) {
		truncation_comment(counts, text);
		profile_comment(profile, "%s", text);
	}
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
	if (counts) {
		frames_comment(counts, text);
		profile_comment(profile, "%s", text);
	}
	encode_unwinding(window, recording);
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

/* Returns 0 or -ENOMEM. */
static int symbolize(struct profile *profile, const struct live_source *live,
		     const struct recording *recording, struct error *warning)
{
	struct kallsyms *kallsyms = NULL;
	struct symbolize_counts ignored;
	struct symbol_source source;
	struct error error;
	int err = live_source_describe(live, profile);

	if (!err && recording->symbolize) {
		err = kallsyms_read(KALLSYMS_PATH, &kallsyms, warning);
		/* Without kernel symbols, the other ones are worth a profile. */
		if (err != -ENOMEM) {
			live_source_init(&source, live, kallsyms, "");
			err = symbolize_profile(profile, &source, recording->symbolize, &ignored,
						&error);
		}
	}
	kallsyms_free(kallsyms);
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
	const struct live_source live = {
		.sandbox = recording->sandbox,
		.files = files,
		.perf_maps = window->perf_maps,
		.perf_map_count = window->perf_map_count,
		.kernel = kernel_new(""),
		.stop = recording->symbolize ? recording->symbolize->stop : 0,
	};
	bool drop_label = !(recording->labels->chosen & LABEL_SET(LABEL_TRUNCATED));
	struct profile *profile = window->profile;
	const char *missing = NULL;
	int err = -ENOMEM, normalize_err;

	*warning->text = '\0';
	if (live.kernel)
		err = end_step(profile, symbolize(profile, &live, recording, warning));
	kernel_free(live.kernel);
	if (err)
		missing = "symbols are missing";
	normalize_err = end_step(profile, normalize_profile(profile, drop_label, counts));
	if (normalize_err)
		missing = err ? "symbols are missing, and stacks are not normalized"
			      : "stacks are not normalized";
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
