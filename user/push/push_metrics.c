// SPDX-License-Identifier: GPL-2.0
#include "push/push_metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/atomic_file.h"
#include "lib/error.h"
#include "push/push_store.h"

static void print_metric(FILE *out, const char *name, const char *type, const char *help,
			 uint64_t value)
{
	fprintf(out,
		"# HELP stackbeat_push_%s %s\n# TYPE stackbeat_push_%s %s\n"
		"stackbeat_push_%s %" PRIu64 "\n",
		name, help, name, type, name, value);
}

static void print_push_metrics(const struct push_store_counts *counts,
			       const struct push_state *state, bool waits, FILE *out)
{
	const struct push_counts *pushed = &counts->pushed;

	print_metric(out, "windows_total", "counter", "Windows that were pushed completely.",
		     counts->windows);
	print_metric(out, "requests_total", "counter", "Requests that the server accepted.",
		     pushed->requests);
	print_metric(out, "samples_total", "counter", "Samples in them.", pushed->samples);
	print_metric(out, "refused_total", "counter",
		     "Services of windows that the server refused, or failed for.",
		     pushed->refused);
	print_metric(out, "stacks_merged_total", "counter",
		     "Stacks that were merged for the limits of a request.", pushed->merged);
	print_metric(out, "services_merged_total", "counter",
		     "Services that were a part of another one for the limits of a window.",
		     pushed->services_merged);
	print_metric(out, "clock_steps_total", "counter",
		     "Times that the next window was to begin after the present time.",
		     counts->went_back);
	print_metric(out, "waiting", "gauge", "1 if the server did not accept what was tried last.",
		     waits);
	print_metric(out, "next_timestamp_seconds", "gauge",
		     "Windows that start before this time were pushed, or left out.",
		     (uint64_t)(state->next_us / 1000000));
}

int push_metrics_write(struct push_metrics *metrics, const struct push_store_counts *counts,
		       const struct push_state *state, bool waits, struct error *error)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int err = 0;

	if (!out)
		return error_errno(error, ENOMEM, "%s", metrics->path);
	print_push_metrics(counts, state, waits, out);
	if (fclose(out)) {
		free(text);
		return error_errno(error, ENOMEM, "%s", metrics->path);
	}
	if (!metrics->text || strcmp(metrics->text, text) != 0)
		err = atomic_file_store(metrics->path, text, size, error);
	if (err) {
		free(text);
		return err;
	}
	free(metrics->text);
	metrics->text = text;
	return 0;
}

void push_metrics_clear(struct push_metrics *metrics)
{
	free(metrics->text);
	metrics->text = NULL;
}
