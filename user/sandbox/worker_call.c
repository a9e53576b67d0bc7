// SPDX-License-Identifier: GPL-2.0
#include "sandbox/worker_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "lib/clock.h"
#include "sandbox/child.h"

/* A worker that does nothing for so long has nothing to do any more. */
#define HANG_NS (10 * NS_PER_SECOND)

/* Waits until an fd is readable. Returns 0, -ETIMEDOUT or another negative errno value. */
static int wait_readable(int fd, int64_t end)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	int64_t left;
	int ready;

	do {
		left = (end - now_ns(CLOCK_MONOTONIC)) / NS_PER_MS;
		ready = poll(&polled, 1, left > 0 ? (int)left : 0);
	} while (ready < 0 && errno == EINTR);
	if (ready < 0)
		return -errno;
	return ready ? 0 : -ETIMEDOUT;
}

static ssize_t worker_call_read_result(int fd, char *result, size_t size, int64_t end)
{
	size_t done = 0;
	char excess;

	for (;;) {
		int err = wait_readable(fd, end);
		ssize_t got;

		if (err)
			return err;
		got = done < size ? read(fd, result + done, size - done) : read(fd, &excess, 1);
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			return (ssize_t)done;
		if (got > 0 && done == size)
			return -E2BIG;
		if (got > 0)
			done += (size_t)got;
	}
}

/* The worker has closed its pipe. Returns 0 if it has exited as it should. */
static int check_exit(int lifeline, int64_t end)
{
	int status, err;

	sandbox_worker_kill(lifeline);
	err = wait_readable(lifeline, end);
	if (err)
		return err;
	if (!sandbox_worker_exited(lifeline, &status))
		return -EBADMSG;
	if (sandbox_status_is_cpu_limit(status) || sandbox_status_is_hang(status))
		return -ETIMEDOUT;
	return status ? -EBADMSG : 0;
}

/*
 * Returns the lifeline of the worker, with *output to read its result, or a negative errno value.
 * A child with a copy of the pipe would keep this process from seeing the end of the worker.
 */
static int start_with_pipe(const struct sandbox_server *server, enum worker_kind kind, int input,
			   int *output)
{
	int ends[2], lifeline;

	child_forks_stop();
	if (pipe2(ends, O_CLOEXEC)) {
		lifeline = -errno;
	} else {
		lifeline = sandbox_worker_start(server, kind, (int[]){input, ends[1]}, 2);
		close(ends[1]);
		*output = ends[0];
		if (lifeline < 0)
			close(ends[0]);
	}
	child_forks_go_on();
	return lifeline;
}

ssize_t worker_call(const struct sandbox_server *server, enum worker_kind kind, int input,
		    void *result, size_t size, unsigned int cpu_ms, unsigned int timeout_ms)
{
	int64_t end = now_ns(CLOCK_MONOTONIC) + timeout_ms * NS_PER_MS;
	int output = -1, lifeline = start_with_pipe(server, kind, input, &output);
	ssize_t got;

	if (lifeline < 0)
		return lifeline;
	sandbox_worker_limit(lifeline, cpu_ms * NS_PER_MS, HANG_NS);
	got = worker_call_read_result(output, result, size, end);
	close(output);
	if (got >= 0) {
		int err = check_exit(lifeline, end);

		got = err ? err : got;
	}
	sandbox_worker_kill(lifeline);
	close(lifeline);
	return got;
}
