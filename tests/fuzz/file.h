/* SPDX-License-Identifier: GPL-2.0 */
/* For targets whose input is a file. */
#ifndef STACKBEAT_FUZZ_FILE_H
#define STACKBEAT_FUZZ_FILE_H

#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

/* A file in memory that has the input in it, and nothing else: always the same one. */
static inline int fuzz_file(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	return fd;
}

/* The last bytes of the input as a number. */
static inline uint64_t fuzz_last_number(const uint8_t *data, size_t size)
{
	uint64_t number = 0;

	if (size >= sizeof(number))
		memcpy(&number, data + size - sizeof(number), sizeof(number));
	return number;
}

#endif
