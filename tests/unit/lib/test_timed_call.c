// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>

#include "lib/thread_state.h"
#include "lib/timed_call.h"
#include "patience.h"

#define FOREVER INT64_C(60000000000)
#define SHORTLY INT64_C(1000000)

/* A call that blocks until it may return. */
struct blocked_call {
	sem_t may_return, dropped;
	unsigned int calls;
};

static struct blocked_call calls[TIMED_CALLS_BLOCKED_MAX + 1];

static void count_call(void *arg)
{
	(*(unsigned int *)arg)++;
}

static void never_drop(void *arg)
{
	(void)arg;
	fail_msg("the argument of a call that returned was dropped");
}

static void block(void *arg)
{
	struct blocked_call *call = arg;

	call->calls++;
	sem_wait(&call->may_return);
}

static void drop(void *arg)
{
	sem_post(&((struct blocked_call *)arg)->dropped);
}

static unsigned int timeouts; /* of the next waits */
static bool begun; /* the call; atomic */
static unsigned int looks, cpu_after; /* looks at the thread; the thread sleeps at that look */
static struct blocked_call *let_go; /* at that look; NULL: none */

/* Replaces libc's function: a wait that times out waits until the call has begun. */
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
			   const struct timespec *deadline)
{
	(void)clock;
	(void)deadline;
	if (limits_pass)
		return ETIMEDOUT;
	if (!timeouts)
		return pthread_cond_wait(condition, mutex);
	timeouts--;
	wait_until(__atomic_load_n(&begun, __ATOMIC_ACQUIRE));
	return ETIMEDOUT;
}

bool thread_awaits_cpu(pid_t tid, int64_t *sleeps)
{
	assert_true(tid > 0);
	if (limits_pass)
		return false;
	assert_int_equal(*sleeps, looks ? (int64_t)looks : THREAD_SLEEPS_UNKNOWN);
	*sleeps = ++looks;
	if (looks < cpu_after)
		return true;
	if (!let_go)
		return false;
	timeouts = 0;
	sem_post(&let_go->may_return);
	return true;
}

static void call_is_waited_for(void **state)
{
	unsigned int count = 0;

	(void)state;
	for (unsigned int i = 1; i <= 100; i++) {
		assert_int_equal(timed_call(count_call, never_drop, &count, FOREVER), 0);
		assert_int_equal(count, i);
	}
}

/* Blocked calls are given up, and refused beyond the limit until one of them has returned. */
static void blocked_calls_are_limited(void **state)
{
	const unsigned int last = TIMED_CALLS_BLOCKED_MAX;
	unsigned int count = 0;
	int err;

	(void)state;
	for (unsigned int i = 0; i <= last; i++) {
		sem_init(&calls[i].may_return, 0, 0);
		sem_init(&calls[i].dropped, 0, 0);
	}
	assert_false(timed_calls_blocked());
	limits_pass = true;
	for (unsigned int i = 0; i < last; i++)
		assert_int_equal(timed_call(block, drop, &calls[i], SHORTLY), -ETIMEDOUT);
	assert_true(timed_calls_blocked());
	assert_int_equal(timed_call(block, drop, &calls[last], SHORTLY), -EAGAIN);
	limits_pass = false;
	assert_int_equal(calls[last].calls, 0);
	for (unsigned int i = 0; i < last; i++) {
		sem_post(&calls[i].may_return);
		sem_wait(&calls[i].dropped);
		assert_int_equal(calls[i].calls, 1);
	}
	/* The threads end after they have dropped their arguments. */
	do
		err = timed_call(count_call, never_drop, &count, FOREVER);
	while (err == -EAGAIN);
	assert_int_equal(err, 0);
	assert_int_equal(count, 1);
}

/* Begins, and waits until it may return. */
static void begin_and_block(void *arg)
{
	__atomic_store_n(&begun, true, __ATOMIC_RELEASE);
	block(arg);
}

/* Waits for a call that time out; then, the call is let go. */
static int call_with_looks(unsigned int count, bool is_let_go)
{
	struct blocked_call *call = &calls[0];
	int err;

	sem_init(&call->may_return, 0, 0);
	sem_init(&call->dropped, 0, 0);
	begun = false;
	looks = 0;
	cpu_after = count;
	let_go = is_let_go ? call : NULL;
	timeouts = UINT_MAX;
	err = timed_call(begin_and_block, drop, call, FOREVER);
	timeouts = 0;
	if (err) {
		sem_post(&call->may_return);
		sem_wait(&call->dropped);
	}
	return err;
}

static void thread_without_a_cpu_is_waited_for(void **state)
{
	(void)state;
	/* Let go at the third look. */
	assert_int_equal(call_with_looks(3, true), 0);
	assert_int_equal(looks, 3);
	/* It sleeps at the first look, or the third one. */
	assert_int_equal(call_with_looks(1, false), -ETIMEDOUT);
	assert_int_equal(looks, 1);
	assert_int_equal(call_with_looks(3, false), -ETIMEDOUT);
	assert_int_equal(looks, 3);
	/* Never. */
	assert_int_equal(call_with_looks(UINT_MAX, false), -ETIMEDOUT);
	assert_int_equal(looks, TIMED_CALL_WAITS_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(call_is_waited_for),
		cmocka_unit_test(blocked_calls_are_limited),
		cmocka_unit_test(thread_without_a_cpu_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
