// SPDX-License-Identifier: GPL-2.0
#include "inspect/stack_symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "inspect/stack_walk.h"
#include "lib/array.h"
#include "symbolize/source_line.h"
#include "symbolize/symbolize_options.h"
#include "symbolize/worker_pool.h"

int stack_symbols_add(struct stack_symbols *symbols, struct stack_walk *walk, uint64_t address)
{
	struct stack_symbol symbol = {.address = address};

	symbol.file = stack_walk_file_at(walk, address, &symbol.vaddr);
	if (symbol.file == STACK_NO_FILE)
		return 0;
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

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

struct job_file {
	struct stack_symbol *first; /* its addresses */
	int fd;
};

struct stack_symbols_run {
	struct job_file files[STACK_FILES_MAX];
	struct worker_job jobs[STACK_FILES_MAX];
	size_t count;
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

/* Makes a job for each file; the addresses are sorted by file. */
static void make_jobs(struct stack_symbols *symbols, const struct stack_walk *walk,
		      uint64_t *addresses, struct stack_symbols_run *run)
{
	for (size_t i = 0; i < symbols->count; i++) {
		struct stack_symbol *symbol = &symbols->items[i];
		const struct stack_file *file = &walk->files[symbol->file];

		addresses[i] = symbol->vaddr;
		if (i && symbol[-1].file == symbol->file) {
			run->jobs[run->count - 1].count++;
			continue;
		}
		run->files[run->count] = (struct job_file){symbol, file->fd};
		run->jobs[run->count] = (struct worker_job){
			.path = file->path,
			.build_id = file->file.build_id,
			.addresses = addresses + i,
			.count = 1,
			.open = stack_symbols_open,
			.arg = &run->files[run->count],
		};
		run->count++;
	}
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
		make_jobs(symbols, walk, addresses, run);
		err = worker_pool_run(&pool, run->jobs, run->count, &symbols->strings);
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
