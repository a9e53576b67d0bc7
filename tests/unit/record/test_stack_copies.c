// SPDX-License-Identifier: GPL-2.0
/*
 * Copies of the stack of this process: they wait for the unwind tables of its files, which workers
 * compile, and which a fake module gets.
 */
#include "unit.h"

#include "record/stack_copies.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "failing_malloc.h"
#include "fake_kernel_records.h"
#include "lib/clock.h"
#include "mappings/opened_files.h"
#include "patience.h"
#include "pprof/truncation.h"
#include "record/stack_table.h"
#include "record/table_jobs.h"
#include "record/verification.h"
#include "sample.h"
#include "worker_server.h"

#define COPY_SIZE 16384u
#define CALLS 4u
#define PUSHES_MAX 64u
#define PROGRAM 1u /* id of the file, see fake_self() */
#define VDSO_BYTES_MAX 1024u /* of its table */
#define DEADLINE_NS (hang_s() * NS_PER_SECOND)

struct fixture {
	struct fake_files files;
	struct mapped_files *mapped;
	struct address_spaces *spaces;
	struct stack_table *stacks;
	struct unwind_tables *tables;
	struct stack_copies *copies;
	struct verification *verification;
	/* The fake module. */
	struct {
		uint64_t file;
		uint32_t size; /* 0: none */
	} pushes[PUSHES_MAX];
	size_t push_count;
	int push_err;
	unsigned int messages;
	/* The stack that was folded last. */
	uint64_t samples;
	struct {
		uint16_t flags, user_frames;
		uint8_t user_stop;
		bool is_copy;
	} stack;
	uint64_t frames[STACKBEAT_USER_FRAMES_MAX];
	uint32_t segments[STACKBEAT_USER_FRAMES_MAX];
	/* Return addresses of the calls that led to the copy, callee first. */
	uint64_t callers[CALLS];
	struct stackbeat_stack *copy; /* with COPY_SIZE bytes */
	union any_sample any; /* last: it ends in an array without a size */
};

static int fold(const struct stack *stack, void *arg)
{
	struct fixture *fixture = arg;

	fixture->samples += stack->samples;
	fixture->stack.flags = stack->flags;
	fixture->stack.user_frames = stack->user_frames;
	fixture->stack.user_stop = stack->user_stop;
	fixture->stack.is_copy = stack->is_copy;
	memcpy(fixture->frames, stack->frames, stack->user_frames * sizeof(stack->frames[0]));
	memcpy(fixture->segments, stack_segments(stack),
	       stack->user_frames * sizeof(fixture->segments[0]));
	return 0;
}

static int push(uint64_t file, const struct stackbeat_unwind_table *table, void *arg)
{
	struct fixture *fixture = arg;

	assert_true(fixture->push_count < PUSHES_MAX);
	if (table)
		assert_true(stackbeat_unwind_check(table, table->size));
	fixture->pushes[fixture->push_count].file = file;
	fixture->pushes[fixture->push_count++].size = table ? table->size : 0;
	return fixture->push_err;
}

static void count_message(const char *text, void *arg)
{
	assert_non_null(strstr(text, "unwind table of "));
	((struct fixture *)arg)->messages++;
}

static void use_copies(struct fixture *fixture, size_t memory)
{
	const struct stack_copies_config config = {
		.spaces = fixture->spaces,
		.stacks = fixture->stacks,
		.tables = fixture->tables,
		.verification = fixture->verification,
		.max_depth = STACKBEAT_USER_FRAMES_DEFAULT,
		.copy_size = COPY_SIZE,
		.memory = memory,
	};

	stack_copies_free(fixture->copies);
	fixture->copies = stack_copies_new(&config);
	assert_non_null(fixture->copies);
}

static void use_tables(struct fixture *fixture, const struct sandbox_server *sandbox)
{
	const struct unwind_tables_config config = {
		.sandbox = sandbox,
		.memory = UNWIND_TABLES_BYTES_MAX,
		.push = push,
		.message = count_message,
		.arg = fixture,
	};

	unwind_tables_free(fixture->tables);
	fixture->tables = unwind_tables_new(fixture->mapped, &config);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct file_source source = fake_source(&fixture->files);

	fixture->mapped = mapped_files_new("", &source, NULL);
	fixture->spaces = address_spaces_new("", fixture->mapped, NULL);
	fixture->stacks = stack_table_new(fixture->spaces, 0, fold, fixture);
	use_tables(fixture, worker_server());
	fixture->copy = malloc(sizeof(*fixture->copy) + COPY_SIZE);
	*state = fixture;
	fixture->verification = verification_new(fixture->mapped);
	if (!fixture->tables || !fixture->copy || !fixture->verification)
		return -1;
	use_copies(fixture, 0);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	stack_copies_free(fixture->copies);
	verification_free(fixture->verification);
	unwind_tables_free(fixture->tables);
	stack_table_free(fixture->stacks);
	address_spaces_free(fixture->spaces);
	mapped_files_free(fixture->mapped);
	fake_clear(&fixture->files);
	free(fixture->copy);
	free(fixture);
	return 0;
}

static uint64_t stack_end; /* address */

static void find_stack_end(void)
{
	pthread_attr_t attributes;
	size_t size;
	void *start;

	if (pthread_getattr_np(pthread_self(), &attributes) ||
	    pthread_attr_getstack(&attributes, &start, &size))
		abort();
	pthread_attr_destroy(&attributes);
	stack_end = ((uintptr_t)start + size) & ~UINT64_C(7);
}

/* Copies the registers and the stack of the caller, as the kernel does at an interrupt. */
__attribute__((noinline, no_sanitize("address"))) static void copy_stack(struct fixture *fixture,
									 uint64_t size)
{
	struct stackbeat_stack *stack = fixture->copy;
	uint64_t registers[STACKBEAT_REGISTERS] = {0}, rsp, rbp, rbx, rip;

	__asm__ volatile("mov %%rsp, %0\n\tmov %%rbp, %1\n\tmov %%rbx, %2\n\tlea 0(%%rip), %3"
			 : "=r"(rsp), "=r"(rbp), "=r"(rbx), "=r"(rip));
	registers[STACKBEAT_REGISTER_RSP] = rsp;
	registers[STACKBEAT_REGISTER_RBP] = rbp;
	registers[STACKBEAT_REGISTER_RBX] = rbx;
	registers[STACKBEAT_REGISTER_RIP] = rip;
	if (size > stack_end - rsp)
		size = stack_end - rsp;
	*stack = (struct stackbeat_stack){
		.record = {.type = STACKBEAT_RECORD_STACK,
			   .size = (uint32_t)(sizeof(*stack) + size)},
		.size = size,
	};
	memcpy(stack->registers, registers, sizeof(registers));
	for (uint64_t i = 0; i < size; i++)
		stack->bytes[i] = ((const volatile uint8_t *)rsp)[i];
	fixture->callers[0] = (uintptr_t)__builtin_return_address(0);
}

#define CALLER(number, callee)                                                                     \
	__attribute__((noinline)) static void call_##number(struct fixture *fixture,               \
							    uint64_t size)                         \
	{                                                                                          \
		volatile uint64_t locals[7 * (number)] = {size};                                   \
                                                                                                   \
		callee(fixture, locals[0]);                                                        \
		fixture->callers[number] = (uintptr_t)__builtin_return_address(0);                 \
		locals[0] = 0;                                                                     \
	}

CALLER(1, copy_stack)
CALLER(2, call_1)
CALLER(3, call_2)

/* A sample of this process with a copy of `size` bytes, and one wrong frame of frame pointers. */
static struct stackbeat_sample *make_sample(struct fixture *fixture, uint64_t size)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, (uint32_t)getpid(), "self");

	call_3(fixture, size);
	sample->record.flags = STACKBEAT_SAMPLE_STACK;
	sample->address_space = 1;
	sample->generation = 1;
	sample->user_stop = STACKBEAT_STOP_BAD_FRAME;
	sample_user(sample, fixture->copy->registers[STACKBEAT_REGISTER_RIP]);
	return sample;
}

static void add(struct fixture *fixture, uint64_t size)
{
	assert_int_equal(
		stack_copies_add(fixture->copies, make_sample(fixture, size), fixture->copy), 0);
}

/* Runs what a recorder runs, until no sample waits. */
static void run_until_added(struct fixture *fixture)
{
	const int64_t end = now_ns(CLOCK_MONOTONIC) + DEADLINE_NS, start = now_ns(CLOCK_MONOTONIC);
	struct pollfd fds[UNWIND_TABLES_FDS];

	while (stack_copies_are_waiting(fixture->copies)) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		poll(fds, unwind_tables_poll(fixture->tables, fds), 100);
		mapped_files_collect(fixture->mapped);
		unwind_tables_run(fixture->tables);
		/* The machine may be slow. */
		assert_int_equal(stack_copies_run(fixture->copies, start), 0);
	}
}

static void fold_stacks(struct fixture *fixture)
{
	fixture->samples = 0;
	assert_int_equal(stack_table_fold(fixture->stacks), 0);
}

/* The folded stack equals the stack of make_sample(), at least up to this program's own functions.
 */
static void check_stack(struct fixture *fixture)
{
	uint64_t bias;

	assert_true(fixture->stack.is_copy);
	assert_int_equal(fixture->stack.flags, 0);
	assert_true(fixture->stack.user_frames > CALLS);
	bias = fixture->callers[0] - 1 - fixture->frames[1];
	for (size_t i = 0; i < CALLS; i++) {
		assert_true(fixture->segments[i + 1] >= SEGMENT_FILES);
		assert_int_equal(fixture->frames[i + 1], fixture->callers[i] - 1 - bias);
	}
}

static struct stack_copies_counts counts_of(const struct fixture *fixture)
{
	struct stack_copies_counts counts;

	stack_copies_counts(fixture->copies, &counts);
	return counts;
}

static uint32_t pushed_size(const struct fixture *fixture, uint64_t file, bool *found)
{
	*found = false;
	for (size_t i = 0; i < fixture->push_count; i++) {
		if (fixture->pushes[i].file != file)
			continue;
		*found = true;
		return fixture->pushes[i].size;
	}
	return 0;
}

static void sample_waits_for_its_tables(void **state)
{
	struct fixture *fixture = *state;
	struct unwind_tables_counts counts;
	bool found;

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	assert_true(stack_copies_are_waiting(fixture->copies));
	assert_true(stack_copies_bytes(fixture->copies) > fixture->copy->size);
	assert_int_equal(stack_table_totals(fixture->stacks)->samples, 0);
	run_until_added(fixture);
	fold_stacks(fixture);
	assert_int_equal(fixture->samples, 1);
	check_stack(fixture);
	assert_int_equal(fixture->stack.user_stop, STACKBEAT_STOP_OUTERMOST);
	assert_int_equal(counts_of(fixture).walked, 1);
	assert_true(pushed_size(fixture, PROGRAM, &found) > 0);
	unwind_tables_counts(fixture->tables, &counts);
	assert_true(counts.compiled > 1);
	assert_int_equal(counts.failed, 0);
	assert_int_equal(counts.refused, 0);
	assert_true(unwind_tables_bytes(fixture->tables) > 0);
	assert_true(fixture->messages >= counts.compiled);

	/* The next one does not wait, and has the same stack. */
	add(fixture, COPY_SIZE);
	assert_false(stack_copies_are_waiting(fixture->copies));
	fold_stacks(fixture);
	assert_int_equal(fixture->samples, 1);
	check_stack(fixture);
}

static void compile_if_urgent(enum worker_kind kind, const int fds[], size_t count)
{
	if (kind == WORKER_URGENT_UNWIND_TABLE)
		worker_main(kind, fds, count);
	else
		_exit(1);
}

/* Beside busy threads, others would take four times as long. */
static void tables_for_waiting_samples_are_urgent(void **state)
{
	struct fixture *fixture = *state;
	struct unwind_tables_counts counts;
	struct sandbox_server server;
	struct error error;

	assert_int_equal(sandbox_server_start(&server, compile_if_urgent, &error), 0);
	use_tables(fixture, &server);
	use_copies(fixture, 0);
	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	run_until_added(fixture);
	unwind_tables_counts(fixture->tables, &counts);
	assert_true(counts.compiled > 1);
	assert_int_equal(counts.failed, 0);
	unwind_tables_stop(fixture->tables);
	sandbox_server_stop(&server);
}

/* While it waits, the process maps something else over its code, and ends. */
static void sample_keeps_its_mappings(void **state)
{
	struct fixture *fixture = *state;
	struct address_space *space;
	uint64_t page;

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	assert_true(stack_copies_are_waiting(fixture->copies));
	page = (fixture->callers[0] - 1) & ~UINT64_C(0xfff);
	fake_mapping(fixture->spaces, 1, 2, STACKBEAT_MAPPING_EVENT, page - 0x1000, page + 0x2000,
		     0, 0);
	space = address_spaces_get(fixture->spaces, 1, 0);
	assert_int_equal(address_space_advance(space, 2), 0);
	for (int i = 0; i < 20; i++) {
		stack_copies_mark(fixture->copies);
		mapped_files_sweep(fixture->mapped);
	}
	run_until_added(fixture);
	fold_stacks(fixture);
	assert_int_equal(fixture->samples, 1);
	check_stack(fixture);
}

/* Without its tables in time, a sample has the frames of the module. */
static void late_sample_has_the_frames_of_the_module(void **state)
{
	const int64_t begin = now_ns(CLOCK_MONOTONIC);
	struct fixture *fixture = *state;

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	add(fixture, COPY_SIZE);
	assert_int_equal(stack_copies_run(fixture->copies, begin), 0);
	assert_true(stack_copies_are_waiting(fixture->copies));
	assert_int_equal(
		stack_copies_run(fixture->copies, now_ns(CLOCK_MONOTONIC) + STACK_COPIES_WAIT_NS),
		0);
	assert_false(stack_copies_are_waiting(fixture->copies));
	assert_int_equal(counts_of(fixture).late, 2);
	assert_int_equal(counts_of(fixture).walked, 0);
	fold_stacks(fixture);
	assert_int_equal(fixture->samples, 2);
	assert_int_equal(fixture->stack.user_frames, 1);
	assert_false(fixture->stack.is_copy);
	assert_int_equal(fixture->stack.user_stop, STACKBEAT_STOP_BAD_FRAME);
	assert_true(fixture->segments[0] >= SEGMENT_FILES);
}

/* The error of one sample is not lost with the next one, and neither is the sample. */
static void late_sample_without_memory_waits_on(void **state)
{
	struct fixture *fixture = *state;
	int64_t late;
	int err;

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	late = now_ns(CLOCK_MONOTONIC) + STACK_COPIES_WAIT_NS;
	while (now_ns(CLOCK_MONOTONIC) + STACK_COPIES_WAIT_NS <= late)
		;
	/* It may wait longer than the first one. */
	add(fixture, COPY_SIZE);
	fail_malloc(1, true);
	err = stack_copies_run(fixture->copies, late);
	fail_malloc(0, false);
	assert_int_equal(err, -ENOMEM);
	assert_int_equal(counts_of(fixture).late, 0);
	assert_int_equal(stack_copies_run(fixture->copies, late), 0);
	assert_int_equal(counts_of(fixture).late, 1);
	assert_int_equal(stack_table_totals(fixture->stacks)->samples, 1);
	assert_true(stack_copies_are_waiting(fixture->copies));
	run_until_added(fixture);
	assert_int_equal(counts_of(fixture).walked, 1);
	assert_int_equal(stack_table_totals(fixture->stacks)->samples, 2);
}

static void memory_is_limited(void **state)
{
	struct fixture *fixture = *state;
	size_t memory;

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	make_sample(fixture, COPY_SIZE);
	memory = 4 * fixture->copy->record.size;
	use_copies(fixture, memory);
	for (int i = 0; i < 10; i++) {
		add(fixture, COPY_SIZE);
		assert_true(stack_copies_bytes(fixture->copies) < memory + memory / 2);
	}
	assert_in_range(counts_of(fixture).full, 6, 9);
	assert_int_equal(stack_table_totals(fixture->stacks)->samples, counts_of(fixture).full);
	run_until_added(fixture);
	assert_int_equal(stack_table_totals(fixture->stacks)->samples, 10);
	assert_int_equal(counts_of(fixture).walked + counts_of(fixture).full, 10);
}

/* The copy has some of the callers only. */
static void short_copy_is_marked(void **state)
{
	struct fixture *fixture = *state;

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	run_until_added(fixture);
	fold_stacks(fixture);
	add(fixture, 0);
	/* The session asks for more: the memory behind it could not be read. */
	fold_stacks(fixture);
	assert_int_equal(fixture->stack.user_stop, STACKBEAT_STOP_FAULT);
	stack_copies_free(fixture->copies);
	fixture->copies = stack_copies_new(&(struct stack_copies_config){
		.spaces = fixture->spaces,
		.stacks = fixture->stacks,
		.tables = fixture->tables,
		.max_depth = 3,
		.copy_size = 8,
	});
	add(fixture, 8);
	fold_stacks(fixture);
	assert_int_equal(fixture->stack.user_stop, TRUNCATION_STOP_COPY_ENDS);
	/* The depth limit holds for copies, too. */
	add(fixture, COPY_SIZE);
	fold_stacks(fixture);
	assert_int_equal(fixture->stack.user_stop, STACKBEAT_STOP_MAX_DEPTH);
	assert_int_equal(fixture->stack.user_frames, 3);
}

/* What a walk needs, and the CPU of its sample. */
static struct {
	unsigned int count;
	uint32_t cpu;
	uint64_t need;
} noted;

static void note_walk(uint32_t cpu, uint64_t need, void *arg)
{
	assert_ptr_equal(arg, &noted);
	noted.count++;
	noted.cpu = cpu;
	noted.need = need;
}

/* A copy itself may say how much was asked for. */
static void copies_of_several_sizes(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample;
	struct stack_copies_counts counts;

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	run_until_added(fixture);
	fold_stacks(fixture);
	stack_copies_free(fixture->copies);
	fixture->copies = stack_copies_new(&(struct stack_copies_config){
		.spaces = fixture->spaces,
		.stacks = fixture->stacks,
		.tables = fixture->tables,
		.max_depth = STACKBEAT_USER_FRAMES_DEFAULT,
		.copy_size = COPY_SIZE,
		.walked = note_walk,
		.arg = &noted,
	});
	sample = make_sample(fixture, 8);
	fixture->copy->record.flags = 8;
	assert_int_equal(stack_copies_add(fixture->copies, sample, fixture->copy), 0);
	fold_stacks(fixture);
	assert_int_equal(fixture->stack.user_stop, TRUNCATION_STOP_COPY_ENDS);
	assert_int_equal(noted.count, 1);
	assert_true(noted.need > 8 && noted.need < COPY_SIZE);
	sample = make_sample(fixture, 8);
	sample->cpu = 5;
	fixture->copy->record.flags = COPY_SIZE;
	assert_int_equal(stack_copies_add(fixture->copies, sample, fixture->copy), 0);
	fold_stacks(fixture);
	assert_int_equal(fixture->stack.user_stop, STACKBEAT_STOP_FAULT);
	assert_int_equal(noted.count, 2);
	assert_int_equal(noted.cpu, 5);
	add(fixture, COPY_SIZE);
	fold_stacks(fixture);
	assert_int_equal(noted.count, 3);
	assert_true(noted.need > 64 && noted.need <= fixture->copy->size);
	stack_copies_counts(fixture->copies, &counts);
	assert_int_equal(counts.walked, 3);
	assert_int_equal(counts.bytes, 8 + COPY_SIZE + COPY_SIZE);
}

/* Adds a sample whose frame pointer is this far above its stack pointer. */
static void add_with_rbp(struct fixture *fixture, uint64_t offset)
{
	struct stackbeat_sample *sample = make_sample(fixture, COPY_SIZE);

	fixture->copy->registers[STACKBEAT_REGISTER_RBP] =
		fixture->copy->registers[STACKBEAT_REGISTER_RSP] + offset;
	assert_int_equal(stack_copies_add(fixture->copies, sample, fixture->copy), 0);
	fold_stacks(fixture);
	assert_int_equal(fixture->stack.user_frames, 1);
}

/* A file without call frame information: the module is told, and frame pointers are followed. */
static void file_without_table(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = make_sample(fixture, COPY_SIZE);
	struct unwind_tables_counts counts;
	uint64_t page = sample->frames[0] & ~UINT64_C(0xfff);
	bool found;

	fake_space(fixture->spaces, 1, (uint32_t)getpid(), 1, "self");
	fake_mapping(fixture->spaces, 1, 1, STACKBEAT_MAPPING_VADDR, page - 0x100000,
		     page + 0x100000, fake_file(fixture->mapped, &fixture->files, "/etc/passwd"),
		     0);
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, 1, 0), 1), 0);
	/* A frame pointer that is none. */
	fixture->copy->registers[STACKBEAT_REGISTER_RBP] = 7;
	assert_int_equal(stack_copies_add(fixture->copies, sample, fixture->copy), 0);
	assert_true(stack_copies_are_waiting(fixture->copies));
	run_until_added(fixture);
	assert_int_equal(pushed_size(fixture, 1, &found), 0);
	assert_true(found);
	unwind_tables_counts(fixture->tables, &counts);
	assert_int_equal(counts.without, 1);
	fold_stacks(fixture);
	assert_int_equal(fixture->stack.user_frames, 1);
	assert_int_equal(fixture->stack.user_stop, STACKBEAT_STOP_NO_TABLE);
	/* A frame pointer that leads beyond the copy, but not beyond the largest stack. */
	add_with_rbp(fixture, COPY_SIZE + 64);
	assert_int_equal(fixture->stack.user_stop, TRUNCATION_STOP_COPY_ENDS);
	add_with_rbp(fixture, 8 << 20);
	assert_int_equal(fixture->stack.user_stop, STACKBEAT_STOP_NO_TABLE);
}

static void refused_tables_are_counted(void **state)
{
	struct fixture *fixture = *state;
	struct unwind_tables_counts counts;

	fixture->push_err = -ENOSPC;
	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	run_until_added(fixture);
	unwind_tables_stop(fixture->tables);
	unwind_tables_counts(fixture->tables, &counts);
	/* Retries are pushes, too. */
	assert_in_range(counts.refused, 1, fixture->push_count);
	assert_non_null(strstr(unwind_tables_refusal(fixture->tables), "No space left"));
	/* The copy was walked nevertheless. */
	fold_stacks(fixture);
	check_stack(fixture);
}

static void known_tables_are_no_error(void **state)
{
	struct fixture *fixture = *state;
	struct unwind_tables_counts counts;

	fixture->push_err = -EEXIST;
	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	run_until_added(fixture);
	unwind_tables_counts(fixture->tables, &counts);
	assert_int_equal(counts.refused, 0);
	assert_string_equal(unwind_tables_refusal(fixture->tables), "");
}

static void run_once(struct fixture *fixture)
{
	struct pollfd fds[UNWIND_TABLES_FDS];

	poll(fds, unwind_tables_poll(fixture->tables, fds), 20);
	mapped_files_collect(fixture->mapped);
	unwind_tables_run(fixture->tables);
}

/* As a write to the test program would do. */
static void change_program(void)
{
	struct stat status;

	assert_int_equal(stat("/proc/self/exe", &status), 0);
	assert_int_equal(chmod("/proc/self/exe", status.st_mode), 0);
}

/* What was compiled is not the mapped file: it is compiled again when it has changed. */
static void stale_files_are_compiled_once(void **state)
{
	const int64_t end = now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
	struct fixture *fixture = *state;
	struct unwind_tables_counts counts;
	bool found = false;
	size_t failures;
	uint64_t id;

	fixture->push_err = -ESTALE;
	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	run_until_added(fixture);
	unwind_tables_counts(fixture->tables, &counts);
	assert_true(counts.failed > 0);
	assert_int_equal(counts.refused, 0);
	assert_int_equal(unwind_tables_bytes(fixture->tables), 0);
	assert_int_equal(fixture->files.fds[PROGRAM - 1], -1);

	/* Another process maps it. */
	fixture->push_err = 0;
	failures = counts.failed;
	id = fake_file(fixture->mapped, &fixture->files, "/proc/self/exe");
	while (fixture->files.fds[id - 1] >= 0) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		run_once(fixture);
	}
	assert_int_equal(pushed_size(fixture, id, &found), 0);
	assert_false(found);
	unwind_tables_counts(fixture->tables, &counts);
	assert_int_equal(counts.failed, failures);

	change_program();
	id = fake_file(fixture->mapped, &fixture->files, "/proc/self/exe");
	while (!pushed_size(fixture, id, &found)) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		run_once(fixture);
	}
	/* Now it is known to be the mapped file. */
	id = fake_file(fixture->mapped, &fixture->files, "/proc/self/exe");
	assert_true(pushed_size(fixture, id, &found) > 0);
}

/* A container has changed its copy of the file, and not the file of which the table was made. */
static void file_of_an_earlier_id_is_not_stale(void **state)
{
	const int64_t end = now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
	struct fixture *fixture = *state;
	struct mapped_file *file;
	bool found = false;
	uint64_t id = fake_file(fixture->mapped, &fixture->files, "/proc/self/exe");

	/* An open file needs no id. */
	file = mapped_files_get(fixture->mapped, id);
	assert_int_equal(mapped_file_hold(fixture->mapped, file), 0);
	while (!pushed_size(fixture, id, &found) || fixture->files.fds[id - 1] >= 0) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		run_once(fixture);
	}
	fixture->push_err = -ESTALE;
	id = fake_file(fixture->mapped, &fixture->files, "/proc/self/exe");
	assert_true(pushed_size(fixture, id, &found) > 0);
	fixture->push_err = 0;
	id = fake_file(fixture->mapped, &fixture->files, "/proc/self/exe");
	while (!pushed_size(fixture, id, &found)) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		run_once(fixture);
	}
	mapped_file_release(fixture->mapped, file);
}

/* The id leads to a copy that was changed: it gives way to the id of the next report. */
static void stale_file_has_no_id(void **state)
{
	const int64_t end = now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
	struct fixture *fixture = *state;
	bool found = false;
	uint64_t first = fake_file(fixture->mapped, &fixture->files, "/proc/self/exe"), id;

	while (!pushed_size(fixture, first, &found)) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		run_once(fixture);
	}
	assert_true(fixture->files.fds[first - 1] >= 0);
	fixture->push_err = -ESTALE;
	fake_file(fixture->mapped, &fixture->files, "/proc/self/exe");
	assert_int_equal(fixture->files.fds[first - 1], -1);
	id = fake_file(fixture->mapped, &fixture->files, "/proc/self/exe");
	assert_true(fixture->files.fds[id - 1] >= 0);
	while (fixture->files.fds[id - 1] >= 0) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		run_once(fixture);
	}
}

/* A file that is open, by another id, may be another one than the file of the table. */
static void tables_are_made_of_the_file_of_their_id(void **state)
{
	const int64_t end = now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
	struct fixture *fixture = *state;
	struct mapped_file *file;
	bool found = false;
	uint64_t id;

	fixture->push_err = -ENOENT;
	id = fake_file(fixture->mapped, &fixture->files, "/proc/self/exe");
	file = mapped_files_get(fixture->mapped, id);
	assert_int_equal(mapped_file_hold(fixture->mapped, file), 0);
	while (fixture->files.fds[id - 1] >= 0) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		run_once(fixture);
	}
	assert_int_equal(fixture->files.opened, 2);

	fixture->push_err = 0;
	id = fake_file(fixture->mapped, &fixture->files, "/proc/self/exe");
	while (!pushed_size(fixture, id, &found)) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		run_once(fixture);
	}
	assert_int_equal(fixture->files.opened, 3);
	mapped_file_release(fixture->mapped, file);
}

/* At the end, nothing is pending, and nothing is passed to the module any more. */
static void stop_ends_all_jobs(void **state)
{
	struct fixture *fixture = *state;
	struct pollfd fds[UNWIND_TABLES_FDS];
	size_t pushes;

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	unwind_tables_run(fixture->tables);
	unwind_tables_stop(fixture->tables);
	pushes = fixture->push_count;
	assert_int_equal(unwind_tables_poll(fixture->tables, fds), 0);
	unwind_tables_run(fixture->tables);
	assert_int_equal(stack_copies_run(fixture->copies, now_ns(CLOCK_MONOTONIC)), 0);
	assert_false(stack_copies_are_waiting(fixture->copies));
	assert_int_equal(stack_table_totals(fixture->stacks)->samples, 1);
	assert_int_equal(fixture->push_count, pushes);
}

/* Files that nobody maps any more are forgotten with their tables: the table of the vdso stays. */
static void tables_are_forgotten_with_their_files(void **state)
{
	const int64_t end = now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
	struct fixture *fixture = *state;
	struct pollfd fds[UNWIND_TABLES_FDS];

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add(fixture, COPY_SIZE);
	run_until_added(fixture);
	fold_stacks(fixture);
	fold_stacks(fixture);
	assert_true(unwind_tables_bytes(fixture->tables) > VDSO_BYTES_MAX);
	while (unwind_tables_bytes(fixture->tables) > VDSO_BYTES_MAX ||
	       fixture->files.released < fixture->files.count) {
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		poll(fds, unwind_tables_poll(fixture->tables, fds), 20);
		unwind_tables_run(fixture->tables);
		mapped_files_sweep(fixture->mapped);
	}
	assert_int_equal(fixture->files.released, fixture->files.count);
}

/* Adds a sample that the module has unwound up to CALLS callers; `wrong`: another frame. */
static void add_extra(struct fixture *fixture, size_t callers, uint8_t stop, uint64_t wrong)
{
	struct stackbeat_sample *sample = make_sample(fixture, COPY_SIZE);

	fixture->copy->record.flags = STACKBEAT_STACK_EXTRA;
	sample->user_stop = stop;
	for (size_t i = 0; i < callers; i++)
		sample_user(sample, fixture->callers[i]);
	if (wrong)
		sample_user(sample, wrong);
	assert_int_equal(stack_copies_add(fixture->copies, sample, fixture->copy), 0);
}

static void extra_copies_are_walked_by_elfutils(void **state)
{
	struct fixture *fixture = *state;
	struct verification_result result;
	uint64_t different = 0;

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	add_extra(fixture, CALLS, STACKBEAT_STOP_MAX_DEPTH, 0);
	add_extra(fixture, CALLS, STACKBEAT_STOP_OUTERMOST, 0);
	add_extra(fixture, CALLS - 1, STACKBEAT_STOP_OUTERMOST, fixture->callers[0]);
	assert_false(stack_copies_are_waiting(fixture->copies));
	assert_true(verification_bytes(fixture->verification) > 3 * fixture->copy->size);
	verification_mark(fixture->verification);
	/* The samples have the frames of the module. */
	assert_int_equal(stack_table_totals(fixture->stacks)->samples, 3);
	assert_int_equal(counts_of(fixture).walked, 0);
	mapped_files_finish(fixture->mapped);
	verification_run(fixture->verification, worker_server(), 60);
	verification_result(fixture->verification, &result);
	assert_int_equal(result.dropped, 0);
	assert_int_equal(result.failed, 0);
	assert_int_equal(result.results[COMPARED_EQUAL], 1);
	assert_int_equal(result.results[COMPARED_SHORTER], 1);
	assert_int_equal(result.results[COMPARED_DIFFERENT], 1);
	assert_int_equal(result.results[COMPARED_LONGER], 0);
	assert_true(result.object_count >= 1);
	for (size_t i = 0; i < result.object_count; i++)
		different += result.objects[i].results[COMPARED_DIFFERENT];
	assert_int_equal(different, 1);
	assert_non_null(strstr(result.objects[0].path, "test_stack_copies"));
	assert_int_equal(result.objects[0].callers, 2 * (CALLS + 1) + CALLS);
}

/* In code without information, elfutils finds no caller. */
static void longer_stacks_may_reach_the_outermost_caller(void **state)
{
	static const uint8_t stops[] = {STACKBEAT_STOP_OUTERMOST, STACKBEAT_STOP_OUTERMOST,
					STACKBEAT_STOP_NO_RULE};
	struct fixture *fixture = *state;
	struct verification_result result;

	fake_self(fixture->spaces, &fixture->files, 1, (uint32_t)getpid());
	for (size_t i = 0; i < sizeof(stops); i++) {
		struct stackbeat_sample *sample = make_sample(fixture, COPY_SIZE);

		fixture->copy->record.flags = STACKBEAT_STACK_EXTRA;
		fixture->copy->registers[STACKBEAT_REGISTER_RIP] = sample->frames[0] = 4096;
		sample->user_stop = stops[i];
		sample_user(sample, fixture->callers[0]);
		assert_int_equal(stack_copies_add(fixture->copies, sample, fixture->copy), 0);
	}
	mapped_files_finish(fixture->mapped);
	verification_run(fixture->verification, worker_server(), 60);
	verification_result(fixture->verification, &result);
	assert_int_equal(result.results[COMPARED_LONGER], 3);
	assert_int_equal(result.longer_outermost, 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sample_waits_for_its_tables),
		TEST(tables_for_waiting_samples_are_urgent),
		TEST(sample_keeps_its_mappings),
		TEST(late_sample_has_the_frames_of_the_module),
		TEST(late_sample_without_memory_waits_on),
		TEST(memory_is_limited),
		TEST(short_copy_is_marked),
		TEST(copies_of_several_sizes),
		TEST(file_without_table),
		TEST(refused_tables_are_counted),
		TEST(known_tables_are_no_error),
		TEST(stale_files_are_compiled_once),
		TEST(file_of_an_earlier_id_is_not_stale),
		TEST(stale_file_has_no_id),
		TEST(tables_are_made_of_the_file_of_their_id),
		TEST(stop_ends_all_jobs),
		TEST(tables_are_forgotten_with_their_files),
		TEST(extra_copies_are_walked_by_elfutils),
		TEST(longer_stacks_may_reach_the_outermost_caller),
	};

	worker_server();
	find_stack_end();
	return cmocka_run_group_tests_name("stack_copies", tests, NULL, NULL);
}
