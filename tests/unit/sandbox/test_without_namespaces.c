// SPDX-License-Identifier: GPL-2.0
/* The server of workers where no namespaces can be made, as in a container: Landlock is left. */
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/error.h"
#include "sandbox/fork_server.h"

/* Whether the kernel has Landlock. */
static bool has_landlock;

static long failed(int code)
{
	errno = code;
	return -1;
}

/* As the kernel: a process without capabilities must have given up what programs could add. */
static long restrict_self(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : failed(EPERM);
}

static long create_ruleset(long attributes)
{
	return attributes ? open("/dev/null", O_RDONLY | O_CLOEXEC) : 1;
}

/* Replaces libc's function. */
long syscall(long number, ...)
{
	long (*real)(long call, ...), arguments[6];
	va_list list;

	va_start(list, number);
	for (size_t i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	switch (number) {
	case SYS_clone:
		return failed(EPERM);
	case SYS_landlock_create_ruleset:
		return has_landlock ? create_ruleset(arguments[0]) : failed(ENOSYS);
	case SYS_landlock_restrict_self:
		return restrict_self();
	default:
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
		return real(number, arguments[0], arguments[1], arguments[2], arguments[3],
			    arguments[4], arguments[5]);
	}
}

/* Replaces libc's function. */
int unshare(int flags)
{
	(void)flags;
	return (int)failed(EPERM);
}

static void work(enum worker_kind kind, const int fds[], size_t count)
{
	(void)kind, (void)fds, (void)count;
}

/* Returns whether workers can see files, as the server says. */
static bool sees_files(void)
{
	struct sandbox_server server;
	struct error error = {""};

	if (sandbox_server_start(&server, work, &error))
		fail_msg("%s", error.text);
	sandbox_server_stop(&server);
	return server.missing & SANDBOX_NO_EMPTY_ROOT;
}

static void landlock_replaces_namespaces(void **state)
{
	(void)state;
	has_landlock = true;
	assert_false(sees_files());
	has_landlock = false;
	assert_true(sees_files());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(landlock_replaces_namespaces),
	};

	return cmocka_run_group_tests_name("without_namespaces", tests, NULL, NULL);
}
