// SPDX-License-Identifier: GPL-2.0
/*
 * Waits in a known chain of calls: "plain", in a "thread", or in the handler of a "signal", which has a stack of its own.
 * Prints the ID of the thread that waits.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile int wakeups;

NOINLINE static int third(volatile int *counter)
{
	printf("%ld\n", syscall(SYS_gettid));
	fflush(stdout);
	for (;;) {
		pause();
		++*counter;
	}
}

NOINLINE static int second(int depth)
{
	volatile int counters[100];

	counters[depth] = depth;
	return third(&counters[depth]) + counters[depth];
}

NOINLINE static int first(int depth)
{
	return second(depth + 1) + depth;
}

static void handle(int number)
{
	wakeups += first(number);
}

NOINLINE static int raise_signal(void)
{
	static char stack[1 << 16];
	const stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};

	sigaltstack(&own, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	return wakeups;
}

static void *run_thread(void *arg)
{
	return (void *)(long)(first(1) + (arg != NULL));
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "plain";
	pthread_t thread;

	if (!strcmp(kind, "signal"))
		return raise_signal();
	if (strcmp(kind, "thread"))
		return first(1);
	if (pthread_create(&thread, NULL, run_thread, NULL))
		return 1;
	pthread_join(thread, NULL);
	return 0;
}
