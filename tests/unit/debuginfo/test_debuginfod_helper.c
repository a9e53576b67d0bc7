// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/debuginfod_helper.h"

#include "lib/string_table.h"
#include "sandbox.h"
#include "sandbox/seccomp_filter.h"
#include "symbolize/worker_pool.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

/*
 * A library in place of debuginfod's. By the build id that is asked for, it goes on until it is
 * told to stop, crashes, knows of no such file, or opens the program. It needs what only a
 * process that is not confined has.
 */
static const char fake[] = "#include <errno.h>\n"
			   "#include <fcntl.h>\n"
			   "#include <signal.h>\n"
			   "#include <stdlib.h>\n"
			   "#include <string.h>\n"
			   "#include <sys/socket.h>\n"
			   "static int (*progress)(void *, long, long);\n"
			   "void *debuginfod_begin(void) { return malloc(1); }\n"
			   "void debuginfod_end(void *client) { free(client); }\n"
			   "void debuginfod_set_progressfn(void *client,\n"
			   "			       int (*function)(void *, long, long))\n"
			   "{\n"
			   "	progress = function;\n"
			   "}\n"
			   "int debuginfod_find_debuginfo(void *client, const unsigned char *id,\n"
			   "			      int size, char **path)\n"
			   "{\n"
			   "	while (!strcmp((const char *)id, \"0badcafe\"))\n"
			   "		if (progress(client, 1, 2))\n"
			   "			return -EINTR;\n"
			   "	if (!strcmp((const char *)id, \"deadbeef\"))\n"
			   "		raise(SIGKILL);\n"
			   "	if (strcmp((const char *)id, \"12345678\"))\n"
			   "		return -ENOENT;\n"
			   "	if (socket(AF_UNIX, SOCK_STREAM, 0) < 0)\n"
			   "		return -errno;\n"
			   "	progress(client, 3, 4);\n"
			   "	*path = strdup(getenv(\"FAKE_FILE\"));\n"
			   "	return open(*path, O_RDONLY);\n"
			   "}\n";

static const char *program;

static int make_fake(void **state)
{
	make_sandbox(state);
	write_text(in_sandbox("fake.c"), fake);
	run("cd '%s' && gcc -shared -fPIC -Wl,-soname,libdebuginfod.so.1 -o fake.so fake.c",
	    sandbox);
	/* The one of its name that there is from now on. */
	assert_non_null(dlopen(in_sandbox("fake.so"), RTLD_NOW));
	write_text(in_sandbox("program.c"), "int main(void)\n"
					    "{\n"
					    "	return 0;\n"
					    "}\n");
	run("cd '%s' && gcc -g -Wl,--build-id=0x12345678 -Wl,-Ttext=0x500000 -nostdlib -static "
	    "-Wl,-e,main -o program program.c",
	    sandbox);
	program = strdup(in_sandbox("program"));
	setenv("FAKE_FILE", program, 1);
	setenv("DEBUGINFOD_URLS", "fake:", 1);
	return 0;
}

static int remove_fake(void **state)
{
	free((char *)program);
	return remove_sandbox(state);
}

static long told_done, told_total;

static int go_on(void *arg, long done, long total)
{
	(void)arg;
	told_done = done;
	told_total = total;
	return 0;
}

static int stop(void *arg, long done, long total)
{
	(void)arg, (void)done, (void)total;
	return 1;
}

static void start(struct debuginfod_helper *fetcher)
{
	assert_int_equal(debuginfod_helper_start(fetcher, -1), 0);
}

static void test_file(void **state)
{
	struct debuginfod_helper fetcher;
	struct error error;
	struct stat st, wanted;
	char *path = NULL;
	int fd;

	(void)state;
	start(&fetcher);
	assert_int_equal(debuginfod_helper_fetch(&fetcher, "87654321", go_on, NULL, &path, &error),
			 -ENOENT);
	assert_non_null(strstr(error.text, "87654321"));
	assert_int_equal(debuginfod_helper_fetch(&fetcher, "../../x", go_on, NULL, &path, &error),
			 -EINVAL);
	assert_null(path);
	fd = debuginfod_helper_fetch(&fetcher, "12345678", go_on, NULL, &path, &error);
	assert_true(fd >= 0);
	assert_string_equal(path, program);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(stat(program, &wanted), 0);
	assert_int_equal(st.st_ino, wanted.st_ino);
	assert_int_equal(told_done, 3);
	assert_int_equal(told_total, 4);
	close(fd);
	free(path);
	debuginfod_helper_stop(&fetcher);
	/* No process is left. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_giving_up(void **state)
{
	struct debuginfod_helper fetcher;
	struct error error;
	char *path = NULL;

	(void)state;
	start(&fetcher);
	assert_int_equal(debuginfod_helper_fetch(&fetcher, "0badcafe", stop, NULL, &path, &error),
			 -ETIMEDOUT);
	/* It ends by itself. */
	assert_int_equal(waitpid(fetcher.pid, NULL, 0), fetcher.pid);
	assert_int_equal(debuginfod_helper_fetch(&fetcher, "12345678", go_on, NULL, &path, &error),
			 -ETIMEDOUT);
	debuginfod_helper_stop(&fetcher);
}

static void test_crash(void **state)
{
	struct debuginfod_helper fetcher;
	struct error error;
	char *path = NULL;

	(void)state;
	start(&fetcher);
	assert_int_equal(debuginfod_helper_fetch(&fetcher, "deadbeef", go_on, NULL, &path, &error),
			 -EIO);
	assert_non_null(strstr(error.text, "crashed"));
	assert_int_equal(waitpid(fetcher.pid, NULL, 0), fetcher.pid);
	debuginfod_helper_stop(&fetcher);
}

/* Through a process that is confined itself. */

static char name[64];

static int take_name(void *arg, size_t job, size_t index, const struct source_line *lines,
		     size_t count)
{
	(void)arg, (void)job, (void)index;
	assert_int_equal(count, 1);
	snprintf(name, sizeof(name), "%s:%u", lines[0].function, lines[0].line);
	return 0;
}

static size_t steps;

static void take_progress(void *arg, const char *path, uint64_t done, uint64_t total)
{
	(void)arg, (void)path, (void)done, (void)total;
	steps++;
}

static void test_names(void **state)
{
	const uint64_t address = 0x500000;
	const char *directory = sandbox;
	struct worker_pool namer = {
		.options.directories = &directory,
		.options.directory_count = 1,
		.options.progress = take_progress,
		.lines = take_name,
	};
	const struct worker_job job = {
		.path = "p",
		.build_id = "12345678",
		.addresses = &address,
		.count = 1,
	};
	struct string_table texts = {0};

	(void)state;
	assert_int_equal(worker_pool_run(&namer, &job, 1, &texts), 0);
	assert_string_equal(name, "main:2");
	assert_int_equal(steps, 1);
	/* Only who wants to know how far it is asks a server. */
	namer.options.progress = NULL;
	*name = '\0';
	assert_int_equal(worker_pool_run(&namer, &job, 1, &texts), 0);
	assert_string_equal(name, "");
	string_table_clear(&texts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_giving_up),
		cmocka_unit_test(test_crash),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, make_fake, remove_fake);
}
