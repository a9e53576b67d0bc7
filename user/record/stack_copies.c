// SPDX-License-Identifier: GPL-2.0
#include "record/stack_copies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/array.h"
#include "lib/clock.h"
#include "mappings/address_space.h"
#include "mappings/mapped_files.h"
#include "mappings/mapping_history.h"
#include "pprof/truncation.h"
#include "record/stack_table.h"
#include "record/table_jobs.h"
#include "record/verification.h"
#include "source/ring_decode.h"
#include "unwind/walk.h"

/* gcc's analyzer loses sight of what is stored in the array, and reports it as leaked. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#define NO_FILE UINT32_MAX
/* Samples of one process in which a view is searched: they often follow each other. */
#define RECENT_VIEWS 16u
/* The usual limit of a stack: a frame pointer up to here is one. */
#define STACK_BYTES_MAX (UINT64_C(8) << 20)

/* The mappings for samples of one generation. */
struct copy_view {
	struct mapping_view view;
	uint64_t space; /* id */
	uint32_t generation;
	uint32_t uses;
};

struct waiting_sample {
	struct stackbeat_sample *sample; /* owned */
	struct stackbeat_stack *stack; /* of stack_copies_keep() */
	struct address_space *space; /* held */
	struct copy_view *view;
	uint32_t file; /* whose table is missing */
	int64_t since;
};

struct stack_copies {
	struct stack_copies_config config;
	struct mapped_files *files;
	struct waiting_sample *waiting; /* in the order of arrival */
	size_t count, capacity;
	size_t bytes;
	struct stack_copies_counts counts;
	uint64_t addresses[STACKBEAT_USER_FRAMES_MAX];
};

/* One walk. */
struct copy_walk {
	const struct stack_copies *copies;
	const struct stackbeat_sample *sample;
	const struct stackbeat_stack *stack;
	struct address_space *space;
	const struct mapping_view *view; /* NULL: the mappings belong to `space` */
	struct walk_mapping mapping; /* of the address looked up last */
	uint32_t missing; /* file without its table, at which the walk has ended; or NO_FILE */
};

struct stack_copies *stack_copies_new(const struct stack_copies_config *config)
{
	struct stack_copies *copies = calloc(1, sizeof(*copies));

	if (!copies)
		return NULL;
	copies->config = *config;
	if (!copies->config.memory)
		copies->config.memory = STACK_COPIES_BYTES_MAX;
	copies->files = address_spaces_files(config->spaces);
	return copies;
}

/* Memory */

struct stackbeat_stack *stack_copies_keep(struct stack_copies *copies,
					  const struct stackbeat_stack *stack)
{
	struct stackbeat_stack *kept = NULL;

	if (copies->bytes + stack->record.size <= copies->config.memory)
		kept = malloc(stack->record.size);
	if (!kept) {
		copies->counts.full++;
		return NULL;
	}
	memcpy(kept, stack, stack->record.size);
	copies->bytes += stack->record.size;
	return kept;
}

void stack_copies_drop(struct stack_copies *copies, struct stackbeat_stack *stack)
{
	if (!stack)
		return;
	copies->bytes -= stack->record.size;
	explicit_bzero(stack, stack->record.size);
	free(stack);
}

static size_t view_bytes(const struct copy_view *view)
{
	return sizeof(*view) + mapping_view_bytes(&view->view);
}

static void drop_view(struct stack_copies *copies, struct copy_view *view)
{
	if (!view || --view->uses)
		return;
	copies->bytes -= view_bytes(view);
	mapping_view_clear(&view->view);
	free(view);
}

/* Returns the view for a sample, with one use more; or NULL when out of memory. */
static struct copy_view *stack_copies_get_view(struct stack_copies *copies,
					       struct address_space *space,
					       const struct stackbeat_sample *sample)
{
	struct copy_view *view;

	for (size_t i = copies->count; i > 0 && copies->count - i < RECENT_VIEWS; i--) {
		view = copies->waiting[i - 1].view;
		if (view->space == sample->address_space &&
		    view->generation == sample->generation) {
			view->uses++;
			return view;
		}
	}
	view = calloc(1, sizeof(*view));
	if (!view || mapping_view_init(&view->view, space, sample->generation)) {
		free(view);
		return NULL;
	}
	view->space = sample->address_space;
	view->generation = sample->generation;
	view->uses = 1;
	copies->bytes += view_bytes(view);
	return view;
}

/* Frees what a sample has, which was in the list. */
static void stack_copies_drop_sample(struct stack_copies *copies, struct waiting_sample *waiting)
{
	address_space_release(waiting->space);
	drop_view(copies, waiting->view);
	stack_copies_drop(copies, waiting->stack);
	copies->bytes -= waiting->sample->record.size;
	free(waiting->sample);
}

void stack_copies_free(struct stack_copies *copies)
{
	if (!copies)
		return;
	for (size_t i = 0; i < copies->count; i++)
		stack_copies_drop_sample(copies, &copies->waiting[i]);
	free(copies->waiting);
	free(copies);
}

/* Walking */

static const struct walk_mapping *copy_walk_find_mapping(void *arg, uint64_t address)
{
	struct copy_walk *walk = arg;
	const struct stack_copies *copies = walk->copies;
	const struct mapping *mapping;
	struct mapped_file *file;
	bool is_offset = false;

	/* Callers are often in the same file. */
	if (address >= walk->mapping.start && address < walk->mapping.end)
		return &walk->mapping;
	mapping = walk->view ? mapping_view_mapping(walk->view, address)
			     : address_space_mapping_at(walk->space, walk->sample->generation,
							address);
	if (!mapping)
		return NULL;
	walk->mapping = (struct walk_mapping){mapping->start, mapping->end, -mapping->bias, NULL};
	file = segment_file(copies->files, mapping->segment, &is_offset);
	if (!file || is_offset)
		return &walk->mapping;
	if (unwind_tables_find(copies->config.tables, file, &walk->mapping.table) ==
	    UNWIND_TABLE_PENDING) {
		walk->missing = file->index;
		return NULL;
	}
	return &walk->mapping;
}

/* Bytes of the stack that were asked for. */
static uint64_t asked_bytes(const struct stack_copies *copies, const struct stackbeat_stack *stack)
{
	const uint64_t asked = stack->record.flags & DECODE_STACK_ASKED;

	return asked ? asked : copies->config.copy_size;
}

/* Whether a word is missing because the copy, and not the stack, ends. */
static bool is_beyond_copy(const struct copy_walk *walk, uint64_t address)
{
	uint64_t offset = address - walk->stack->registers[STACKBEAT_REGISTER_RSP];

	/* A copy that is shorter than asked for has met memory that can't be read. */
	if (offset < asked_bytes(walk->copies, walk->stack))
		return false;
	/* A rule may lead to another stack; a frame pointer that does so may be none. */
	return walk->mapping.table || offset < STACK_BYTES_MAX;
}

/* Returns the user_stop of a walk. */
static uint8_t stop_of(const struct copy_walk *walk, const struct walk_result *result)
{
	if (result->end == WALK_UNREADABLE && is_beyond_copy(walk, result->unreadable))
		return TRUNCATION_STOP_COPY_ENDS;
	switch (result->end) {
	case WALK_OUTERMOST:
		return STACKBEAT_STOP_OUTERMOST;
	case WALK_MAX_DEPTH:
		return STACKBEAT_STOP_MAX_DEPTH;
	case WALK_NO_RULE:
		return STACKBEAT_STOP_NO_RULE;
	case WALK_UNREADABLE:
		return walk->mapping.table ? STACKBEAT_STOP_FAULT : STACKBEAT_STOP_NO_TABLE;
	case WALK_BAD_FRAME:
		return walk->mapping.table ? STACKBEAT_STOP_BAD_FRAME : STACKBEAT_STOP_NO_TABLE;
	case WALK_LOST_REGISTER:
	case WALK_NO_MAPPING:
		break;
	}
	return STACKBEAT_STOP_BAD_FRAME;
}

/*
 * Walks the copy of a stack, and adds the sample. Returns 1 if that is done, 0 if a table is
 * missing, or -ENOMEM.
 */
static int try_walk(struct stack_copies *copies, struct copy_walk *context)
{
	struct copied_frames frames = {.addresses = copies->addresses};
	struct walk_result result;
	int err;

	context->missing = NO_FILE;
	context->mapping = (struct walk_mapping){.table = NULL};
	walk_stack_copy(context->stack, copy_walk_find_mapping, context, copies->addresses,
			copies->config.max_depth, &result);
	if (context->missing != NO_FILE)
		return 0;
	frames.count = (uint16_t)result.frames;
	frames.table_frames = (uint16_t)result.table_frames;
	frames.stop = stop_of(context, &result);
	copies->counts.walked++;
	copies->counts.bytes += asked_bytes(copies, context->stack);
	if (copies->config.walked)
		copies->config.walked(context->sample->cpu, result.need, copies->config.arg);
	err = stack_table_add_copied(copies->config.stacks, context->sample, &frames,
				     context->view);
	return err ? err : 1;
}

/* Samples */

/* Lets a sample wait. Returns 0, or -ENOMEM if there is no room for it. */
static int stack_copies_wait_for(struct stack_copies *copies, const struct copy_walk *walk,
				 struct address_space *space)
{
	struct waiting_sample waiting = {
		.space = space,
		.file = walk->missing,
		.since = now_ns(CLOCK_MONOTONIC),
	};

	if (array_reserve(&copies->waiting, &copies->capacity, copies->count, 1,
			  sizeof(*copies->waiting)))
		return -ENOMEM;
	waiting.stack = stack_copies_keep(copies, walk->stack);
	waiting.sample = waiting.stack ? malloc(walk->sample->record.size) : NULL;
	waiting.view = waiting.sample ? stack_copies_get_view(copies, space, walk->sample) : NULL;
	if (!waiting.view) {
		stack_copies_drop(copies, waiting.stack);
		free(waiting.sample);
		return -ENOMEM;
	}
	memcpy(waiting.sample, walk->sample, walk->sample->record.size);
	copies->bytes += walk->sample->record.size;
	address_space_hold(space);
	copies->waiting[copies->count++] = waiting;
	return 0;
}

int stack_copies_add(struct stack_copies *copies, const struct stackbeat_sample *sample,
		     const struct stackbeat_stack *stack)
{
	struct address_space *space =
		address_spaces_get(copies->config.spaces, sample->address_space, sample->pid);
	struct copy_walk walk = {
		.copies = copies, .sample = sample, .stack = stack, .space = space};
	int done;

	if (!space)
		return -ENOMEM;
	if (stack && stack->record.flags & STACKBEAT_STACK_EXTRA) {
		if (copies->config.verification)
			verification_add(copies->config.verification, sample, stack, space);
		return stack_table_add_copied(copies->config.stacks, sample, NULL, NULL);
	}
	/* Without mappings, the copy is of no use. */
	if (stack && sample->address_space) {
		done = try_walk(copies, &walk);
		if (done)
			return done < 0 ? done : 0;
		if (!stack_copies_wait_for(copies, &walk, space))
			return 0;
	}
	return stack_table_add_copied(copies->config.stacks, sample, NULL, NULL);
}

static bool stack_copies_is_pending(const struct stack_copies *copies, uint32_t file)
{
	const struct stackbeat_unwind_view *view;

	return unwind_tables_find(copies->config.tables, mapped_files_at(copies->files, file),
				  &view) == UNWIND_TABLE_PENDING;
}

/* Returns 1 if a sample was added, 0 if it still waits, or -ENOMEM. */
static int stack_copies_retry(struct stack_copies *copies, struct waiting_sample *waiting,
			      int64_t now)
{
	struct copy_walk walk = {
		.copies = copies,
		.sample = waiting->sample,
		.stack = waiting->stack,
		.space = waiting->space,
		.view = &waiting->view->view,
	};
	int err, done = 0;

	if (!stack_copies_is_pending(copies, waiting->file)) {
		done = try_walk(copies, &walk);
		if (done)
			return done;
		waiting->file = walk.missing;
	}
	if (now - waiting->since < STACK_COPIES_WAIT_NS)
		return 0;
	err = stack_table_add_copied(copies->config.stacks, waiting->sample, NULL, walk.view);
	if (err)
		return err;
	copies->counts.late++;
	return 1;
}

int stack_copies_run(struct stack_copies *copies, int64_t now)
{
	size_t kept = 0;
	int err = 0;

	for (size_t i = 0; i < copies->count; i++) {
		struct waiting_sample *waiting = &copies->waiting[i];
		int done = stack_copies_retry(copies, waiting, now);

		/* There may be memory for the sample later. */
		if (done < 0)
			err = done;
		if (done > 0)
			stack_copies_drop_sample(copies, waiting);
		else
			copies->waiting[kept++] = *waiting;
	}
	copies->count = kept;
	return err;
}

bool stack_copies_are_waiting(const struct stack_copies *copies)
{
	return copies->count;
}

void stack_copies_mark(const struct stack_copies *copies)
{
	for (size_t i = 0; i < copies->count; i++) {
		if (!i || copies->waiting[i].view != copies->waiting[i - 1].view)
			mapping_view_mark(&copies->waiting[i].view->view, copies->files);
	}
}

size_t stack_copies_bytes(const struct stack_copies *copies)
{
	return copies->bytes + copies->capacity * sizeof(*copies->waiting);
}

void stack_copies_counts(const struct stack_copies *copies, struct stack_copies_counts *counts)
{
	*counts = copies->counts;
}
