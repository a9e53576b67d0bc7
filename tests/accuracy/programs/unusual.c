// SPDX-License-Identifier: GPL-2.0
/*
 * unusual SECONDS
 *
 * Stacks that unwinders get wrong: longjmp(), alloca(), frames of 100 KiB, realigned frames, deep
 * recursion, vfork(), clone(), calls through the PLT that are bound at the first call, and
 * functions that never return. Each part works for SECONDS of CPU time.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define STACK_SIZE (1 << 20)

static double end;
static volatile uint64_t sink;

static double used(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static NOINLINE void work(unsigned int rounds)
{
	uint64_t value = rounds;

	for (unsigned int i = 0; i < rounds; i++)
		value = value * 6364136223846793005u + 1442695040888963407u;
	sink = value;
}

static jmp_buf target;

static NOINLINE void jump(int depth)
{
	work(50);
	if (depth)
		jump(depth - 1);
	else
		longjmp(target, 1);
	sink++;
}

static NOINLINE void jumps(void)
{
	if (!setjmp(target))
		jump(10);
}

static NOINLINE void allocates(size_t size)
{
	char *bytes = alloca(size);

	memset(bytes, 1, size);
	work(200);
	sink += (uint64_t)bytes[size / 2];
}

static NOINLINE void large_frame(int depth)
{
	char bytes[100 << 10];

	memset(bytes, depth, sizeof(bytes) / 100);
	work(500);
	if (depth)
		large_frame(depth - 1);
	sink += (uint64_t)bytes[depth];
}

static NOINLINE void realigned(int depth)
{
	char bytes[64] __attribute__((aligned(256)));

	memset(bytes, depth, sizeof(bytes));
	__asm__ volatile("" : : "r"(bytes) : "memory");
	work(100);
	if (depth)
		realigned(depth - 1);
	sink += (uint64_t)bytes[depth];
}

static NOINLINE uint64_t recursion(unsigned int depth)
{
	if (!depth) {
		work(2000);
		return sink;
	}
	return recursion(depth - 1) + 1;
}

static NOINLINE void vforks(void)
{
	pid_t pid = vfork();

	if (!pid) {
		work(2000);
		_exit(0);
	}
	work(500);
	waitpid(pid, NULL, 0);
}

static int cloned(void *arg)
{
	work(2000);
	return *(int *)arg;
}

static NOINLINE void clones(void)
{
	static char stack[STACK_SIZE] __attribute__((aligned(16)));
	int status = 0;
	pid_t pid = clone(cloned, stack + sizeof(stack), CLONE_VM | SIGCHLD, &status);

	if (pid > 0)
		waitpid(pid, NULL, 0);
	work(500);
}

static NOINLINE void formats(void)
{
	char text[128];

	snprintf(text, sizeof(text), "%f %s %llu", (double)sink, "text", (unsigned long long)sink);
	sink += strtoull(text, NULL, 10);
}

/* A jump to it is its only call, in the last instruction of its caller. */
static NOINLINE __attribute__((noreturn)) void leave(void)
{
	work(2000);
	longjmp(target, 1);
}

static NOINLINE __attribute__((noreturn)) void no_return(void)
{
	work(500);
	leave();
}

static NOINLINE void never_returns(void)
{
	if (!setjmp(target))
		no_return();
}

int main(int argc, char **argv)
{
	const double seconds = argc > 1 ? atof(argv[1]) : 0.1;

	for (int part = 0; part < 9; part++) {
		end = used() + seconds;
		while (used() < end) {
			switch (part) {
			case 0:
				jumps();
				break;
			case 1:
				allocates(1000 + (size_t)(sink % 3000));
				break;
			case 2:
				large_frame(3);
				break;
			case 3:
				realigned(20);
				break;
			case 4:
				recursion(60);
				break;
			case 5:
				vforks();
				break;
			case 6:
				clones();
				break;
			case 7:
				formats();
				break;
			default:
				never_returns();
				break;
			}
		}
	}
	return 0;
}
