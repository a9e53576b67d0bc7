// SPDX-License-Identifier: GPL-2.0
/* The order, memory and errors of unwind tables, which fake workers compile. */
#include "unit.h"

#include "record/table_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fake_kernel_records.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/regular_file.h"
#include "mappings/mapped_vdso.h"
#include "mappings/opened_files.h"
#include "mappings/table_files.h"
#include "patience.h"
#include "sandbox.h"
#include "standing_clock.h"
#include "unwind/job.h"
#include "unwind/table_cache.h"

#define FILES 6u
#define VDSO FILES
#define PROGRAM (FILES + 1) /* this one */
#define IDS (FILES + 2)
#define EVENTS_MAX 64u
#define DEADLINE_NS (hang_s() * NS_PER_SECOND)
/* Before a retry that no test waits for. */
#define NEVER_NS (1000 * DEADLINE_NS)

/* What the worker of a file does. */
struct outcome {
	int start_err, err;
	enum unwind_result result;
	uint32_t size; /* of the table */
	bool waits; /* does not end before end_job() */
	bool is_late; /* its deadline has passed */
};

static struct {
	struct outcome outcomes[IDS];
	int lifelines[IDS]; /* -1: does not run */
	unsigned int running, running_max;
	unsigned int started[EVENTS_MAX], start_count; /* files, in order */
	bool urgent[EVENTS_MAX];
} jobs;

struct fixture {
	struct fake_files files;
	struct mapped_files *mapped;
	struct unwind_tables *tables;
	struct mapped_file *list[FILES];
	struct {
		uint64_t file;
		uint32_t size; /* 0: none */
	} pushes[EVENTS_MAX];
	size_t push_count;
	int push_err;
	struct file_cache *cache; /* NULL: none */
	char messages[EVENTS_MAX][PATH_MAX];
	size_t message_count;
};

/* The test's files have 1, 2, ... bytes. */
static unsigned int number_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	if (st.st_size <= FILES)
		return (unsigned int)st.st_size - 1;
	return st.st_size < 50000 ? VDSO : PROGRAM;
}

int unwind_job_start(struct unwind_job *job, const struct sandbox_server *server, int fd,
		     bool is_urgent)
{
	const unsigned int number = number_of(fd);
	const struct outcome *outcome = &jobs.outcomes[number];

	assert_null(server);
	assert_true(jobs.start_count < EVENTS_MAX);
	jobs.urgent[jobs.start_count] = is_urgent;
	jobs.started[jobs.start_count++] = number;
	if (outcome->start_err)
		return outcome->start_err;
	assert_int_equal(jobs.lifelines[number], -1);
	jobs.lifelines[number] = eventfd(!outcome->waits, EFD_CLOEXEC);
	jobs.running++;
	if (jobs.running > jobs.running_max)
		jobs.running_max = jobs.running;
	*job = (struct unwind_job){
		.lifeline = jobs.lifelines[number],
		.result = (int)number,
		.deadline = outcome->is_late ? now_ns(CLOCK_MONOTONIC) : INT64_MAX,
	};
	return 0;
}

/* Makes a table of this size, with one row. */
static void fill_table(struct stackbeat_unwind_table *table, uint32_t size)
{
	uint32_t *blocks;

	table->magic = STACKBEAT_UNWIND_MAGIC;
	table->size = size;
	table->block_count = table->row_count = 1;
	table->rule_count = (size - 80) / 8;
	blocks = (uint32_t *)((struct stackbeat_unwind_rule *)(table + 1) + table->rule_count);
	blocks[1] = 1;
	assert_true(stackbeat_unwind_check(table, size));
}

int unwind_job_finish(struct unwind_job *job, struct unwind_summary *summary,
		      struct stackbeat_unwind_table **table)
{
	const struct outcome *outcome = &jobs.outcomes[job->result];

	close(job->lifeline);
	jobs.lifelines[job->result] = -1;
	jobs.running--;
	*table = NULL;
	*summary = (struct unwind_summary){.result = outcome->result};
	if (outcome->err || outcome->result)
		return outcome->err;
	*table = calloc(1, outcome->size);
	assert_non_null(*table);
	fill_table(*table, outcome->size);
	(*table)->start = 0x1000u * (unsigned int)job->result;
	summary->size = outcome->size;
	summary->rows = 10;
	summary->functions = 3;
	summary->unsupported = 2;
	summary->broken = 1;
	return 0;
}

static int push(uint64_t file, const struct stackbeat_unwind_table *table, void *arg)
{
	struct fixture *fixture = arg;

	assert_true(fixture->push_count < EVENTS_MAX);
	fixture->pushes[fixture->push_count].file = file;
	fixture->pushes[fixture->push_count++].size = table ? table->size : 0;
	return fixture->push_err;
}

static void keep_message(const char *text, void *arg)
{
	struct fixture *fixture = arg;

	assert_true(fixture->message_count < EVENTS_MAX);
	snprintf(fixture->messages[fixture->message_count++], PATH_MAX, "%s", text);
}

static void use(struct fixture *fixture, size_t memory, int64_t retry_ns)
{
	const struct unwind_tables_config config = {
		.memory = memory,
		.cache = fixture->cache,
		.retry_ns = retry_ns,
		.push = push,
		.message = keep_message,
		.arg = fixture,
	};

	unwind_tables_free(fixture->tables);
	fixture->tables = unwind_tables_new(fixture->mapped, &config);
	assert_non_null(fixture->tables);
}

static void use_memory(struct fixture *fixture, size_t memory)
{
	use(fixture, memory, NEVER_NS);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct file_source source = fake_source(&fixture->files);

	if (make_sandbox(state))
		return -1;
	memset(&jobs, 0, sizeof(jobs));
	for (unsigned int i = 0; i < IDS; i++) {
		jobs.outcomes[i].size = 400;
		jobs.lifelines[i] = -1;
	}
	fixture->mapped = mapped_files_new("", &source, NULL);
	*state = fixture;
	if (!fixture->mapped)
		return -1;
	use_memory(fixture, UNWIND_TABLES_BYTES_MAX);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	unwind_tables_free(fixture->tables);
	file_cache_close(fixture->cache);
	mapped_files_free(fixture->mapped);
	fake_clear(&fixture->files);
	free(fixture);
	realtime_stands_at_ns = monotonic_stands_at_ns = 0;
	assert_int_equal(jobs.running, 0);
	return remove_sandbox(state);
}

/* The kernel reports the file with a number: its id is one more. */
static void add_file(struct fixture *fixture, unsigned int number)
{
	const char *path = in_sandbox("file%u", number);

	write_file(path, "123456", number + 1);
	assert_int_equal(fake_file(fixture->mapped, &fixture->files, path), number + 1);
	fixture->list[number] = mapped_files_get(fixture->mapped, number + 1);
	assert_non_null(fixture->list[number]);
}

static void add_files(struct fixture *fixture, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		add_file(fixture, i);
}

static void run_once(struct fixture *fixture)
{
	struct pollfd fds[UNWIND_TABLES_FDS];

	poll(fds, unwind_tables_poll(fixture->tables, fds), 20);
	mapped_files_collect(fixture->mapped);
	unwind_tables_run(fixture->tables);
}

static void run_until_started(struct fixture *fixture, unsigned int count)
{
	const int64_t end = now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;

	while (jobs.start_count < count) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		run_once(fixture);
	}
	assert_int_equal(jobs.start_count, count);
}

static void run_until_pushed(struct fixture *fixture, size_t count)
{
	const int64_t end = now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;

	while (fixture->push_count < count) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		run_once(fixture);
	}
	assert_int_equal(fixture->push_count, count);
}

static void end_job(unsigned int number)
{
	assert_int_equal(eventfd_write(jobs.lifelines[number], 1), 0);
}

static enum unwind_table_state find(struct fixture *fixture, unsigned int number)
{
	const struct stackbeat_unwind_view *view;
	enum unwind_table_state found =
		unwind_tables_find(fixture->tables, fixture->list[number], &view);

	if (found == UNWIND_TABLE_READY)
		assert_int_equal(view->start, 0x1000 * number);
	else
		assert_null(view);
	return found;
}

static struct unwind_tables_counts counts_of(const struct fixture *fixture)
{
	struct unwind_tables_counts counts;

	unwind_tables_counts(fixture->tables, &counts);
	return counts;
}

static bool has_message(const struct fixture *fixture, const char *text)
{
	for (size_t i = 0; i < fixture->message_count; i++) {
		if (strstr(fixture->messages[i], text))
			return true;
	}
	return false;
}

/* Of all files that were reported, whether they have tables or not. */
static void memory_of_the_list_is_known(void **state)
{
	const unsigned int count = 1000, entry = 64;
	struct fixture *fixture = *state;
	const size_t before = unwind_tables_list_bytes(fixture->tables);
	union any_file any;

	assert_in_range(before, 1, count * entry / 2);
	write_text(in_sandbox("file"), "text");
	fake_file_record(&fixture->files, in_sandbox("file"), &any);
	for (unsigned int i = 0; i < count; i++) {
		any.file.file = any.file.inode = FILES + 1 + i;
		assert_int_equal(mapped_files_add(fixture->mapped, &any.file), 0);
	}
	assert_in_range(unwind_tables_list_bytes(fixture->tables), count * entry,
			4 * count * entry);
}

static void all_files_get_tables(void **state)
{
	struct fixture *fixture = *state;

	add_files(fixture, 5);
	run_until_pushed(fixture, 6);
	assert_int_equal(jobs.started[0], VDSO);
	assert_in_range(jobs.running_max, 1, UNWIND_TABLES_JOBS);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(fixture->pushes[i].size, 400);
	assert_int_equal(fixture->pushes[0].file, STACKBEAT_FILE_VDSO);
	assert_int_equal(counts_of(fixture).compiled, 6);
	assert_int_equal(counts_of(fixture).unsupported, 6 * 2);
	assert_int_equal(counts_of(fixture).failed, 0);
	assert_int_equal(counts_of(fixture).without, 0);
	assert_int_equal(unwind_tables_bytes(fixture->tables), 6 * 400);
	assert_int_equal(fixture->message_count, 6);
	assert_string_equal(fixture->messages[0],
			    "unwind table of [vdso]: 10 rows of 3 functions, 0.4 kB; not "
			    "supported: 2, broken: 1");
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(find(fixture, i), UNWIND_TABLE_READY);
	/* Nothing is made again. */
	run_once(fixture);
	assert_int_equal(jobs.start_count, 6);
}

/* Slow files of users leave a worker to other users, and one to root. */
static void owner_has_one_worker(void **state)
{
	static const uid_t owners[] = {1000, 1000, 1001, 1002, 0, 0};
	struct fixture *fixture = *state;
	unsigned int second;

	if (geteuid())
		skip();
	run_until_pushed(fixture, 1);
	add_files(fixture, 6);
	for (unsigned int i = 0; i < 6; i++) {
		assert_int_equal(chown(in_sandbox("file%u", i), owners[i], 0), 0);
		jobs.outcomes[i].waits = i < 4;
	}
	/* The VDSO, a file of 1000, the file of 1001 or 1002 that is first open, files of root. */
	run_until_pushed(fixture, 3);
	assert_int_equal(jobs.start_count, 5);
	assert_int_equal(jobs.started[1], 0);
	second = jobs.started[2];
	assert_in_range(second, 2, 3);
	assert_int_equal(jobs.started[3], 4);
	assert_int_equal(jobs.started[4], 5);
	run_once(fixture);
	assert_int_equal(jobs.start_count, 5);
	/* Of 1000 and the user that is left, the first file in the queue. */
	end_job(0);
	run_until_started(fixture, 6);
	run_once(fixture);
	assert_int_equal(jobs.started[5], 1);
	end_job(second);
	run_until_started(fixture, 7);
	assert_int_equal(jobs.started[6], 5 - second);
	end_job(1);
	end_job(5 - second);
	run_until_pushed(fixture, 7);
}

/* Three workers run. A file that is being opened has no descriptor to wait for. */
static void number_of_workers_is_limited(void **state)
{
	struct fixture *fixture = *state;
	struct pollfd fds[UNWIND_TABLES_FDS];

	jobs.outcomes[VDSO].waits = jobs.outcomes[0].waits = true;
	jobs.outcomes[1].waits = jobs.outcomes[2].waits = true;
	add_files(fixture, 4);
	assert_int_equal(unwind_tables_poll(fixture->tables, fds), 1);
	assert_int_equal(fds[0].fd, mapped_files_event(fixture->mapped));
	unwind_tables_run(fixture->tables);
	assert_int_equal(unwind_tables_poll(fixture->tables, fds), 2);
	assert_int_equal(fds[1].fd, jobs.lifelines[VDSO]);
	run_until_started(fixture, 3);
	assert_int_equal(unwind_tables_poll(fixture->tables, fds), 4);
	assert_int_equal(fds[2].fd, jobs.lifelines[0]);
	assert_int_equal(fds[3].fd, jobs.lifelines[1]);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(fds[i].events, POLLIN);
	for (int i = 0; i < 10; i++)
		run_once(fixture);
	assert_int_equal(jobs.start_count, 3);
	assert_int_equal(fixture->push_count, 0);
	end_job(0);
	run_until_started(fixture, 4);
	assert_int_equal(fixture->push_count, 1);
	assert_int_equal(fixture->pushes[0].file, 1);
	end_job(VDSO);
	run_until_pushed(fixture, 3);
	assert_int_equal(jobs.running_max, 3);
	end_job(1);
	end_job(2);
	run_until_pushed(fixture, 5);
}

/* Files that a copy of a stack waits for, then those with frames, then the others, in order. */
static void urgent_files_come_first(void **state)
{
	static const unsigned int order[] = {VDSO, 0, 1, 4, 3, 5, 2};
	struct fixture *fixture = *state;

	jobs.outcomes[VDSO].waits = jobs.outcomes[0].waits = jobs.outcomes[1].waits = true;
	add_files(fixture, FILES);
	run_until_started(fixture, 3);
	assert_int_equal(mapped_file_hold(fixture->mapped, fixture->list[3]), 0);
	assert_int_equal(mapped_file_hold(fixture->mapped, fixture->list[5]), 0);
	assert_int_equal(find(fixture, 4), UNWIND_TABLE_PENDING);
	end_job(VDSO);
	run_until_pushed(fixture, FILES - 1);
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		assert_int_equal(jobs.started[i], order[i]);
		/* 3 starts when 4 ends, before the copy is walked on. */
		assert_int_equal(jobs.urgent[i], order[i] == 4 || order[i] == 3);
	}
	end_job(0);
	end_job(1);
	run_until_pushed(fixture, FILES + 1);
	mapped_file_release(fixture->mapped, fixture->list[3]);
	mapped_file_release(fixture->mapped, fixture->list[5]);
}

/* Tables beyond the limit are dropped, in the order of their last use. */
static void memory_is_limited(void **state)
{
	struct fixture *fixture = *state;

	use_memory(fixture, 4 * 400);
	add_files(fixture, 3);
	run_until_pushed(fixture, 4);
	run_once(fixture);
	assert_int_equal(unwind_tables_bytes(fixture->tables), 4 * 400);
	assert_int_equal(find(fixture, 0), UNWIND_TABLE_READY);
	assert_int_equal(find(fixture, 2), UNWIND_TABLE_READY);
	/* The vdso is dropped, then 1. */
	add_file(fixture, 3);
	add_file(fixture, 4);
	run_until_pushed(fixture, 6);
	run_once(fixture);
	assert_int_equal(unwind_tables_bytes(fixture->tables), 4 * 400);
	assert_int_equal(find(fixture, 2), UNWIND_TABLE_READY);
	assert_int_equal(find(fixture, 0), UNWIND_TABLE_READY);
	assert_int_equal(find(fixture, 1), UNWIND_TABLE_PENDING);
	assert_int_equal(counts_of(fixture).compiled, 6);
	/* 3 is the oldest now. It is counted once, and reported once. */
	run_until_pushed(fixture, 7);
	run_once(fixture);
	assert_int_equal(find(fixture, 1), UNWIND_TABLE_READY);
	assert_int_equal(find(fixture, 3), UNWIND_TABLE_PENDING);
	assert_int_equal(counts_of(fixture).compiled, 6);
	assert_int_equal(fixture->message_count, 6);
	/* Nor is it counted as failed then. */
	jobs.outcomes[3].err = -EBADMSG;
	run_until_pushed(fixture, 8);
	assert_int_equal(find(fixture, 3), UNWIND_TABLE_NONE);
	assert_int_equal(counts_of(fixture).failed, 0);
}

static void without_memory_no_table_is_kept(void **state)
{
	struct fixture *fixture = *state;

	use_memory(fixture, 0);
	add_files(fixture, 2);
	run_until_pushed(fixture, 3);
	run_once(fixture);
	assert_int_equal(unwind_tables_bytes(fixture->tables), 0);
	assert_int_equal(counts_of(fixture).compiled, 3);
}

static void errors_are_counted_and_reported(void **state)
{
	struct fixture *fixture = *state;

	jobs.outcomes[0].err = -EBADMSG;
	jobs.outcomes[1].result = UNWIND_NO_INFORMATION;
	jobs.outcomes[2].start_err = -EPIPE;
	jobs.outcomes[3].result = UNWIND_OTHER_MACHINE;
	add_files(fixture, 5);
	run_until_pushed(fixture, 6);
	assert_int_equal(counts_of(fixture).failed, 2);
	assert_int_equal(counts_of(fixture).without, 2);
	assert_int_equal(counts_of(fixture).compiled, 2);
	assert_int_equal(counts_of(fixture).unsupported, 4);
	assert_true(has_message(fixture, "/file0: can't be compiled: Bad message"));
	assert_true(has_message(fixture, "/file1: no call frame information"));
	assert_true(has_message(fixture, "/file2: can't start a worker: Broken pipe"));
	assert_true(has_message(fixture, "/file3: 32-bit code, or code of another machine"));
	for (size_t i = 0; i < fixture->push_count; i++) {
		const uint64_t id = fixture->pushes[i].file;
		const bool is_known = id == 5 || id == STACKBEAT_FILE_VDSO;

		assert_int_equal(fixture->pushes[i].size, is_known ? 400 : 0);
	}
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(find(fixture, i), i < 4 ? UNWIND_TABLE_NONE : UNWIND_TABLE_READY);
	assert_int_equal(unwind_tables_bytes(fixture->tables), 2 * 400);
	assert_int_equal(counts_of(fixture).refused, 0);
}

static void unknown_file_can_not_be_opened(void **state)
{
	struct fixture *fixture = *state;

	fixture->list[0] = mapped_files_get(fixture->mapped, 77);
	assert_int_equal(find(fixture, 0), UNWIND_TABLE_PENDING);
	run_until_pushed(fixture, 2);
	assert_int_equal(find(fixture, 0), UNWIND_TABLE_NONE);
	assert_int_equal(counts_of(fixture).failed, 1);
	assert_int_equal(jobs.start_count, 1);
	assert_true(has_message(fixture, "unwind table of an unknown file: can't be opened: No "
					 "such file"));
}

/* The kernel reports a file again. */
static void report_again(struct fixture *fixture, unsigned int number)
{
	union any_file any;

	fake_file_record(&fixture->files, in_sandbox("file%u", number), &any);
	any.file.file = number + 1;
	assert_int_equal(mapped_files_add(fixture->mapped, &any.file), 0);
}

/* A worker that hangs is ended at its deadline. */
static void late_worker_is_ended(void **state)
{
	struct fixture *fixture = *state;

	jobs.outcomes[0].waits = jobs.outcomes[0].is_late = true;
	jobs.outcomes[0].err = -EBADMSG;
	add_files(fixture, 1);
	run_until_pushed(fixture, 2);
	assert_int_equal(counts_of(fixture).failed, 1);
	assert_int_equal(jobs.running, 0);
}

/* Each of these files, which have the first numbers, has failed once. */
static void run_until_failed(struct fixture *fixture, size_t messages)
{
	/* Counts turns, as the clock may stand. */
	for (int turns = 0; fixture->message_count < messages; turns++) {
		assert_true(turns < hang_ms());
		run_once(fixture);
	}
}

/* No memory, no descriptors, and workers that were killed or too slow: not the fault of the file.
 */
static void make_passing_failures(void)
{
	jobs.outcomes[0].start_err = -EMFILE;
	jobs.outcomes[1].err = -ECANCELED;
	jobs.outcomes[2].err = -ETIMEDOUT;
	jobs.outcomes[3].result = UNWIND_NO_MEMORY;
	jobs.outcomes[4].err = -ENOMEM;
}

/* Until the retry, the module does not learn that a file has no table, and its id stays valid. */
static void failures_that_pass_are_no_property_of_files(void **state)
{
	struct fixture *fixture = *state;

	make_passing_failures();
	add_files(fixture, 5);
	run_until_failed(fixture, 6);
	for (int i = 0; i < 20; i++) {
		mapped_files_sweep(fixture->mapped);
		run_once(fixture);
	}
	assert_int_equal(fixture->files.released, 0);
	assert_int_equal(fixture->push_count, 1);
	assert_int_equal(jobs.start_count, 6);
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(find(fixture, i), UNWIND_TABLE_NONE);
	assert_true(has_message(
		fixture, "/file0: can't start a worker: Too many open files; it is tried again"));
	assert_true(has_message(fixture, "/file3: out of memory; it is tried again"));
	/* A report changes nothing. */
	report_again(fixture, 0);
	run_once(fixture);
	assert_int_equal(jobs.start_count, 6);
	assert_int_equal(counts_of(fixture).failed, 0);
	unwind_tables_stop(fixture->tables);
	assert_int_equal(counts_of(fixture).failed, 5);
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(find(fixture, i), UNWIND_TABLE_NONE);
	for (int i = 0; i < 20; i++)
		mapped_files_sweep(fixture->mapped);
	assert_int_equal(fixture->files.released, 5);
}

static void failures_that_pass_are_retried(void **state)
{
	struct fixture *fixture = *state;

	use(fixture, UNWIND_TABLES_BYTES_MAX, 10 * 1000 * 1000);
	make_passing_failures();
	add_files(fixture, 5);
	/* No file is retried before each has failed. */
	monotonic_stands_at_ns = now_ns(CLOCK_MONOTONIC);
	run_until_failed(fixture, 6);
	memset(jobs.outcomes, 0, sizeof(jobs.outcomes));
	for (unsigned int i = 0; i < IDS; i++)
		jobs.outcomes[i].size = 400;
	monotonic_stands_at_ns = 0;
	/* The first table of the vdso was pushed by other tables. */
	run_until_pushed(fixture, fixture->push_count + 5);
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(find(fixture, i), UNWIND_TABLE_READY);
	for (size_t i = 0; i < fixture->push_count; i++)
		assert_int_equal(fixture->pushes[i].size, 400);
	assert_int_equal(counts_of(fixture).failed, 0);
	assert_int_equal(counts_of(fixture).compiled, 6);
	for (int i = 0; i < 20; i++)
		mapped_files_sweep(fixture->mapped);
	assert_int_equal(fixture->files.released, 5);
}

/* A worker that is always too slow may be the fault of the file after all. */
static void slow_files_are_retried_twice(void **state)
{
	struct fixture *fixture = *state;

	use(fixture, UNWIND_TABLES_BYTES_MAX, 1);
	jobs.outcomes[0].err = -ETIMEDOUT;
	jobs.outcomes[1].result = UNWIND_NO_MEMORY;
	jobs.outcomes[2].err = -ECANCELED;
	/* It would use up its CPU time again. */
	jobs.outcomes[3].err = -ETIME;
	add_files(fixture, 4);
	run_until_started(fixture, 1 + 3 * 3 + 1);
	run_until_pushed(fixture, 5);
	assert_int_equal(counts_of(fixture).failed, 3);
	assert_int_equal(counts_of(fixture).without, 1);
	for (size_t i = 0; i < fixture->push_count; i++)
		assert_int_equal(fixture->pushes[i].size,
				 fixture->pushes[i].file == STACKBEAT_FILE_VDSO ? 400 : 0);
	report_again(fixture, 0);
	assert_int_equal(fixture->push_count, 6);
	for (int i = 0; i < 10; i++)
		run_once(fixture);
	assert_int_equal(jobs.start_count, 1 + 3 * 3 + 1);
}

/* If there is no memory for a minute, the file waits for its next report. */
static void retries_take_longer_and_longer(void **state)
{
	const int64_t first_ns = 2 * 1000 * 1000, begin = now_ns(CLOCK_MONOTONIC);
	struct fixture *fixture = *state;

	use(fixture, UNWIND_TABLES_BYTES_MAX, first_ns);
	jobs.outcomes[0].start_err = -ENOMEM;
	add_files(fixture, 1);
	run_until_started(fixture, 1 + 7);
	assert_true(now_ns(CLOCK_MONOTONIC) - begin >= (1 + 2 + 4 + 8 + 16 + 32) * first_ns);
	for (int i = 0; i < 5; i++)
		run_once(fixture);
	assert_int_equal(jobs.start_count, 1 + 7);
	assert_int_equal(fixture->push_count, 1);
	assert_int_equal(counts_of(fixture).failed, 1);
	jobs.outcomes[0].start_err = 0;
	report_again(fixture, 0);
	run_until_pushed(fixture, 2);
	assert_int_equal(fixture->pushes[1].size, 400);
	for (int i = 0; i < 20; i++)
		mapped_files_sweep(fixture->mapped);
	assert_int_equal(fixture->files.released, 1);
}

/* Of a module at its limit. Tables that are not kept here are made again. */
static void refused_tables_are_pushed_again(void **state)
{
	struct fixture *fixture = *state;

	for (unsigned int keeps = 0; keeps < 2; keeps++) {
		const int64_t end = now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
		unsigned int before = jobs.start_count, started;

		use(fixture, keeps ? UNWIND_TABLES_BYTES_MAX : 0, 1);
		fixture->push_err = -ENOSPC;
		fixture->push_count = 0;
		add_file(fixture, keeps);
		while (fixture->push_count < 4)
			run_once(fixture);
		fixture->push_err = 0;
		for (size_t before_last = fixture->push_count;
		     fixture->push_count < before_last + 2;) {
			assert_true(now_ns(CLOCK_MONOTONIC) < end);
			run_once(fixture);
		}
		assert_int_equal(counts_of(fixture).compiled, 2);
		for (size_t i = 0; i < fixture->push_count; i++)
			assert_int_equal(fixture->pushes[i].size, 400);
		started = jobs.start_count;
		assert_in_range(started - before, keeps ? 2 : 3, keeps ? 2 : fixture->push_count);
		for (int i = 0; i < 20; i++) {
			mapped_files_sweep(fixture->mapped);
			run_once(fixture);
		}
		assert_int_equal(jobs.start_count, started);
		unwind_tables_stop(fixture->tables);
		assert_int_equal(counts_of(fixture).refused, 0);
		assert_int_equal(fixture->files.released, keeps + 1);
	}
}

/* The module does not lack memory all the time: it has other reasons. */
static void refusals_are_not_pushed_for_ever(void **state)
{
	static const int errors[] = {-ENOSPC, -ENOSPC, -EINVAL};
	static const size_t pushes[] = {7, 7, 1}, memory[] = {0, 4000, 4000};
	struct fixture *fixture = *state;

	for (unsigned int i = 0; i < 3; i++) {
		fixture->push_err = errors[i];
		use(fixture, memory[i], 1);
		fixture->push_count = 0;
		add_file(fixture, i);
		while (fixture->push_count < 2 * pushes[i])
			run_once(fixture);
		for (int k = 0; k < 20; k++) {
			mapped_files_sweep(fixture->mapped);
			run_once(fixture);
		}
		assert_int_equal(fixture->push_count, 2 * pushes[i]);
		assert_int_equal(fixture->files.released, i + 1);
		assert_int_equal(counts_of(fixture).refused, 2);
	}
}

static void refused_tables_are_counted_once(void **state)
{
	struct fixture *fixture = *state;

	fixture->push_err = -ENOSPC;
	add_files(fixture, 1);
	run_until_pushed(fixture, 2);
	assert_int_equal(counts_of(fixture).refused, 0);
	assert_true(
		has_message(fixture, "/file0: the module has refused it: No space left on device"));
	report_again(fixture, 0);
	assert_int_equal(fixture->push_count, 3);
	assert_int_equal(fixture->pushes[2].size, 400);
	assert_int_equal(fixture->message_count, 4);
	assert_int_equal(counts_of(fixture).compiled, 2);
	/* The retries end. */
	unwind_tables_stop(fixture->tables);
	assert_int_equal(counts_of(fixture).refused, 2);
	assert_string_equal(unwind_tables_refusal(fixture->tables),
			    "[vdso]: No space left on device");
}

static void expected_refusals_are_not_counted(void **state)
{
	static const int errors[] = {0, -ENOENT, -EEXIST};
	struct fixture *fixture = *state;

	for (unsigned int i = 0; i < 3; i++) {
		fixture->push_err = errors[i];
		add_file(fixture, i);
		run_until_pushed(fixture, i + 2);
	}
	assert_int_equal(counts_of(fixture).refused, 0);
	assert_string_equal(unwind_tables_refusal(fixture->tables), "");
	assert_int_equal(fixture->message_count, 4);
}

/* The module drops tables: a file that it reports again gets its table again, or when it is made.
 */
static void reported_file_gets_its_table_again(void **state)
{
	struct fixture *fixture = *state;

	jobs.outcomes[1].waits = true;
	jobs.outcomes[2].result = UNWIND_NO_INFORMATION;
	add_files(fixture, 3);
	run_until_pushed(fixture, 3);
	report_again(fixture, 1);
	assert_int_equal(fixture->push_count, 3);
	report_again(fixture, 0);
	report_again(fixture, 2);
	assert_int_equal(fixture->push_count, 5);
	assert_int_equal(fixture->pushes[3].file, 1);
	assert_int_equal(fixture->pushes[3].size, 400);
	assert_int_equal(fixture->pushes[4].file, 3);
	assert_int_equal(fixture->pushes[4].size, 0);
	end_job(1);
	run_until_pushed(fixture, 6);
	assert_int_equal(jobs.start_count, 4);
}

/* A file that the kernel does not hold has no id: the module can't get its table. */
static void file_without_id_has_a_table(void **state)
{
	const int64_t end_time = now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
	struct fixture *fixture = *state;
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start = 0, end = 0;
	char line[4096], mode[8];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps) &&
	       sscanf(line, "%lx-%lx %7s", &start, &end, mode) == 3 && mode[2] != 'x')
		;
	fclose(maps);
	fixture->list[0] =
		mapped_files_find_mapped(fixture->mapped, (uint32_t)getpid(), start, end);
	assert_non_null(fixture->list[0]);
	assert_int_equal(find(fixture, 0), UNWIND_TABLE_PENDING);
	while (counts_of(fixture).compiled < 2) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end_time);
		run_once(fixture);
	}
	assert_int_equal(fixture->push_count, 1);
	assert_int_equal(fixture->pushes[0].file, STACKBEAT_FILE_VDSO);
	assert_int_equal(unwind_tables_bytes(fixture->tables), 2 * 400);
}

/* Without a descriptor that wakes the reader, there are no tables. */
static void lack_of_descriptors_is_an_error(void **state)
{
	struct fixture *fixture = *state;
	const struct unwind_tables_config config = {.push = push, .arg = fixture};
	const struct file_source source = fake_source(&fixture->files);
	struct mapped_files *mapped = mapped_files_new("", &source, NULL);
	struct rlimit limit, lower;

	assert_non_null(mapped);
	assert_non_null(mapped_files_vdso(mapped));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	lower = limit;
	lower.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
	errno = 0;
	assert_null(unwind_tables_new(mapped, &config));
	assert_int_equal(errno, EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	mapped_files_free(mapped);
}

/* At the stop, all workers end; what is known can still be looked up. */
static void stop_ends_all_jobs(void **state)
{
	struct fixture *fixture = *state;
	struct pollfd fds[UNWIND_TABLES_FDS];

	jobs.outcomes[1].waits = jobs.outcomes[2].waits = jobs.outcomes[3].waits = true;
	add_files(fixture, 5);
	run_until_started(fixture, 5);
	assert_int_equal(fixture->push_count, 2);
	assert_int_equal(jobs.running, 3);
	unwind_tables_stop(fixture->tables);
	assert_int_equal(jobs.running, 0);
	assert_int_equal(unwind_tables_poll(fixture->tables, fds), 0);
	assert_int_equal(find(fixture, 0), UNWIND_TABLE_READY);
	for (unsigned int i = 1; i < 5; i++)
		assert_int_equal(find(fixture, i), UNWIND_TABLE_NONE);
	for (int i = 0; i < 3; i++) {
		mapped_files_collect(fixture->mapped);
		unwind_tables_run(fixture->tables);
	}
	add_file(fixture, 5);
	report_again(fixture, 0);
	assert_int_equal(jobs.start_count, 5);
	assert_int_equal(fixture->push_count, 2);
	/* None is pinned any more. */
	for (int i = 0; i < 5; i++)
		mapped_files_sweep(fixture->mapped);
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(fixture->files.fds[i], -1);
}

/* A file is kept until its table was made, and forgotten with it. */
static void tables_are_forgotten_with_their_files(void **state)
{
	struct fixture *fixture = *state;

	jobs.outcomes[0].waits = jobs.outcomes[1].waits = jobs.outcomes[2].waits = true;
	add_files(fixture, 4);
	run_until_started(fixture, 4);
	for (int i = 0; i < 20; i++) {
		mapped_files_sweep(fixture->mapped);
		unwind_tables_run(fixture->tables);
	}
	assert_int_equal(fixture->files.released, 0);
	end_job(0);
	end_job(1);
	end_job(2);
	run_until_pushed(fixture, 5);
	assert_int_equal(unwind_tables_bytes(fixture->tables), 5 * 400);
	for (int i = 0; i < 20; i++)
		mapped_files_sweep(fixture->mapped);
	assert_int_equal(fixture->files.released, 4);
	assert_int_equal(unwind_tables_bytes(fixture->tables), 400);
	/* Another file with the index of a forgotten one. */
	jobs.outcomes[4].result = UNWIND_NO_INFORMATION;
	add_file(fixture, 4);
	run_until_pushed(fixture, 6);
	assert_int_equal(counts_of(fixture).compiled, 5);
	assert_int_equal(counts_of(fixture).without, 1);
	assert_int_equal(find(fixture, 4), UNWIND_TABLE_NONE);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

/* The cache */

/* Tables with a cache. What was known is forgotten, as in another process. */
static void begin_with_cache(struct fixture *fixture)
{
	const struct file_cache_config config = {
		.directory = in_sandbox("cache"),
		.bytes_max = 1 << 20,
		.maker = "0123456789abcdef",
	};
	const struct file_source source = fake_source(&fixture->files);
	struct error error;

	unwind_tables_free(fixture->tables);
	fixture->tables = NULL;
	file_cache_close(fixture->cache);
	mapped_files_free(fixture->mapped);
	fixture->mapped = mapped_files_new("", &source, NULL);
	assert_non_null(fixture->mapped);
	fixture->cache = file_cache_open(&config, &error);
	assert_non_null(fixture->cache);
	jobs.start_count = 0;
	fixture->push_count = fixture->message_count = 0;
	use_memory(fixture, UNWIND_TABLES_BYTES_MAX);
}

/* Reports a file that was not changed for long, and waits until it and the vDSO were pushed. */
static void add_old_file(struct fixture *fixture, uint16_t flags)
{
	union any_file any;

	fake_file_record(&fixture->files, "/bin/sh", &any);
	any.file.record.flags |= flags;
	assert_int_equal(mapped_files_add(fixture->mapped, &any.file), 0);
	run_until_pushed(fixture, 2);
}

static bool owner_is_known(void)
{
	struct file_owner owner;
	int fd = open("/bin/sh", O_RDONLY);

	assert_true(fd >= 0);
	file_owner_read(&owner, fd);
	close(fd);
	return owner.uid != FILE_UID_ANY;
}

static void cached_tables_need_no_worker(void **state)
{
	struct fixture *fixture = *state;

	if (!owner_is_known())
		skip();
	begin_with_cache(fixture);
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	assert_int_equal(jobs.start_count, 2);
	assert_int_equal(counts_of(fixture).compiled, 2);
	assert_int_equal(counts_of(fixture).cached, 0);
	begin_with_cache(fixture);
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	assert_int_equal(jobs.start_count, 0);
	assert_int_equal(counts_of(fixture).compiled, 0);
	assert_int_equal(counts_of(fixture).cached, 2);
	assert_int_equal(counts_of(fixture).unsupported, 2 * 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(fixture->pushes[i].size, 400);
	assert_true(has_message(fixture, "broken: 1; from the cache"));
}

static void files_without_a_table_are_cached(void **state)
{
	struct fixture *fixture = *state;

	if (!owner_is_known())
		skip();
	jobs.outcomes[PROGRAM].result = UNWIND_NO_INFORMATION;
	begin_with_cache(fixture);
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	assert_int_equal(counts_of(fixture).without, 1);
	begin_with_cache(fixture);
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	assert_int_equal(jobs.start_count, 0);
	assert_int_equal(counts_of(fixture).without, 1);
	assert_int_equal(counts_of(fixture).cached, 2);
	assert_int_equal(fixture->pushes[1].size, 0);
}

/* A file whose identity users can choose, that was just changed, or that is not the mapped one. */
static void only_proven_files_are_cached(void **state)
{
	struct fixture *fixture = *state;
	union any_file any;

	begin_with_cache(fixture);
	add_old_file(fixture, 0);
	begin_with_cache(fixture);
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	assert_int_equal(jobs.start_count, 1);
	begin_with_cache(fixture);
	/* The file stays new, however long the test takes. */
	realtime_stands_at_ns = now_ns(CLOCK_REALTIME);
	write_text(in_sandbox("new"), "1");
	fake_file_record(&fixture->files, in_sandbox("new"), &any);
	any.file.record.flags |= STACKBEAT_FILE_LASTING;
	assert_int_equal(mapped_files_add(fixture->mapped, &any.file), 0);
	run_until_pushed(fixture, 2);
	assert_int_equal(jobs.start_count, 1);
	begin_with_cache(fixture);
	assert_int_equal(mapped_files_add(fixture->mapped, &any.file), 0);
	run_until_pushed(fixture, 2);
	assert_int_equal(jobs.start_count, 1);
}

static void stale_tables_are_not_stored(void **state)
{
	struct fixture *fixture = *state;

	begin_with_cache(fixture);
	fixture->push_err = -ESTALE;
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	begin_with_cache(fixture);
	fixture->push_err = -ENOENT;
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	assert_int_equal(jobs.start_count, 2);
	begin_with_cache(fixture);
	/* Another session has set the table: the module has compared the file. */
	fixture->push_err = -EEXIST;
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	assert_int_equal(jobs.start_count, 2);
	if (!owner_is_known())
		return;
	begin_with_cache(fixture);
	fixture->push_err = 0;
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	assert_int_equal(jobs.start_count, 0);
}

/* Whether a descriptor has the key of the first file. */
static bool has_key(const struct fixture *fixture, const char *path, struct file_key *key)
{
	const struct mapped_file *file = mapped_files_at(fixture->mapped, 1);
	int fd = open(path, O_RDONLY);
	bool found;

	assert_true(fd >= 0);
	assert_string_equal(file->path, "/bin/sh");
	found = mapped_file_symbols_key(fixture->mapped, file, fd, key);
	close(fd);
	return found;
}

/* The symbols of a file have a key when the module has found that it is the mapped one. */
static void symbols_of_proven_files_have_keys(void **state)
{
	struct fixture *fixture = *state;
	struct file_key key;
	struct stat st;

	begin_with_cache(fixture);
	fixture->push_err = -ESTALE;
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	assert_false(has_key(fixture, "/bin/sh", &key));
	fixture->push_err = 0;
	begin_with_cache(fixture);
	add_old_file(fixture, 0);
	assert_false(has_key(fixture, "/bin/sh", &key));
	if (!owner_is_known())
		return;
	begin_with_cache(fixture);
	add_old_file(fixture, STACKBEAT_FILE_LASTING);
	assert_true(has_key(fixture, "/bin/sh", &key));
	assert_int_equal(stat("/bin/sh", &st), 0);
	assert_int_equal(key.inode, st.st_ino);
	assert_int_equal(key.size, st.st_size);
	assert_int_equal(key.owner, st.st_uid);
	assert_int_equal(key.changed_ns, st.st_ctim.tv_nsec);
	/* A copy is another file, and so is one of the same directory. */
	run("cp -p /bin/sh %s", in_sandbox("sh"));
	assert_false(has_key(fixture, in_sandbox("sh"), &key));
	assert_false(has_key(fixture, "/bin/ls", &key));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_files_get_tables),
		TEST(memory_of_the_list_is_known),
		TEST(number_of_workers_is_limited),
		TEST(owner_has_one_worker),
		TEST(urgent_files_come_first),
		TEST(memory_is_limited),
		TEST(without_memory_no_table_is_kept),
		TEST(errors_are_counted_and_reported),
		TEST(unknown_file_can_not_be_opened),
		TEST(late_worker_is_ended),
		TEST(failures_that_pass_are_no_property_of_files),
		TEST(failures_that_pass_are_retried),
		TEST(slow_files_are_retried_twice),
		TEST(retries_take_longer_and_longer),
		TEST(refused_tables_are_pushed_again),
		TEST(refusals_are_not_pushed_for_ever),
		TEST(refused_tables_are_counted_once),
		TEST(expected_refusals_are_not_counted),
		TEST(reported_file_gets_its_table_again),
		TEST(file_without_id_has_a_table),
		TEST(lack_of_descriptors_is_an_error),
		TEST(stop_ends_all_jobs),
		TEST(tables_are_forgotten_with_their_files),
		TEST(cached_tables_need_no_worker),
		TEST(files_without_a_table_are_cached),
		TEST(only_proven_files_are_cached),
		TEST(stale_tables_are_not_stored),
		TEST(symbols_of_proven_files_have_keys),
	};

	return cmocka_run_group_tests_name("table_jobs", tests, NULL, NULL);
}
