// SPDX-License-Identifier: GPL-2.0
#include "lib/pidfd.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "lib/file_limit.h"

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

int process_watch_open(struct process_watch *watch, const uint32_t *ids, size_t count)
{
	*watch = (struct process_watch){.processes = calloc(count, sizeof(struct pollfd))};
	if (!watch->processes)
		return -ENOMEM;
	raise_file_limit(count);
	for (size_t i = 0; i < count; i++) {
		int fd = pidfd_open((pid_t)ids[i], 0);

		if (fd < 0 && errno == ESRCH)
			continue;
		watch->processes[watch->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	return 0;
}

bool process_watch_has_ended(struct process_watch *watch)
{
	size_t kept = 0;

	if (watch->count && poll(watch->processes, watch->count, 0) > 0) {
		for (size_t i = 0; i < watch->count; i++) {
			if (watch->processes[i].revents)
				close(watch->processes[i].fd);
			else
				watch->processes[kept++] = watch->processes[i];
		}
		watch->count = kept;
	}
	return !watch->count;
}

void process_watch_close(struct process_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++) {
		if (watch->processes[i].fd >= 0)
			close(watch->processes[i].fd);
	}
	free(watch->processes);
	*watch = (struct process_watch){0};
}
