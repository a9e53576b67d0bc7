// SPDX-License-Identifier: GPL-2.0
/* Jobs on their way to workers. */
#include "symbolize/job_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"

#define MANY 300000u

static int open_nothing(void *arg, unsigned int candidate, struct error *error)
{
	(void)arg, (void)candidate, (void)error;
	return -ENOENT;
}

/* Writes and reads a job, and checks that it is the same. */
static void assert_passed(const struct worker_job *job)
{
	struct received_job received;
	int fd = job_bytes_write(job);

	assert_true(fd >= 0);
	assert_int_equal(job_bytes_read(fd, &received), 0);
	assert_string_equal(received.job.path, job->path);
	assert_string_equal(received.job.build_id, job->build_id);
	assert_int_equal(received.job.count, job->count);
	assert_int_equal(received.job.code_start, job->code_start);
	assert_int_equal(!received.job.open, !job->open);
	assert_int_equal(received.job.offsets, job->offsets);
	assert_int_equal(received.job.is_module, job->is_module);
	assert_int_equal(received.job.is_perf_map, job->is_perf_map);
	assert_int_equal(received.job.perf_map_bytes, job->perf_map_bytes);
	assert_int_equal(received.job.syntax, job->syntax);
	if (job->count)
		assert_memory_equal(received.job.addresses, job->addresses,
				    job->count * sizeof(*job->addresses));
	if (job->open)
		assert_int_equal(received.job.open(NULL, 0, NULL), -ENOENT);
	job_bytes_free(&received);
	assert_null(received.addresses);
	close(fd);
}

static void each_field_is_passed(void **state)
{
	static uint64_t many[MANY];
	const uint64_t addresses[] = {1, UINT64_MAX, 0, 7};
	const struct worker_job plain = {
		.path = "/bin/program", .build_id = "0123", .addresses = addresses, .count = 4};
	struct worker_job job = plain;

	(void)state;
	assert_passed(&job);
	job.open = open_nothing;
	assert_passed(&job);
	job = plain;
	job.offsets = true;
	assert_passed(&job);
	job = plain;
	job.is_module = true;
	job.code_start = UINT64_C(0xffffffffc0000000);
	assert_passed(&job);
	job = plain;
	job.is_perf_map = true;
	job.perf_map_bytes = UINT64_C(1) << 40;
	assert_passed(&job);
	job = plain;
	job.syntax = SYNTAX_INTEL;
	assert_passed(&job);
	job = plain;
	job.count = 0;
	assert_passed(&job);
	for (size_t i = 0; i < MANY; i++)
		many[i] = i * i;
	job.addresses = many;
	job.count = MANY;
	assert_passed(&job);
}

static int writes_without_effect;

ssize_t write(int fd, const void *data, size_t size)
{
	if (writes_without_effect) {
		writes_without_effect--;
		return 0;
	}
	return syscall(SYS_write, fd, data, size);
}

/* It would be tried again for ever. */
static void write_without_effect_is_an_error(void **state)
{
	const uint64_t address = 1;
	const struct worker_job job = {
		.path = "p", .build_id = "", .addresses = &address, .count = 1};

	(void)state;
	writes_without_effect = 1;
	assert_int_equal(job_bytes_write(&job), -EIO);
	writes_without_effect = 0;
	assert_passed(&job);
}

/* Other processes have the same memory: none of them can change the job of a worker. */
static void job_cannot_be_changed(void **state)
{
	const uint64_t address = 1;
	const struct worker_job job = {
		.path = "p", .build_id = "", .addresses = &address, .count = 1};
	int fd = job_bytes_write(&job);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, 0), -1);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
}

/* What job_bytes_write() writes, as in job_bytes.c. */
static struct {
	uint64_t count, code_start, perf_map_bytes;
	uint32_t flags, syntax;
	char build_id[BUILD_ID_SIZE];
	char path[PATH_MAX];
	uint64_t addresses[3];
} bytes;

#define HEAD_SIZE offsetof(__typeof__(bytes), addresses)

static int read_bytes_of(size_t size)
{
	int fd = memfd_create("job", MFD_CLOEXEC), err;
	struct received_job received;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &bytes, size), size);
	err = job_bytes_read(fd, &received);
	if (!err)
		job_bytes_free(&received);
	close(fd);
	return err;
}

static void invalid_jobs_are_refused(void **state)
{
	(void)state;
	bytes.count = 2;
	assert_int_equal(read_bytes_of(HEAD_SIZE + 2 * sizeof(uint64_t)), 0);
	assert_int_equal(read_bytes_of(HEAD_SIZE + 2 * sizeof(uint64_t) - 1), -EBADMSG);
	assert_int_equal(read_bytes_of(HEAD_SIZE + 2 * sizeof(uint64_t) + 1), -EBADMSG);
	assert_int_equal(read_bytes_of(HEAD_SIZE + 3 * sizeof(uint64_t)), -EBADMSG);
	assert_int_equal(read_bytes_of(HEAD_SIZE - 1), -EBADMSG);
	assert_int_equal(read_bytes_of(0), -EBADMSG);
	/* The size equals the file's, modulo 2^64. */
	bytes.count = UINT64_C(1) << 61 | 2;
	assert_int_equal(read_bytes_of(HEAD_SIZE + 2 * sizeof(uint64_t)), -EBADMSG);
	bytes.count = 0;
	assert_int_equal(read_bytes_of(HEAD_SIZE), 0);
	memset(bytes.build_id, 'a', sizeof(bytes.build_id));
	assert_int_equal(read_bytes_of(HEAD_SIZE), -EBADMSG);
	bytes.build_id[sizeof(bytes.build_id) - 1] = '\0';
	assert_int_equal(read_bytes_of(HEAD_SIZE), 0);
	memset(bytes.path, 'a', sizeof(bytes.path));
	assert_int_equal(read_bytes_of(HEAD_SIZE), -EBADMSG);
	bytes.path[sizeof(bytes.path) - 1] = '\0';
	assert_int_equal(read_bytes_of(HEAD_SIZE), 0);
	assert_int_equal(job_bytes_read(-1, &(struct received_job){.path = ""}), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_is_passed),
		cmocka_unit_test(write_without_effect_is_an_error),
		cmocka_unit_test(job_cannot_be_changed),
		cmocka_unit_test(invalid_jobs_are_refused),
	};

	return cmocka_run_group_tests_name("job_bytes", tests, NULL, NULL);
}
