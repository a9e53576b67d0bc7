// SPDX-License-Identifier: GPL-2.0
/* Files by untrusted paths, and processes that exit. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/pidfd.h"
#include "lib/regular_file.h"
#include "scratch.h"

static void make_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void assert_opened(int fd, const struct stat *status)
{
	char text[8] = "";

	assert_true(fd >= 0);
	assert_int_equal(status->st_size, 4);
	assert_int_equal(read(fd, text, sizeof(text)), 4);
	assert_string_equal(text, "text");
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}

static unsigned long mount_flags;

/* Replaces libc's function. */
int fstatfs(int fd, struct statfs *status)
{
	int result = (int)syscall(SYS_fstatfs, fd, status);

	status->f_flags |= (long)mount_flags;
	return result;
}

/* A user may have mounted a file system with nosuid, and have made its files of root. */
static void files_on_nosuid_mounts_are_not_trusted(void **state)
{
	char *file = scratch_file(state, "file");
	struct file_owner owner;
	int fd;

	make_file(file, "text");
	assert_int_equal(chmod(file, 0644), 0);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	file_owner_read(&owner, fd);
	assert_true(owner.is_trusted);
	assert_int_equal(owner.uid, geteuid());
	mount_flags = ST_NOSUID;
	file_owner_read(&owner, fd);
	mount_flags = 0;
	assert_false(owner.is_trusted);
	assert_int_equal(owner.uid, FILE_UID_ANY);
	close(fd);
	unlink(file);
	free(file);
}

static void only_regular_files_are_opened(void **state)
{
	char *file = scratch_file(state, "file"), *link = scratch_file(state, "link"),
	     *fifo = scratch_file(state, "fifo");
	const char *directory = ((struct scratch *)*state)->path;
	struct stat status;
	int lowest = dup(0);

	close(lowest);
	make_file(file, "text");
	assert_int_equal(symlink(file, link), 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_opened(open_regular_file(file, O_NOFOLLOW, &status), &status);
	assert_opened(open_regular_file(link, 0, &status), &status);
	assert_int_equal(open_regular_file(link, O_NOFOLLOW, &status), -EINVAL);
	assert_int_equal(open_regular_file(fifo, 0, &status), -EINVAL);
	assert_int_equal(open_regular_file("/dev/null", 0, &status), -EINVAL);
	assert_int_equal(open_regular_file(directory, 0, &status), -EINVAL);
	assert_int_equal(open_regular_file("/no/such", 0, &status), -ENOENT);
	/* No descriptor is left open. */
	assert_int_equal(dup(0), lowest);
	close(lowest);
	free(file);
	free(link);
	free(fifo);
}

static void paths_do_not_lead_out_of_the_root(void **state)
{
	char *file = scratch_file(state, "file"), *link = scratch_file(state, "link"),
	     *out = scratch_file(state, "out");
	const char *root = ((struct scratch *)*state)->path;
	struct stat status;
	int lowest = dup(0);

	close(lowest);
	make_file(file, "text");
	assert_int_equal(symlink("/file", link), 0);
	assert_int_equal(symlink("/etc/passwd", out), 0);
	assert_opened(open_regular_file_in(root, "/file", 0, &status), &status);
	assert_opened(open_regular_file_in(root, "file", O_NOFOLLOW, &status), &status);
	assert_opened(open_regular_file_in(root, "/../../file", 0, &status), &status);
	assert_opened(open_regular_file_in(root, "/link", 0, &status), &status);
	assert_int_equal(open_regular_file_in(root, "/link", O_NOFOLLOW, &status), -EINVAL);
	assert_int_equal(open_regular_file_in(root, "/out", 0, &status), -ENOENT);
	assert_int_equal(open_regular_file_in(root, "/", 0, &status), -EINVAL);
	assert_int_equal(open_regular_file_in("/no/such", "/file", 0, &status), -ENOENT);
	assert_int_equal(open_regular_file_in(file, "/file", 0, &status), -ENOTDIR);
	assert_int_equal(dup(0), lowest);
	close(lowest);
	free(file);
	free(link);
	free(out);
}

static void descriptor_0_is_as_good_as_others(void **state)
{
	char *file = scratch_file(state, "file");
	const char *root = ((struct scratch *)*state)->path;
	int input = dup(0);
	struct stat status;

	make_file(file, "text");
	close(0);
	assert_opened(open_regular_file(file, 0, &status), &status);
	close(0);
	assert_opened(open_regular_file_in(root, "/file", 0, &status), &status);
	assert_int_equal(dup2(input, 0), 0);
	close(input);
	free(file);
}

static void exits_are_noticed(void **state)
{
	pid_t pid = fork();
	int lowest = dup(0);

	(void)state;
	close(lowest);
	if (!pid) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_false(process_exits_within(pid, 0));
	assert_false(process_exits_within(pid, 20));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_true(process_exits_within(pid, 10000));
	/* Still a zombie. */
	assert_true(process_exits_within(pid, 0));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(process_exits_within(pid, 0));
	assert_false(process_exits_within(-1, 0));
	assert_int_equal(dup(0), lowest);
	close(lowest);
}

/* Two files without a name, with a size and a byte that may differ. */
static bool are_equal(size_t size, size_t other_size, size_t differing)
{
	int fds[2];
	bool equal;

	for (int i = 0; i < 2; i++) {
		size_t own = i ? other_size : size;
		char *bytes = calloc(own + 1, 1);

		assert_non_null(bytes);
		if (i && differing < own)
			bytes[differing] = 'x';
		fds[i] = memfd_create("file", MFD_CLOEXEC);
		assert_true(fds[i] >= 0);
		assert_int_equal(write(fds[i], bytes, own), own);
		free(bytes);
	}
	equal = file_contents_equal(fds[0], fds[1]);
	close(fds[0]);
	close(fds[1]);
	return equal;
}

static void contents_are_compared_to_their_end(void **state)
{
	static const size_t sizes[] = {1, 100, 8192, 8193, 20000};

	(void)state;
	assert_true(are_equal(0, 0, 1));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const size_t size = sizes[i];

		assert_true(are_equal(size, size, size));
		assert_false(are_equal(size, size, 0));
		assert_false(are_equal(size, size, size - 1));
		assert_false(are_equal(size, size, size / 2));
		assert_false(are_equal(size, size + 1, size + 1));
		assert_false(are_equal(size + 1, size, size + 1));
	}
	assert_false(file_contents_equal(-1, -1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(only_regular_files_are_opened),
		SCRATCH_TEST(files_on_nosuid_mounts_are_not_trusted),
		SCRATCH_TEST(paths_do_not_lead_out_of_the_root),
		SCRATCH_TEST(descriptor_0_is_as_good_as_others),
		cmocka_unit_test(contents_are_compared_to_their_end),
		cmocka_unit_test(exits_are_noticed),
	};

	return cmocka_run_group_tests_name("regular_file", tests, NULL, NULL);
}
