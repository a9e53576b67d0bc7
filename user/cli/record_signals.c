// SPDX-License-Identifier: GPL-2.0
#include "cli/record_signals.h"

#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/error.h"
#include "record/child_command.h"
#include "sandbox/child.h"

int record_signals_open(struct signal_handling *old, struct error *error)
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN};
	struct sigaction hangup;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGXCPU);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	/* nohup(1) ignores SIGHUP, and a blocked signal is received even if it is ignored. */
	sigaction(SIGHUP, NULL, &hangup);
	if (hangup.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &old->mask);
	sigaction(SIGPIPE, &ignored, &old->pipe);
	sigaction(SIGXFSZ, &ignored, &old->file_size);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? error_errno(error, errno, "can't wait for signals") : fd;
}

int record_signals_interruption(bool of_terminal)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	if (of_terminal)
		sigaddset(&set, SIGINT);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? 0 : fd;
}

void record_signals_restrict(int signals)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	signalfd(signals, &set, 0);
}

/* Reads the signals that have come. Returns the number of those that end the child. */
static unsigned int read_signals(int signals)
{
	struct signalfd_siginfo info;
	unsigned int count = 0;

	while (read(signals, &info, sizeof(info)) == sizeof(info))
		count += info.ssi_signo != SIGCHLD;
	return count;
}

int record_signals_wait(int signals, struct child *child)
{
	struct pollfd polled = {.fd = signals, .events = POLLIN};
	unsigned int received = 0;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	signalfd(signals, &set, 0);
	while (!child_has_ended(child, false)) {
		unsigned int more;

		poll(&polled, 1, -1);
		more = read_signals(signals);
		if (received + more > 1) {
			kill(child->pid, SIGKILL);
			return -EINTR;
		}
		if (more)
			kill(child->pid, SIGTERM);
		received += more;
	}
	return 0;
}
