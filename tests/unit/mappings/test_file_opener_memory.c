// SPDX-License-Identifier: GPL-2.0
/* The thread that saves files, without memory. */
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "failing_malloc.h"
#include "mappings/file_opener.h"

static void *(*run_opener)(void *arg);

static void *run_without_memory(void *arg)
{
	fail_malloc(1, true);
	return run_opener(arg);
}

/* Replaces libc's function. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *arg),
		   void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	run_opener = run;
	return real(thread, attributes, run_without_memory, arg);
}

/* Its build ID is not known, and there is no memory to read it. */
static void lack_of_memory_is_why_a_file_is_not_saved(void **state)
{
	const struct file_opener_config config = {.root = ""};
	struct file_opener *opener = file_opener_new(&config);
	struct file_job *job = file_job_new(FILE_JOB_SAVE, 1);

	(void)state;
	assert_non_null(opener);
	assert_non_null(job);
	job->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(file_opener_add(opener, job), 0);
	file_opener_finish(opener);
	job = file_opener_take(opener);
	assert_non_null(job);
	assert_null(job->next);
	assert_int_equal(job->err, -ENOMEM);
	assert_non_null(strstr(job->problem.text, "can't be saved"));
	file_job_free(job);
	file_opener_free(opener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lack_of_memory_is_why_a_file_is_not_saved),
	};

	return cmocka_run_group_tests_name("file_opener_memory", tests, NULL, NULL);
}
