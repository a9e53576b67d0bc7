// SPDX-License-Identifier: GPL-2.0
#include "keep.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "file.h"

#define BUFFER_SIZE (64u << 10)

static int make_directory(const char *path, struct error *error)
{
	if (mkdir(path, 0777) && errno != EEXIST)
		return error_errno(error, errno, "%s", path);
	return 0;
}

int keep_prepare(const char *directory, struct error *error)
{
	char path[PATH_MAX];
	int err;

	if ((size_t)snprintf(path, sizeof(path), "%s/.build-id", directory) >= sizeof(path))
		return error_errno(error, ENAMETOOLONG, "%s", directory);
	err = make_directory(directory, error);
	return err ? err : make_directory(path, error);
}

static int copy(struct file *file, int fd, struct error *error)
{
	char buffer[BUFFER_SIZE];
	off_t offset = 0;
	ssize_t size;
	int err;

	while ((size = pread(fd, buffer, sizeof(buffer), offset)) > 0) {
		err = file_write(file, buffer, (size_t)size, error);
		if (err)
			return err;
		offset += size;
	}
	return size ? error_errno(error, errno, "%s: can't read what is to be kept", file->path)
		    : 0;
}

int keep_object(const char *directory, const char *build_id, int fd, const void *image, size_t size,
		struct error *error)
{
	char path[PATH_MAX];
	struct file file;
	int err;

	if (strlen(build_id) < 4)
		return error_set(error, EINVAL, "'%s' is no build id", build_id);
	if ((size_t)snprintf(path, sizeof(path), "%s/.build-id/%.2s", directory, build_id) +
		    strlen(build_id) >=
	    sizeof(path))
		return error_errno(error, ENAMETOOLONG, "%s", directory);
	err = make_directory(path, error);
	if (err)
		return err;
	sprintf(path + strlen(path), "/%s", build_id + 2);
	if (!access(path, F_OK))
		return 0;
	err = file_create(&file, path, error);
	if (err)
		return err;
	err = image ? file_write(&file, image, size, error) : copy(&file, fd, error);
	if (!err)
		return file_commit(&file, error);
	file_discard(&file);
	return err;
}
