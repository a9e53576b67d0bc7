// SPDX-License-Identifier: GPL-2.0
#include "sandbox/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/worker_limits.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Of the second argument of socketpair(): the other bits are flags. */
#define SOCKET_TYPE_MASK 0xfu

/* Sanitizers report there. */
#ifdef __SANITIZE_ADDRESS__
#define MESSAGES STDERR_FILENO
#else
#define MESSAGES (-1)
#endif

/*
 * System calls that libelf, libdw, the decompressors, malloc() and our own code need, with any
 * arguments. None of them opens a file.
 */
static const int allowed_calls[] = {
	/* memory */
	SCMP_SYS(brk),
	SCMP_SYS(madvise),
	SCMP_SYS(munmap),
	/* files */
	SCMP_SYS(close),
	SCMP_SYS(fadvise64),
	SCMP_SYS(fstat),
	SCMP_SYS(fstatfs),
	SCMP_SYS(lseek),
	SCMP_SYS(newfstatat),
	SCMP_SYS(pread64),
	SCMP_SYS(preadv),
	SCMP_SYS(read),
	SCMP_SYS(readv),
	SCMP_SYS(statx),
	/* the process itself */
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

/* What the server of workers needs in addition. */
static const int server_calls[] = {
	/* messages */
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmsg),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	/* workers */
	SCMP_SYS(clock_getres), /* clock_getcpuclockid() */
	SCMP_SYS(fork),
	SCMP_SYS(getppid),
	SCMP_SYS(kill),
	SCMP_SYS(pwrite64), /* the score of the OOM killer */
	SCMP_SYS(rseq),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(setpriority),
	SCMP_SYS(wait4),
	SCMP_SYS(waitid),
	/* their confinement */
	SCMP_SYS(close_range),
	SCMP_SYS(prctl),
	SCMP_SYS(seccomp),
};

static const int client_refused_calls[] = {
	SCMP_SYS(acct),
	SCMP_SYS(add_key),
	SCMP_SYS(bpf),
	SCMP_SYS(delete_module),
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(finit_module),
	SCMP_SYS(fsconfig),
	SCMP_SYS(fsmount),
	SCMP_SYS(fsopen),
	SCMP_SYS(init_module),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(kcmp),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(kexec_load),
	SCMP_SYS(keyctl),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(open_tree),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(process_madvise),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(ptrace),
	SCMP_SYS(quotactl),
	SCMP_SYS(reboot),
	SCMP_SYS(request_key),
	SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_tgsigqueueinfo),
	SCMP_SYS(setns),
	SCMP_SYS(swapoff),
	SCMP_SYS(swapon),
	SCMP_SYS(tgkill),
	SCMP_SYS(tkill),
	SCMP_SYS(userfaultfd),
};

/* What a process needs that makes an empty root directory for workers, and ends them. */
static const int sandbox_calls[] = {
	SCMP_SYS(chroot),     SCMP_SYS(kill),    SCMP_SYS(mount),
	SCMP_SYS(pivot_root), SCMP_SYS(umount2), SCMP_SYS(unshare),
};

static const int connection_calls[] = {
	SCMP_SYS(connect),
	SCMP_SYS(socket),
};

static int add_calls(scmp_filter_ctx filter, uint32_t action, const int calls[], size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		err = seccomp_rule_add(filter, action, calls[i], 0);
	return err;
}

/* Adds a rule for a call if one of its arguments compares so with `value`. */
static int add_compared(scmp_filter_ctx filter, uint32_t action, int call, unsigned int argument,
			enum scmp_compare compare, scmp_datum_t value)
{
	const struct scmp_arg_cmp comparison = {
		.arg = argument,
		.op = compare,
		.datum_a = value,
	};

	return seccomp_rule_add_array(filter, action, call, 1, &comparison);
}

/* Adds a rule for a call if the bits of `mask` in one of its arguments equal the bits of `value`.
 */
static int add_masked(scmp_filter_ctx filter, uint32_t action, int call, unsigned int argument,
		      unsigned int mask, unsigned int value)
{
	const struct scmp_arg_cmp comparison = {
		.arg = argument,
		.op = SCMP_CMP_MASKED_EQ,
		.datum_a = mask,
		.datum_b = value,
	};

	return seccomp_rule_add_array(filter, action, call, 1, &comparison);
}

static int allow_masked(scmp_filter_ctx filter, int call, unsigned int argument, unsigned int mask,
			unsigned int value)
{
	return add_masked(filter, SCMP_ACT_ALLOW, call, argument, mask, value);
}

static int allow_end(scmp_filter_ctx filter, int end)
{
	int err = 0;

	for (size_t i = 0; i < COUNT(end_calls) && end >= 0 && !err; i++)
		err = allow_masked(filter, end_calls[i], 0, UINT_MAX, (unsigned int)end);
	return err;
}

/* The lowest address that the stack of this process may get to. */
static scmp_datum_t stack_end(void)
{
	return (uintptr_t)__builtin_frame_address(0) - WORKER_STACK_MAX;
}

/*
 * Memory must be private, so that no other process sees it, and not executable. RLIMIT_DATA does
 * not count memory that grows downwards, as the stack does: it can't be mapped, and the stack not
 * be enlarged by mremap(). Huge pages of the administrator are for others.
 */
static int allow_memory(scmp_filter_ctx filter)
{
	int err = allow_masked(filter, SCMP_SYS(mprotect), 2, PROT_EXEC, 0);

	if (!err)
		err = add_compared(filter, SCMP_ACT_ALLOW, SCMP_SYS(mremap), 0, SCMP_CMP_LT,
				   stack_end());
	return err ? err
		   : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
				      SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
				      SCMP_A3(SCMP_CMP_MASKED_EQ,
					      MAP_TYPE | MAP_GROWSDOWN | MAP_HUGETLB, MAP_PRIVATE));
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
static int allow_own_signals(scmp_filter_ctx filter, unsigned int pid)
{
	return allow_masked(filter, SCMP_SYS(tgkill), 0, UINT_MAX, pid);
}

/*
 * In a new user namespace, a process would have all capabilities, with which it reaches more of the
 * kernel's code. In the flags of clone, CLONE_NEWTIME is a signal number.
 */
static const unsigned int namespace_flags[] = {CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
					       CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
					       CLONE_NEWNET};

/* A filter can't see the flags of clone3: without it, the C library calls clone. */
static int refuse_clone3(scmp_filter_ctx filter)
{
	return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int refuse_namespaces(scmp_filter_ctx filter)
{
	int err = refuse_clone3(filter);

	for (size_t i = 0; i < COUNT(namespace_flags) && !err; i++)
		err = add_masked(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 0,
				 namespace_flags[i], namespace_flags[i]);
	return err;
}

static int allow_children(scmp_filter_ctx filter)
{
	unsigned int flags = 0;
	int err = refuse_clone3(filter);

	for (size_t i = 0; i < COUNT(namespace_flags); i++)
		flags |= namespace_flags[i];
	return err ? err : allow_masked(filter, SCMP_SYS(clone), 0, flags, 0);
}

static scmp_filter_ctx make_filter(uint32_t action)
{
	scmp_filter_ctx filter = seccomp_init(action);

	/*
	 * Kernels before 5.16 disable speculative store bypass for processes with a filter, which
	 * is slow. Only programs that run untrusted code need that.
	 */
	if (filter)
		seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	return filter;
}

/* Loads (with no_new_privs) and frees a filter, unless making it failed with `err`. */
static int load_filter(scmp_filter_ctx filter, int err)
{
	if (!err)
		err = seccomp_load(filter);
	seccomp_release(filter);
	return err;
}

/* Returns the filter of a worker, which the caller frees; NULL: it could not be made. */
static scmp_filter_ctx make_worker_filter(const int ends[], size_t count, unsigned int pid)
{
	scmp_filter_ctx filter = make_filter(SCMP_ACT_ERRNO(EPERM));
	int err;

	if (!filter)
		return NULL;
	err = add_calls(filter, SCMP_ACT_ALLOW, allowed_calls, COUNT(allowed_calls));
	for (size_t i = 0; i < count && !err; i++)
		err = allow_end(filter, ends[i]);
	if (!err)
		err = allow_end(filter, MESSAGES);
	if (!err)
		err = allow_memory(filter);
	if (!err)
		err = allow_fcntl(filter);
	if (!err)
		err = allow_own_signals(filter, pid);
	if (!err)
		return filter;
	seccomp_release(filter);
	return NULL;
}

/* Stands for the process ID of a worker in a filter that is kept: above all that there are. */
#define PID_OF_WORKER 0x7ffffff1u

void worker_filters_open(struct worker_filters *filters)
{
	*filters = (struct worker_filters){.file = memfd_create("filters", MFD_CLOEXEC)};
}

void worker_filters_close(struct worker_filters *filters)
{
	for (size_t i = 0; i < WORKER_FILTERS_MAX; i++)
		free(filters->items[i].program);
	if (filters->file >= 0)
		close(filters->file);
	*filters = (struct worker_filters){.file = -1};
}

/* Reads the program that was written to a file. Returns whether there is one. */
static bool worker_filter_read(struct worker_filter *kept, int file)
{
	const off_t size = lseek(file, 0, SEEK_CUR);
	const size_t length = size > 0 ? (size_t)size / sizeof(*kept->program) : 0;
	struct sock_filter *program;

	if (!length || length > BPF_MAXINSNS || size % (off_t)sizeof(*program))
		return false;
	program = malloc((size_t)size);
	if (!program)
		return false;
	if (pread(file, program, (size_t)size, 0) != (ssize_t)size) {
		free(program);
		return false;
	}
	kept->program = program;
	kept->length = (uint16_t)length;
	return true;
}

/* Finds the comparison with the process ID. Returns whether there is one, and no other. */
static bool worker_filter_find_pid(struct worker_filter *kept)
{
	size_t found = 0;

	for (size_t i = 0; i < kept->length; i++) {
		if (kept->program[i].k != PID_OF_WORKER)
			continue;
		found += kept->program[i].code == (BPF_JMP | BPF_JEQ | BPF_K) ? 1 : 2;
		kept->pid_at = (uint16_t)i;
	}
	return found == 1;
}

static bool worker_filter_make(struct worker_filter *kept, int file)
{
	scmp_filter_ctx filter = make_worker_filter(kept->ends, kept->count, PID_OF_WORKER);
	bool made = filter && !lseek(file, 0, SEEK_SET) && !seccomp_export_bpf(filter, file) &&
		    worker_filter_read(kept, file);

	if (filter)
		seccomp_release(filter);
	if (!made || worker_filter_find_pid(kept))
		return made;
	free(kept->program);
	return false;
}

const struct worker_filter *worker_filters_prepare(struct worker_filters *filters, const int ends[],
						   size_t count)
{
	struct worker_filter kept = {.count = count};

	if (filters->file < 0 || count > WORKER_ENDS_MAX)
		return NULL;
	for (size_t i = 0; i < WORKER_FILTERS_MAX; i++) {
		const struct worker_filter *item = &filters->items[i];

		if (item->program && item->count == count &&
		    !memcmp(item->ends, ends, count * sizeof(*ends)))
			return item;
	}
	memcpy(kept.ends, ends, count * sizeof(*ends));
	if (!worker_filter_make(&kept, filters->file))
		return NULL;
	free(filters->items[filters->next].program);
	filters->items[filters->next] = kept;
	filters->next = (filters->next + 1) % WORKER_FILTERS_MAX;
	return &filters->items[(filters->next + WORKER_FILTERS_MAX - 1) % WORKER_FILTERS_MAX];
}

/* As load_filter(). The program is this process's own: its parent has a copy. */
static int load_kept(const struct worker_filter *kept)
{
	const struct sock_fprog program = {.len = kept->length, .filter = kept->program};

	kept->program[kept->pid_at].k = (uint32_t)getpid();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		     &program))
		return 0;
	/* Kernels before 4.17 don't know the flag; see make_filter(). */
	if (errno == EINVAL && !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		return 0;
	return -errno;
}

int seccomp_confine_worker(const struct worker_filter *kept, const int ends[], size_t count)
{
	scmp_filter_ctx filter;

	close_other_fds(ends, count);
	if (kept)
		return load_kept(kept);
	filter = make_worker_filter(ends, count, (unsigned int)getpid());
	return filter ? load_filter(filter, 0) : -ENOMEM;
}

int seccomp_confine_server(void)
{
	scmp_filter_ctx filter = make_filter(SCMP_ACT_ERRNO(EPERM));
	int err;

	if (!filter)
		return -ENOMEM;
	err = add_calls(filter, SCMP_ACT_ALLOW, allowed_calls, COUNT(allowed_calls));
	if (!err)
		err = add_calls(filter, SCMP_ACT_ALLOW, server_calls, COUNT(server_calls));
	if (!err)
		err = allow_children(filter);
	if (!err)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 0);
	if (!err)
		err = allow_memory(filter);
	if (!err)
		err = allow_fcntl(filter);
	return load_filter(filter, err);
}

/* A terminal that was inherited would run what is typed into it. */
static int refuse_terminals(scmp_filter_ctx filter)
{
	static const unsigned int requests[] = {TIOCLINUX, TIOCSCTTY, TIOCSTI};
	int err = 0;

	for (size_t i = 0; i < COUNT(requests) && !err; i++)
		err = add_masked(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, UINT_MAX,
				 requests[i]);
	return err;
}

static int refuse_family(scmp_filter_ctx filter, enum scmp_compare compare, int family)
{
	return add_compared(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 0, compare,
			    (scmp_datum_t)family);
}

/*
 * Refuses all families but AF_INET, AF_INET6, and AF_NETLINK for addresses and routes. Services
 * that listen on Unix sockets start programs for their users (D-Bus, systemd).
 */
static int refuse_services(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp other_netlink[] = {
		{.arg = 0, .op = SCMP_CMP_EQ, .datum_a = AF_NETLINK},
		{.arg = 2, .op = SCMP_CMP_NE, .datum_a = NETLINK_ROUTE},
	};
	int err = refuse_family(filter, SCMP_CMP_LT, AF_INET);

	for (int family = AF_INET + 1; family < AF_NETLINK && !err; family++) {
		if (family != AF_INET6)
			err = refuse_family(filter, SCMP_CMP_EQ, family);
	}
	if (!err)
		err = refuse_family(filter, SCMP_CMP_GT, AF_NETLINK);
	return err ? err
		   : seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket),
					    COUNT(other_netlink), other_netlink);
}

/* Sockets of datagrams, which are SOCK_RAW, too, send to any Unix socket by its path. */
static int refuse_datagram_pairs(scmp_filter_ctx filter)
{
	static const unsigned int types[] = {SOCK_DGRAM, SOCK_RAW};
	int err = add_compared(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socketpair), 0, SCMP_CMP_NE,
			       AF_UNIX);

	for (size_t i = 0; i < COUNT(types) && !err; i++)
		err = add_masked(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socketpair), 1,
				 SOCKET_TYPE_MASK, types[i]);
	return err;
}

/* What no process may do that is confined and uses files, whatever other sockets it may use. */
static int refuse_other_processes(scmp_filter_ctx filter)
{
	int err = add_calls(filter, SCMP_ACT_ERRNO(EPERM), client_refused_calls,
			    COUNT(client_refused_calls));

	if (!err)
		err = refuse_terminals(filter);
	if (!err)
		err = refuse_datagram_pairs(filter);
	/* Limits of other processes. */
	return err ? err
		   : add_compared(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 0,
				  SCMP_CMP_NE, 0);
}

/*
 * Messages to an address that open a connection, as connect() does: a listening socket can, after
 * shutdown().
 */
static int refuse_fast_open(scmp_filter_ctx filter)
{
	static const struct {
		int call;
		unsigned int argument; /* the flags */
	} calls[] = {{SCMP_SYS(sendto), 3}, {SCMP_SYS(sendmsg), 2}, {SCMP_SYS(sendmmsg), 3}};
	int err = 0;

	for (size_t i = 0; i < COUNT(calls) && !err; i++)
		err = add_masked(filter, SCMP_ACT_ERRNO(EPERM), calls[i].call, calls[i].argument,
				 MSG_FASTOPEN, MSG_FASTOPEN);
	return err;
}

/* Sockets are accepted, received, or pairs of which one end is passed on. */
static int refuse_connections(scmp_filter_ctx filter)
{
	int err =
		add_calls(filter, SCMP_ACT_ERRNO(EPERM), connection_calls, COUNT(connection_calls));

	return err ? err : refuse_fast_open(filter);
}

/* A file or socket sends its owner any signal, when there is something to read or at its end. */
static int refuse_owners(scmp_filter_ctx filter)
{
	static const unsigned int commands[] = {F_SETOWN, F_SETOWN_EX};
	static const unsigned int requests[] = {FIOSETOWN, SIOCSPGRP};
	int err = 0;

	for (size_t i = 0; i < COUNT(commands) && !err; i++)
		err = add_masked(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fcntl), 1, UINT_MAX,
				 commands[i]);
	for (size_t i = 0; i < COUNT(requests) && !err; i++)
		err = add_masked(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, UINT_MAX,
				 requests[i]);
	return err;
}

/* Makes the filter of a process that starts no server of workers. `refuse_network`: its rules. */
static int confine_user_of_files(int (*refuse_network)(scmp_filter_ctx filter))
{
	scmp_filter_ctx filter = make_filter(SCMP_ACT_ALLOW);
	int err;

	if (!filter)
		return -ENOMEM;
	err = refuse_other_processes(filter);
	if (!err)
		err = refuse_network(filter);
	if (!err)
		err = add_calls(filter, SCMP_ACT_ERRNO(EPERM), sandbox_calls, COUNT(sandbox_calls));
	if (!err)
		err = refuse_owners(filter);
	if (!err)
		err = refuse_namespaces(filter);
	return load_filter(filter, err);
}

int seccomp_confine_network_client(void)
{
	return confine_user_of_files(refuse_services);
}

int seccomp_confine_acceptor(void)
{
	return confine_user_of_files(refuse_connections);
}

int seccomp_confine_reader(void)
{
	scmp_filter_ctx filter = make_filter(SCMP_ACT_ALLOW);
	int err;

	if (!filter)
		return -ENOMEM;
	err = refuse_other_processes(filter);
	if (!err)
		err = refuse_connections(filter);
	return load_filter(filter, err);
}

/* Headers may be older; on all architectures. */
#define FCHMODAT2 452
#define SETXATTRAT 463
#define REMOVEXATTRAT 466
#define FILE_SETATTR 469

/* Landlock refuses none of them but truncate(), from Linux 6.2 on. */
static const int attribute_calls[] = {
	SCMP_SYS(chmod),
	SCMP_SYS(chown),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(fchown),
	SCMP_SYS(fchownat),
	SCMP_SYS(fremovexattr),
	SCMP_SYS(fsetxattr),
	SCMP_SYS(futimesat),
	SCMP_SYS(lchown),
	SCMP_SYS(lremovexattr),
	SCMP_SYS(lsetxattr),
	SCMP_SYS(removexattr),
	SCMP_SYS(setxattr),
	SCMP_SYS(truncate),
	SCMP_SYS(utime),
	SCMP_SYS(utimensat),
	SCMP_SYS(utimes),
	FCHMODAT2,
	SETXATTRAT,
	REMOVEXATTRAT,
	FILE_SETATTR,
};

int seccomp_forbid_attributes(void)
{
	static const unsigned int requests[] = {FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR};
	scmp_filter_ctx filter = make_filter(SCMP_ACT_ALLOW);
	int err;

	if (!filter)
		return -ENOMEM;
	err = add_calls(filter, SCMP_ACT_ERRNO(EPERM), attribute_calls, COUNT(attribute_calls));
	for (size_t i = 0; i < COUNT(requests) && !err; i++)
		err = add_masked(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, UINT_MAX,
				 requests[i]);
	return load_filter(filter, err);
}

void close_other_fds(const int kept[], size_t count)
{
	unsigned int from = 0, next;

	do {
		next = MESSAGES >= 0 && (unsigned int)MESSAGES >= from ? (unsigned int)MESSAGES
								       : UINT_MAX;
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

void replace_standard_files(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++) {
		if (fd != MESSAGES)
			dup2(null, fd);
	}
	if (null > STDERR_FILENO)
		close(null);
}
