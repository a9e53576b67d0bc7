// SPDX-License-Identifier: GPL-2.0
#include "sandbox/seccomp_filter.h"

#include "sandbox.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define X32_BIT 0x40000000
#define CONTENT "content"

/* Whether all filters leave the speculation of the CPU as it is, which costs no time. */
static bool speculation_stays = true;

int seccomp_load(const scmp_filter_ctx filter)
{
	int (*load)(const scmp_filter_ctx filter);
	uint32_t value = 0;

	if (seccomp_attr_get(filter, SCMP_FLTATR_CTL_SSB, &value) || value != 1)
		speculation_stays = false;
	*(void **)&load = dlsym(RTLD_NEXT, "seccomp_load");
	return load(filter);
}

static volatile sig_atomic_t signals;

static void count_signal(int signal)
{
	(void)signal;
	signals++;
}

static const char *present, *missing;
static int present_fd; /* open for reading */

/* Forbidden actions. Each returns less than 0, with errno, when the call is refused. */

static long open_for_reading(void)
{
	return open(present, O_RDONLY);
}

static long legacy_open_for_reading(void)
{
	return syscall(SYS_open, present, O_RDONLY);
}

static long open_as_path(void)
{
	return open(present, O_PATH);
}

static long open_by_handle(void)
{
	return syscall(SYS_open_by_handle_at, AT_FDCWD, present, O_RDONLY);
}

static long open_for_writing(void)
{
	return open(present, O_WRONLY);
}

static long open_for_reading_and_writing(void)
{
	return open(present, O_RDWR);
}

/* An fd for ioctl() only. */
static long open_for_ioctl(void)
{
	return open(present, O_ACCMODE);
}

static long open_truncating(void)
{
	return open(present, O_RDONLY | O_TRUNC);
}

static long create_file(void)
{
	return open(missing, O_RDONLY | O_CREAT, 0600);
}

/* The kernel without a filter refuses this with another error. */
static long create_unnamed_file(void)
{
	return open(sandbox, O_RDONLY | O_TMPFILE, 0600);
}

static long legacy_open_for_writing(void)
{
	return syscall(SYS_open, present, O_WRONLY);
}

static long legacy_creat(void)
{
	return syscall(SYS_creat, missing, 0600);
}

static long open_by_openat2(void)
{
	const struct open_how how = {.flags = O_WRONLY};

	return syscall(SYS_openat2, AT_FDCWD, present, &how, sizeof(how));
}

static long execute(void)
{
	char *const words[] = {"true", NULL};

	return execv("/bin/true", words);
}

static long start_process(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid;
}

static long make_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long make_sockets(void)
{
	int ends[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
}

static long signal_parent(void)
{
	return kill(getppid(), SIGUSR1);
}

static long signal_thread_of_parent(void)
{
	return syscall(SYS_tgkill, getppid(), getppid(), SIGUSR1);
}

/* A process that has the number of the thread. */
static long signal_other_process(void)
{
	return syscall(SYS_tgkill, getppid(), getpid(), SIGUSR1);
}

static long request_tracing(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static long read_memory(void)
{
	char from = 1, to = 0;
	const struct iovec here = {&to, 1}, other = {&from, 1};

	return process_vm_readv(getpid(), &here, 1, &other, 1, 0);
}

static long write_memory(void)
{
	char from = 1, to = 0;
	const struct iovec here = {&from, 1}, other = {&to, 1};

	return process_vm_writev(getpid(), &here, 1, &other, 1, 0);
}

static long remove_file(void)
{
	return unlink(present);
}

static long rename_file(void)
{
	return rename(present, missing);
}

static long link_file(void)
{
	return symlink(present, missing);
}

static long make_directory(void)
{
	return mkdir(missing, 0700);
}

static long truncate_file(void)
{
	return truncate(present, 0);
}

static long change_mode(void)
{
	return chmod(present, 0);
}

static long limit_parent(void)
{
	const struct rlimit limit = {1, 1};

	return prlimit(getppid(), RLIMIT_CORE, &limit, NULL);
}

static long lead_session(void)
{
	return setsid();
}

static long outlive_parent(void)
{
	return prctl(PR_SET_PDEATHSIG, 0);
}

static long map_executable(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
			       MAP_FAILED
		       ? -1
		       : 0;
}

static long share_memory(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) ==
			       MAP_FAILED
		       ? -1
		       : 0;
}

/* Memory that RLIMIT_DATA does not count, or that all processes share. */

static long map_with(int flags)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
		       ? -1
		       : 0;
}

static long map_as_stack(void)
{
	return map_with(MAP_PRIVATE | MAP_GROWSDOWN);
}

static long map_huge_pages(void)
{
	return map_with(MAP_PRIVATE | MAP_HUGETLB);
}

static long move_stack(void)
{
	char *page = (char *)((uintptr_t)__builtin_frame_address(0) & ~UINT64_C(4095));

	return mremap(page - 16384, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0;
}

static long make_memory_executable(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mprotect(memory, 4096, PROT_READ | PROT_EXEC);
}

static long replace_fd(void)
{
	return dup2(present_fd, present_fd + 1);
}

static long inherit_fd(void)
{
	return fcntl(present_fd, F_SETFD, 0);
}

static long change_flags(void)
{
	return fcntl(present_fd, F_SETFL, O_NONBLOCK);
}

struct refused_call {
	const char *name;
	long (*function)(void);
};

static const struct refused_call refused[] = {
	{"open_for_reading", open_for_reading},
	{"legacy_open_for_reading", legacy_open_for_reading},
	{"open_as_path", open_as_path},
	{"open_by_handle", open_by_handle},
	{"open_for_writing", open_for_writing},
	{"open_for_reading_and_writing", open_for_reading_and_writing},
	{"open_for_ioctl", open_for_ioctl},
	{"open_truncating", open_truncating},
	{"create_file", create_file},
	{"create_unnamed_file", create_unnamed_file},
	{"legacy_open_for_writing", legacy_open_for_writing},
	{"legacy_creat", legacy_creat},
	{"open_by_openat2", open_by_openat2},
	{"execute", execute},
	{"start_process", start_process},
	{"make_socket", make_socket},
	{"make_sockets", make_sockets},
	{"signal_parent", signal_parent},
	{"signal_thread_of_parent", signal_thread_of_parent},
	{"signal_other_process", signal_other_process},
	{"request_tracing", request_tracing},
	{"read_memory", read_memory},
	{"write_memory", write_memory},
	{"remove_file", remove_file},
	{"rename_file", rename_file},
	{"link_file", link_file},
	{"make_directory", make_directory},
	{"truncate_file", truncate_file},
	{"change_mode", change_mode},
	{"limit_parent", limit_parent},
	{"lead_session", lead_session},
	{"outlive_parent", outlive_parent},
	{"map_executable", map_executable},
	{"share_memory", share_memory},
	{"map_as_stack", map_as_stack},
	{"map_huge_pages", map_huge_pages},
	{"move_stack", move_stack},
	{"make_memory_executable", make_memory_executable},
	{"replace_fd", replace_fd},
	{"inherit_fd", inherit_fd},
	{"change_flags", change_flags},
};

/* Of no file: each sandbox makes its own filter. */
static struct worker_filters filters = {.file = -1};

/* Returns the result of `function` in the sandbox: 0, its errno value, or -1 if it is killed. */
static int try_in_sandbox(long (*function)(void), int *status)
{
	const struct worker_filter *kept;
	int ends[2], result = -1;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	present_fd = open(present, O_RDONLY | O_CLOEXEC);
	kept = worker_filters_prepare(&filters, (int[]){ends[1], present_fd}, 2);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's handler would continue with the tests */
		if (seccomp_confine_worker(kept, (int[]){ends[1], present_fd}, 2))
			_exit(1);
		errno = ENODATA; /* for failures that set no errno */
		result = function() < 0 ? errno : 0;
		if (write(ends[1], &result, sizeof(result)) < 0)
			_exit(1);
		_exit(0);
	}
	close(ends[1]);
	close(present_fd);
	if (read(ends[0], &result, sizeof(result)) != sizeof(result))
		result = -1;
	close(ends[0]);
	assert_int_equal(waitpid(child, status, 0), child);
	return result;
}

static void refuses_everything_but_reading(void **state)
{
	bool all_refused = true;
	struct stat st;
	int status, result;

	(void)state;
	present = in_sandbox("present");
	missing = in_sandbox("missing");
	signal(SIGUSR1, count_signal);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		write_text(present, CONTENT);
		result = try_in_sandbox(refused[i].function, &status);
		if (result != EPERM || stat(present, &st) != 0 || st.st_size != strlen(CONTENT) ||
		    access(missing, F_OK) == 0) {
			print_error("%s: %d, status %#x\n", refused[i].name, result, status);
			all_refused = false;
		}
		run("rm -rf '%s' '%s'", present, missing);
	}
	signal(SIGUSR1, SIG_DFL);
	assert_true(all_refused);
	assert_int_equal(signals, 0);
}

static long read_file(void)
{
	char bytes[sizeof(CONTENT)];
	void *image;
	struct stat st;

	if (fstat(present_fd, &st) || read(present_fd, bytes, sizeof(bytes)) != st.st_size ||
	    pread(present_fd, bytes, sizeof(bytes), 0) != st.st_size)
		return -1;
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, present_fd, 0);
	return image != MAP_FAILED && memcmp(image, CONTENT, strlen(CONTENT)) == 0 ? 0 : -1;
}

/* More than malloc() has in reserve. */
static long allocate_memory(void)
{
	size_t size = (size_t)64 << 20;
	char *memory = malloc(size), *more;

	if (!memory)
		return -1;
	memset(memory, 1, size);
	more = realloc(memory, 2 * size);
	if (!more) {
		free(memory);
		return -1;
	}
	free(more);
	return 0;
}

static long use_other_fds(void)
{
	return fcntl(STDIN_FILENO, F_GETFD) < 0 && errno == EBADF &&
			       fcntl(STDOUT_FILENO, F_GETFD) < 0 && errno == EBADF
		       ? 0
		       : -1;
}

static long use_fcntl(void)
{
	return fcntl(present_fd, F_GETFD) == FD_CLOEXEC && fcntl(present_fd, F_GETFL) >= 0 &&
			       fcntl(present_fd, F_DUPFD_CLOEXEC, 0) >= 0
		       ? 0
		       : -1;
}

/* As in a container that forbids filters. */
static long confine_again(void)
{
	return seccomp_confine_worker(NULL, &present_fd, 1);
}

static void allows_reading_and_memory(void **state)
{
	int status;

	(void)state;
	present = in_sandbox("present");
	write_text(present, CONTENT);
	assert_int_equal(try_in_sandbox(read_file, &status), 0);
	assert_int_equal(try_in_sandbox(allocate_memory, &status), 0);
	assert_int_equal(try_in_sandbox(use_fcntl, &status), 0);
	assert_int_equal(try_in_sandbox(confine_again, &status), EPERM);
}

static void closes_other_fds(void **state)
{
	int status;

	(void)state;
	assert_int_equal(try_in_sandbox(use_other_fds, &status), 0);
}

/* Keeps some of the descriptors 3 to 12, in an unusual order; returns whether only they are open.
 */
static long keep_some_fds(void)
{
	for (int fd = 3; fd <= 12; fd++) {
		if (fd != present_fd && dup3(present_fd, fd, O_CLOEXEC) != fd)
			return -1;
	}
	close_other_fds((int[]){9, -1, 4, 5, 12, STDIN_FILENO}, 6);
	for (int fd = 0; fd <= 20; fd++) {
		bool kept = fd == 9 || fd == 4 || fd == 5 || fd == 12 || fd == STDIN_FILENO;

#ifdef __SANITIZE_ADDRESS__
		kept |= fd == STDERR_FILENO;
#endif
		if ((fcntl(fd, F_GETFD) >= 0) != kept)
			return -1;
	}
	return 0;
}

static long keep_no_fd(void)
{
	close_other_fds(NULL, 0);
	return fcntl(STDIN_FILENO, F_GETFD) >= 0 || fcntl(STDOUT_FILENO, F_GETFD) >= 0 ||
			       fcntl(present_fd, F_GETFD) >= 0
		       ? -1
		       : 0;
}

static bool is_null(int fd)
{
	struct stat st, null;

	return !fstat(fd, &st) && !stat("/dev/null", &null) && st.st_rdev == null.st_rdev;
}

/* The descriptors of a terminal, or of a pipe whose reader must not get messages of libraries. */
static long replace_files(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) || dup2(ends[0], STDIN_FILENO) < 0 ||
	    dup2(ends[1], STDOUT_FILENO) < 0)
		return -1;
	close(ends[0]);
	close(ends[1]);
	replace_standard_files();
	if (!is_null(STDIN_FILENO) || !is_null(STDOUT_FILENO))
		return -1;
#ifndef __SANITIZE_ADDRESS__
	if (!is_null(STDERR_FILENO))
		return -1;
#endif
	/* The next descriptor is the number that was free before. */
	if (dup(STDIN_FILENO) != ends[0])
		return -1;
	close(STDIN_FILENO);
	replace_standard_files();
	return is_null(STDIN_FILENO) ? 0 : -1;
}

/* Returns whether a function returns 0 in a child process without a filter. */
static bool succeeds_in_child(long (*function)(void))
{
	pid_t child;
	int status;

	present_fd = open(present, O_RDONLY | O_CLOEXEC);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(function() ? 1 : 0);
	close(present_fd);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status == 0;
}

static void fds_are_closed_or_replaced(void **state)
{
	(void)state;
	present = in_sandbox("present");
	write_text(present, CONTENT);
	assert_true(succeeds_in_child(keep_some_fds));
	assert_true(succeeds_in_child(keep_no_fd));
	assert_true(succeeds_in_child(replace_files));
}

static long abort_at_once(void)
{
	signal(SIGABRT, SIG_DFL);
	abort();
}

static void abort_kills_with_its_signal(void **state)
{
	int status;

	(void)state;
	assert_int_equal(try_in_sandbox(abort_at_once, &status), -1);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* getpid() by the system call numbers of other ABIs. */

#ifdef __x86_64__
static long call_x32(void)
{
	return syscall(X32_BIT | SYS_getpid);
}

static long call_i386(void)
{
	long result = 20;

	__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
	return result;
}

static void other_abis_are_killed(void **state)
{
	int status;

	(void)state;
	assert_int_equal(try_in_sandbox(call_x32, &status), -1);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
	/* Kernels without 32-bit emulation send SIGSEGV. */
	assert_int_equal(try_in_sandbox(call_i386, &status), -1);
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
}
#endif

/* Made once, in the parent, for all workers with the same descriptors. */
static void kept_filters_do_the_same(void **state)
{
	worker_filters_open(&filters);
	assert_true(filters.file >= 0);
	refuses_everything_but_reading(state);
	allows_reading_and_memory(state);
	closes_other_fds(state);
	abort_kills_with_its_signal(state);
#ifdef __x86_64__
	other_abis_are_killed(state);
#endif
	assert_non_null(filters.items[0].program);
	assert_null(filters.items[1].program);
	worker_filters_close(&filters);
}

static const struct worker_filter *prepare_kept(int first)
{
	return worker_filters_prepare(&filters, (int[]){first, 3}, 2);
}

static void few_filters_are_kept(void **state)
{
	const struct worker_filter *kept;

	(void)state;
	assert_null(prepare_kept(10));
	worker_filters_open(&filters);
	assert_null(worker_filters_prepare(&filters, (int[]){3, 4, 5, 6, 7}, WORKER_ENDS_MAX + 1));
	for (int i = 0; i < (int)WORKER_FILTERS_MAX; i++) {
		kept = prepare_kept(10 + i);
		assert_non_null(kept);
		assert_int_equal(kept->ends[0], 10 + i);
	}
	kept = prepare_kept(10);
	assert_ptr_equal(kept, &filters.items[0]);
	assert_int_equal(kept->ends[0], 10);
	/* The first filter is replaced. */
	assert_ptr_equal(prepare_kept(50), kept);
	assert_int_equal(kept->ends[0], 50);
	assert_ptr_equal(prepare_kept(10), &filters.items[1]);
	/* A longer program was in the file before. */
	kept = worker_filters_prepare(&filters, (int[]){3}, 1);
	assert_true(kept->length < filters.items[0].length);
	worker_filters_close(&filters);
}

static long read_only_memory(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED || mprotect(memory, 4096, PROT_READ) ? -1 : 0;
}

static long use_own_fd(void)
{
	return fcntl(STDIN_FILENO, F_GETFL) < 0 ? -1 : 0;
}

/* Returns whether no child in a new namespace of any kind can be made. */
static bool namespaces_are_refused(void)
{
	static const unsigned int flags[] = {CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWNET,
					     CLONE_NEWNS,   CLONE_NEWCGROUP,
					     CLONE_NEWUTS,  CLONE_NEWIPC,
					     CLONE_NEWPID,  CLONE_NEWNET};
	struct clone_args arguments = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	long child;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		child = syscall(SYS_clone, flags[i] | SIGCHLD, 0, 0, 0, 0);
		if (!child)
			_exit(0);
		if (child > 0 || errno != EPERM)
			return false;
	}
	/* So that the C library goes on without it. */
	child = syscall(SYS_clone3, &arguments, sizeof(arguments));
	if (!child)
		_exit(0);
	return child < 0 && errno == ENOSYS;
}

/* The server may fork, but do no more with files than its workers. */
static void server_opens_no_file(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		if (seccomp_confine_server() || open("/", O_RDONLY) >= 0 || errno != EPERM ||
		    socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM)
			_exit(1);
		if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || map_executable() >= 0 ||
		    map_as_stack() >= 0 || read_only_memory() || use_own_fd())
			_exit(2);
		if (!namespaces_are_refused())
			_exit(3);
		child = fork();
		if (child == 0)
			_exit(7);
		_exit(waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static long use_bpf(void)
{
	return syscall(SYS_bpf, 0, NULL, 0);
}

static long use_keys(void)
{
	return syscall(SYS_keyctl, 0, 0);
}

static long make_packet_socket(void)
{
	return socket(AF_PACKET, SOCK_DGRAM, 0);
}

static long make_generic_netlink_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
}

static long make_pair_of(int family, int type)
{
	int ends[2];

	return socketpair(family, type, 0, ends);
}

static long make_datagram_sockets(void)
{
	return make_pair_of(AF_UNIX, SOCK_DGRAM);
}

static long make_raw_sockets(void)
{
	return make_pair_of(AF_UNIX, SOCK_RAW | SOCK_CLOEXEC);
}

static long make_internet_sockets(void)
{
	return make_pair_of(AF_INET, SOCK_STREAM);
}

/* Without the filter, ENOTTY or EBADF. */

static long type_into_terminal(void)
{
	return ioctl(present_fd, TIOCSTI, "x");
}

static long use_console(void)
{
	return ioctl(present_fd, TIOCLINUX, "x");
}

static long take_terminal(void)
{
	return ioctl(present_fd, TIOCSCTTY, 0);
}

/* Families, and protocols of netlink, that the filter refuses or not: others have other errors. */

static bool is_refused_family(int family, int protocol)
{
	int fd = socket(family, SOCK_RAW, protocol), code = errno;

	if (fd >= 0)
		close(fd);
	return fd < 0 && code == EPERM;
}

static bool all_families_are_refused(void)
{
	for (int family = 0; family < 64; family++) {
		if (!is_refused_family(family, family == AF_NETLINK ? NETLINK_ROUTE : 1000))
			return false;
	}
	return true;
}

static bool all_other_families_are_refused(void)
{
	for (int family = 0; family < 64; family++) {
		bool refused = family != AF_INET && family != AF_INET6 && family != AF_NETLINK;

		/* Without the filter, such a protocol is EINVAL. */
		if (is_refused_family(family, family == AF_NETLINK ? NETLINK_ROUTE : 1000) !=
		    refused)
			return false;
	}
	for (int protocol = 0; protocol < 32; protocol++) {
		if (is_refused_family(AF_NETLINK, protocol) != (protocol != NETLINK_ROUTE))
			return false;
	}
	return true;
}

static const struct refused_call client_refused[] = {
	{"execute", execute},
	{"request_tracing", request_tracing},
	{"read_memory", read_memory},
	{"use_bpf", use_bpf},
	{"use_keys", use_keys},
	{"make_socket", make_socket},
	{"make_packet_socket", make_packet_socket},
	{"make_generic_netlink_socket", make_generic_netlink_socket},
	{"make_datagram_sockets", make_datagram_sockets},
	{"make_raw_sockets", make_raw_sockets},
	{"make_internet_sockets", make_internet_sockets},
	{"signal_parent", signal_parent},
	{"signal_thread_of_parent", signal_thread_of_parent},
	{"limit_parent", limit_parent},
	{"type_into_terminal", type_into_terminal},
	{"use_console", use_console},
	{"take_terminal", take_terminal},
};

/* Returns whether this process is refused all calls but one, or NULL. */
static bool are_refused(const struct refused_call *calls, size_t count, long (*permitted)(void))
{
	for (size_t i = 0; i < count; i++) {
		errno = 0;
		if (calls[i].function != permitted &&
		    (calls[i].function() >= 0 || errno != EPERM)) {
			print_error("%s: %d\n", calls[i].name, errno);
			return false;
		}
	}
	return true;
}

static bool are_refused_to_client(long (*permitted)(void))
{
	return are_refused(client_refused, sizeof(client_refused) / sizeof(client_refused[0]),
			   permitted);
}

static void network_client_has_the_network_and_files_only(void **state)
{
	struct rlimit limit;
	int status;
	pid_t child;

	(void)state;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (seccomp_confine_network_client() || !are_refused_to_client(NULL))
			_exit(1);
		if (!all_other_families_are_refused())
			_exit(2);
		if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
			_exit(3);
		if (!speculation_stays)
			_exit(4);
		if (!namespaces_are_refused())
			_exit(5);
		child = fork();
		if (child == 0)
			_exit(7);
		if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)
			_exit(6);
		_exit(socket(AF_INET, SOCK_STREAM, 0) < 0 || socket(AF_INET6, SOCK_DGRAM, 0) < 0 ||
		      socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) < 0 || make_sockets() ||
		      make_pair_of(AF_UNIX, SOCK_SEQPACKET) || getrlimit(RLIMIT_CORE, &limit) ||
		      open("/", O_RDONLY) < 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* A socket at which a client waits, and its address. */
static int listener = -1, client = -1;
static struct sockaddr_in address;

static void listen_for_client(void)
{
	socklen_t size = sizeof(address);

	address = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	listener = socket(AF_INET, SOCK_STREAM, 0);
	client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 5), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(client, "x", 1, 0), 1);
}

static void close_client(void)
{
	close(listener);
	close(client);
}

/* Returns 0 if a process can accept the client, and answer it. */
static long serve_client(void)
{
	const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	char byte = 0;

	return fd < 0 || recv(fd, &byte, 1, 0) != 1 || byte != 'x' ||
	       send(fd, "y", 1, MSG_NOSIGNAL) != 1 || recv(client, &byte, 1, 0) != 1 || byte != 'y';
}

static long connect_socket(void)
{
	return connect(listener, (const struct sockaddr *)&address, sizeof(address));
}

static long send_to_connect(void)
{
	return sendto(listener, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL,
		      (const struct sockaddr *)&address, sizeof(address));
}

static struct iovec one_byte = {"x", 1};
static struct mmsghdr message = {
	.msg_hdr =
		{
			.msg_name = &address,
			.msg_namelen = sizeof(address),
			.msg_iov = &one_byte,
			.msg_iovlen = 1,
		},
};

static long send_message_to_connect(void)
{
	return sendmsg(listener, &message.msg_hdr, MSG_FASTOPEN | MSG_NOSIGNAL);
}

static long send_messages_to_connect(void)
{
	return sendmmsg(listener, &message, 1, MSG_FASTOPEN | MSG_NOSIGNAL);
}

static const struct refused_call connecting[] = {
	{"connect_socket", connect_socket},
	{"send_to_connect", send_to_connect},
	{"send_message_to_connect", send_message_to_connect},
	{"send_messages_to_connect", send_messages_to_connect},
};

static bool connections_are_refused(void)
{
	return all_families_are_refused() &&
	       are_refused(connecting, sizeof(connecting) / sizeof(connecting[0]), NULL);
}

/* What serves connections makes none, also not by a socket that listens. */
static void acceptor_connects_to_nothing(void **state)
{
	pid_t child;
	int status;

	(void)state;
	listen_for_client();
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (seccomp_confine_acceptor() || !are_refused_to_client(NULL))
			_exit(1);
		if (!namespaces_are_refused())
			_exit(2);
		if (serve_client() || make_sockets() || make_pair_of(AF_UNIX, SOCK_SEQPACKET))
			_exit(3);
		if (!connections_are_refused())
			_exit(4);
		/* As a new socket would be, which can connect. */
		if (shutdown(listener, SHUT_RDWR) || !connections_are_refused())
			_exit(5);
		_exit(open("/", O_RDONLY) < 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close_client();
}

/* Of what the acceptor must not do, it may do what a server of workers needs. */
static void reader_may_start_a_server_of_workers(void **state)
{
	int status;
	pid_t child;

	(void)state;
	listen_for_client();
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (seccomp_confine_reader())
			_exit(1);
		if (!are_refused_to_client(signal_parent) || !connections_are_refused() ||
		    kill(getpid(), 0))
			_exit(6);
		if (serve_client() || make_sockets())
			_exit(2);
		/* By the filter, that is: no flag, and a file descriptor that is none. */
		if (syscall(SYS_unshare, 0) || syscall(SYS_setns, -1, 0) == 0 || errno != EPERM)
			_exit(3);
		if (syscall(SYS_umount2, "/none", 0) == 0 || (errno != ENOENT && geteuid() == 0))
			_exit(4);
		/* The server of workers confines itself further. */
		if (seccomp_confine_server())
			_exit(5);
		_exit(open("/", O_RDONLY) >= 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close_client();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_everything_but_reading),
		cmocka_unit_test(allows_reading_and_memory),
		cmocka_unit_test(closes_other_fds),
		cmocka_unit_test(fds_are_closed_or_replaced),
		cmocka_unit_test(abort_kills_with_its_signal),
		cmocka_unit_test(kept_filters_do_the_same),
		cmocka_unit_test(few_filters_are_kept),
#ifdef __x86_64__
		cmocka_unit_test(other_abis_are_killed),
#endif
		cmocka_unit_test(server_opens_no_file),
		cmocka_unit_test(network_client_has_the_network_and_files_only),
		cmocka_unit_test(acceptor_connects_to_nothing),
		cmocka_unit_test(reader_may_start_a_server_of_workers),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}
