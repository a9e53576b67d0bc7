// SPDX-License-Identifier: GPL-2.0
/*
 * nofp SECONDS [LIBRARY]
 *
 * Without frame pointers, as the C library: threads named "copies", "lengths", "sorts", "signals"
 * and, with a LIBRARY (libnofp_plugin.so), "plugins" work until SECONDS of their CPU time are over,
 * each in the function of its name, below it in functions of the C library: memcpy(), strlen(),
 * qsort(); a signal handler on an alternate stack; a library that is loaded and unloaded.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "work.h"

#define ROUNDS 512

static double seconds;
static const char *library;
static char text[1 << 11];

static NOINLINE int is_over(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9 >= seconds;
}

static NOINLINE void copies(void)
{
	char copy[sizeof(text)];

	for (int i = 0; i < ROUNDS; i++) {
		memcpy(copy, text, sizeof(copy));
		__asm__ volatile("" : : "r"(copy) : "memory");
	}
}

static NOINLINE void lengths(void)
{
	size_t sum = 0;

	for (int i = 0; i < ROUNDS; i++) {
		sum += strlen(text);
		__asm__ volatile("" : "+r"(sum) : : "memory");
	}
}

static NOINLINE int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static NOINLINE void sorts(void)
{
	int numbers[512];

	for (int i = 0; i < 512; i++)
		numbers[i] = i * 7919 % 512;
	qsort(numbers, 512, sizeof(*numbers), compare);
	__asm__ volatile("" : : "r"(numbers) : "memory");
}

static NOINLINE void handle(int number)
{
	(void)number;
	copies();
	__asm__ volatile("");
}

static NOINLINE void signals(void)
{
	static char stack[64 << 10];
	const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};

	sigaltstack(&alternate, NULL);
	raise(SIGUSR1);
	__asm__ volatile("" : : : "memory");
}

static NOINLINE void plugins(void)
{
	void *plugin = dlopen(library, RTLD_NOW);
	void (*call)(void (*)(void)) = plugin ? dlsym(plugin, "plugin_call") : NULL;

	if (!call)
		exit(1);
	call(copies);
	dlclose(plugin);
	/* No tail call, here and below: the caller stays on the stack. */
	__asm__ volatile("");
}

struct thread {
	const char *name;
	void (*work)(void);
};

static NOINLINE void *run(void *arg)
{
	const struct thread *thread = arg;

	pthread_setname_np(pthread_self(), thread->name);
	while (!is_over())
		thread->work();
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct thread threads[] = {
		{"copies", copies},   {"lengths", lengths}, {"sorts", sorts},
		{"signals", signals}, {"plugins", plugins},
	};
	const size_t count = argc > 2 ? 5 : 4;
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
	pthread_t ids[5];

	if (argc < 2)
		return 2;
	seconds = atof(argv[1]);
	library = argv[2];
	memset(text, 'x', sizeof(text) - 1);
	sigaction(SIGUSR1, &action, NULL);
	for (size_t i = 0; i < count; i++) {
		if (pthread_create(&ids[i], NULL, run, (void *)&threads[i]))
			return 1;
	}
	for (size_t i = 0; i < count; i++)
		pthread_join(ids[i], NULL);
	return 0;
}
