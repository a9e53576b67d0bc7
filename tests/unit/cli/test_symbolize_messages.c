// SPDX-License-Identifier: GPL-2.0
#include "cli/symbolize_messages.h"

#include <fcntl.h>
#include <getopt.h>

#include "cli/commands.h"
#include "cli/read_progress.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/pprof_writer.h"
#include "sample_profile.h"
#include "sandbox.h"

#define PROBLEMS 7u

/* Standard error goes to a file from capture() to captured(). */
static int saved;

static void capture(void)
{
	int fd = open(in_sandbox("stderr"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	saved = dup(STDERR_FILENO);
	assert_true(saved >= 0 && fd >= 0);
	dup2(fd, STDERR_FILENO);
	close(fd);
}

/* Returns what was printed, to be freed. */
static char *captured(void)
{
	size_t size;
	char *text;

	dup2(saved, STDERR_FILENO);
	close(saved);
	text = (char *)read_bytes(in_sandbox("stderr"), &size);
	text[size] = '\0';
	return text;
}

static size_t lines_with(const char *text, const char *part)
{
	size_t count = 0;

	while ((text = strstr(text, part))) {
		count++;
		text += strlen(part);
	}
	return count;
}

static char *report_problems(bool verbose)
{
	struct symbolize_messages messages = {.verbose = verbose};

	capture();
	for (unsigned int i = 0; i < PROBLEMS; i++)
		symbolize_messages_problem(&messages, "/file", "is broken");
	symbolize_messages_end(&messages);
	return captured();
}

static void only_first_problems_are_shown(void **state)
{
	char *text = report_problems(false);

	(void)state;
	assert_int_equal(lines_with(text, "/file: is broken\n"), 5);
	assert_int_equal(lines_with(text, "and 2 more problems with files; -v lists them\n"), 1);
	free(text);
}

static void verbose_shows_all_problems(void **state)
{
	char *text = report_problems(true);

	(void)state;
	assert_int_equal(lines_with(text, "/file: is broken\n"), PROBLEMS);
	assert_null(strstr(text, "more problems"));
	free(text);
}

static void progress_of_names_has_an_estimate(void **state)
{
	struct symbolize_messages messages = {.progress = true}, silent = {0};
	char *text;

	(void)state;
	capture();
	symbolize_messages_names(&silent, 25, 100, 60000);
	symbolize_messages_end(&silent);
	symbolize_messages_names(&messages, 50, 100, 1999);
	symbolize_messages_names(&messages, 0, 0, 60000);
	symbolize_messages_end(&messages);
	text = captured();
	assert_string_equal(text, "");
	free(text);
	capture();
	symbolize_messages_names(&messages, 0, 400, 2000);
	symbolize_messages_names(&messages, 100, 400, 4000);
	symbolize_messages_end(&messages);
	text = captured();
	assert_string_equal(text, "\rreading names: 0 % of 400 addresses\033[K"
				  "\rreading names: 25 % of 400 addresses, about 12 s left\033[K"
				  "\r\033[K");
	free(text);
}

/* Writes a profile of PROBLEMS files, each with a broken debug file in DIR/.build-id. */
static void write_profile(const char *path)
{
	struct profile *profile = empty_profile();
	struct error error;

	for (uint32_t i = 0; i < PROBLEMS; i++) {
		uint64_t start = UINT64_C(0x10000) * i;
		uint32_t mapping, location;
		char file[32], id[32];

		snprintf(file, sizeof(file), "/gone/%u", i);
		snprintf(id, sizeof(id), "01%02u", i);
		run("mkdir -p %s && echo broken >%s/%02u.debug", in_sandbox("debug/.build-id/01"),
		    in_sandbox("debug/.build-id/01"), i);
		mapping = example_mapping(profile, start, start + 0x10000, 0, file, id);
		location = profile_location(profile, mapping, start + 1, NULL, 0);
		example_add(profile, &location, 1, 1, 1, NULL, 0);
	}
	assert_int_equal(pprof_write(profile, path, NULL, &error), 0);
	profile_free(profile);
}

static char *symbolize(const char *path, const char *option)
{
	char *argv[] = {"symbolize",   (char *)option,
			"--debug-dir", (char *)in_sandbox("debug"),
			(char *)path,  NULL};

	char *text;
	int status;

	optind = 0;
	capture();
	status = cmd_symbolize(5, argv);
	text = captured();
	if (status)
		fail_msg("%s", text);
	return text;
}

static void symbolize_has_verbose(void **state)
{
	char path[PATH_MAX];
	char *text;

	(void)state;
	strcpy(path, in_sandbox("profile.pb.gz"));
	write_profile(path);
	text = symbolize(path, "-q");
	assert_int_equal(lines_with(text, "stackbeat: /gone/"), 5);
	free(text);
	text = symbolize(path, "-v");
	assert_int_equal(lines_with(text, ".debug is not an ELF file\n"), PROBLEMS);
	free(text);
	text = symbolize(path, "--verbose");
	assert_int_equal(lines_with(text, ".debug is not an ELF file\n"), PROBLEMS);
	free(text);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

static void long_reading_shows_its_progress(void **state)
{
	struct read_progress progress;
	char *text;

	(void)state;
	capture();
	read_progress_begin(&progress, "/file\033");
	read_progress_update(&progress, 0.25);
	read_progress_end(&progress);
	text = captured();
	assert_string_equal(text, "");
	free(text);
	/* As if it had begun earlier. */
	progress.start_ns -= 10 * NS_PER_SECOND;
	progress.next_ns -= 10 * NS_PER_SECOND;
	capture();
	for (unsigned int i = 0; i < 2; i++)
		read_progress_update(&progress, 0.5);
	read_progress_end(&progress);
	text = captured();
	assert_int_equal(lines_with(text, "50 %, about "), 1);
	assert_non_null(strstr(text, "\rreading /file"));
	assert_null(strstr(text, "file\033"));
	assert_non_null(strstr(text, " s left\033[K\r\033[K"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(long_reading_shows_its_progress), TEST(only_first_problems_are_shown),
		TEST(verbose_shows_all_problems),      TEST(progress_of_names_has_an_estimate),
		TEST(symbolize_has_verbose),
	};

	return cmocka_run_group_tests_name("symbolize_messages", tests, NULL, NULL);
}
