// SPDX-License-Identifier: GPL-2.0
#include "mappings/file_opener.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "debuginfo/elf_headers.h"
#include "debuginfo/file_cache.h"
#include "lib/clock.h"
#include "lib/sparse_copy.h"
#include "lib/thread_state.h"
#include "mappings/binary_store.h"

/* Why a job is given up that was not begun. */
#define HUNG "too many files have hung"

/* A thread. */
struct runner {
	struct file_opener *opener;
	pthread_t thread;
	pid_t tid; /* 0: it has not begun */
	struct file_job *job; /* the current one; NULL: none */
	uint64_t device; /* of `job` */
	uint64_t progress; /* bytes copied; atomic */
	/* When watch_job() last saw progress, and how much. */
	int64_t seen_at; /* ns */
	uint64_t seen_progress;
	/* The same when the job began. */
	int64_t begun_at;
	uint64_t begun_progress;
	/* Of this job, whose thread got no CPU: see extend_job(). */
	unsigned int waits;
	int64_t sleeps;
	bool is_run; /* the job needs only the lock; atomic */
	bool given_up; /* it hangs: another thread has its place */
};

struct file_opener {
	struct file_opener_config config;
	char *root;
	pthread_mutex_t lock; /* of all below, and of the runners except `progress` and `is_run` */
	pthread_cond_t changed; /* the queue, `stop`, or a job that is done */
	struct file_job *queue, **queue_end;
	struct file_job *done;
	struct runner *runner; /* serves the queue; NULL: none */
	struct runner *stuck[FILE_OPENER_STUCK_MAX];
	unsigned int stuck_count;
	bool stop; /* the runner must end once the queue is empty */
	bool freed; /* the last thread frees the opener */
};

struct file_job *file_job_new(enum file_job_kind kind, uint32_t file)
{
	struct file_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->kind = kind;
	job->file = file;
	job->fd = -1;
	return job;
}

void file_job_free(struct file_job *job)
{
	if (!job)
		return;
	if (job->fd >= 0)
		close(job->fd);
	free(job->path);
	free(job->build_id);
	free(job);
}

static void free_jobs(struct file_job *job)
{
	struct file_job *next;

	for (; job; job = next) {
		next = job->next;
		file_job_free(job);
	}
}

struct file_opener *file_opener_new(const struct file_opener_config *config)
{
	struct file_opener *opener = calloc(1, sizeof(*opener));

	if (!opener)
		return NULL;
	opener->config = *config;
	opener->root = strdup(config->root);
	if (!opener->root) {
		free(opener);
		return NULL;
	}
	if (!opener->config.timeout_s)
		opener->config.timeout_s =
			config->idle ? FILE_OPENER_IDLE_TIMEOUT_S : FILE_OPENER_TIMEOUT_S;
	opener->queue_end = &opener->queue;
	pthread_mutex_init(&opener->lock, NULL);
	pthread_cond_init(&opener->changed, NULL);
	return opener;
}

static void file_opener_destroy(struct file_opener *opener)
{
	binary_store_free(opener->config.store);
	pthread_cond_destroy(&opener->changed);
	pthread_mutex_destroy(&opener->lock);
	free_jobs(opener->done);
	free(opener->root);
	free(opener);
}

/* Jobs, in the thread and without the lock */

/* Opens the file at the first place where it is identical. */
static int open_place(const struct file_opener *opener, const struct file_job *job)
{
	const struct file_place place = {
		.path = job->path ? job->path : "",
		.pid = job->pid,
		.start = job->start,
		.end = job->end,
	};

	for (unsigned int i = 0; i < FILE_PLACES; i++) {
		int fd = find_mapped_file(opener->root, &place, i);

		if (fd >= 0 && is_identical_file(&job->identity, fd))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -ENOENT;
}

/* Opens the kernel's file, which must be a regular one. */
static int open_id(const struct file_opener *opener, uint64_t id)
{
	int fd = opener->config.open(id, opener->config.arg);
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	return -EINVAL;
}

static void stamp_file(struct file_stamp *stamp, int fd)
{
	struct stat st;

	*stamp = (struct file_stamp){0};
	if (fstat(fd, &st))
		return;
	stamp->device = st.st_dev;
	stamp->inode = st.st_ino;
	stamp->size = (uint64_t)st.st_size;
	stamp->changed_s = st.st_ctim.tv_sec;
	stamp->changed_ns = st.st_ctim.tv_nsec;
	stamp->is_settled = file_key_is_settled(stamp->changed_s, stamp->changed_ns);
}

/* A file that can't be read may be one. */
static bool begins_as_elf(int fd)
{
	char magic[SELFMAG];
	ssize_t size = pread(fd, magic, sizeof(magic), 0);

	return size < 0 || (size == SELFMAG && !memcmp(magic, ELFMAG, SELFMAG));
}

static int run_open(const struct file_opener *opener, struct file_job *job)
{
	int fd = job->id ? open_id(opener, job->id) : -ENOENT;

	job->fd = fd;
	if (fd < 0 && !(job->id && job->kind == FILE_JOB_OPEN_FOR_TABLE))
		job->fd = open_place(opener, job);
	if (job->fd < 0)
		return error_errno(&job->problem, job->id ? -fd : ENOENT, "can't be opened");
	file_owner_read(&job->owner, job->fd);
	stamp_file(&job->stamp, job->fd);
	job->is_no_elf = !begins_as_elf(job->fd);
	return 0;
}

/* The copy gets into the hands of workers that may be compromised, so that it must not change. */
static int run_copy(struct file_job *job, uint64_t *progress)
{
	int copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st = {0};
	int err = copy < 0 || fstat(job->fd, &st) ? -errno : 0;

	/* The memory for the copy was reserved by the size of the file when it was mapped. */
	if (!err && (uint64_t)st.st_size != job->identity.size)
		err = -ESTALE;
	if (!err)
		err = sparse_copy(copy, job->fd, st.st_size, progress);
	if (!err &&
	    fcntl(copy, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		err = -errno;
	if (!err) {
		close(job->fd);
		job->fd = copy;
		return 0;
	}
	if (copy >= 0)
		close(copy);
	return error_errno(&job->problem, -err, "can't be copied");
}

/* Reads the build ID from the file, in a worker. */
static int file_opener_read_build_id(const struct file_opener *opener, struct file_job *job)
{
	struct elf_headers *headers = calloc(1, sizeof(*headers));
	int err = -ENOMEM;

	if (headers)
		err = worker_read_headers(opener->config.sandbox, job->fd, headers, &job->problem);
	/* -EINVAL: it is no ELF file. */
	if (err == -EINVAL || (!err && !*headers->build_id))
		err = error_set(&job->problem, ENODATA, "no build ID");
	if (!err)
		job->build_id = strdup(headers->build_id);
	free(headers);
	if (err == -ENOMEM || (!err && !job->build_id))
		err = error_errno(&job->problem, ENOMEM, "can't be saved");
	return err;
}

static int run_save(const struct file_opener *opener, struct file_job *job, uint64_t *progress)
{
	int err = job->build_id ? 0 : file_opener_read_build_id(opener, job);

	return err ? err
		   : binary_store_add(opener->config.store, job->build_id, job->fd, &job->owner,
				      progress, &job->problem);
}

static int run_job(const struct file_opener *opener, struct file_job *job, uint64_t *progress)
{
	switch (job->kind) {
	case FILE_JOB_OPEN:
	case FILE_JOB_OPEN_FOR_TABLE:
		return run_open(opener, job);
	case FILE_JOB_COPY:
		return run_copy(job, progress);
	case FILE_JOB_SAVE:
		break;
	}
	return run_save(opener, job, progress);
}

/* The thread */

/* Waits for the next job. Returns false if the thread must end. With the lock. */
static bool next_job(struct runner *runner)
{
	struct file_opener *opener = runner->opener;
	struct file_job *job;

	while (!opener->queue && !opener->stop)
		pthread_cond_wait(&opener->changed, &opener->lock);
	job = opener->queue;
	if (!job)
		return false;
	opener->queue = job->next;
	if (!opener->queue)
		opener->queue_end = &opener->queue;
	runner->job = job;
	runner->device = job->identity.device;
	runner->begun_at = runner->seen_at = now_ns(CLOCK_MONOTONIC);
	runner->begun_progress = __atomic_load_n(&runner->progress, __ATOMIC_RELAXED);
	runner->waits = 1;
	runner->sleeps = THREAD_SLEEPS_UNKNOWN;
	runner->is_run = false;
	return true;
}

static void add_done(struct file_opener *opener, struct file_job *job)
{
	job->next = opener->done;
	opener->done = job;
	if (job->kind == FILE_JOB_OPEN_FOR_TABLE && opener->config.event)
		eventfd_write(opener->config.event, 1);
	pthread_cond_broadcast(&opener->changed);
}

/* The last step of a thread that was given up, and has resumed. */
static void end_stuck(struct runner *runner)
{
	struct file_opener *opener = runner->opener;
	bool is_last;

	for (unsigned int i = 0; i < opener->stuck_count; i++) {
		if (opener->stuck[i] == runner)
			opener->stuck[i] = opener->stuck[--opener->stuck_count];
	}
	is_last = opener->freed && !opener->stuck_count;
	pthread_mutex_unlock(&opener->lock);
	file_job_free(runner->job);
	free(runner);
	if (is_last)
		file_opener_destroy(opener);
}

static void *file_opener_run(void *arg)
{
	const struct sched_param no_priority = {0};
	struct runner *runner = arg;
	struct file_opener *opener = runner->opener;

	if (opener->config.idle)
		pthread_setschedparam(pthread_self(), SCHED_IDLE, &no_priority);
	pthread_mutex_lock(&opener->lock);
	runner->tid = gettid();
	while (next_job(runner)) {
		pthread_mutex_unlock(&opener->lock);
		runner->job->err = run_job(opener, runner->job, &runner->progress);
		__atomic_store_n(&runner->is_run, true, __ATOMIC_RELAXED);
		pthread_mutex_lock(&opener->lock);
		if (runner->given_up) {
			end_stuck(runner);
			return NULL;
		}
		add_done(opener, runner->job);
		runner->job = NULL;
	}
	pthread_mutex_unlock(&opener->lock);
	return NULL;
}

/* Starts a thread if there is none. Returns 0 or -ENOMEM. With the lock. */
static int start_runner(struct file_opener *opener)
{
	struct runner *runner;

	if (opener->runner || opener->stuck_count == FILE_OPENER_STUCK_MAX)
		return 0;
	runner = calloc(1, sizeof(*runner));
	if (!runner)
		return -ENOMEM;
	runner->opener = opener;
	/* Without a thread now, file_opener_watch() tries again. */
	if (pthread_create(&runner->thread, NULL, file_opener_run, runner)) {
		free(runner);
		return 0;
	}
	opener->runner = runner;
	return 0;
}

/* Files that hang */

static unsigned int stuck_on(const struct file_opener *opener, uint64_t device)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < opener->stuck_count; i++)
		count += opener->stuck[i]->device == device;
	return count;
}

static void fail_job(struct file_opener *opener, struct file_job *job, const char *why)
{
	job->err = error_set(&job->problem, ETIMEDOUT, "%s", why);
	add_done(opener, job);
}

static void fail_queue(struct file_opener *opener, const char *why)
{
	struct file_job *job = opener->queue, *next;

	opener->queue = NULL;
	opener->queue_end = &opener->queue;
	for (; job; job = next) {
		next = job->next;
		fail_job(opener, job, why);
	}
}

/* Adds a job to the queue, before jobs of devices on which a file hangs. */
static void file_opener_enqueue(struct file_opener *opener, struct file_job *job)
{
	struct file_job **at = &opener->queue;
	bool hangs = opener->stuck_count && stuck_on(opener, job->identity.device);

	if (!opener->stuck_count || hangs)
		at = opener->queue_end;
	while (*at && !stuck_on(opener, (*at)->identity.device))
		at = &(*at)->next;
	job->next = *at;
	*at = job;
	if (!job->next)
		opener->queue_end = &job->next;
}

/*
 * After a file has hung on a device: moves its other files to the end of the queue, or gives them
 * up if too many have hung.
 */
static void defer_device(struct file_opener *opener, uint64_t device)
{
	struct file_job *job = opener->queue, *next;

	opener->queue = NULL;
	opener->queue_end = &opener->queue;
	for (; job; job = next) {
		next = job->next;
		if (job->identity.device == device &&
		    stuck_on(opener, device) >= FILE_OPENER_STUCK_MAX_PER_DEVICE)
			fail_job(opener, job, "other files of its file system have hung");
		else
			file_opener_enqueue(opener, job);
	}
}

static int64_t timeout_ns(const struct file_opener *opener)
{
	return (int64_t)opener->config.timeout_s * NS_PER_SECOND;
}

/* Returns whether the current job hangs, or is so slow that the others would wait for ever. */
static bool is_stuck(const struct file_opener *opener, struct runner *runner)
{
	uint64_t progress = __atomic_load_n(&runner->progress, __ATOMIC_RELAXED);
	uint64_t seconds = (progress - runner->begun_progress) / FILE_OPENER_RATE_MIN;
	int64_t now = now_ns(CLOCK_MONOTONIC);

	if (progress != runner->seen_progress) {
		runner->seen_progress = progress;
		runner->seen_at = now;
	}
	return now - runner->seen_at >= timeout_ns(opener) ||
	       now - runner->begun_at - timeout_ns(opener) >= (int64_t)seconds * NS_PER_SECOND;
}

/*
 * Begins the current job's time again if it was too short because the thread got no CPU: a busy
 * machine does not look like a file system that hangs. A copy has more time already. Returns
 * whether it has. With the lock.
 */
static bool extend_job(struct runner *runner)
{
	const bool opens =
		runner->job->kind == FILE_JOB_OPEN || runner->job->kind == FILE_JOB_OPEN_FOR_TABLE;

	if (!opens || runner->waits == FILE_OPENER_WAITS_MAX ||
	    !(__atomic_load_n(&runner->is_run, __ATOMIC_RELAXED) ||
	      thread_awaits_cpu(runner->tid, &runner->sleeps)))
		return false;
	runner->waits++;
	runner->begun_at = runner->seen_at = now_ns(CLOCK_MONOTONIC);
	runner->begun_progress = runner->seen_progress;
	return true;
}

/* Gives the current job up. With the lock. */
static void file_opener_give_up(struct file_opener *opener)
{
	struct runner *runner = opener->runner;
	struct file_job *substitute;

	substitute = file_job_new(runner->job->kind, runner->job->file);
	if (!substitute)
		return;
	runner->given_up = true;
	pthread_detach(runner->thread);
	opener->runner = NULL;
	opener->stuck[opener->stuck_count++] = runner;
	fail_job(opener, substitute, "its file system has hung");
	defer_device(opener, runner->device);
	if (opener->stuck_count == FILE_OPENER_STUCK_MAX)
		fail_queue(opener, HUNG);
	else if (opener->queue)
		start_runner(opener);
}

/* With the lock. */
static void watch_job(struct file_opener *opener)
{
	struct runner *runner = opener->runner;

	if (runner && runner->job && is_stuck(opener, runner) && !extend_job(runner))
		file_opener_give_up(opener);
}

void file_opener_watch(struct file_opener *opener)
{
	pthread_mutex_lock(&opener->lock);
	watch_job(opener);
	/* A thread that hung may have resumed. */
	if (opener->queue)
		start_runner(opener);
	pthread_mutex_unlock(&opener->lock);
}

/* The caller's functions */

int file_opener_add(struct file_opener *opener, struct file_job *job)
{
	int err;

	pthread_mutex_lock(&opener->lock);
	err = start_runner(opener);
	if (err)
		file_job_free(job);
	else if (!opener->runner && opener->stuck_count == FILE_OPENER_STUCK_MAX)
		fail_job(opener, job, HUNG);
	else if (opener->stuck_count &&
		 stuck_on(opener, job->identity.device) >= FILE_OPENER_STUCK_MAX_PER_DEVICE)
		fail_job(opener, job, "other files of its file system have hung");
	else
		file_opener_enqueue(opener, job);
	pthread_cond_broadcast(&opener->changed);
	pthread_mutex_unlock(&opener->lock);
	return err;
}

struct file_job *file_opener_take(struct file_opener *opener)
{
	struct file_job *done;

	pthread_mutex_lock(&opener->lock);
	done = opener->done;
	opener->done = NULL;
	pthread_mutex_unlock(&opener->lock);
	return done;
}

void file_opener_cancel(struct file_opener *opener)
{
	pthread_mutex_lock(&opener->lock);
	free_jobs(opener->queue);
	opener->queue = NULL;
	opener->queue_end = &opener->queue;
	pthread_mutex_unlock(&opener->lock);
}

/* Waits for a job that is done, or until the current one may hang. With the lock. */
static void wait_for_job(struct file_opener *opener)
{
	int64_t end = opener->runner->seen_at + timeout_ns(opener);
	const struct timespec deadline = {
		.tv_sec = end / NS_PER_SECOND,
		.tv_nsec = end % NS_PER_SECOND,
	};

	pthread_cond_clockwait(&opener->changed, &opener->lock, CLOCK_MONOTONIC, &deadline);
	watch_job(opener);
}

void file_opener_finish(struct file_opener *opener)
{
	int64_t end = now_ns(CLOCK_MONOTONIC) + FILE_OPENER_FINISH_FACTOR * timeout_ns(opener);

	pthread_mutex_lock(&opener->lock);
	while (opener->runner && (opener->queue || opener->runner->job)) {
		if (now_ns(CLOCK_MONOTONIC) >= end) {
			fail_queue(opener, "the other files took too long");
			if (opener->runner->job)
				file_opener_give_up(opener);
			break;
		}
		if (!opener->runner->job)
			opener->runner->seen_at = now_ns(CLOCK_MONOTONIC);
		wait_for_job(opener);
	}
	fail_queue(opener, HUNG);
	pthread_mutex_unlock(&opener->lock);
}

void file_opener_free(struct file_opener *opener)
{
	struct runner *runner;
	bool is_last;

	if (!opener)
		return;
	file_opener_cancel(opener);
	file_opener_finish(opener);
	pthread_mutex_lock(&opener->lock);
	opener->stop = true;
	pthread_cond_broadcast(&opener->changed);
	runner = opener->runner;
	pthread_mutex_unlock(&opener->lock);
	if (runner)
		pthread_join(runner->thread, NULL);
	free(runner);
	pthread_mutex_lock(&opener->lock);
	opener->freed = true;
	is_last = !opener->stuck_count;
	pthread_mutex_unlock(&opener->lock);
	if (is_last)
		file_opener_destroy(opener);
}
