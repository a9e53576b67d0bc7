// SPDX-License-Identifier: GPL-2.0
#include "cli/read_progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/utf8.h"
#include "pprof/pprof_reader.h"

#define QUIET_NS (2 * NS_PER_SECOND)
#define LINE_NS (NS_PER_SECOND / 4) /* a slow terminal delays nothing */

void read_progress_begin(struct read_progress *progress, const char *path)
{
	const int64_t now = now_ns(CLOCK_MONOTONIC);

	*progress = (struct read_progress){path, now, now + QUIET_NS};
}

void read_progress_update(void *arg, double share)
{
	struct read_progress *progress = arg;
	const int64_t now = now_ns(CLOCK_MONOTONIC);

	if (now < progress->next_ns)
		return;
	progress->next_ns = now + LINE_NS;
	fputs("\rreading ", stderr);
	utf8_print(stderr, progress->path);
	fprintf(stderr, ": %.0f %%", 100 * share);
	/* As if the rest were as fast as the part that is done. */
	if (share > 0)
		fprintf(stderr, ", about %.0f s left",
			(double)(now - progress->start_ns) / NS_PER_SECOND * (1 - share) / share);
	fputs("\033[K", stderr);
}

void read_progress_end(const struct read_progress *progress)
{
	/* The line was printed at least once. */
	if (progress->next_ns != progress->start_ns + QUIET_NS)
		fputs("\r\033[K", stderr);
}

struct profile *read_progress_profile(const char *path, bool keeps_moments, struct error *error)
{
	struct read_progress progress;
	const struct pprof_read_options options = {
		.keeps_moments = keeps_moments,
		.progress = isatty(STDERR_FILENO) ? read_progress_update : NULL,
		.arg = &progress,
	};
	struct profile *profile;

	read_progress_begin(&progress, path);
	profile = pprof_read_with(path, &options, error);
	read_progress_end(&progress);
	return profile;
}
