// SPDX-License-Identifier: GPL-2.0
#include "sandbox/fd_passing.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union fd_message {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(PASSED_FDS_MAX * sizeof(int))];
};

int send_fds(int socket, const void *bytes, size_t size, const int fds[], size_t count)
{
	union fd_message control = {0};
	struct iovec vector = {.iov_base = (void *)bytes, .iov_len = size};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};

	if (count > PASSED_FDS_MAX)
		return -EINVAL;
	if (count) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(*fds));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(*fds));
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(*fds));
	}
	return TEMP_FAILURE_RETRY(sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 ? -errno : 0;
}

int send_fd(int socket, const void *bytes, size_t size, int fd)
{
	return send_fds(socket, bytes, size, &fd, fd >= 0);
}

ssize_t receive_fds(int socket, void *bytes, size_t size, int fds[], size_t *count)
{
	union fd_message control = {0};
	size_t max = *count < PASSED_FDS_MAX ? *count : PASSED_FDS_MAX;
	struct iovec vector = {.iov_base = bytes, .iov_len = size};
	struct msghdr message = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = &control,
		/* CMSG_SPACE() may have room for one more fd in its padding: nobody would close it.
		 */
		.msg_controllen = CMSG_LEN(max * sizeof(*fds)),
	};
	ssize_t got = TEMP_FAILURE_RETRY(recvmsg(socket, &message, MSG_CMSG_CLOEXEC));
	const struct cmsghdr *header;

	*count = 0;
	if (got < 0)
		return -errno;
	header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
		*count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(*fds);
		memcpy(fds, CMSG_DATA(header), *count * sizeof(*fds));
	}
	return got;
}

ssize_t receive_fd(int socket, void *bytes, size_t size, int *fd)
{
	size_t count = 1;
	ssize_t got = receive_fds(socket, bytes, size, fd, &count);

	if (!count)
		*fd = -1;
	return got;
}
