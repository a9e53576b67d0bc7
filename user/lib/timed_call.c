// SPDX-License-Identifier: GPL-2.0
#include "lib/timed_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "lib/clock.h"

struct call {
	void (*fn)(void *arg);
	void (*drop)(void *arg);
	void *arg;
	pthread_mutex_t lock; /* of the fields below */
	pthread_cond_t changed;
	bool is_done;
	bool is_given_up; /* the thread frees the call */
};

static unsigned int blocked; /* calls that were given up, and have not returned; atomic */

static void free_call(struct call *call)
{
	pthread_cond_destroy(&call->changed);
	pthread_mutex_destroy(&call->lock);
	free(call);
}

static void *timed_call_run(void *arg)
{
	struct call *call = arg;
	bool is_given_up;

	call->fn(call->arg);
	pthread_mutex_lock(&call->lock);
	call->is_done = true;
	is_given_up = call->is_given_up;
	pthread_cond_signal(&call->changed);
	pthread_mutex_unlock(&call->lock);
	if (!is_given_up)
		return NULL;
	call->drop(call->arg);
	free_call(call);
	__atomic_sub_fetch(&blocked, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Returns whether the function has returned in time. */
static bool wait_for_call(struct call *call, int64_t timeout)
{
	int64_t end = now_ns(CLOCK_MONOTONIC) + timeout;
	const struct timespec deadline = {
		.tv_sec = end / NS_PER_SECOND,
		.tv_nsec = end % NS_PER_SECOND,
	};
	bool is_done;
	int err = 0;

	pthread_mutex_lock(&call->lock);
	while (!call->is_done && !err)
		err = pthread_cond_clockwait(&call->changed, &call->lock, CLOCK_MONOTONIC,
					     &deadline);
	is_done = call->is_done;
	call->is_given_up = !is_done;
	if (!is_done)
		__atomic_add_fetch(&blocked, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&call->lock);
	return is_done;
}

int timed_call(void (*fn)(void *arg), void (*drop)(void *arg), void *arg, int64_t timeout)
{
	pthread_t thread;
	struct call *call;

	if (__atomic_load_n(&blocked, __ATOMIC_RELAXED) >= TIMED_CALLS_BLOCKED_MAX)
		return -EAGAIN;
	call = calloc(1, sizeof(*call));
	if (!call)
		return -EAGAIN;
	call->fn = fn;
	call->drop = drop;
	call->arg = arg;
	pthread_mutex_init(&call->lock, NULL);
	pthread_cond_init(&call->changed, NULL);
	if (pthread_create(&thread, NULL, timed_call_run, call)) {
		free_call(call);
		return -EAGAIN;
	}
	if (!wait_for_call(call, timeout)) {
		pthread_detach(thread);
		return -ETIMEDOUT;
	}
	pthread_join(thread, NULL);
	free_call(call);
	return 0;
}

bool timed_calls_blocked(void)
{
	return __atomic_load_n(&blocked, __ATOMIC_RELAXED);
}
