// SPDX-License-Identifier: GPL-2.0
#include "lib/sparse_copy.h"

#include <errno.h>
#include <unistd.h>

#define BUFFER_SIZE (64u << 10)

static int sparse_copy_write(int fd, const char *bytes, size_t size, off_t offset)
{
	while (size) {
		ssize_t written = pwrite(fd, bytes, size, offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		bytes += written;
		size -= (size_t)written;
		offset += written;
	}
	return 0;
}

/* Copies the bytes from offset `at` to `end`, or to the end of the file. */
static int copy_range(int to, int from, off_t at, off_t end, uint64_t *progress)
{
	char buffer[BUFFER_SIZE];
	ssize_t size;
	int err = 0;

	for (; at < end && !err; at += size) {
		size = pread(from, buffer,
			     end - at < (off_t)BUFFER_SIZE ? (size_t)(end - at) : BUFFER_SIZE, at);
		if (size < 0)
			return -errno;
		if (!size)
			break;
		err = sparse_copy_write(to, buffer, (size_t)size, at);
		if (progress)
			__atomic_add_fetch(progress, (uint64_t)size, __ATOMIC_RELAXED);
	}
	return err;
}

int sparse_copy(int to, int from, off_t size, uint64_t *progress)
{
	off_t data = 0, hole = 0;
	int err = 0;

	while (!err && hole < size) {
		data = lseek(from, hole, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		/* The file system does not support holes, or is wrong. */
		if (data < hole)
			data = hole;
		if (data >= size)
			break;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole <= data || hole > size)
			hole = size;
		err = copy_range(to, from, data, hole, progress);
	}
	lseek(from, 0, SEEK_SET);
	if (!err && ftruncate(to, size))
		err = -errno;
	return err;
}
