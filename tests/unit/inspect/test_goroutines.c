// SPDX-License-Identifier: GPL-2.0
/* Reads goroutines that the test has forged in its own memory. */
#include "inspect/goroutines.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/error.h"
#include "runtime/go_layout.h"
#include "runtime/go_wait_reasons.h"
#include "unwind/cfi.h"
#include "unwind/go_program.h"
#include "unwind/table_builder.h"

/* The code of the program, as ELF virtual addresses, and where it seems to be loaded. */
#define GOEXIT UINT64_C(0x1000)
#define MAIN UINT64_C(0x1100) /* its frame: 32 bytes */
#define GOPARK UINT64_C(0x1200) /* 16 */
#define PREEMPT UINT64_C(0x1300) /* 8 */
#define FINALIZER UINT64_C(0x1400) /* 0 */
#define UNKNOWN UINT64_C(0x1500) /* it has no rule */
#define CODE_END UINT64_C(0x1600)
#define BIAS UINT64_C(0x7000000)

#define STACK_WORDS 2048u
#define G_WORDS 64u
#define GOROUTINES 8u

struct goroutine_memory {
	uint64_t g[G_WORDS];
	uint64_t stack[STACK_WORDS];
};

struct world {
	struct go_program_function functions[6];
	struct stackbeat_unwind_table *table;
	struct go_program program;
	struct goroutines_source source;
	struct goroutine_memory memory[GOROUTINES];
	uint64_t list[GOROUTINES];
	uint64_t length, pointer; /* runtime.allglen, runtime.allgptr */
	size_t top[GOROUTINES]; /* the words of each stack that are in use begin here */
	struct goroutines goroutines;
	struct error error;
};

static void add_row(struct table_builder *builder, uint64_t start, unsigned int frame)
{
	const struct cfi_row row = {
		.kind = CFI_CALLER,
		.base = CFI_RSP,
		.offset = frame + 8,
		.return_address = {.place = CFI_AT_CFA, .offset = -8},
	};

	assert_int_equal(table_builder_add(builder, start, start + 0x100, &row), 0);
}

static struct world *new_world(void)
{
	static const struct go_program_function functions[] = {
		{.start = 0, .kind = GO_FUNCTION_GOEXIT},
		{.start = 0x100, .kind = GO_FUNCTION_OTHER},
		{.start = 0x200, .kind = GO_FUNCTION_RUNTIME},
		{.start = 0x300, .kind = GO_FUNCTION_INJECTED},
		{.start = 0x400, .kind = GO_FUNCTION_RUNTIME_CALLER},
		{.start = 0x500, .kind = GO_FUNCTION_RUNTIME},
	};
	struct table_builder *builder = table_builder_new();
	struct world *world = calloc(1, sizeof(*world));
	struct table_counts counts;

	assert_non_null(world);
	assert_non_null(builder);
	add_row(builder, GOEXIT, 0);
	add_row(builder, MAIN, 32);
	add_row(builder, GOPARK, 16);
	add_row(builder, PREEMPT, 8);
	add_row(builder, FINALIZER, 0);
	assert_int_equal(table_builder_finish(builder, NULL, &world->table, &counts), 0);
	table_builder_free(builder);
	memcpy(world->functions, functions, sizeof(functions));
	world->program = (struct go_program){
		.version = "go1.24",
		.minor = 24,
		.allglen = (uintptr_t)&world->length - BIAS,
		.allgptr = (uintptr_t)&world->pointer - BIAS,
		.code_start = GOEXIT,
		.code_end = CODE_END,
		.functions = world->functions,
		.function_count = 6,
	};
	stackbeat_unwind_open(world->table, &world->program.frames);
	world->source = (struct goroutines_source){
		.pid = getpid(),
		.bias = BIAS,
		.program = &world->program,
		.layout = go_layout_of_version(1, 24),
	};
	world->pointer = (uintptr_t)world->list;
	return world;
}

static void free_world(struct world *world)
{
	goroutines_clear(&world->goroutines);
	free(world->table);
	free(world);
}

static void set(struct world *world, size_t index, uint16_t offset, uint64_t value)
{
	memcpy((char *)world->memory[index].g + offset, &value, sizeof(value));
}

static void set_status(struct world *world, size_t index, uint32_t status)
{
	memcpy((char *)world->memory[index].g + world->source.layout->status, &status,
	       sizeof(status));
}

/* Pushes a word on a stack. */
static void push(struct world *world, size_t index, uint64_t word)
{
	world->memory[index].stack[--world->top[index]] = word;
}

static void push_frame(struct world *world, size_t index, unsigned int words)
{
	world->top[index] -= words;
}

static void set_place(struct world *world, size_t index, uint64_t pc)
{
	set(world, index, world->source.layout->sched_sp,
	    (uintptr_t)&world->memory[index].stack[world->top[index]]);
	set(world, index, world->source.layout->sched_pc, pc);
}

/* Adds a goroutine that waits in main, called by goexit. Its ID is its index + 1. */
static size_t add_goroutine(struct world *world)
{
	const struct go_layout *layout = world->source.layout;
	size_t index = world->length++;
	struct goroutine_memory *memory = &world->memory[index];

	world->list[index] = (uintptr_t)memory->g;
	world->top[index] = STACK_WORDS;
	set(world, index, layout->stack_lo, (uintptr_t)memory->stack);
	set(world, index, layout->stack_hi, (uintptr_t)(memory->stack + STACK_WORDS));
	set(world, index, layout->goid, index + 1);
	set(world, index, layout->startpc, BIAS + MAIN);
	set(world, index, layout->gopc, BIAS + MAIN + 0x50);
	set(world, index, layout->parent_goid, 7);
	set_status(world, index, GOROUTINE_WAITING);
	push(world, index, BIAS + GOEXIT + 1);
	push_frame(world, index, 4);
	set_place(world, index, BIAS + MAIN + 0x20);
	return index;
}

/* Makes it wait in gopark, called by main. */
static void park(struct world *world, size_t index)
{
	push(world, index, BIAS + MAIN + 0x20);
	push_frame(world, index, 2);
	set_place(world, index, BIAS + GOPARK + 0x10);
}

static void read_world(struct world *world)
{
	int err = goroutines_read(&world->source, &world->goroutines, &world->error);

	if (err)
		fail_msg("%s", world->error.text);
}

static void expect_stack(const struct world *world, size_t item, enum goroutine_end end,
			 const uint64_t *frames, size_t count)
{
	const struct goroutines *goroutines = &world->goroutines;
	const struct goroutine_stack *stack;

	assert_true(goroutines->items[item].stack < goroutines->stack_count);
	stack = &goroutines->stacks[goroutines->items[item].stack];
	assert_int_equal(stack->end, end);
	assert_int_equal(stack->count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(goroutines->frames[stack->first + i], frames[i]);
}

#define EXPECT_STACK(world, item, end, ...)                                                        \
	expect_stack(world, item, end, (const uint64_t[]){__VA_ARGS__},                            \
		     sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void expect_error(struct world *world, int err, const char *part)
{
	assert_int_equal(goroutines_read(&world->source, &world->goroutines, &world->error), err);
	if (!strstr(world->error.text, part))
		fail_msg("'%s' is not in '%s'", part, world->error.text);
	free_world(world);
}

static void parked_goroutines_have_their_stacks(void **state)
{
	struct world *world = new_world();

	(void)state;
	park(world, add_goroutine(world));
	park(world, add_goroutine(world));
	add_goroutine(world);
	read_world(world);
	assert_int_equal(world->goroutines.count, 3);
	assert_int_equal(world->goroutines.stack_count, 2);
	EXPECT_STACK(world, 1, GOROUTINE_COMPLETE, GOPARK + 0xf, MAIN + 0x1f);
	EXPECT_STACK(world, 2, GOROUTINE_COMPLETE, MAIN + 0x1f);
	assert_int_equal(world->goroutines.items[1].id, 2);
	assert_int_equal(world->goroutines.items[1].parent_id, 7);
	assert_int_equal(world->goroutines.items[1].creator, MAIN + 0x50);
	assert_false(world->goroutines.items[1].is_system);
	free_world(world);
}

/* Such as a plugin: its frames and creators have its number. */
static void code_may_be_in_several_files(void **state)
{
	static const uint64_t bias = BIAS + (UINT64_C(1) << 32);
	static const uint64_t other = UINT64_C(1) << GOROUTINE_FILE_SHIFT;
	struct world *world = new_world();
	const struct goroutines_file file = {.bias = bias, .program = &world->program};
	const size_t index = add_goroutine(world);

	(void)state;
	world->source.others = &file;
	world->source.other_count = 1;
	push(world, index, bias + MAIN + 0x20);
	push_frame(world, index, 2);
	set_place(world, index, BIAS + GOPARK + 0x10);
	set(world, index, world->source.layout->startpc, bias + MAIN);
	set(world, index, world->source.layout->gopc, bias + MAIN + 0x50);
	/* The call is the last instruction of the file. */
	push_frame(world, add_goroutine(world), 0);
	set(world, 1, world->source.layout->sched_pc, bias + CODE_END);
	set(world, 1, world->source.layout->gopc, bias + CODE_END);
	read_world(world);
	EXPECT_STACK(world, 0, GOROUTINE_COMPLETE, GOPARK + 0xf, other | (MAIN + 0x1f));
	assert_int_equal(world->goroutines.items[0].creator, other | (MAIN + 0x50));
	assert_false(world->goroutines.items[0].is_system);
	assert_int_equal(goroutine_frame_file(other | (MAIN + 0x1f) | GOROUTINE_INTERRUPTED), 1);
	assert_int_equal(goroutine_frame_address(other | MAIN | GOROUTINE_INTERRUPTED), MAIN);
	assert_int_equal(world->goroutines.stacks[world->goroutines.items[1].stack].end,
			 GOROUTINE_NO_RULE);
	assert_int_equal(world->goroutines.items[1].creator, other | CODE_END);
	goroutines_clear(&world->goroutines);
	/* Without that file, it is not Go's. */
	world->source.other_count = 0;
	read_world(world);
	EXPECT_STACK(world, 0, GOROUTINE_NO_RULE, GOPARK + 0xf);
	free_world(world);
}

static void status_decides(void **state)
{
	static const struct {
		uint32_t status;
		bool has_item, has_stack;
	} cases[] = {
		{GOROUTINE_IDLE, false, false},           {GOROUTINE_RUNNABLE, true, true},
		{GOROUTINE_RUNNING, true, false},         {GOROUTINE_SYSCALL, true, true},
		{GOROUTINE_WAITING, true, true},          {GOROUTINE_DEAD, false, false},
		{GOROUTINE_COPYSTACK, true, false},       {GOROUTINE_PREEMPTED, true, true},
		{GOROUTINE_LEAKED, true, true},           {GOROUTINE_DEADEXTRA, false, false},
		{0x1000 | GOROUTINE_WAITING, true, true}, {0x1000 | GOROUTINE_RUNNING, true, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world *world = new_world();

		set_status(world, add_goroutine(world), cases[i].status);
		read_world(world);
		assert_int_equal(world->goroutines.count, cases[i].has_item);
		if (cases[i].has_item)
			assert_int_equal(world->goroutines.items[0].stack != GOROUTINE_NO_STACK,
					 cases[i].has_stack);
		assert_int_equal(world->goroutines.running,
				 (cases[i].status & 0xfff) == GOROUTINE_RUNNING);
		assert_int_equal(world->goroutines.moving, cases[i].status == GOROUTINE_COPYSTACK);
		free_world(world);
	}
}

static void system_calls_begin_at_their_caller(void **state)
{
	struct world *world = new_world();
	size_t index = add_goroutine(world);

	(void)state;
	set(world, index, world->source.layout->syscall_sp,
	    (uintptr_t)&world->memory[index].stack[world->top[index]]);
	set(world, index, world->source.layout->syscall_pc, BIAS + MAIN + 0x30);
	set_status(world, index, GOROUTINE_SYSCALL);
	park(world, index);
	read_world(world);
	EXPECT_STACK(world, 0, GOROUTINE_COMPLETE, MAIN + 0x2f);
	free_world(world);
}

static void interrupted_addresses_are_exact(void **state)
{
	struct world *world = new_world();
	size_t index = add_goroutine(world);

	(void)state;
	push(world, index, BIAS + MAIN + 0x20);
	push_frame(world, index, 1);
	set_place(world, index, BIAS + PREEMPT + 8);
	/* And a function that has not begun. */
	index = add_goroutine(world);
	world->top[index] += 4;
	set_place(world, index, BIAS + GOPARK);
	push_frame(world, index, 3);
	set(world, index, world->source.layout->sched_sp,
	    (uintptr_t)&world->memory[index].stack[STACK_WORDS - 3]);
	read_world(world);
	EXPECT_STACK(world, 0, GOROUTINE_COMPLETE, PREEMPT + 7,
		     (MAIN + 0x20) | GOROUTINE_INTERRUPTED);
	EXPECT_STACK(world, 1, GOROUTINE_COMPLETE, GOPARK | GOROUTINE_INTERRUPTED);
	free_world(world);
}

static void goroutines_of_the_runtime_are_known(void **state)
{
	struct world *world = new_world();
	size_t index;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		index = add_goroutine(world);
		set(world, index, world->source.layout->startpc, BIAS + (i ? FINALIZER : GOPARK));
		world->top[index] += 4;
		if (i)
			push(world, index, BIAS + FINALIZER + 0x10);
		push_frame(world, index, 2);
		set_place(world, index, BIAS + GOPARK + 0x10);
	}
	/* A finalizer of the program. */
	index = add_goroutine(world);
	set(world, index, world->source.layout->startpc, BIAS + FINALIZER);
	read_world(world);
	assert_true(world->goroutines.items[0].is_system);
	assert_true(world->goroutines.items[1].is_system);
	assert_false(world->goroutines.items[2].is_system);
	free_world(world);
}

static void deep_stacks_are_read_to_their_end(void **state)
{
	uint64_t frames[GOROUTINE_FRAMES_MAX];
	struct world *world = new_world();
	size_t index = add_goroutine(world);

	(void)state;
	/* More than what is read at first. */
	for (size_t i = 0; i < 400; i++) {
		push(world, index, BIAS + MAIN + 0x20);
		push_frame(world, index, 4);
	}
	set_place(world, index, BIAS + MAIN + 0x20);
	/* Too many frames: of finalizers, which have no frame. */
	index = add_goroutine(world);
	world->top[index] = STACK_WORDS;
	push(world, index, BIAS + GOEXIT + 1);
	for (size_t i = 0; i < GOROUTINE_FRAMES_MAX; i++)
		push(world, index, BIAS + FINALIZER + 0x20);
	set_place(world, index, BIAS + FINALIZER + 0x20);
	read_world(world);
	for (size_t i = 0; i < GOROUTINE_FRAMES_MAX; i++)
		frames[i] = MAIN + 0x1f;
	expect_stack(world, 0, GOROUTINE_COMPLETE, frames, 401);
	for (size_t i = 0; i < GOROUTINE_FRAMES_MAX; i++)
		frames[i] = FINALIZER + 0x1f;
	expect_stack(world, 1, GOROUTINE_MAX_DEPTH, frames, GOROUTINE_FRAMES_MAX);
	free_world(world);
}

/* There is nothing readable behind a stack. */
static void stacks_are_read_up_to_their_end(void **state)
{
	const size_t size = 1 << 16, page = 4096;
	struct world *world = new_world();
	size_t index = add_goroutine(world);
	char *stack =
		mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *word, frames[201];

	(void)state;
	assert_true(stack != MAP_FAILED);
	assert_int_equal(mprotect(stack + size, page, PROT_NONE), 0);
	set(world, index, world->source.layout->stack_lo, (uintptr_t)stack);
	set(world, index, world->source.layout->stack_hi, (uintptr_t)stack + size);
	word = (uint64_t *)(stack + size);
	*--word = BIAS + GOEXIT + 1;
	/* More than what is read at first. */
	for (size_t i = 0; i < 200; i++) {
		word -= 4;
		*--word = BIAS + MAIN + 0x20;
	}
	word -= 4;
	set(world, index, world->source.layout->sched_sp, (uintptr_t)word);
	read_world(world);
	for (size_t i = 0; i < 201; i++)
		frames[i] = MAIN + 0x1f;
	expect_stack(world, 0, GOROUTINE_COMPLETE, frames, 201);
	munmap(stack, size + page);
	free_world(world);
}

static void broken_stacks_are_truncated(void **state)
{
	struct world *world = new_world();
	size_t index = add_goroutine(world);

	(void)state;
	/* Code outside of Go's, and code without a rule. */
	world->memory[index].stack[STACK_WORDS - 1] = 0x4711;
	index = add_goroutine(world);
	world->memory[index].stack[STACK_WORDS - 1] = BIAS + UNKNOWN + 0x20;
	/* A frame that is larger than the rest of the stack. */
	index = add_goroutine(world);
	world->memory[index].stack[STACK_WORDS - 1] = BIAS + MAIN + 0x20;
	/* A whole one, for comparison. */
	add_goroutine(world);
	read_world(world);
	EXPECT_STACK(world, 0, GOROUTINE_NO_RULE, MAIN + 0x1f);
	EXPECT_STACK(world, 1, GOROUTINE_NO_RULE, MAIN + 0x1f);
	EXPECT_STACK(world, 2, GOROUTINE_BAD_FRAME, MAIN + 0x1f, MAIN + 0x1f);
	EXPECT_STACK(world, 3, GOROUTINE_COMPLETE, MAIN + 0x1f);
	free_world(world);
}

/* One of eight, so that the others still come from Go. */
static void broken_goroutines_cost_only_themselves(void **state)
{
	const uint64_t values[] = {0, 1, 8, UINT64_MAX, UINT64_C(1) << 63};
	const struct go_layout *layout = go_layout_of_version(1, 24);
	const uint16_t fields[] = {layout->stack_lo, layout->stack_hi, layout->sched_sp,
				   layout->sched_pc, layout->syscall_sp};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		for (size_t j = 0; j < sizeof(fields) / sizeof(fields[0]); j++) {
			struct world *world = new_world();

			while (world->length < GOROUTINES)
				add_goroutine(world);
			set(world, 3, fields[j], values[i]);
			read_world(world);
			assert_in_range(world->goroutines.count, GOROUTINES - 1, GOROUTINES);
			assert_int_equal(world->goroutines.count + world->goroutines.unread,
					 GOROUTINES);
			EXPECT_STACK(world, 2, GOROUTINE_COMPLETE, MAIN + 0x1f);
			free_world(world);
		}
	}
}

static void unreadable_stacks_cost_only_themselves(void **state)
{
	const size_t size = 1 << 16;
	struct world *world = new_world();
	char *nothing = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(nothing != MAP_FAILED);
	while (world->length < GOROUTINES)
		add_goroutine(world);
	set(world, 3, world->source.layout->stack_lo, (uintptr_t)nothing);
	set(world, 3, world->source.layout->stack_hi, (uintptr_t)nothing + size);
	set(world, 3, world->source.layout->sched_sp, (uintptr_t)nothing + 64);
	world->list[5] = (uintptr_t)nothing;
	read_world(world);
	assert_int_equal(world->goroutines.count, GOROUTINES - 2);
	assert_int_equal(world->goroutines.unread, 2);
	EXPECT_STACK(world, 2, GOROUTINE_COMPLETE, MAIN + 0x1f);
	munmap(nothing, size);
	free_world(world);
}

static void broken_lists_are_refused(void **state)
{
	struct world *world = new_world();

	(void)state;
	expect_error(world, -ENODATA, "it has no goroutines");

	world = new_world();
	add_goroutine(world);
	world->length = UINT64_MAX;
	expect_error(world, -ENODATA, "list of goroutines is broken");

	world = new_world();
	add_goroutine(world);
	world->pointer = 8;
	expect_error(world, -ENODATA, "list of goroutines is broken");

	/* One goroutine twice, a goroutine that overlaps with another one, and a null pointer. */
	for (int64_t distance = 0; distance <= 64; distance += 64) {
		world = new_world();
		add_goroutine(world);
		add_goroutine(world);
		world->list[1] = world->list[0] + (uint64_t)distance;
		expect_error(world, -ENODATA, "list of goroutines is broken");
	}
	world = new_world();
	add_goroutine(world);
	world->list[0] = 0;
	expect_error(world, -ENODATA, "list of goroutines is broken");
}

static void other_memory_is_refused(void **state)
{
	struct world *world = new_world();

	(void)state;
	for (size_t i = 0; i < GOROUTINES; i++)
		memset(world->memory[add_goroutine(world)].g, 0x5a, sizeof(world->memory[0].g));
	expect_error(world, -ENODATA,
		     "8 of 8 goroutines can't be decoded: it is not the memory of go1.24");
}

/* Each field alone may be of something else. Returns whether another case follows. */
static bool spoil_field(struct world *world, size_t number)
{
	const struct go_layout *layout = world->source.layout;
	const uint64_t low = (uintptr_t)world->memory[0].stack,
		       high = (uintptr_t)(world->memory[0].stack + STACK_WORDS);
	const struct {
		uint16_t offset;
		uint64_t value;
	} cases[] = {
		{layout->goid, 0},
		{layout->stack_lo, low + 4},
		{layout->stack_lo, high},
		{layout->stack_lo, high + 8},
		{layout->stack_lo, high - (UINT64_C(1) << 32) - 8},
		{layout->stack_hi, high + 4},
		{layout->stack_hi, UINT64_C(1) << 47},
	};

	if (number < sizeof(cases) / sizeof(cases[0]))
		set(world, 0, cases[number].offset, cases[number].value);
	else
		set_status(world, 0, GOROUTINE_STATUSES);
	return number < sizeof(cases) / sizeof(cases[0]);
}

static void fields_are_checked(void **state)
{
	bool has_next = true;

	(void)state;
	for (size_t i = 0; has_next; i++) {
		struct world *world = new_world();

		add_goroutine(world);
		has_next = spoil_field(world, i);
		expect_error(world, -ENODATA, "1 of 1 goroutines can't be decoded");
	}
}

/* Only from its lowest word to its highest one. */
static void stack_pointers_are_in_the_stack(void **state)
{
	static const struct {
		int64_t offset; /* bytes above the low end */
		bool has_stack;
	} cases[] = {
		{-8, false},
		{0, true},
		{4, false},
		{8 * STACK_WORDS - 8, true},
		{8 * STACK_WORDS - 4, false},
		{8 * STACK_WORDS, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world *world = new_world();

		add_goroutine(world);
		set(world, 0, world->source.layout->sched_sp,
		    (uintptr_t)world->memory[0].stack + (uint64_t)cases[i].offset);
		if (cases[i].has_stack) {
			read_world(world);
			free_world(world);
		} else {
			expect_error(world, -ENODATA, "1 of 1 goroutines can't be decoded");
		}
	}
}

static void missing_process_is_an_error(void **state)
{
	struct world *world = new_world();

	(void)state;
	add_goroutine(world);
	world->source.pid = INT32_MAX;
	expect_error(world, -ESRCH, "there is no process");
}

/* Among more goroutines than are read together. */
static void goroutine_is_found_by_its_id(void **state)
{
	enum { COUNT = 700 };
	struct world *world = new_world();
	uint64_t *list = calloc(COUNT, sizeof(*list));
	/* Those that have ended. */
	uint64_t(*ended)[G_WORDS] = calloc(COUNT, sizeof(*ended));
	struct goroutine_place place;
	size_t dead = add_goroutine(world), first = add_goroutine(world),
	       runs = add_goroutine(world), last = add_goroutine(world);

	(void)state;
	assert_true(list && ended);
	set_status(world, dead, GOROUTINE_DEAD);
	set_status(world, runs, GOROUTINE_RUNNING);
	park(world, first);
	for (size_t i = 0; i < COUNT; i++)
		list[i] = (uintptr_t)ended[i];
	list[1] = world->list[dead];
	list[0] = world->list[first];
	list[300] = world->list[runs];
	list[COUNT - 1] = world->list[last];
	world->pointer = (uintptr_t)list;
	world->length = COUNT;
	set(world, last, world->source.layout->sched_bp, 0x4711);
	assert_int_equal(goroutine_find(&world->source, first + 1, &place, &world->error), 0);
	assert_int_equal(place.pc, BIAS + GOPARK + 0x10);
	assert_int_equal(goroutine_find(&world->source, last + 1, &place, &world->error), 0);
	assert_int_equal(place.pc, BIAS + MAIN + 0x20);
	assert_int_equal(place.sp, (uintptr_t)&world->memory[last].stack[world->top[last]]);
	assert_int_equal(place.bp, 0x4711);
	/* A system call begins at its caller. */
	set(world, last, world->source.layout->syscall_sp, place.sp + 8);
	set(world, last, world->source.layout->syscall_pc, BIAS + MAIN + 0x30);
	assert_int_equal(goroutine_find(&world->source, last + 1, &place, &world->error), 0);
	assert_int_equal(place.pc, BIAS + MAIN + 0x30);
	assert_int_equal(goroutine_find(&world->source, runs + 1, &place, &world->error), -EBUSY);
	assert_string_equal(world->error.text, "goroutine 3 runs: -t prints the stack of a thread");
	assert_int_equal(goroutine_find(&world->source, dead + 1, &place, &world->error), -ENOENT);
	assert_int_equal(goroutine_find(&world->source, 99, &place, &world->error), -ENOENT);
	free(list);
	free(ended);
	free_world(world);
}

static void wait_reasons_have_names(void **state)
{
	(void)state;
	assert_string_equal(go_wait_reason(19, 21), "timer goroutine (idle)");
	assert_string_equal(go_wait_reason(18, 20), "sync.Cond.Wait");
	assert_string_equal(go_wait_reason(21, 21), "sync.Mutex.Lock");
	assert_string_equal(go_wait_reason(23, 36), "coroutine");
	assert_string_equal(go_wait_reason(24, 24), "sync.WaitGroup.Wait");
	assert_string_equal(go_wait_reason(25, 21), "sync.Cond.Wait");
	assert_string_equal(go_wait_reason(27, 15), "chan receive (nil chan)");
	assert_string_equal(go_wait_reason(99, 15), "chan receive (nil chan)");
	assert_string_equal(go_wait_reason(27, 0), "");
	assert_string_equal(go_wait_reason(27, 255), "unknown wait reason");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parked_goroutines_have_their_stacks),
		cmocka_unit_test(code_may_be_in_several_files),
		cmocka_unit_test(status_decides),
		cmocka_unit_test(system_calls_begin_at_their_caller),
		cmocka_unit_test(interrupted_addresses_are_exact),
		cmocka_unit_test(goroutines_of_the_runtime_are_known),
		cmocka_unit_test(deep_stacks_are_read_to_their_end),
		cmocka_unit_test(stacks_are_read_up_to_their_end),
		cmocka_unit_test(broken_stacks_are_truncated),
		cmocka_unit_test(broken_goroutines_cost_only_themselves),
		cmocka_unit_test(unreadable_stacks_cost_only_themselves),
		cmocka_unit_test(broken_lists_are_refused),
		cmocka_unit_test(other_memory_is_refused),
		cmocka_unit_test(fields_are_checked),
		cmocka_unit_test(stack_pointers_are_in_the_stack),
		cmocka_unit_test(missing_process_is_an_error),
		cmocka_unit_test(goroutine_is_found_by_its_id),
		cmocka_unit_test(wait_reasons_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
