// SPDX-License-Identifier: GPL-2.0
#include "sandbox/seccomp_filter.h"

#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
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

static long make_memory_executable(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mprotect(memory, 4096, PROT_READ | PROT_EXEC);
}

static long replace_fd(void)
{
	return dup2(present_fd, present_fd + 1);
}

static const struct {
	const char *name;
	long (*function)(void);
} refused[] = {
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
	{"make_memory_executable", make_memory_executable},
	{"replace_fd", replace_fd},
};

/* Returns the result of `function` in the sandbox: 0, its errno value, or -1 if it is killed. */
static int try_in_sandbox(long (*function)(void), int *status)
{
	int ends[2], result = -1;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	present_fd = open(present, O_RDONLY | O_CLOEXEC);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's handler would continue with the tests */
		if (seccomp_confine_worker((int[]){ends[1], present_fd}, 2))
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

/* As in a container that forbids filters. */
static long confine_again(void)
{
	return seccomp_confine_worker(&present_fd, 1);
}

static void allows_reading_and_memory(void **state)
{
	int status;

	(void)state;
	present = in_sandbox("present");
	write_text(present, CONTENT);
	assert_int_equal(try_in_sandbox(read_file, &status), 0);
	assert_int_equal(try_in_sandbox(allocate_memory, &status), 0);
	assert_int_equal(try_in_sandbox(confine_again, &status), EPERM);
}

static void closes_other_fds(void **state)
{
	int status;

	(void)state;
	assert_int_equal(try_in_sandbox(use_other_fds, &status), 0);
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

/* Without the filter, ENOTTY or EBADF. */
static long type_into_terminal(void)
{
	return ioctl(present_fd, TIOCSTI, "x");
}

static const struct {
	const char *name;
	long (*function)(void);
} client_refused[] = {
	{"execute", execute},
	{"request_tracing", request_tracing},
	{"read_memory", read_memory},
	{"use_bpf", use_bpf},
	{"use_keys", use_keys},
	{"make_socket", make_socket},
	{"make_packet_socket", make_packet_socket},
	{"make_generic_netlink_socket", make_generic_netlink_socket},
	{"signal_parent", signal_parent},
	{"signal_thread_of_parent", signal_thread_of_parent},
	{"limit_parent", limit_parent},
	{"type_into_terminal", type_into_terminal},
};

static void network_client_has_the_network_and_files_only(void **state)
{
	struct rlimit limit;
	int status;
	pid_t child;

	(void)state;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (seccomp_confine_network_client())
			_exit(1);
		for (size_t i = 0; i < sizeof(client_refused) / sizeof(client_refused[0]); i++) {
			errno = 0;
			if (client_refused[i].function() >= 0 || errno != EPERM) {
				print_error("%s: %d\n", client_refused[i].name, errno);
				_exit(1);
			}
		}
		_exit(socket(AF_INET, SOCK_STREAM, 0) < 0 || socket(AF_INET6, SOCK_DGRAM, 0) < 0 ||
		      socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) < 0 || make_sockets() ||
		      getrlimit(RLIMIT_CORE, &limit) || open("/", O_RDONLY) < 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_everything_but_reading),
		cmocka_unit_test(allows_reading_and_memory),
		cmocka_unit_test(closes_other_fds),
		cmocka_unit_test(abort_kills_with_its_signal),
#ifdef __x86_64__
		cmocka_unit_test(other_abis_are_killed),
#endif
		cmocka_unit_test(server_opens_no_file),
		cmocka_unit_test(network_client_has_the_network_and_files_only),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}
