// SPDX-License-Identifier: GPL-2.0
/* Walks stacks of a child process that waits in known functions, and symbolizes them. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asleep.h"
#include "inspect/stack_symbols.h"
#include "inspect/stack_text.h"
#include "inspect/stack_walk.h"
#include "lib/error.h"
#include "patience.h"
#include "symbolize/symbolize_options.h"
#include "worker_server.h"

#define KEEP __attribute__((noinline, no_sanitize("address", "undefined")))

/* What the child knows of its stack, in memory that both have. */
struct known {
	uint64_t leaf_return, middle_return; /* return addresses */
	uint64_t leaf_cfa, middle_cfa;
	bool is_ready;
};

static volatile struct known *known;

KEEP static void wait_forever(void)
{
	known->leaf_return = (uint64_t)(uintptr_t)__builtin_return_address(0);
	known->leaf_cfa = (uint64_t)(uintptr_t)__builtin_frame_address(0) + 16;
	known->is_ready = true;
	for (;;)
		pause();
}

enum { CALL_LINE = __LINE__ + 5 }; /* of wait_forever() */
KEEP static void middle(void)
{
	known->middle_return = (uint64_t)(uintptr_t)__builtin_return_address(0);
	known->middle_cfa = (uint64_t)(uintptr_t)__builtin_frame_address(0) + 16;
	wait_forever();
	__asm__ volatile("");
}

KEEP static void handle(int number)
{
	(void)number;
	middle();
	__asm__ volatile("");
}

KEEP static void outer(bool on_signal_stack)
{
	static char stack[1 << 16];
	const stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};

	if (on_signal_stack) {
		sigaltstack(&own, NULL);
		sigaction(SIGUSR1, &action, NULL);
		raise(SIGUSR1);
	}
	middle();
	__asm__ volatile("");
}

struct child {
	pid_t pid;
	struct stack_walk walk;
	struct error error;
};

static struct child start(bool on_signal_stack)
{
	struct child child = {.pid = 0};

	worker_server();
	known = mmap(NULL, sizeof(*known), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(known, MAP_FAILED);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0)
		outer(on_signal_stack);
	wait_until(known->is_ready && is_asleep(child.pid));
	assert_int_equal(stack_walk_open(&child.walk, worker_server(), child.pid, &child.error), 0);
	return child;
}

static void end(struct child *child)
{
	stack_walk_close(&child->walk);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	munmap((void *)known, sizeof(*known));
}

/* Returns the first frame with a return address; the walk has frame_count if there is none. */
static size_t find_frame(const struct stack_walk *walk, uint64_t rip)
{
	size_t i = 0;

	while (i < walk->frame_count &&
	       walk->frames[i].frame.registers[STACKBEAT_REGISTER_RIP] != rip)
		i++;
	return i;
}

static uint64_t rsp_of(const struct stack_walk *walk, size_t frame)
{
	return walk->frames[frame].frame.registers[STACKBEAT_REGISTER_RSP];
}

static void threads_are_walked(void **state)
{
	struct child child = start(false);
	const struct stack_walk *walk = &child.walk;
	size_t frame;
	uint64_t word;

	(void)state;
	assert_int_equal(stack_walk_thread(&child.walk, child.pid, &child.error), 0);
	assert_int_equal(walk->end, WALK_OUTERMOST);
	assert_int_equal(walk->stops, 1);
	assert_true(walk->longest_stop_ns > 0);
	frame = find_frame(walk, known->leaf_return);
	assert_in_range(frame, 1, walk->frame_count - 2);
	/* middle(), and its caller. */
	assert_int_equal(rsp_of(walk, frame), known->leaf_cfa);
	assert_int_equal(find_frame(walk, known->middle_return), frame + 1);
	assert_int_equal(rsp_of(walk, frame + 1), known->middle_cfa);
	for (size_t i = 0; i < walk->frame_count; i++) {
		assert_true(walk->frames[i].is_mapped);
		assert_true(walk->frames[i].by_table);
		assert_true(walk->frames[i].has_rule);
		assert_int_not_equal(walk->frames[i].file, STACK_NO_FILE);
	}
	assert_true(stack_walk_word(walk, known->leaf_cfa - 8, &word));
	assert_int_equal(word, known->leaf_return);
	assert_false(stack_walk_word(walk, walk->copy.regions[0].start - 8, &word));
	assert_false(stack_walk_word(
		walk, walk->copy.regions[0].start + walk->copy.regions[0].size - 7, &word));
	assert_true(stack_walk_word(
		walk, walk->copy.regions[0].start + walk->copy.regions[0].size - 8, &word));
	end(&child);
}

/* The walk needs the interrupted stack, too, for which the thread is stopped again. */
static void signal_handlers_have_another_stack(void **state)
{
	struct child child = start(true);
	const struct stack_walk *walk = &child.walk;
	size_t frame, signals = 0;

	(void)state;
	assert_int_equal(stack_walk_thread(&child.walk, child.pid, &child.error), 0);
	assert_int_equal(walk->end, WALK_OUTERMOST);
	assert_int_equal(walk->stops, 2);
	assert_int_equal(walk->copy.region_count, 2);
	frame = find_frame(walk, known->middle_return);
	for (size_t i = 0; i < walk->frame_count; i++) {
		if ((walk->frames[i].rule.kind_base & 0xf) != STACKBEAT_UNWIND_SIGNAL)
			continue;
		assert_true(i > frame);
		assert_true(rsp_of(walk, i + 1) > rsp_of(walk, i) + (1 << 16) ||
			    rsp_of(walk, i + 1) < rsp_of(walk, i));
		signals++;
	}
	assert_int_equal(signals, 1);
	end(&child);
}

/* From registers that were stored at a call. */
static void stored_registers_are_walked(void **state)
{
	struct child child = start(false);
	struct stack_walk *walk = &child.walk;

	(void)state;
	/* The frame pointer of middle(), which has one, is below its CFA. */
	assert_int_equal(stack_walk_stored(walk, known->leaf_return, known->leaf_cfa,
					   known->middle_cfa - 16, &child.error),
			 0);
	assert_int_equal(walk->end, WALK_OUTERMOST);
	assert_int_equal(walk->stops, 0);
	assert_int_equal(find_frame(walk, known->leaf_return), 0);
	assert_true(walk->frames[0].frame.is_return_address);
	assert_int_equal(find_frame(walk, known->middle_return), 1);
	assert_int_equal(rsp_of(walk, 1), known->middle_cfa);
	end(&child);
}

static void walks_end_outside_of_code(void **state)
{
	struct child child = start(false);

	(void)state;
	assert_int_equal(stack_walk_stored(&child.walk, 0x1234, known->leaf_cfa, 0, &child.error),
			 0);
	assert_int_equal(child.walk.frame_count, 1);
	assert_false(child.walk.frames[0].is_mapped);
	assert_int_equal(child.walk.frames[0].file, STACK_NO_FILE);
	assert_int_equal(child.walk.end, WALK_NO_MAPPING);
	end(&child);
}

static void addresses_have_files(void **state)
{
	struct child child = start(false);
	uint64_t vaddr = 1;
	uint32_t file;

	(void)state;
	file = stack_walk_file_at(&child.walk, known->leaf_return, &vaddr);
	assert_int_not_equal(file, STACK_NO_FILE);
	assert_string_equal(child.walk.files[file].problem, "");
	assert_non_null(child.walk.files[file].table);
	assert_int_equal(vaddr, known->leaf_return - child.walk.files[file].file.bias);
	/* The same file again. */
	assert_int_equal(stack_walk_file_at(&child.walk, known->middle_return, &vaddr), file);
	assert_int_equal(child.walk.file_count, 1);
	assert_int_equal(stack_walk_file_at(&child.walk, known->leaf_cfa, &vaddr), STACK_NO_FILE);
	assert_int_equal(stack_walk_file_at(&child.walk, 0, &vaddr), STACK_NO_FILE);
	end(&child);
}

static void names_are_found(void **state)
{
	struct child child = start(false);
	const struct symbolize_options options = {.sandbox = worker_server()};
	struct stack_symbols symbols;
	const struct stack_symbol *symbol;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(stack_walk_thread(&child.walk, child.pid, &child.error), 0);
	assert_int_equal(stack_text_symbolize(&child.walk, 1000, &options, &symbols), 0);
	symbol = stack_symbols_at(&symbols, known->leaf_return - 1);
	assert_non_null(symbol);
	assert_string_equal(symbol->function, "middle");
	assert_in_range(known->leaf_return - 1 - child.walk.files[symbol->file].file.bias,
			symbol->start, symbol->start + 200);
	assert_int_equal(symbol->vaddr,
			 known->leaf_return - 1 - child.walk.files[symbol->file].file.bias);
	assert_non_null(strstr(symbol->source, "test_stack_walk.c"));
	assert_int_equal(symbol->line, CALL_LINE);
	assert_string_equal(stack_symbols_at(&symbols, known->middle_return - 1)->function,
			    "outer");
	assert_null(stack_symbols_at(&symbols, known->leaf_cfa));
	/* Once each, and in order. */
	for (size_t i = 1; i < symbols.count; i++)
		assert_true(symbols.items[i - 1].address < symbols.items[i].address);
	assert_int_equal(stack_text_print(&child.walk, &symbols, 1000, out), 0);
	fclose(out);
	assert_non_null(strstr(text, " middle+0x"));
	assert_non_null(strstr(text, "return address of #"));
	assert_non_null(strstr(text, "the stack is complete"));
	free(text);
	stack_symbols_clear(&symbols);
	end(&child);
}

static void missing_processes_and_threads(void **state)
{
	struct stack_walk walk;
	struct error error;
	struct child child = start(false);

	(void)state;
	assert_int_equal(stack_walk_thread(&child.walk, getpid(), &child.error), -ESRCH);
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
	assert_int_equal(stack_walk_thread(&child.walk, child.pid, &child.error), -ESRCH);
	assert_int_equal(stack_walk_open(&walk, worker_server(), child.pid, &error), -ESRCH);
	stack_walk_close(&child.walk);
	munmap((void *)known, sizeof(*known));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_are_walked),
		cmocka_unit_test(signal_handlers_have_another_stack),
		cmocka_unit_test(stored_registers_are_walked),
		cmocka_unit_test(walks_end_outside_of_code),
		cmocka_unit_test(addresses_have_files),
		cmocka_unit_test(names_are_found),
		cmocka_unit_test(missing_processes_and_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
