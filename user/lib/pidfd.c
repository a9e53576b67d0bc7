// SPDX-License-Identifier: GPL-2.0
#include "lib/pidfd.h"

#include <errno.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <unistd.h>

bool process_exits_within(pid_t pid, int milliseconds)
{
	/* kill(pid, 0) succeeds for a zombie; a pidfd becomes readable at the exit. */
	struct pollfd process = {.fd = pidfd_open(pid, 0), .events = POLLIN};
	bool exited;

	if (process.fd < 0)
		return errno == ESRCH;
	exited = poll(&process, 1, milliseconds) == 1;
	close(process.fd);
	return exited;
}
