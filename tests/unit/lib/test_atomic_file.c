// SPDX-License-Identifier: GPL-2.0
/* Files appear completely or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "lib/atomic_file.h"
#include "scratch.h"

static void assert_content(const char *path, const char *expected)
{
	char content[256] = "";
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(read(fd, content, sizeof(content) - 1), strlen(expected));
	close(fd);
	assert_string_equal(content, expected);
}

static void put(const char *path, const char *content)
{
	struct atomic_file file;

	assert_int_equal(atomic_file_create(&file, path, NULL), 0);
	assert_int_equal(atomic_file_write(&file, content, strlen(content), NULL), 0);
	assert_int_equal(atomic_file_commit(&file, NULL), 0);
	assert_int_equal(file.size, strlen(content));
}

static void commit_replaces(void **state)
{
	char *path = scratch_file(state, "profile");

	put(path, "old and long");
	put(path, "new");
	assert_content(path, "new");
	assert_int_equal(scratch_count(state, 0), 1);
	free(path);
}

static void old_content_stays_until_commit(void **state)
{
	char *path = scratch_file(state, "profile");
	struct atomic_file file;

	put(path, "old");
	assert_int_equal(atomic_file_create(&file, path, NULL), 0);
	assert_int_equal(atomic_file_write(&file, "new", 3, NULL), 0);
	assert_content(path, "old");
	atomic_file_discard(&file);
	assert_content(path, "old");
	assert_int_equal(scratch_count(state, 0), 1);
	free(path);
}

static void mode_follows_umask(void **state)
{
	char *path = scratch_file(state, "profile");
	mode_t mask = umask(027);
	struct stat status;

	put(path, "x");
	umask(mask);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0640);
	free(path);
}

static void links_are_followed(void **state)
{
	char *path = scratch_file(state, "profile"), *name = scratch_file(state, "link");
	struct stat status;

	put(path, "old");
	assert_int_equal(symlink("profile", name), 0);
	put(name, "new");
	assert_content(path, "new");
	assert_int_equal(lstat(name, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	/* A link that leads nowhere is replaced. */
	assert_int_equal(unlink(path), 0);
	put(name, "own");
	assert_content(name, "own");
	assert_int_equal(lstat(name, &status), 0);
	assert_true(S_ISREG(status.st_mode));
	free(path);
	free(name);
}

/* Runs `child` in a child process. Returns whether it exits with status 0. */
static bool run_child(void (*child)(const char *path), const char *path)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		child(path);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void fail_as_another(const char *path)
{
	struct atomic_file file;
	struct error error;

	if (setresgid(1002, 1002, 1002) || setresuid(1002, 1002, 1002) ||
	    atomic_file_create(&file, path, &error) != -EPERM ||
	    !strstr(error.text, "a file of another user") ||
	    atomic_file_check(path, &error) != -EPERM)
		_exit(1);
}

static void write_as_the_owner(const char *path)
{
	struct error error;

	if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000) ||
	    atomic_file_check(path, &error) || atomic_file_store(path, "new", 3, &error))
		_exit(1);
}

/* rename() would fail after the recording. */
static void file_of_another_in_a_sticky_directory_is_refused_at_once(void **state)
{
	const struct scratch *scratch = *state;
	char *directory, *name;

	if (geteuid())
		skip();
	directory = scratch_file(state, "tmp");
	name = scratch_file(state, "tmp/profile");
	assert_int_equal(chmod(scratch->path, 0755), 0);
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(chmod(directory, 01777), 0);
	put(name, "old");
	for (mode_t mode = 0600; mode <= 0644; mode += 044) {
		assert_int_equal(chown(name, 1000, 1000), 0);
		assert_int_equal(chmod(name, mode), 0);
		assert_true(run_child(fail_as_another, name));
		assert_content(name, "old");
		/* With CAP_FOWNER. */
		put(name, "old");
	}
	assert_int_equal(chown(name, 1000, 1000), 0);
	assert_true(run_child(write_as_the_owner, name));
	assert_content(name, "new");
	/* The owner of the directory. */
	assert_int_equal(chown(name, 1001, 1001), 0);
	assert_int_equal(chown(directory, 1000, 1000), 0);
	assert_true(run_child(write_as_the_owner, name));
	unlink(name);
	rmdir(directory);
	free(name);
	free(directory);
}

static void devices_are_written_in_place(void **state)
{
	struct error error;
	struct stat status;
	struct atomic_file file;

	(void)state;
	put("/dev/null", "gone");
	assert_int_equal(stat("/dev/null", &status), 0);
	assert_true(S_ISCHR(status.st_mode));

	assert_int_equal(atomic_file_create(&file, "/dev/full", &error), 0);
	assert_int_equal(atomic_file_write(&file, "x", 1, &error), -ENOSPC);
	assert_string_equal(error.text, "/dev/full: No space left on device");
	atomic_file_discard(&file);
	assert_int_equal(stat("/dev/full", &status), 0);
}

/* The reader of a pipe would see EOF before the profile is written. */
static void check_does_not_open_pipes(void **state)
{
	char *path = scratch_file(state, "pipe");
	struct pollfd reader = {.events = POLLIN};
	struct error error;

	assert_int_equal(mkfifo(path, 0600), 0);
	reader.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(reader.fd >= 0);
	assert_int_equal(atomic_file_check(path, &error), 0);
	assert_int_equal(poll(&reader, 1, 0), 0);
	close(reader.fd);

	assert_int_equal(unlink(path), 0);
	assert_int_equal(atomic_file_check(path, &error), 0);
	assert_int_equal(scratch_count(state, 0), 0);
	assert_int_equal(atomic_file_check("/no/such/profile", &error), -ENOENT);
	assert_string_equal(error.text, "/no/such/profile: No such file or directory");
	assert_int_equal(atomic_file_check("/dev", &error), -EISDIR);
	assert_int_equal(atomic_file_check("/dev/null", &error), 0);
	free(path);
}

/* In a directory like /tmp, others can make a link to a file that only this process may write. */
static void links_of_others_are_not_followed(void **state)
{
	char *secret, *directory, *name;
	struct atomic_file file;
	struct error error;

	if (geteuid())
		skip();
	secret = scratch_file(state, "secret");
	directory = scratch_file(state, "tmp");
	name = scratch_file(state, "tmp/profile");
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(chmod(directory, 01777), 0);
	assert_int_equal(chown(directory, 1001, 1001), 0);
	put(secret, "secret");
	assert_int_equal(symlink("../secret", name), 0);
	assert_int_equal(lchown(name, 1000, 1000), 0);
	assert_int_equal(atomic_file_create(&file, name, &error), -EACCES);
	assert_non_null(strstr(error.text, "a symbolic link of another user"));
	assert_int_equal(atomic_file_check(name, &error), -EACCES);
	/* The files of the user, and of the directory's owner. */
	for (uid_t uid = 0; uid <= 1001; uid += 1001) {
		assert_int_equal(lchown(name, uid, 0), 0);
		assert_int_equal(atomic_file_create(&file, name, &error), 0);
		atomic_file_discard(&file);
	}
	unlink(name);
	rmdir(directory);
	free(name);
	free(directory);
	free(secret);
}

/* A path, and the link that it is replaced by just before open() opens it; NULL: none. */
static const char *swapped, *link_target;

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	va_start(args, flags);
	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE)
		mode = va_arg(args, mode_t);
	va_end(args);
	if (swapped && !strcmp(path, swapped) && (flags & O_ACCMODE) != O_RDONLY) {
		unlink(path);
		if (symlink(link_target, path))
			abort();
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void swapped_pipe_is_not_written(void **state)
{
	char *pipe = scratch_file(state, "pipe"), *secret = scratch_file(state, "secret");
	struct atomic_file file;
	struct error error;
	int reader, err;

	put(secret, "content");
	assert_int_equal(mkfifo(pipe, 0600), 0);
	reader = open(pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	link_target = secret;
	swapped = pipe;
	err = atomic_file_create(&file, pipe, &error);
	swapped = NULL;
	assert_int_equal(err, -ESTALE);
	assert_non_null(strstr(error.text, "was replaced"));
	assert_content(secret, "content");

	/* By another pipe or device, too. */
	unlink(pipe);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	link_target = "/dev/null";
	swapped = pipe;
	assert_int_equal(atomic_file_create(&file, pipe, &error), -ESTALE);
	swapped = NULL;
	close(reader);
	free(pipe);
	free(secret);
}

static void pipes_are_written_in_place(void **state)
{
	char *pipe = scratch_file(state, "pipe"), content[8] = "";
	int reader;

	assert_int_equal(mkfifo(pipe, 0600), 0);
	reader = open(pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	put(pipe, "new");
	assert_int_equal(read(reader, content, sizeof(content)), 3);
	assert_string_equal(content, "new");
	close(reader);
	free(pipe);
}

static void descriptor_0_is_as_good_as_others(void **state)
{
	char *path = scratch_file(state, "profile");
	struct atomic_file file;
	struct stat status;
	struct error error;
	int input = dup(STDIN_FILENO);

	close(STDIN_FILENO);
	put("/dev/null", "gone");
	put(path, "text");
	assert_int_equal(atomic_file_create(&file, path, &error), 0);
	assert_int_equal(file.fd, STDIN_FILENO);
	atomic_file_discard(&file);
	assert_int_equal(close(STDIN_FILENO), -1);
	assert_int_equal(atomic_file_create(&file, "/dev/full", &error), 0);
	assert_int_equal(file.fd, STDIN_FILENO);
	atomic_file_discard(&file);
	assert_int_equal(close(STDIN_FILENO), -1);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 4);
	assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
	close(input);
	free(path);
}

static void standard_output_stays_open(void **state)
{
	struct atomic_file file;

	(void)state;
	assert_int_equal(atomic_file_create(&file, "-", NULL), 0);
	assert_int_equal(atomic_file_commit(&file, NULL), 0);
	assert_true(fcntl(STDOUT_FILENO, F_GETFD) >= 0);
}

static void missing_directory_is_an_error(void **state)
{
	char *path = scratch_file(state, "missing/profile");
	struct error error;
	struct atomic_file file;

	assert_int_equal(atomic_file_create(&file, path, &error), -ENOENT);
	assert_non_null(strstr(error.text, path));
	assert_non_null(strstr(error.text, "No such file or directory"));
	assert_int_equal(scratch_count(state, 0), 0);
	free(path);
}

static void directory_is_not_replaced(void **state)
{
	const struct scratch *scratch = *state;
	struct atomic_file file;

	assert_int_equal(atomic_file_create(&file, scratch->path, NULL), -EISDIR);
	assert_int_equal(atomic_file_create(&file, "", NULL), -ENOENT);
}

/* RLIMIT_FSIZE stands for a full disk. */
static void failed_write_leaves_the_old_file(void **state)
{
	const struct rlimit small = {4, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
	char *path = scratch_file(state, "profile");
	struct error error;
	struct atomic_file file;

	put(path, "old");
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(atomic_file_create(&file, path, &error), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(atomic_file_write(&file, "too much", 8, &error), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_non_null(strstr(error.text, path));
	atomic_file_discard(&file);
	assert_content(path, "old");
	assert_int_equal(scratch_count(state, 0), 1);
	free(path);
}

/* rename() can't replace a directory that was created after the file was opened. */
static void failed_rename_leaves_no_temporary_file(void **state)
{
	char *path = scratch_file(state, "profile");
	struct error error;
	struct atomic_file file;

	assert_int_equal(atomic_file_create(&file, path, &error), 0);
	assert_int_equal(atomic_file_write(&file, "x", 1, &error), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(atomic_file_commit(&file, &error), -EISDIR);
	assert_int_equal(scratch_count(state, 0), 1);
	assert_int_equal(rmdir(path), 0);
	free(path);
}

static void write_and_die(const char *path)
{
	struct atomic_file file;

	if (!atomic_file_create(&file, path, NULL) && !atomic_file_write(&file, "x", 1, NULL))
		raise(SIGKILL);
}

static void killed_process_leaves_no_file(void **state)
{
	const struct scratch *scratch = *state;
	int fd = open(scratch->path, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	char *path;

	if (fd < 0)
		skip();
	close(fd);
	path = scratch_file(state, "profile");
	assert_false(run_child(write_and_die, path));
	assert_int_equal(scratch_count(state, 0), 0);
	put(path, "old");
	assert_false(run_child(write_and_die, path));
	assert_content(path, "old");
	assert_int_equal(scratch_count(state, 0), 1);
	free(path);
}

/* Without /proc, files can't be linked: they have a temporary name, as without O_TMPFILE. */
static void write_without_proc(const char *path)
{
	struct atomic_file file;

	if (chroot(path) || chdir("/"))
		_exit(1);
	for (unsigned int i = 0; i < 2; i++) {
		if (atomic_file_create(&file, "/profile", NULL) ||
		    atomic_file_write(&file, i ? "new" : "old", 3, NULL) || !file.temporary ||
		    access(file.temporary, F_OK) ||
		    !atomic_file_is_temporary(strrchr(file.temporary, '/') + 1) ||
		    atomic_file_commit(&file, NULL))
			_exit(1);
	}
	if (atomic_file_create(&file, "profile", NULL))
		_exit(1);
	atomic_file_discard(&file);
}

static void works_without_proc(void **state)
{
	const struct scratch *scratch = *state;
	char *path;

	if (geteuid() != 0)
		skip();
	path = scratch_file(state, "profile");
	assert_true(run_child(write_without_proc, scratch->path));
	assert_content(path, "new");
	assert_int_equal(scratch_count(state, 0), 1);
	free(path);
}

static void other_names_are_not_temporary(void **state)
{
	static const char *const names[] = {
		"",
		".stackbeat-0123456789abcdef",
		".stackbeat-0123456789abcde.tmp",
		".stackbeat-0123456789abcdef0.tmp",
		".stackbeat-0123456789abcdeF.tmp",
		".stackbeat-0123456789abcdef.tmq",
		"xstackbeat-0123456789abcdef.tmp",
	};

	(void)state;
	assert_true(atomic_file_is_temporary(".stackbeat-0123456789abcdef.tmp"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_false(atomic_file_is_temporary(names[i]));
}

/* Before a recording, not after it: the file could be created, but not get its name. */
static void name_that_is_too_long_is_refused_at_once(void **state)
{
	char name[NAME_MAX + 2], *path;
	struct atomic_file file;
	struct error error;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	path = scratch_file(state, name);
	assert_int_equal(atomic_file_create(&file, path, &error), -ENAMETOOLONG);
	assert_non_null(strstr(error.text, "File name too long"));
	free(path);
}

/* Their directory is the current one. */
static void names_without_a_directory_are_files_of_the_current_one(void **state)
{
	const struct scratch *scratch = *state;
	char *path = scratch_file(state, "profile"), *name = scratch_file(state, "link");
	int before = open(".", O_PATH | O_CLOEXEC);
	struct atomic_file file;
	struct stat status;

	assert_int_equal(chdir(scratch->path), 0);
	put("profile", "old");
	assert_content(path, "old");
	put("profile", "new");
	assert_content(path, "new");
	assert_int_equal(symlink("profile", "link"), 0);
	assert_int_equal(atomic_file_create(&file, "link", NULL), 0);
	assert_int_equal(atomic_file_write(&file, "own", 3, NULL), 0);
	/* A file that is incomplete is hidden, if it has a name. */
	assert_true(!file.temporary || *file.temporary == '.');
	assert_int_equal(atomic_file_commit(&file, NULL), 0);
	assert_content(path, "own");
	assert_int_equal(lstat(name, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	assert_int_equal(scratch_count(state, 0), 2);
	assert_int_equal(fchdir(before), 0);
	close(before);
	free(path);
	free(name);
}

/* The next fallocate() fails with this; 0: none does. */
static int fallocate_error;

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	(void)fd;
	(void)mode;
	(void)offset;
	(void)size;
	errno = fallocate_error;
	return fallocate_error ? -1 : 0;
}

static void room_is_reserved(void **state)
{
	char *path = scratch_file(state, "profile");
	struct atomic_file file;
	struct statvfs system;
	struct error error;
	uint64_t too_much;

	assert_int_equal(atomic_file_create(&file, path, &error), 0);
	assert_int_equal(fstatvfs(file.fd, &system), 0);
	assert_int_equal(atomic_file_reserve(&file, 1 << 20, &error), 0);
	/* Where a file system can't reserve room, there must be some. */
	fallocate_error = EOPNOTSUPP;
	assert_int_equal(atomic_file_reserve(&file, 0, &error), 0);
	too_much = ((uint64_t)system.f_blocks + 1) * system.f_frsize;
	assert_int_equal(atomic_file_reserve(&file, too_much, &error), -ENOSPC);
	assert_non_null(strstr(error.text, path));
	fallocate_error = ENOSPC;
	assert_int_equal(atomic_file_reserve(&file, 4096, &error), -ENOSPC);
	assert_non_null(strstr(error.text, "no room for 4 KiB: No space left on device"));
	fallocate_error = 0;
	atomic_file_discard(&file);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(commit_replaces),
		SCRATCH_TEST(old_content_stays_until_commit),
		SCRATCH_TEST(mode_follows_umask),
		SCRATCH_TEST(links_are_followed),
		SCRATCH_TEST(names_without_a_directory_are_files_of_the_current_one),
		SCRATCH_TEST(room_is_reserved),
		SCRATCH_TEST(links_of_others_are_not_followed),
		SCRATCH_TEST(file_of_another_in_a_sticky_directory_is_refused_at_once),
		SCRATCH_TEST(devices_are_written_in_place),
		SCRATCH_TEST(check_does_not_open_pipes),
		SCRATCH_TEST(swapped_pipe_is_not_written),
		SCRATCH_TEST(pipes_are_written_in_place),
		SCRATCH_TEST(descriptor_0_is_as_good_as_others),
		SCRATCH_TEST(standard_output_stays_open),
		SCRATCH_TEST(missing_directory_is_an_error),
		SCRATCH_TEST(directory_is_not_replaced),
		SCRATCH_TEST(failed_write_leaves_the_old_file),
		SCRATCH_TEST(failed_rename_leaves_no_temporary_file),
		SCRATCH_TEST(killed_process_leaves_no_file),
		SCRATCH_TEST(works_without_proc),
		cmocka_unit_test(other_names_are_not_temporary),
		SCRATCH_TEST(name_that_is_too_long_is_refused_at_once),
	};

	return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
