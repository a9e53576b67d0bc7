// SPDX-License-Identifier: GPL-2.0
#include "process/binary_store.h"

#include <errno.h>
#include <libelf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debuginfo/elf_symbols.h"
#include "lib/atomic_file.h"
#include "lib/build_id.h"
#include "lib/error.h"

#define BUFFER_SIZE (64u << 10)

static int make_directory(const char *path, struct error *error)
{
	if (mkdir(path, 0777) && errno != EEXIST)
		return error_errno(error, errno, "%s", path);
	return 0;
}

int binary_store_prepare(const char *directory, struct error *error)
{
	char path[PATH_MAX];
	int err;

	if ((size_t)snprintf(path, sizeof(path), "%s/.build-id", directory) >= sizeof(path))
		return error_errno(error, ENAMETOOLONG, "%s", directory);
	err = make_directory(directory, error);
	return err ? err : make_directory(path, error);
}

/* Copies the bytes from offset `from` to `to`, or to the end of the file. */
static int copy_range(struct atomic_file *file, int fd, off_t from, off_t to, struct error *error)
{
	char buffer[BUFFER_SIZE];
	ssize_t size;
	int err;

	if (lseek(file->fd, from, SEEK_SET) < 0)
		return error_errno(error, errno, "%s", file->path);
	for (; from < to; from += size) {
		size = pread(fd, buffer,
			     to - from < (off_t)BUFFER_SIZE ? (size_t)(to - from) : BUFFER_SIZE,
			     from);
		if (size < 0)
			return error_errno(error, errno, "%s: can't read the binary", file->path);
		if (size == 0)
			break;
		err = atomic_file_write(file, buffer, (size_t)size, error);
		if (err)
			return err;
	}
	return 0;
}

/* Copies the first `size` bytes. Holes stay holes, or they would take space beyond any quota. */
static int copy_data(struct atomic_file *file, int fd, off_t size, struct error *error)
{
	off_t data = 0, hole = 0;
	int err = 0;

	while (!err && hole < size) {
		data = lseek(fd, hole, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0) /* the file system does not support holes */
			data = hole;
		if (data >= size)
			break;
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole <= data || hole > size)
			hole = size;
		err = copy_range(file, fd, data, hole, error);
	}
	/* Restore the offset: the open file may be shared with a later reader. */
	lseek(fd, 0, SEEK_SET);
	if (!err && ftruncate(file->fd, size))
		err = error_errno(error, errno, "%s", file->path);
	return err;
}

/* Sets *size to the end of the ELF contents: bytes appended to them are of no use. */
static int find_elf_size(int fd, const char *path, off_t *size, struct error *error)
{
	struct stat st;
	uint64_t extent;
	Elf *elf;
	int err = elf_begin_read(fd, NULL, 0, false, &elf, error);

	if (err)
		return err;
	extent = elf_extent(elf);
	elf_end(elf);
	if (fstat(fd, &st))
		return error_errno(error, errno, "%s: can't read the binary", path);
	*size = extent < (uint64_t)st.st_size ? (off_t)extent : st.st_size;
	if (*size > BINARY_STORE_BYTES_MAX)
		return error_set(error, EFBIG, "%s: more than %u GiB", path,
				 (unsigned int)(BINARY_STORE_BYTES_MAX >> 30));
	return 0;
}

static int write_copy(struct atomic_file *file, int fd, const void *image, size_t size,
		      struct error *error)
{
	off_t end = 0;
	int err;

	if (image)
		return atomic_file_write(file, image, size, error);
	err = find_elf_size(fd, file->path, &end, error);
	return err ? err : copy_data(file, fd, end, error);
}

int binary_store_add(const char *directory, const char *build_id, int fd, const void *image,
		     size_t size, struct error *error)
{
	char path[PATH_MAX];
	struct atomic_file file;
	int err;

	if (!build_id_valid(build_id))
		return error_set(error, EINVAL, "'%s' is no build ID", build_id);
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
	err = atomic_file_create(&file, path, error);
	if (err)
		return err;
	err = write_copy(&file, fd, image, size, error);
	if (!err)
		return atomic_file_commit(&file, error);
	atomic_file_discard(&file);
	return err;
}
