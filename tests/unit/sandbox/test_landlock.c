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

/* What a kernel gets that has Landlock, whether this one has it or not. */
static struct {
	bool is_used;
	int rules;
	int rule_error, restrict_error; /* 0: none */
	unsigned int rule_count, restrict_count;
	struct {
		char directory[PATH_MAX];
		uint64_t rights;
	} added[2];
} fake;

static long real_syscall(long number, long a, long b, long c, long d)
{
	long (*call)(long number, ...);

	*(void **)&call = dlsym(RTLD_NEXT, "syscall");
	return call(number, a, b, c, d);
}

static long fail_with(int err)
{
	errno = err;
	return err ? -1 : 0;
}

static long make_fake_rules(const struct landlock_ruleset_attr *attributes, size_t size)
{
	assert_int_equal(size, sizeof(attributes->handled_access_fs));
	handled = attributes->handled_access_fs;
	fake.rules = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fake.rules;
}

static long add_fake_rule(const struct landlock_path_beneath_attr *beneath)
{
	const int fd = beneath->parent_fd;
	char link[64], *directory = fake.added[fake.rule_count].directory;
	ssize_t length;

	assert_in_range(fake.rule_count, 0, 1);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & (O_PATH | O_DIRECTORY), O_PATH | O_DIRECTORY);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, directory, PATH_MAX - 1);
	assert_true(length > 0);
	directory[length] = '\0';
	fake.added[fake.rule_count++].rights = beneath->allowed_access;
	return fail_with(fake.rule_error);
}

static long fake_syscall(long number, const long arguments[4])
{
	switch (number) {
	case SYS_landlock_create_ruleset:
		assert_int_equal(arguments[2], 0);
		return make_fake_rules((const void *)arguments[0], (size_t)arguments[1]);
	case SYS_landlock_add_rule:
		assert_int_equal(arguments[0], fake.rules);
		assert_int_equal(arguments[1], LANDLOCK_RULE_PATH_BENEATH);
		assert_int_equal(arguments[3], 0);
		return add_fake_rule((const void *)arguments[2]);
	default:
		assert_int_equal(number, SYS_landlock_restrict_self);
		assert_int_equal(arguments[0], fake.rules);
		assert_int_equal(arguments[1], 0);
		fake.restrict_count++;
		return fail_with(fake.restrict_error);
	}
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
	if (fake.is_used)
		return fake_syscall(number, arguments);
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

static int confine_to_sandbox(void)
{
	return landlock_confine(sandbox);
}

static int confine_writing_to_sandbox(void)
{
	return landlock_confine_writing(sandbox);
}

/* Expects the outcome of a function with these errors, and that nothing stays open. */
static void expect_outcome(int (*function)(void), int rule_error, int restrict_error, int err)
{
	memset(&fake, 0, sizeof(fake));
	fake.is_used = true;
	fake.rule_error = rule_error;
	fake.restrict_error = restrict_error;
	fake_version = 3;
	assert_int_equal(function(), -err);
	assert_int_equal(fcntl(fake.rules, F_GETFD), -1);
	fake.is_used = false;
	fake_version = 0;
}

static void expect_rule(unsigned int index, const char *directory, uint64_t rights)
{
	assert_string_equal(fake.added[index].directory, directory);
	assert_int_equal(fake.added[index].rights, rights);
}

static void rules_are_added_before_the_process_is_restricted(void **state)
{
	static const struct {
		int (*function)(void);
		unsigned int rules;
	} cases[] = {
		{landlock_forbid_files, 0},
		{confine_to_sandbox, 1},
		{landlock_forbid_changes, 1},
		{confine_writing_to_sandbox, 2},
	};
	const uint64_t all = (UINT64_C(1) << 15) - 1,
		       reading = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		expect_outcome(cases[i].function, 0, E2BIG, E2BIG);
		assert_int_equal(fake.restrict_count, 1);
		expect_outcome(cases[i].function, cases[i].rules ? EINVAL : 0, 0,
			       cases[i].rules ? EINVAL : 0);
		assert_int_equal(fake.restrict_count, !cases[i].rules);
		assert_int_equal(fake.rule_count, !!cases[i].rules);
		expect_outcome(cases[i].function, 0, 0, 0);
		assert_int_equal(fake.restrict_count, 1);
		assert_int_equal(fake.rule_count, cases[i].rules);
		assert_int_equal(handled, all);
		if (cases[i].function == confine_to_sandbox)
			expect_rule(0, sandbox, all);
		else if (cases[i].rules)
			expect_rule(0, "/", reading);
		if (cases[i].rules == 2)
			expect_rule(1, sandbox, all);
	}
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
		cmocka_unit_test_setup_teardown(rules_are_added_before_the_process_is_restricted,
						make_sandbox, remove_sandbox),
		cmocka_unit_test_setup_teardown(files_are_restricted, make_sandbox, remove_sandbox),
	};

	return cmocka_run_group_tests_name("landlock", tests, NULL, NULL);
}
