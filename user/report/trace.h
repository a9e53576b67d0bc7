/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The samples of a profile in order of time, by threads and by CPUs: what the formats of timelines
 * have in common. Of a profile with moments (pprof/profile.h); the labels pid, tid, thread, comm
 * and cpu say where a sample was taken.
 */
#ifndef STACKBEAT_REPORT_TRACE_H
#define STACKBEAT_REPORT_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "pprof/profile.h"

#define TRACE_NO_CPU UINT32_MAX

/* The samples of a thread or CPU, in order of time: see trace_track_sample(). */
struct trace_track {
	int64_t pid, tid; /* of a thread; 0: unknown */
	const char *process, *name; /* of a thread, in the profile; "": unknown */
	uint32_t cpu; /* of a CPU */
	const uint32_t *numbers; /* in trace->samples; NULL: from `first` on */
	size_t first, count;
};

struct trace_sample {
	int64_t time_ns; /* since 1970 */
	int64_t weight; /* of the shown type */
	uint32_t stack, cpu, thread; /* index of the track */
};

struct trace {
	const struct profile *profile;
	struct trace_track *threads; /* by process, the first thread first, and thread ID */
	size_t thread_count;
	struct trace_sample *samples; /* by thread, and time */
	size_t sample_count;
	struct trace_track *cpus; /* by number; of known CPUs */
	size_t cpu_count;
	uint32_t *by_cpu; /* indices of `samples`, by CPU, and time */
	int64_t start_ns, end_ns; /* of what is shown: no sample is outside */
	int64_t left_out; /* values of the shown type without a time */
	int64_t period_ns; /* that a sample stands for; 0: its weight */
	/*
	 * Frames are numbered: a location has those from first_frames[location] up to
	 * first_frames[location + 1], innermost first: one for each of its lines, or one.
	 */
	uint32_t *first_frames;
	size_t deepest; /* the most frames of a stack */
};

/*
 * Sets `trace`, for the values of `type` (an index), which must be positive: other samples are left
 * out. trace_clear() is to be called in any case. Returns 0 or -ENOMEM.
 */
int trace_make(struct trace *trace, const struct profile *profile, size_t type);
void trace_clear(struct trace *trace);

/*
 * Returns when the time begins that a sample stands for, and that ends at its time. `before` is the
 * time of the sample before in its track. The thread has run since then, unless the two are farther
 * apart than two periods: so the expected value of the sum is the CPU time, and a track has gaps
 * where a thread has not run.
 */
int64_t trace_begin(const struct trace *trace, int64_t before, const struct trace_sample *sample);

/* Writes the numbers of the frames of a stack, the outermost first. Returns their number. */
size_t trace_stack_frames(const struct trace *trace, uint32_t stack, uint32_t *frames);

/* Returns the location of a frame by its number. */
uint32_t trace_frame_location(const struct trace *trace, uint32_t frame);

static inline const struct trace_sample *
trace_track_sample(const struct trace *trace, const struct trace_track *track, size_t i)
{
	const size_t at = track->first + i;

	return &trace->samples[track->numbers ? track->numbers[at] : at];
}

static inline uint32_t trace_frame_count(const struct trace *trace)
{
	return trace->first_frames[trace->profile->locations.count];
}

/*
 * Returns the line of a frame, the line with this index of its location; NULL: it has none.
 */
static inline const struct profile_line *trace_line(const struct trace *trace, uint32_t location,
						    uint32_t index)
{
	const struct profile_location *at = &trace->profile->locations.items[location];

	return at->line_count ? profile_lines(trace->profile, at) + index : NULL;
}

/*
 * Sets *text to the name of a frame, of its function or its address, which the caller frees.
 * Returns 0 or -ENOMEM.
 */
int trace_frame_name(const struct trace *trace, uint32_t location, const struct profile_line *line,
		     char **text);

/*
 * Sets *text to the name of a thread for people, like "worker of program (pid 12, tid 13)", which
 * the caller frees. Returns 0 or -ENOMEM.
 */
int trace_thread_name(const struct trace_track *thread, char **text);

#endif
