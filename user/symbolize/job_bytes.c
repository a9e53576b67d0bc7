// SPDX-License-Identifier: GPL-2.0
#include "symbolize/job_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum job_flags {
	JOB_HAS_FILE = 1 << 0,
	JOB_OFFSETS = 1 << 1,
	JOB_MODULE = 1 << 2,
	JOB_PERF_MAP = 1 << 3,
};

/* The addresses follow. */
struct job_head {
	uint64_t count, code_start, perf_map_bytes;
	uint32_t flags; /* enum job_flags */
	uint32_t syntax; /* enum disassembler_syntax */
	char build_id[BUILD_ID_SIZE];
	char path[PATH_MAX];
};

static int job_bytes_write_all(int fd, const void *bytes, size_t size)
{
	const char *next = bytes;
	ssize_t done;

	for (; size; size -= (size_t)done, next += done) {
		done = TEMP_FAILURE_RETRY(write(fd, next, size));
		if (done <= 0)
			return done < 0 ? -errno : -EIO;
	}
	return 0;
}

int job_bytes_write(const struct worker_job *job)
{
	struct job_head head = {
		.count = job->count,
		.code_start = job->code_start,
		.perf_map_bytes = job->perf_map_bytes,
		.syntax = job->syntax,
	};
	int fd = memfd_create("job", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	head.flags = (job->open ? JOB_HAS_FILE : 0u) | (job->offsets ? JOB_OFFSETS : 0u) |
		     (job->is_module ? JOB_MODULE : 0u) | (job->is_perf_map ? JOB_PERF_MAP : 0u);
	snprintf(head.build_id, sizeof(head.build_id), "%s", job->build_id);
	snprintf(head.path, sizeof(head.path), "%s", job->path);
	err = job_bytes_write_all(fd, &head, sizeof(head));
	if (!err)
		err = job_bytes_write_all(fd, job->addresses, job->count * sizeof(*job->addresses));
	if (!err &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int read_addresses(int fd, size_t count, uint64_t **addresses)
{
	size_t size = count * sizeof(**addresses), done = 0;
	ssize_t got = 1;

	*addresses = malloc(size);
	if (!*addresses)
		return -ENOMEM;
	for (; done < size && got > 0; done += got > 0 ? (size_t)got : 0)
		got = pread(fd, (char *)*addresses + done, size - done,
			    (off_t)(sizeof(struct job_head) + done));
	if (done == size)
		return 0;
	free(*addresses);
	*addresses = NULL;
	return -EBADMSG;
}

/* A function that returns an error: only its presence matters in a worker. */
static int not_here(void *arg, unsigned int candidate, struct error *error)
{
	(void)arg, (void)candidate, (void)error;
	return -ENOENT;
}

int job_bytes_read(int fd, struct received_job *received)
{
	struct job_head head;
	struct stat st;
	int err;

	if (fstat(fd, &st) || pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
	    head.count > SIZE_MAX / (2 * sizeof(uint64_t)) ||
	    (uint64_t)st.st_size != sizeof(head) + head.count * sizeof(uint64_t) ||
	    head.build_id[sizeof(head.build_id) - 1] || head.path[sizeof(head.path) - 1])
		return -EBADMSG;
	err = read_addresses(fd, head.count, &received->addresses);
	if (err)
		return err;
	strcpy(received->path, head.path);
	strcpy(received->build_id, head.build_id);
	received->job = (struct worker_job){
		.path = received->path,
		.build_id = received->build_id,
		.addresses = received->addresses,
		.count = head.count,
		.open = head.flags & JOB_HAS_FILE ? not_here : NULL,
		.offsets = head.flags & JOB_OFFSETS,
		.is_module = head.flags & JOB_MODULE,
		.is_perf_map = head.flags & JOB_PERF_MAP,
		.code_start = head.code_start,
		.perf_map_bytes = head.perf_map_bytes,
		.syntax = head.syntax,
	};
	return 0;
}

void job_bytes_free(struct received_job *received)
{
	free(received->addresses);
	received->addresses = NULL;
}
