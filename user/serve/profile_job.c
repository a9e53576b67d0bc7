// SPDX-License-Identifier: GPL-2.0
#include "serve/profile_job.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/error.h"
#include "sandbox/child.h"

static void *end_when_killed(void *arg)
{
	struct profile_job_result *result = arg;

	while (sem_wait(&result->end))
		;
	_exit(1);
}

/* The process that serves HTTP may send no signals. Without the thread, the limits end the job. */
static void await_kill(struct profile_job_result *result)
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, end_when_killed, result))
		pthread_detach(thread);
}

static void run(const struct profile_job *job, profile_job_function *work, void *arg)
{
	struct error error = {""};
	struct profile_job_result *result = job->result;

	result->err = work(arg, job->file, result, &error);
	snprintf(result->error, sizeof(result->error), "%.*s", (int)sizeof(result->error) - 1,
		 error.text);
	result->done = true;
}

int profile_job_start(struct profile_job *job, profile_job_function *work, void *arg)
{
	*job = (struct profile_job){.file = memfd_create("answer", MFD_CLOEXEC)};
	job->result = mmap(NULL, sizeof(*job->result), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job->result == MAP_FAILED)
		job->result = NULL;
	if (job->result)
		sem_init(&job->result->end, 1, 0);
	job->pid = job->file < 0 || !job->result ? -1 : child_fork(CHILD_JOB);
	if (!job->pid) {
		await_kill(job->result);
		run(job, work, arg);
		_exit(0);
	}
	if (job->pid > 0)
		return 0;
	profile_job_release(job);
	return -ENOMEM;
}

bool profile_job_has_ended(struct profile_job *job)
{
	if (job->pid && waitpid(job->pid, NULL, WNOHANG) == job->pid)
		job->pid = 0;
	return !job->pid;
}

void profile_job_kill(struct profile_job *job)
{
	if (job->result)
		sem_post(&job->result->end);
}

void profile_job_release(struct profile_job *job)
{
	if (job->file >= 0)
		close(job->file);
	if (job->result)
		munmap(job->result, sizeof(*job->result));
	*job = (struct profile_job){.file = -1};
}
