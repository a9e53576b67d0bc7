// SPDX-License-Identifier: GPL-2.0
#include "cli/symbolize_messages.h"

#include <stdio.h>

#include "lib/utf8.h"

#define PROBLEMS_SHOWN 5u
#define QUIET_MS 2000 /* before the progress of names is shown */

static void remove_progress(struct symbolize_messages *messages)
{
	if (messages->shown)
		fputs("\r\033[K", stderr);
	messages->shown = false;
}

void symbolize_messages_line(const char *path, const char *text)
{
	fputs("stackbeat: ", stderr);
	utf8_print(stderr, path);
	fputs(": ", stderr);
	utf8_print(stderr, text);
	fputc('\n', stderr);
}

void symbolize_messages_problem(void *arg, const char *path, const char *text)
{
	struct symbolize_messages *messages = arg;

	remove_progress(messages);
	if (messages->problems++ < PROBLEMS_SHOWN || messages->verbose)
		symbolize_messages_line(path, text);
}

void symbolize_messages_progress(void *arg, const char *path, uint64_t done, uint64_t total)
{
	struct symbolize_messages *messages = arg;

	if (!messages->progress)
		return;
	fputs("\rdebuginfod: ", stderr);
	utf8_print(stderr, path);
	fprintf(stderr, ", %.1f", (double)done / 1e6);
	if (total)
		fprintf(stderr, " of %.1f", (double)total / 1e6);
	fputs(" MB\033[K", stderr);
	messages->shown = true;
}

void symbolize_messages_names(void *arg, size_t done, size_t total, int64_t elapsed_ms)
{
	struct symbolize_messages *messages = arg;

	if (!messages->progress || elapsed_ms < QUIET_MS || !total)
		return;
	fprintf(stderr, "\rreading names: %.0f %% of %zu addresses",
		100 * (double)done / (double)total, total);
	/* As if the rest were as fast as the part that is done. */
	if (done)
		fprintf(stderr, ", about %.0f s left",
			(double)elapsed_ms / 1000 * (double)(total - done) / (double)done);
	fputs("\033[K", stderr);
	messages->shown = true;
}

void symbolize_messages_interrupted(void *arg)
{
	remove_progress(arg);
	fputs("stackbeat: interrupted: some functions have no lines, or no symbols\n", stderr);
}

void symbolize_messages_timed_out(void *arg, unsigned int timeout_s, size_t files)
{
	remove_progress(arg);
	fprintf(stderr,
		"stackbeat: symbolizing took longer than %u s: %zu file%s without names, or with "
		"some only\n",
		timeout_s, files, files == 1 ? "" : "s");
}

void symbolize_messages_end(struct symbolize_messages *messages)
{
	remove_progress(messages);
	if (messages->problems > PROBLEMS_SHOWN && !messages->verbose)
		fprintf(stderr, "stackbeat: and %u more problems with files; -v lists them\n",
			messages->problems - PROBLEMS_SHOWN);
}
