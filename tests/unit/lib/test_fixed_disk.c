// SPDX-License-Identifier: GPL-2.0
#include "lib/fixed_disk.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/major.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sandbox.h"

/* Replaces libc's function. */
int open(const char *path, int flags, ...)
{
	assert_int_equal(flags, O_RDONLY | O_CLOEXEC);
	return openat(AT_FDCWD, path, flags);
}

static void make_disk(const char *name, unsigned int minor, const char *is_removable)
{
	assert_int_equal(mkdir(in_sandbox("sys/%s", name), 0700), 0);
	assert_int_equal(mkdir(in_sandbox("sys/%s/part", name), 0700), 0);
	if (is_removable)
		write_text(in_sandbox("sys/%s/removable", name), is_removable);
	assert_int_equal(
		symlink(in_sandbox("sys/%s", name), in_sandbox("sys/dev/block/8:%u", minor)), 0);
	assert_int_equal(symlink(in_sandbox("sys/%s/part", name),
				 in_sandbox("sys/dev/block/8:%u", minor + 1)),
			 0);
}

/* The next image or medium gets the number of the one before. */
static void removable_and_loop_devices_are_not_fixed(void **state)
{
	char root[PATH_MAX];

	(void)state;
	strcpy(root, in_sandbox("."));
	assert_int_equal(mkdir(in_sandbox("sys"), 0700), 0);
	assert_int_equal(mkdir(in_sandbox("sys/dev"), 0700), 0);
	assert_int_equal(mkdir(in_sandbox("sys/dev/block"), 0700), 0);
	make_disk("fixed", 0, "0\n");
	make_disk("stick", 16, "1\n");
	make_disk("unknown", 32, NULL);
	for (unsigned int part = 0; part < 2; part++) {
		assert_true(device_is_fixed_disk(root, makedev(8, part)));
		assert_false(device_is_fixed_disk(root, makedev(8, 16 + part)));
		assert_false(device_is_fixed_disk(root, makedev(8, 32 + part)));
	}
	assert_false(device_is_fixed_disk(root, makedev(8, 48)));
	/* A file without a character says nothing. */
	write_text(in_sandbox("sys/fixed/part/removable"), "");
	assert_true(device_is_fixed_disk(root, makedev(8, 1)));
	/* Whatever the kernel says about it. */
	assert_int_equal(
		symlink(in_sandbox("sys/fixed"), in_sandbox("sys/dev/block/%u:0", LOOP_MAJOR)), 0);
	assert_false(device_is_fixed_disk(root, makedev(LOOP_MAJOR, 0)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(removable_and_loop_devices_are_not_fixed,
						make_sandbox, remove_sandbox),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
