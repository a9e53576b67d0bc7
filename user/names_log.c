// SPDX-License-Identifier: GPL-2.0
#include "names_log.h"

#include <stdio.h>

#define PROBLEMS_SHOWN 5u

static void remove_progress(struct names_log *log)
{
	if (log->shown)
		fputs("\r\033[K", stderr);
	log->shown = false;
}

void names_log_problem(void *arg, const char *path, const char *text)
{
	struct names_log *log = arg;

	remove_progress(log);
	if (log->problems++ < PROBLEMS_SHOWN)
		fprintf(stderr, "stackbeat: %s: %s\n", path, text);
}

void names_log_progress(void *arg, const char *path, uint64_t done, uint64_t total)
{
	struct names_log *log = arg;

	if (!log->progress)
		return;
	fprintf(stderr, "\rdebuginfod: %s, %.1f", path, (double)done / 1e6);
	if (total)
		fprintf(stderr, " of %.1f", (double)total / 1e6);
	fputs(" MB\033[K", stderr);
	log->shown = true;
}

void names_log_end(struct names_log *log)
{
	remove_progress(log);
	if (log->problems > PROBLEMS_SHOWN)
		fprintf(stderr, "stackbeat: and %u more problems with files\n",
			log->problems - PROBLEMS_SHOWN);
}
