// SPDX-License-Identifier: GPL-2.0
/* The thread that opens and copies files: what it refuses, and what it does when it can't work. */
#include "mappings/file_opener.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/thread_state.h"
#include "patience.h"
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

/* The time, which nothing else changes: however busy the machine is, no file seems to hang. */
static int64_t now = NS_PER_SECOND;

/* The time that each read takes, and bytes that it gets at most; 0: as libc's function. */
static int64_t read_ns;
static size_t read_max;
static unsigned int reads, reads_until_stop; /* the last one waits until `reads_until_stop` is 0 */

/* Replaces libc's function. */
ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
	if (read_max && size > read_max)
		size = read_max;
	__atomic_add_fetch(&now, read_ns, __ATOMIC_RELAXED);
	if (read_ns && __atomic_add_fetch(&reads, 1, __ATOMIC_RELAXED) ==
			       __atomic_load_n(&reads_until_stop, __ATOMIC_RELAXED)) {
		while (__atomic_load_n(&reads_until_stop, __ATOMIC_RELAXED))
			usleep(1000);
	}
	return syscall(SYS_pread64, fd, bytes, size, offset);
}

static pthread_mutex_t hang_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hang_changed = PTHREAD_COND_INITIALIZER;
static bool hangs;

static void resume(void)
{
	pthread_mutex_lock(&hang_lock);
	hangs = false;
	pthread_cond_broadcast(&hang_changed);
	pthread_mutex_unlock(&hang_lock);
}

/* file_opener_finish() looks at the clock next. */
static bool resumes_at_end;

/* Replaces libc's function. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	int64_t ns = __atomic_load_n(&now, __ATOMIC_RELAXED);

	(void)clock;
	if (resumes_at_end && gettid() == getpid()) {
		resumes_at_end = false;
		resume();
	}
	*time = (struct timespec){ns / NS_PER_SECOND, ns % NS_PER_SECOND};
	return 0;
}

/* Replaces libc's function: looks at the time again and again, as the machine has another time. */
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
			   const struct timespec *deadline)
{
	int (*real)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
	struct timespec soon;

	(void)deadline;
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
	syscall(SYS_clock_gettime, clock, &soon);
	soon.tv_nsec += 1000000;
	soon.tv_sec += soon.tv_nsec / NS_PER_SECOND;
	soon.tv_nsec %= NS_PER_SECOND;
	return real(condition, mutex, clock, &soon);
}

static bool computes, has_begun; /* atomic */
static unsigned int looks; /* at the thread */

bool thread_awaits_cpu(pid_t tid, int64_t *sleeps)
{
	assert_true(tid > 0);
	if (!computes)
		return false;
	assert_int_equal(*sleeps, looks ? (int64_t)looks : THREAD_SLEEPS_UNKNOWN);
	*sleeps = ++looks;
	return true;
}

static int open_or_hang(uint64_t id, void *arg)
{
	(void)arg;
	__atomic_store_n(&has_begun, true, __ATOMIC_RELEASE);
	while (__atomic_load_n(&computes, __ATOMIC_RELAXED))
		;
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

static unsigned int count_threads(void)
{
	DIR *directory = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned int count = 0;

	assert_non_null(directory);
	while ((entry = readdir(directory)))
		count += *entry->d_name != '.';
	closedir(directory);
	return count;
}

/* A thread that was given up goes on, and would read in the time of the next test. */
static int tear_down(void **state)
{
	__atomic_store_n(&computes, false, __ATOMIC_RELAXED);
	file_opener_free(opener);
	wait_until(count_threads() == 1);
	return remove_sandbox(state);
}

static void add_open_on(uint64_t device, uint64_t id)
{
	struct file_job *job = file_job_new(FILE_JOB_OPEN, (uint32_t)id);

	assert_non_null(job);
	job->id = id;
	job->identity.device = device;
	assert_int_equal(file_opener_add(opener, job), 0);
}

/* On a device of its own. */
static void add_open(uint64_t id)
{
	add_open_on(id, id);
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

static void add_copy(uint64_t size)
{
	struct file_job *job = file_job_new(FILE_JOB_COPY, 1);

	assert_non_null(job);
	job->fd = open(in_sandbox("file"), O_RDONLY | O_CLOEXEC);
	assert_true(job->fd >= 0);
	job->identity.size = size;
	assert_int_equal(file_opener_add(opener, job), 0);
}

static int copy_of_size(uint64_t size)
{
	add_copy(size);
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
	for (int looks = 0; given_up < FILE_OPENER_STUCK_MAX + 10 && looks < hang_ms(); looks++) {
		__atomic_add_fetch(&now, NS_PER_SECOND, __ATOMIC_RELAXED);
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

/* Waits until the current file is given up: time flies. */
static void expect_hung(uint32_t file)
{
	struct file_job *job = NULL;

	for (int looks = 0; !job && looks < hang_ms(); looks++) {
		__atomic_add_fetch(&now, NS_PER_SECOND, __ATOMIC_RELAXED);
		file_opener_watch(opener);
		job = file_opener_take(opener);
		usleep(1000);
	}
	assert_non_null(job);
	assert_null(job->next);
	assert_int_equal(job->file, file);
	assert_int_equal(job->err, -ETIMEDOUT);
	assert_string_equal(job->problem.text, "its file system has hung");
	file_job_free(job);
}

/* Some files of a device may hang; then, its others are given up at once. Other devices differ. */
static void files_of_a_device_that_hangs_are_given_up(void **state)
{
	const uint64_t devices[] = {7, 8, 7};
	struct file_job *job;

	(void)state;
	assert_int_equal(FILE_OPENER_STUCK_MAX_PER_DEVICE, 2);
	hangs = true;
	for (uint32_t i = 0; i < 3; i++) {
		add_open_on(devices[i], i + 1);
		expect_hung(i + 1);
	}
	add_open_on(7, 4);
	job = file_opener_take(opener);
	assert_non_null(job);
	assert_null(job->next);
	assert_int_equal(job->file, 4);
	assert_int_equal(job->err, -ETIMEDOUT);
	assert_string_equal(job->problem.text, "other files of its file system have hung");
	file_job_free(job);
	resume();
	add_open_on(8, 5);
	file_opener_finish(opener);
	assert_int_equal(take_one(), 0);
}

static void thread_without_a_cpu_is_waited_for(void **state)
{
	(void)state;
	has_begun = false;
	computes = true;
	add_open(1);
	wait_until(__atomic_load_n(&has_begun, __ATOMIC_ACQUIRE));
	looks = 0;
	for (unsigned int i = 1; i < FILE_OPENER_WAITS_MAX; i++) {
		now += NS_PER_SECOND;
		file_opener_watch(opener);
		assert_int_equal(looks, i);
	}
	assert_null(file_opener_take(opener));
	now += NS_PER_SECOND;
	file_opener_watch(opener);
	__atomic_store_n(&computes, false, __ATOMIC_RELAXED);
	assert_int_equal(take_one(), -ETIMEDOUT);
}

/* A byte a second: its owner could keep all others waiting for days. */
static void slow_copy_is_given_up(void **state)
{
	char text[4096] = "";
	struct file_job *job = NULL;

	(void)state;
	write_file(in_sandbox("file"), text, sizeof(text));
	reads_until_stop = 101;
	read_max = 1;
	read_ns = NS_PER_SECOND;
	add_copy(sizeof(text));
	while (__atomic_load_n(&reads, __ATOMIC_RELAXED) < 101)
		usleep(1000);
	/* There was progress since the last look. */
	file_opener_watch(opener);
	job = file_opener_take(opener);
	assert_non_null(job);
	assert_int_equal(job->err, -ETIMEDOUT);
	file_job_free(job);
	__atomic_store_n(&reads_until_stop, 0, __ATOMIC_RELAXED);
	read_max = 0;
	read_ns = 0;
	reads = 0;
}

/* Many copies that are fast enough, each. */
static void end_does_not_wait_for_all_copies(void **state)
{
	/* Each takes half of the time after which it would hang. */
	enum { IN_TIME = 2 * FILE_OPENER_FINISH_FACTOR, COPIES = 2 * IN_TIME };
	unsigned int done = 0, given_up = 0;
	struct file_job *job, *next;

	(void)state;
	hangs = true;
	add_open(1);
	for (unsigned int i = 0; i < COPIES; i++)
		add_copy(4);
	read_ns = NS_PER_SECOND / 2;
	reads_until_stop = IN_TIME + 5;
	resumes_at_end = true;
	file_opener_finish(opener);
	__atomic_store_n(&reads_until_stop, 0, __ATOMIC_RELAXED);
	for (job = file_opener_take(opener); job; job = next) {
		next = job->next;
		done += job->kind == FILE_JOB_COPY && !job->err;
		given_up += job->err == -ETIMEDOUT;
		file_job_free(job);
	}
	/* The first read is of the open file, and the copy that reads last is given up. */
	assert_in_range(done, IN_TIME - 2, IN_TIME + 3);
	assert_int_equal(done + given_up, COPIES);
	read_ns = 0;
	reads = 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(file_of_another_size_is_not_copied),
		TEST(lack_of_threads_is_no_error),
		TEST(files_of_a_device_that_hangs_are_given_up),
		TEST(thread_without_a_cpu_is_waited_for),
		TEST(slow_copy_is_given_up),
		TEST(end_does_not_wait_for_all_copies),
		TEST(nothing_waits_for_too_many_hung_files),
	};

	return cmocka_run_group_tests_name("file_opener", tests, NULL, NULL);
}
