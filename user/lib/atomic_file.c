// SPDX-License-Identifier: GPL-2.0
#include "lib/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_ATTEMPTS 16
#define FD_PATH "/proc/self/fd/%d"

static int open_in_place(struct atomic_file *file, struct error *error)
{
	if (!strcmp(file->path, "-"))
		file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	else
		file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (file->fd < 0)
		return error_errno(error, errno, "%s", file->path);
	return 0;
}

/* Bytes of the target that are its directory, with the slash. */
static int directory_length(const struct atomic_file *file)
{
	const char *slash = strrchr(file->target, '/');

	return slash ? (int)(slash - file->target) + 1 : 0;
}

/* mkostemp() would make it readable to its owner only, whatever the umask. */
static int create_name(struct atomic_file *file, const char *name)
{
	file->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return file->fd < 0 ? -errno : 0;
}

static int link_name(struct atomic_file *file, const char *name)
{
	char path[sizeof(FD_PATH) + 16];

	snprintf(path, sizeof(path), FD_PATH, file->fd);
	return linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

/* Gives the file a name in the directory of its target that nothing else has. */
static int make_temporary(struct atomic_file *file,
			  int (*make)(struct atomic_file *file, const char *name),
			  struct error *error)
{
	uint64_t number;
	int ret = -EEXIST;
	char *name;

	for (int attempt = 0; attempt < NAME_ATTEMPTS && ret == -EEXIST; attempt++) {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return error_errno(error, errno, "%s", file->path);
		if (asprintf(&name, "%.*s.stackbeat-%016" PRIx64 ".tmp", directory_length(file),
			     file->target, number) < 0)
			return error_errno(error, ENOMEM, "%s", file->path);
		ret = make(file, name);
		if (ret)
			free(name);
		else
			file->temporary = name;
	}
	return ret ? error_errno(error, -ret, "%s", file->path) : 0;
}

/*
 * A file that has no name until it is finished: nothing is left of it, whatever ends the process.
 * False where the file system has none, or it could not be named.
 */
static bool open_nameless(struct atomic_file *file)
{
	char *directory;

	if (access("/proc/self/fd", X_OK))
		return false;
	directory = strndup(file->target, (size_t)directory_length(file));
	if (!directory)
		return false;
	file->fd = open(*directory ? directory : ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
	file->nameless = file->fd >= 0;
	free(directory);
	return file->nameless;
}

static int open_file(struct atomic_file *file, struct error *error)
{
	struct stat status;

	if (!strcmp(file->path, "-"))
		return open_in_place(file, error);
	if (!*file->path)
		return error_set(error, ENOENT, "the name of the file to write is empty");
	if (!stat(file->path, &status)) {
		if (S_ISDIR(status.st_mode))
			return error_errno(error, EISDIR, "%s", file->path);
		if (!S_ISREG(status.st_mode))
			return open_in_place(file, error);
		/* A rename would replace a symbolic link, not what it names. */
		file->target = realpath(file->path, NULL);
	} else {
		file->target = strdup(file->path);
	}
	if (!file->target)
		return error_errno(error, errno, "%s", file->path);
	return open_nameless(file) ? 0 : make_temporary(file, create_name, error);
}

static void close_file(struct atomic_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	free(file->path);
	free(file->target);
	free(file->temporary);
	file->path = NULL;
	file->target = NULL;
	file->temporary = NULL;
}

int atomic_file_create(struct atomic_file *file, const char *path, struct error *error)
{
	struct atomic_file new = {.fd = -1};
	int ret;

	new.path = strdup(path);
	if (!new.path)
		return error_errno(error, ENOMEM, "%s", path);
	ret = open_file(&new, error);
	if (ret) {
		close_file(&new);
		return ret;
	}
	*file = new;
	return 0;
}

int atomic_file_check(const char *path, struct error *error)
{
	struct atomic_file file = {.fd = -1};
	struct stat status;
	int ret;

	/* Who reads a pipe would take the end of a try for that of what he waits for. */
	if (strcmp(path, "-") != 0 && !stat(path, &status) && !S_ISREG(status.st_mode) &&
	    !S_ISDIR(status.st_mode))
		return access(path, W_OK) ? error_errno(error, errno, "%s", path) : 0;
	ret = atomic_file_create(&file, path, error);
	if (!ret)
		atomic_file_discard(&file);
	return ret;
}

int atomic_file_write(struct atomic_file *file, const void *data, size_t size, struct error *error)
{
	const char *next = data;
	ssize_t written;

	while (size) {
		written = write(file->fd, next, size);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return error_errno(error, errno, "%s", file->path);
		next += written;
		size -= written;
		file->size += written;
	}
	return 0;
}

/* Pipes and devices can't be synchronized, and have no name to take. */
static int synchronize(const struct atomic_file *file, struct error *error)
{
	if (file->target && !file->transient && fsync(file->fd))
		return error_errno(error, errno, "%s", file->path);
	return 0;
}

/* A link does not replace what is there: only a rename does. */
static int finish(struct atomic_file *file, struct error *error)
{
	int ret = file->nameless ? make_temporary(file, link_name, error) : 0;
	int fd = file->fd;

	if (ret)
		return ret;
	file->fd = -1;
	if (close(fd) && errno != EINTR)
		return error_errno(error, errno, "%s", file->path);
	if (file->temporary && rename(file->temporary, file->target))
		return error_errno(error, errno, "%s", file->path);
	return 0;
}

int atomic_file_commit(struct atomic_file *file, struct error *error)
{
	int ret = synchronize(file, error);
	sigset_t all, old;

	/* No signal ends the process while the file has a temporary name. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!ret)
		ret = finish(file, error);
	if (ret)
		atomic_file_discard(file);
	else
		close_file(file);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ret;
}

void atomic_file_discard(struct atomic_file *file)
{
	if (file->temporary)
		unlink(file->temporary);
	close_file(file);
}
