// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/debuginfod_helper.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "debuginfo/debug_files.h"
#include "lib/pidfd.h"
#include "lib/string_table.h"
#include "patience.h"
#include "sandbox.h"
#include "sandbox/capabilities.h"
#include "symbolize/worker_pool.h"
#include "worker_server.h"

#define INHERITED 200 /* an fd of the process that starts the helper */

/*
 * Replaces libdebuginfod. The requested build ID selects the behaviour: report progress until
 * stopped, crash, look for files and terminals of others, find no file, or open the program. The
 * last needs a socket, which a confined process can't create.
 */
static const char fake_library[] =
	"#include <errno.h>\n"
	"#include <fcntl.h>\n"
	"#include <stdlib.h>\n"
	"#include <string.h>\n"
	"#include <sys/socket.h>\n"
	"#include <unistd.h>\n"
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
	"		_exit(1);\n"
	"	if (!strcmp((const char *)id, \"0dd0f11e\"))\n"
	"		return fcntl(200, F_GETFD) >= 0 ? -EEXIST :\n"
	"		       getsid(0) != getppid()	? -ENOTTY :\n"
	"						  -ENOENT;\n"
	"	if (strcmp((const char *)id, \"12345678\"))\n"
	"		return -ENOENT;\n"
	"	if (socket(AF_INET, SOCK_STREAM, 0) < 0)\n"
	"		return -errno;\n"
	"	progress(client, 3, 4);\n"
	"	*path = strdup(getenv(\"FAKE_FILE\"));\n"
	"	return open(*path, O_RDONLY);\n"
	"}\n";

static const char *program;

static int make_fake_library(void **state)
{
	make_sandbox(state);
	/* The helper of root is another user. */
	run("chmod 755 '%s' && mkdir -m 777 '%s'", sandbox, in_sandbox("cache"));
	setenv("DEBUGINFOD_CACHE_PATH", in_sandbox("cache"), 1);
	write_text(in_sandbox("fake.c"), fake_library);
	run("cd '%s' && gcc -shared -fPIC -Wl,-soname,libdebuginfod.so.1 -o fake.so fake.c",
	    sandbox);
	/* Later dlopen() calls of this soname return this library. */
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

static int remove_fake_library(void **state)
{
	free((char *)program);
	return remove_sandbox(state);
}

static long last_done, last_total;

static int record_progress(void *arg, long done, long total)
{
	(void)arg;
	last_done = done;
	last_total = total;
	return 0;
}

static int stop_fetch(void *arg, long done, long total)
{
	(void)arg, (void)done, (void)total;
	return 1;
}

static void start_helper(struct debuginfod_helper *helper)
{
	struct error error;

	assert_int_equal(debuginfod_helper_start(helper, &error), 0);
}

/* Expects that the helper ends. On a busy machine, its end may take longer than it is waited for.
 */
static void stop_helper(struct debuginfod_helper *helper)
{
	const pid_t pid = helper->pid;

	debuginfod_helper_stop(helper);
	assert_true(process_exits_within(pid, hang_ms()));
	waitpid(pid, NULL, WNOHANG);
	/* No child process is left. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_helper_is_reaped(void **state)
{
	struct debuginfod_helper helper;

	(void)state;
	start_helper(&helper);
	/* It ends before it is stopped, so that nobody has to wait. */
	assert_int_equal(shutdown(helper.socket, SHUT_RDWR), 0);
	assert_true(process_exits_within(helper.pid, hang_ms()));
	debuginfod_helper_stop(&helper);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	/* Once more does nothing. */
	debuginfod_helper_stop(&helper);
}

static void test_fetch(void **state)
{
	struct debuginfod_helper helper;
	int connection;
	struct error error;
	struct stat st, wanted;
	char *path = NULL;
	int fd;

	(void)state;
	start_helper(&helper);
	connection = debuginfod_helper_connect(&helper);
	assert_true(connection >= 0);
	assert_int_equal(debuginfod_helper_fetch(&connection, "87654321", record_progress, NULL,
						 &path, &error),
			 -ENOENT);
	assert_non_null(strstr(error.text, "87654321"));
	assert_int_equal(debuginfod_helper_fetch(&connection, "../../x", record_progress, NULL,
						 &path, &error),
			 -EINVAL);
	assert_null(path);
	fd = debuginfod_helper_fetch(&connection, "12345678", record_progress, NULL, &path, &error);
	assert_true(fd >= 0);
	assert_string_equal(path, program);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(stat(program, &wanted), 0);
	assert_int_equal(st.st_ino, wanted.st_ino);
	assert_int_equal(last_done, 3);
	assert_int_equal(last_total, 4);
	close(fd);
	free(path);
	if (connection >= 0)
		close(connection);
	stop_helper(&helper);
}

static void test_stopped_helper_is_abandoned(void **state)
{
	struct debuginfod_helper helper;
	int connection;
	struct error error;
	char *path = NULL;

	(void)state;
	start_helper(&helper);
	connection = debuginfod_helper_connect(&helper);
	assert_true(connection >= 0);
	assert_int_equal(
		debuginfod_helper_fetch(&connection, "0badcafe", stop_fetch, NULL, &path, &error),
		-ETIMEDOUT);
	/* The helper exits by itself. */
	assert_int_equal(debuginfod_helper_fetch(&connection, "12345678", record_progress, NULL,
						 &path, &error),
			 -ETIMEDOUT);
	if (connection >= 0)
		close(connection);
	stop_helper(&helper);
}

/* Names are read after the signals of a recording, which reach all processes of a service. */
static void test_signals_to_all_do_not_end_it(void **state)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGUSR1, SIGUSR2};
	struct debuginfod_helper helper;
	int connection, fd;
	struct error error;
	char *path = NULL;

	(void)state;
	start_helper(&helper);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		assert_int_equal(kill(helper.pid, signals[i]), 0);
	connection = debuginfod_helper_connect(&helper);
	assert_true(connection >= 0);
	fd = debuginfod_helper_fetch(&connection, "12345678", record_progress, NULL, &path, &error);
	assert_true(fd >= 0);
	close(fd);
	free(path);
	close(connection);
	stop_helper(&helper);
}

static void test_crash_is_reported(void **state)
{
	struct debuginfod_helper helper;
	int connection;
	struct error error;
	char *path = NULL;

	(void)state;
	start_helper(&helper);
	connection = debuginfod_helper_connect(&helper);
	assert_true(connection >= 0);
	assert_int_equal(debuginfod_helper_fetch(&connection, "deadbeef", record_progress, NULL,
						 &path, &error),
			 -EIO);
	assert_non_null(strstr(error.text, "crashed"));
	if (connection >= 0)
		close(connection);
	stop_helper(&helper);
}

/* Neither the files of its parent, such as the socket of the workers' server, nor its terminal. */
static void test_helper_inherits_nothing(void **state)
{
	struct debuginfod_helper helper;
	int connection;
	struct error error;
	char *path = NULL;

	(void)state;
	assert_int_equal(dup2(STDIN_FILENO, INHERITED), INHERITED);
	start_helper(&helper);
	close(INHERITED);
	connection = debuginfod_helper_connect(&helper);
	assert_true(connection >= 0);
	assert_int_equal(debuginfod_helper_fetch(&connection, "0dd0f11e", record_progress, NULL,
						 &path, &error),
			 -ENOENT);
	close(connection);
	stop_helper(&helper);
}

/* Expects that all ids of a process in a line of /proc/PID/status are `id`. */
static void assert_ids(pid_t pid, const char *key, unsigned int id)
{
	unsigned int ids[4] = {0};
	char path[64], line[256];
	bool found = false;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	status = fopen(path, "re");
	assert_non_null(status);
	while (!found && fgets(line, sizeof(line), status))
		found = !strncmp(line, key, strlen(key));
	fclose(status);
	assert_true(found);
	assert_int_equal(
		sscanf(line + strlen(key), " %u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]), 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(ids[i], id);
}

/* It has connections to servers on the network. */
static void test_helper_is_not_root(void **state)
{
	struct debuginfod_helper helper;

	(void)state;
	start_helper(&helper);
	assert_ids(helper.pid, "Uid:", geteuid() ? geteuid() : SANDBOX_UID);
	assert_ids(helper.pid, "Gid:", geteuid() ? getegid() : SANDBOX_UID);
	stop_helper(&helper);
}

/* A compromised worker could send what it has read as build IDs. */
static void test_requests_are_limited(void **state)
{
	struct debuginfod_helper helper;
	int connection, err = -ENOENT;
	struct error error;
	unsigned int count = 0;
	char *path = NULL;

	(void)state;
	start_helper(&helper);
	connection = debuginfod_helper_connect(&helper);
	assert_true(connection >= 0);
	for (; err == -ENOENT && count < 100; count++)
		err = debuginfod_helper_fetch(&connection, "87654321", record_progress, NULL, &path,
					      &error);
	assert_int_equal(err, -EIO);
	assert_int_equal(count, 9);
	stop_helper(&helper);
}

/* What has no socket for the answers is ignored. */
static void test_message_without_socket_is_ignored(void **state)
{
	struct debuginfod_helper helper;
	struct error error;
	char *path = NULL;
	int connection;

	(void)state;
	start_helper(&helper);
	assert_int_equal(send(helper.socket, "", 1, MSG_NOSIGNAL), 1);
	connection = debuginfod_helper_connect(&helper);
	assert_true(connection >= 0);
	assert_int_equal(debuginfod_helper_fetch(&connection, "87654321", record_progress, NULL,
						 &path, &error),
			 -ENOENT);
	close(connection);
	stop_helper(&helper);
}

static int open_nothing(void *arg, enum debug_name kind, const char *name, const char *beside,
			unsigned int *candidate, char **path)
{
	(void)arg, (void)kind, (void)name, (void)beside, (void)candidate;
	*path = NULL;
	return -ENOENT;
}

/* Opens a copy of the program that needs a shared file of dwz, with the build ID in octal. */
static void open_with_alt_link(struct debug_files *files, const char *build_id, int *connection)
{
	const struct debug_search search = {
		.open = open_nothing, .fetcher = connection, .progress = record_progress};
	struct error error;
	int fd;

	run("cd '%s' && printf 'shared\\0%s' >link && "
	    "objcopy --add-section .gnu_debugaltlink=link program linked",
	    sandbox, build_id);
	fd = open(in_sandbox("linked"), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(debug_files_open(files, fd, "linked", "", &search, &error), 0);
	close(fd);
}

static void test_shared_files_of_dwz_are_fetched(void **state)
{
	struct debuginfod_helper helper;
	struct debug_files files;
	int connection;

	(void)state;
	start_helper(&helper);
	connection = debuginfod_helper_connect(&helper);
	assert_true(connection >= 0);
	open_with_alt_link(&files, "\\022\\064\\126\\170", &connection);
	assert_string_equal(files.problem.text, "");
	assert_non_null(files.dwarf);
	assert_non_null(files.alt.elf);
	assert_string_equal(files.alt.path, program);
	debug_files_close(&files);
	/* A file that the server does not have. */
	open_with_alt_link(&files, "\\207\\145\\103\\041", &connection);
	assert_string_equal(files.problem.text,
			    "linked needs shared (build ID 87654321), which was not found");
	assert_null(files.dwarf);
	assert_null(files.alt.elf);
	debug_files_close(&files);
	close(connection);
	stop_helper(&helper);
}

/* By a confined worker */

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

static void test_worker_uses_helper(void **state)
{
	const uint64_t address = 0x500000;
	const char *directory = sandbox;
	struct debuginfod_helper helper;
	struct worker_pool namer = {
		.options.directories = &directory,
		.options.directory_count = 1,
		.options.sandbox = worker_server(),
		.options.debuginfod = &helper,
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
	start_helper(&helper);
	assert_int_equal(worker_pool_run(&namer, &job, 1, &texts), 0);
	assert_string_equal(name, "main:2");
	assert_int_equal(steps, 1);
	namer.options.debuginfod = NULL;
	*name = '\0';
	assert_int_equal(worker_pool_run(&namer, &job, 1, &texts), 0);
	assert_string_equal(name, "");
	string_table_clear(&texts);
	debuginfod_helper_stop(&helper);
}

/* Variables of the user that decide where the cache is, and the directory that is made. */
static const struct {
	const char *path, *home, *xdg, *made; /* in the sandbox; NULL: not set */
} caches[] = {
	{"own/a/b", "home", "xdg", "own/a/b"},
	{NULL, "home", "xdg", "xdg/debuginfod_client"},
	{NULL, "home", NULL, "home/.cache/debuginfod_client"},
	{NULL, "old", "xdg2", "old/.debuginfod_client_cache"},
	{NULL, NULL, "xdg3", "xdg3/debuginfod_client"},
};

static void set_variable(const char *name, const char *path)
{
	if (path)
		setenv(name, in_sandbox("user/%s", path), 1);
	else
		unsetenv(name);
}

/* Returns 0, or the number of the check that fails. */
static int check_caches(void)
{
	struct debuginfod_helper helper;
	struct error error;
	struct stat st;

	for (size_t i = 0; i < sizeof(caches) / sizeof(caches[0]); i++) {
		set_variable("DEBUGINFOD_CACHE_PATH", caches[i].path);
		set_variable("HOME", caches[i].home);
		set_variable("XDG_CACHE_HOME", caches[i].xdg);
		if (debuginfod_helper_start(&helper, &error))
			return 1;
		debuginfod_helper_stop(&helper);
		if (stat(in_sandbox("user/%s", caches[i].made), &st) || !S_ISDIR(st.st_mode))
			return (int)(10 + i);
		/* One was there before. */
		if ((st.st_mode & 0777) != (i == 3 ? 0755 : 0700))
			return (int)(20 + i);
	}
	/* What comes after the first one is not made. */
	if (!access(in_sandbox("user/xdg2"), F_OK) || !access(in_sandbox("user/old/.cache"), F_OK))
		return 30;
	if (stat(in_sandbox("user/own/a"), &st) || (st.st_mode & 0777) != 0700)
		return 31;
	return 0;
}

/* Only the user may read what was downloaded for that user. */
static void test_cache_is_that_of_the_user(void **state)
{
	pid_t child;
	int status;

	(void)state;
	run("mkdir -p '%s' && chmod -R 755 '%s' && chown -R 1000 '%s'",
	    in_sandbox("user/old/.debuginfod_client_cache"), in_sandbox("user"),
	    in_sandbox("user"));
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (!geteuid() && become_user(1000))
			_exit(2);
		umask(022);
		_exit(check_caches());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_helper_is_reaped),
		cmocka_unit_test(test_fetch),
		cmocka_unit_test(test_stopped_helper_is_abandoned),
		cmocka_unit_test(test_signals_to_all_do_not_end_it),
		cmocka_unit_test(test_crash_is_reported),
		cmocka_unit_test(test_helper_inherits_nothing),
		cmocka_unit_test(test_helper_is_not_root),
		cmocka_unit_test(test_requests_are_limited),
		cmocka_unit_test(test_message_without_socket_is_ignored),
		cmocka_unit_test(test_shared_files_of_dwz_are_fetched),
		cmocka_unit_test(test_worker_uses_helper),
		cmocka_unit_test(test_cache_is_that_of_the_user),
	};

	return cmocka_run_group_tests(tests, make_fake_library, remove_fake_library);
}
