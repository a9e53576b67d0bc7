// SPDX-License-Identifier: GPL-2.0
/*
 * Linked to all unit tests: limits of user/ for what hangs. A busy machine must not look like
 * something that hangs, so they are longer by what the machine may take. A test in which something
 * hangs has functions of its own in the place of these, or sets limits_pass.
 */
#include "patience.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>

/* A shorter limit is not one for what hangs. */
#define LIMIT_MIN_MS 1000

bool limits_pass;
int64_t limits_passed_ms;

static struct timespec later(const struct timespec *deadline)
{
	return (struct timespec){
		.tv_sec = limits_pass ? 0 : deadline->tv_sec + hang_s(),
		.tv_nsec = deadline->tv_nsec,
	};
}

__attribute__((weak)) int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
						 clockid_t clock, const struct timespec *deadline)
{
	const struct timespec end = later(deadline);
	int (*real)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);

	*(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
	return real(condition, mutex, clock, &end);
}

__attribute__((weak)) int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
					       const struct timespec *deadline)
{
	const struct timespec end = later(deadline);
	int (*real)(pthread_t, void **, clockid_t, const struct timespec *);

	*(void **)&real = dlsym(RTLD_NEXT, "pthread_clockjoin_np");
	return real(thread, result, clock, &end);
}

/* Of one process, whose end is awaited: HTTP, which waits for its timers, has more descriptors. */
__attribute__((weak)) int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	struct timespec time;

	if (count == 1 && timeout >= LIMIT_MIN_MS) {
		limits_passed_ms += limits_pass ? timeout + 1 : 0;
		timeout = limits_pass ? 0 : timeout + hang_ms();
	}
	time = (struct timespec){timeout / 1000, timeout % 1000 * 1000000};
	return ppoll(fds, count, timeout < 0 ? NULL : &time, NULL);
}
