// SPDX-License-Identifier: GPL-2.0
/*
 * threads COUNT AMOUNT
 *
 * COUNT threads work concurrently, 500 times AMOUNT instructions in total. The program behaves as
 * described in bench.h.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "counted.h"

#define THREADS_MAX 1000

static pthread_barrier_t start;
static unsigned long long share;

static void *work(void *unused)
{
	(void)unused;
	work_500(50000);
	pthread_barrier_wait(&start);
	work_500(share);
	return NULL;
}

int main(int argc, char **argv)
{
	static pthread_t threads[THREADS_MAX];
	unsigned long count = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long long taken;

	if (!count || count > THREADS_MAX)
		return 2;
	share = strtoull(argv[2], NULL, 10) / count;
	pthread_barrier_init(&start, NULL, count + 1);
	for (unsigned long i = 0; i < count; i++) {
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 1;
	}
	work_500(1000000);
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	taken = ticks();
	pthread_barrier_wait(&start);
	for (unsigned long i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("{\"ticks\": %llu}\n", ticks() - taken);
	return 0;
}
