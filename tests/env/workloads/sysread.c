// SPDX-License-Identifier: GPL-2.0
/*
 * sysread [COUNT]
 *
 * Reads 64 KiB of /dev/zero COUNT times with pread, from _start, main,
 * read_loop, do_pread. Nearly all of its time is spent in the kernel's read
 * path. It is built as a 64-bit and as a 32-bit program.
 */
#include "bare.h"

static char buffer[64 << 10];

static NOINLINE long do_pread(int fd)
{
	keep_frame();
	return system_call(SYS_PREAD64, fd, (long)buffer, sizeof(buffer), 0);
}

static NOINLINE int read_loop(int fd, unsigned long count)
{
	while (count--) {
		if (do_pread(fd) != sizeof(buffer))
			return 1;
	}
	return 0;
}

NOINLINE int main(int argc, char **argv)
{
	long fd = system_call(SYS_OPEN, (long)"/dev/zero", 0, 0, 0);

	if (fd < 0)
		return 1;
	return read_loop(fd, argument(argc, argv, 1, 1000000));
}
