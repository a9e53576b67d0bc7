// SPDX-License-Identifier: GPL-2.0
/* The text of /metrics is what Prometheus reads, and what promtool accepts. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "serve/metrics.h"

#define COMPLETE 93

static char *print(const struct metrics *metrics)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	print_metrics(metrics, out);
	fclose(out);
	return text;
}

static void assert_line(const char *text, const char *line)
{
	const char *found = strstr(text, line);

	if (!found || (found > text && found[-1] != '\n') || found[strlen(line)] != '\n')
		fail_msg("'%s' is missing in:\n%s", line, text);
}

static void values_are_those_of_the_counters(void **state)
{
	struct metrics metrics = {
		.sampler = {.samples = 100,
			    .session[STACKBEAT_S_LOST_FULL] = 2,
			    .session[STACKBEAT_S_WORKER_OVERHEAD_NS] = 1500000000,
			    .session[STACKBEAT_S_MMAP_EVENTS_LOST] = 8,
			    .session[COUNTER_READER_OVERHEAD_NS] = 3000000000,
			    .session[COUNTER_TABLES_CPU_NS] = 1000000000,
			    .session[COUNTER_WRITING_CPU_NS] = 500000000,
			    .resident_bytes = 4096,
			    .clock_steps = 6},
		.store = {.removed_full = 3},
		.windows = 5,
		.newest_us = 1800000060000000,
		.jobs_killed = {11, 12},
		.cpu_ns = 20000000,
		.restarts = 6,
	};
	char *text;

	(void)state;
	metrics.sampler.truncated[TRUNCATED_KERNEL] = 100 - COMPLETE;
	text = print(&metrics);
	assert_line(text, "stackbeat_samples_total 100");
	assert_line(text, "stackbeat_http_restarts_total 6");
	assert_line(text, "stackbeat_samples_complete_total 93");
	assert_line(text, "stackbeat_samples_lost_total{cause=\"ring full\"} 2");
	assert_line(text, "stackbeat_samples_truncated_total{cause=\"kernel\"} 7");
	assert_line(text, "stackbeat_incomplete_total{kind=\"mapping events lost\"} 8");
	assert_line(text, "stackbeat_overhead_seconds_total{part=\"mappings\"} 1.500000000");
	assert_line(text, "stackbeat_overhead_seconds_total{part=\"unwind tables\"} 1.000000000");
	assert_line(text, "stackbeat_overhead_seconds_total{part=\"reading\"} 1.500000000");
	assert_line(text, "stackbeat_overhead_seconds_total{part=\"writing\"} 0.500000000");
	assert_line(text, "stackbeat_overhead_seconds_total{part=\"http\"} 0.020000000");
	assert_line(text, "stackbeat_windows_removed_total{reason=\"full disk\"} 3");
	assert_line(text, "stackbeat_windows 5");
	assert_line(text, "stackbeat_newest_window_timestamp_seconds 1800000060");
	assert_line(text, "stackbeat_jobs_killed_total{kind=\"query\"} 11");
	assert_line(text, "stackbeat_jobs_killed_total{kind=\"store\"} 12");
	assert_line(text, "stackbeat_clock_steps_total 6");
	assert_line(text, "stackbeat_resident_memory_bytes{process=\"sampler\"} 4096");
	free(text);
}

/* What a source does not measure is left out: a 0 would be a lie. */
static void source_is_named(void **state)
{
	struct metrics metrics = {.sampler = {.session[STACKBEAT_S_STACK_COPIES] = 7}};
	char *text = print(&metrics);

	(void)state;
	assert_line(text, "stackbeat_source_info{source=\"module\"} 1");
	assert_line(text, "stackbeat_overhead_seconds_total{part=\"sampling\"} 0.000000000");
	assert_line(text, "stackbeat_stack_copies_total 7");
	assert_null(strstr(text, "stack_copy_bytes"));
	free(text);
	metrics.sampler.is_perf = true;
	metrics.sampler.stack_copy = 8192;
	text = print(&metrics);
	assert_line(text, "stackbeat_source_info{source=\"perf\"} 1");
	assert_line(text, "stackbeat_stack_copy_bytes 8192");
	assert_null(strstr(text, "part=\"sampling\""));
	assert_null(strstr(text, "part=\"mappings\""));
	assert_line(text, "stackbeat_overhead_seconds_total{part=\"reading\"} 0.000000000");
	free(text);
}

/* A 0 would be a store that has not grown since 1970. */
static void store_without_windows_has_no_newest(void **state)
{
	char *text = print(&(struct metrics){0});

	(void)state;
	assert_line(text, "stackbeat_windows 0");
	assert_null(strstr(text, "newest_window"));
	free(text);
}

/* HELP and TYPE come before the samples; only counters end in _total, and all of them do. */
static void form_is_that_of_prometheus(void **state)
{
	char *text = print(&(struct metrics){.newest_us = US_PER_SECOND}), *next = text, *line,
	     *save = NULL;
	char name[128] = "", type[16] = "";

	(void)state;
	for (; (line = strtok_r(next, "\n", &save)); next = NULL) {
		size_t length = strlen(name);

		if (!strncmp(line, "# HELP ", 7)) {
			assert_int_equal(line[strlen(line) - 1], '.');
		} else if (sscanf(line, "# TYPE %127s %15s", name, type) == 2) {
			const char *end = name + strlen(name) - strlen("_total");

			assert_int_equal(!strcmp(end, "_total"), !strcmp(type, "counter"));
		} else {
			assert_memory_equal(line, name, length);
			assert_true(line[length] == ' ' || line[length] == '{');
			assert_non_null(strchr("0123456789", line[strlen(line) - 1]));
		}
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_those_of_the_counters),
		cmocka_unit_test(source_is_named),
		cmocka_unit_test(store_without_windows_has_no_newest),
		cmocka_unit_test(form_is_that_of_prometheus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
