// SPDX-License-Identifier: GPL-2.0
#include "unwind/job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "sandbox/fork_server.h"

/* The result is a summary, followed by the table. */
#define RESULT_MAX (sizeof(struct unwind_summary) + UNWIND_TABLE_MAX)

/* The worker */

#define KEPT_CHUNK (32 << 20)

/* Memory that was freed is used again, instead of pages that the kernel has to clear. */
static void keep_freed_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, KEPT_CHUNK);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

static bool unwind_job_write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;
	ssize_t done = 1;

	for (; size && done > 0; size -= (size_t)done, at += done) {
		done = TEMP_FAILURE_RETRY(write(fd, at, size));
		if (done <= 0)
			return false;
	}
	return true;
}

void run_unwind_worker(const int fds[], size_t count)
{
	struct stackbeat_unwind_table *table;
	struct unwind_summary summary;

	if (count != 2)
		return;
	keep_freed_memory();
	summary = unwind_compile(fds[0], &table);
	if (unwind_job_write_all(fds[1], &summary, sizeof(summary)))
		unwind_job_write_all(fds[1], table, summary.size);
	free(table);
}

/* The parent */

/* The size is fixed: a worker can't fill the memory of the machine. */
static int unwind_job_create_result(void)
{
	int fd = memfd_create("unwind", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, RESULT_MAX) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int unwind_job_start(struct unwind_job *job, const struct sandbox_server *server, int fd,
		     bool is_urgent)
{
	const enum worker_kind kind = is_urgent ? WORKER_URGENT_UNWIND_TABLE : WORKER_UNWIND_TABLE;

	*job = (struct unwind_job){.result = unwind_job_create_result()};
	if (job->result < 0)
		return job->result;
	job->lifeline = sandbox_worker_start(server, kind, (int[]){fd, job->result}, 2);
	job->deadline = now_ns(CLOCK_MONOTONIC) + UNWIND_JOB_NS;
	if (job->lifeline >= 0) {
		sandbox_worker_limit(job->lifeline, UNWIND_JOB_CPU_NS, UNWIND_JOB_HANG_NS);
		return 0;
	}
	close(job->result);
	return job->lifeline;
}

static bool unwind_job_read_all(int fd, void *bytes, size_t size, size_t offset)
{
	char *at = bytes;
	ssize_t got;

	while (size) {
		got = TEMP_FAILURE_RETRY(pread(fd, at, size, (off_t)offset));
		if (got <= 0)
			return false;
		at += got;
		size -= (size_t)got;
		offset += (size_t)got;
	}
	return true;
}

/* Copies the result of a worker that has ended: nobody can change it any more. */
static int unwind_job_read_result(int fd, struct unwind_summary *summary,
				  struct stackbeat_unwind_table **table)
{
	if (!unwind_job_read_all(fd, summary, sizeof(*summary), 0) ||
	    !unwind_summary_is_valid(summary))
		return -EBADMSG;
	if (!summary->size)
		return 0;
	*table = malloc(summary->size);
	if (!*table)
		return -ENOMEM;
	if (unwind_job_read_all(fd, *table, summary->size, sizeof(*summary)) &&
	    stackbeat_unwind_check(*table, summary->size))
		return 0;
	free(*table);
	*table = NULL;
	return -EBADMSG;
}

/* Of a worker that has ended without a result. */
static int error_of(int status)
{
	if (status == WORKER_STATUS_UNKNOWN)
		return -EAGAIN;
	if (sandbox_status_is_cpu_limit(status))
		return -ETIME;
	if (sandbox_status_is_hang(status))
		return -ETIMEDOUT;
	/* Workers are the first victims when the machine is out of memory. */
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? -ECANCELED : -EBADMSG;
}

int unwind_job_finish(struct unwind_job *job, struct unwind_summary *summary,
		      struct stackbeat_unwind_table **table)
{
	int status = 0, err = -ETIMEDOUT;

	*table = NULL;
	*summary = (struct unwind_summary){0};
	if (sandbox_worker_exited(job->lifeline, &status))
		err = status ? error_of(status)
			     : unwind_job_read_result(job->result, summary, table);
	/* A worker that has not exited: another process may have inherited the lifeline. */
	sandbox_worker_kill(job->lifeline);
	close(job->lifeline);
	close(job->result);
	*job = (struct unwind_job){.lifeline = -1, .result = -1};
	return err;
}
