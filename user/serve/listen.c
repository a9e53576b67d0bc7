// SPDX-License-Identifier: GPL-2.0
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/error.h"

#define UNIX_PREFIX "unix:"
#define PORT_DIGITS_MAX 5u
#define SOCKET_MODE_MASK 0117 /* mode 0660 */
#define INHERITED_FIRST 3 /* sd_listen_fds(3) */

static bool is_loopback(const struct sockaddr *address)
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;

	if (address->sa_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Returns whether a path is a socket that nobody listens at. Other files refuse connections, too.
 */
static bool is_stale(const struct sockaddr_un *address)
{
	struct stat status;
	bool refused;
	int fd;

	if (lstat(address->sun_path, &status) || !S_ISSOCK(status.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) &&
		  errno == ECONNREFUSED;
	close(fd);
	return refused;
}

static int bind_unix(int fd, const struct sockaddr_un *address)
{
	mode_t mask = umask(SOCKET_MODE_MASK);
	int err = bind(fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno : 0;

	if (err == -EADDRINUSE && is_stale(address) && !unlink(address->sun_path))
		err = bind(fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno : 0;
	umask(mask);
	return err;
}

static int listen_unix(const char *path, gid_t group, struct http_listener *listener,
		       struct error *error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat status;
	bool is_bound;
	int fd, err;

	if (!*path || strlen(path) >= sizeof(address.sun_path))
		return error_set(error, EINVAL, "%s: the path of a socket has 1 to %zu bytes", path,
				 sizeof(address.sun_path) - 1);
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_errno(error, errno, "%s", path);
	err = bind_unix(fd, &address);
	is_bound = !err;
	if (!err && group != (gid_t)-1 && chown(path, (uid_t)-1, group))
		err = -errno;
	if (!err && listen(fd, SOMAXCONN))
		err = -errno;
	if (err) {
		if (is_bound)
			unlink(path);
		close(fd);
		return error_errno(error, -err, "%s", path);
	}
	*listener = (struct http_listener){.socket = fd};
	if (!lstat(path, &status)) {
		listener->path = path;
		listener->device = status.st_dev;
		listener->inode = status.st_ino;
	}
	return 0;
}

void listen_remove(const struct http_listener *listener)
{
	struct stat status;

	if (listener->path && !lstat(listener->path, &status) &&
	    status.st_dev == listener->device && status.st_ino == listener->inode)
		unlink(listener->path);
}

/* Splits ADDRESS:PORT; brackets around the address are removed. */
static bool split_address(const char *text, char *host, size_t size, const char **port)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;

	if (length >= 2 && *text == '[' && text[length - 1] == ']') {
		text++;
		length -= 2;
	} else if (memchr(text, ':', length)) {
		return false;
	}
	if (!length || length >= size || !colon[1])
		return false;
	memcpy(host, text, length);
	host[length] = '\0';
	*port = colon + 1;
	return true;
}

/* getaddrinfo() takes more, and the lower 16 bits of what is too large. */
static bool is_port(const char *text)
{
	const size_t digits = strspn(text, "0123456789");

	return digits && digits <= PORT_DIGITS_MAX && !text[digits] &&
	       strtoul(text, NULL, 10) <= UINT16_MAX;
}

/* Returns the port of a socket; 0: it is unknown. */
static uint16_t bound_port(int fd)
{
	struct sockaddr_storage address = {0};
	socklen_t size = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &size))
		return 0;
	return ntohs(address.ss_family == AF_INET6
			     ? ((const struct sockaddr_in6 *)&address)->sin6_port
			     : ((const struct sockaddr_in *)&address)->sin_port);
}

static int listen_tcp(const char *text, bool any, struct http_listener *listener,
		      struct error *error)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *found = NULL;
	char host[INET6_ADDRSTRLEN];
	const char *port;
	int fd, err = 0;

	if (!split_address(text, host, sizeof(host), &port) || !is_port(port) ||
	    getaddrinfo(host, port, &hints, &found))
		return error_set(error, EINVAL,
				 "'%s' is not unix:PATH or ADDRESS:PORT with a numeric address and "
				 "a port up to 65535",
				 text);
	*listener = (struct http_listener){
		.is_tcp = true,
		.is_loopback = is_loopback(found->ai_addr),
	};
	if (!listener->is_loopback && !any) {
		freeaddrinfo(found);
		return error_set(error, EPERM,
				 "%s: profiles show the programs of all users, and other machines "
				 "could read them: this needs --tls-cert, and --token-file or "
				 "--tls-client-ca; --insecure %s serves without them",
				 text, text);
	}
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
	    (found->ai_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){1}, sizeof(int))) ||
	    bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, SOMAXCONN))
		err = error_errno(error, errno, "%s", text);
	freeaddrinfo(found);
	if (err && fd >= 0)
		close(fd);
	listener->socket = fd;
	listener->port = err ? 0 : bound_port(fd);
	return err;
}

int listen_at(const char *address, bool any, gid_t group, struct http_listener *listener,
	      struct error *error)
{
	if (!strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)))
		return listen_unix(address + strlen(UNIX_PREFIX), group, listener, error);
	return listen_tcp(address, any, listener, error);
}

static int listener_inherit(int fd, bool any, struct http_listener *listener, struct error *error)
{
	struct sockaddr_storage address = {0};
	socklen_t size = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &size))
		return error_errno(error, errno, "LISTEN_FDS: file descriptor %d", fd);
	*listener = (struct http_listener){
		.socket = fd,
		.is_tcp = address.ss_family != AF_UNIX,
		.is_loopback = is_loopback((const struct sockaddr *)&address),
	};
	if (!listener->is_loopback && listener->is_tcp && !any)
		return error_set(error, EPERM,
				 "LISTEN_FDS: file descriptor %d is neither a Unix socket nor at "
				 "an address of the loopback: this needs --tls-cert, and "
				 "--token-file or --tls-client-ca",
				 fd);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, O_NONBLOCK))
		return error_errno(error, errno, "LISTEN_FDS: file descriptor %d", fd);
	return 0;
}

int listen_inherit(struct http_listener *listeners, size_t *count, bool any, struct error *error)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	bool is_for_us = pid && fds && strtol(pid, NULL, 10) == getpid();
	long passed = is_for_us ? strtol(fds, NULL, 10) : 0;
	int err = 0;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	for (int i = 0; i < passed && !err; i++) {
		if (*count == LISTENERS_MAX)
			return error_set(error, E2BIG, "more than %u sockets", LISTENERS_MAX);
		err = listener_inherit(INHERITED_FIRST + i, any, &listeners[*count], error);
		*count += !err;
	}
	return err;
}
