// SPDX-License-Identifier: GPL-2.0
/*
 * calls [COUNT]
 *
 * Makes COUNT rounds of system calls of several kinds. The number of calls of each kind is
 * pseudo-random with a fixed seed: the work is steady, and has no period with which a sampler could
 * alias.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDS 2
#define PAGES 16
#define PAGE 4096

static unsigned int draw(unsigned int count)
{
	static unsigned int state = 1;

	state = state * 1103515245 + 12345;
	return 1 + (state >> 16) % count;
}

static int files(unsigned int count)
{
	struct stat st;
	int fd;

	while (count--) {
		fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) != 0 || close(fd) != 0 || stat("/usr/bin", &st) != 0)
			return 1;
	}
	return 0;
}

static int pipes(const int ends[ENDS], unsigned int count)
{
	char bytes[1024] = "";

	while (count--) {
		if (write(ends[1], bytes, sizeof(bytes)) != sizeof(bytes) ||
		    read(ends[0], bytes, sizeof(bytes)) != sizeof(bytes))
			return 1;
	}
	return 0;
}

static int memory(unsigned int count)
{
	volatile char *pages;

	while (count--) {
		pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pages == MAP_FAILED)
			return 1;
		for (int i = 0; i < PAGES; i++)
			pages[i * PAGE] = 1;
		if (munmap((void *)pages, PAGES * PAGE) != 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
	int ends[ENDS];

	if (pipe(ends) != 0)
		return 1;
	while (count--) {
		if (files(draw(4)) || pipes(ends, draw(24)) || memory(draw(2)))
			return 1;
	}
	return 0;
}
