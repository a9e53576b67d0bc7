/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers for targets that read their input from a file. */
#ifndef STACKBEAT_FUZZ_FILE_H
#define STACKBEAT_FUZZ_FILE_H

#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

/* Writes the input to a memfd, which all calls share, and returns its fd. */
static inline int fuzz_file(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	return fd;
}

/* Returns the last 8 bytes of the input as a number; 0 if it is shorter. */
static inline uint64_t fuzz_last_number(const uint8_t *data, size_t size)
{
	uint64_t number = 0;

	if (size >= sizeof(number))
		memcpy(&number, data + size - sizeof(number), sizeof(number));
	return number;
}

#endif
