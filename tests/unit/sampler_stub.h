/* SPDX-License-Identifier: GPL-2.0 */
/* The test's end of the socket between the HTTP server and the process that samples. */
#ifndef STACKBEAT_TEST_SAMPLER_STUB_H
#define STACKBEAT_TEST_SAMPLER_STUB_H

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "patience.h"
#include "sandbox/fd_passing.h"
#include "serve/protocol.h"

static int sampler = -1; /* socket */

static inline void set_timeout(int fd)
{
	const struct timeval time = {.tv_sec = hang_s()};

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), 0);
}

static inline void reply(const struct reply *reply, int file)
{
	assert_int_equal(send_fd(sampler, reply, sizeof(*reply), file), 0);
	if (file >= 0)
		close(file);
}

static inline struct ask expect_ask(enum ask_type type)
{
	struct ask ask;

	assert_int_equal(recv(sampler, &ask, sizeof(ask), 0), sizeof(ask));
	assert_int_equal(ask.type, type);
	return ask;
}

#endif
