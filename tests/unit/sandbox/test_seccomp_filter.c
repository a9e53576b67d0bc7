// SPDX-License-Identifier: GPL-2.0
#include "sandbox/seccomp_filter.h"

#include "sandbox.h"
#include "sandbox/fd_passing.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
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

static const char *there, *missing;

/* What a process tries. Each returns less than 0, with errno, where it was refused. */

static long open_to_write(void)
{
	return open(there, O_WRONLY);
}

static long open_for_both(void)
{
	return open(there, O_RDWR);
}

/* For ioctl() alone. */
static long open_for_none(void)
{
	return open(there, O_ACCMODE);
}

static long open_to_empty(void)
{
	return open(there, O_RDONLY | O_TRUNC);
}

static long make_file(void)
{
	return open(missing, O_RDONLY | O_CREAT, 0600);
}

/* Which the kernel itself refuses with another error. */
static long make_nameless_file(void)
{
	return open(sandbox, O_RDONLY | O_TMPFILE, 0600);
}

static long old_open_to_write(void)
{
	return syscall(SYS_open, there, O_WRONLY);
}

static long old_make_file(void)
{
	return syscall(SYS_creat, missing, 0600);
}

static long open_with_unseen_flags(void)
{
	const struct open_how how = {.flags = O_WRONLY};

	return syscall(SYS_openat2, AT_FDCWD, there, &how, sizeof(how));
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

static long be_traced(void)
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
	return unlink(there);
}

static long rename_file(void)
{
	return rename(there, missing);
}

static long link_file(void)
{
	return symlink(there, missing);
}

static long make_directory(void)
{
	return mkdir(missing, 0700);
}

static long cut_file(void)
{
	return truncate(there, 0);
}

static long change_mode(void)
{
	return chmod(there, 0);
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

static long map_code(void)
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

static long make_code(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mprotect(memory, 4096, PROT_READ | PROT_EXEC);
}

static long replace_fd(void)
{
	int fd = open(there, O_RDONLY);

	return dup2(fd, fd + 1);
}

static const struct {
	const char *name;
	long (*function)(void);
} refused[] = {
	{"open_to_write", open_to_write},
	{"open_for_both", open_for_both},
	{"open_for_none", open_for_none},
	{"open_to_empty", open_to_empty},
	{"make_file", make_file},
	{"make_nameless_file", make_nameless_file},
	{"old_open_to_write", old_open_to_write},
	{"old_make_file", old_make_file},
	{"open_with_unseen_flags", open_with_unseen_flags},
	{"execute", execute},
	{"start_process", start_process},
	{"make_socket", make_socket},
	{"make_sockets", make_sockets},
	{"signal_parent", signal_parent},
	{"signal_thread_of_parent", signal_thread_of_parent},
	{"be_traced", be_traced},
	{"read_memory", read_memory},
	{"write_memory", write_memory},
	{"remove_file", remove_file},
	{"rename_file", rename_file},
	{"link_file", link_file},
	{"make_directory", make_directory},
	{"cut_file", cut_file},
	{"change_mode", change_mode},
	{"limit_parent", limit_parent},
	{"lead_session", lead_session},
	{"outlive_parent", outlive_parent},
	{"map_code", map_code},
	{"share_memory", share_memory},
	{"make_code", make_code},
	{"replace_fd", replace_fd},
};

/* What a confined process tells: 0, or the errno value; -1 where it ends without. */
static int try_confined(long (*function)(void), int *status)
{
	int ends[2], told = -1;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka would go on with its tests */
		sandbox_enter((int[]){ends[1], -1}, -1);
		errno = ENODATA; /* where no call says why */
		told = function() < 0 ? errno : 0;
		if (write(ends[1], &told, sizeof(told)) < 0)
			_exit(1);
		_exit(0);
	}
	close(ends[1]);
	if (read(ends[0], &told, sizeof(told)) != sizeof(told))
		told = -1;
	close(ends[0]);
	assert_int_equal(waitpid(child, status, 0), child);
	return told;
}

static void test_what_is_refused(void **state)
{
	bool all_are = true;
	struct stat st;
	int status, told;

	(void)state;
	there = in_sandbox("there");
	missing = in_sandbox("missing");
	signal(SIGUSR1, count_signal);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		write_text(there, CONTENT);
		told = try_confined(refused[i].function, &status);
		if (told != EPERM || stat(there, &st) != 0 || st.st_size != strlen(CONTENT) ||
		    access(missing, F_OK) == 0) {
			print_error("%s: %d, status %#x\n", refused[i].name, told, status);
			all_are = false;
		}
		run("rm -rf '%s' '%s'", there, missing);
	}
	signal(SIGUSR1, SIG_DFL);
	assert_true(all_are);
	assert_int_equal(signals, 0);
}

static long read_file(void)
{
	char path[64], bytes[sizeof(CONTENT)];
	int found = open(there, O_PATH | O_CLOEXEC), fd;
	void *image;
	struct stat st;

	if (found < 0 || fstat(found, &st) != 0 || stat(there, &st) != 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || read(fd, bytes, sizeof(bytes)) != st.st_size ||
	    pread(fd, bytes, sizeof(bytes), 0) != st.st_size)
		return -1;
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	return image != MAP_FAILED && memcmp(image, CONTENT, strlen(CONTENT)) == 0 ? 0 : -1;
}

/* More than malloc() has at hand. */
static long take_memory(void)
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

static long reach_others(void)
{
	return fcntl(STDIN_FILENO, F_GETFD) < 0 && errno == EBADF &&
			       fcntl(STDOUT_FILENO, F_GETFD) < 0 && errno == EBADF
		       ? 0
		       : -1;
}

/* As where filters are forbidden: what is there stays, and the process goes on. */
static long confine_again(void)
{
	sandbox_enter((int[]){-1, -1}, -1);
	return read_file();
}

static void test_what_it_may(void **state)
{
	int status;

	(void)state;
	there = in_sandbox("there");
	write_text(there, CONTENT);
	assert_int_equal(try_confined(read_file, &status), 0);
	assert_int_equal(try_confined(take_memory, &status), 0);
	assert_int_equal(try_confined(confine_again, &status), 0);
}

static void test_other_fds_are_closed(void **state)
{
	int status;

	(void)state;
	assert_int_equal(try_confined(reach_others, &status), 0);
}

static long abort_at_once(void)
{
	signal(SIGABRT, SIG_DFL);
	abort();
}

static void test_abort(void **state)
{
	int status;

	(void)state;
	assert_int_equal(try_confined(abort_at_once, &status), -1);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* The system calls of other ABIs have other numbers: getpid() of these. */

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

static void test_other_abis(void **state)
{
	int status;

	(void)state;
	assert_int_equal(try_confined(call_x32, &status), -1);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
	/* Kernels without 32-bit programs have no such call. */
	assert_int_equal(try_confined(call_i386, &status), -1);
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
}
#endif

static void test_sockets_pass_files(void **state)
{
	char bytes[8];
	int ends[2], fd;
	pid_t child;

	(void)state;
	write_text(in_sandbox("there"), CONTENT);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		sandbox_enter((int[]){-1, ends[1]}, -1);
		fd = open(in_sandbox("there"), O_RDONLY | O_CLOEXEC);
		_exit(send_fd(ends[1], "id", 2, fd) != 0);
	}
	close(ends[1]);
	assert_int_equal(receive_fd(ends[0], bytes, sizeof(bytes), &fd), 2);
	assert_int_equal(read(fd, bytes, sizeof(bytes)), strlen(CONTENT));
	close(fd);
	assert_int_equal(receive_fd(ends[0], bytes, sizeof(bytes), &fd), 0);
	assert_int_equal(fd, -1);
	close(ends[0]);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_refused),      cmocka_unit_test(test_what_it_may),
		cmocka_unit_test(test_other_fds_are_closed), cmocka_unit_test(test_abort),
#ifdef __x86_64__
		cmocka_unit_test(test_other_abis),
#endif
		cmocka_unit_test(test_sockets_pass_files),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}
