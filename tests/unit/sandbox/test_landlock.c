// SPDX-License-Identifier: GPL-2.0
/* Rules for files, in child processes. Kernels without Landlock refuse them with an error. */
#include "sandbox/landlock.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sandbox.h"

/* What the calls of the tested functions get; 0: the kernel's version. */
static long fake_version;
static uint64_t handled; /* rights */

static long real_syscall(long number, long a, long b, long c, long d)
{
	long (*call)(long number, ...);

	*(void **)&call = dlsym(RTLD_NEXT, "syscall");
	return call(number, a, b, c, d);
}

long syscall(long number, ...)
{
	long arguments[4];
	va_list list;

	va_start(list, number);
	for (size_t i = 0; i < 4; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_landlock_create_ruleset && !arguments[0] && fake_version)
		return fake_version;
	if (number == SYS_landlock_create_ruleset && arguments[0]) {
		memcpy(&handled, (const void *)arguments[0], sizeof(handled));
		if (fake_version) {
			errno = EPERM;
			return -1;
		}
	}
	return real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3]);
}

/* All rights of the version. */
static void rights_are_those_of_the_version(void **state)
{
	static const unsigned int bits[] = {0, 13, 14, 15, 15, 15};

	(void)state;
	for (fake_version = 1; fake_version < 6; fake_version++) {
		handled = 0;
		assert_int_equal(landlock_forbid_files(), -EPERM);
		assert_int_equal(handled, (UINT64_C(1) << bits[fake_version]) - 1);
		assert_int_equal(landlock_confine_writing("/"), -EPERM);
	}
	fake_version = 0;
}

static long version(void)
{
	return real_syscall(SYS_landlock_create_ruleset, 0, 0, LANDLOCK_CREATE_RULESET_VERSION, 0);
}

static void assert_in_child(int (*function)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		_exit(function());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static bool is_refused(int fd)
{
	return fd < 0 && errno == EACCES;
}

static bool may_write(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	bool may = fd >= 0 && write(fd, "x", 1) == 1;

	if (fd >= 0)
		close(fd);
	return may;
}

static int no_file_opens(void)
{
	int open_file = open(in_sandbox("file"), O_RDONLY | O_CLOEXEC);
	char byte;

	if (landlock_forbid_files())
		return 1;
	if (!is_refused(open(in_sandbox("file"), O_RDONLY)) ||
	    !is_refused(open(sandbox, O_RDONLY | O_DIRECTORY)) ||
	    !is_refused(open(in_sandbox("new"), O_WRONLY | O_CREAT, 0600)))
		return 2;
	return read(open_file, &byte, 1) != 1;
}

static int all_files_are_readable(void)
{
	if (landlock_forbid_changes())
		return 1;
	if (may_write(in_sandbox("file")) || may_write(in_sandbox("new")) ||
	    mkdir(in_sandbox("d"), 0700) == 0 || unlink(in_sandbox("file")) == 0)
		return 2;
	return open(in_sandbox("file"), O_RDONLY) < 0 || open(sandbox, O_RDONLY | O_DIRECTORY) < 0;
}

static int one_directory_is_writable(void)
{
	if (landlock_confine_writing(in_sandbox("own")))
		return 1;
	if (!may_write(in_sandbox("own/file")) || unlink(in_sandbox("own/file")) ||
	    mkdir(in_sandbox("own/d"), 0700) || rename(in_sandbox("own/d"), in_sandbox("own/e")))
		return 2;
	if (version() >= 2 &&
	    (mkdir(in_sandbox("own/sub"), 0700) || !may_write(in_sandbox("own/f")) ||
	     rename(in_sandbox("own/f"), in_sandbox("own/sub/f"))))
		return 3;
	if (may_write(in_sandbox("file")) || may_write(in_sandbox("new")) ||
	    mkdir(in_sandbox("d"), 0700) == 0 || unlink(in_sandbox("file")) == 0)
		return 4;
	if (version() >= 3 && truncate(in_sandbox("file"), 0) == 0)
		return 5;
	return open(in_sandbox("file"), O_RDONLY) < 0 || open(sandbox, O_RDONLY | O_DIRECTORY) < 0;
}

static int missing_directory_is_an_error(void)
{
	/* The process is not restricted then. */
	return landlock_confine_writing(in_sandbox("missing")) != -ENOENT ||
	       !may_write(in_sandbox("file"));
}

static int unknown_to_the_kernel(void)
{
	return landlock_forbid_files() >= 0 || landlock_confine_writing(sandbox) >= 0 ||
	       !may_write(in_sandbox("file"));
}

static void files_are_restricted(void **state)
{
	(void)state;
	write_text(in_sandbox("file"), "text");
	assert_int_equal(mkdir(in_sandbox("own"), 0700), 0);
	if (version() < 0) {
		assert_in_child(unknown_to_the_kernel);
		skip();
	}
	assert_in_child(no_file_opens);
	assert_in_child(all_files_are_readable);
	assert_in_child(one_directory_is_writable);
	assert_in_child(missing_directory_is_an_error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rights_are_those_of_the_version),
		cmocka_unit_test_setup_teardown(files_are_restricted, make_sandbox, remove_sandbox),
	};

	return cmocka_run_group_tests_name("landlock", tests, NULL, NULL);
}
