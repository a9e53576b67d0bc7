// SPDX-License-Identifier: GPL-2.0
#include "cli/symbolize_messages.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cli/read_progress.h"
#include "command.h"
#include "lib/clock.h"
#include "profile_file.h"
#include "sample_profile.h"
#include "sandbox.h"

#define PROBLEMS 7u

/* CLOCK_MONOTONIC is the test's: what is printed depends on no other time. */
static int64_t monotonic_ns;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, time);
	*time = (struct timespec){monotonic_ns / NS_PER_SECOND, monotonic_ns % NS_PER_SECOND};
	return 0;
}

/* Returns how often the messages have a text. */
static size_t count_in_messages(const char *part)
{
	const char *text = messages;
	size_t count = 0;

	while ((text = strstr(text, part))) {
		count++;
		text += strlen(part);
	}
	return count;
}

static void report_problems(bool verbose)
{
	struct symbolize_messages reported = {.verbose = verbose};

	capture_begin();
	for (unsigned int i = 0; i < PROBLEMS; i++)
		symbolize_messages_problem(&reported, "/file", "is broken");
	symbolize_messages_end(&reported);
	capture_end();
}

static void only_first_problems_are_shown(void **state)
{
	(void)state;
	report_problems(false);
	assert_int_equal(count_in_messages("/file: is broken\n"), 5);
	assert_int_equal(count_in_messages("and 2 more problems with files; -v lists them\n"), 1);
}

static void verbose_shows_all_problems(void **state)
{
	(void)state;
	report_problems(true);
	assert_int_equal(count_in_messages("/file: is broken\n"), PROBLEMS);
	assert_int_equal(count_in_messages("more problems"), 0);
}

static void progress_of_names_has_an_estimate(void **state)
{
	struct symbolize_messages shown = {.progress = true}, silent = {0};

	(void)state;
	capture_begin();
	symbolize_messages_names(&silent, 25, 100, 60000);
	symbolize_messages_end(&silent);
	symbolize_messages_names(&shown, 50, 100, 1999);
	symbolize_messages_names(&shown, 0, 0, 60000);
	symbolize_messages_end(&shown);
	capture_end();
	assert_string_equal(messages, "");
	capture_begin();
	symbolize_messages_names(&shown, 0, 400, 2000);
	symbolize_messages_names(&shown, 100, 400, 4000);
	symbolize_messages_end(&shown);
	capture_end();
	assert_string_equal(messages,
			    "\rreading names: 0 % of 400 addresses\033[K"
			    "\rreading names: 25 % of 400 addresses, about 12 s left\033[K"
			    "\r\033[K");
}

/* Writes a profile of PROBLEMS files, each with a broken debug file in DIR/.build-id. */
static void write_broken_files(const char *path)
{
	struct profile *profile = empty_profile();

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
	move_profile(profile, path);
}

static void symbolize_has_verbose(void **state)
{
	static const struct {
		const char *option, *message;
		size_t count;
	} cases[] = {
		{"-q", "stackbeat: /gone/", 5},
		{"-v", ".debug is not an ELF file\n", PROBLEMS},
		{"--verbose", ".debug is not an ELF file\n", PROBLEMS},
	};
	char line[512];

	(void)state;
	write_broken_files(in_sandbox("profile.pb.gz"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line), "symbolize %s --debug-dir %s %s", cases[i].option,
			 in_sandbox("debug"), in_sandbox("profile.pb.gz"));
		if (run_command(cmd_symbolize, line))
			fail_msg("%s", messages);
		assert_int_equal(count_in_messages(cases[i].message), cases[i].count);
	}
}

/* The first line comes after 2 s, and the next ones a quarter of a second apart. */
static void long_reading_shows_its_progress(void **state)
{
	static const struct {
		int64_t at_ms;
		double share;
		const char *line;
	} steps[] = {
		{1999, 0.25, ""}, {2000, 0, "\rreading /file\\x1b: 0 %\033[K"},
		{2249, 0.5, ""},  {4000, 0.25, "\rreading /file\\x1b: 25 %, about 12 s left\033[K"},
		{4000, 0.5, ""},  {5000, 0.5, "\rreading /file\\x1b: 50 %, about 5 s left\033[K"},
	};
	const int64_t begin_ns = 1000 * NS_PER_SECOND;
	struct read_progress progress;

	(void)state;
	monotonic_ns = begin_ns;
	read_progress_begin(&progress, "/file\033");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		monotonic_ns = begin_ns + steps[i].at_ms * NS_PER_MS;
		capture_begin();
		read_progress_update(&progress, steps[i].share);
		capture_end();
		assert_string_equal(messages, steps[i].line);
	}
	capture_begin();
	read_progress_end(&progress);
	capture_end();
	assert_string_equal(messages, "\r\033[K");
}

/* Nothing is printed, and there is no line to remove. */
static void short_reading_is_silent(void **state)
{
	struct read_progress progress;

	(void)state;
	capture_begin();
	read_progress_begin(&progress, "/file");
	monotonic_ns += 2 * NS_PER_SECOND - 1;
	read_progress_update(&progress, 0.5);
	read_progress_end(&progress);
	capture_end();
	assert_string_equal(messages, "");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(long_reading_shows_its_progress),   TEST(short_reading_is_silent),
		TEST(only_first_problems_are_shown),     TEST(verbose_shows_all_problems),
		TEST(progress_of_names_has_an_estimate), TEST(symbolize_has_verbose),
	};

	return cmocka_run_group_tests_name("symbolize_messages", tests, NULL, NULL);
}
