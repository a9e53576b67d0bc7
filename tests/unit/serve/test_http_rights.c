// SPDX-License-Identifier: GPL-2.0
/* The rights that the process loses, in child processes: of root, and of another user. */
#include "serve/http_rights.h"

#include "sandbox.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "lib/error.h"
#include "sandbox/capabilities.h"
#include "sandbox/landlock.h"
#include "sandbox/seccomp_filter.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define SERVER_USER 1234
#define OTHER_USER 2345
#define SYS_FCHMODAT2 452 /* headers may be older */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			print_error("line %d: %s, errno %d\n", __LINE__, #condition, errno);       \
			return false;                                                              \
		}                                                                                  \
	} while (0)

static const char *store, *inside, *outside;
/* What system calls are to fail with; 0: they do not. */
static int landlock_error, setresuid_error;

/* For a kernel without Landlock. */
HIDDEN long syscall(long number, ...)
{
	static long (*next)(long number, ...);
	long arguments[5]; /* more than any of these system calls has */
	va_list list;

	if (number == SYS_landlock_create_ruleset && landlock_error) {
		errno = landlock_error;
		return -1;
	}
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	va_start(list, number);
	for (int i = 0; i < 5; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]);
}

HIDDEN int setresuid(uid_t real, uid_t effective, uid_t saved)
{
	if (setresuid_error) {
		errno = setresuid_error;
		return -1;
	}
	return (int)syscall(SYS_setresuid, real, effective, saved);
}

static int set_up(void **state)
{
	if (make_sandbox(state))
		return -1;
	store = in_sandbox("store");
	inside = in_sandbox("store/file");
	outside = in_sandbox("file");
	/* For all users. */
	if (mkdir(store, 0700) || chmod(sandbox, 0777) || chmod(store, 0777))
		return -1;
	write_text(inside, "x");
	write_text(outside, "x");
	return 0;
}

/* Runs a function in a child process, where it returns whether all is as it should be. */
static void assert_in_child(bool (*function)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		/* cmocka's handler would continue with the tests. */
		signal(SIGSEGV, SIG_DFL);
		_exit(function() ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static bool have_users(uid_t user, gid_t group)
{
	uid_t users[3];
	gid_t groups[3];

	CHECK(!getresuid(&users[0], &users[1], &users[2]));
	CHECK(!getresgid(&groups[0], &groups[1], &groups[2]));
	for (int i = 0; i < 3; i++)
		CHECK(users[i] == user && groups[i] == group);
	return true;
}

static bool have_no_rights(void)
{
	const struct f_owner_ex owner = {F_OWNER_PID, getppid()};
	int ends[2], file;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	struct __user_cap_data_struct data[2];

	CHECK(!syscall(SYS_capget, &header, data));
	for (int i = 0; i < 2; i++)
		CHECK(!data[i].effective && !data[i].permitted && !data[i].inheritable);
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
	/* The filter. */
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
	file = ends[0];
	CHECK(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
	CHECK(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
	CHECK(connect(file, &nobody, sizeof(nobody)) < 0 && errno == EPERM);
	CHECK(kill(getppid(), 0) < 0 && errno == EPERM);
	/* A file would signal its owner. */
	CHECK(fcntl(file, F_SETOWN, getppid()) < 0 && errno == EPERM);
	CHECK(fcntl(file, F_SETOWN_EX, &owner) < 0 && errno == EPERM);
	CHECK(ioctl(file, FIOSETOWN, &owner.pid) < 0 && errno == EPERM);
	CHECK(ioctl(file, SIOCSPGRP, &owner.pid) < 0 && errno == EPERM);
	return true;
}

static bool can_use_files(void)
{
	int fd = open(outside, O_RDWR);

	CHECK(fd >= 0);
	close(fd);
	return true;
}

static bool reduce_as_root(void)
{
	const gid_t groups[] = {1, 2};
	struct error error = {0};

	CHECK(!setgroups(2, groups));
	CHECK(!chmod(outside, 0666));
	CHECK(!http_rights_reduce(SERVER_USER, &error));
	CHECK(have_users(SERVER_USER, SERVER_USER));
	CHECK(getgroups(0, NULL) == 0);
	CHECK(have_no_rights());
	for (int number = 0; number < 64; number++)
		CHECK(prctl(PR_CAPBSET_READ, number, 0, 0, 0) != 1);
	CHECK(can_use_files());
	return true;
}

/* Another user stays that one. */
static bool reduce_as_other(void)
{
	struct error error = {0};
	uid_t user;
	gid_t group;

	CHECK(geteuid() || (!chmod(outside, 0666) && !become_user(OTHER_USER)));
	user = geteuid();
	group = getegid();
	CHECK(!http_rights_reduce(SERVER_USER, &error));
	CHECK(have_users(user, group));
	CHECK(have_no_rights());
	CHECK(can_use_files());
	return true;
}

/* The user that is not root may have capabilities, as the capabilities of its file. */
static bool reduce_with_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	struct error error = {0};

	CHECK(!prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
	CHECK(!become_user(OTHER_USER));
	CHECK(!syscall(SYS_capget, &header, data));
	CHECK(data[0].permitted);
	for (int i = 0; i < 2; i++)
		data[i].effective = data[i].inheritable = data[i].permitted;
	CHECK(!syscall(SYS_capset, &header, data));
	CHECK(!prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0));
	CHECK(!http_rights_reduce(SERVER_USER, &error));
	CHECK(have_users(OTHER_USER, OTHER_USER));
	CHECK(have_no_rights());
	CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0) == 0);
	for (int number = 0; number < 64; number++)
		CHECK(prctl(PR_CAPBSET_READ, number, 0, 0, 0) != 1);
	return true;
}

/* It must not go on as root. */
static bool fail_to_change_user(void)
{
	struct error error = {0};

	setresuid_error = EAGAIN;
	CHECK(http_rights_reduce(SERVER_USER, &error) == -EAGAIN);
	CHECK(strstr(error.text, "can't give up the rights of root"));
	return true;
}

static bool reduce_and_confine(const char *path)
{
	struct error error = {0};

	CHECK(geteuid() || (!chmod(outside, 0666) && !chmod(inside, 0666)));
	CHECK(!http_rights_reduce(SERVER_USER, &error));
	CHECK(!http_rights_confine(path, &error));
	return true;
}

static bool confine_to_store(void)
{
	int fd;

	CHECK(reduce_and_confine(store));
	fd = open(inside, O_RDWR);
	CHECK(fd >= 0);
	CHECK(read(fd, &(char){0}, 1) == 1);
	CHECK(!rename(inside, in_sandbox("store/other")));
	CHECK(open(outside, O_RDONLY) < 0 && errno == EACCES);
	return true;
}

static bool confine_to_open_files(void)
{
	int fd = open(outside, O_RDONLY);

	CHECK(fd >= 0);
	CHECK(reduce_and_confine(NULL));
	CHECK(read(fd, &(char){0}, 1) == 1);
	CHECK(open(inside, O_RDONLY) < 0 && errno == EACCES);
	CHECK(open(outside, O_RDONLY) < 0 && errno == EACCES);
	CHECK(open("/", O_RDONLY | O_DIRECTORY) < 0 && errno == EACCES);
	return true;
}

/* What reads code may start workers before it is confined. */
static bool confine_reader(void)
{
	struct error error = {0};
	int sockets[2], file;

	CHECK(geteuid() || (!chmod(outside, 0666) && !chmod(inside, 0600) &&
			    !chown(outside, SERVER_USER, SERVER_USER)));
	CHECK(!code_rights_reduce(SERVER_USER, &error));
	CHECK(!chmod(outside, 0644) && !utimensat(AT_FDCWD, outside, NULL, 0));
	CHECK(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
	CHECK(execl("/bin/true", "true", NULL) < 0 && errno == EPERM);
	CHECK(!kill(getpid(), 0) && !socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	CHECK(!code_rights_confine(&error));
	CHECK(have_no_rights());
	file = open(outside, O_RDONLY);
	CHECK(file >= 0);
	/* Of a file of its own. */
	CHECK(chmod(outside, 0600) < 0 && errno == EPERM);
	CHECK(fchmod(file, 0600) < 0 && errno == EPERM);
	CHECK(syscall(SYS_FCHMODAT2, AT_FDCWD, outside, 0600, 0) < 0 && errno == EPERM);
	CHECK(chown(outside, getuid(), getgid()) < 0 && errno == EPERM);
	CHECK(utimensat(AT_FDCWD, outside, NULL, 0) < 0 && errno == EPERM);
	CHECK(truncate(outside, 0) < 0 && errno == EPERM);
	CHECK(setxattr(outside, "user.x", "", 0, 0) < 0 && errno == EPERM);
	CHECK(ioctl(file, FS_IOC_SETFLAGS, &(int){0}) < 0 && errno == EPERM);
	CHECK(geteuid() != SERVER_USER || (open(inside, O_RDONLY) < 0 && errno == EACCES));
	CHECK(open(outside, O_RDWR) < 0 && errno == EACCES);
	CHECK(open(in_sandbox("new"), O_WRONLY | O_CREAT, 0600) < 0 && errno == EACCES);
	return true;
}

/* Kernels without Landlock, and those that have it disabled, are used as they are. */
static bool confine_without_landlock(void)
{
	struct error error = {0};

	landlock_error = ENOSYS;
	CHECK(!http_rights_confine(store, &error) && !http_rights_confine(NULL, &error));
	landlock_error = EOPNOTSUPP;
	CHECK(!http_rights_confine(store, &error) && !http_rights_confine(NULL, &error));
	CHECK(!*error.text);
	landlock_error = EMFILE;
	CHECK(code_rights_confine(&error) == -EMFILE);
	CHECK(http_rights_confine(store, &error) == -EMFILE);
	CHECK(strstr(error.text, "can't restrict the access to files"));
	CHECK(http_rights_confine(NULL, &error) == -EMFILE);
	return true;
}

/* No other process can be confined for a directory that is not there. */
static bool confine_to_missing_store(void)
{
	struct error error = {0};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(http_rights_confine(in_sandbox("none"), &error) == -ENOENT);
	return true;
}

static void have_root(void)
{
	if (geteuid())
		skip();
}

/* As the kernel of the test has it or not. */
static void have_landlock(void)
{
	if (syscall(SYS_landlock_create_ruleset, (const void *)0, (size_t)0, 1) < 0)
		skip();
}

static void root_becomes_the_user(void **state)
{
	(void)state;
	have_root();
	assert_in_child(reduce_as_root);
}

static void other_user_loses_its_rights(void **state)
{
	(void)state;
	assert_in_child(reduce_as_other);
}

static void capabilities_are_given_up(void **state)
{
	(void)state;
	have_root();
	assert_in_child(reduce_with_capabilities);
}

static void root_does_not_stay(void **state)
{
	(void)state;
	have_root();
	assert_in_child(fail_to_change_user);
}

static void files_are_those_of_the_store(void **state)
{
	(void)state;
	have_landlock();
	assert_in_child(confine_to_store);
	assert_in_child(confine_to_missing_store);
}

static void files_are_those_that_are_open(void **state)
{
	(void)state;
	have_landlock();
	assert_in_child(confine_to_open_files);
}

static void readers_change_no_files(void **state)
{
	(void)state;
	have_landlock();
	assert_in_child(confine_reader);
}

static void landlock_may_be_missing(void **state)
{
	(void)state;
	assert_in_child(confine_without_landlock);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(root_becomes_the_user),        TEST(other_user_loses_its_rights),
		TEST(capabilities_are_given_up),    TEST(root_does_not_stay),
		TEST(files_are_those_of_the_store), TEST(files_are_those_that_are_open),
		TEST(readers_change_no_files),      TEST(landlock_may_be_missing),
	};

	return cmocka_run_group_tests_name("http_rights", tests, NULL, NULL);
}
