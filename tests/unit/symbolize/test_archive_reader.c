// SPDX-License-Identifier: GPL-2.0
/* Workers that are compromised: test_binary_archive.c has archives. */
#include "symbolize/archive_reader.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/error.h"
#include "sample_profile.h"
#include "sandbox.h"
#include "sandbox/fork_server.h"
#include "symbolize/archive_unpacker.h"

#define NAME ".build-id/01/23"

/* Bytes that one call writes at most, as on a file system that is almost full; 0: no limit. */
static size_t written_max;

/* Replaces libc's function. */
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	if (written_max && size > written_max)
		size = written_max;
	return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

static void (*worker)(int socket);

static void run_worker(enum worker_kind kind, const int fds[], size_t count)
{
	assert_int_equal(kind, WORKER_UNPACK);
	assert_int_equal(count, 2);
	worker(fds[1]);
}

/* Sends a message that claims to have `size` bytes. */
static void send_header(int socket, uint32_t type, uint64_t number, uint32_t size)
{
	const struct unpack_message message = {.type = type, .size = size, .number = number};

	if (write(socket, &message, sizeof(message)) < 0)
		_exit(1);
}

static void send_bytes(int socket, uint32_t type, uint64_t number, const void *bytes, size_t size)
{
	send_header(socket, type, number, (uint32_t)size);
	if (write(socket, bytes, size) < 0)
		_exit(1);
}

/* Returns whether the parent wants the entry. */
static bool send_entry(int socket, const char *name, uint64_t size)
{
	char reply;

	send_bytes(socket, UNPACK_ENTRY, size, name, strlen(name));
	if (read(socket, &reply, 1) != 1)
		_exit(1);
	return reply;
}

static void send_file(int socket)
{
	if (send_entry(socket, NAME, 4))
		send_bytes(socket, UNPACK_DATA, 0, "data", 4);
	if (send_entry(socket, "unwanted", 4))
		_exit(1);
	send_header(socket, UNPACK_END, 0, 0);
}

static void exit_at_once(int socket)
{
	(void)socket;
}

static void crash(int socket)
{
	send_entry(socket, NAME, 4);
	raise(SIGKILL);
}

static void send_part_of_message(int socket)
{
	send_header(socket, UNPACK_ENTRY, 4, 100);
}

static void send_unknown_type(int socket)
{
	send_header(socket, 77, 0, 0);
}

static void send_huge_message(int socket)
{
	send_header(socket, UNPACK_ENTRY, 4, UINT32_MAX);
}

static void send_data_first(int socket)
{
	send_bytes(socket, UNPACK_DATA, 0, "data", 4);
}

static void send_unwanted_data(int socket)
{
	send_entry(socket, "unwanted", 4);
	send_bytes(socket, UNPACK_DATA, 0, "data", 4);
}

static void send_too_much_data(int socket)
{
	send_entry(socket, NAME, 4);
	send_bytes(socket, UNPACK_DATA, 1, "data", 4);
}

static void send_far_data(int socket)
{
	send_entry(socket, NAME, 4);
	send_bytes(socket, UNPACK_DATA, UINT64_MAX - 1, "data", 4);
}

static void send_data_of_name_twice(int socket)
{
	send_entry(socket, NAME, 4);
	send_entry(socket, NAME, UINT32_MAX);
	send_bytes(socket, UNPACK_DATA, 100, "data", 4);
}

static void send_name_with_nul(int socket)
{
	send_bytes(socket, UNPACK_ENTRY, 4, NAME "\0" NAME, 2 * sizeof(NAME));
}

static void send_long_name(int socket)
{
	static char name[PATH_MAX + 1];

	memset(name, 'a', PATH_MAX);
	send_entry(socket, name, 4);
}

static void send_control_characters(int socket)
{
	send_bytes(socket, UNPACK_ERROR, 0, "\x1b[31m\n\u202e", 9);
}

static void send_entries_forever(int socket)
{
	for (;;)
		send_entry(socket, "unwanted", 0);
}

static void send_entries_without_reading(int socket)
{
	for (;;)
		send_bytes(socket, UNPACK_ENTRY, 0, "unwanted", 8);
}

static void send_data_forever(int socket)
{
	send_entry(socket, NAME, 4);
	for (;;)
		send_bytes(socket, UNPACK_DATA, 0, "data", 4);
}

static void send_no_data_forever(int socket)
{
	send_entry(socket, NAME, 4);
	for (;;)
		send_header(socket, UNPACK_DATA, 0, 0);
}

static void send_large_file(int socket)
{
	send_entry(socket, NAME, BINARY_ARCHIVE_FILE_MAX + 1);
}

static void send_endless_size(int socket)
{
	send_entry(socket, NAME, UINT64_MAX);
}

/* Names of entries, and whether a profile of "/usr/program", "library" and "[ext4]" needs them. */
static const struct {
	const char *name;
	bool wanted;
} entries[] = {
	{".build-id/01/23", true},
	{".build-id/01/23.debug", true},
	{".build-id/01/24", false},
	/* The debug file of another binary, which came before. */
	{".build-id/01/24.debug", false},
	/* One without a binary may be shared. */
	{".build-id/45/67.debug", true},
	{".build-id/45/67.debug", false}, /* again */
	{".build-id/.debug", true},
	{"build-id/45/67.debug", false},
	{".build-id/45/67.debu", false},
	{".debug", false},
	{"usr/program", true},
	{"program", true},
	{"/usr/program", false},
	{"usr/program2", false},
	{"library", false}, /* it has no directory */
	{"dir/other", false},
	{"other", true},
	{"proc/kallsyms", true},
	{"proc/modules", true},
	{"proc/kcore", false},
	{"sys/kernel/notes", true},
	{"sys/module/ext4/notes/.note.gnu.build-id", true},
	{"sys/module/xfs/notes/.note.gnu.build-id", false},
};

#define ENTRIES (sizeof(entries) / sizeof(entries[0]))

static void send_each_entry(int socket)
{
	char text[16];

	for (size_t i = 0; i < ENTRIES; i++) {
		snprintf(text, sizeof(text), "text%02zu", i);
		if (send_entry(socket, entries[i].name, 6) != entries[i].wanted)
			_exit(1);
		if (entries[i].wanted)
			send_bytes(socket, UNPACK_DATA, 0, text, 6);
	}
	send_header(socket, UNPACK_END, 0, 0);
}

/* Shared debug files up to 1 GiB in total. */
static void send_shared_files(int socket)
{
	if (!send_entry(socket, ".build-id/11/11.debug", ARCHIVE_SHARED_BYTES_MAX - 4) ||
	    send_entry(socket, ".build-id/22/22.debug", 5) ||
	    !send_entry(socket, ".build-id/33/33.debug", 4) ||
	    send_entry(socket, ".build-id/44/44.debug", 1))
		_exit(1);
	send_header(socket, UNPACK_END, 0, 0);
}

#define BIG 200000u
#define HOLE 50000u
#define MTIME INT64_C(1234567890)

/* Two parts of a file with a hole, in another order; the largest messages. */
static void send_sparse_file(int socket)
{
	static char bytes[UNPACK_BYTES_MAX];
	const struct unpack_message message = {.type = UNPACK_ENTRY,
					       .size = sizeof(NAME) - 1,
					       .number = BIG,
					       .seconds = MTIME,
					       .nanoseconds = 987654321};
	char reply;

	memset(bytes, 'x', sizeof(bytes));
	if (write(socket, &message, sizeof(message)) < 0 ||
	    write(socket, NAME, sizeof(NAME) - 1) < 0 || read(socket, &reply, 1) != 1 || !reply)
		_exit(1);
	send_bytes(socket, UNPACK_DATA, BIG - UNPACK_BYTES_MAX, bytes, UNPACK_BYTES_MAX);
	send_bytes(socket, UNPACK_DATA, HOLE, bytes, UNPACK_BYTES_MAX);
	send_header(socket, UNPACK_END, 0, 0);
}

static struct error error;

static int open_with(void (*function)(int socket), struct archive_reader **reader)
{
	struct profile *profile = empty_profile();
	struct sandbox_server server;
	int err;

	example_mapping(profile, 0, UINT64_MAX, 0, "/usr/program", "0123");
	example_mapping(profile, 0, UINT64_MAX, 0, "library", "");
	example_mapping(profile, 0, UINT64_MAX, 0, "else/other", "01/3");
	example_mapping(profile, UINT64_C(0xffffffffc0000000), UINT64_MAX, 0, "[ext4]", "");
	write_text(in_sandbox("archive"), "");
	worker = function;
	assert_int_equal(sandbox_server_start(&server, run_worker, &error), 0);
	err = archive_reader_open(&server, in_sandbox("archive"), profile, reader, &error);
	sandbox_server_stop(&server);
	profile_free(profile);
	return err;
}

static void files_are_received(void **state)
{
	struct archive_reader *reader;
	char text[8] = "";
	int fd;

	(void)state;
	assert_int_equal(open_with(send_file, &reader), 0);
	fd = archive_reader_file(reader, NAME);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text)), 4);
	assert_string_equal(text, "data");
	close(fd);
	assert_int_equal(archive_reader_file(reader, "unwanted"), -ENOENT);
	archive_reader_close(reader);
}

static void what_the_profile_needs_is_unpacked(void **state)
{
	struct archive_reader *reader;
	char text[16] = "", expected[16], path[PATH_MAX], other[PATH_MAX];
	int fd;

	(void)state;
	*error.text = '\0';
	assert_int_equal(open_with(send_each_entry, &reader), 0);
	for (size_t i = 0; i < ENTRIES; i++) {
		bool again = i > 0 && !strcmp(entries[i].name, entries[i - 1].name);

		fd = archive_reader_file(reader, entries[i].name);
		assert_int_equal(fd >= 0, entries[i].wanted || again);
		assert_int_equal(archive_reader_path(reader, entries[i].name, path), fd >= 0);
		if (fd < 0)
			continue;
		assert_int_equal(read(fd, text, sizeof(text)), 6);
		snprintf(expected, sizeof(expected), "text%02zu", i - again);
		assert_string_equal(text, expected);
		close(fd);
		assert_int_equal(access(path, R_OK), 0);
	}
	fd = archive_reader_debug_file(reader, "0123");
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text)), 6);
	assert_string_equal(text, "text01");
	close(fd);
	assert_int_equal(archive_reader_debug_file(reader, "0124"), -ENOENT);
	assert_int_equal(archive_reader_debug_file(reader, ""), -ENOENT);
	assert_int_equal(archive_reader_debug_file(reader, "01/23"), -ENOENT);
	assert_true(archive_reader_path(reader, "other", other));
	archive_reader_close(reader);
	/* The files end with the reader. */
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(access(other, F_OK), -1);
	archive_reader_close(NULL);
	assert_int_equal(open_with(send_shared_files, &reader), 0);
	archive_reader_close(reader);
	assert_int_equal(archive_reader_open(NULL, in_sandbox("missing"), NULL, &reader, &error),
			 -ENOENT);
}

static void expect_sparse_file(void)
{
	static char bytes[BIG + 1];
	struct archive_reader *reader;
	struct stat st;
	int fd;

	assert_int_equal(open_with(send_sparse_file, &reader), 0);
	fd = archive_reader_file(reader, NAME);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, BIG);
	assert_int_equal(st.st_mtim.tv_sec, MTIME);
	assert_int_equal(st.st_mtim.tv_nsec, 987654321);
	assert_int_equal(read(fd, bytes, sizeof(bytes)), BIG);
	for (size_t i = 0; i < BIG; i++) {
		bool is_hole =
			i < HOLE || (i >= HOLE + UNPACK_BYTES_MAX && i < BIG - UNPACK_BYTES_MAX);

		if (bytes[i] != (is_hole ? '\0' : 'x'))
			fail_msg("byte %zu", i);
	}
	close(fd);
	archive_reader_close(reader);
}

static void files_keep_holes_and_times(void **state)
{
	(void)state;
	expect_sparse_file();
}

static void files_may_be_written_in_parts(void **state)
{
	(void)state;
	written_max = 10000;
	expect_sparse_file();
	written_max = 0;
}

static void compromised_workers_are_refused(void **state)
{
	static void (*const workers[])(int socket) = {
		exit_at_once,
		crash,
		send_part_of_message,
		send_unknown_type,
		send_huge_message,
		send_data_first,
		send_unwanted_data,
		send_too_much_data,
		send_far_data,
		send_name_with_nul,
		send_data_of_name_twice,
		send_long_name,
		send_control_characters,
		send_entries_forever,
		send_entries_without_reading,
		send_data_forever,
		send_no_data_forever,
	};
	struct archive_reader *reader;

	(void)state;
	/* An earlier error number does not describe the end of the worker. */
	errno = EAGAIN;
	assert_int_equal(open_with(exit_at_once, &reader), -EBADMSG);
	assert_non_null(strstr(error.text, "has crashed"));
	for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
		*error.text = '\0';
		assert_int_equal(open_with(workers[i], &reader), -EBADMSG);
		assert_true(*error.text);
		assert_null(strpbrk(error.text, "\x1b\n"));
		assert_null(strstr(error.text, "\u202e"));
	}
}

static void sizes_are_limited(void **state)
{
	struct archive_reader *reader;

	(void)state;
	assert_int_equal(open_with(send_large_file, &reader), -EFBIG);
	assert_int_equal(open_with(send_endless_size, &reader), -EFBIG);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_are_received),
		TEST(what_the_profile_needs_is_unpacked),
		TEST(files_keep_holes_and_times),
		TEST(files_may_be_written_in_parts),
		TEST(compromised_workers_are_refused),
		TEST(sizes_are_limited),
	};

	return cmocka_run_group_tests_name("archive_reader", tests, NULL, NULL);
}
