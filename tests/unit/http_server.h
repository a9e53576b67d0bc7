/* SPDX-License-Identifier: GPL-2.0 */
/* An HTTP server in a process of its own, at Unix sockets. */
#ifndef STACKBEAT_TEST_HTTP_SERVER_H
#define STACKBEAT_TEST_HTTP_SERVER_H

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/error.h"
#include "serve/http.h"

/* Returns a listening socket at `path`, in place of an earlier one. */
static inline int listen_on(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, path);
	unlink(path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, SOMAXCONN), 0);
	return fd;
}

/* Serves in a child of the test, and ends it. */
static inline void serve_and_exit(const struct http_config *config)
{
	struct error error;

	/* cmocka's handler would go on with other tests. */
	signal(SIGSEGV, SIG_DFL);
	_exit(http_run(config, &error) ? 1 : 0);
}

#endif
