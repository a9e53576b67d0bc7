// SPDX-License-Identifier: GPL-2.0
#include "symbolize/binary_archive.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "lib/error.h"
#include "pprof/pprof_writer.h"
#include "sample_profile.h"
#include "sandbox.h"
#include "symbolize/find_binary.h"
#include "worker_server.h"

static struct error error;
static size_t missing;

static void count_missing(void *arg, const char *path, const char *text)
{
	(void)arg, (void)path, (void)text;
	missing++;
}

/* A profile whose only mapping is a file with a build id, or "" for none. It is written, too. */
static struct profile *profile_of(const char *path, const char *build_id)
{
	struct profile *profile = empty_profile();
	uint32_t mapping = example_mapping(profile, 0, UINT64_MAX, 0, path, build_id);
	uint32_t location = profile_location(profile, mapping, 0x1000, NULL, 0);

	example_add(profile, &location, 1, 1, 1, NULL, 0);
	profile->time_ns = INT64_C(4000000000000000000);
	assert_int_equal(pprof_write(profile, in_sandbox("profile.pb.gz"), NULL, &error), 0);
	return profile;
}

static int create(const char *directory, struct profile *profile,
		  struct binary_archive_counts *counts)
{
	const struct binary_finder search = {.directory = directory, .time = profile->time_ns};
	const char *debug[] = {in_sandbox("debug")};
	const struct archive_plan plan = {
		.sandbox = worker_server(),
		.search = &search,
		.directories = debug,
		.directory_count = 1,
		.missing = count_missing,
	};
	int err;

	missing = 0;
	err = binary_archive_create(&plan, profile, in_sandbox("a.tar.zst"), counts, &error);
	profile_free(profile);
	return err;
}

static bool is_empty(const char *directory)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof(command), "test -z \"$(ls -A '%s')\"", directory);
	return system(command) == 0;
}

static void build_program(void)
{
	write_text(in_sandbox("main.c"), "int main(void)\n{\n\treturn 0;\n}\n");
	run("cd '%s' && cc -g -Wl,--build-id=0x0123abcd -o program main.c && mkdir -p "
	    "debug/.build-id/01 "
	    "tmp && objcopy --only-keep-debug program debug/.build-id/01/23abcd.debug && "
	    "strip program",
	    sandbox);
	setenv("TMPDIR", in_sandbox("tmp"), 1);
}

static void archived_files_are_unpacked(void **state)
{
	struct binary_archive unpacked = {""};
	struct binary_archive_counts counts;

	(void)state;
	build_program();
	assert_int_equal(create(NULL, profile_of(in_sandbox("program"), "0123abcd"), &counts), 0);
	assert_int_equal(counts.binaries, 1);
	assert_int_equal(counts.debug_files, 1);
	assert_int_equal(counts.missing, 0);
	assert_int_equal(binary_archive_unpack(&unpacked, in_sandbox("a.tar.zst"), &error), 0);
	run("cmp '%s/.build-id/01/23abcd' %s", unpacked.directory, in_sandbox("program"));
	run("cmp '%s/.build-id/01/23abcd.debug' %s", unpacked.directory,
	    in_sandbox("debug/.build-id/01/23abcd.debug"));
	binary_archive_remove(&unpacked);
	assert_true(is_empty(in_sandbox("tmp")));
}

static void missing_files_are_counted(void **state)
{
	struct binary_archive_counts counts;

	(void)state;
	build_program();
	/* Only the debug file has the right build ID. */
	assert_int_equal(create(NULL, profile_of(in_sandbox("main.c"), "0123abcd"), &counts), 0);
	assert_int_equal(missing, 1);
	assert_int_equal(counts.debug_files, 1);
	run("rm %s", in_sandbox("a.tar.zst"));
	assert_int_equal(create(NULL, profile_of(in_sandbox("gone"), "4567"), &counts), -ENOENT);
	assert_int_equal(missing, 1);
	assert_int_equal(access(in_sandbox("a.tar.zst"), F_OK), -1);
	assert_non_null(strstr(error.text, "nothing to collect"));
}

/* The path contains text that looks like a message of the worker. */
static void path_cannot_forge_a_worker_message(void **state)
{
	const char *directory = in_sandbox("x\nabc123 %s/secret", sandbox);
	struct binary_archive unpacked = {""};
	struct binary_archive_counts counts;
	char program[PATH_MAX];

	(void)state;
	build_program();
	run("cd '%s' && mkdir -p secret '%s' && echo secret >secret/shadow && "
	    "mv debug/.build-id/01/23abcd.debug '%s/shadow' && "
	    "objcopy --add-gnu-debuglink='%s/shadow' program '%s/program'",
	    sandbox, directory, directory, directory, directory);
	snprintf(program, sizeof(program), "%s/program", directory);
	assert_int_equal(create(NULL, profile_of(program, "0123abcd"), &counts), 0);
	assert_int_equal(counts.debug_files, 1);
	assert_int_equal(binary_archive_unpack(&unpacked, in_sandbox("a.tar.zst"), &error), 0);
	run("cmp '%s/.build-id/01/23abcd.debug' '%s/shadow'", unpacked.directory, directory);
	run("! grep -r secret '%s/.build-id'", unpacked.directory);
	run("test ! -e '%s/.build-id/ab'", unpacked.directory);
	binary_archive_remove(&unpacked);
}

#define HOUR INT64_C(3600000000000)

static int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int search(const char *directory, const char *path, const char *build_id, int64_t time)
{
	const struct binary_finder search = {.directory = directory, .time = time};
	int fd = binary_finder_open(&search, path, build_id, 0, &error);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void files_without_build_id_are_archived_by_path(void **state)
{
	struct binary_archive unpacked = {""};
	struct binary_archive_counts counts;

	(void)state;
	build_program();
	run("cd '%s' && cc -Wl,--build-id=none -o plain main.c", sandbox);
	assert_int_equal(create(NULL, profile_of(in_sandbox("plain"), ""), &counts), 0);
	assert_int_equal(binary_archive_unpack(&unpacked, in_sandbox("a.tar.zst"), &error), 0);
	run("cmp '%s%s' %s", unpacked.directory, in_sandbox("plain"), in_sandbox("plain"));
	/* Unpacking keeps the mtime. */
	assert_int_equal(search(unpacked.directory, in_sandbox("plain"), "", now_ns()), 0);
	binary_archive_remove(&unpacked);
	run("rm %s", in_sandbox("a.tar.zst"));
	/* A malicious profile may name any file to have it archived. */
	assert_int_equal(create(NULL, profile_of(in_sandbox("main.c"), ""), &counts), -ENOENT);
	assert_int_equal(missing, 1);
	assert_int_equal(create(NULL, profile_of(in_sandbox("tmp/../plain"), ""), &counts),
			 -ENOENT);
	assert_int_equal(missing, 1);
}

/* Nothing of a rejected archive stays on disk. */
static void malicious_archives_are_rejected(void **state)
{
	static const char *const commands[] = {
		"echo x >../outside.%s && tar cPf a.tar ../outside.%s && rm ../outside.%s",
		"tar cPf a.tar \"$PWD/main.c\"",
		"ln -s / link && tar cf a.tar link",
		"ln main.c hard && tar cf a.tar main.c hard",
		"mkfifo fifo && tar cf a.tar fifo",
		"mkdir -p d && tar cf a.tar d",
		"tar cf whole.tar program && head -c 3000 whole.tar >a.tar",
		"cp main.c a.tar",
		": >a.tar",
	};

	(void)state;
	build_program();
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct binary_archive unpacked = {""};
		char command[512];
		const char *name = strrchr(sandbox, '/') + 1;

		snprintf(command, sizeof(command), commands[i], name, name, name);
		run("cd '%s' && rm -f a.tar && %s", sandbox, command);
		error.text[0] = '\0';
		assert_int_equal(binary_archive_unpack(&unpacked, in_sandbox("a.tar"), &error),
				 -EBADMSG);
		assert_string_equal(unpacked.directory, "");
		assert_true(*error.text);
		assert_true(is_empty(in_sandbox("tmp")));
	}
}

/* Small archives of large sparse files. */
static void oversized_archives_are_rejected(void **state)
{
	static const struct {
		const char *sizes[3], *problem;
	} archives[] = {
		{{"17G", "1", "1"}, "has more than 16 GiB"},
		{{"6G", "6G", "6G"}, "has more than 16 GiB"},
		{{"1", "9G", "1"}, "has a file of more than 8 GiB"},
	};
	struct binary_archive unpacked = {""};

	(void)state;
	build_program();
	for (size_t i = 0; i < 3; i++) {
		run("cd '%s' && truncate -s %s a && truncate -s %s b && truncate -s %s c && tar "
		    "cSf a.tar a b c",
		    sandbox, archives[i].sizes[0], archives[i].sizes[1], archives[i].sizes[2]);
		assert_int_equal(binary_archive_unpack(&unpacked, in_sandbox("a.tar"), &error),
				 -EFBIG);
		assert_non_null(strstr(error.text, archives[i].problem));
		assert_true(is_empty(in_sandbox("tmp")));
	}
}

static void oversized_files_are_skipped(void **state)
{
	struct binary_archive_counts counts;

	(void)state;
	build_program();
	run("truncate -s 100G %s", in_sandbox("program"));
	assert_int_equal(create(NULL, profile_of(in_sandbox("program"), "0123abcd"), &counts), 0);
	assert_int_equal(counts.binaries, 0);
	assert_int_equal(counts.debug_files, 1);
	assert_int_equal(counts.missing, 1);
	assert_int_equal(missing, 1);

	run("truncate -s 100G %s", in_sandbox("debug/.build-id/01/23abcd.debug"));
	assert_int_equal(create(NULL, profile_of(in_sandbox("program"), "0123abcd"), &counts),
			 -ENOENT);
	assert_int_equal(missing, 2);
}

static void signal_removes_unpacked_files(void **state)
{
	struct binary_archive_counts counts;
	struct binary_archive unpacked = {""};
	int status;
	pid_t child;

	(void)state;
	build_program();
	assert_int_equal(create(NULL, profile_of(in_sandbox("program"), "0123abcd"), &counts), 0);
	child = fork();
	if (child == 0) {
		if (binary_archive_unpack(&unpacked, in_sandbox("a.tar.zst"), &error) == 0)
			raise(SIGTERM);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_true(is_empty(in_sandbox("tmp")));
}

/* Paths and build IDs are untrusted */

static char *output_of(int (*command)(int argc, char **argv), char *option, int status)
{
	char *argv[] = {"command",
			"-o",
			(char *)in_sandbox("out"),
			option,
			(char *)in_sandbox("profile.pb.gz"),
			NULL};
	int saved = dup(STDERR_FILENO), fd;
	char *text = calloc(1, 4096);

	fd = open(in_sandbox("stderr"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(saved >= 0 && fd >= 0);
	optind = 0;
	dup2(fd, STDERR_FILENO);
	assert_int_equal(command(5, argv), status);
	dup2(saved, STDERR_FILENO);
	assert_non_null(text);
	assert_true(pread(fd, text, 4095, 0) > 0);
	close(saved);
	close(fd);
	return text;
}

static void messages_escape_control_characters(void **state)
{
	static const char *const ids[] = {"", "\x1b[32m\u202e"};
	char *texts[4];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		profile_free(profile_of("/gone/\x1b[31m\n\xc2\x9b", ids[i]));
		texts[2 * i] = output_of(cmd_archive, "--no-debug", STATUS_FAILED);
		texts[2 * i + 1] = output_of(cmd_symbolize, "--debug-dir=.", STATUS_OK);
	}
	for (size_t i = 0; i < 4; i++) {
		assert_null(strchr(texts[i], '\x1b'));
		assert_null(strstr(texts[i], "\xc2\x9b"));
		assert_null(strstr(texts[i], "\u202e"));
		assert_non_null(strstr(texts[i], "stackbeat: /gone/\\x1b[31m\\x0a\\x9b"));
		free(texts[i]);
	}
}

/* Binary finder */

static void binary_finder_searches_in_order(void **state)
{
	const char *program = in_sandbox("program"), *other = in_sandbox("other");

	(void)state;
	build_program();
	run("mkdir -p %s %s && cp %s %s && cp %s %s", in_sandbox("other/.build-id/01"),
	    in_sandbox("flat"), program, in_sandbox("other/.build-id/01/23abcd"), program,
	    in_sandbox("flat/name"));
	assert_int_equal(search(NULL, program, "0123abcd", 0), 0);
	assert_int_equal(search(other, "/gone", "0123abcd", 0), 0);
	assert_int_equal(search(in_sandbox("flat"), "/gone/name", "0123abcd", 0), 0);
	assert_int_equal(search(sandbox, "/program", "0123abcd", 0), 0);

	/* A worker compares the build ID. */
	assert_int_equal(search(NULL, program, "0123abce", 0), 0);
	assert_int_equal(search(other, "/gone", "4567", 0), -ENOENT);
	assert_non_null(strstr(error.text, "was not found in "));
	assert_int_equal(search(NULL, "/gone", "4567", 0), -ENOENT);
	assert_int_equal(search(NULL, "relative", "4567", 0), -ENOENT);
	assert_int_equal(search(other, "..", "4567", 0), -ENOENT);
	/* Without a build ID, the file must not be newer than the profile. */
	assert_int_equal(search(NULL, program, "", INT64_MAX), 0);
	assert_int_equal(search(NULL, program, "", 1), -ENOENT);
	assert_non_null(strstr(error.text, "has changed since the profile was taken"));
	/* A package may preserve an old mtime, but ctime is newer. */
	run("touch -d 2001-01-01 %s", program);
	assert_int_equal(search(NULL, program, "", now_ns() - HOUR), -ENOENT);
	assert_int_equal(search(sandbox, "/program", "", now_ns() - HOUR), 0);
	assert_int_equal(search(NULL, in_sandbox("main.c"), "", INT64_MAX), -ENOENT);
	/* Only regular files are opened. */
	run("rm %s && mkfifo %s", in_sandbox("main.c"), in_sandbox("main.c"));
	assert_int_equal(search(NULL, in_sandbox("main.c"), "", INT64_MAX), -ENOENT);
}

#define ARCHIVE_TEST(test) cmocka_unit_test_setup_teardown(test, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ARCHIVE_TEST(archived_files_are_unpacked),
		ARCHIVE_TEST(missing_files_are_counted),
		ARCHIVE_TEST(path_cannot_forge_a_worker_message),
		ARCHIVE_TEST(files_without_build_id_are_archived_by_path),
		ARCHIVE_TEST(malicious_archives_are_rejected),
		ARCHIVE_TEST(signal_removes_unpacked_files),
		ARCHIVE_TEST(oversized_archives_are_rejected),
		ARCHIVE_TEST(oversized_files_are_skipped),
		ARCHIVE_TEST(binary_finder_searches_in_order),
		ARCHIVE_TEST(messages_escape_control_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
