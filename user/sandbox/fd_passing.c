// SPDX-License-Identifier: GPL-2.0
#include "sandbox/fd_passing.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union fd_message {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int send_fd(int socket, const void *bytes, size_t size, int fd)
{
	union fd_message control = {0};
	struct iovec vector = {.iov_base = (void *)bytes, .iov_len = size};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	return TEMP_FAILURE_RETRY(sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 ? -errno : 0;
}

ssize_t receive_fd(int socket, void *bytes, size_t size, int *fd)
{
	union fd_message control = {0};
	struct iovec vector = {.iov_base = bytes, .iov_len = size};
	struct msghdr message = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = &control,
		/* CMSG_SPACE() has room for a second fd in its padding: nothing would close it. */
		.msg_controllen = CMSG_LEN(sizeof(*fd)),
	};
	ssize_t got = TEMP_FAILURE_RETRY(recvmsg(socket, &message, MSG_CMSG_CLOEXEC));
	const struct cmsghdr *header;

	*fd = -1;
	if (got <= 0)
		return got < 0 ? -errno : 0;
	header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(*fd)))
		memcpy(fd, CMSG_DATA(header), sizeof(*fd));
	return got;
}
