// SPDX-License-Identifier: GPL-2.0
#include "sandbox/worker_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "lib/clock.h"

#define NS_PER_MS INT64_C(1000000)

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

static ssize_t read_result(int fd, char *result, size_t size, int64_t end)
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
	return sandbox_worker_exited(lifeline, &status) && status == 0 ? 0 : -EBADMSG;
}

ssize_t worker_call(const struct sandbox_server *server, enum worker_kind kind, int input,
		    void *result, size_t size, unsigned int timeout_ms)
{
	int64_t end = now_ns(CLOCK_MONOTONIC) + timeout_ms * NS_PER_MS;
	int ends[2], lifeline;
	ssize_t got;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	lifeline = sandbox_worker_start(server, kind, (int[]){input, ends[1]}, 2);
	close(ends[1]);
	got = lifeline < 0 ? lifeline : read_result(ends[0], result, size, end);
	close(ends[0]);
	if (lifeline < 0)
		return got;
	if (got >= 0) {
		int err = check_exit(lifeline, end);

		got = err ? err : got;
	}
	sandbox_worker_kill(lifeline);
	close(lifeline);
	return got;
}
