// SPDX-License-Identifier: GPL-2.0
#include "symbolize/worker_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debuginfo/debuginfod_helper.h"
#include "debuginfo/dwarf_lookup.h"
#include "lib/array.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/string_table.h"
#include "lib/timed_call.h"
#include "sandbox/child.h"
#include "sandbox/fd_passing.h"
#include "sandbox/fork_server.h"
#include "sandbox/worker_limits.h"
#include "symbolize/job_bytes.h"
#include "symbolize/opener.h"

#define PROCESSES_MAX WORKER_PROCESSES_MAX
/* For each process, the opener of its worker, and an opener that may be busy with the worker
 * before. */
#define OPENERS_PER_PROCESS 2u
#define OPENERS_MAX (OPENERS_PER_PROCESS * PROCESSES_MAX)
/* This many addresses are worth parsing a file again in another worker. */
#define SLICE_ADDRESSES_MIN 1000u
#define READ_SIZE (256u << 10)
/* Upper bound of a message. */
#define MESSAGE_MAX (sizeof(struct worker_lines) + INLINE_DEPTH_MAX * sizeof(struct worker_line))
/*
 * Quotas of bytes of strings and lines: of a job, of each of its addresses in addition, and of all
 * jobs. A small file can contain much string data, as strings may overlap. When the quota of all
 * jobs is used up, the files of an owner still have an equal share of it: no user can use up that
 * of others.
 */
#define TASK_BYTES ((size_t)1 << 20)
#define ADDRESS_BYTES ((size_t)4 << 10)
#define BATCH_BYTES ((size_t)512 << 20)
/* In place of TASK_BYTES, of a job that disassembles. */
#define CODE_BYTES ((size_t)64 << 20)
#define OWNERS_SIZE (sizeof(uint32_t) * OPENERS_PER_PROCESS * PROCESSES_MAX)
#define STRING_OVERHEAD 64u /* bytes of memory for each string, in addition to its own */
#define LINE_BYTES 56u /* of memory for a line and its function */
#define MS_PER_SECOND INT64_C(1000)
#define PROGRESS_INTERVAL_MS 100
#define PROBLEMS_MAX 64u /* of a worker: it has one for each file that it opens */
/* For a worker to exit that was killed; its status is unknown then. */
#define EXIT_TIMEOUT_MS 10000
/* A worker that has sent everything may hang for so long while it is kept. */
#define KEEP_TIMEOUT_S 5u

_Static_assert(WORKER_STRING_MAX <= MESSAGE_MAX, "lines are the longest messages");
_Static_assert(sizeof(struct instruction) <= MESSAGE_MAX, "lines are the longest messages");

/* A job with sorted addresses. */
struct task {
	struct worker_job job; /* with `addresses` */
	uint64_t *addresses; /* in batch->addresses */
	size_t *indices; /* index of each in the original job; in batch->indices */
	size_t bytes; /* of strings and lines, received */
	bool abandoned; /* its problem is reported; slices that were not started are skipped */
};

/* One worker's part of a task: adjacent addresses, so that it parses only a part of the file. */
struct pool_slice {
	size_t task;
	size_t from, count; /* range of the addresses of the task */
	size_t next; /* of the same share; NO_SLICE: none */
};

#define NO_SLICE SIZE_MAX

/*
 * The files of an owner, in the order of their jobs. Each share gets the same number of workers,
 * and the same time: files that hang, or take long on purpose, delay the files of others by no more
 * than one of them takes.
 */
struct pool_share {
	uint32_t owner; /* worker_job.owner */
	size_t first, last; /* slices that were not started; NO_SLICE: none */
	unsigned int running; /* workers */
	int64_t used; /* ms, of the workers that have ended */
	uint64_t map_bytes; /* that were read of perf maps */
	bool maps_reported; /* that they are too large */
};

/* Strings and lines from the files of a user. */
struct owner {
	uint32_t uid;
	size_t bytes;
};

enum over_quota {
	QUOTA_KEPT,
	QUOTA_OF_FILE,
	QUOTA_OF_OWNER,
	QUOTA_OF_MAPS,
};

/* An opener process, which serves workers one after another. */
struct opener_process {
	pid_t pid; /* 0: none */
	int control; /* it gets its jobs there, and sends a byte when it is idle again */
	bool is_kept; /* its worker has ended in order: once it is idle, it can serve another */
};

/* A running worker process, and its opener. */
struct pool_worker {
	size_t job;
	struct pool_slice slice;
	size_t slice_index;
	size_t share;
	int64_t started; /* ms */
	int lifeline; /* see sandbox/fork_server.h */
	bool has_status; /* `status` was read from the lifeline: it has exited, or was killed */
	int status;
	unsigned int opener; /* in batch->openers */
	bool reuses_opener; /* the opener was forked for an earlier worker */
	int fd; /* read end of its pipe; -1: it was closed, and the worker was killed */
	bool got_end; /* it sent WORKER_END */
	bool opened; /* it sent WORKER_OPENED */
	bool protocol_error; /* it sent an invalid message */
	enum over_quota over_quota; /* of bytes */
	unsigned int problems;
	int64_t deadline; /* ms; it is killed then in any case */
	unsigned char *buffer; /* bytes read but not parsed yet */
	size_t size, capacity;
	uint32_t *strings; /* index in batch->strings of its string number - 1 */
	size_t string_count, string_capacity;
	size_t received_count; /* of `received` */
	bool *received; /* whether the lines of each address of the slice came */
	struct address_range *ranges; /* of each address of the slice */
	size_t functions; /* that it has sent */
	struct address_range code; /* of the function that is received, without its instructions */
};

struct pool_batch {
	const struct worker_pool *pool;
	const struct worker_job *jobs; /* of the caller */
	struct task *tasks; /* one for each job */
	uint64_t *addresses; /* of all tasks */
	size_t *indices;
	size_t count;
	struct pool_slice *slices;
	size_t slice_count;
	struct pool_share *shares;
	size_t share_count, share_capacity;
	size_t large_count; /* tasks with enough addresses for a worker of their own */
	struct string_table *strings;
	size_t bytes; /* of strings and lines, received */
	struct owner *owners;
	size_t owner_count, owner_capacity;
	/*
	 * Shared with the openers, which write the owner of their files; by the opener, as an
	 * opener that is kept may still write.
	 */
	volatile uint32_t *owners_seen;
	struct opener_process openers[OPENERS_MAX];
	unsigned int opener_count; /* one of each worker, and those that are kept */
	struct pool_worker workers[PROCESSES_MAX];
	unsigned int worker_count;
	unsigned int worker_max; /* less than `processes` after a start has failed */
	unsigned int processes; /* at a time */
	bool cache_hangs; /* openers that are forked from now on don't use it */
	pid_t *killed_openers; /* not reaped yet */
	size_t killed_count, killed_capacity;
	int64_t deadline; /* ms, of the batch */
	int64_t begin, next_progress; /* ms */
	struct source_line lines[INLINE_DEPTH_MAX];
};

static int64_t now_ms(void)
{
	return now_ns(CLOCK_MONOTONIC) / NS_PER_MS;
}

static unsigned int cpu_limit_s(const struct worker_pool *pool)
{
	return pool->cpu_s ? pool->cpu_s : WORKER_CPU_S;
}

static unsigned int hang_limit_s(const struct worker_pool *pool)
{
	return pool->timeout_s ? pool->timeout_s : WORKER_TIMEOUT_S;
}

static unsigned int deadline_s(const struct worker_pool *pool)
{
	return pool->deadline_s ? pool->deadline_s : WORKER_DEADLINE_S;
}

static uint64_t map_quota(const struct worker_pool *pool)
{
	return pool->perf_map_bytes ? pool->perf_map_bytes : PERF_MAP_BYTES;
}

static unsigned int processes_max(const struct worker_pool *pool)
{
	return pool->processes ? MIN(pool->processes, PROCESSES_MAX) : worker_processes();
}

static void pool_report_problem(const struct pool_batch *batch, size_t job, const char *text)
{
	if (batch->pool->options.problem)
		batch->pool->options.problem(batch->pool->options.arg, batch->jobs[job].path, text);
}

/* Reports once that the perf maps of an owner are larger than is read. */
static void report_maps(const struct pool_batch *batch, struct pool_share *share, size_t job)
{
	struct error error;

	if (share->maps_reported)
		return;
	share->maps_reported = true;
	error_set(&error, EFBIG,
		  "the perf maps of its owner have more than %" PRIu64
		  " MiB: the rest of their functions has no names",
		  map_quota(batch->pool) >> 20);
	pool_report_problem(batch, job, error.text);
}

/* Openers */

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Kills an opener. It may hang in the kernel, and is reaped when it has ended. */
static void kill_opener(struct pool_batch *batch, struct opener_process *opener)
{
	pid_t pid = opener->pid;

	close(opener->control);
	*opener = (struct opener_process){0};
	batch->opener_count--;
	kill(pid, SIGKILL);
	if (waitpid(pid, NULL, WNOHANG) == pid)
		return;
	/* Without memory, it stays a zombie until the end of this process. */
	if (!array_reserve(&batch->killed_openers, &batch->killed_capacity, batch->killed_count, 1,
			   sizeof(*batch->killed_openers)))
		batch->killed_openers[batch->killed_count++] = pid;
}

/* Returns whether any opener was killed. */
static bool kill_kept_openers(struct pool_batch *batch)
{
	unsigned int count = batch->opener_count;

	for (unsigned int i = 0; i < OPENERS_MAX; i++) {
		if (batch->openers[i].is_kept)
			kill_opener(batch, &batch->openers[i]);
	}
	return batch->opener_count < count;
}

static void reap_openers(struct pool_batch *batch)
{
	for (size_t i = batch->killed_count; i > 0; i--) {
		if (waitpid(batch->killed_openers[i - 1], NULL, WNOHANG))
			batch->killed_openers[i - 1] = batch->killed_openers[--batch->killed_count];
	}
}

/* Waits for those that were killed, but not for ever: they may hang in the kernel. */
static void wait_for_openers(struct pool_batch *batch)
{
	for (size_t i = 0; i < batch->killed_count; i++)
		wait_killed(batch->killed_openers[i]);
	batch->killed_count = 0;
}

/*
 * Closes, in an opener, what the pool has of the workers, with the worker that is being started,
 * and of the other openers: the opener may outlive them.
 */
static void close_pool_fds(const struct pool_batch *batch)
{
	for (unsigned int i = 0; i <= batch->worker_count; i++) {
		close_fd(batch->workers[i].fd);
		close(batch->workers[i].lifeline);
	}
	for (unsigned int i = 0; i < OPENERS_MAX; i++) {
		if (batch->openers[i].pid)
			close(batch->openers[i].control);
	}
}

/* Serves a worker, and those that follow. An opener with blocked calls would refuse files. */
static void serve_workers(const struct pool_batch *batch, const struct pool_worker *worker,
			  int socket, int control)
{
	const struct symbolize_options *options = &batch->pool->options;
	struct opener opener = {
		.paths = {options->directories, options->directory_count},
		.archive = options->archive,
		.cache = batch->cache_hangs ? NULL : options->cache,
		.owner = &batch->owners_seen[worker->opener],
	};
	size_t job = worker->job;

	do {
		opener.job = &batch->jobs[job];
		opener_serve(&opener, socket);
		close(socket);
	} while (!timed_calls_blocked() && !send_fd(control, "", 1, -1) &&
		 receive_fd(control, &job, sizeof(job), &socket) == sizeof(job) && socket >= 0);
}

/* Forks the opener of a worker. Returns 0 or a negative errno value. */
static int fork_opener(struct pool_batch *batch, struct pool_worker *worker, int socket)
{
	int control[2], err;
	pid_t pid;

	/* None of those that are kept is idle: they may hang. */
	if (batch->opener_count == OPENERS_PER_PROCESS * batch->processes)
		kill_kept_openers(batch);
	for (worker->opener = 0; batch->openers[worker->opener].pid;)
		worker->opener++;
	batch->owners_seen[worker->opener] = OWNER_UNKNOWN;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control))
		return -errno;
	pid = child_fork(CHILD_OPENER);
	if (pid == 0) {
		close_pool_fds(batch);
		close(control[0]);
		serve_workers(batch, worker, socket, control[1]);
		_exit(0);
	}
	err = pid < 0 ? -errno : 0;
	close(control[1]);
	if (err) {
		close(control[0]);
		return err;
	}
	batch->openers[worker->opener] = (struct opener_process){.pid = pid, .control = control[0]};
	batch->opener_count++;
	return 0;
}

/* Passes a worker to an opener that is idle. Does not wait. Returns whether there is one. */
static bool reuse_opener(struct pool_batch *batch, struct pool_worker *worker, int socket)
{
	char idle;

	for (unsigned int i = 0; i < OPENERS_MAX; i++) {
		struct opener_process *opener = &batch->openers[i];
		ssize_t got;

		if (!opener->is_kept)
			continue;
		got = recv(opener->control, &idle, sizeof(idle), MSG_DONTWAIT);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		batch->owners_seen[i] = OWNER_UNKNOWN;
		if (got > 0 &&
		    !send_fd(opener->control, &worker->job, sizeof(worker->job), socket)) {
			opener->is_kept = false;
			worker->opener = i;
			worker->reuses_opener = true;
			return true;
		}
		/* It has died. */
		kill_opener(batch, opener);
	}
	return false;
}

/* Start */

struct start_fds {
	int job;
	int pipe[2];
	int opener[2]; /* of the worker, of the opener */
	int debuginfod; /* -1: none */
};

static int open_start_fds(const struct pool_batch *batch, const struct worker_job *job,
			  struct start_fds *fds)
{
	const struct symbolize_options *options = &batch->pool->options;

	*fds = (struct start_fds){.pipe = {-1, -1}, .opener = {-1, -1}, .debuginfod = -1};
	fds->job = job_bytes_write(job);
	if (fds->job < 0)
		return fds->job;
	if (pipe2(fds->pipe, O_CLOEXEC) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds->opener))
		return -errno;
	/* Without it, nothing is downloaded. */
	if (options->debuginfod && !job->is_perf_map && !job->is_module)
		fds->debuginfod = debuginfod_helper_connect(options->debuginfod);
	return 0;
}

static int start_processes(struct pool_batch *batch, struct pool_worker *worker,
			   struct start_fds *fds)
{
	const int passed[] = {fds->job, fds->pipe[1], fds->opener[0], fds->debuginfod};
	int err;

	worker->lifeline = sandbox_worker_start(batch->pool->options.sandbox, WORKER_SYMBOLIZE,
						passed, fds->debuginfod >= 0 ? 4 : 3);
	if (worker->lifeline < 0)
		return worker->lifeline;
	/* An opener must not inherit what the end of the worker has to close. */
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		close_fd(passed[i]);
	fds->job = fds->pipe[1] = fds->opener[0] = fds->debuginfod = -1;
	if (reuse_opener(batch, worker, fds->opener[1]))
		return 0;
	err = fork_opener(batch, worker, fds->opener[1]);
	if (!err)
		return 0;
	sandbox_worker_kill(worker->lifeline);
	close(worker->lifeline);
	return err;
}

/* A worker has sent something, or begins: its limits begin anew. */
static void grant_time(const struct pool_batch *batch, const struct pool_worker *worker)
{
	sandbox_worker_limit(worker->lifeline, cpu_limit_s(batch->pool) * NS_PER_SECOND,
			     hang_limit_s(batch->pool) * NS_PER_SECOND);
}

/* A worker has sent everything. */
static void grant_time_to_keep(const struct pool_batch *batch, const struct pool_worker *worker)
{
	sandbox_worker_limit(worker->lifeline, cpu_limit_s(batch->pool) * NS_PER_SECOND,
			     MIN(hang_limit_s(batch->pool), KEEP_TIMEOUT_S) * NS_PER_SECOND);
}

/* Starts a worker for the first slice of a share. */
static int pool_start_worker(struct pool_batch *batch, struct pool_worker *worker,
			     struct pool_share *share)
{
	const struct pool_slice *slice = &batch->slices[share->first];
	struct worker_job job = batch->tasks[slice->task].job;
	struct start_fds fds;
	int err;

	job.addresses += slice->from;
	job.count = slice->count;
	job.perf_map_bytes = map_quota(batch->pool) - share->map_bytes;
	*worker = (struct pool_worker){
		.job = slice->task,
		.slice = *slice,
		.slice_index = share->first,
		.share = (size_t)(share - batch->shares),
		.started = now_ms(),
	};
	worker->received = calloc(slice->count + 1, sizeof(*worker->received));
	worker->ranges = calloc(slice->count + 1, sizeof(*worker->ranges));
	if (!worker->received || !worker->ranges) {
		free(worker->received);
		free(worker->ranges);
		return -ENOMEM;
	}
	err = open_start_fds(batch, &job, &fds);
	worker->fd = fds.pipe[0];
	if (!err)
		err = start_processes(batch, worker, &fds);
	close_fd(fds.job);
	close_fd(fds.pipe[1]);
	close_fd(fds.opener[0]);
	close_fd(fds.opener[1]);
	close_fd(fds.debuginfod);
	if (err) {
		close_fd(fds.pipe[0]);
		free(worker->received);
		free(worker->ranges);
		return err;
	}
	grant_time(batch, worker);
	worker->deadline = now_ms() + deadline_s(batch->pool) * MS_PER_SECOND;
	share->first = slice->next;
	share->running++;
	batch->worker_count++;
	return 0;
}

/* End */

/* A file that has ended a worker would end the next one. */
static void note_failure(const struct pool_batch *batch, const struct pool_worker *worker)
{
	if (batch->pool->failed)
		batch->pool->failed(batch->pool->arg, worker->job);
}

static void report_failure(const struct pool_batch *batch, const struct pool_worker *worker,
			   int status)
{
	struct error error;

	if (worker->protocol_error || (status != WORKER_STATUS_UNKNOWN && WIFSIGNALED(status)))
		note_failure(batch, worker);
	if (worker->protocol_error)
		error_set(&error, EBADMSG,
			  "symbols may be wrong: the worker that read it violated the protocol");
	else if (status != WORKER_STATUS_UNKNOWN && WIFSIGNALED(status))
		error_set(&error, EBADMSG, "is broken: reading its symbols ended with signal %d",
			  WTERMSIG(status));
	else
		error_set(&error, ENOMEM, "its symbols could not be read");
	pool_report_problem(batch, worker->job, error.text);
}

/*
 * Kills the processes of a worker, but not an opener that is kept, and removes it from the array;
 * the last one takes its slot.
 */
static void remove_worker(struct pool_batch *batch, struct pool_worker *worker)
{
	struct pool_share *share = &batch->shares[worker->share];

	share->running--;
	share->used += now_ms() - worker->started;
	sandbox_worker_kill(worker->lifeline);
	close(worker->lifeline);
	close_fd(worker->fd);
	if (!batch->openers[worker->opener].is_kept)
		kill_opener(batch, &batch->openers[worker->opener]);
	free(worker->buffer);
	free(worker->strings);
	free(worker->received);
	free(worker->ranges);
	*worker = batch->workers[--batch->worker_count];
	batch->worker_max = batch->processes;
}

/*
 * No worker can be started now. What openers that are kept and other workers have (descriptors,
 * memory, processes) is missing: without such openers, the next start waits until a worker ends.
 * Returns whether there are such openers or workers.
 */
static bool await_end(struct pool_batch *batch)
{
	if (kill_kept_openers(batch)) {
		/* With other workers, a start that fails again waits for one of them. */
		if (!batch->worker_count)
			wait_for_openers(batch);
		return true;
	}
	batch->worker_max = batch->worker_count;
	return batch->worker_count > 0;
}

/* Whether a worker was killed by the server of the sandbox. It may still live, in the kernel. */
static bool is_at_limit(const struct pool_worker *worker)
{
	return worker->has_status && (sandbox_status_is_cpu_limit(worker->status) ||
				      sandbox_status_is_hang(worker->status));
}

/*
 * A worker has sent everything, and hangs: nothing is lost but what was to be kept. Each worker
 * that comes after it would hang, too.
 */
static void end_hanging_keeper(struct pool_batch *batch, struct pool_worker *worker)
{
	if (!batch->cache_hangs)
		pool_report_problem(batch, worker->job,
				    "its symbols are not kept: the disk of the cache hangs");
	batch->cache_hangs = true;
	remove_worker(batch, worker);
	kill_kept_openers(batch);
}

/*
 * A worker has closed its pipe, was killed, or has sent an invalid message. It is killed at once,
 * as it may close the pipe without exiting. If it has failed, its status is awaited.
 */
static void end_worker(struct pool_batch *batch, struct pool_worker *worker)
{
	if (worker->got_end && !worker->protocol_error && is_at_limit(worker)) {
		end_hanging_keeper(batch, worker);
		return;
	}
	if (worker->got_end && !worker->protocol_error) {
		batch->openers[worker->opener].is_kept = true;
		remove_worker(batch, worker);
		return;
	}
	sandbox_worker_kill(worker->lifeline);
	close(worker->fd);
	worker->fd = -1;
	worker->deadline = now_ms() + EXIT_TIMEOUT_MS;
}

/* The process of a worker could not be forked: its slice is the next one of its share again. */
static void repeat_slice(struct pool_batch *batch, struct pool_worker *worker)
{
	struct pool_share *share = &batch->shares[worker->share];
	const bool ends_opener = worker->reuses_opener;

	batch->slices[worker->slice_index].next = share->first;
	share->first = worker->slice_index;
	remove_worker(batch, worker);
	/* The opener that was killed is what ends, if nothing else does. */
	if (!await_end(batch) && ends_opener) {
		wait_for_openers(batch);
		batch->worker_max = batch->processes;
	}
}

/* Keeps the results received so far. */
static void abandon_task(struct pool_batch *batch, struct pool_worker *worker, const char *why)
{
	struct task *task = &batch->tasks[worker->job];

	if (!task->abandoned)
		pool_report_problem(batch, worker->job, why);
	task->abandoned = true;
	remove_worker(batch, worker);
}

static void abandon_at_limit(struct pool_batch *batch, struct pool_worker *worker)
{
	struct error error;

	if (sandbox_status_is_hang(worker->status))
		error_set(&error, ETIMEDOUT, "has no symbols: reading hung for %u s",
			  hang_limit_s(batch->pool));
	else
		error_set(&error, ETIMEDOUT,
			  "takes too long to read: after %u s of CPU time without a result, the "
			  "rest has no names",
			  cpu_limit_s(batch->pool));
	note_failure(batch, worker);
	abandon_task(batch, worker, error.text);
}

static void abandon_at_deadline(struct pool_batch *batch, struct pool_worker *worker)
{
	struct error error;

	error_set(&error, ETIMEDOUT, "takes too long to read: after %u s, the rest has no names",
		  deadline_s(batch->pool));
	note_failure(batch, worker);
	abandon_task(batch, worker, error.text);
}

static void report_end(struct pool_batch *batch, struct pool_worker *worker)
{
	int status = worker->has_status ? worker->status : WORKER_STATUS_UNKNOWN;

	/* With the first process of this batch, there is none that could end. */
	if (worker->has_status && status == WORKER_STATUS_UNKNOWN && !worker->protocol_error &&
	    (batch->opener_count > 1 || worker->reuses_opener)) {
		repeat_slice(batch, worker);
		return;
	}
	if (is_at_limit(worker) && !worker->protocol_error) {
		abandon_at_limit(batch, worker);
		return;
	}
	report_failure(batch, worker, status);
	remove_worker(batch, worker);
}

/* Kills all before it waits, so that they exit in parallel. */
static void kill_workers(struct pool_batch *batch)
{
	while (batch->worker_count > 0)
		remove_worker(batch, &batch->workers[0]);
	kill_kept_openers(batch);
	wait_for_openers(batch);
	free(batch->killed_openers);
}

/* Messages */

/* Returns the account of the owner of a worker's files; NULL: out of memory. */
static struct owner *pool_worker_owner(struct pool_batch *batch, const struct pool_worker *worker)
{
	uint32_t uid = batch->owners_seen[worker->opener];

	for (size_t i = 0; i < batch->owner_count; i++) {
		if (batch->owners[i].uid == uid)
			return &batch->owners[i];
	}
	if (array_reserve(&batch->owners, &batch->owner_capacity, batch->owner_count, 1,
			  sizeof(*batch->owners)))
		return NULL;
	batch->owners[batch->owner_count] = (struct owner){.uid = uid};
	return &batch->owners[batch->owner_count++];
}

static size_t batch_quota(const struct pool_batch *batch)
{
	return batch->pool->output_bytes ? batch->pool->output_bytes : BATCH_BYTES;
}

static int pool_charge(struct pool_batch *batch, struct pool_worker *worker, size_t cost)
{
	struct task *task = &batch->tasks[worker->job];
	struct owner *owner = pool_worker_owner(batch, worker);

	if (!owner)
		return -ENOMEM;
	task->bytes += cost;
	batch->bytes += cost;
	owner->bytes += cost;
	if (task->bytes >
	    (task->job.syntax ? CODE_BYTES : TASK_BYTES) + task->job.count * ADDRESS_BYTES)
		worker->over_quota = QUOTA_OF_FILE;
	else if (batch->bytes > batch_quota(batch) &&
		 owner->bytes > batch_quota(batch) / batch->owner_count)
		worker->over_quota = QUOTA_OF_OWNER;
	return 0;
}

static int handle_string(struct pool_batch *batch, struct pool_worker *worker, const char *text,
			 size_t size)
{
	size_t known = batch->strings->count;
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
	return pool_charge(batch, worker,
			   STRING_OVERHEAD + (batch->strings->count > known ? size : 0));
}

static bool find_string(const struct pool_batch *batch, const struct pool_worker *worker,
			uint32_t number, const char **text)
{
	*text = NULL;
	if (number > worker->string_count)
		return false;
	if (number > 0)
		*text = batch->strings->items[worker->strings[number - 1]];
	return true;
}

static bool pool_parse_line(const struct pool_batch *batch, const struct pool_worker *worker,
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

static int handle_lines(struct pool_batch *batch, struct pool_worker *worker,
			const unsigned char *bytes, size_t size)
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
	worker->received_count++;
	for (uint32_t i = 0; i < head.count; i++, bytes += sizeof(message)) {
		memcpy(&message, bytes, sizeof(message));
		if (!pool_parse_line(batch, worker, &message, &batch->lines[i]))
			goto invalid;
	}
	if (pool_charge(batch, worker, (size_t)head.count * LINE_BYTES))
		return -ENOMEM;
	index = worker->slice.from + head.index;
	return batch->pool->lines(batch->pool->arg, worker->job, task->indices[index], batch->lines,
				  head.count);
invalid:
	worker->protocol_error = true;
	return 0;
}

static void handle_range(const struct pool_batch *batch, struct pool_worker *worker,
			 const void *bytes, size_t size)
{
	const struct worker_job *job = &batch->tasks[worker->job].job;
	struct worker_range message = {0};
	uint64_t address;

	worker->protocol_error = true;
	if (size != sizeof(message))
		return;
	memcpy(&message, bytes, size);
	if (message.index >= worker->slice.count || worker->ranges[message.index].end)
		return;
	address = job->addresses[worker->slice.from + message.index];
	if (address < message.start || address >= message.end)
		return;
	worker->ranges[message.index] = (struct address_range){message.start, message.end};
	worker->protocol_error = false;
}

/* The worker stops at what was left when it began, but others of its owner have read meanwhile. */
static void handle_map_read(const struct pool_batch *batch, struct pool_worker *worker,
			    const void *bytes, size_t size)
{
	struct pool_share *share = &batch->shares[worker->share];
	const uint64_t left = map_quota(batch->pool) - share->map_bytes;
	struct worker_map_read message = {0};

	worker->protocol_error =
		size != sizeof(message) || !batch->tasks[worker->job].job.is_perf_map;
	if (worker->protocol_error)
		return;
	memcpy(&message, bytes, size);
	share->map_bytes += MIN(message.bytes, left);
	if (message.is_truncated)
		report_maps(batch, share, worker->job);
	if (message.bytes > left)
		worker->over_quota = QUOTA_OF_MAPS;
}

static int handle_function(struct pool_batch *batch, struct pool_worker *worker, const void *bytes,
			   size_t size)
{
	struct worker_function message = {0};
	struct code_function function;

	worker->protocol_error = true;
	if (size != sizeof(message) || !batch->tasks[worker->job].job.syntax)
		return 0;
	memcpy(&message, bytes, size);
	function = (struct code_function){
		.start = message.start,
		.size = message.size,
		.shift = message.shift,
	};
	/* Each has an address of the job. */
	if (++worker->functions > worker->slice.count || !message.size ||
	    message.size > FUNCTION_BYTES_MAX || message.start > UINT64_MAX - message.size ||
	    !find_string(batch, worker, message.name, &function.name))
		return 0;
	worker->code = (struct address_range){message.start, message.start + message.size};
	worker->protocol_error = false;
	if (pool_charge(batch, worker, sizeof(function)))
		return -ENOMEM;
	return batch->pool->function(batch->pool->arg, worker->job, &function);
}

static int handle_instruction(struct pool_batch *batch, struct pool_worker *worker,
			      const void *bytes, size_t size)
{
	struct instruction instruction = {0};

	worker->protocol_error = true;
	if (size <= offsetof(struct instruction, text) || size >= sizeof(instruction))
		return 0;
	memcpy(&instruction, bytes, size);
	if (!instruction.size || instruction.size > INSTRUCTION_BYTES_MAX ||
	    instruction.address != worker->code.start ||
	    instruction.size > worker->code.end - worker->code.start)
		return 0;
	worker->code.start += instruction.size;
	worker->protocol_error = false;
	if (pool_charge(batch, worker, sizeof(instruction)))
		return -ENOMEM;
	return batch->pool->instruction(batch->pool->arg, worker->job, &instruction);
}

static void handle_problem(const struct pool_batch *batch, struct pool_worker *worker,
			   const char *text, size_t size)
{
	struct error error;

	if (++worker->problems > PROBLEMS_MAX) {
		worker->protocol_error = true;
		return;
	}
	/* Each slice reports the problem of the file; report it once. */
	if (worker->slice.from > 0)
		return;
	error_set(&error, EINVAL, "%.*s", (int)size, text);
	pool_report_problem(batch, worker->job, error.text);
}

static void handle_progress(const struct pool_batch *batch, struct pool_worker *worker,
			    const void *bytes, size_t size)
{
	struct worker_progress progress;

	worker->protocol_error = size != sizeof(progress) || !batch->pool->options.debuginfod;
	if (worker->protocol_error || !batch->pool->options.progress)
		return;
	memcpy(&progress, bytes, size);
	batch->pool->options.progress(batch->pool->options.arg, batch->jobs[worker->job].path,
				      progress.done, progress.total);
}

static void handle_end(const struct pool_batch *batch, struct pool_worker *worker, size_t size)
{
	const struct task *task = &batch->tasks[worker->job];

	worker->got_end = size == 0;
	worker->protocol_error = size > 0;
	if (worker->got_end)
		grant_time_to_keep(batch, worker);
	if (!worker->got_end || worker->problems || !batch->pool->ended)
		return;
	for (size_t i = 0; i < worker->slice.count; i++)
		batch->pool->ended(batch->pool->arg, worker->job,
				   task->indices[worker->slice.from + i], worker->received[i],
				   worker->opened, &worker->ranges[i]);
}

static int pool_handle_message(struct pool_batch *batch, struct pool_worker *worker, uint32_t type,
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
		handle_end(batch, worker, size);
		return 0;
	case WORKER_RANGE:
		handle_range(batch, worker, bytes, size);
		return 0;
	case WORKER_MAP_READ:
		handle_map_read(batch, worker, bytes, size);
		return 0;
	case WORKER_FUNCTION:
		return handle_function(batch, worker, bytes, size);
	case WORKER_INSTRUCTION:
		return handle_instruction(batch, worker, bytes, size);
	case WORKER_OPENED:
		worker->opened = size == 0;
		worker->protocol_error = size > 0;
		return 0;
	default:
		worker->protocol_error = true;
		return 0;
	}
}

/* Handles the complete messages in the buffer. */
static int handle_messages(struct pool_batch *batch, struct pool_worker *worker)
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
		err = pool_handle_message(batch, worker, message.type, worker->buffer + at,
					  message.size);
		at += message.size;
	}
	worker->size -= at;
	memmove(worker->buffer, worker->buffer + at, worker->size);
	return err;
}

/* Reads from a worker; ends it at the end of its pipe, over quota, or on a protocol error. */
static int read_worker(struct pool_batch *batch, struct pool_worker *worker)
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
		grant_time(batch, worker);
		err = handle_messages(batch, worker);
		if (!worker->protocol_error && !worker->over_quota)
			return err;
	}
	if (worker->over_quota == QUOTA_OF_FILE) {
		note_failure(batch, worker);
		abandon_task(batch, worker, "has too many or too long names: the rest is left out");
	} else if (worker->over_quota == QUOTA_OF_MAPS) {
		report_maps(batch, &batch->shares[worker->share], worker->job);
		batch->tasks[worker->job].abandoned = true;
		remove_worker(batch, worker);
	} else if (worker->over_quota == QUOTA_OF_OWNER) {
		abandon_task(batch, worker,
			     "the files of its owner have too many or too long names: the rest is "
			     "left out");
	} else {
		end_worker(batch, worker);
	}
	return err;
}

/* Returns the time, in ms, of the first deadline, or of an end that is known. */
static int64_t next_deadline(const struct pool_batch *batch)
{
	int64_t next = batch->deadline;

	for (unsigned int i = 0; i < batch->worker_count; i++) {
		const struct pool_worker *worker = &batch->workers[i];

		next = MIN(next, worker->has_status ? 0 : worker->deadline);
	}
	return next;
}

enum {
	POLL_OUTPUT,
	POLL_LIFELINE,
	POLL_COUNT, /* of a worker */
};

/* Handles the events of a worker, which may be removed. */
static int update_worker(struct pool_batch *batch, struct pool_worker *worker,
			 const struct pollfd fds[], int64_t now)
{
	/* Its output may have come after that was polled, but before the status. */
	bool has_all_output = worker->has_status && !fds[POLL_OUTPUT].revents;

	if (fds[POLL_LIFELINE].revents)
		worker->has_status = sandbox_worker_exited(worker->lifeline, &worker->status);
	if (worker->fd < 0) {
		if (worker->has_status || worker->deadline <= now)
			report_end(batch, worker);
		return 0;
	}
	/* The total deadline also stops a worker that never stops sending. */
	if (worker->deadline <= now && worker->got_end && !worker->protocol_error)
		remove_worker(batch, worker);
	else if (worker->deadline <= now)
		abandon_at_deadline(batch, worker);
	else if (has_all_output)
		end_worker(batch, worker);
	else if (fds[POLL_OUTPUT].revents)
		return read_worker(batch, worker);
	return 0;
}

static int poll_workers(struct pool_batch *batch)
{
	struct pollfd fds[PROCESSES_MAX * POLL_COUNT + 1];
	const size_t count = (size_t)batch->worker_count * POLL_COUNT;
	struct pollfd *stop = &fds[count];
	int64_t now = now_ms(), wait = next_deadline(batch) - now;
	int err = 0;

	for (size_t i = 0; i < batch->worker_count; i++) {
		const struct pool_worker *worker = &batch->workers[i];

		fds[i * POLL_COUNT + POLL_OUTPUT] = (struct pollfd){
			.fd = worker->fd,
			.events = POLLIN,
		};
		fds[i * POLL_COUNT + POLL_LIFELINE] = (struct pollfd){
			.fd = worker->has_status ? -1 : worker->lifeline,
			.events = POLLIN,
		};
	}
	*stop = (struct pollfd){
		.fd = batch->pool->options.stop > 0 ? batch->pool->options.stop : -1,
		.events = POLLIN,
	};
	if (wait > INT_MAX)
		wait = INT_MAX;
	if (poll(fds, count + 1, wait > 0 ? (int)wait : 0) < 0)
		return errno == EINTR ? 0 : -errno;
	if (stop->revents)
		return -EINTR;
	reap_openers(batch);
	now = now_ms();
	if (batch->deadline <= now)
		return -ETIME;
	/* Backwards, as the last worker takes the slot of a removed one. */
	for (size_t i = batch->worker_count; i > 0 && !err; i--)
		err = update_worker(batch, &batch->workers[i - 1], &fds[(i - 1) * POLL_COUNT], now);
	return err;
}

/* Tasks */

struct indexed_address {
	uint64_t address;
	size_t index;
};

static int pool_compare_addresses(const void *a, const void *b)
{
	const struct indexed_address *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

/* Sorts by address: adjacent addresses share most of the debug information read for them. */
static int prepare_task(struct task *task, const struct worker_job *job)
{
	size_t count = job->count;
	struct indexed_address *list = calloc(count, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		list[i] = (struct indexed_address){job->addresses[i], i};
	qsort(list, count, sizeof(*list), pool_compare_addresses);
	for (size_t i = 0; i < count; i++) {
		task->addresses[i] = list[i].address;
		task->indices[i] = list[i].index;
	}
	free(list);
	task->job = *job;
	task->job.addresses = task->addresses;
	return 0;
}

static void free_tasks(struct pool_batch *batch)
{
	if (batch->owners_seen)
		munmap((void *)batch->owners_seen, OWNERS_SIZE);
	free(batch->owners);
	free(batch->tasks);
	free(batch->addresses);
	free(batch->indices);
	free(batch->slices);
	free(batch->shares);
}

static int prepare_tasks(struct pool_batch *batch)
{
	size_t total = 0;
	int err = 0;

	for (size_t i = 0; i < batch->count; i++)
		total += batch->jobs[i].count;
	batch->tasks = calloc(batch->count, sizeof(*batch->tasks));
	batch->addresses = calloc(total, sizeof(*batch->addresses));
	batch->indices = calloc(total, sizeof(*batch->indices));
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
static size_t slices_of(const struct pool_batch *batch, const struct task *task,
			unsigned int processes)
{
	size_t most = task->job.count / SLICE_ADDRESSES_MIN;

	/* Functions would come from several workers. */
	if (batch->large_count >= processes || task->job.is_perf_map || task->job.syntax ||
	    most < 2)
		return task->job.count > 0;
	return most < processes ? most : processes;
}

/* Returns the share of an owner, or NULL: out of memory. */
static struct pool_share *share_of(struct pool_batch *batch, uint32_t owner)
{
	for (size_t i = 0; i < batch->share_count; i++) {
		if (batch->shares[i].owner == owner)
			return &batch->shares[i];
	}
	if (array_reserve(&batch->shares, &batch->share_capacity, batch->share_count, 1,
			  sizeof(*batch->shares)))
		return NULL;
	batch->shares[batch->share_count] = (struct pool_share){.owner = owner, .first = NO_SLICE};
	return &batch->shares[batch->share_count++];
}

/* There is room for the slice. */
static int add_slice(struct pool_batch *batch, const struct pool_slice *slice)
{
	struct pool_share *share = share_of(batch, batch->tasks[slice->task].job.owner);

	if (!share)
		return -ENOMEM;
	if (share->first == NO_SLICE)
		share->first = batch->slice_count;
	else
		batch->slices[share->last].next = batch->slice_count;
	share->last = batch->slice_count;
	batch->slices[batch->slice_count++] = *slice;
	return 0;
}

static int prepare_slices(struct pool_batch *batch, unsigned int processes)
{
	int err = 0;

	for (size_t i = 0; i < batch->count; i++)
		batch->large_count += batch->tasks[i].job.count >= SLICE_ADDRESSES_MIN;
	batch->slices = calloc(batch->count * processes + 1, sizeof(*batch->slices));
	if (!batch->slices)
		return -ENOMEM;
	for (size_t i = 0; i < batch->count && !err; i++) {
		size_t count = batch->tasks[i].job.count;
		size_t slices = slices_of(batch, &batch->tasks[i], processes);

		for (size_t slice = 0; slice < slices && !err; slice++) {
			size_t from = count * slice / slices;
			size_t to = count * (slice + 1) / slices;

			err = add_slice(batch, &(struct pool_slice){i, from, to - from, NO_SLICE});
		}
	}
	return err;
}

/* Abandons a perf map of an owner of whose maps enough was read. */
static void abandon_map(const struct pool_batch *batch, struct pool_share *share, size_t job)
{
	struct task *task = &batch->tasks[job];

	if (!task->job.is_perf_map || share->map_bytes < map_quota(batch->pool))
		return;
	report_maps(batch, share, job);
	task->abandoned = true;
}

/* Skips the slices of abandoned tasks: they would fail like the slices before. */
static void skip_abandoned(const struct pool_batch *batch, struct pool_share *share)
{
	while (share->first != NO_SLICE) {
		const struct pool_slice *slice = &batch->slices[share->first];

		abandon_map(batch, share, slice->task);
		if (!batch->tasks[slice->task].abandoned)
			return;
		share->first = slice->next;
	}
}

static int64_t time_of(const struct pool_batch *batch, const struct pool_share *share, int64_t now)
{
	int64_t time = share->used;

	for (unsigned int i = 0; i < batch->worker_count; i++) {
		if (&batch->shares[batch->workers[i].share] == share)
			time += now - batch->workers[i].started;
	}
	return time;
}

/* Returns the share that has had least, of those with slices; NULL: none has any. */
static struct pool_share *choose_share(const struct pool_batch *batch)
{
	int64_t now = now_ms(), time, least = 0;
	struct pool_share *chosen = NULL;

	for (size_t i = 0; i < batch->share_count; i++) {
		struct pool_share *share = &batch->shares[i];

		skip_abandoned(batch, share);
		if (share->first == NO_SLICE)
			continue;
		time = time_of(batch, share, now);
		if (chosen && (share->running > chosen->running ||
			       (share->running == chosen->running && time >= least)))
			continue;
		chosen = share;
		least = time;
	}
	return chosen;
}

/* Counts the files that were not read, or not completely. */
static size_t count_unfinished(const struct pool_batch *batch)
{
	bool *unfinished = calloc(batch->count, sizeof(*unfinished));
	size_t count = 0;

	for (size_t i = 0; unfinished && i < batch->share_count; i++) {
		for (size_t slice = batch->shares[i].first; slice != NO_SLICE;
		     slice = batch->slices[slice].next)
			unfinished[batch->slices[slice].task] = true;
	}
	for (unsigned int i = 0; unfinished && i < batch->worker_count; i++)
		unfinished[batch->workers[i].job] = true;
	for (size_t i = 0; unfinished && i < batch->count; i++)
		count += unfinished[i];
	free(unfinished);
	return count;
}

/* Addresses that are not done yet. */
static size_t count_remaining(const struct pool_batch *batch)
{
	size_t count = 0;

	for (size_t i = 0; i < batch->share_count; i++) {
		for (size_t slice = batch->shares[i].first; slice != NO_SLICE;
		     slice = batch->slices[slice].next)
			count += batch->slices[slice].count;
	}
	for (unsigned int i = 0; i < batch->worker_count; i++)
		count += batch->workers[i].slice.count - batch->workers[i].received_count;
	return count;
}

static void report_names_progress(struct pool_batch *batch)
{
	const struct symbolize_options *options = &batch->pool->options;
	const int64_t now = now_ms();
	size_t total = 0;

	if (!options->names_progress || now < batch->next_progress)
		return;
	batch->next_progress = now + PROGRESS_INTERVAL_MS;
	for (size_t i = 0; i < batch->slice_count; i++)
		total += batch->slices[i].count;
	options->names_progress(options->arg, total - count_remaining(batch), total,
				now - batch->begin);
}

static int pool_run_batch(struct pool_batch *batch)
{
	void *shared =
		mmap(NULL, OWNERS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int err;

	if (shared == MAP_FAILED)
		return -ENOMEM;
	batch->owners_seen = shared;
	err = prepare_tasks(batch);

	if (!err)
		err = prepare_slices(batch, batch->processes);
	while (!err) {
		struct pool_share *share =
			batch->worker_count < batch->worker_max ? choose_share(batch) : NULL;

		if (share) {
			err = pool_start_worker(batch, &batch->workers[batch->worker_count], share);
			if (err && await_end(batch))
				err = 0;
		} else if (batch->worker_count)
			err = poll_workers(batch);
		else
			break;
		report_names_progress(batch);
	}
	/* It stays on a terminal while what follows takes its time. */
	batch->next_progress = 0;
	if (!err)
		report_names_progress(batch);
	return err;
}

int worker_pool_run(const struct worker_pool *pool, const struct worker_job *jobs, size_t count,
		    struct string_table *strings)
{
	struct pool_batch *batch;
	int err;

	if (!count)
		return 0;
	batch = calloc(1, sizeof(*batch));
	if (!batch)
		return -ENOMEM;
	batch->pool = pool;
	batch->jobs = jobs;
	batch->count = count;
	batch->strings = strings;
	batch->begin = now_ms();
	batch->processes = batch->worker_max = processes_max(pool);
	batch->deadline = pool->options.timeout_s
				  ? now_ms() + pool->options.timeout_s * MS_PER_SECOND
				  : INT64_MAX;
	err = pool_run_batch(batch);
	if (err == -ETIME) {
		if (pool->options.timed_out)
			pool->options.timed_out(pool->options.arg, pool->options.timeout_s,
						count_unfinished(batch));
		err = 0;
	}
	kill_workers(batch);
	free_tasks(batch);
	free(batch);
	if (err == -EINTR && pool->options.interrupted) {
		pool->options.interrupted(pool->options.arg);
		err = 0;
	}
	return err;
}
