// SPDX-License-Identifier: GPL-2.0
#include "inspect/stack_symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "inspect/stack_walk.h"
#include "lib/array.h"
#include "runtime/perf_map.h"
#include "source/perf_process.h"
#include "symbolize/source_line.h"
#include "symbolize/symbolize_options.h"
#include "symbolize/worker_pool.h"

int stack_symbols_add(struct stack_symbols *symbols, struct stack_walk *walk, uint64_t address)
{
	struct stack_symbol symbol = {.address = address};

	symbol.file = stack_walk_file_at(walk, address, &symbol.vaddr);
	symbol.is_jit = stack_walk_is_jit(walk, address);
	if (symbol.file == STACK_NO_FILE && !symbol.is_jit)
		return 0;
	if (symbol.is_jit)
		symbol.vaddr = address;
	if (array_reserve(&symbols->items, &symbols->capacity, symbols->count, 1,
			  sizeof(*symbols->items)))
		return -ENOMEM;
	symbols->items[symbols->count++] = symbol;
	return 0;
}

static int stack_symbols_compare(const void *a, const void *b)
{
	const struct stack_symbol *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static int compare_files(const void *a, const void *b)
{
	const struct stack_symbol *x = a, *y = b;

	if (x->is_jit != y->is_jit)
		return x->is_jit ? 1 : -1;
	if (!x->is_jit && x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

struct job_file {
	struct stack_symbol *first; /* its addresses */
	int fd;
};

struct stack_symbols_run {
	struct job_file files[STACK_FILES_MAX + 1];
	struct worker_job jobs[STACK_FILES_MAX + 1];
	size_t count;
	int perf_map; /* -1: none */
};

static int stack_symbols_open(void *arg, unsigned int candidate, struct error *error)
{
	const struct job_file *file = arg;
	int fd;

	(void)error;
	if (candidate || file->fd < 0)
		return -ENOENT;
	fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

static int take_lines(void *arg, size_t job, size_t index, const struct source_line *lines,
		      size_t count)
{
	struct stack_symbols_run *run = arg;
	struct stack_symbol *symbol = &run->files[job].first[index];

	if (!count)
		return 0;
	symbol->function = lines[count - 1].function;
	symbol->start = lines[count - 1].start;
	symbol->source = lines[0].file;
	symbol->line = lines[0].line;
	return 0;
}

/* Opens the perf map of a process. Returns an fd, or -1. */
static int open_process_map(pid_t pid)
{
	struct perf_process_status status;
	uint32_t user;
	int directory, fd;

	if (!perf_process_read("", (uint32_t)pid, &status))
		return -1;
	directory = perf_map_directory("", (uint32_t)pid, &user);
	if (directory < 0)
		return -1;
	fd = perf_map_open(directory, status.ns_pid, status.start_time, user);
	close(directory);
	return fd < 0 ? -1 : fd;
}

static void stack_symbols_add_job(struct stack_symbols_run *run, struct stack_symbol *symbol,
				  const struct stack_file *file, const uint64_t *addresses)
{
	run->files[run->count] =
		(struct job_file){symbol, symbol->is_jit ? run->perf_map : file->fd};
	run->jobs[run->count] = (struct worker_job){
		.path = symbol->is_jit ? "the perf map" : file->path,
		.build_id = symbol->is_jit ? "" : file->file.build_id,
		.addresses = addresses,
		.count = 1,
		.open = stack_symbols_open,
		.arg = &run->files[run->count],
		.is_perf_map = symbol->is_jit,
	};
	run->count++;
}

/* Makes a job for each file, and for the perf map: the addresses are sorted by them. */
static void make_jobs(struct stack_symbols *symbols, const struct stack_walk *walk,
		      uint64_t *addresses, struct stack_symbols_run *run)
{
	for (size_t i = 0; i < symbols->count; i++) {
		struct stack_symbol *symbol = &symbols->items[i];

		addresses[i] = symbol->vaddr;
		if (symbol->is_jit && run->perf_map < 0)
			run->perf_map = open_process_map(walk->pid);
		/* They are the last ones. */
		if (symbol->is_jit && run->perf_map < 0)
			return;
		if (i && symbol[-1].is_jit == symbol->is_jit &&
		    (symbol->is_jit || symbol[-1].file == symbol->file))
			run->jobs[run->count - 1].count++;
		else
			stack_symbols_add_job(run, symbol,
					      symbol->is_jit ? NULL : &walk->files[symbol->file],
					      addresses + i);
	}
}

static void remove_unnamed_memory(struct stack_symbols *symbols)
{
	size_t kept = 0;

	for (size_t i = 0; i < symbols->count; i++) {
		if (symbols->items[i].file != STACK_NO_FILE || symbols->items[i].function)
			symbols->items[kept++] = symbols->items[i];
	}
	symbols->count = kept;
}

/* One address may have been added more than once. */
static void remove_duplicates(struct stack_symbols *symbols)
{
	size_t kept = 0;

	for (size_t i = 0; i < symbols->count; i++) {
		if (!kept || symbols->items[kept - 1].address != symbols->items[i].address)
			symbols->items[kept++] = symbols->items[i];
	}
	symbols->count = kept;
}

int stack_symbols_find(struct stack_symbols *symbols, const struct stack_walk *walk,
		       const struct symbolize_options *options)
{
	uint64_t *addresses = calloc(symbols->count + 1, sizeof(*addresses));
	struct stack_symbols_run *run = calloc(1, sizeof(*run));
	const struct worker_pool pool = {.options = *options, .lines = take_lines, .arg = run};
	int err = addresses && run ? 0 : -ENOMEM;

	if (!err && symbols->count) {
		qsort(symbols->items, symbols->count, sizeof(*symbols->items),
		      stack_symbols_compare);
		remove_duplicates(symbols);
		qsort(symbols->items, symbols->count, sizeof(*symbols->items), compare_files);
		run->perf_map = -1;
		make_jobs(symbols, walk, addresses, run);
		err = worker_pool_run(&pool, run->jobs, run->count, &symbols->strings);
		if (run->perf_map >= 0)
			close(run->perf_map);
		remove_unnamed_memory(symbols);
		qsort(symbols->items, symbols->count, sizeof(*symbols->items),
		      stack_symbols_compare);
	}
	free(addresses);
	free(run);
	return err;
}

const struct stack_symbol *stack_symbols_at(const struct stack_symbols *symbols, uint64_t address)
{
	const struct stack_symbol key = {.address = address};

	if (!symbols->count)
		return NULL;
	return bsearch(&key, symbols->items, symbols->count, sizeof(*symbols->items),
		       stack_symbols_compare);
}

void stack_symbols_clear(struct stack_symbols *symbols)
{
	free(symbols->items);
	string_table_clear(&symbols->strings);
	*symbols = (struct stack_symbols){.items = NULL};
}
