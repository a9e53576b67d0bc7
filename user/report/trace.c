// SPDX-License-Identifier: GPL-2.0
#include "report/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "lib/hash.h"
#include "pprof/labels.h"
#include "report/frame_name.h"

/* Times of damaged files are none: differences of these can't overflow. */
#define TIME_MAX_NS (INT64_MAX / 2)
#define UNKNOWN UINT32_MAX

/* Where the samples with a label set were taken. */
struct trace_place {
	uint32_t thread; /* UNKNOWN: not looked up yet */
	uint32_t cpu;
};

struct tracer {
	struct trace *trace;
	size_t type;
	struct trace_place *places; /* by label set */
	struct hash thread_index;
	size_t thread_capacity;
};

/* Threads */

static bool trace_thread_equal(const void *context, uint32_t index, const void *key)
{
	const struct trace_track *a = &((const struct trace *)context)->threads[index];
	const struct trace_track *b = key;

	/* Names change during the life of a thread; they distinguish threads without IDs. */
	return a->pid == b->pid && a->tid == b->tid &&
	       (a->tid || (!strcmp(a->process, b->process) && !strcmp(a->name, b->name)));
}

/* Returns the index of a thread, or UNKNOWN without memory. */
static uint32_t intern_thread(struct tracer *tracer, const struct trace_track *thread)
{
	struct trace *trace = tracer->trace;
	uint32_t hash = hash_number(HASH_START, (uint64_t)thread->pid);
	uint32_t index;

	hash = hash_number(hash, (uint64_t)thread->tid);
	if (!thread->tid)
		hash = hash_string(hash_string(hash, thread->process), thread->name);
	index = hash_find(&tracer->thread_index, hash, trace_thread_equal, trace, thread);
	if (index != HASH_NONE)
		return index;
	if (array_reserve(&trace->threads, &tracer->thread_capacity, trace->thread_count, 1,
			  sizeof(*trace->threads)) ||
	    hash_add(&tracer->thread_index, hash, (uint32_t)trace->thread_count))
		return UNKNOWN;
	trace->threads[trace->thread_count] = *thread;
	return (uint32_t)trace->thread_count++;
}

static void read_label(const struct profile *profile, const struct profile_label *label,
		       struct trace_track *thread, uint32_t *cpu)
{
	const char *key = profile_text(profile, label->key);

	switch (label_of_key(key)) {
	case LABEL_COMM:
		thread->process = profile_text(profile, label->text);
		break;
	case LABEL_THREAD:
		thread->name = profile_text(profile, label->text);
		break;
	case LABEL_PID:
		/* Not nspid, which has the same choice. */
		if (!strcmp(key, "pid"))
			thread->pid = label->number;
		break;
	case LABEL_TID:
		thread->tid = label->number;
		break;
	case LABEL_CPU:
		if (label->number >= 0 && label->number < TRACE_NO_CPU)
			*cpu = (uint32_t)label->number;
		break;
	default:
		break;
	}
}

/* Returns 0 or -ENOMEM. */
static int find_place(struct tracer *tracer, uint32_t label_set, struct trace_place *place)
{
	const struct profile *profile = tracer->trace->profile;
	const uint32_t *labels = profile_set_labels(profile, label_set);
	struct trace_track thread = {.process = "", .name = ""};
	uint32_t cpu = TRACE_NO_CPU;

	*place = tracer->places[label_set];
	if (place->thread != UNKNOWN)
		return 0;
	for (uint32_t i = 0; i < profile->label_sets.items[label_set].count; i++)
		read_label(profile, &profile->labels.items[labels[i]], &thread, &cpu);
	if (!*thread.name)
		thread.name = thread.process;
	*place = (struct trace_place){intern_thread(tracer, &thread), cpu};
	tracer->places[label_set] = *place;
	return place->thread == UNKNOWN ? -ENOMEM : 0;
}

static int trace_compare_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_threads(const void *left, const void *right, void *arg)
{
	const struct trace_track *threads = ((const struct trace *)arg)->threads;
	const struct trace_track *a = &threads[*(const uint32_t *)left];
	const struct trace_track *b = &threads[*(const uint32_t *)right];

	return trace_compare_numbers(a->pid, b->pid)
		       ?: ((b->tid == b->pid) - (a->tid == a->pid))
			      ?: trace_compare_numbers(a->tid, b->tid)
				     ?: strcmp(a->process, b->process)
					    ?: strcmp(a->name, b->name);
}

/* Sorts the threads, and changes their indices in the samples. Returns 0 or -ENOMEM. */
static int sort_threads(struct trace *trace)
{
	uint32_t *order = calloc(trace->thread_count + 1, sizeof(*order));
	uint32_t *numbers = calloc(trace->thread_count + 1, sizeof(*numbers));
	struct trace_track *sorted = calloc(trace->thread_count + 1, sizeof(*sorted));
	int err = order && numbers && sorted ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < trace->thread_count && !err; i++)
		order[i] = i;
	if (!err)
		qsort_r(order, trace->thread_count, sizeof(*order), compare_threads, trace);
	for (uint32_t i = 0; i < trace->thread_count && !err; i++) {
		numbers[order[i]] = i;
		sorted[i] = trace->threads[order[i]];
	}
	for (size_t i = 0; i < trace->sample_count && !err; i++)
		trace->samples[i].thread = numbers[trace->samples[i].thread];
	if (!err) {
		free(trace->threads);
		trace->threads = sorted;
		sorted = NULL;
	}
	free(order);
	free(numbers);
	free(sorted);
	return err;
}

/* Samples */

static int collect_samples(struct tracer *tracer)
{
	struct trace *trace = tracer->trace;
	const struct profile *profile = trace->profile;

	for (size_t i = 0; i < profile->samples.count; i++) {
		const int64_t value = MAX(0, profile_values(profile, i)[tracer->type]);

		if (__builtin_add_overflow(trace->left_out, value, &trace->left_out))
			trace->left_out = INT64_MAX;
	}
	for (size_t i = 0; i < profile->moments.count; i++) {
		const struct profile_moment *moment = &profile->moments.items[i];
		const struct profile_sample *sample = &profile->samples.items[moment->sample];
		const int64_t weight = profile_moment_values(profile, i)[tracer->type];
		struct trace_place place;

		if (weight <= 0 || moment->time_ns < 0 || moment->time_ns > TIME_MAX_NS)
			continue;
		if (find_place(tracer, sample->label_set, &place))
			return -ENOMEM;
		trace->samples[trace->sample_count++] = (struct trace_sample){
			moment->time_ns, weight, sample->stack, place.cpu, place.thread};
		trace->left_out -= weight;
	}
	return 0;
}

static int trace_compare_samples(const void *left, const void *right)
{
	const struct trace_sample *a = left, *b = right;

	/* The order of samples at the same time does not depend on qsort(). */
	return trace_compare_numbers(a->thread, b->thread)
		       ?: trace_compare_numbers(a->time_ns, b->time_ns)
			      ?: trace_compare_numbers(a->stack, b->stack)
				     ?: trace_compare_numbers(a->cpu, b->cpu)
					    ?: trace_compare_numbers(a->weight, b->weight);
}

static int compare_by_cpu(const void *left, const void *right, void *arg)
{
	const struct trace_sample *samples = arg;
	const uint32_t i = *(const uint32_t *)left, j = *(const uint32_t *)right;

	return trace_compare_numbers(samples[i].cpu, samples[j].cpu)
		       ?: trace_compare_numbers(samples[i].time_ns, samples[j].time_ns)
			      ?: trace_compare_numbers(i, j);
}

/* Sets the ranges of the threads, and the tracks of the CPUs. Returns 0 or -ENOMEM. */
static int divide_samples(struct trace *trace)
{
	size_t capacity = 0;
	uint32_t cpu = TRACE_NO_CPU;

	for (size_t i = 0; i < trace->sample_count; i++) {
		struct trace_track *thread = &trace->threads[trace->samples[i].thread];

		if (!thread->count++)
			thread->first = i;
	}
	for (uint32_t i = 0; i < trace->sample_count; i++)
		trace->by_cpu[i] = i;
	qsort_r(trace->by_cpu, trace->sample_count, sizeof(*trace->by_cpu), compare_by_cpu,
		trace->samples);
	for (size_t i = 0; i < trace->sample_count; i++) {
		const uint32_t own = trace->samples[trace->by_cpu[i]].cpu;

		/* The last ones. */
		if (own == TRACE_NO_CPU)
			break;
		if (!trace->cpu_count || own != cpu) {
			if (array_reserve(&trace->cpus, &capacity, trace->cpu_count, 1,
					  sizeof(*trace->cpus)))
				return -ENOMEM;
			trace->cpus[trace->cpu_count++] =
				(struct trace_track){.process = "",
						     .name = "",
						     .cpu = own,
						     .numbers = trace->by_cpu,
						     .first = i};
			cpu = own;
		}
		trace->cpus[trace->cpu_count - 1].count++;
	}
	return 0;
}

/* The profile says when it begins and ends; but what is shown has its place in any case. */
static void find_times(struct trace *trace)
{
	const struct profile *profile = trace->profile;
	int64_t end;

	trace->start_ns = INT64_MAX;
	for (size_t i = 0; i < trace->sample_count; i++) {
		const struct trace_sample *sample = &trace->samples[i];
		const bool is_first = !i || sample[-1].thread != sample->thread;
		const int64_t before = is_first ? INT64_MIN : sample[-1].time_ns;

		trace->start_ns = MIN(trace->start_ns, trace_begin(trace, before, sample));
		trace->end_ns = MAX(trace->end_ns, sample->time_ns);
	}
	if (profile->time_ns > 0 && profile->time_ns < trace->start_ns)
		trace->start_ns = profile->time_ns;
	if (!__builtin_add_overflow(trace->start_ns, profile->duration_ns, &end) &&
	    end <= TIME_MAX_NS)
		trace->end_ns = MAX(trace->end_ns, end);
	trace->start_ns = MIN(trace->start_ns, trace->end_ns);
}

/* Frames */

static int trace_number_frames(struct trace *trace)
{
	const struct profile *profile = trace->profile;
	uint64_t frames = 0;

	trace->first_frames = calloc(profile->locations.count + 1, sizeof(uint32_t));
	if (!trace->first_frames)
		return -ENOMEM;
	for (size_t i = 0; i < profile->locations.count; i++) {
		trace->first_frames[i] = (uint32_t)frames;
		frames += MAX(1, profile->locations.items[i].line_count);
	}
	if (frames >= UNKNOWN)
		return -ENOMEM;
	trace->first_frames[profile->locations.count] = (uint32_t)frames;
	for (uint32_t i = 0; i < profile->stacks.count; i++) {
		const uint32_t *locations = profile_stack_locations(profile, i);
		size_t depth = 0;

		for (uint32_t j = 0; j < profile->stacks.items[i].count; j++)
			depth += trace->first_frames[locations[j] + 1] -
				 trace->first_frames[locations[j]];
		trace->deepest = MAX(trace->deepest, depth);
	}
	return 0;
}

uint32_t trace_frame_location(const struct trace *trace, uint32_t frame)
{
	size_t low = 0, high = trace->profile->locations.count;

	/* The last location whose first frame is not behind. */
	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;

		if (trace->first_frames[middle] <= frame)
			low = middle;
		else
			high = middle;
	}
	return (uint32_t)low;
}

size_t trace_stack_frames(const struct trace *trace, uint32_t stack, uint32_t *frames)
{
	const uint32_t *locations = profile_stack_locations(trace->profile, stack);
	size_t count = 0;

	for (uint32_t depth = trace->profile->stacks.items[stack].count; depth-- > 0;) {
		const uint32_t first = trace->first_frames[locations[depth]];

		for (uint32_t next = trace->first_frames[locations[depth] + 1]; next-- > first;)
			frames[count++] = next;
	}
	return count;
}

int trace_frame_name(const struct trace *trace, uint32_t location, const struct profile_line *line,
		     char **text)
{
	const char *name = line ? function_name(trace->profile, line->function) : "";

	*text = *name ? strdup(name)
		      : address_name(trace->profile, &trace->profile->locations.items[location]);
	return *text ? 0 : -ENOMEM;
}

/* Trace */

int64_t trace_begin(const struct trace *trace, int64_t before, const struct trace_sample *sample)
{
	const int64_t own = trace->period_ns ? trace->period_ns : sample->weight;

	if (before == INT64_MIN || (sample->time_ns - before) / 2 > own)
		return MAX(0, sample->time_ns - own);
	return before;
}

static bool weights_are_times(const struct profile *profile, size_t type)
{
	return !strcmp(profile_text(profile, profile->types.items[type].unit), "nanoseconds");
}

int trace_make(struct trace *trace, const struct profile *profile, size_t type)
{
	struct tracer tracer = {.trace = trace, .type = type};
	int err;

	*trace = (struct trace){.profile = profile};
	if (!weights_are_times(profile, type))
		trace->period_ns = MAX(1, profile->period);
	trace->samples = calloc(profile->moments.count + 1, sizeof(*trace->samples));
	trace->by_cpu = calloc(profile->moments.count + 1, sizeof(*trace->by_cpu));
	tracer.places = calloc(profile->label_sets.count, sizeof(*tracer.places));
	err = trace->samples && trace->by_cpu && tracer.places ? trace_number_frames(trace)
							       : -ENOMEM;
	if (!err) {
		for (size_t i = 0; i < profile->label_sets.count; i++)
			tracer.places[i].thread = UNKNOWN;
		err = collect_samples(&tracer) ?: sort_threads(trace);
	}
	if (!err) {
		qsort(trace->samples, trace->sample_count, sizeof(*trace->samples),
		      trace_compare_samples);
		err = divide_samples(trace);
		find_times(trace);
	}
	free(tracer.places);
	hash_clear(&tracer.thread_index);
	return err;
}

void trace_clear(struct trace *trace)
{
	free(trace->threads);
	free(trace->samples);
	free(trace->cpus);
	free(trace->by_cpu);
	free(trace->first_frames);
}

int trace_thread_name(const struct trace_track *thread, char **text)
{
	const bool has_process = *thread->process && strcmp(thread->process, thread->name);
	char ids[64] = "";

	if (thread->pid && thread->tid)
		snprintf(ids, sizeof(ids), " (pid %" PRId64 ", tid %" PRId64 ")", thread->pid,
			 thread->tid);
	else if (thread->pid)
		snprintf(ids, sizeof(ids), " (pid %" PRId64 ")", thread->pid);
	if (asprintf(text, "%s%s%s%s", *thread->name ? thread->name : "thread",
		     has_process ? " of " : "", has_process ? thread->process : "", ids) < 0) {
		*text = NULL;
		return -ENOMEM;
	}
	return 0;
}
