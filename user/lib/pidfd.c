// SPDX-License-Identifier: GPL-2.0
#include "lib/pidfd.h"

#include <errno.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <unistd.h>

bool process_exits_within(pid_t pid, int milliseconds)
{
	/* An id stays until the parent has looked; a pidfd tells. */
	struct pollfd process = {.fd = pidfd_open(pid, 0), .events = POLLIN};
	bool ends;

	if (process.fd < 0)
		return errno == ESRCH;
	ends = poll(&process, 1, milliseconds) == 1;
	close(process.fd);
	return ends;
}
