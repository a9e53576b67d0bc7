// SPDX-License-Identifier: GPL-2.0
#include "symbolize/worker_pool.h"

#include "debuginfo/dwarf_lookup.h"
#include "lib/array.h"
#include "lib/error.h"
#include "lib/pidfd.h"
#include "lib/string_table.h"
#include "sandbox/worker_limits.h"
#include "symbolize/symbol_cache.h"
#include "symbolize/worker.h"

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

#define PROCESSES_MAX 64u
/* Addresses that are worth reading a file once more, by another process. */
#define PIECE_MIN 1000u
#define READ_SIZE (256u << 10)
/* No message is longer. */
#define MESSAGE_MAX (sizeof(struct worker_lines) + INLINE_DEPTH_MAX * sizeof(struct worker_line))
/*
 * Bytes of texts that a job may tell, and so much more for each of its addresses; and all jobs.
 * A few bytes of a file can stand for much text, as names may overlap.
 */
#define TASK_BYTES ((size_t)1 << 20)
#define ADDRESS_BYTES ((size_t)4 << 10)
#define RUN_BYTES ((size_t)512 << 20)
#define TEXT_COST 64u /* of each, beside its bytes */
#define ENDING_MS 10000 /* for a process to end that tells no more */

_Static_assert(WORKER_STRING_MAX <= MESSAGE_MAX, "lines are the longest messages");

/* A job, as far as the cache does not do it. */
struct task {
	struct worker_job job; /* with the addresses that are left */
	uint64_t *addresses; /* of these; in run->addresses */
	size_t *indices; /* where each is in the job as it was given; in run->indices */
	struct cached_symbols *cached; /* NULL: it is not to be kept */
	size_t pieces; /* that are not done */
	size_t bytes; /* of texts that were told */
	bool given_up; /* for a reason that was told: what is not done is left out */
};

/* What one process does of a task: neighbours, so that each reads its own part of the file. */
struct piece {
	size_t task;
	size_t from, count; /* of its addresses */
};

/* A process at work. */
struct worker {
	size_t job;
	struct piece piece;
	pid_t pid;
	int fd; /* where it tells */
	bool ended; /* it has told all */
	bool is_sound; /* what it told made sense */
	bool has_spoken;
	bool is_trusted; /* what it tells may be kept */
	bool tells_too_much;
	int64_t silence_end; /* ms: if it keeps silent until then, it is killed */
	int64_t end; /* ms: it is killed in any case */
	unsigned char *bytes; /* read and not understood yet */
	size_t size, capacity;
	uint32_t *texts; /* its numbers, from 1, as ours */
	size_t text_count, text_capacity;
	bool *told; /* of each address of the piece */
};

struct run {
	const struct worker_pool *namer;
	const struct worker_job *jobs; /* as they were given */
	struct task *tasks; /* one for each */
	uint64_t *addresses; /* of all of them */
	size_t *indices;
	size_t count;
	struct piece *pieces;
	size_t piece_count, next;
	size_t busy_count; /* tasks that are worth a process of their own */
	struct string_table *texts;
	size_t bytes; /* of texts that were told */
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

static unsigned int patience(const struct worker_pool *namer)
{
	return namer->timeout_s ? namer->timeout_s : WORKER_TIMEOUT_S;
}

static unsigned int limit(const struct worker_pool *namer)
{
	return namer->deadline_s ? namer->deadline_s : WORKER_DEADLINE_S;
}

static unsigned int processes_wanted(const struct worker_pool *namer)
{
	long cpus = namer->processes ? (long)namer->processes : sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < 1)
		return 1;
	return cpus < (long)PROCESSES_MAX ? (unsigned int)cpus : PROCESSES_MAX;
}

static void report(const struct run *run, size_t job, const char *text)
{
	if (run->namer->options.problem)
		run->namer->options.problem(run->namer->options.arg, run->jobs[job].path, text);
}

/* Starting */

static int start(struct run *run, struct worker *worker)
{
	const struct piece *piece = &run->pieces[run->next];
	struct worker_job job = run->tasks[piece->task].job;
	const struct worker_settings settings = {
		.directories = run->namer->options.directories,
		.directory_count = run->namer->options.directory_count,
		.fetches = run->namer->options.progress,
	};
	pid_t parent = getpid();
	int ends[2], err;

	job.addresses += piece->from;
	job.count = piece->count;
	*worker = (struct worker){.job = piece->task, .piece = *piece, .is_sound = true};
	worker->told = calloc(piece->count + 1, sizeof(*worker->told));
	if (!worker->told)
		return -ENOMEM;
	if (pipe2(ends, O_CLOEXEC) != 0) {
		err = -errno;
		free(worker->told);
		return err;
	}
	worker->pid = fork();
	if (worker->pid == 0) {
		close(ends[0]);
		limit_worker(parent);
		worker_main(&settings, &job, ends[1]);
		_exit(0);
	}
	err = worker->pid < 0 ? -errno : 0;
	close(ends[1]);
	if (err) {
		close(ends[0]);
		free(worker->told);
		return err;
	}
	worker->fd = ends[0];
	worker->silence_end = now_ms() + patience(run->namer) * INT64_C(1000);
	worker->end = now_ms() + limit(run->namer) * INT64_C(1000);
	run->next++;
	run->worker_count++;
	return 0;
}

/* Ending */

static void explain_end(const struct run *run, const struct worker *worker, int status)
{
	struct error error;

	if (!worker->is_sound)
		error_set(&error, EBADMSG, "names are not right: the process that read it erred");
	else if (WIFSIGNALED(status))
		error_set(&error, EBADMSG, "is broken: reading its symbols ended with signal %d",
			  WTERMSIG(status));
	else
		error_set(&error, ENOMEM, "its symbols could not be read");
	report(run, worker->job, error.text);
}

static void end_piece(const struct run *run, struct task *task)
{
	if (--task->pieces == 0 && task->cached)
		symbol_cache_write(run->namer->options.cache, task->job.build_id, task->cached);
}

/* Takes the worker out of the list. */
static void remove_worker(struct run *run, struct worker *worker)
{
	close(worker->fd);
	end_piece(run, &run->tasks[worker->job]);
	free(worker->bytes);
	free(worker->texts);
	free(worker->told);
	*worker = run->workers[--run->worker_count];
}

/* Of a worker that has closed its pipe, or erred and was killed. One may close it and stay. */
static void end_worker(struct run *run, struct worker *worker)
{
	int status = 0;

	if (!process_exits_within(worker->pid, ENDING_MS)) {
		kill(worker->pid, SIGKILL);
		process_exits_within(worker->pid, ENDING_MS);
	}
	waitpid(worker->pid, &status, WNOHANG);
	if (!worker->ended || !worker->is_sound)
		explain_end(run, worker, status);
	remove_worker(run, worker);
}

/* What was told before stays. */
static void give_up(struct run *run, struct worker *worker, const char *why)
{
	struct task *task = &run->tasks[worker->job];

	if (!task->given_up)
		report(run, worker->job, why);
	task->given_up = true;
	kill(worker->pid, SIGKILL);
	wait_killed(worker->pid);
	remove_worker(run, worker);
}

static void give_up_late(struct run *run, struct worker *worker, int64_t now)
{
	struct error error;

	if (worker->end <= now)
		error_set(&error, ETIMEDOUT,
			  "takes too long to read: after %u s, the rest has no names",
			  limit(run->namer));
	else
		error_set(&error, ETIMEDOUT, "has no names: reading it has hung for %u s",
			  patience(run->namer));
	give_up(run, worker, error.text);
}

/* All at once, so that they end together. */
static void kill_all(struct run *run)
{
	for (unsigned int i = 0; i < run->worker_count; i++)
		kill(run->workers[i].pid, SIGKILL);
	while (run->worker_count > 0) {
		wait_killed(run->workers[0].pid);
		remove_worker(run, &run->workers[0]);
	}
}

/* What workers tell */

static int take_text(struct run *run, struct worker *worker, const char *text, size_t size)
{
	struct task *task = &run->tasks[worker->job];
	size_t known = run->texts->count, cost;
	uint32_t index;

	if (size > WORKER_STRING_MAX) {
		worker->is_sound = false;
		return 0;
	}
	index = string_table_add(run->texts, text, size);
	if (index == STRING_NONE || array_reserve(&worker->texts, &worker->text_capacity,
						  worker->text_count, 1, sizeof(index)) != 0)
		return -ENOMEM;
	worker->texts[worker->text_count++] = index;
	cost = TEXT_COST + (run->texts->count > known ? size : 0);
	task->bytes += cost;
	run->bytes += cost;
	worker->tells_too_much = task->bytes > TASK_BYTES + task->job.count * ADDRESS_BYTES ||
				 run->bytes > RUN_BYTES;
	return 0;
}

static bool find_text(const struct run *run, const struct worker *worker, uint32_t number,
		      const char **text)
{
	*text = NULL;
	if (number > worker->text_count)
		return false;
	if (number > 0)
		*text = run->texts->items[worker->texts[number - 1]];
	return true;
}

static bool take_line(const struct run *run, const struct worker *worker,
		      const struct worker_line *told, struct source_line *line)
{
	line->line = told->line;
	line->start_line = told->start_line;
	line->start = told->start;
	return find_text(run, worker, told->function, &line->function) &&
	       find_text(run, worker, told->system_name, &line->system_name) &&
	       find_text(run, worker, told->file, &line->file) &&
	       !line->function == !line->system_name;
}

/*
 * What a cache calls an address: it must be the same for a kernel that lies elsewhere, and
 * none that a file has.
 */
static uint64_t cache_key(const struct worker_job *job, uint64_t address)
{
	return job->code_start ? (address - job->code_start) ^ UINT64_C(1) << 62 : address;
}

/*
 * Without a line, names are those of symbols: debug information may be installed later. What
 * can't be kept is found again.
 */
static void keep(struct task *task, size_t index, const struct source_line *lines, size_t count)
{
	struct source_line kept[INLINE_DEPTH_MAX];

	if (!task->cached || (count > 0 && (!lines[0].file || !lines[0].line)))
		return;
	for (size_t i = 0; i < count; i++) {
		kept[i] = lines[i];
		if (kept[i].start)
			kept[i].start -= task->job.code_start;
	}
	if (cached_symbols_add(task->cached, cache_key(&task->job, task->addresses[index]), kept,
			       count) != 0) {
		cached_symbols_free(task->cached);
		task->cached = NULL;
	}
}

static int take_lines(struct run *run, struct worker *worker, const unsigned char *bytes,
		      size_t size)
{
	struct task *task = &run->tasks[worker->job];
	struct worker_lines head;
	struct worker_line told;
	size_t index;

	if (size < sizeof(head))
		goto nonsense;
	memcpy(&head, bytes, sizeof(head));
	bytes += sizeof(head);
	if (head.index >= worker->piece.count || head.count > INLINE_DEPTH_MAX ||
	    size != sizeof(head) + head.count * sizeof(told) || worker->told[head.index])
		goto nonsense;
	worker->told[head.index] = true;
	for (uint32_t i = 0; i < head.count; i++, bytes += sizeof(told)) {
		memcpy(&told, bytes, sizeof(told));
		if (!take_line(run, worker, &told, &run->lines[i]))
			goto nonsense;
	}
	index = worker->piece.from + head.index;
	if (worker->is_trusted)
		keep(task, index, run->lines, head.count);
	return run->namer->lines(run->namer->arg, worker->job, task->indices[index], run->lines,
				 head.count);
nonsense:
	worker->is_sound = false;
	return 0;
}

static void take_problem(const struct run *run, const struct worker *worker, const char *text,
			 size_t size)
{
	struct error error;

	/* What is wrong with a file is so for all of its pieces. */
	if (worker->piece.from > 0)
		return;
	error_set(&error, EINVAL, "%.*s", (int)size, text);
	report(run, worker->job, error.text);
}

static void take_progress(const struct run *run, struct worker *worker, const void *bytes,
			  size_t size)
{
	struct worker_progress progress;

	worker->is_sound = size == sizeof(progress) && run->namer->options.progress;
	if (!worker->is_sound)
		return;
	memcpy(&progress, bytes, size);
	run->namer->options.progress(run->namer->options.arg, run->jobs[worker->job].path,
				     progress.done, progress.total);
}

static int take(struct run *run, struct worker *worker, uint32_t type, const unsigned char *bytes,
		size_t size)
{
	bool is_first = !worker->has_spoken;

	worker->has_spoken = true;
	switch (type) {
	case WORKER_TRUSTED:
		worker->is_sound = is_first;
		worker->is_trusted = is_first;
		return 0;
	case WORKER_UNTRUSTED:
		worker->is_trusted = false;
		return 0;
	case WORKER_STRING:
		return take_text(run, worker, (const char *)bytes, size);
	case WORKER_LINES:
		return take_lines(run, worker, bytes, size);
	case WORKER_PROBLEM:
		take_problem(run, worker, (const char *)bytes, size);
		return 0;
	case WORKER_PROGRESS:
		take_progress(run, worker, bytes, size);
		return 0;
	case WORKER_END:
		worker->ended = true;
		return 0;
	default:
		worker->is_sound = false;
		return 0;
	}
}

/* Takes what is whole of what was read. */
static int take_all(struct run *run, struct worker *worker)
{
	struct worker_message message;
	size_t at = 0;
	int result = 0;

	while (result == 0 && worker->is_sound && !worker->tells_too_much &&
	       worker->size - at >= sizeof(message)) {
		memcpy(&message, worker->bytes + at, sizeof(message));
		if (message.size > MESSAGE_MAX || worker->ended) {
			worker->is_sound = false;
			break;
		}
		if (worker->size - at < sizeof(message) + message.size)
			break;
		at += sizeof(message);
		result = take(run, worker, message.type, worker->bytes + at, message.size);
		at += message.size;
	}
	worker->size -= at;
	memmove(worker->bytes, worker->bytes + at, worker->size);
	return result;
}

/* Reads what a worker has told; removes it when that is all, or more than enough. */
static int listen(struct run *run, struct worker *worker)
{
	ssize_t got;
	int result = 0;

	if (array_reserve(&worker->bytes, &worker->capacity, worker->size, READ_SIZE, 1) != 0)
		return -ENOMEM;
	got = read(worker->fd, worker->bytes + worker->size, READ_SIZE);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (got > 0) {
		worker->size += (size_t)got;
		worker->silence_end = now_ms() + patience(run->namer) * INT64_C(1000);
		result = take_all(run, worker);
		if (worker->is_sound && !worker->tells_too_much)
			return result;
	}
	if (worker->tells_too_much) {
		give_up(run, worker, "has too long names: the rest is left out");
		return result;
	}
	if (!worker->is_sound)
		kill(worker->pid, SIGKILL);
	end_worker(run, worker);
	return result;
}

/* The next time, in ms, at which a worker is late. */
static int64_t next_end(const struct run *run)
{
	int64_t next = INT64_MAX;

	for (unsigned int i = 0; i < run->worker_count; i++) {
		const struct worker *worker = &run->workers[i];

		if (worker->silence_end < next)
			next = worker->silence_end;
		if (worker->end < next)
			next = worker->end;
	}
	return next;
}

static int listen_to_all(struct run *run)
{
	struct pollfd fds[PROCESSES_MAX + 1];
	int64_t now = now_ms(), next = next_end(run);
	int result = 0;

	for (unsigned int i = 0; i < run->worker_count; i++)
		fds[i] = (struct pollfd){.fd = run->workers[i].fd, .events = POLLIN};
	fds[run->worker_count] = (struct pollfd){
		.fd = run->namer->options.stop > 0 ? run->namer->options.stop : -1,
		.events = POLLIN,
	};
	if (poll(fds, run->worker_count + 1, next > now ? (int)(next - now) : 0) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[run->worker_count].revents)
		return -EINTR;
	now = now_ms();
	/* From the last one on: one that ends gives its place to the last one. */
	for (unsigned int i = run->worker_count; i > 0 && result == 0; i--) {
		struct worker *worker = &run->workers[i - 1];
		bool speaks = fds[i - 1].revents;

		/* One that speaks without an end is late, too. */
		if (worker->end <= now || (!speaks && worker->silence_end <= now))
			give_up_late(run, worker, now);
		else if (speaks)
			result = listen(run, worker);
	}
	return result;
}

/* The cache */

/* Texts of the cache, as the callers of worker_pool_run() get them. */
static int own_text(struct run *run, const char **text)
{
	uint32_t index;

	if (!*text)
		return 0;
	index = string_table_add(run->texts, *text, strlen(*text));
	if (index == STRING_NONE)
		return -ENOMEM;
	*text = run->texts->items[index];
	return 0;
}

/* Tells the lines of an address that the cache has. */
static int tell_cached(struct run *run, size_t job, size_t index, size_t count)
{
	const uint64_t code_start = run->jobs[job].code_start;

	for (size_t i = 0; i < count; i++) {
		struct source_line *line = &run->lines[i];

		if (own_text(run, &line->function) || own_text(run, &line->system_name) ||
		    own_text(run, &line->file))
			return -ENOMEM;
		if (line->start)
			line->start += code_start;
	}
	return run->namer->lines(run->namer->arg, job, index, run->lines, count);
}

static bool is_kept(const struct run *run, const struct worker_job *job)
{
	return run->namer->options.cache && *job->build_id && !job->offsets && !job->is_perf_map;
}

struct indexed {
	uint64_t address;
	size_t index;
};

static int compare_addresses(const void *a, const void *b)
{
	const struct indexed *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

/* Neighbours have most of what is read for them in common. */
static int sort_addresses(struct task *task)
{
	size_t count = task->job.count;
	struct indexed *list = calloc(count + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		list[i] = (struct indexed){task->addresses[i], task->indices[i]};
	qsort(list, count, sizeof(*list), compare_addresses);
	for (size_t i = 0; i < count; i++) {
		task->addresses[i] = list[i].address;
		task->indices[i] = list[i].index;
	}
	free(list);
	return 0;
}

/* Tells what the cache has, and leaves the rest in the task. */
static int prepare_task(struct run *run, size_t number)
{
	const struct worker_job *job = &run->jobs[number];
	struct task *task = &run->tasks[number];
	size_t count;
	int err = 0;

	task->job = *job;
	task->job.count = 0;
	task->job.addresses = task->addresses;
	if (is_kept(run, job)) {
		task->cached = symbol_cache_read(run->namer->options.cache, job->build_id);
		if (!task->cached)
			return -ENOMEM;
	}
	for (size_t i = 0; i < job->count && !err; i++) {
		if (task->cached &&
		    cached_symbols_find(task->cached, cache_key(job, job->addresses[i]), run->lines,
					&count)) {
			err = tell_cached(run, number, i, count);
			continue;
		}
		task->addresses[task->job.count] = job->addresses[i];
		task->indices[task->job.count++] = i;
	}
	return err ? err : sort_addresses(task);
}

static void free_tasks(struct run *run)
{
	for (size_t i = 0; run->tasks && i < run->count; i++)
		cached_symbols_free(run->tasks[i].cached);
	free(run->tasks);
	free(run->addresses);
	free(run->indices);
	free(run->pieces);
}

static int prepare_tasks(struct run *run)
{
	size_t total = 0;
	int err = 0;

	for (size_t i = 0; i < run->count; i++)
		total += run->jobs[i].count;
	run->tasks = calloc(run->count + 1, sizeof(*run->tasks));
	run->addresses = calloc(total + 1, sizeof(*run->addresses));
	run->indices = calloc(total + 1, sizeof(*run->indices));
	if (!run->tasks || !run->addresses || !run->indices)
		return -ENOMEM;
	total = 0;
	for (size_t i = 0; i < run->count && !err; i++) {
		run->tasks[i].addresses = run->addresses + total;
		run->tasks[i].indices = run->indices + total;
		total += run->jobs[i].count;
		err = prepare_task(run, i);
	}
	return err;
}

/* One large file is for all processes, where there are not files enough for them. */
static size_t pieces_of(const struct run *run, const struct task *task, unsigned int processes)
{
	size_t most = task->job.count / PIECE_MIN;

	if (run->busy_count >= processes || task->job.is_perf_map || most < 2)
		return task->job.count > 0;
	return most < processes ? most : processes;
}

static int prepare_pieces(struct run *run, unsigned int processes)
{
	for (size_t i = 0; i < run->count; i++)
		run->busy_count += run->tasks[i].job.count >= PIECE_MIN;
	run->pieces = calloc(run->count * processes + 1, sizeof(*run->pieces));
	if (!run->pieces)
		return -ENOMEM;
	for (size_t i = 0; i < run->count; i++) {
		struct task *task = &run->tasks[i];
		size_t count = task->job.count;

		task->pieces = pieces_of(run, task, processes);
		for (size_t piece = 0; piece < task->pieces; piece++) {
			size_t from = count * piece / task->pieces;
			size_t to = count * (piece + 1) / task->pieces;

			run->pieces[run->piece_count++] = (struct piece){i, from, to - from};
		}
	}
	return 0;
}

/* What is left of a file that was given up would end as what came before. */
static void skip_given_up(struct run *run)
{
	while (run->next < run->piece_count) {
		struct task *task = &run->tasks[run->pieces[run->next].task];

		if (!task->given_up)
			return;
		end_piece(run, task);
		run->next++;
	}
}

static int run_all(struct run *run)
{
	unsigned int processes = processes_wanted(run->namer);
	int result = prepare_tasks(run);

	if (result == 0)
		result = prepare_pieces(run, processes);
	while (result == 0 && (run->next < run->piece_count || run->worker_count > 0)) {
		while (result == 0 && run->next < run->piece_count && run->worker_count < processes)
			result = start(run, &run->workers[run->worker_count]);
		if (result == 0)
			result = listen_to_all(run);
		skip_given_up(run);
	}
	return result;
}

int worker_pool_run(const struct worker_pool *namer, const struct worker_job *jobs, size_t count,
		    struct string_table *texts)
{
	struct run *run = calloc(1, sizeof(*run));
	int result;

	if (!run)
		return -ENOMEM;
	run->namer = namer;
	run->jobs = jobs;
	run->count = count;
	run->texts = texts;
	result = run_all(run);
	kill_all(run);
	if (namer->options.cache)
		symbol_cache_trim(namer->options.cache);
	free_tasks(run);
	free(run);
	if (result == -EINTR && namer->options.interrupted) {
		namer->options.interrupted(namer->options.arg);
		result = 0;
	}
	return result;
}
