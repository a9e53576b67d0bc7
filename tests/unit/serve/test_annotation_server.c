// SPDX-License-Identifier: GPL-2.0
/* What is read of binaries for jobs of the HTTP server, with real processes. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "patience.h"
#include "sample_profile.h"
#include "sandbox.h"
#include "sandbox/capabilities.h"
#include "sandbox/fd_passing.h"
#include "serve/annotation_server.h"

#define ASKERS 5
#define ANNOTATORS 2 /* at a time */

static struct annotation_server_config config = {.uid = SANDBOX_UID};
static struct annotation_server server = {.socket = -1};
static const char *program;
static struct profile *profile; /* with a sample in "spin" of the program */
static struct error error;

/* The memory of the address sanitizer is beyond any limit. */
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	return resource == RLIMIT_DATA ? 0 : prlimit(0, resource, limit, NULL);
}

static uint64_t address_of(const char *symbol)
{
	char command[PATH_MAX + 128];
	uint64_t address;
	FILE *pipe;

	snprintf(command, sizeof(command), "nm '%s' | awk '$3 == \"%s\" {print $1}'", program,
		 symbol);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%" SCNx64, &address), 1);
	pclose(pipe);
	return address;
}

static void make_profile(void)
{
	uint32_t mapping, location;

	profile_free(profile);
	profile = empty_profile();
	mapping = example_mapping(profile, 0, 0, 0, program, NULL);
	location = example_location(profile, mapping, address_of("spin"), NULL, "spin");
	example_sample(profile, &location, 1, 3, "app");
	mapping = example_mapping(profile, 0xffffffff80000000, UINT64_MAX, 0, "[kernel.kallsyms]",
				  "ccdd");
	location = example_location(profile, mapping, 0xffffffff80000200, NULL, "vfs_read");
	example_sample(profile, &location, 1, 1, "app");
	mapping = example_mapping(profile, 0x7f0000000000, 0x7f0000001000, 0, "[anon]", NULL);
	location = example_location(profile, mapping, 0x7f0000000200, NULL, "generated");
	example_sample(profile, &location, 1, 1, "app");
	profile->time_ns = now_ns(CLOCK_REALTIME);
}

static int set_up(void **state)
{
	if (make_sandbox(state) || chmod(sandbox, 0755))
		return -1;
	program = strdup(in_sandbox("program"));
	write_text(in_sandbox("source.c"), "int spin(int x)\n"
					   "{\n"
					   "	return x + 12345;\n"
					   "}\n"
					   "int main(int argc, char **argv)\n"
					   "{\n"
					   "	return argv[0] ? spin(argc) : 0;\n"
					   "}\n");
	run("cd '%s' && gcc -O0 -g -Wl,--build-id=none -o program source.c && chmod 755 program",
	    sandbox);
	make_profile();
	return annotation_server_start(&server, &config, &error);
}

static int tear_down(void **state)
{
	annotation_server_stop(&server);
	profile_free(profile);
	profile = NULL;
	free((char *)program);
	return remove_sandbox(state);
}

/* Returns the answer, which the caller frees. */
static char *ask(const struct annotation_server *asked, const char *function)
{
	const struct annotation_request request = {.function = function};
	int out = memfd_create("answer", MFD_CLOEXEC);
	off_t size;
	char *text;

	assert_true(out >= 0);
	if (annotation_server_answer(asked, profile, &request, out, &error))
		fail_msg("%s", error.text);
	size = lseek(out, 0, SEEK_END);
	text = calloc(1, (size_t)size + 1);
	assert_non_null(text);
	assert_int_equal(pread(out, text, (size_t)size, 0), size);
	close(out);
	return text;
}

static bool has_code(const char *answer)
{
	return strstr(answer, "0x3039") && !strstr(answer, "\"problem\"");
}

static void assert_problem(const char *function, const char *problem)
{
	char *text = ask(&server, function);

	if (!strstr(text, problem))
		fail_msg("%s", text);
	/* The samples are there. */
	assert_non_null(strstr(text, "\"bytes\":\"\",\"text\":\"\",\"flat\":"));
	free(text);
}

static unsigned int count_fds(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void code_is_read(void **state)
{
	const unsigned int fds = count_fds();
	char *text = ask(&server, "spin");

	(void)state;
	assert_int_equal(count_fds(), fds);
	if (!has_code(text))
		fail_msg("%s", text);
	assert_non_null(strstr(text, "\"total\":50000000,\"functions\":["));
	assert_non_null(strstr(text, "\"offset\":0,"));
	assert_non_null(strstr(text, "\"flat\":30000000,\"cum\":30000000,"));
	assert_non_null(strstr(text, "source.c\",\"line\":3}"));
	/* No source: not all who ask may read it. */
	assert_null(strstr(text, "return x"));
	free(text);
}

/* Neither what its user may read alone, nor what this user may not read. */
static void private_files_are_not_read(void **state)
{
	char *text;

	(void)state;
	if (!geteuid())
		assert_int_equal(chown(program, SANDBOX_UID, SANDBOX_UID), 0);
	assert_int_equal(chmod(program, 0751), 0);
	make_profile();
	assert_problem("spin", "program: is not taken: not all users may read it");
	assert_int_equal(chmod(program, 0755), 0);
	make_profile();
	assert_int_equal(chmod(sandbox, geteuid() ? 0755 : 0700), 0);
	if (!geteuid())
		assert_problem("spin", "program: is not taken: not all users may read it");
	assert_int_equal(chmod(sandbox, 0755), 0);
	text = ask(&server, "spin");
	assert_true(has_code(text));
	free(text);
}

static void other_files_are_not_read(void **state)
{
	(void)state;
	profile->time_ns -= 3600 * INT64_C(1000000000);
	assert_problem("spin", "program has changed since the profile was taken");
	write_text(program, "no ELF file");
	assert_problem("spin", "not an ELF file");
	assert_int_equal(unlink(program), 0);
	assert_problem("spin", "program: is not there any more");
}

static void code_without_a_file_is_not_searched(void **state)
{
	(void)state;
	assert_problem("vfs_read", "\"problem\":\"serve does not read the code of the kernel\"");
	assert_problem("generated", "\"problem\":\"no file has its code\"");
}

static void unknown_functions_are_refused(void **state)
{
	const struct annotation_request request = {.function = "spin", .file = "libc.so"};

	(void)state;
	assert_int_equal(annotation_server_answer(&server, profile, &request, -1, &error),
			 -ENODATA);
	assert_non_null(strstr(error.text, "no function 'spin' in libc.so"));
}

static void long_names_have_no_code(void **state)
{
	char name[5000];
	uint32_t location;

	(void)state;
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	location = example_location(profile, example_mapping(profile, 0, 0, 0, program, NULL),
				    address_of("main"), NULL, name);
	example_sample(profile, &location, 1, 1, "app");
	assert_problem(name, "its name is too long");
}

static void wrong_messages_are_ignored(void **state)
{
	char message[8192];
	char *text;

	(void)state;
	memset(message, 'a', sizeof(message));
	assert_int_equal(send(server.socket, message, 1, 0), 1);
	assert_int_equal(send(server.socket, message, sizeof(message), 0), sizeof(message));
	text = ask(&server, "spin");
	assert_true(has_code(text));
	free(text);
}

static void requests_wait_for_their_turn(void **state)
{
	pid_t children[ASKERS];

	(void)state;
	for (int i = 0; i < ASKERS; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (!children[i])
			_exit(!has_code(ask(&server, "spin")));
	}
	for (int i = 0; i < ASKERS; i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
}

/* Asks as a job, and takes a place: no profile is passed. Returns its socket. */
static int take_place(void)
{
	static const char request[8192] = "spin";
	char turn[512];
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(send_fd(server.socket, request, sizeof(request), ends[1]), 0);
	close(ends[1]);
	assert_true(recv(ends[0], turn, sizeof(turn), 0) > 0);
	return ends[0];
}

/* Profiles of jobs that have ended would be in memory until their turn. */
static void profiles_are_passed_when_it_is_their_turn(void **state)
{
	static const char request[8192] = "spin";
	const int places[] = {take_place(), take_place()};
	unsigned int waiting = 0;
	int ends[2], unread;
	char *text;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	/* The server reads a request before it waits for a place. */
	assert_int_equal(send_fd(server.socket, request, sizeof(request), ends[1]), 0);
	wait_until(!ioctl(server.socket, SIOCOUTQ, &unread) && !unread);
	while (!send_fd(server.socket, request, sizeof(request), ends[1]))
		assert_in_range(++waiting, 1, 10000);
	/* A job that can't ask does not wait. */
	assert_problem("spin", "\"problem\":\"the code of too many functions is asked for\"");
	close(ends[0]);
	close(ends[1]);
	close(places[0]);
	close(places[1]);
	/* Those that have gone take no time. */
	do {
		text = ask(&server, "spin");
	} while (strstr(text, "too many functions") && (free(text), true));
	assert_true(has_code(text));
	free(text);
}

static unsigned int count_children(pid_t pid, pid_t children[8])
{
	char path[64];
	unsigned int count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	file = fopen(path, "re");
	while (file && count < 8 && fscanf(file, "%d", &children[count]) == 1)
		count++;
	if (file)
		fclose(file);
	return count;
}

/* Annotators of the server that have a process for the workers, and an opener. */
static unsigned int count_annotators_at_work(void)
{
	pid_t annotators[8], others[8];
	unsigned int at_work = 0;

	for (unsigned int i = count_children(server.pid, annotators); i > 0; i--)
		at_work += count_children(annotators[i - 1], others) == 2;
	return at_work;
}

/* Mounts a file system whose server never answers. Returns its fd, or -1. */
static int mount_hanging(const char *directory)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 fd);
	if (fd < 0 || mkdir(directory, 0755) || mount("hang", directory, "fuse", 0, options)) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

/* Clients that have gone, and the end of the HTTP server, leave nothing that others wait for. */
static void annotators_end_with_their_jobs(void **state)
{
	const char *directory = strdup(in_sandbox("hanging"));
	const int fuse = mount_hanging(directory);
	pid_t jobs[ANNOTATORS], others[8];
	uint32_t mapping, location;
	unsigned int begun, left;
	int64_t start;

	(void)state;
	if (fuse < 0 || !count_children(getpid(), others)) {
		free((char *)directory);
		skip();
	}
	mapping = example_mapping(profile, 0, 0, 0, in_sandbox("hanging/program"), NULL);
	location = example_location(profile, mapping, 4096, NULL, "hangs");
	example_sample(profile, &location, 1, 1, "app");
	for (int i = 0; i < ANNOTATORS; i++) {
		jobs[i] = fork();
		assert_true(jobs[i] >= 0);
		if (!jobs[i])
			_exit(!ask(&server, "hangs"));
	}
	start = now_ns(CLOCK_MONOTONIC);
	while (count_annotators_at_work() < ANNOTATORS &&
	       now_ns(CLOCK_MONOTONIC) - start < hang_s() * NS_PER_SECOND)
		usleep(10000);
	begun = count_annotators_at_work();
	for (int i = 0; i < ANNOTATORS; i++) {
		kill(jobs[i], SIGKILL);
		waitpid(jobs[i], NULL, 0);
	}
	/* Their files would hang for 20 s. */
	start = now_ns(CLOCK_MONOTONIC);
	while (count_annotators_at_work() && now_ns(CLOCK_MONOTONIC) - start < 10 * NS_PER_SECOND)
		usleep(10000);
	left = count_annotators_at_work();
	/* Before it may fail: the mount would stay. */
	close(fuse);
	umount2(directory, MNT_DETACH);
	rmdir(directory);
	free((char *)directory);
	assert_int_equal(begun, ANNOTATORS);
	assert_int_equal(left, 0);
}

static void samples_are_there_without_the_server(void **state)
{
	(void)state;
	kill(server.pid, SIGKILL);
	waitpid(server.pid, NULL, 0);
	server.pid = 0;
	signal(SIGPIPE, SIG_IGN);
	assert_problem("spin", "the process that reads code has ended");
}

/* The workers of a user without rights have all parts of it, unless the kernel refuses some. */
static void the_sandbox_may_be_required(void **state)
{
	char *text;

	(void)state;
	annotation_server_stop(&server);
	config.requires_sandbox = true;
	assert_int_equal(annotation_server_start(&server, &config, &error), 0);
	config.requires_sandbox = false;
	text = ask(&server, "spin");
	if (!has_code(text) && !strstr(text, "the sandbox is incomplete: "))
		fail_msg("%s", text);
	if (!has_code(text))
		print_message("%s", text);
	free(text);
}

static void the_server_has_no_rights(void **state)
{
	char path[64], line[256];
	unsigned int found = 0;
	FILE *file;

	(void)state;
	snprintf(path, sizeof(path), "/proc/%d/status", server.pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		uint64_t value;

		if (!geteuid() && sscanf(line, "Uid: %" SCNu64, &value) == 1) {
			assert_int_equal(value, SANDBOX_UID);
			found++;
		} else if (sscanf(line, "CapPrm: %" SCNx64, &value) == 1) {
			assert_int_equal(value, 0);
			found++;
		} else if (sscanf(line, "NoNewPrivs: %" SCNu64, &value) == 1) {
			assert_int_equal(value, 1);
			found++;
		}
	}
	fclose(file);
	assert_int_equal(found, geteuid() ? 2 : 3);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(code_is_read),
		TEST(private_files_are_not_read),
		TEST(other_files_are_not_read),
		TEST(code_without_a_file_is_not_searched),
		TEST(unknown_functions_are_refused),
		TEST(long_names_have_no_code),
		TEST(wrong_messages_are_ignored),
		TEST(requests_wait_for_their_turn),
		TEST(profiles_are_passed_when_it_is_their_turn),
		TEST(annotators_end_with_their_jobs),
		TEST(samples_are_there_without_the_server),
		TEST(the_sandbox_may_be_required),
		TEST(the_server_has_no_rights),
	};

	return cmocka_run_group_tests_name("annotation server", tests, NULL, NULL);
}
