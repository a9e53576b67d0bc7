// SPDX-License-Identifier: GPL-2.0
#include "namer.h"

#include "array.h"
#include "debuginfo.h"
#include "error.h"
#include "name_cache.h"
#include "namer_child.h"
#include "texts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES_MAX 64u
/* Addresses that are worth reading a file once more, by another process. */
#define PIECE_MIN 1000u
#define READ_SIZE (256u << 10)
/* No message is longer. */
#define MESSAGE_MAX (sizeof(struct namer_lines) + INLINE_DEPTH_MAX * sizeof(struct namer_line))

_Static_assert(MESSAGE_MAX <= NAMER_TEXT_MAX, "texts are the longest messages");

/* A job, as far as the cache does not do it. */
struct task {
	struct namer_job job; /* with the addresses that are left */
	uint64_t *addresses; /* of these; in run->addresses */
	size_t *indices; /* where each is in the job as it was given; in run->indices */
	struct cached_names *cached; /* NULL: it is not to be kept */
	size_t pieces; /* that are not done */
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
	int64_t deadline; /* ms: if it keeps silent until then, it is killed */
	unsigned char *bytes; /* read and not understood yet */
	size_t size, capacity;
	uint32_t *texts; /* its numbers, from 1, as ours */
	size_t text_count, text_capacity;
};

struct run {
	const struct namer *namer;
	const struct namer_job *jobs; /* as they were given */
	struct task *tasks; /* one for each */
	uint64_t *addresses; /* of all of them */
	size_t *indices;
	size_t count;
	struct piece *pieces;
	size_t piece_count, next;
	size_t busy_count; /* tasks that are worth a process of their own */
	struct texts *texts;
	struct worker workers[PROCESSES_MAX];
	unsigned int worker_count;
	struct name_line lines[INLINE_DEPTH_MAX];
};

struct name_line *name_lines_copy(const struct name_line *lines, size_t count)
{
	struct name_line *copy = malloc(count * sizeof(*copy));

	if (copy)
		memcpy(copy, lines, count * sizeof(*copy));
	return copy;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static unsigned int patience(const struct namer *namer)
{
	return namer->patience ? namer->patience : NAMER_PATIENCE_S;
}

static unsigned int processes_wanted(const struct namer *namer)
{
	long cpus = namer->processes ? (long)namer->processes : sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < 1)
		return 1;
	return cpus < (long)PROCESSES_MAX ? (unsigned int)cpus : PROCESSES_MAX;
}

static void report(const struct run *run, size_t job, const char *text)
{
	if (run->namer->problem)
		run->namer->problem(run->namer->arg, job, text);
}

/* Starting */

/* The child is worth less than anything else on the machine, and leaves no core. */
static void become_expendable(pid_t parent)
{
	const struct rlimit no_core = {0};
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	setrlimit(RLIMIT_CORE, &no_core);
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (write(fd, "1000", 4) < 0)
			errno = 0; /* it may still be killed as any other */
		close(fd);
	}
}

static int start(struct run *run, struct worker *worker)
{
	const struct piece *piece = &run->pieces[run->next];
	struct namer_job job = run->tasks[piece->task].job;
	pid_t parent = getpid();
	int ends[2], err;

	job.addresses += piece->from;
	job.count = piece->count;
	*worker = (struct worker){.job = piece->task, .piece = *piece, .is_sound = true};
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	worker->pid = fork();
	if (worker->pid == 0) {
		close(ends[0]);
		become_expendable(parent);
		namer_child(run->namer, &job, ends[1]);
		_exit(0);
	}
	err = worker->pid < 0 ? -errno : 0;
	close(ends[1]);
	if (err) {
		close(ends[0]);
		return err;
	}
	worker->fd = ends[0];
	worker->deadline = now_ms() + patience(run->namer) * INT64_C(1000);
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

/* Takes the worker out of the list. One that was killed and hangs in the kernel is left behind. */
static void end(struct run *run, struct worker *worker, bool wait)
{
	struct task *task = &run->tasks[worker->job];
	int status = 0;

	close(worker->fd);
	if (waitpid(worker->pid, &status, wait ? 0 : WNOHANG) == worker->pid && wait &&
	    !(worker->ended && worker->is_sound))
		explain_end(run, worker, status);
	if (--task->pieces == 0 && task->cached)
		name_cache_write(run->namer->cache, task->job.build_id, task->cached);
	free(worker->bytes);
	free(worker->texts);
	*worker = run->workers[--run->worker_count];
}

static void kill_silent(struct run *run, struct worker *worker)
{
	struct error error;

	error_set(&error, ETIMEDOUT, "has no names: reading it has hung for %u s",
		  patience(run->namer));
	report(run, worker->job, error.text);
	kill(worker->pid, SIGKILL);
	end(run, worker, false);
}

/* What workers tell */

static int take_text(struct run *run, struct worker *worker, const char *text, size_t size)
{
	uint32_t index = texts_add(run->texts, text, size);

	if (index == TEXTS_NONE || array_reserve(&worker->texts, &worker->text_capacity,
						 worker->text_count, 1, sizeof(index)) != 0)
		return -ENOMEM;
	worker->texts[worker->text_count++] = index;
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
		      const struct namer_line *told, struct name_line *line)
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
static uint64_t cache_key(const struct namer_job *job, uint64_t address)
{
	return job->code_start ? (address - job->code_start) ^ UINT64_C(1) << 62 : address;
}

/*
 * Without a line, names are those of symbols: debug information may be installed later. What
 * can't be kept is found again.
 */
static void keep(struct task *task, size_t index, const struct name_line *lines, size_t count)
{
	struct name_line kept[INLINE_DEPTH_MAX];

	if (!task->cached || (count > 0 && (!lines[0].file || !lines[0].line)))
		return;
	for (size_t i = 0; i < count; i++) {
		kept[i] = lines[i];
		if (kept[i].start)
			kept[i].start -= task->job.code_start;
	}
	if (cached_names_add(task->cached, cache_key(&task->job, task->addresses[index]), kept,
			     count) != 0) {
		cached_names_free(task->cached);
		task->cached = NULL;
	}
}

static int take_lines(struct run *run, struct worker *worker, const unsigned char *bytes,
		      size_t size)
{
	struct task *task = &run->tasks[worker->job];
	struct namer_lines head;
	struct namer_line told;
	size_t index;

	if (size < sizeof(head))
		goto nonsense;
	memcpy(&head, bytes, sizeof(head));
	bytes += sizeof(head);
	if (head.index >= worker->piece.count || head.count > INLINE_DEPTH_MAX ||
	    size != sizeof(head) + head.count * sizeof(told))
		goto nonsense;
	for (uint32_t i = 0; i < head.count; i++, bytes += sizeof(told)) {
		memcpy(&told, bytes, sizeof(told));
		if (!take_line(run, worker, &told, &run->lines[i]))
			goto nonsense;
	}
	index = worker->piece.from + head.index;
	keep(task, index, run->lines, head.count);
	return run->namer->name(run->namer->arg, worker->job, task->indices[index], run->lines,
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
	struct namer_progress progress;

	worker->is_sound = size == sizeof(progress) && run->namer->progress;
	if (!worker->is_sound)
		return;
	memcpy(&progress, bytes, size);
	run->namer->progress(run->namer->arg, worker->job, progress.done, progress.total);
}

static int take(struct run *run, struct worker *worker, uint32_t type, const unsigned char *bytes,
		size_t size)
{
	switch (type) {
	case NAMER_TEXT:
		return take_text(run, worker, (const char *)bytes, size);
	case NAMER_LINES:
		return take_lines(run, worker, bytes, size);
	case NAMER_PROBLEM:
		take_problem(run, worker, (const char *)bytes, size);
		return 0;
	case NAMER_PROGRESS:
		take_progress(run, worker, bytes, size);
		return 0;
	case NAMER_END:
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
	struct namer_message message;
	size_t at = 0;
	int result = 0;

	while (result == 0 && worker->is_sound && worker->size - at >= sizeof(message)) {
		memcpy(&message, worker->bytes + at, sizeof(message));
		if (message.size > NAMER_TEXT_MAX || worker->ended) {
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

/* Reads what a worker has told; removes it when that is all. */
static int listen(struct run *run, struct worker *worker)
{
	ssize_t got;
	int result;

	if (array_reserve(&worker->bytes, &worker->capacity, worker->size, READ_SIZE, 1) != 0)
		return -ENOMEM;
	got = read(worker->fd, worker->bytes + worker->size, READ_SIZE);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (got > 0) {
		worker->size += (size_t)got;
		worker->deadline = now_ms() + patience(run->namer) * INT64_C(1000);
		result = take_all(run, worker);
		if (worker->is_sound)
			return result;
	}
	if (!worker->is_sound)
		kill(worker->pid, SIGKILL);
	end(run, worker, true);
	return 0;
}

static int listen_to_all(struct run *run)
{
	struct pollfd fds[PROCESSES_MAX];
	int64_t now = now_ms(), deadline = INT64_MAX;
	int result = 0;

	for (unsigned int i = 0; i < run->worker_count; i++) {
		fds[i] = (struct pollfd){.fd = run->workers[i].fd, .events = POLLIN};
		if (run->workers[i].deadline < deadline)
			deadline = run->workers[i].deadline;
	}
	if (poll(fds, run->worker_count, deadline > now ? (int)(deadline - now) : 0) < 0)
		return errno == EINTR ? 0 : -errno;
	now = now_ms();
	/* From the last one on: one that ends gives its place to the last one. */
	for (unsigned int i = run->worker_count; i > 0 && result == 0; i--) {
		if (fds[i - 1].revents)
			result = listen(run, &run->workers[i - 1]);
		else if (run->workers[i - 1].deadline <= now)
			kill_silent(run, &run->workers[i - 1]);
	}
	return result;
}

/* The cache */

/* Texts of the cache, as the callers of namer_run() get them. */
static int own_text(struct run *run, const char **text)
{
	uint32_t index;

	if (!*text)
		return 0;
	index = texts_add(run->texts, *text, strlen(*text));
	if (index == TEXTS_NONE)
		return -ENOMEM;
	*text = run->texts->items[index];
	return 0;
}

/* Tells the lines of an address that the cache has. */
static int tell_cached(struct run *run, size_t job, size_t index, size_t count)
{
	const uint64_t code_start = run->jobs[job].code_start;

	for (size_t i = 0; i < count; i++) {
		struct name_line *line = &run->lines[i];

		if (own_text(run, &line->function) || own_text(run, &line->system_name) ||
		    own_text(run, &line->file))
			return -ENOMEM;
		if (line->start)
			line->start += code_start;
	}
	return run->namer->name(run->namer->arg, job, index, run->lines, count);
}

static bool is_kept(const struct run *run, const struct namer_job *job)
{
	return run->namer->cache && *job->build_id && !job->offsets && !job->is_perfmap;
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
	const struct namer_job *job = &run->jobs[number];
	struct task *task = &run->tasks[number];
	size_t count;
	int err = 0;

	task->job = *job;
	task->job.count = 0;
	task->job.addresses = task->addresses;
	if (is_kept(run, job)) {
		task->cached = name_cache_read(run->namer->cache, job->build_id);
		if (!task->cached)
			return -ENOMEM;
	}
	for (size_t i = 0; i < job->count && !err; i++) {
		if (task->cached &&
		    cached_names_find(task->cached, cache_key(job, job->addresses[i]), run->lines,
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
		cached_names_free(run->tasks[i].cached);
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

	if (run->busy_count >= processes || task->job.is_perfmap || most < 2)
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
	}
	return result;
}

int namer_run(const struct namer *namer, const struct namer_job *jobs, size_t count,
	      struct texts *texts)
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
	while (run->worker_count > 0) {
		kill(run->workers[0].pid, SIGKILL);
		end(run, &run->workers[0], false);
	}
	if (namer->cache)
		name_cache_trim(namer->cache);
	free_tasks(run);
	free(run);
	return result;
}
