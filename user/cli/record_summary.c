// SPDX-License-Identifier: GPL-2.0
#include "cli/record_summary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "cli/record_options.h"
#include "cli/view_options.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/truncation.h"
#include "record/profile_export.h"
#include "record/verification.h"
#include "record/window.h"

/* Lines of --verify. */
#define VERIFIED_OBJECTS_MAX 16u

/* Stands for the rest of a line. */
#define MORE "; more: report -v"

static void print_count(uint64_t count, const char *name, const char **separator, FILE *out)
{
	if (!count)
		return;
	fprintf(out, "%s%s %" PRIu64, *separator, name, count);
	*separator = ", ";
}

static double percent_of(uint64_t part, uint64_t total)
{
	return total ? 100 * (double)part / (double)total : 0;
}

/* The causes of lost and truncated samples, if there are any. */
static void print_causes(const struct recording *recording, const struct truncation_counts *counts,
			 FILE *out)
{
	const char *separator = "; lost: ";

	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		if (counter_table[i].group == COUNTERS_LOST)
			print_count(recording->counts[i], counter_table[i].name, &separator, out);
	}
	separator = "; truncated: ";
	for (enum truncation cause = 0; cause < TRUNCATED_COUNT; cause++)
		print_count(counts->samples[cause], truncation_name(cause), &separator, out);
}

/* How the callers in the user parts of stacks were found. */
static void print_unwinding(const struct window *window, const struct recording *recording,
			    FILE *out)
{
	const struct window_callers *callers = &window->callers;
	uint64_t total = callers->by_table + callers->by_frame_pointer + callers->by_copy;

	/* With perf events they are, as the first message says. */
	if (!recording->unwinds_by_tables || !total ||
	    (recording->is_perf && callers->by_copy == total))
		return;
	fprintf(out, "; callers by unwind tables %.1f %%, frame pointers %.1f %%, copies %.1f %%",
		percent_of(callers->by_table, total), percent_of(callers->by_frame_pointer, total),
		percent_of(callers->by_copy, total));
}

static void print_incomplete(const struct recording *recording,
			     const struct truncation_counts *counts, FILE *out)
{
	const char *separator = "; incomplete: ";

	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		if (!counter_table[i].is_incomplete)
			continue;
		print_count(recording->counts[i], counter_table[i].name, &separator, out);
		if (i == COUNTER_TABLES_REFUSED && recording->counts[i])
			fprintf(out, " (%s)", recording->table_refusal);
	}
	if (counts->unmapped)
		fprintf(out, "%suser frames outside all mappings %" PRIu64 " of %" PRIu64,
			separator, counts->unmapped, counts->user_frames);
}

static void print_merged(const struct window *window, FILE *out)
{
	struct window_merged merged;

	window_count_merged(window, &merged);
	if (merged.stacks)
		fprintf(out,
			"; merged for lack of memory: %" PRIu64 " stacks, %" PRIu64
			" samples without labels, %" PRIu64 " without callers",
			merged.stacks, merged.labels, merged.callers);
}

/* Samples for whose times there was no memory. */
static void print_timestamps(const struct window *window, FILE *out)
{
	const size_t moments = window->profile->moments.count;

	if (moments && moments < window->samples)
		fprintf(out,
			"; the last %" PRIu64 " samples have no timestamps: --memory and --rotate "
			"make room for more",
			window->samples - moments);
}

/* What was written: samples, their rate, and the file. */
static void print_written(const struct window *window, const struct recording *recording,
			  const char *path, uint64_t size, FILE *out)
{
	fprintf(out, "stackbeat: %" PRIu64 " samples in %.1f s", window->samples,
		(double)recording->duration_ns / NS_PER_SECOND);
	/* Perf events of CPUs, or without kernel mode, don't say how many ticks were missed. */
	if (recording->counts[STACKBEAT_S_TICK_TIME_NS])
		fprintf(out, " at %.0f of %u Hz", recording_mean_rate(recording), recording->rate);
	else if (recording->counts[STACKBEAT_S_TICKS])
		fprintf(out, " at %u Hz", recording->rate);
	fprintf(out, "; %s, %.1f kB\n", path, (double)size / 1000);
}

static void print_completeness(const struct window *window, const struct recording *recording,
			       const struct truncation_counts *counts, FILE *out)
{
	const uint64_t truncated = truncation_total(counts);

	fprintf(out,
		"stackbeat: %.1f %% complete, %" PRIu64 " truncated, %" PRIu64 " lost; overhead ",
		percent_of(window->samples - MIN(window->samples, truncated), window->samples),
		truncated, counters_lost(recording->counts));
	/* Most of a short recording is what begins and ends it, whatever its duration. */
	if (recording->duration_ns < NS_PER_SECOND)
		fprintf(out, "%.3f s of CPU time", recording_overhead_seconds(recording));
	else
		fprintf(out, "%.2f %% of %u CPU%s", recording_overhead_percent(recording),
			recording->cpus, recording->cpus == 1 ? "" : "s");
	fputs(recording->is_perf ? ", without the kernel's\n" : "\n", out);
}

/* A line of at most `columns`: it ends after an entry. */
static void summary_print_line(const char *line, size_t columns, FILE *out)
{
	const char *end = line + strlen(line);

	if (columns && (size_t)(end - line) > columns) {
		end = line + columns - MIN(columns, strlen(MORE));
		while (end > line && *end != ',' && *end != ';')
			end--;
		fprintf(out, "%.*s" MORE "\n", (int)(end - line), line);
	} else {
		fprintf(out, "%s\n", line);
	}
}

static int print_details(const struct window *window, const struct recording *recording,
			 const struct truncation_counts *counts, size_t columns, FILE *out)
{
	char *text = NULL;
	size_t size;
	FILE *details = open_memstream(&text, &size);

	if (!details)
		return -ENOMEM;
	fputs("stackbeat: ", details);
	print_causes(recording, counts, details);
	if (recording->counts[STACKBEAT_S_THROTTLED])
		fprintf(details, "; throttled %" PRIu64 " times",
			recording->counts[STACKBEAT_S_THROTTLED]);
	print_incomplete(recording, counts, details);
	print_merged(window, details);
	print_timestamps(window, details);
	print_unwinding(window, recording, details);
	if (fclose(details)) {
		free(text);
		return -ENOMEM;
	}
	if (size > strlen("stackbeat: ; ")) {
		/* The separator of the first entry separates it from nothing. */
		memmove(text + strlen("stackbeat: "), text + strlen("stackbeat: ; "),
			size - strlen("stackbeat: ; ") + 1);
		summary_print_line(text, columns, out);
	}
	free(text);
	return 0;
}

void print_record_summary(const struct window *window, const struct recording *recording,
			  const struct truncation_counts *counts, const char *path, uint64_t size,
			  size_t columns, FILE *out)
{
	print_written(window, recording, path, size, out);
	print_completeness(window, recording, counts, out);
	if (print_details(window, recording, counts, columns, out))
		fputs("stackbeat: out of memory: the causes of what is missing are in the file\n",
		      out);
}

void print_next_command(const char *path, FILE *out)
{
	const bool is_default = !strcmp(path, OUTPUT_DEFAULT);

	fprintf(out, "next: stackbeat report%s%s\n", is_default ? "" : " ", is_default ? "" : path);
}

void print_record_cpu(const struct recording *recording, FILE *out)
{
	fprintf(out, "stackbeat: overhead %.3f s of CPU time",
		recording_overhead_seconds(recording));
	for (enum cpu_part part = 0; part < CPU_PARTS; part++)
		fprintf(out, "%s%s %.3f s", part ? ", " : ": ", cpu_part_name(part),
			(double)counters_cpu_ns(recording->counts, part) / NS_PER_SECOND);
	fputc('\n', out);
}

static void print_comparison(const uint64_t results[COMPARISON_COUNT], const char *noun, FILE *out)
{
	static const char *const names[COMPARISON_COUNT] = {"equal", "longer", "shorter",
							    "different"};
	const char *separator = ": ";
	uint64_t total = 0;

	for (size_t i = 0; i < COMPARISON_COUNT; i++)
		total += results[i];
	fprintf(out, "%" PRIu64 " %s", total, noun);
	for (size_t i = 0; i < COMPARISON_COUNT; i++) {
		if (i != COMPARED_EQUAL && !results[i])
			continue;
		fprintf(out, "%s%" PRIu64 " %s (%.2f %%)", separator, results[i], names[i],
			percent_of(results[i], total));
		separator = ", ";
	}
	fputc('\n', out);
}

void print_verification(const struct verification_result *result, FILE *out)
{
	fputs("stackbeat: unwound again by elfutils: ", out);
	print_comparison(result->results, "user stacks", out);
	if (result->longer_outermost)
		fprintf(out,
			"stackbeat:   %" PRIu64 " of the longer ones end at the outermost caller\n",
			result->longer_outermost);
	for (size_t i = 0; i < MIN(result->object_count, VERIFIED_OBJECTS_MAX); i++) {
		const struct verified_object *object = &result->objects[i];

		fprintf(out, "stackbeat:   %s: ", *object->path ? object->path : "other code");
		print_comparison(object->results, "callers", out);
	}
	if (result->dropped + result->late + result->failed)
		fprintf(out,
			"stackbeat:   not unwound again: %" PRIu64 " for lack of memory, %" PRIu64
			" for lack of time, %" PRIu64 " by failures\n",
			result->dropped, result->late, result->failed);
}

void print_lost_at_end(const struct recording *recording, FILE *out)
{
	const uint64_t lost = counters_lost(recording->counts);

	if (lost)
		fprintf(out, "stackbeat: all %" PRIu64 " samples after the last file were lost\n",
			lost);
}

int explain_no_samples(const struct recording *recording, struct error *error)
{
	const uint64_t *counts = recording->counts;

	if (counters_lost(counts))
		return error_set(error, ENODATA, "no samples: all %" PRIu64 " were lost",
				 counters_lost(counts));
	if (counts[STACKBEAT_S_FILTERED])
		return error_set(error, ENODATA,
				 "no samples: nothing that the filter selects was running at any "
				 "of the %" PRIu64 " ticks",
				 counts[STACKBEAT_S_FILTERED] + counts[STACKBEAT_S_IDLE]);
	if (counts[STACKBEAT_S_IDLE])
		return error_set(error, ENODATA,
				 "no samples: the CPUs were idle at all %" PRIu64 " ticks",
				 counts[STACKBEAT_S_IDLE]);
	/* Perf events do not tick while nothing that is selected runs. */
	if (recording->is_perf)
		return error_set(error, ENODATA,
				 "no samples: nothing that is selected took 1/%u s of CPU time, "
				 "after which perf events sample; a longer recording or a higher "
				 "-F gives more",
				 recording->rate);
	return error_set(error, ENODATA,
			 "no samples: the recording ended before the first tick, which comes after "
			 "1/%u s; a higher -F gives more",
			 recording->rate);
}
