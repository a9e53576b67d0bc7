// SPDX-License-Identifier: GPL-2.0
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_ATTEMPTS 16

static int open_in_place(struct file *file, struct error *error)
{
	if (!strcmp(file->path, "-"))
		file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	else
		file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (file->fd < 0)
		return error_errno(error, errno, "%s", file->path);
	return 0;
}

/* mkostemp() would make it readable to its owner only, whatever the umask. */
static int open_temporary(struct file *file, struct error *error)
{
	const char *slash = strrchr(file->target, '/');
	int directory = slash ? (int)(slash - file->target) + 1 : 0;
	uint64_t number;
	char *name;
	int attempt;

	for (attempt = 0; attempt < NAME_ATTEMPTS; attempt++) {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return error_errno(error, errno, "%s", file->path);
		if (asprintf(&name, "%.*s.stackbeat-%016" PRIx64 ".tmp", directory, file->target,
			     number) < 0)
			return error_errno(error, ENOMEM, "%s", file->path);
		file->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (file->fd >= 0) {
			file->temporary = name;
			return 0;
		}
		free(name);
		if (errno != EEXIST)
			break;
	}
	return error_errno(error, errno, "%s", file->path);
}

static int open_file(struct file *file, struct error *error)
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
	return open_temporary(file, error);
}

static void close_file(struct file *file)
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

int file_create(struct file *file, const char *path, struct error *error)
{
	struct file new = {.fd = -1};
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

int file_write(struct file *file, const void *data, size_t size, struct error *error)
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

static int finish(struct file *file, struct error *error)
{
	int fd;

	/* Pipes and devices can't be synchronized, and have no name to take. */
	if (file->temporary && !file->transient && fsync(file->fd))
		return error_errno(error, errno, "%s", file->path);
	fd = file->fd;
	file->fd = -1;
	if (close(fd) && errno != EINTR)
		return error_errno(error, errno, "%s", file->path);
	if (file->temporary && rename(file->temporary, file->target))
		return error_errno(error, errno, "%s", file->path);
	return 0;
}

int file_commit(struct file *file, struct error *error)
{
	int ret = finish(file, error);

	if (ret) {
		file_discard(file);
		return ret;
	}
	close_file(file);
	return 0;
}

void file_discard(struct file *file)
{
	if (file->temporary)
		unlink(file->temporary);
	close_file(file);
}
