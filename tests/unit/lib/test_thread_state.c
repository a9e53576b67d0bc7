// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/thread_state.h"
#include "patience.h"

static pid_t tid; /* atomic */
static sem_t may_end;

static void *wait_to_end(void *arg)
{
	/* A name that looks like another state. */
	prctl(PR_SET_NAME, "a) D (b");
	__atomic_store_n(&tid, gettid(), __ATOMIC_RELEASE);
	sem_wait(&may_end);
	return arg;
}

static void states_are_of_threads(void **state)
{
	int64_t sleeps = THREAD_SLEEPS_UNKNOWN;
	pthread_t thread;

	(void)state;
	sem_init(&may_end, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_to_end, NULL), 0);
	wait_until(__atomic_load_n(&tid, __ATOMIC_ACQUIRE));
	wait_until(thread_state(getpid(), tid) == 'S');
	assert_false(thread_awaits_cpu(tid, &sleeps));
	assert_int_equal(thread_state(getpid(), gettid()), THREAD_RUNNABLE);
	sem_post(&may_end);
	pthread_join(thread, NULL);
	wait_until(!thread_state(getpid(), tid));
	assert_false(thread_awaits_cpu(tid, &sleeps));
	sem_destroy(&may_end);
}

/* A thread that has slept since the last look gets a CPU, although it is runnable again. */
static void thread_that_sleeps_gets_a_cpu(void **state)
{
	int64_t sleeps = THREAD_SLEEPS_UNKNOWN, before;

	(void)state;
	assert_true(thread_awaits_cpu(gettid(), &sleeps));
	before = sleeps;
	assert_true(before >= 0);
	/* It sleeps between two looks. */
	wait_until(!thread_awaits_cpu(gettid(), &sleeps));
	assert_true(sleeps > before);
	assert_false(thread_awaits_cpu(1 << 30, &sleeps));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_are_of_threads),
		cmocka_unit_test(thread_that_sleeps_gets_a_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
