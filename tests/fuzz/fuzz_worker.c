// SPDX-License-Identifier: GPL-2.0
/*
 * A worker, with its opener in a thread. The first byte of the input has flags. JOB_RAW: the rest
 * is the job as the worker gets it. Otherwise 16 bytes follow, two numbers for addresses and the
 * start of the code, and the file of the job.
 */
#include "file.h"

#include "symbolize/job_bytes.h"
#include "symbolize/opener.h"
#include "symbolize/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

#define JOB_RAW 0x80u
#define HEAD_SIZE (1 + 2 * sizeof(uint64_t))

struct served {
	const struct worker_job *job;
	int socket;
};

static int open_input(void *arg, unsigned int candidate, struct error *error)
{
	(void)error;
	return candidate ? -ENOENT : fcntl(*(const int *)arg, F_DUPFD_CLOEXEC, 0);
}

static void *serve(void *arg)
{
	static const char *const directories[] = {"/nonexistent"};
	const struct served *served = arg;
	uint32_t owner = OWNER_UNKNOWN;
	const struct opener opener = {
		.job = served->job, .paths = {directories, 1}, .owner = &owner};

	opener_serve(&opener, served->socket);
	return NULL;
}

static int raw_job(const uint8_t *data, size_t size)
{
	int fd = memfd_create("job", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t numbers[2] = {0}, addresses[3] = {0};
	struct worker_job job = {.path = "/bin/fuzz", .build_id = "", .open = open_input};
	struct served served = {.job = &job};
	int ends[2], fds[3], file;
	pthread_t thread;

	if (size < HEAD_SIZE)
		return 0;
	memcpy(numbers, data + 1, sizeof(numbers));
	addresses[0] = numbers[0];
	addresses[1] = 0x401000;
	addresses[2] = numbers[0] + numbers[1];
	job.addresses = addresses;
	job.count = 3;
	job.offsets = data[0] & 1;
	job.is_module = data[0] & 2;
	job.is_perf_map = data[0] & 4;
	job.code_start = data[0] & 8 ? numbers[1] : 0;
	job.build_id = data[0] & 16 ? "0123456789abcdef" : "";
	file = fuzz_file(data + HEAD_SIZE, size - HEAD_SIZE);
	job.arg = &file;
	fds[WORKER_FD_JOB] =
		data[0] & JOB_RAW ? raw_job(data + 1, size - 1) : job_bytes_write(&job);
	fds[WORKER_FD_OUTPUT] = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fds[WORKER_FD_JOB] < 0 || fds[WORKER_FD_OUTPUT] < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		abort();
	fds[WORKER_FD_OPENER] = ends[0];
	served.socket = ends[1];
	if (pthread_create(&thread, NULL, serve, &served))
		abort();
	worker_main(WORKER_SYMBOLIZE, fds, 3);
	close(ends[0]);
	pthread_join(thread, NULL);
	close(ends[1]);
	close(fds[WORKER_FD_JOB]);
	return 0;
}
