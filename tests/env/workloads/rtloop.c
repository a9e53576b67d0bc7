// SPDX-License-Identifier: GPL-2.0
/*
 * rtloop CPU SECONDS [FILE]
 *
 * Spins in user mode on a CPU as a real-time task (SCHED_FIFO 2), so that no task of lower priority
 * runs there. Prints "running" first and "over" after SECONDS, and exits after twice SECONDS. On
 * SIGUSR1 it maps the first page of FILE as code, and goes on. Its memory is locked before the
 * loop.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

#define PAGE 4096ul
/* Above most of the kernel's real-time threads, and below the threads of interrupts (50). */
#define PRIORITY 2
#define ITERATIONS 100000

static volatile sig_atomic_t map_wanted;

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static void want_map(int signal)
{
	(void)signal;
	map_wanted = 1;
}

static time_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static NOINLINE void spin(void)
{
	work(ITERATIONS);
}

/* Spins until `end`; returns 0 if mmap() fails. */
static int spin_until(time_t end, int file)
{
	while (seconds_now() < end) {
		spin();
		if (!map_wanted)
			continue;
		map_wanted = 0;
		if (mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED)
			return 0;
	}
	return 1;
}

static void say(const char *word)
{
	if (write(STDOUT_FILENO, word, __builtin_strlen(word)) < 0)
		exit(1);
}

int main(int argc, char **argv)
{
	struct sched_param parameters = {.sched_priority = PRIORITY};
	int file = -1;
	time_t seconds, end;
	cpu_set_t cpus;

	if (argc < 3)
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	seconds = atoi(argv[2]);
	if (argc > 3) {
		file = open(argv[3], O_RDONLY | O_CLOEXEC);
		if (file < 0)
			return fail(argv[3]);
	}
	if (signal(SIGUSR1, want_map) == SIG_ERR)
		return fail("signal");
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return fail("mlockall");
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		return fail("sched_setaffinity");
	if (sched_setscheduler(0, SCHED_FIFO, &parameters))
		return fail("sched_setscheduler");
	say("running\n");
	end = seconds_now() + seconds;
	if (!spin_until(end, file))
		return fail("mmap");
	say("over\n");
	return spin_until(end + seconds, file) ? 0 : fail("mmap");
}
