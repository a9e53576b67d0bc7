// SPDX-License-Identifier: GPL-2.0
/* The files of `stackbeat record`: names of --rotate, room. */
#include "cli/record_output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include "lib/error.h"
#include "pprof/profile.h"
#include "sample_profile.h"
#include "sandbox.h"

#define NS INT64_C(1000000000)
/* 2026-01-31 23:59:59 UTC */
#define START (INT64_C(1769903999) * NS + 999999999)
/* What the disk has room for. To fill the disk itself would make other tests fail. */
#define ROOM (1 << 20)

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	if (size <= ROOM)
		return (int)syscall(SYS_fallocate, fd, mode, offset, size);
	errno = ENOSPC;
	return -1;
}

static void expect_name(const char *path, const char *expected)
{
	char rotated[PATH_MAX];

	output_rotated_path(path, START, rotated);
	assert_string_equal(rotated, expected);
}

static void start_time_is_inserted_before_the_suffix(void **state)
{
	(void)state;
	expect_name("profile.pb.gz", "profile.20260131T235959Z.pb.gz");
	expect_name("/a.b/c", "/a.b/c.20260131T235959Z");
	expect_name("/a.b/c.d.prof", "/a.b/c.d.20260131T235959Z.prof");
	expect_name("dir/.pb.gz", "dir/.pb.20260131T235959Z.gz");
	expect_name(".hidden", ".hidden.20260131T235959Z");
}

static void standard_output_is_recognized(void **state)
{
	const int saved = dup(STDOUT_FILENO);
	int ends[2], file, null;
	bool is_pipe, is_file, is_null;

	(void)state;
	assert_true(output_is_stdout("-"));
	assert_false(output_is_stdout(in_sandbox("missing")));
	write_text(in_sandbox("other"), "");
	file = open(in_sandbox("file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pipe(ends), 0);
	fflush(stdout);
	dup2(ends[1], STDOUT_FILENO);
	is_pipe = output_is_stdout("/dev/stdout");
	dup2(file, STDOUT_FILENO);
	is_file = output_is_stdout(in_sandbox("file")) && !output_is_stdout(in_sandbox("other"));
	dup2(null, STDOUT_FILENO);
	is_null = output_is_stdout("/dev/null");
	dup2(saved, STDOUT_FILENO);
	assert_true(is_pipe);
	assert_true(is_file);
	assert_false(is_null);
	close(ends[0]);
	close(ends[1]);
	close(file);
	close(null);
	close(saved);
}

static void existing_file_is_not_replaced(void **state)
{
	char path[PATH_MAX];

	(void)state;
	snprintf(path, sizeof(path), "%s", in_sandbox("p.pb.gz"));
	write_text(in_sandbox("p.20260131T235959Z.pb.gz"), "");
	expect_name(path, in_sandbox("p.20260131T235959Z.2.pb.gz"));
	write_text(in_sandbox("p.20260131T235959Z.2.pb.gz"), "");
	expect_name(path, in_sandbox("p.20260131T235959Z.3.pb.gz"));
	/* Nor is a link, wherever it leads. */
	assert_int_equal(symlink("missing", in_sandbox("p.20260131T235959Z.3.pb.gz")), 0);
	expect_name(path, in_sandbox("p.20260131T235959Z.4.pb.gz"));
}

static void room_is_held_without_a_file(void **state)
{
	struct output_room room;
	struct error error;

	(void)state;
	assert_int_equal(output_hold_room(&room, in_sandbox("profile"), false, &error), 0);
	run("test -z \"$(ls -A %s)\"", in_sandbox("."));
	output_release_room(&room);
	assert_false(room.held);
	/* Nothing is held for a pipe or a device. */
	assert_int_equal(output_hold_room(&room, "/dev/null", false, &error), 0);
	assert_false(room.held);
	output_release_room(&room);
	/* Beside it, files of memory would be made for ever. */
	assert_int_equal(output_hold_room(&room, "/dev/null", true, &error), -EINVAL);
	assert_string_equal(error.text, "--rotate needs a file, and /dev/null is none");
	assert_int_equal(output_hold_room(&room, in_sandbox("missing/profile"), false, &error),
			 -ENOENT);
	assert_false(room.held);
}

static void missing_room_is_found(void **state)
{
	struct atomic_file file;
	struct error error;

	(void)state;
	assert_int_equal(atomic_file_create(&file, in_sandbox("profile"), &error), 0);
	assert_int_equal(atomic_file_reserve(&file, 4096, &error), 0);
	assert_int_equal(atomic_file_reserve(&file, ROOM + 4096, &error), -ENOSPC);
	assert_non_null(strstr(error.text, ": no room for 1028 KiB: "));
	atomic_file_discard(&file);
}

/* Where the profile is written if its own place is full: for its user alone. */
static void other_place_is_below_tmpdir(void **state)
{
	struct profile *profile = example_profile();
	char path[PATH_MAX], again[PATH_MAX];
	mode_t mask = umask(022);
	struct error error;
	struct stat status;
	uint64_t size;

	(void)state;
	setenv("TMPDIR", sandbox, 1);
	assert_int_equal(output_write_elsewhere(profile, path, &size, &error), 0);
	assert_int_equal(umask(mask), 022);
	assert_int_equal(strncmp(path, in_sandbox("stackbeat-"), strlen(sandbox) + 11), 0);
	assert_string_equal(path + strlen(path) - 6, ".pb.gz");
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode, S_IFREG | 0600);
	assert_int_equal(status.st_size, size);
	assert_int_equal(output_write_elsewhere(profile, again, &size, &error), 0);
	assert_string_not_equal(path, again);
	/* Not a directory that is emptied at the next boot. */
	for (int i = 0; i < 2; i++) {
		setenv("TMPDIR", i ? in_sandbox("missing") : "", 1);
		if (!output_write_elsewhere(profile, path, &size, &error))
			assert_int_equal(unlink(path), 0);
		assert_int_equal(strncmp(path, "/var/tmp/stackbeat-", 19), 0);
	}
	unsetenv("TMPDIR");
	profile_free(profile);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(start_time_is_inserted_before_the_suffix),
		TEST(standard_output_is_recognized),
		TEST(existing_file_is_not_replaced),
		TEST(room_is_held_without_a_file),
		TEST(missing_room_is_found),
		TEST(other_place_is_below_tmpdir),
	};

	return cmocka_run_group_tests_name("record_output", tests, NULL, NULL);
}
