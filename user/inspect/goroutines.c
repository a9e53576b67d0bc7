// SPDX-License-Identifier: GPL-2.0
#include "inspect/goroutines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>

#include "inspect/process_memory.h"
#include "lib/array.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "runtime/go_layout.h"
#include "unwind/go_program.h"

#define WORD sizeof(uint64_t)
#define ADDRESS_MAX (UINT64_C(1) << 47)
#define STATUS_SCAN 0x1000u
#define STACK_MAX (UINT64_C(1) << 32) /* bytes; Go's own limit is 1 GiB */

/* Goroutines that are read together: their stacks stay in the caches. */
#define BATCH 256u
#define STACK_COPY 4096u /* bytes of each stack that are read at first */
#define DEEP_COPY (1u << 20) /* and of one for which that is not enough */
#define ROUNDS 8u /* for goroutines that have changed */
#define ROUND_PAUSE_NS 1000000
#define FRAMES_MAX (UINT32_C(1) << 25) /* of all stacks */
#define RULES 8192u /* a power of two */

/* Fields of g that are read, decoded; without padding. */
struct fields {
	uint64_t stack_lo, stack_hi, sp, pc, syscall_sp, syscall_pc, id;
	uint64_t status; /* without STATUS_SCAN */
	uint64_t labels;
};

/* What is known about a pc. */
struct goroutine_rule {
	uint64_t pc; /* 0: none */
	uint64_t frame; /* as in struct goroutines */
	uint32_t cfa; /* rsp + cfa is the CFA; 0: there is no rule */
	bool is_interrupted; /* of the key */
	uint8_t kind; /* enum go_function_kind */
};

/* A goroutine of a batch. */
struct goroutine_slot {
	uint64_t address; /* of its g */
	uint32_t index; /* in goroutines->items */
	unsigned char *before, *after; /* g */
	unsigned char *first, *second; /* the stack from `sp` on; NULL: it has none to read */
	uint64_t sp, pc;
	size_t size; /* of the copies of the stack */
	struct fields fields; /* of `before` */
	bool was_read; /* all of it */
};

struct walked {
	uint64_t frames[GOROUTINE_FRAMES_MAX];
	uint32_t words[GOROUTINE_FRAMES_MAX]; /* offsets of the words of the stack that were used */
	uint32_t count, word_count;
	enum goroutine_end end;
	bool needs_more; /* of the stack */
	bool has_program_code; /* a function that is not the runtime's */
};

struct goroutine_reader {
	const struct goroutines_source *source;
	struct goroutines *goroutines;
	size_t g_size; /* bytes of a g that are read */
	uint64_t *addresses; /* of each g, in the order of allgs */
	uint32_t *pending,
		*unsettled; /* indices of those that are to be read in this and the next round */
	size_t pending_count, unsettled_count;
	size_t malformed;
	int64_t deadline;
	struct memory_batch memory;
	struct goroutine_slot slots[BATCH];
	unsigned char *g_copies; /* two for each slot */
	unsigned char *stack_copies; /* two for each slot */
	unsigned char *deep; /* two copies of one stack; allocated when needed */
	struct goroutine_rule rules[RULES];
	struct walked walked;
};

/* Decoding */

static uint64_t goroutine_word_at(const unsigned char *bytes, size_t offset)
{
	uint64_t word;

	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

static void goroutine_decode(const struct go_layout *layout, const unsigned char *g,
			     struct fields *fields)
{
	uint32_t status;

	memcpy(&status, g + layout->status, sizeof(status));
	*fields = (struct fields){
		.stack_lo = goroutine_word_at(g, layout->stack_lo),
		.stack_hi = goroutine_word_at(g, layout->stack_hi),
		.sp = goroutine_word_at(g, layout->sched_sp),
		.pc = goroutine_word_at(g, layout->sched_pc),
		.syscall_sp = goroutine_word_at(g, layout->syscall_sp),
		.syscall_pc = goroutine_word_at(g, layout->syscall_pc),
		.id = goroutine_word_at(g, layout->goid),
		.status = status & ~STATUS_SCAN,
		.labels = goroutine_word_at(g, layout->labels),
	};
}

static size_t g_size(const struct go_layout *layout)
{
	const uint16_t last[] = {layout->status,      layout->goid,        layout->wait_since,
				 layout->wait_reason, layout->parent_goid, layout->gopc,
				 layout->startpc,     layout->syscall_pc,  layout->sched_bp,
				 layout->syscall_bp,  layout->labels};
	size_t size = 0;

	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++)
		size = MAX(size, last[i] + WORD);
	return size;
}

_Static_assert(sizeof(struct fields) == 9 * sizeof(uint64_t), "fields are compared as bytes");

static bool is_dead(const struct fields *fields)
{
	return fields->status == GOROUTINE_IDLE || fields->status == GOROUTINE_DEAD ||
	       fields->status == GOROUTINE_DEADEXTRA;
}

static bool is_parked(const struct fields *fields)
{
	switch (fields->status) {
	case GOROUTINE_RUNNABLE:
	case GOROUTINE_SYSCALL:
	case GOROUTINE_WAITING:
	case GOROUTINE_PREEMPTED:
	case GOROUTINE_LEAKED:
		return true;
	default:
		return false;
	}
}

/* Whether the fields of a goroutine that is not dead can belong to one. */
static bool is_well_formed(const struct fields *fields)
{
	return fields->status < GOROUTINE_STATUSES && fields->id && fields->stack_lo % WORD == 0 &&
	       fields->stack_hi % WORD == 0 && fields->stack_lo < fields->stack_hi &&
	       fields->stack_hi < ADDRESS_MAX && fields->stack_hi - fields->stack_lo <= STACK_MAX;
}

/*
 * Sets where the walk begins: in a system call, at the caller of the runtime. Returns false if that
 * is not in the stack.
 */
static bool find_begin(struct goroutine_slot *slot)
{
	const struct fields *fields = &slot->fields;

	slot->sp = fields->syscall_sp ? fields->syscall_sp : fields->sp;
	slot->pc = fields->syscall_sp ? fields->syscall_pc : fields->pc;
	return slot->sp % WORD == 0 && slot->sp >= fields->stack_lo && slot->sp < fields->stack_hi;
}

/* Walking */

static struct goroutines_file goroutine_file(const struct goroutines_source *source, size_t number)
{
	return number ? source->others[number - 1]
		      : (struct goroutines_file){source->bias, source->program};
}

/*
 * Returns the number of the file with the code of an address, and sets *vaddr to its ELF virtual
 * address there; the file with the runtime, if none has it.
 */
static size_t goroutine_file_at(const struct goroutines_source *source, uint64_t address,
				uint64_t *vaddr)
{
	for (size_t i = 0; i <= source->other_count; i++) {
		const struct goroutines_file file = goroutine_file(source, i);

		*vaddr = address - file.bias;
		/* The address behind a call may be the end of the code. */
		if (*vaddr >= file.program->code_start && *vaddr <= file.program->code_end &&
		    *vaddr == goroutine_frame_address(*vaddr))
			return i;
	}
	*vaddr = address - source->bias;
	return 0;
}

/* Returns the frame of an address, or the function at one. */
static uint64_t goroutine_frame_at(const struct goroutines_source *source, uint64_t address)
{
	uint64_t vaddr;
	const uint64_t file = goroutine_file_at(source, address, &vaddr);

	return goroutine_frame_address(vaddr) | file << GOROUTINE_FILE_SHIFT;
}

static const struct go_program_function *
goroutine_function_at(const struct goroutines_source *source, uint64_t address)
{
	uint64_t vaddr;
	const size_t file = goroutine_file_at(source, address, &vaddr);

	return go_program_function_at(goroutine_file(source, file).program, vaddr);
}

static void goroutine_make_rule(const struct goroutine_reader *reader, uint64_t pc,
				bool is_interrupted, struct goroutine_rule *rule)
{
	uint64_t address;
	const uint64_t file = goroutine_file_at(reader->source, pc, &address);
	const struct go_program *program = goroutine_file(reader->source, file).program;
	const struct stackbeat_unwind_rule *found;
	const struct go_program_function *function;

	*rule = (struct goroutine_rule){.pc = pc, .is_interrupted = is_interrupted};
	function = go_program_function_at(program, address);
	/* A function that has not begun is no caller: nothing was called before its first
	 * instruction. */
	if (function && address == program->code_start + function->start)
		is_interrupted = true;
	if (!is_interrupted)
		function = go_program_function_at(program, --address);
	if (!function)
		return;
	rule->kind = (uint8_t)function->kind;
	rule->frame = goroutine_frame_address(address) | file << GOROUTINE_FILE_SHIFT;
	if (is_interrupted)
		rule->frame |= GOROUTINE_INTERRUPTED;
	found = stackbeat_unwind_find(&program->frames, address);
	if (found && found->kind_base != STACKBEAT_UNWIND_NONE && found->cfa >= (int32_t)WORD)
		rule->cfa = (uint32_t)found->cfa;
}

static const struct goroutine_rule *goroutine_find_rule(struct goroutine_reader *reader,
							uint64_t pc, bool is_interrupted)
{
	struct goroutine_rule *rule =
		&reader->rules[(pc * UINT64_C(0x9e3779b97f4a7c15) >> 40) % RULES];

	if (rule->pc != pc || rule->is_interrupted != is_interrupted)
		goroutine_make_rule(reader, pc, is_interrupted, rule);
	return rule;
}

/* Walks a copy of `size` bytes of a stack, from `sp` on; the stack has more. */
static void goroutine_walk(struct goroutine_reader *reader, const struct goroutine_slot *slot,
			   const unsigned char *copy, size_t size)
{
	struct walked *walked = &reader->walked;
	const uint64_t stack_size = slot->fields.stack_hi - slot->sp;
	uint64_t pc = slot->pc, offset = 0;
	bool is_interrupted = false;

	walked->count = walked->word_count = 0;
	walked->end = GOROUTINE_NO_RULE;
	walked->needs_more = walked->has_program_code = false;
	for (;;) {
		const struct goroutine_rule *rule = goroutine_find_rule(reader, pc, is_interrupted);

		if (rule->kind == GO_FUNCTION_GOEXIT) {
			walked->end = GOROUTINE_COMPLETE;
			return;
		}
		if (!rule->cfa)
			return;
		if (walked->count == GOROUTINE_FRAMES_MAX) {
			walked->end = GOROUTINE_MAX_DEPTH;
			return;
		}
		walked->frames[walked->count++] = rule->frame;
		walked->has_program_code |= rule->kind == GO_FUNCTION_OTHER;
		offset += rule->cfa;
		if (offset > stack_size) {
			walked->end = GOROUTINE_BAD_FRAME;
			return;
		}
		if (offset > size) {
			walked->needs_more = true;
			return;
		}
		walked->words[walked->word_count++] = (uint32_t)(offset - WORD);
		is_interrupted = rule->kind == GO_FUNCTION_INJECTED;
		pc = goroutine_word_at(copy, offset - WORD);
	}
}

/* Whether the words that the walk has used are the same in another copy. */
static bool has_same_words(const struct walked *walked, const unsigned char *first,
			   const unsigned char *second)
{
	for (uint32_t i = 0; i < walked->word_count; i++) {
		if (goroutine_word_at(first, walked->words[i]) !=
		    goroutine_word_at(second, walked->words[i]))
			return false;
	}
	return true;
}

/* Results */

static bool is_stack(const void *context, uint32_t index, const void *key)
{
	const struct goroutines *goroutines = context;
	const struct goroutine_stack *stack = &goroutines->stacks[index];
	const struct walked *walked = key;

	return stack->count == walked->count && stack->end == walked->end &&
	       !memcmp(goroutines->frames + stack->first, walked->frames,
		       walked->count * sizeof(walked->frames[0]));
}

/* Returns the number of a stack, GOROUTINE_NO_STACK beyond the limit, or -ENOMEM. */
static int64_t intern_stack(struct goroutines *goroutines, const struct walked *walked)
{
	uint32_t hash =
		hash_bytes(walked->end, walked->frames, walked->count * sizeof(walked->frames[0]));
	uint32_t index = hash_find(&goroutines->stack_index, hash, is_stack, goroutines, walked);

	if (index != HASH_NONE)
		return index;
	if (goroutines->frame_count + walked->count > FRAMES_MAX)
		return GOROUTINE_NO_STACK;
	index = (uint32_t)goroutines->stack_count;
	if (array_reserve(&goroutines->frames, &goroutines->frame_capacity, goroutines->frame_count,
			  walked->count, sizeof(*goroutines->frames)) ||
	    array_reserve(&goroutines->stacks, &goroutines->stack_capacity, index, 1,
			  sizeof(*goroutines->stacks)) ||
	    hash_add(&goroutines->stack_index, hash, index))
		return -ENOMEM;
	memcpy(goroutines->frames + goroutines->frame_count, walked->frames,
	       walked->count * sizeof(walked->frames[0]));
	goroutines->stacks[goroutines->stack_count++] = (struct goroutine_stack){
		.first = goroutines->frame_count,
		.count = walked->count,
		.end = walked->end,
	};
	goroutines->frame_count += walked->count;
	return index;
}

static void set_goroutine(const struct goroutine_reader *reader, const struct goroutine_slot *slot)
{
	const struct go_layout *layout = reader->source->layout;
	const unsigned char *g = slot->before;
	uint64_t creator = goroutine_word_at(g, layout->gopc),
		 start = goroutine_word_at(g, layout->startpc);
	const struct go_program_function *function = goroutine_function_at(reader->source, start);

	reader->goroutines->items[slot->index] = (struct goroutine){
		.id = slot->fields.id,
		.parent_id = layout->parent_goid ? goroutine_word_at(g, layout->parent_goid) : 0,
		.creator = creator ? goroutine_frame_at(reader->source, creator) : 0,
		.address = slot->address,
		.labels = slot->fields.labels,
		.wait_since = goroutine_word_at(g, layout->wait_since),
		.stack = GOROUTINE_NO_STACK,
		.status = (uint8_t)slot->fields.status,
		.wait_reason = g[layout->wait_reason],
		/* See isSystemGoroutine() in Go's runtime/traceback.go. */
		.is_system = function && (function->kind == GO_FUNCTION_RUNTIME ||
					  function->kind == GO_FUNCTION_RUNTIME_CALLER),
	};
}

static int goroutine_add_stack(struct goroutine_reader *reader, const struct goroutine_slot *slot)
{
	struct goroutine *goroutine = &reader->goroutines->items[slot->index];
	const struct walked *walked = &reader->walked;
	int64_t stack = intern_stack(reader->goroutines, walked);

	if (stack < 0)
		return -ENOMEM;
	goroutine->stack = (uint32_t)stack;
	/* A goroutine of finalizers counts as one of the program while it runs code of the program.
	 */
	if (walked->has_program_code)
		goroutine->is_system = false;
	return 0;
}

/* Reading */

static int read_places(struct goroutine_reader *reader)
{
	return memory_batch_read(reader->source->pid, &reader->memory);
}

/* Reads the g of each slot. */
static int read_goroutines(struct goroutine_reader *reader, size_t count, bool is_after)
{
	int err;

	reader->memory.count = 0;
	for (size_t i = 0; i < count; i++)
		memory_batch_add(&reader->memory,
				 is_after ? reader->slots[i].after : reader->slots[i].before,
				 reader->slots[i].address, reader->g_size);
	err = read_places(reader);
	for (size_t i = 0; i < count; i++)
		reader->slots[i].was_read &= reader->memory.was_read[i];
	return err;
}

/* Reads the stacks of the slots that have one. */
static int read_stacks(struct goroutine_reader *reader, size_t count, bool is_second)
{
	size_t place = 0;
	int err;

	reader->memory.count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct goroutine_slot *slot = &reader->slots[i];

		if (slot->first)
			memory_batch_add(&reader->memory, is_second ? slot->second : slot->first,
					 slot->sp, slot->size);
	}
	err = read_places(reader);
	for (size_t i = 0; i < count; i++) {
		struct goroutine_slot *slot = &reader->slots[i];

		if (slot->first)
			slot->was_read &= reader->memory.was_read[place++];
	}
	return err;
}

/* Places the copies of the stacks of parked goroutines one behind the other. */
static void place_stacks(struct goroutine_reader *reader, size_t count)
{
	unsigned char *at = reader->stack_copies;

	for (size_t i = 0; i < count; i++) {
		struct goroutine_slot *slot = &reader->slots[i];

		slot->first = NULL;
		if (!slot->was_read)
			continue;
		goroutine_decode(reader->source->layout, slot->before, &slot->fields);
		if (!is_parked(&slot->fields) || !is_well_formed(&slot->fields) ||
		    !find_begin(slot))
			continue;
		slot->size = MIN(slot->fields.stack_hi - slot->sp, STACK_COPY);
		slot->first = at;
		slot->second = at + slot->size;
		at += 2 * slot->size;
	}
}

static bool goroutine_is_unchanged(const struct goroutine_reader *reader,
				   const struct goroutine_slot *slot)
{
	struct fields after;

	goroutine_decode(reader->source->layout, slot->after, &after);
	return !memcmp(&after, &slot->fields, sizeof(after));
}

static void goroutine_retry(struct goroutine_reader *reader, const struct goroutine_slot *slot)
{
	reader->unsettled[reader->unsettled_count++] = slot->index;
}

/* Reads and walks one large stack. */
static int read_deep(struct goroutine_reader *reader, struct goroutine_slot *slot)
{
	const pid_t pid = reader->source->pid;
	size_t size = MIN(slot->fields.stack_hi - slot->sp, DEEP_COPY);
	unsigned char *second;
	int err;

	if (!reader->deep)
		reader->deep = malloc((size_t)2 * DEEP_COPY);
	if (!reader->deep)
		return -ENOMEM;
	second = reader->deep + DEEP_COPY;
	err = process_memory_read(pid, slot->sp, reader->deep, size);
	if (!err)
		err = process_memory_read(pid, slot->sp, second, size);
	if (!err)
		err = process_memory_read(pid, slot->address, slot->after, reader->g_size);
	if (err == -EFAULT || (!err && !goroutine_is_unchanged(reader, slot))) {
		goroutine_retry(reader, slot);
		return 0;
	}
	if (err)
		return err;
	goroutine_walk(reader, slot, reader->deep, size);
	if (!has_same_words(&reader->walked, reader->deep, second)) {
		goroutine_retry(reader, slot);
		return 0;
	}
	if (reader->walked.needs_more)
		reader->walked.end = GOROUTINE_MAX_DEPTH;
	return goroutine_add_stack(reader, slot);
}

static int goroutine_settle(struct goroutine_reader *reader, struct goroutine_slot *slot)
{
	const struct fields *fields = &slot->fields;

	if (!slot->was_read) {
		goroutine_retry(reader, slot);
		return 0;
	}
	if (is_dead(fields))
		return 0;
	if (!is_well_formed(fields) || (is_parked(fields) && !slot->first)) {
		reader->malformed++;
		goroutine_retry(reader, slot);
		return 0;
	}
	set_goroutine(reader, slot);
	if (fields->status == GOROUTINE_RUNNING)
		return 0;
	if (!slot->first || !goroutine_is_unchanged(reader, slot)) {
		goroutine_retry(reader, slot);
		return 0;
	}
	goroutine_walk(reader, slot, slot->first, slot->size);
	if (!has_same_words(&reader->walked, slot->first, slot->second)) {
		goroutine_retry(reader, slot);
		return 0;
	}
	return reader->walked.needs_more ? read_deep(reader, slot)
					 : goroutine_add_stack(reader, slot);
}

static int read_batch(struct goroutine_reader *reader, const uint32_t *indices, size_t count)
{
	int err;

	for (size_t i = 0; i < count; i++) {
		struct goroutine_slot *slot = &reader->slots[i];

		slot->index = indices[i];
		slot->address = reader->addresses[indices[i]];
		slot->was_read = true;
		reader->goroutines->items[indices[i]] = (struct goroutine){.id = 0};
	}
	err = read_goroutines(reader, count, false);
	if (!err) {
		place_stacks(reader, count);
		err = read_stacks(reader, count, false);
	}
	if (!err)
		err = read_stacks(reader, count, true);
	if (!err)
		err = read_goroutines(reader, count, true);
	for (size_t i = 0; i < count && !err; i++)
		err = goroutine_settle(reader, &reader->slots[i]);
	return err;
}

static int read_round(struct goroutine_reader *reader)
{
	int err = 0;

	for (size_t i = 0; i < reader->pending_count && !err; i += BATCH) {
		if (now_ns(CLOCK_MONOTONIC) >= reader->deadline) {
			reader->goroutines->unread += reader->pending_count - i;
			return 0;
		}
		err = read_batch(reader, reader->pending + i,
				 MIN(reader->pending_count - i, BATCH));
	}
	return err;
}

static void begin_next_round(struct goroutine_reader *reader)
{
	const struct timespec pause = {.tv_nsec = ROUND_PAUSE_NS};
	uint32_t *pending = reader->pending;

	reader->pending = reader->unsettled;
	reader->pending_count = reader->unsettled_count;
	reader->unsettled = pending;
	reader->unsettled_count = 0;
	nanosleep(&pause, NULL);
}

/* Broken fields are the exception: a goroutine can change while it is read. */
static int check_form(const struct goroutine_reader *reader, struct error *error)
{
	if (reader->malformed <= reader->pending_count / 8)
		return 0;
	return error_set(error, ENODATA,
			 "%zu of %zu goroutines can't be decoded: it is not the memory of %s",
			 reader->malformed, reader->pending_count,
			 reader->source->program->version);
}

static int read_rounds(struct goroutine_reader *reader, struct error *error)
{
	int err = 0;

	for (unsigned int round = 0; round < ROUNDS && reader->pending_count && !err; round++) {
		if (round)
			begin_next_round(reader);
		err = read_round(reader);
		if (!err && !round && check_form(reader, error))
			return -ENODATA;
	}
	if (err)
		return process_memory_explain(reader->source->pid, err, error);
	for (size_t i = 0; i < reader->unsettled_count; i++)
		reader->goroutines->unread += !reader->goroutines->items[reader->unsettled[i]].id;
	return 0;
}

/* The list */

static int goroutine_compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Each goroutine is in the list once. */
static int check_list(const struct goroutine_reader *reader, size_t count, struct error *error)
{
	uint64_t *sorted = calloc(count + 1, sizeof(*sorted));
	bool is_valid = sorted;

	if (!sorted)
		return error_errno(error, ENOMEM, "the goroutines can't be read");
	memcpy(sorted, reader->addresses, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), goroutine_compare_addresses);
	for (size_t i = 0; i < count && is_valid; i++)
		is_valid = sorted[i] && sorted[i] % WORD == 0 && sorted[i] < ADDRESS_MAX &&
			   (!i || sorted[i] - sorted[i - 1] >= reader->g_size);
	free(sorted);
	return is_valid ? 0 : error_set(error, ENODATA, "its list of goroutines is broken");
}

/* Reads the addresses of all g. The number is read first: the list only ever grows. */
static int goroutines_read_list(struct goroutine_reader *reader, size_t *count, struct error *error)
{
	const struct goroutines_source *source = reader->source;
	uint64_t length, list;
	int err;

	err = process_memory_read(source->pid, source->program->allglen + source->bias, &length,
				  sizeof(length));
	if (!err)
		err = process_memory_read(source->pid, source->program->allgptr + source->bias,
					  &list, sizeof(list));
	if (err == -EFAULT || (!err && (!length || !list)))
		return error_set(error, ENODATA, "it has no goroutines");
	if (err)
		return process_memory_explain(source->pid, err, error);
	*count = MIN(length, GOROUTINES_MAX);
	reader->goroutines->unread = length - *count;
	reader->addresses = calloc(*count + 1, sizeof(*reader->addresses));
	if (!reader->addresses)
		return error_errno(error, ENOMEM, "the goroutines can't be read");
	err = process_memory_read(source->pid, list, reader->addresses,
				  *count * sizeof(*reader->addresses));
	if (err == -EFAULT)
		return error_set(error, ENODATA, "its list of goroutines is broken");
	if (err)
		return process_memory_explain(source->pid, err, error);
	return check_list(reader, *count, error);
}

/* Removes those that are dead, and counts those without a stack. */
static void goroutines_finish(struct goroutines *goroutines, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct goroutine *goroutine = &goroutines->items[i];

		if (!goroutine->id)
			continue;
		if (goroutine->status == GOROUTINE_RUNNING)
			goroutines->running++;
		else if (goroutine->stack == GOROUTINE_NO_STACK)
			goroutines->moving++;
		goroutines->items[goroutines->count++] = *goroutine;
	}
}

static bool allocate_copies(struct goroutine_reader *reader)
{
	reader->g_copies = malloc((size_t)2 * BATCH * reader->g_size);
	reader->stack_copies = malloc((size_t)2 * BATCH * STACK_COPY);
	if (!reader->g_copies || !reader->stack_copies)
		return false;
	for (size_t i = 0; i < BATCH; i++) {
		reader->slots[i].before = reader->g_copies + 2 * i * reader->g_size;
		reader->slots[i].after = reader->slots[i].before + reader->g_size;
	}
	return true;
}

static int goroutines_read_all(struct goroutine_reader *reader, struct error *error)
{
	struct goroutines *goroutines = reader->goroutines;
	size_t count = 0;
	int err = goroutines_read_list(reader, &count, error);

	if (err)
		return err;
	goroutines->items = calloc(count + 1, sizeof(*goroutines->items));
	reader->pending = calloc(count + 1, sizeof(*reader->pending));
	reader->unsettled = calloc(count + 1, sizeof(*reader->unsettled));
	if (!goroutines->items || !reader->pending || !reader->unsettled ||
	    !allocate_copies(reader))
		return error_errno(error, ENOMEM, "the goroutines can't be read");
	for (size_t i = 0; i < count; i++)
		reader->pending[i] = (uint32_t)i;
	reader->pending_count = count;
	err = read_rounds(reader, error);
	goroutines_finish(goroutines, count);
	return err;
}

static struct goroutine_reader *reader_new(const struct goroutines_source *source,
					   struct goroutines *goroutines)
{
	struct goroutine_reader *reader = calloc(1, sizeof(*reader));

	*goroutines = (struct goroutines){.items = NULL};
	if (!reader)
		return NULL;
	reader->source = source;
	reader->goroutines = goroutines;
	reader->g_size = g_size(source->layout);
	reader->deadline = now_ns(CLOCK_MONOTONIC) + GOROUTINES_TIMEOUT_S * NS_PER_SECOND;
	return reader;
}

static void reader_free(struct goroutine_reader *reader)
{
	free(reader->addresses);
	free(reader->pending);
	free(reader->unsettled);
	free(reader->g_copies);
	free(reader->stack_copies);
	free(reader->deep);
	free(reader);
}

int goroutines_read(const struct goroutines_source *source, struct goroutines *goroutines,
		    struct error *error)
{
	struct goroutine_reader *reader = reader_new(source, goroutines);
	int err;

	if (!reader)
		return error_errno(error, ENOMEM, "the goroutines can't be read");
	err = goroutines_read_all(reader, error);
	reader_free(reader);
	if (err)
		goroutines_clear(goroutines);
	return err;
}

/* Reads the g of a batch. Returns the slot of the goroutine with a number that is not dead, or
 * NULL. */
static const struct goroutine_slot *find_in_batch(struct goroutine_reader *reader, size_t first,
						  size_t count, uint64_t id)
{
	for (size_t i = 0; i < count; i++) {
		reader->slots[i].address = reader->addresses[first + i];
		reader->slots[i].was_read = true;
	}
	if (read_goroutines(reader, count, false))
		return NULL;
	for (size_t i = 0; i < count; i++) {
		struct goroutine_slot *slot = &reader->slots[i];

		if (!slot->was_read)
			continue;
		goroutine_decode(reader->source->layout, slot->before, &slot->fields);
		if (slot->fields.id == id && !is_dead(&slot->fields))
			return slot;
	}
	return NULL;
}

static int set_place(const struct goroutine_reader *reader, const struct goroutine_slot *slot,
		     struct goroutine_place *place, struct error *error)
{
	const struct go_layout *layout = reader->source->layout;
	const struct fields *fields = &slot->fields;
	uint16_t bp = fields->syscall_sp ? layout->syscall_bp : layout->sched_bp;

	if (!is_parked(fields) || !is_well_formed(fields))
		return error_set(error, EBUSY,
				 "goroutine %" PRIu64 " runs: -t prints the stack of a thread",
				 fields->id);
	*place = (struct goroutine_place){
		.pc = fields->syscall_sp ? fields->syscall_pc : fields->pc,
		.sp = fields->syscall_sp ? fields->syscall_sp : fields->sp,
		.bp = bp ? goroutine_word_at(slot->before, bp) : 0,
	};
	return 0;
}

int goroutine_find(const struct goroutines_source *source, uint64_t id,
		   struct goroutine_place *place, struct error *error)
{
	struct goroutines goroutines;
	struct goroutine_reader *reader = reader_new(source, &goroutines);
	const struct goroutine_slot *slot = NULL;
	size_t count = 0;
	int err;

	if (!reader)
		return error_errno(error, ENOMEM, "the goroutines can't be read");
	err = goroutines_read_list(reader, &count, error);
	if (!err && !allocate_copies(reader))
		err = error_errno(error, ENOMEM, "the goroutines can't be read");
	for (size_t i = 0; i < count && !err && !slot; i += BATCH)
		slot = find_in_batch(reader, i, MIN(count - i, BATCH), id);
	if (!err)
		err = slot ? set_place(reader, slot, place, error)
			   : error_set(error, ENOENT, "process %d has no goroutine %" PRIu64,
				       source->pid, id);
	reader_free(reader);
	return err;
}

void goroutines_clear(struct goroutines *goroutines)
{
	free(goroutines->items);
	free(goroutines->stacks);
	free(goroutines->frames);
	hash_clear(&goroutines->stack_index);
	*goroutines = (struct goroutines){.items = NULL};
}
