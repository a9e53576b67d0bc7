// SPDX-License-Identifier: GPL-2.0
/*
 * bigexit MIB TIMES [ITERATIONS]
 *
 * Measures TIMES times how long the exit of a process with MIB of memory takes: the process works
 * ITERATIONS, reads the clock and exits; the parent reads the clock after waitpid(). Prints the
 * nanoseconds as JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void be_big(size_t size, unsigned long iterations, volatile unsigned long long *left)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		_exit(1);
	while (iterations--)
		__asm__ volatile("");
	*left = now();
	_exit(0);
}

int main(int argc, char **argv)
{
	size_t size = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) << 20;
	int times = argc > 2 ? atoi(argv[2]) : 1;
	unsigned long iterations = argc > 3 ? strtoul(argv[3], NULL, 10) : 10000000;
	volatile unsigned long long *left = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE,
						 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int turn, status;
	pid_t pid;

	if (left == MAP_FAILED)
		return 1;
	for (turn = 0; turn < times; turn++) {
		pid = fork();
		if (!pid)
			be_big(size, iterations, left);
		if (pid < 0 || waitpid(pid, &status, 0) < 0 || status)
			return 1;
		printf("%s%llu", turn ? ", " : "[", now() - *left);
	}
	printf("]\n");
	return 0;
}
