// SPDX-License-Identifier: GPL-2.0
/* Headers that a worker reads. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "debuginfo/elf_headers.h"
#include "lib/error.h"
#include "sandbox/fork_server.h"

/* Bytes that the next call writes at most; 0: no limit. Further ones may write more. */
static size_t written_max;

/* Replaces libc's function. */
ssize_t write(int fd, const void *bytes, size_t size)
{
	if (written_max && size > written_max)
		size = written_max;
	if (written_max)
		written_max += 1000;
	return syscall(SYS_write, fd, bytes, size);
}

static void work(enum worker_kind kind, const int fds[], size_t count)
{
	assert_int_equal(kind, WORKER_READ_HEADERS);
	run_headers_worker(fds, count);
}

static void work_with_short_writes(enum worker_kind kind, const int fds[], size_t count)
{
	written_max = 1;
	work(kind, fds, count);
}

/* Reads the headers of this program. */
static void read_own_headers(worker_function *function, struct elf_headers *headers)
{
	struct sandbox_server server;
	struct error error = {""};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(sandbox_server_start(&server, function, &error), 0);
	assert_int_equal(worker_read_headers(&server, fd, headers, &error), 0);
	sandbox_server_stop(&server);
	close(fd);
}

static void result_may_be_written_in_parts(void **state)
{
	struct elf_headers whole, parts;

	(void)state;
	read_own_headers(work, &whole);
	assert_true(whole.has_dwarf);
	assert_in_range(whole.segment_count, 1, ELF_HEADERS_SEGMENTS_MAX);
	read_own_headers(work_with_short_writes, &parts);
	assert_string_equal(parts.build_id, whole.build_id);
	assert_true(parts.has_dwarf);
	assert_int_equal(parts.segment_count, whole.segment_count);
	assert_memory_equal(parts.segments, whole.segments,
			    whole.segment_count * sizeof(whole.segments[0]));
}

static void missing_worker_is_an_error(void **state)
{
	const struct sandbox_server gone = {.socket = -1};
	struct elf_headers headers;
	struct error error = {""};

	(void)state;
	assert_int_equal(worker_read_headers(&gone, STDIN_FILENO, &headers, &error), -EBADF);
	assert_string_equal(error.text, "its headers can't be read: Bad file descriptor");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(result_may_be_written_in_parts),
		cmocka_unit_test(missing_worker_is_an_error),
	};

	return cmocka_run_group_tests_name("elf_headers", tests, NULL, NULL);
}
