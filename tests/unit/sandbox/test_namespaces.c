// SPDX-License-Identifier: GPL-2.0
/* Processes without files, in child processes. */
#include "sandbox/namespaces.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/capabilities.h"
#include "sandbox/child.h"
#include "unit.h"

#define OTHER_USER 1000

/* Unmounts wait for a grace period that does not end. */
static bool unmount_waits;
static pid_t caller; /* of enter_empty_root() */

/* Replaces libc's function. */
int umount2(const char *target, int flags)
{
	int err;

	if (unmount_waits && getpid() == caller)
		_exit(40);
	if (unmount_waits)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	err = (int)syscall(SYS_umount2, target, flags);
	while (unmount_waits)
		pause();
	return err;
}

static int exit_code_of(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The number of the namespace, as of /proc/self/ns; 0: unknown. */
static ino_t namespace_of(const char *name)
{
	struct stat st;
	int directory = open("/proc/self/ns", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ino_t number = directory < 0 || fstatat(directory, name, &st, 0) ? 0 : st.st_ino;

	if (directory >= 0)
		close(directory);
	return number;
}

static const char *const names[] = {"mnt", "net", "ipc", "uts"};

static bool has_own_namespaces(const ino_t before[4])
{
	for (size_t i = 0; i < 4; i++) {
		if (!before[i] || namespace_of(names[i]) == before[i])
			return false;
	}
	return true;
}

static size_t entries_of(const char *path)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;
	size_t count = 0;

	while (directory && (entry = readdir(directory)))
		count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
	if (directory)
		closedir(directory);
	return directory ? count : SIZE_MAX;
}

/* Returns 0, or the number of what is wrong. */
static int check_empty_root(void)
{
	struct statvfs st;
	char path[64];

	caller = getpid();
	if (enter_empty_root())
		return 1;
	if (!getcwd(path, sizeof(path)) || strcmp(path, "/"))
		return 2;
	if (entries_of("/") || entries_of("..") || statvfs("/", &st))
		return 3;
	if ((st.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC)) !=
	    (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC))
		return 4;
	return mkdir("/d", 0700) == 0 || errno != EROFS ? 5 : 0;
}

static void root_gets_namespaces_and_an_empty_root(void **state)
{
	ino_t before[4];
	pid_t child;

	(void)state;
	if (geteuid())
		skip();
	for (size_t i = 0; i < 4; i++)
		before[i] = namespace_of(names[i]);
	child = child_fork(CHILD_SANDBOX_SERVER);
	assert_true(child >= 0);
	if (child == 0)
		_exit(getpid() != 1 ? 11 : !has_own_namespaces(before) ? 12 : check_empty_root());
	assert_int_equal(exit_code_of(child), 0);
	/* This process has lost nothing. */
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(namespace_of(names[i]), before[i]);
	assert_true(entries_of("/") > 0);
}

/* Of a process that is not root: it may have a user namespace of its own. */
static int check_other_user(void)
{
	ino_t before[4], user;
	pid_t child;
	int status;

	for (size_t i = 0; i < 4; i++)
		before[i] = namespace_of(names[i]);
	user = namespace_of("user");
	child = child_fork(CHILD_SANDBOX_SERVER);
	if (child < 0)
		return 20;
	if (child == 0) {
		if (getpid() == 1 || has_own_namespaces(before) || enter_empty_root() == 0)
			_exit(21);
		if (unshare_as_user())
			_exit(22);
		if (!has_own_namespaces(before) || namespace_of("user") == user)
			_exit(23);
		_exit(check_empty_root());
	}
	return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 24;
}

static void other_user_gets_namespaces_by_one_of_users(void **state)
{
	pid_t child = fork();

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		/* Else /proc/self would be root's. */
		if (!geteuid() && (become_user(OTHER_USER) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)))
			_exit(30);
		_exit(check_other_user());
	}
	assert_int_equal(exit_code_of(child), 0);
}

/* As RestrictNamespaces= of systemd. */
static int refuse_namespace(unsigned int flag)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int err = filter ? seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 1,
					    SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag))
			 : -ENOMEM;

	if (!err)
		err = seccomp_load(filter);
	seccomp_release(filter);
	return err;
}

/* Of a process that is not root, and may have no namespace `flag`: 0, or -errno of
 * unshare_as_user(). */
static int check_without_namespace(unsigned int flag)
{
	ino_t before[4];
	int err;

	for (size_t i = 0; i < 4; i++)
		before[i] = namespace_of(names[i]);
	if (refuse_namespace(flag))
		return 40;
	err = unshare_as_user();
	if (err)
		return -err;
	for (size_t i = 0; i < 4; i++) {
		if ((namespace_of(names[i]) == before[i]) != !strcmp(names[i], "ipc"))
			return 41;
	}
	return check_empty_root();
}

static void namespace_of_ipc_may_be_refused(void **state)
{
	static const struct {
		unsigned int refused;
		int code;
	} cases[] = {{CLONE_NEWIPC, 0}, {CLONE_NEWNET, EPERM}, {CLONE_NEWUSER, EPERM}};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0) {
			if (!geteuid() &&
			    (become_user(OTHER_USER) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)))
				_exit(30);
			_exit(check_without_namespace(cases[i].refused));
		}
		assert_int_equal(exit_code_of(child), cases[i].code);
	}
}

/* As beside a real-time loop on a kernel of PREEMPT_RT. */
static void root_is_empty_before_an_unmount_returns(void **state)
{
	unmount_waits = true;
	root_gets_namespaces_and_an_empty_root(state);
	other_user_gets_namespaces_by_one_of_users(state);
	unmount_waits = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_gets_namespaces_and_an_empty_root),
		cmocka_unit_test(other_user_gets_namespaces_by_one_of_users),
		cmocka_unit_test(namespace_of_ipc_may_be_refused),
		cmocka_unit_test(root_is_empty_before_an_unmount_returns),
	};

	return cmocka_run_group_tests_name("namespaces", tests, NULL, NULL);
}
