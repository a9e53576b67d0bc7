// SPDX-License-Identifier: GPL-2.0
/* The thread that opens and copies files: what it refuses, and what it does when it can't work. */
#include "process/file_opener.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sandbox.h"

static struct file_opener *opener;
static bool no_threads;

/* Replaces libc's function. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *arg),
		   void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return no_threads ? EAGAIN : real(thread, attributes, run, arg);
}

/* Seconds by which the test is ahead. */
static time_t clock_error;

/* Replaces libc's function. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = (int)syscall(SYS_clock_gettime, clock, time);

	time->tv_sec += __atomic_load_n(&clock_error, __ATOMIC_RELAXED);
	return result;
}

static pthread_mutex_t hang_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hang_changed = PTHREAD_COND_INITIALIZER;
static bool hangs;

static int open_or_hang(uint64_t id, void *arg)
{
	(void)arg;
	pthread_mutex_lock(&hang_lock);
	while (hangs && id)
		pthread_cond_wait(&hang_changed, &hang_lock);
	pthread_mutex_unlock(&hang_lock);
	return open(in_sandbox("file"), O_RDONLY | O_CLOEXEC);
}

static int set_up(void **state)
{
	const struct file_opener_config config = {
		.root = "",
		.open = open_or_hang,
		.timeout_s = 1,
	};

	if (make_sandbox(state))
		return -1;
	write_text(in_sandbox("file"), "text");
	opener = file_opener_new(&config);
	return opener ? 0 : -1;
}

static int tear_down(void **state)
{
	file_opener_free(opener);
	return remove_sandbox(state);
}

static void add_open(uint64_t id)
{
	struct file_job *job = file_job_new(FILE_JOB_OPEN, (uint32_t)id);

	assert_non_null(job);
	job->id = id;
	job->identity.device = id;
	assert_int_equal(file_opener_add(opener, job), 0);
}

/* Takes the only job that is done. Returns its error. */
static int take_one(void)
{
	struct file_job *job = file_opener_take(opener);
	int err;

	assert_non_null(job);
	assert_null(job->next);
	err = job->err;
	file_job_free(job);
	return err;
}

static int copy_of_size(uint64_t size)
{
	struct file_job *job = file_job_new(FILE_JOB_COPY, 1);

	assert_non_null(job);
	job->fd = open(in_sandbox("file"), O_RDONLY | O_CLOEXEC);
	assert_true(job->fd >= 0);
	job->identity.size = size;
	assert_int_equal(file_opener_add(opener, job), 0);
	file_opener_finish(opener);
	return take_one();
}

/* Its owner could make it larger than the memory that was counted for the copy. */
static void file_of_another_size_is_not_copied(void **state)
{
	(void)state;
	assert_int_equal(copy_of_size(4), 0);
	assert_int_equal(copy_of_size(3), -ESTALE);
	assert_int_equal(copy_of_size(5), -ESTALE);
}

/* A limit of threads ends no recording: the next look starts one. */
static void lack_of_threads_is_no_error(void **state)
{
	(void)state;
	no_threads = true;
	add_open(1);
	file_opener_watch(opener);
	assert_null(file_opener_take(opener));
	no_threads = false;
	file_opener_watch(opener);
	file_opener_finish(opener);
	assert_int_equal(take_one(), 0);
}

/* When as many threads hang as may, all that waits is given up, and so is what comes. */
static void nothing_waits_for_too_many_hung_files(void **state)
{
	struct file_job *job, *next;
	unsigned int given_up = 0;

	(void)state;
	hangs = true;
	/* Each on a device of its own. */
	for (uint64_t id = 1; id <= FILE_OPENER_STUCK_MAX + 10; id++)
		add_open(id);
	for (int tries = 0; given_up < FILE_OPENER_STUCK_MAX + 10 && tries < 60000; tries++) {
		__atomic_add_fetch(&clock_error, 1, __ATOMIC_RELAXED);
		file_opener_watch(opener);
		for (job = file_opener_take(opener); job; job = next) {
			next = job->next;
			assert_int_equal(job->err, -ETIMEDOUT);
			given_up++;
			file_job_free(job);
		}
		usleep(1000);
	}
	assert_int_equal(given_up, FILE_OPENER_STUCK_MAX + 10);
	add_open(1000);
	assert_int_equal(take_one(), -ETIMEDOUT);
	pthread_mutex_lock(&hang_lock);
	hangs = false;
	pthread_cond_broadcast(&hang_changed);
	pthread_mutex_unlock(&hang_lock);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(file_of_another_size_is_not_copied),
		TEST(lack_of_threads_is_no_error),
		TEST(nothing_waits_for_too_many_hung_files),
	};

	return cmocka_run_group_tests_name("file_opener", tests, NULL, NULL);
}
