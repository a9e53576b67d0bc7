// SPDX-License-Identifier: GPL-2.0
#include "sandbox/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Flags of open() that allow writing, create a file, or truncate it. */
#define OPEN_MAY_WRITE (O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))

/* Sanitizers report there. */
#ifdef __SANITIZE_ADDRESS__
#define MESSAGES STDERR_FILENO
#else
#define MESSAGES (-1)
#endif

/*
 * System calls that libelf, libdw, the decompressors, malloc() and our own code need, with any
 * arguments. openat2() is not among them: a filter can't read its flags, and nothing needs it.
 */
static const int allowed_calls[] = {
	/* memory */
	SCMP_SYS(brk),
	SCMP_SYS(madvise),
	SCMP_SYS(mremap),
	SCMP_SYS(munmap),
	/* files */
	SCMP_SYS(access),
	SCMP_SYS(close),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(fadvise64),
	SCMP_SYS(fstat),
	SCMP_SYS(fstatfs),
	SCMP_SYS(getcwd),
	SCMP_SYS(lseek),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(pread64),
	SCMP_SYS(preadv),
	SCMP_SYS(read),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(readv),
	SCMP_SYS(stat),
	SCMP_SYS(statx),
	/* the process itself, and its child */
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(futex),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(wait4),
	/* the machine */
	SCMP_SYS(clock_gettime),
	SCMP_SYS(getrandom),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(sysinfo),
};

/* System calls that are allowed for `ends` only. */
static const int end_calls[] = {
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmsg),
	SCMP_SYS(write),
	SCMP_SYS(writev),
};

static int allow_calls(scmp_filter_ctx filter)
{
	int err = 0;

	for (size_t i = 0; i < COUNT(allowed_calls) && !err; i++)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed_calls[i], 0);
	return err;
}

/* Allows a call if the bits of `mask` in one of its arguments equal those of `value`. */
static int allow_masked(scmp_filter_ctx filter, int call, unsigned int argument, unsigned int mask,
			unsigned int value)
{
	const struct scmp_arg_cmp comparison = {
		.arg = argument,
		.op = SCMP_CMP_MASKED_EQ,
		.datum_a = mask,
		.datum_b = value,
	};

	return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &comparison);
}

static int allow_end(scmp_filter_ctx filter, int end)
{
	int err = 0;

	for (size_t i = 0; i < COUNT(end_calls) && end >= 0 && !err; i++)
		err = allow_masked(filter, end_calls[i], 0, UINT_MAX, (unsigned int)end);
	return err;
}

/* Memory must be private, so that no other process sees it, and not executable. */
static int allow_memory(scmp_filter_ctx filter)
{
	int err = allow_masked(filter, SCMP_SYS(mprotect), 2, PROT_EXEC, 0);

	return err ? err
		   : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
				      SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
				      SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_TYPE, MAP_PRIVATE));
}

static int allow_open(scmp_filter_ctx filter)
{
	int err = allow_masked(filter, SCMP_SYS(open), 1, OPEN_MAY_WRITE, O_RDONLY);

	return err ? err : allow_masked(filter, SCMP_SYS(openat), 2, OPEN_MAY_WRITE, O_RDONLY);
}

static int allow_fcntl(scmp_filter_ctx filter)
{
	static const unsigned int commands[] = {F_DUPFD_CLOEXEC, F_GETFD, F_GETFL};
	int err = 0;

	for (size_t i = 0; i < COUNT(commands) && !err; i++)
		err = allow_masked(filter, SCMP_SYS(fcntl), 1, UINT_MAX, commands[i]);
	return err;
}

/* abort() sends a signal to its own thread. */
static int allow_own_signals(scmp_filter_ctx filter)
{
	return allow_masked(filter, SCMP_SYS(tgkill), 0, UINT_MAX, (unsigned int)getpid());
}

static void load_filter(const int ends[2])
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));

	if (!filter)
		return;
	/*
	 * Kernels before 5.16 disable speculative store bypass for processes with a filter, which
	 * is slow. Only programs that run untrusted code need that.
	 */
	seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	if (!allow_calls(filter) && !allow_end(filter, ends[0]) && !allow_end(filter, ends[1]) &&
	    !allow_end(filter, MESSAGES) && !allow_memory(filter) && !allow_open(filter) &&
	    !allow_fcntl(filter) && !allow_own_signals(filter))
		seccomp_load(filter);
	seccomp_release(filter);
}

/* Closes the fds inherited from the parent, except those in `kept`. */
static void close_other_fds(const int kept[], size_t count)
{
	unsigned int from = 0, next;

	do {
		next = UINT_MAX;
		for (size_t i = 0; i < count; i++) {
			if (kept[i] >= 0 && (unsigned int)kept[i] >= from &&
			    (unsigned int)kept[i] < next)
				next = (unsigned int)kept[i];
		}
		if (next > from)
			close_range(from, next - 1, 0);
		from = next + 1;
	} while (next != UINT_MAX);
}

void sandbox_enter(const int ends[2], int file)
{
	const int kept[] = {ends[0], ends[1], file, MESSAGES};

	close_other_fds(kept, COUNT(kept));
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	load_filter(ends);
}
