// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(call_is_waited_for),
		cmocka_unit_test(blocked_calls_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
