// SPDX-License-Identifier: GPL-2.0
#include "lib/timed_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/thread_state.h"

struct call {
	void (*fn)(void *arg);
	void (*drop)(void *arg);
	void *arg;
	pid_t tid; /* 0: the thread has not begun; atomic */
	bool has_returned; /* the thread needs only the lock; atomic */
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

	__atomic_store_n(&call->tid, gettid(), __ATOMIC_RELAXED);
	call->fn(call->arg);
	__atomic_store_n(&call->has_returned, true, __ATOMIC_RELAXED);
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

/* Waits until the function has returned, for at most `timeout` ns. The caller holds the lock. */
static void wait_until_done(struct call *call, int64_t timeout)
{
	int64_t end = now_ns(CLOCK_MONOTONIC) + timeout;
	const struct timespec deadline = {
		.tv_sec = end / NS_PER_SECOND,
		.tv_nsec = end % NS_PER_SECOND,
	};
	int err = 0;

	while (!call->is_done && !err)
		err = pthread_cond_clockwait(&call->changed, &call->lock, CLOCK_MONOTONIC,
					     &deadline);
}

/* Returns whether the function has returned in time. */
static bool wait_for_call(struct call *call, int64_t timeout)
{
	int64_t sleeps = THREAD_SLEEPS_UNKNOWN;
	bool is_done, waits = true;

	pthread_mutex_lock(&call->lock);
	wait_until_done(call, timeout);
	for (unsigned int i = 1; i < TIMED_CALL_WAITS_MAX && !call->is_done && waits; i++) {
		const pid_t tid = __atomic_load_n(&call->tid, __ATOMIC_RELAXED);

		/* The thread needs the lock to be done. */
		pthread_mutex_unlock(&call->lock);
		waits = !tid || __atomic_load_n(&call->has_returned, __ATOMIC_RELAXED) ||
			thread_awaits_cpu(tid, &sleeps);
		pthread_mutex_lock(&call->lock);
		if (waits)
			wait_until_done(call, timeout);
	}
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
