// SPDX-License-Identifier: GPL-2.0
/* Sockets for HTTP requests: at addresses, and from systemd. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/error.h"
#include "sandbox.h"
#include "serve/listen.h"

#define SAME_GROUP ((gid_t)-1)

static struct http_listener listener;
static struct error error;

static int listen_to(const char *address, bool insecure, gid_t group)
{
	listener = (struct http_listener){.socket = -1};
	error.text[0] = '\0';
	return listen_at(address, insecure, group, &listener, &error);
}

static void refuse(const char *address, int err, const char *message)
{
	assert_int_equal(listen_to(address, false, SAME_GROUP), err);
	if (!strstr(error.text, message))
		fail_msg("%s: %s", address, error.text);
}

static void address_of(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	strcpy(address->sun_path, path);
}

static int connect_to(const char *path)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;
	struct sockaddr_un address;

	address_of(path, &address);
	err = connect(fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
	close(fd);
	return err;
}

static const char *unix_address(const char *path)
{
	static char address[PATH_MAX];

	snprintf(address, sizeof(address), "unix:%s", path);
	return address;
}

static void unix_socket_is_for_its_group(void **state)
{
	const char *path = in_sandbox("a.sock");
	struct stat status;
	mode_t mask = umask(0);

	(void)state;
	assert_int_equal(listen_to(unix_address(path), false, SAME_GROUP), 0);
	assert_int_equal(umask(mask), 0);
	assert_false(listener.is_loopback);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode, S_IFSOCK | 0660);
	assert_int_equal(status.st_gid, getegid());
	assert_int_equal(connect_to(path), 0);
	assert_true(fcntl(listener.socket, F_GETFL) & O_NONBLOCK);
	assert_int_equal(fcntl(listener.socket, F_GETFD), FD_CLOEXEC);
	close(listener.socket);
	/* Only root may give a file to any group. */
	if (chown(path, (uid_t)-1, 1234))
		return;
	path = in_sandbox("b.sock");
	assert_int_equal(listen_to(unix_address(path), false, 1234), 0);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_gid, 1234);
	assert_int_equal(status.st_uid, geteuid());
	close(listener.socket);
}

static void only_stale_unix_socket_is_replaced(void **state)
{
	const char *path = in_sandbox("a.sock");
	struct stat status;
	int first;

	(void)state;
	assert_int_equal(listen_to(unix_address(path), false, SAME_GROUP), 0);
	first = listener.socket;
	refuse(unix_address(path), -EADDRINUSE, "a.sock: Address already in use");
	assert_int_equal(connect_to(path), 0);
	close(first);
	assert_int_equal(connect_to(path), -ECONNREFUSED);
	assert_int_equal(listen_to(unix_address(path), false, SAME_GROUP), 0);
	assert_int_equal(connect_to(path), 0);
	close(listener.socket);
	/* Another file is kept, and so is a link to a stale socket. */
	write_text(in_sandbox("file"), "text");
	refuse(unix_address(in_sandbox("file")), -EADDRINUSE, "file: ");
	assert_int_equal(access(in_sandbox("file"), F_OK), 0);
	assert_int_equal(symlink("a.sock", in_sandbox("link")), 0);
	refuse(unix_address(in_sandbox("link")), -EADDRINUSE, "link: ");
	assert_int_equal(lstat(in_sandbox("link"), &status), 0);
}

static void own_unix_socket_is_removed(void **state)
{
	const char *path = in_sandbox("a.sock");
	const char *address = unix_address(path);

	(void)state;
	assert_int_equal(listen_to(address, false, SAME_GROUP), 0);
	listen_remove(&listener);
	assert_int_equal(access(path, F_OK), -1);
	listen_remove(&listener);
	close(listener.socket);
	/* What has taken its place is another's. */
	assert_int_equal(listen_to(address, false, SAME_GROUP), 0);
	assert_int_equal(unlink(path), 0);
	write_text(path, "text");
	listen_remove(&listener);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(unlink(path), 0);
	close(listener.socket);
	/* A group that the process may not give to a file leaves nothing behind. */
	if (!geteuid())
		return;
	assert_int_equal(listen_to(address, false, 0), -EPERM);
	assert_int_equal(access(path, F_OK), -1);
}

static void paths_of_unix_sockets_are_limited(void **state)
{
	char path[120];

	(void)state;
	refuse("unix:", -EINVAL, "the path of a socket has 1 to 107 bytes");
	refuse(unix_address(in_sandbox("missing/a.sock")), -ENOENT, "missing/a.sock: No such file");
	memset(path, 'x', sizeof(path));
	memcpy(path, "/nowhere/", 9);
	path[107] = '\0';
	refuse(unix_address(path), -ENOENT, "No such file");
	path[107] = 'x';
	path[108] = '\0';
	refuse(unix_address(path), -EINVAL, "the path of a socket has 1 to 107 bytes");
}

static void expect_address(const char *text, int family)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof(address);
	int only_v6 = 0, is_reused = 0;

	if (listen_to(text, false, SAME_GROUP))
		fail_msg("%s", error.text);
	assert_true(listener.is_loopback);
	assert_true(fcntl(listener.socket, F_GETFL) & O_NONBLOCK);
	assert_int_equal(fcntl(listener.socket, F_GETFD), FD_CLOEXEC);
	assert_int_equal(getsockname(listener.socket, (struct sockaddr *)&address, &size), 0);
	assert_int_equal(address.ss_family, family);
	/* Both families have it at the same place. */
	assert_int_not_equal(listener.port, 0);
	assert_int_equal(listener.port, ntohs(((struct sockaddr_in *)&address)->sin_port));
	size = sizeof(only_v6);
	if (family == AF_INET6)
		assert_int_equal(
			getsockopt(listener.socket, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, &size), 0);
	assert_int_equal(only_v6, family == AF_INET6);
	/* A server that is started again gets its port, in spite of old connections. */
	size = sizeof(is_reused);
	assert_int_equal(getsockopt(listener.socket, SOL_SOCKET, SO_REUSEADDR, &is_reused, &size),
			 0);
	assert_int_equal(is_reused, 1);
	close(listener.socket);
}

static void addresses_of_the_loopback_are_served(void **state)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct sockaddr_in6 loopback = {.sin6_family = AF_INET6,
					      .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	(void)state;
	expect_address("127.0.0.1:0", AF_INET);
	expect_address("127.1.2.3:0", AF_INET);
	expect_address("[127.0.0.1]:0", AF_INET);
	/* Not every machine has IPv6. */
	if (fd >= 0 && !bind(fd, (const struct sockaddr *)&loopback, sizeof(loopback)))
		expect_address("[::1]:0", AF_INET6);
	if (fd >= 0)
		close(fd);
}

static void other_addresses_need_consent(void **state)
{
	(void)state;
	refuse("0.0.0.0:0", -EPERM, "0.0.0.0:0: profiles show the programs of all users");
	refuse("128.0.0.1:0", -EPERM, "--insecure");
	refuse("126.255.255.255:0", -EPERM, "--insecure");
	refuse("[::]:0", -EPERM, "--insecure");
	assert_int_equal(listen_to("0.0.0.0:0", true, SAME_GROUP), 0);
	assert_false(listener.is_loopback);
	close(listener.socket);
}

static void invalid_addresses_are_refused(void **state)
{
	static const char *const invalid[] = {
		"",
		"7079",
		"127.0.0.1",
		"127.0.0.1:",
		":7079",
		"[]:7079",
		"::1:7079",
		"[::1:7079",
		"::1]:7079",
		"localhost:7079",
		"[::1]7079",
		"127.0.0.1:x",
		"127.0.0.1:http",
		"127.0.0.1:65536",
		"127.0.0.1:99999",
		"127.0.0.1:070790",
		"127.0.0.1:+80",
		"127.0.0.1: 7079",
		"127.0.0.1:-1",
		"/run/a.sock",
		"[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb]:7079",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
		refuse(invalid[i], -EINVAL, "is not unix:PATH or ADDRESS:PORT");
	/* An address of another machine; the socket is closed. */
	assert_int_equal(listen_to("192.0.2.1:7079", true, SAME_GROUP), -EADDRNOTAVAIL);
	assert_non_null(strstr(error.text, "192.0.2.1:7079: "));
}

/* Sockets from systemd */

static void pass(const char *pid, const char *fds)
{
	pid ? setenv("LISTEN_PID", pid, 1) : unsetenv("LISTEN_PID");
	fds ? setenv("LISTEN_FDS", fds, 1) : unsetenv("LISTEN_FDS");
	setenv("LISTEN_FDNAMES", "http", 1);
}

static int bound_socket(const char *address)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

/* Returns 0, or the number of the check that fails. All are in a child: it has the first fds. */
static int check_inherited(const char *path)
{
	struct http_listener all[LISTENERS_MAX];
	char pid[16], wrong[16];
	size_t count = 1;

	snprintf(pid, sizeof(pid), "%d", getpid());
	snprintf(wrong, sizeof(wrong), "%d", getppid());
	listen_to(unix_address(path), false, SAME_GROUP);
	dup2(listener.socket, 3);
	dup2(bound_socket("127.0.0.1"), 4);
	dup2(bound_socket("0.0.0.0"), 5);
	fcntl(3, F_SETFL, 0);
	pass(wrong, "2");
	if (listen_inherit(all, &count, false, &error) || count != 1 || getenv("LISTEN_FDS"))
		return 1;
	pass(NULL, "2");
	if (listen_inherit(all, &count, false, &error) || count != 1)
		return 2;
	pass(pid, NULL);
	if (listen_inherit(all, &count, false, &error) || count != 1)
		return 3;
	pass(pid, "2");
	if (listen_inherit(all, &count, false, &error) || count != 3)
		return 4;
	if (all[1].socket != 3 || all[1].is_loopback || all[2].socket != 4 || !all[2].is_loopback)
		return 5;
	if (!(fcntl(3, F_GETFL) & O_NONBLOCK) || fcntl(4, F_GETFD) != FD_CLOEXEC)
		return 6;
	if (getenv("LISTEN_PID") || getenv("LISTEN_FDS") || getenv("LISTEN_FDNAMES"))
		return 7;
	/* The third one is at an address of the network. */
	pass(pid, "3");
	if (listen_inherit(all, &count, false, &error) != -EPERM || count != 5 ||
	    !strstr(error.text, "file descriptor 5 is neither"))
		return 8;
	count = LISTENERS_MAX - 1;
	pass(pid, "1");
	if (listen_inherit(all, &count, false, &error) || count != LISTENERS_MAX)
		return 9;
	pass(pid, "1");
	if (listen_inherit(all, &count, false, &error) != -E2BIG || count != LISTENERS_MAX)
		return 10;
	/* What is no socket. */
	count = 0;
	dup2(open("/dev/null", O_RDONLY), 3);
	pass(pid, "1");
	if (listen_inherit(all, &count, false, &error) != -ENOTSOCK || count)
		return 11;
	return 0;
}

static void sockets_of_systemd_are_served(void **state)
{
	const char *path = in_sandbox("a.sock");
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (child == 0)
		_exit(check_inherited(path));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(unix_socket_is_for_its_group),
		TEST(only_stale_unix_socket_is_replaced),
		TEST(own_unix_socket_is_removed),
		TEST(paths_of_unix_sockets_are_limited),
		TEST(addresses_of_the_loopback_are_served),
		TEST(other_addresses_need_consent),
		TEST(invalid_addresses_are_refused),
		TEST(sockets_of_systemd_are_served),
	};

	return cmocka_run_group_tests_name("listen", tests, NULL, NULL);
}
