// SPDX-License-Identifier: GPL-2.0
/* The places where a mapped file may be, and whether the file there is the same. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "mappings/find_mapped_file.h"
#include "sandbox.h"

/* Writes files of 1, 2 and 3 bytes to the places with numbers 0, 1 and 2. */
static void put_files(void)
{
	run("mkdir -p %s %s", in_sandbox("proc/7/map_files"), in_sandbox("proc/7/root"));
	write_text(in_sandbox("mapped"), "1");
	run("ln -s %s %s", in_sandbox("mapped"), in_sandbox("proc/7/map_files/1000-2fff"));
	write_text(in_sandbox("proc/7/root/a"), "12");
	write_text(in_sandbox("a"), "123");
}

/* Returns the size of the file at a place, or a negative errno value. */
static int size_at(uint32_t pid, const char *path, unsigned int number)
{
	const struct file_place place = {.path = path, .pid = pid, .start = 0x1000, .end = 0x2fff};
	int fd = find_mapped_file(sandbox, &place, number);
	struct stat st;

	if (fd < 0)
		return fd;
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	return (int)st.st_size;
}

static void each_place_is_searched(void **state)
{
	(void)state;
	put_files();
	for (unsigned int number = 0; number < 3; number++)
		assert_int_equal(size_at(7, "/a", number), 1 + number);
	assert_int_equal(size_at(7, "/a", 3), -ESTALE);
	/* Without a process, or a path. */
	assert_int_equal(size_at(0, "/a", 0), -ESTALE);
	assert_int_equal(size_at(0, "/a", 1), -ESTALE);
	assert_int_equal(size_at(0, "/a", 2), 3);
	assert_int_equal(size_at(7, "a", 0), 1);
	assert_int_equal(size_at(7, "a", 1), -ESTALE);
	assert_int_equal(size_at(7, "a", 2), -ESTALE);
	assert_int_equal(size_at(7, "", 0), 1);
	assert_int_equal(size_at(8, "/b", 0), -ESTALE);
	assert_int_equal(size_at(8, "/b", 1), -ESTALE);
	assert_int_equal(size_at(8, "/b", 2), -ESTALE);
	/* The last part is no link, but in map_files. */
	run("ln -s a %s && ln -s a %s", in_sandbox("link"), in_sandbox("proc/7/root/link"));
	assert_true(size_at(7, "/link", 1) < 0);
	assert_true(size_at(7, "/link", 2) < 0);
}

static void long_paths_are_an_error(void **state)
{
	static char path[2 * PATH_MAX];

	(void)state;
	memset(path, '/', sizeof(path) - 1);
	assert_int_equal(size_at(0, path, 2), -ENAMETOOLONG);
	path[PATH_MAX - strlen(sandbox)] = '\0';
	assert_int_equal(size_at(0, path, 2), -ENAMETOOLONG);
}

static struct file_identity identity_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (struct file_identity){
		.device = st.st_dev, .inode = st.st_ino, .size = (uint64_t)st.st_size};
}

static void another_file_is_not_identical(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct file_identity identity = identity_of(fd);

	(void)state;
	assert_true(is_identical_file(&identity, fd));
	identity.inode++;
	assert_false(is_identical_file(&identity, fd));
	identity = identity_of(fd);
	identity.size++;
	assert_false(is_identical_file(&identity, fd));
	identity = identity_of(fd);
	/* Some file systems have another device number here than in the kernel. */
	identity.device = makedev(0, minor(identity.device) + 1);
	assert_true(is_identical_file(&identity, fd));
	identity = identity_of(fd);
	identity.device = makedev(major(identity.device) + 1, minor(identity.device));
	assert_int_equal(is_identical_file(&identity, fd), major(identity_of(fd).device) == 0);
	close(fd);
	identity = (struct file_identity){.size = 0};
	assert_false(is_identical_file(&identity, fd));
}

/* In time: the file must be the same, if the caller says which. */
static void timed_search_compares_files(void **state)
{
	const struct file_place place = {.path = "/a", .pid = 7, .start = 0x1000, .end = 0x2fff};
	struct file_identity identity;
	int fd;

	(void)state;
	put_files();
	fd = find_mapped_file_timed(sandbox, &place, 2, NULL);
	assert_true(fd >= 0);
	identity = identity_of(fd);
	close(fd);
	fd = find_mapped_file_timed(sandbox, &place, 2, &identity);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(find_mapped_file_timed(sandbox, &place, 1, &identity), -ESTALE);
	assert_int_equal(find_mapped_file_timed(sandbox, &place, 3, NULL), -ESTALE);
}

static void links_of_mappings_are_read(void **state)
{
	struct mapping_link link;
	struct stat st;

	(void)state;
	put_files();
	assert_int_equal(read_mapping_link(sandbox, 7, 0x1000, 0x2fff, &link), 0);
	assert_string_equal(link.path, in_sandbox("mapped"));
	assert_int_equal(stat(link.path, &st), 0);
	assert_int_equal(link.identity.inode, st.st_ino);
	assert_int_equal(link.identity.device, st.st_dev);
	assert_int_equal(link.identity.size, 1);
	assert_int_equal(read_mapping_link(sandbox, 7, 0x1000, 0x3fff, &link), -ENOENT);
	assert_int_equal(read_mapping_link(sandbox, 8, 0x1000, 0x2fff, &link), -ENOENT);
	/* Not the link of a device, and no file that is no link. */
	run("ln -s /dev/null %s", in_sandbox("proc/7/map_files/3000-4000"));
	assert_int_equal(read_mapping_link(sandbox, 7, 0x3000, 0x4000, &link), -ENOENT);
	write_text(in_sandbox("proc/7/map_files/4000-5000"), "");
	assert_int_equal(read_mapping_link(sandbox, 7, 0x4000, 0x5000, &link), -ENOENT);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_place_is_searched),        TEST(long_paths_are_an_error),
		TEST(another_file_is_not_identical), TEST(timed_search_compares_files),
		TEST(links_of_mappings_are_read),
	};

	return cmocka_run_group_tests_name("find_mapped_file", tests, NULL, NULL);
}
