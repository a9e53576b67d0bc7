/* SPDX-License-Identifier: GPL-2.0 */
/* Runs a subcommand in the process of the test. */
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

/* Runs a command with the words of its command line, and sets `output` and `messages`. */
static inline int run_command(int (*command)(int argc, char **argv), const char *line)
{
	static char words[1024];
	FILE *out = tmpfile(), *err = tmpfile();
	int saved_out, saved_err, argc = 0, status;
	char *argv[32], *rest = words;

	assert_true(out && err);
	snprintf(words, sizeof(words), "%s", line);
	while (rest)
		argv[argc++] = strsep(&rest, " ");
	argv[argc] = NULL;
	fflush(stdout);
	saved_out = dup(STDOUT_FILENO);
	saved_err = dup(STDERR_FILENO);
	dup2(fileno(out), STDOUT_FILENO);
	dup2(fileno(err), STDERR_FILENO);
	optind = 0;
	status = command(argc, argv);
	fflush(stdout);
	dup2(saved_out, STDOUT_FILENO);
	dup2(saved_err, STDERR_FILENO);
	close(saved_out);
	close(saved_err);
	read_text(out, output, sizeof(output));
	read_text(err, messages, sizeof(messages));
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
