// SPDX-License-Identifier: GPL-2.0
#include "symbolize/worker_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "debuginfo/dwarf_lookup.h"
#include "lib/array.h"
#include "lib/error.h"
#include "lib/pidfd.h"
#include "lib/string_table.h"
#include "sandbox/worker_limits.h"
#include "symbolize/worker.h"

#define PROCESSES_MAX 64u
/* So many addresses are worth parsing a file again in another worker. */
#define SLICE_ADDRESSES_MIN 1000u
#define READ_SIZE (256u << 10)
/* Upper bound of a message. */
#define MESSAGE_MAX (sizeof(struct worker_lines) + INLINE_DEPTH_MAX * sizeof(struct worker_line))
/*
 * Quotas of string bytes: of a job, of each of its addresses in addition, and of all jobs. A small
 * file can contain much string data, as strings may overlap.
 */
#define TASK_STRING_BYTES ((size_t)1 << 20)
#define ADDRESS_STRING_BYTES ((size_t)4 << 10)
#define BATCH_STRING_BYTES ((size_t)512 << 20)
#define STRING_OVERHEAD 64u /* bytes of memory for each string, in addition to its own */
#define EXIT_TIMEOUT_MS 10000 /* for a process to exit that has closed its pipe */

_Static_assert(WORKER_STRING_MAX <= MESSAGE_MAX, "lines are the longest messages");

/* A job with sorted addresses. */
struct task {
	struct worker_job job; /* with `addresses` */
	uint64_t *addresses; /* in batch->addresses */
	size_t *indices; /* index of each in the original job; in batch->indices */
	size_t string_bytes; /* received */
	bool abandoned; /* its problem is reported; slices that were not started are skipped */
};

/* One worker's part of a task: adjacent addresses, so that it parses only a part of the file. */
struct slice {
	size_t task;
	size_t from, count; /* range of the addresses of the task */
};

/* A running worker process. */
struct worker {
	size_t job;
	struct slice slice;
	pid_t pid;
	int fd; /* read end of its pipe */
	bool got_end; /* it sent WORKER_END */
	bool protocol_error; /* it sent an invalid message */
	bool over_quota; /* of string bytes */
	int64_t idle_deadline; /* ms; it is killed if it sends nothing until then */
	int64_t deadline; /* ms; it is killed then in any case */
	unsigned char *buffer; /* bytes read but not parsed yet */
	size_t size, capacity;
	uint32_t *strings; /* index in batch->strings of its string number - 1 */
	size_t string_count, string_capacity;
	bool *received; /* whether the lines of each address of the slice came */
};

struct batch {
	const struct worker_pool *pool;
	const struct worker_job *jobs; /* of the caller */
	struct task *tasks; /* one for each job */
	uint64_t *addresses; /* of all tasks */
	size_t *indices;
	size_t count;
	struct slice *slices;
	size_t slice_count, next;
	size_t large_count; /* tasks with enough addresses for a worker of their own */
	struct string_table *strings;
	size_t string_bytes; /* received */
	struct worker workers[PROCESSES_MAX];
	unsigned int worker_count;
	struct source_line lines[INLINE_DEPTH_MAX];
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static unsigned int idle_timeout_s(const struct worker_pool *pool)
{
	return pool->timeout_s ? pool->timeout_s : WORKER_TIMEOUT_S;
}

static unsigned int deadline_s(const struct worker_pool *pool)
{
	return pool->deadline_s ? pool->deadline_s : WORKER_DEADLINE_S;
}

static unsigned int processes_max(const struct worker_pool *pool)
{
	long cpus = pool->processes ? (long)pool->processes : sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < 1)
		return 1;
	return cpus < (long)PROCESSES_MAX ? (unsigned int)cpus : PROCESSES_MAX;
}

static void report_problem(const struct batch *batch, size_t job, const char *text)
{
	if (batch->pool->options.problem)
		batch->pool->options.problem(batch->pool->options.arg, batch->jobs[job].path, text);
}

/* Start */

static int start_worker(struct batch *batch, struct worker *worker)
{
	const struct slice *slice = &batch->slices[batch->next];
	struct worker_job job = batch->tasks[slice->task].job;
	const struct worker_settings settings = {
		.directories = batch->pool->options.directories,
		.directory_count = batch->pool->options.directory_count,
		.archive = batch->pool->options.archive,
		.fetches = batch->pool->options.progress,
	};
	pid_t parent = getpid();
	int pipe_fds[2], err;

	job.addresses += slice->from;
	job.count = slice->count;
	*worker = (struct worker){.job = slice->task, .slice = *slice};
	worker->received = calloc(slice->count + 1, sizeof(*worker->received));
	if (!worker->received)
		return -ENOMEM;
	if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
		err = -errno;
		free(worker->received);
		return err;
	}
	worker->pid = fork();
	if (worker->pid == 0) {
		close(pipe_fds[0]);
		limit_worker(parent);
		worker_main(&settings, &job, pipe_fds[1]);
		_exit(0);
	}
	err = worker->pid < 0 ? -errno : 0;
	close(pipe_fds[1]);
	if (err) {
		close(pipe_fds[0]);
		free(worker->received);
		return err;
	}
	worker->fd = pipe_fds[0];
	worker->idle_deadline = now_ms() + idle_timeout_s(batch->pool) * INT64_C(1000);
	worker->deadline = now_ms() + deadline_s(batch->pool) * INT64_C(1000);
	batch->next++;
	batch->worker_count++;
	return 0;
}

/* End */

static void report_failure(const struct batch *batch, const struct worker *worker, int status)
{
	struct error error;

	if (worker->protocol_error)
		error_set(&error, EBADMSG,
			  "symbols may be wrong: the worker that read it violated the protocol");
	else if (WIFSIGNALED(status))
		error_set(&error, EBADMSG, "is broken: reading its symbols ended with signal %d",
			  WTERMSIG(status));
	else
		error_set(&error, ENOMEM, "its symbols could not be read");
	report_problem(batch, worker->job, error.text);
}

/* Removes the worker from the array; the last one takes its slot. */
static void remove_worker(struct batch *batch, struct worker *worker)
{
	close(worker->fd);
	free(worker->buffer);
	free(worker->strings);
	free(worker->received);
	*worker = batch->workers[--batch->worker_count];
}

/*
 * Reaps a worker that has closed its pipe, or was killed after a protocol error. A worker may close
 * the pipe without exiting.
 */
static void reap_worker(struct batch *batch, struct worker *worker)
{
	int status = 0;

	if (!process_exits_within(worker->pid, EXIT_TIMEOUT_MS)) {
		kill(worker->pid, SIGKILL);
		process_exits_within(worker->pid, EXIT_TIMEOUT_MS);
	}
	waitpid(worker->pid, &status, WNOHANG);
	if (!worker->got_end || worker->protocol_error)
		report_failure(batch, worker, status);
	remove_worker(batch, worker);
}

/* Results received before stay. */
static void abandon_task(struct batch *batch, struct worker *worker, const char *why)
{
	struct task *task = &batch->tasks[worker->job];

	if (!task->abandoned)
		report_problem(batch, worker->job, why);
	task->abandoned = true;
	kill(worker->pid, SIGKILL);
	wait_killed(worker->pid);
	remove_worker(batch, worker);
}

static void kill_expired(struct batch *batch, struct worker *worker, int64_t now)
{
	struct error error;

	if (worker->deadline <= now)
		error_set(&error, ETIMEDOUT,
			  "takes too long to read: after %u s, the rest has no names",
			  deadline_s(batch->pool));
	else
		error_set(&error, ETIMEDOUT, "has no symbols: reading hung for %u s",
			  idle_timeout_s(batch->pool));
	abandon_task(batch, worker, error.text);
}

/* Sends all signals before it waits, so that the workers exit in parallel. */
static void kill_workers(struct batch *batch)
{
	for (unsigned int i = 0; i < batch->worker_count; i++)
		kill(batch->workers[i].pid, SIGKILL);
	while (batch->worker_count > 0) {
		wait_killed(batch->workers[0].pid);
		remove_worker(batch, &batch->workers[0]);
	}
}

/* Messages */

static int handle_string(struct batch *batch, struct worker *worker, const char *text, size_t size)
{
	struct task *task = &batch->tasks[worker->job];
	size_t known = batch->strings->count, cost;
	uint32_t index;

	if (size > WORKER_STRING_MAX) {
		worker->protocol_error = true;
		return 0;
	}
	index = string_table_add(batch->strings, text, size);
	if (index == STRING_NONE || array_reserve(&worker->strings, &worker->string_capacity,
						  worker->string_count, 1, sizeof(index)))
		return -ENOMEM;
	worker->strings[worker->string_count++] = index;
	cost = STRING_OVERHEAD + (batch->strings->count > known ? size : 0);
	task->string_bytes += cost;
	batch->string_bytes += cost;
	worker->over_quota =
		task->string_bytes > TASK_STRING_BYTES + task->job.count * ADDRESS_STRING_BYTES ||
		batch->string_bytes > BATCH_STRING_BYTES;
	return 0;
}

static bool find_string(const struct batch *batch, const struct worker *worker, uint32_t number,
			const char **text)
{
	*text = NULL;
	if (number > worker->string_count)
		return false;
	if (number > 0)
		*text = batch->strings->items[worker->strings[number - 1]];
	return true;
}

static bool parse_line(const struct batch *batch, const struct worker *worker,
		       const struct worker_line *message, struct source_line *line)
{
	line->line = message->line;
	line->start_line = message->start_line;
	line->start = message->start;
	return find_string(batch, worker, message->function, &line->function) &&
	       find_string(batch, worker, message->system_name, &line->system_name) &&
	       find_string(batch, worker, message->file, &line->file) &&
	       !line->function == !line->system_name;
}

static int handle_lines(struct batch *batch, struct worker *worker, const unsigned char *bytes,
			size_t size)
{
	struct task *task = &batch->tasks[worker->job];
	struct worker_lines head;
	struct worker_line message;
	size_t index;

	if (size < sizeof(head))
		goto invalid;
	memcpy(&head, bytes, sizeof(head));
	bytes += sizeof(head);
	if (head.index >= worker->slice.count || head.count > INLINE_DEPTH_MAX ||
	    size != sizeof(head) + head.count * sizeof(message) || worker->received[head.index])
		goto invalid;
	worker->received[head.index] = true;
	for (uint32_t i = 0; i < head.count; i++, bytes += sizeof(message)) {
		memcpy(&message, bytes, sizeof(message));
		if (!parse_line(batch, worker, &message, &batch->lines[i]))
			goto invalid;
	}
	index = worker->slice.from + head.index;
	return batch->pool->lines(batch->pool->arg, worker->job, task->indices[index], batch->lines,
				  head.count);
invalid:
	worker->protocol_error = true;
	return 0;
}

static void handle_problem(const struct batch *batch, const struct worker *worker, const char *text,
			   size_t size)
{
	struct error error;

	/* Each slice reports the problem of the file; report it once. */
	if (worker->slice.from > 0)
		return;
	error_set(&error, EINVAL, "%.*s", (int)size, text);
	report_problem(batch, worker->job, error.text);
}

static void handle_progress(const struct batch *batch, struct worker *worker, const void *bytes,
			    size_t size)
{
	struct worker_progress progress;

	worker->protocol_error = size != sizeof(progress) || !batch->pool->options.progress;
	if (worker->protocol_error)
		return;
	memcpy(&progress, bytes, size);
	batch->pool->options.progress(batch->pool->options.arg, batch->jobs[worker->job].path,
				      progress.done, progress.total);
}

static int handle_message(struct batch *batch, struct worker *worker, uint32_t type,
			  const unsigned char *bytes, size_t size)
{
	switch (type) {
	case WORKER_STRING:
		return handle_string(batch, worker, (const char *)bytes, size);
	case WORKER_LINES:
		return handle_lines(batch, worker, bytes, size);
	case WORKER_PROBLEM:
		handle_problem(batch, worker, (const char *)bytes, size);
		return 0;
	case WORKER_PROGRESS:
		handle_progress(batch, worker, bytes, size);
		return 0;
	case WORKER_END:
		worker->got_end = true;
		return 0;
	default:
		worker->protocol_error = true;
		return 0;
	}
}

/* Handles the complete messages in the buffer. */
static int handle_messages(struct batch *batch, struct worker *worker)
{
	struct worker_message message;
	size_t at = 0;
	int err = 0;

	while (!err && !worker->protocol_error && !worker->over_quota &&
	       worker->size - at >= sizeof(message)) {
		memcpy(&message, worker->buffer + at, sizeof(message));
		if (message.size > MESSAGE_MAX || worker->got_end) {
			worker->protocol_error = true;
			break;
		}
		if (worker->size - at < sizeof(message) + message.size)
			break;
		at += sizeof(message);
		err = handle_message(batch, worker, message.type, worker->buffer + at,
				     message.size);
		at += message.size;
	}
	worker->size -= at;
	memmove(worker->buffer, worker->buffer + at, worker->size);
	return err;
}

/* Reads from a worker; removes it at the end of its pipe, over quota, or on a protocol error. */
static int read_worker(struct batch *batch, struct worker *worker)
{
	ssize_t got;
	int err = 0;

	if (array_reserve(&worker->buffer, &worker->capacity, worker->size, READ_SIZE, 1))
		return -ENOMEM;
	got = read(worker->fd, worker->buffer + worker->size, READ_SIZE);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (got > 0) {
		worker->size += (size_t)got;
		worker->idle_deadline = now_ms() + idle_timeout_s(batch->pool) * INT64_C(1000);
		err = handle_messages(batch, worker);
		if (!worker->protocol_error && !worker->over_quota)
			return err;
	}
	if (worker->over_quota) {
		abandon_task(batch, worker, "has too long names: the rest is left out");
		return err;
	}
	if (worker->protocol_error)
		kill(worker->pid, SIGKILL);
	reap_worker(batch, worker);
	return err;
}

/* Returns the time, in ms, of the first deadline of a worker. */
static int64_t next_deadline(const struct batch *batch)
{
	int64_t next = INT64_MAX;

	for (unsigned int i = 0; i < batch->worker_count; i++) {
		const struct worker *worker = &batch->workers[i];

		if (worker->idle_deadline < next)
			next = worker->idle_deadline;
		if (worker->deadline < next)
			next = worker->deadline;
	}
	return next;
}

static int poll_workers(struct batch *batch)
{
	struct pollfd fds[PROCESSES_MAX + 1];
	int64_t now = now_ms(), next = next_deadline(batch);
	int err = 0;

	for (unsigned int i = 0; i < batch->worker_count; i++)
		fds[i] = (struct pollfd){.fd = batch->workers[i].fd, .events = POLLIN};
	fds[batch->worker_count] = (struct pollfd){
		.fd = batch->pool->options.stop > 0 ? batch->pool->options.stop : -1,
		.events = POLLIN,
	};
	if (poll(fds, batch->worker_count + 1, next > now ? (int)(next - now) : 0) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[batch->worker_count].revents)
		return -EINTR;
	now = now_ms();
	/* Backwards, as the last worker takes the slot of one that is removed. */
	for (unsigned int i = batch->worker_count; i > 0 && !err; i--) {
		struct worker *worker = &batch->workers[i - 1];
		bool readable = fds[i - 1].revents;

		/* The total deadline also stops a worker that never stops sending. */
		if (worker->deadline <= now || (!readable && worker->idle_deadline <= now))
			kill_expired(batch, worker, now);
		else if (readable)
			err = read_worker(batch, worker);
	}
	return err;
}

/* Tasks */

struct indexed_address {
	uint64_t address;
	size_t index;
};

static int compare_addresses(const void *a, const void *b)
{
	const struct indexed_address *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

/* Sorts by address: adjacent addresses share most of the debug information read for them. */
static int prepare_task(struct task *task, const struct worker_job *job)
{
	size_t count = job->count;
	struct indexed_address *list = calloc(count + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		list[i] = (struct indexed_address){job->addresses[i], i};
	qsort(list, count, sizeof(*list), compare_addresses);
	for (size_t i = 0; i < count; i++) {
		task->addresses[i] = list[i].address;
		task->indices[i] = list[i].index;
	}
	free(list);
	task->job = *job;
	task->job.addresses = task->addresses;
	return 0;
}

static void free_tasks(struct batch *batch)
{
	free(batch->tasks);
	free(batch->addresses);
	free(batch->indices);
	free(batch->slices);
}

static int prepare_tasks(struct batch *batch)
{
	size_t total = 0;
	int err = 0;

	for (size_t i = 0; i < batch->count; i++)
		total += batch->jobs[i].count;
	batch->tasks = calloc(batch->count + 1, sizeof(*batch->tasks));
	batch->addresses = calloc(total + 1, sizeof(*batch->addresses));
	batch->indices = calloc(total + 1, sizeof(*batch->indices));
	if (!batch->tasks || !batch->addresses || !batch->indices)
		return -ENOMEM;
	total = 0;
	for (size_t i = 0; i < batch->count && !err; i++) {
		batch->tasks[i].addresses = batch->addresses + total;
		batch->tasks[i].indices = batch->indices + total;
		total += batch->jobs[i].count;
		err = prepare_task(&batch->tasks[i], &batch->jobs[i]);
	}
	return err;
}

/* Splits a large file between workers if there are not enough large files for all of them. */
static size_t slices_of(const struct batch *batch, const struct task *task, unsigned int processes)
{
	size_t most = task->job.count / SLICE_ADDRESSES_MIN;

	if (batch->large_count >= processes || task->job.is_perf_map || most < 2)
		return task->job.count > 0;
	return most < processes ? most : processes;
}

static int prepare_slices(struct batch *batch, unsigned int processes)
{
	for (size_t i = 0; i < batch->count; i++)
		batch->large_count += batch->tasks[i].job.count >= SLICE_ADDRESSES_MIN;
	batch->slices = calloc(batch->count * processes + 1, sizeof(*batch->slices));
	if (!batch->slices)
		return -ENOMEM;
	for (size_t i = 0; i < batch->count; i++) {
		size_t count = batch->tasks[i].job.count;
		size_t slices = slices_of(batch, &batch->tasks[i], processes);

		for (size_t slice = 0; slice < slices; slice++) {
			size_t from = count * slice / slices;
			size_t to = count * (slice + 1) / slices;

			batch->slices[batch->slice_count++] = (struct slice){i, from, to - from};
		}
	}
	return 0;
}

/* Skips the slices of abandoned tasks: they would fail like the slices before. */
static void skip_abandoned(struct batch *batch)
{
	while (batch->next < batch->slice_count) {
		if (!batch->tasks[batch->slices[batch->next].task].abandoned)
			return;
		batch->next++;
	}
}

static int run_batch(struct batch *batch)
{
	unsigned int processes = processes_max(batch->pool);
	int err = prepare_tasks(batch);

	if (!err)
		err = prepare_slices(batch, processes);
	while (!err && (batch->next < batch->slice_count || batch->worker_count > 0)) {
		while (!err && batch->next < batch->slice_count && batch->worker_count < processes)
			err = start_worker(batch, &batch->workers[batch->worker_count]);
		if (!err)
			err = poll_workers(batch);
		skip_abandoned(batch);
	}
	return err;
}

int worker_pool_run(const struct worker_pool *pool, const struct worker_job *jobs, size_t count,
		    struct string_table *strings)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	int err;

	if (!batch)
		return -ENOMEM;
	batch->pool = pool;
	batch->jobs = jobs;
	batch->count = count;
	batch->strings = strings;
	err = run_batch(batch);
	kill_workers(batch);
	free_tasks(batch);
	free(batch);
	if (err == -EINTR && pool->options.interrupted) {
		pool->options.interrupted(pool->options.arg);
		err = 0;
	}
	return err;
}
