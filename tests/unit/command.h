/* SPDX-License-Identifier: GPL-2.0 */
/* Runs a subcommand in the process of the test, or catches what other functions print. */
#ifndef STACKBEAT_TEST_COMMAND_H
#define STACKBEAT_TEST_COMMAND_H

#include <getopt.h>

#include "cli/commands.h"
#include "sandbox.h"

static char output[16384], messages[4096];

static inline void read_text(FILE *file, char *text, size_t size)
{
	rewind(file);
	text[fread(text, 1, size - 1, file)] = '\0';
	fclose(file);
}

static struct {
	FILE *out, *err;
	int saved_out, saved_err;
} capture;

/* What is printed from here to capture_end() becomes `output` and `messages`. */
static inline void capture_begin(void)
{
	capture.out = tmpfile();
	capture.err = tmpfile();
	assert_true(capture.out && capture.err);
	fflush(stdout);
	capture.saved_out = dup(STDOUT_FILENO);
	capture.saved_err = dup(STDERR_FILENO);
	dup2(fileno(capture.out), STDOUT_FILENO);
	dup2(fileno(capture.err), STDERR_FILENO);
}

static inline void capture_end(void)
{
	fflush(stdout);
	dup2(capture.saved_out, STDOUT_FILENO);
	dup2(capture.saved_err, STDERR_FILENO);
	close(capture.saved_out);
	close(capture.saved_err);
	read_text(capture.out, output, sizeof(output));
	read_text(capture.err, messages, sizeof(messages));
}

/* Runs a command with the words of its command line, and sets `output` and `messages`. */
static inline int run_command(int (*command)(int argc, char **argv), const char *line)
{
	static char words[1024];
	char *argv[32], *rest = words;
	int argc = 0, status;

	snprintf(words, sizeof(words), "%s", line);
	while (rest)
		argv[argc++] = strsep(&rest, " ");
	argv[argc] = NULL;
	capture_begin();
	optind = 0;
	status = command(argc, argv);
	capture_end();
	return status;
}

/* The command fails with a message, and prints nothing. */
static inline void assert_fails(int (*command)(int argc, char **argv), const char *line, int status,
				const char *message)
{
	assert_int_equal(run_command(command, line), status);
	assert_string_equal(output, "");
	assert_string_equal(messages, message);
}

static inline void assert_prints(int (*command)(int argc, char **argv), const char *line,
				 const char *text)
{
	assert_int_equal(run_command(command, line), STATUS_OK);
	assert_string_equal(output, text);
	assert_string_equal(messages, "");
}

#endif
