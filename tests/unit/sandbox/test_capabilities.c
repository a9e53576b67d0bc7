// SPDX-License-Identifier: GPL-2.0
/* Rights that a process gives up, in a child process. */
#include "sandbox/capabilities.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "unit.h"

#define OTHER_USER 1234
#define KEPT (CAPABILITY(CAP_SYSLOG) | CAPABILITY(CAP_KILL))

/* Runs a function in a child of root, where it returns whether all is as it should be. */
static void assert_in_child_of_root(bool (*function)(void))
{
	pid_t child;
	int status;

	if (geteuid())
		skip();
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(function() ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static bool read_sets(struct __user_cap_data_struct data[2])
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

	return syscall(SYS_capget, &header, data) == 0;
}

static bool set_is(const struct __user_cap_data_struct data[2], uint64_t wanted)
{
	return data[0].effective == (uint32_t)wanted && data[0].permitted == (uint32_t)wanted &&
	       data[1].effective == wanted >> 32 && data[1].permitted == wanted >> 32 &&
	       !data[0].inheritable && !data[1].inheritable;
}

static bool is_empty_bounding_set(void)
{
	int kept = 0, number = 0;

	for (; number < 64; number++)
		kept += prctl(PR_CAPBSET_READ, number, 0, 0, 0) == 1;
	return !kept;
}

static bool keep_some(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (!read_sets(data))
		return false;
	data[0].inheritable = data[0].permitted;
	if (syscall(SYS_capset, &header, data) ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0))
		return false;
	return !capabilities_keep(KEPT) && read_sets(data) && set_is(data, KEPT) &&
	       is_empty_bounding_set() &&
	       prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0) == 0;
}

/* What was given up does not come back. */
static bool keep_in_steps(void)
{
	struct __user_cap_data_struct data[2];

	return !capabilities_keep(CAPABILITY(CAP_SYSLOG)) && !capabilities_keep(KEPT) &&
	       read_sets(data) && set_is(data, CAPABILITY(CAP_SYSLOG)) && !capabilities_keep(0) &&
	       read_sets(data) && set_is(data, 0);
}

static bool change_user(void)
{
	const gid_t groups[] = {1, 2, 3};
	uid_t users[3];
	gid_t own[3];

	if (setgroups(3, groups) || become_user(OTHER_USER) || getgroups(0, NULL) != 0 ||
	    getresuid(&users[0], &users[1], &users[2]) || getresgid(&own[0], &own[1], &own[2]))
		return false;
	for (size_t i = 0; i < 3; i++) {
		if (users[i] != OTHER_USER || own[i] != OTHER_USER)
			return false;
	}
	/* The new user may not do it again. */
	return become_user(OTHER_USER + 1) == -EPERM && getuid() == OTHER_USER;
}

static void other_capabilities_are_given_up(void **state)
{
	(void)state;
	assert_in_child_of_root(keep_some);
	assert_in_child_of_root(keep_in_steps);
}

static void all_ids_are_changed(void **state)
{
	(void)state;
	assert_in_child_of_root(change_user);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_capabilities_are_given_up),
		cmocka_unit_test(all_ids_are_changed),
	};

	return cmocka_run_group_tests_name("capabilities", tests, NULL, NULL);
}
