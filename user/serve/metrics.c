// SPDX-License-Identifier: GPL-2.0
#include "serve/metrics.h"

#include <inttypes.h>
#include <stddef.h>

#include "record/counters.h"

static void metrics_print_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP stackbeat_%s %s\n# TYPE stackbeat_%s %s\n", name, help, name, type);
}

static void print_one(FILE *out, const char *name, const char *type, const char *help,
		      uint64_t value)
{
	metrics_print_head(out, name, type, help);
	fprintf(out, "stackbeat_%s %" PRIu64 "\n", name, value);
}

static void print_labelled(FILE *out, const char *name, const char *key, const char *label,
			   uint64_t value)
{
	fprintf(out, "stackbeat_%s{%s=\"%s\"} %" PRIu64 "\n", name, key, label, value);
}

static void print_seconds(FILE *out, const char *name, const char *label, uint64_t ns)
{
	fprintf(out, "stackbeat_%s{part=\"%s\"} %" PRIu64 ".%09" PRIu64 "\n", name, label,
		ns / 1000000000, ns % 1000000000);
}

static void print_sampling(const struct metrics *metrics, FILE *out)
{
	const struct sampler_counters *counters = &metrics->sampler;
	uint64_t complete = counters->samples;

	metrics_print_head(out, "source_info", "gauge", "The source of the samples.");
	print_labelled(out, "source_info", "source", counters->is_perf ? "perf" : "module", 1);
	if (counters->is_perf)
		print_one(out, "stack_copy_bytes", "gauge",
			  "Bytes of the user stack that a sample has, at most: deeper stacks are "
			  "truncated.",
			  counters->stack_copy);
	print_one(out, "stack_copies_total", "counter", "Samples with a copy of their user stack.",
		  counters->session[STACKBEAT_S_STACK_COPIES]);
	print_one(out, "samples_total", "counter", "Samples in slices that were symbolized.",
		  counters->samples);
	metrics_print_head(out, "samples_lost_total", "counter", "Samples lost, by cause.");
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		if (counter_table[i].group == COUNTERS_LOST)
			print_labelled(out, "samples_lost_total", "cause", counter_table[i].name,
				       counters->session[i]);
	}
	print_labelled(out, "samples_lost_total", "cause", "not exported", counters->lost_export);
	metrics_print_head(out, "samples_truncated_total", "counter",
			   "Samples whose stack is truncated, by cause.");
	for (enum truncation cause = 0; cause < TRUNCATED_COUNT; cause++) {
		print_labelled(out, "samples_truncated_total", "cause", truncation_name(cause),
			       counters->truncated[cause]);
		complete -= counters->truncated[cause] < complete ? counters->truncated[cause]
								  : complete;
	}
	print_one(out, "samples_complete_total", "counter", "Samples whose stack is complete.",
		  complete);
	print_one(out, "missed_ticks_total", "counter", "Ticks without a sample of their own.",
		  counters->session[STACKBEAT_S_MISSED_TICKS]);
	print_one(out, "throttled_total", "counter",
		  "How often the rate was halved on a CPU to keep the budget.",
		  counters->session[STACKBEAT_S_THROTTLED]);
	metrics_print_head(out, "incomplete_total", "counter", "What the profiles lack, by kind.");
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		if (counter_table[i].is_incomplete)
			print_labelled(out, "incomplete_total", "kind", counter_table[i].name,
				       counters->session[i]);
	}
	print_one(out, "sampling_rate_hertz", "gauge", "Rate of the continuous session.",
		  counters->rate);
	print_one(out, "clock_steps_total", "counter",
		  "How often the clock was set, by a second or more.", counters->clock_steps);
	print_one(out, "cpus", "gauge", "Sampled CPUs that were online at the start.",
		  counters->cpus);
	metrics_print_head(
		out, "overhead_seconds_total", "counter",
		"CPU time of the module and of all processes of stackbeat, by what it is for.");
	/* What perf events cost in the kernel is unknown. */
	for (enum cpu_part part = counters->is_perf ? CPU_TABLES : 0; part < CPU_PARTS; part++)
		print_seconds(out, "overhead_seconds_total", cpu_part_name(part),
			      counters_cpu_ns(counters->session, part));
	print_seconds(out, "overhead_seconds_total", "http", metrics->cpu_ns);
}

static void print_store(const struct metrics *metrics, FILE *out)
{
	const struct store_counts *counts = &metrics->store;

	print_one(out, "windows", "gauge", "Windows in the store.", metrics->windows);
	print_one(out, "window_bytes", "gauge", "Size of all windows in the store.",
		  metrics->window_bytes);
	if (metrics->newest_us)
		print_one(out, "newest_window_timestamp_seconds", "gauge",
			  "End of the newest window in the store, in seconds since 1970.",
			  (uint64_t)(metrics->newest_us / US_PER_SECOND));
	print_one(out, "windows_written_total", "counter", "Windows written to the store.",
		  counts->written);
	print_one(out, "windows_merged_total", "counter",
		  "Windows that were merged into longer ones.", counts->merged);
	metrics_print_head(out, "windows_removed_total", "counter", "Windows removed, by reason.");
	print_labelled(out, "windows_removed_total", "reason", "age", counts->removed_old);
	print_labelled(out, "windows_removed_total", "reason", "size", counts->removed_size);
	print_labelled(out, "windows_removed_total", "reason", "full disk", counts->removed_full);
	print_one(out, "windows_dropped_total", "counter",
		  "Attempts to write a window that failed.", counts->dropped);
	print_one(out, "windows_unreadable_total", "counter",
		  "Attempts to merge a window that could not be read.", counts->unreadable);
	print_one(out, "slices_dropped_total", "counter",
		  "Slices that were not stored, as the store did not work.",
		  metrics->slices_dropped);
}

void print_metrics(const struct metrics *metrics, FILE *out)
{
	metrics_print_head(out, "build_info", "gauge", "Version of stackbeat.");
	fputs("stackbeat_build_info{version=\"" STACKBEAT_VERSION "\"} 1\n", out);
	print_sampling(metrics, out);
	print_store(metrics, out);
	metrics_print_head(out, "resident_memory_bytes", "gauge", "Resident memory, by process.");
	print_labelled(out, "resident_memory_bytes", "process", "sampler",
		       metrics->sampler.resident_bytes);
	print_labelled(out, "resident_memory_bytes", "process", "http", metrics->resident_bytes);
	metrics_print_head(
		out, "jobs_killed_total", "counter",
		"Processes that did not come to their end, for lack of time or memory, by kind.");
	print_labelled(out, "jobs_killed_total", "kind", "query", metrics->jobs_killed[0]);
	print_labelled(out, "jobs_killed_total", "kind", "store", metrics->jobs_killed[1]);
	print_one(out, "http_requests_total", "counter", "HTTP requests that were answered.",
		  metrics->requests);
	print_one(out, "http_requests_failed_total", "counter",
		  "HTTP requests that were answered with an error.", metrics->requests_failed);
	print_one(out, "http_requests_refused_total", "counter",
		  "HTTP requests that were refused, as too many were being answered.",
		  metrics->requests_refused);
	print_one(out, "http_restarts_total", "counter",
		  "How often the process that serves HTTP was started again after a crash.",
		  metrics->restarts);
	print_one(out, "http_connections", "gauge", "Open HTTP connections.", metrics->connections);
}
