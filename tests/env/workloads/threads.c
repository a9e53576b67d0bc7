// SPDX-License-Identifier: GPL-2.0
/*
 * threads [COUNT [leave]]
 *
 * Runs COUNT threads (at most 16), named "worker-0", ..., until the program is killed. The main
 * thread waits for them or, with `leave`, exits.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 16

static void *work_forever(void *name)
{
	pthread_setname_np(pthread_self(), name);
	for (;;)
		__asm__ volatile("");
	return NULL;
}

int main(int argc, char **argv)
{
	static char names[THREADS_MAX][16];
	int count = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t thread;
	int index;

	if (count < 1 || count > THREADS_MAX)
		return 2;
	for (index = 0; index < count; index++) {
		snprintf(names[index], sizeof(names[index]), "worker-%d", index);
		if (pthread_create(&thread, NULL, work_forever, names[index]))
			return 1;
	}
	if (argc > 2 && !strcmp(argv[2], "leave"))
		pthread_exit(NULL);
	return pthread_join(thread, NULL);
}
