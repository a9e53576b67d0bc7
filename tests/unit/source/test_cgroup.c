// SPDX-License-Identifier: GPL-2.0
/* Control groups by their paths, below a mount point of the test. */
#include "source/cgroup.h"

#include <errno.h>
#include <mntent.h>

#include "lib/error.h"
#include "sandbox.h"

/* Replaces the function of libc: the list is a file of the test. */
FILE *setmntent(const char *path, const char *mode)
{
	assert_string_equal(path, "/proc/self/mounts");
	return fopen(in_sandbox("mounts"), mode);
}

static uint64_t id;
static struct error error;

static int find(const char *path)
{
	id = 0;
	*error.text = '\0';
	return cgroup_id_of(path, &id, &error);
}

static ino_t inode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static void write_mounts(void)
{
	char text[1024];

	run("mkdir -p '%s' '%s'", in_sandbox("cgroup/system/service"), in_sandbox("other/system"));
	snprintf(text, sizeof(text),
		 "proc /proc proc rw 0 0\n"
		 "cgroup %s/v1 cgroup rw 0 0\n"
		 "cgroup2 %s/cgroup cgroup2 rw 0 0\n"
		 "cgroup2 %s/other cgroup2 rw 0 0\n"
		 "tmpfs /tmp tmpfs rw 0 0\n",
		 sandbox, sandbox, sandbox);
	write_text(in_sandbox("mounts"), text);
}

static void path_may_have_the_mount_point_or_not(void **state)
{
	static const char *const paths[] = {"system/service", "/system/service"};

	(void)state;
	write_mounts();
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(find(paths[i]), 0);
		assert_int_equal(id, inode_of(in_sandbox("cgroup/system/service")));
	}
	assert_int_equal(find(in_sandbox("cgroup/system")), 0);
	assert_int_equal(id, inode_of(in_sandbox("cgroup/system")));
	/* The root of all. */
	assert_int_equal(find(in_sandbox("cgroup")), 0);
	assert_int_equal(id, inode_of(in_sandbox("cgroup")));
	assert_int_equal(find("/"), 0);
	assert_int_equal(id, inode_of(in_sandbox("cgroup")));
}

static void what_is_no_control_group_is_an_error(void **state)
{
	(void)state;
	write_mounts();
	run("mkdir '%s' && touch '%s'", in_sandbox("cgroup-2"), in_sandbox("cgroup/file"));
	assert_int_equal(find("missing"), -ENOENT);
	assert_non_null(strstr(error.text, "-G missing: there is no such control group below"));
	assert_int_equal(id, 0);
	assert_int_equal(find("file"), -ENOENT);
	/* A directory beside the mount point. */
	assert_int_equal(find(in_sandbox("cgroup-2")), -ENOENT);
}

static void control_groups_may_not_be_mounted(void **state)
{
	(void)state;
	write_text(in_sandbox("mounts"), "cgroup /sys/fs/cgroup cgroup rw 0 0\n");
	assert_int_equal(find("system"), -ENOTSUP);
	assert_non_null(strstr(error.text, "are not mounted"));
	run("rm '%s'", in_sandbox("mounts"));
	assert_int_equal(find("system"), -ENOTSUP);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(path_may_have_the_mount_point_or_not),
		TEST(what_is_no_control_group_is_an_error),
		TEST(control_groups_may_not_be_mounted),
	};

	return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
