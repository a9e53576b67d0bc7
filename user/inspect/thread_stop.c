// SPDX-License-Identifier: GPL-2.0
#include "inspect/thread_stop.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "lib/thread_state.h"

/* A thread that is not runnable is given up after the first time, any other thread after the
 * second. */
#define STOP_TIMEOUT_NS NS_PER_SECOND
#define STOP_LIMIT_NS (10 * NS_PER_SECOND)
#define WAIT_NS (NS_PER_SECOND / 10)

/* Returns the process that traces a thread, or 0. */
static long tracer_of(pid_t pid, pid_t tid)
{
	static const char field[] = "TracerPid:";
	char path[48], line[128];
	long tracer = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, field, sizeof(field) - 1))
			tracer = strtol(line + sizeof(field) - 1, NULL, 10);
	}
	fclose(file);
	return tracer;
}

static bool has_thread(pid_t pid, pid_t tid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	return !access(path, F_OK);
}

static int thread_stop_explain(pid_t pid, pid_t tid, int code, struct error *error)
{
	long tracer = tracer_of(pid, tid);

	if (code == ESRCH)
		return error_set(error, ESRCH, "process %d has no thread %d", pid, tid);
	if (code == EPERM && tracer)
		return error_set(error, EBUSY, "thread %d is traced by process %ld already", tid,
				 tracer);
	if (code == EPERM)
		return error_set(error, EACCES,
				 "thread %d may not be stopped: it is another user's, or protected "
				 "(see ptrace(2))",
				 tid);
	return error_errno(error, code, "thread %d can't be stopped", tid);
}

/*
 * Waits until the thread has stopped, and sets the signal to pass on when it runs again. SIGCHLD,
 * which is blocked, comes with the stop.
 */
static int wait_for_stop(pid_t pid, pid_t tid, const sigset_t *child, int *signal)
{
	const int64_t begin = now_ns(CLOCK_MONOTONIC);
	int status;
	pid_t got;

	for (;;) {
		const int64_t waited = now_ns(CLOCK_MONOTONIC) - begin;
		/* Before the look for a stop, as a stopped thread is not runnable, either. */
		const bool is_late =
			waited >= STOP_LIMIT_NS ||
			(waited >= STOP_TIMEOUT_NS && thread_state(pid, tid) != THREAD_RUNNABLE);

		got = waitpid(tid, &status, __WALL | WNOHANG);
		if (got)
			break;
		if (is_late)
			return -ETIMEDOUT;
		sigtimedwait(child, NULL, &(struct timespec){.tv_nsec = WAIT_NS});
	}
	if (got < 0)
		return -errno;
	if (!WIFSTOPPED(status))
		return -ESRCH;
	/* A signal was about to be delivered. */
	*signal = status >> 16 ? 0 : WSTOPSIG(status);
	return 0;
}

static bool read_registers(pid_t tid, struct thread_copy *copy)
{
	struct user_regs_struct regs;
	struct iovec place = {&regs, sizeof(regs)};

	/* A 32-bit thread has fewer. */
	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &place) ||
	    place.iov_len != sizeof(regs))
		return false;
	memcpy(copy->registers,
	       ((const uint64_t[]){regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi,
				   regs.rbp, regs.rsp, regs.r8, regs.r9, regs.r10, regs.r11,
				   regs.r12, regs.r13, regs.r14, regs.r15, regs.rip}),
	       sizeof(copy->registers));
	copy->fs_base = regs.fs_base;
	return true;
}

void stack_region_read(pid_t pid, struct stack_region *region)
{
	const struct iovec to = {region->bytes, STACK_REGION_SIZE};
	const struct iovec from = {(void *)(uintptr_t)region->start, STACK_REGION_SIZE};
	ssize_t got = process_vm_readv(pid, &to, 1, &from, 1, 0);

	region->size = got < 0 ? 0 : (size_t)got & ~(sizeof(uint64_t) - 1);
}

/* Copies what is wanted of a thread that this process traces. */
static int stop_and_copy(pid_t pid, pid_t tid, struct thread_copy *copy, struct error *error)
{
	sigset_t child, before;
	int64_t begin;
	bool is_read;
	int signal = 0, err;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	begin = now_ns(CLOCK_MONOTONIC);
	err = ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) ? -errno
							: wait_for_stop(pid, tid, &child, &signal);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (err == -ETIMEDOUT)
		return error_set(error, ETIMEDOUT,
				 "thread %d does not stop: it waits in the kernel, or for a CPU",
				 tid);
	if (err)
		return thread_stop_explain(pid, tid, -err, error);
	is_read = read_registers(tid, copy);
	copy->regions[0].start = copy->registers[STACKBEAT_REGISTER_RSP];
	for (size_t i = 0; is_read && i < copy->region_count; i++)
		stack_region_read(pid, &copy->regions[i]);
	ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)signal);
	copy->stopped_ns = now_ns(CLOCK_MONOTONIC) - begin;
	return is_read ? 0
		       : error_set(error, ENOTSUP, "thread %d: 32-bit programs are not supported",
				   tid);
}

int thread_copy_read(pid_t pid, pid_t tid, struct thread_copy *copy, struct error *error)
{
	if (!has_thread(pid, tid))
		return thread_stop_explain(pid, tid, ESRCH, error);
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
		return thread_stop_explain(pid, tid, errno, error);
	return stop_and_copy(pid, tid, copy, error);
}
