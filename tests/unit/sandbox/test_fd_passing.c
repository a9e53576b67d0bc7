// SPDX-License-Identifier: GPL-2.0
/* File descriptors in messages. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/fd_passing.h"

#define BYTES "some bytes"

static size_t open_fds(void)
{
	DIR *directory = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void receive_bytes(int socket, int *fd)
{
	char bytes[sizeof(BYTES)];

	assert_int_equal(receive_fd(socket, bytes, sizeof(bytes), fd), sizeof(BYTES));
	assert_string_equal(bytes, BYTES);
}

static void passes_one_fd_or_none(void **state)
{
	struct stat sent, received;
	int ends[2], fd;

	(void)state;
	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(send_fd(ends[0], BYTES, sizeof(BYTES), ends[0]), 0);
	assert_int_equal(send_fd(ends[0], BYTES, sizeof(BYTES), -1), 0);
	receive_bytes(ends[1], &fd);
	assert_return_code(fd, 0);
	assert_return_code(fstat(ends[0], &sent), 0);
	assert_return_code(fstat(fd, &received), 0);
	assert_int_equal(sent.st_ino, received.st_ino);
	close(fd);
	receive_bytes(ends[1], &fd);
	assert_int_equal(fd, -1);
	close(ends[0]);
	assert_int_equal(receive_fd(ends[1], &fd, sizeof(fd), &fd), 0);
	close(ends[1]);
}

/* A sender could otherwise fill the fd table of the receiver. */
static void keeps_no_fd_of_a_message_with_several(void **state)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct iovec vector = {.iov_base = (char[]){BYTES}, .iov_len = sizeof(BYTES)};
	const struct msghdr message = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int ends[2], fd;
	size_t before;

	(void)state;
	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(ends));
	memcpy(CMSG_DATA(&control.header), ends, sizeof(ends));
	assert_return_code(sendmsg(ends[0], &message, 0), 0);
	before = open_fds();
	receive_bytes(ends[1], &fd);
	if (fd >= 0)
		close(fd);
	assert_int_equal(open_fds(), before);
	close(ends[0]);
	close(ends[1]);
}

static void passes_as_many_fds_as_both_permit(void **state)
{
	char bytes[16];
	int ends[2], sent[PASSED_FDS_MAX + 1], got[PASSED_FDS_MAX + 1];
	struct stat st, other;
	size_t before, count;

	(void)state;
	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	for (size_t i = 0; i <= PASSED_FDS_MAX; i++)
		sent[i] = memfd_create("sent", MFD_CLOEXEC);
	before = open_fds();
	assert_int_equal(send_fds(ends[0], "abc", 3, sent, PASSED_FDS_MAX + 1), -EINVAL);
	for (size_t passed = 0; passed <= PASSED_FDS_MAX; passed++) {
		assert_int_equal(send_fds(ends[0], "abc", 3, sent, passed), 0);
		count = PASSED_FDS_MAX + 1;
		assert_int_equal(receive_fds(ends[1], bytes, sizeof(bytes), got, &count), 3);
		assert_memory_equal(bytes, "abc", 3);
		assert_int_equal(count, passed);
		for (size_t i = 0; i < passed; i++) {
			assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
			assert_return_code(fstat(got[i], &st), 0);
			assert_return_code(fstat(sent[i], &other), 0);
			assert_int_equal(st.st_ino, other.st_ino);
			close(got[i]);
		}
	}
	/* The receiver wants fewer. */
	for (size_t wanted = 1; wanted < 4; wanted++) {
		assert_int_equal(send_fds(ends[0], "abc", 3, sent, 4), 0);
		count = wanted;
		assert_int_equal(receive_fds(ends[1], bytes, sizeof(bytes), got, &count), 3);
		assert_int_equal(count, wanted);
		for (size_t i = 0; i < wanted; i++)
			close(got[i]);
	}
	assert_int_equal(open_fds(), before);
	for (size_t i = 0; i <= PASSED_FDS_MAX; i++)
		close(sent[i]);
	close(ends[0]);
	close(ends[1]);
}

static void failures_give_no_fd(void **state)
{
	int ends[2], fd = 7, fds[2];
	size_t count = 2;
	char byte;

	(void)state;
	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
	assert_int_equal(receive_fd(ends[1], &byte, 1, &fd), -EAGAIN);
	assert_int_equal(fd, -1);
	assert_int_equal(receive_fds(ends[1], &byte, 1, fds, &count), -EAGAIN);
	assert_int_equal(count, 0);
	assert_int_equal(send_fd(-1, "a", 1, -1), -EBADF);
	close(ends[0]);
	fd = 7;
	assert_int_equal(receive_fd(ends[1], &byte, 1, &fd), 0);
	assert_int_equal(fd, -1);
	/* Without a signal. */
	assert_int_equal(send_fd(ends[1], "a", 1, -1), -EPIPE);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_one_fd_or_none),
		cmocka_unit_test(keeps_no_fd_of_a_message_with_several),
		cmocka_unit_test(passes_as_many_fds_as_both_permit),
		cmocka_unit_test(failures_give_no_fd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
