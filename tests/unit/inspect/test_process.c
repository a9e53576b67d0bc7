// SPDX-License-Identifier: GPL-2.0
/* Reads this process and its children: mappings, files, stacks. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "asleep.h"
#include "go_image.h"
#include "inspect/go_process.h"
#include "inspect/process_maps.h"
#include "inspect/process_memory.h"
#include "inspect/stack_walk.h"
#include "lib/error.h"
#include "patience.h"
#include "sandbox.h"
#include "unwind/go_program.h"
#include "worker_server.h"

#define PAGE 4096u

static void mappings_have_their_paths_and_files(void **state)
{
	const char *path = in_sandbox("a\nb\\c d");
	const struct process_mapping *mapping;
	struct process_maps maps;
	struct error error;
	char bytes[PAGE], *mapped;
	struct stat st;
	int fd;

	(void)state;
	memset(bytes, 'x', sizeof(bytes));
	write_file(path, bytes, sizeof(bytes));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	mapped = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(mapped != MAP_FAILED);
	close(fd);
	assert_int_equal(process_maps_read(getpid(), &maps, &error), 0);
	mapping = process_maps_at(&maps, (uintptr_t)mapped + 100);
	assert_non_null(mapping);
	assert_int_equal(mapping->start, (uintptr_t)mapped);
	assert_int_equal(mapping->end, (uintptr_t)mapped + PAGE);
	assert_int_equal(mapping->offset, 0);
	assert_int_equal(mapping->inode, st.st_ino);
	assert_true(mapping->is_executable);
	assert_string_equal(mapping->path, path);
	assert_null(process_maps_at(&maps, 8));
	assert_null(process_maps_at(&maps, UINT64_MAX));
	fd = process_maps_open(&maps, mapping);
	assert_true(fd >= 0);
	close(fd);
	/* Another file has its name now. */
	assert_int_equal(unlink(path), 0);
	write_file(path, "other", 5);
	fd = process_maps_open(&maps, mapping);
	if (fd >= 0) {
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_ino, mapping->inode);
		close(fd);
	}
	process_maps_clear(&maps);
	munmap(mapped, PAGE);
}

static void processes_that_cannot_be_read_are_errors(void **state)
{
	struct process_maps maps;
	struct error error;
	pid_t child = fork();

	(void)state;
	if (!child)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)child, NULL, WEXITED | WNOWAIT), 0);
	assert_int_equal(process_maps_read(child, &maps, &error), -ENODATA);
	assert_non_null(strstr(error.text, "has no memory"));
	waitpid(child, NULL, 0);
	assert_int_equal(process_maps_read(child, &maps, &error), -ESRCH);
	assert_non_null(strstr(error.text, "there is no process"));
}

static void unreadable_places_do_not_hide_others(void **state)
{
	static struct memory_batch batch;
	static uint64_t words[4] = {1, 2, 3, 4};
	uint64_t found[4] = {0};
	char *nothing = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(nothing != MAP_FAILED);
	memory_batch_add(&batch, &found[0], (uintptr_t)nothing, 8);
	memory_batch_add(&batch, &found[1], (uintptr_t)&words[1], 8);
	memory_batch_add(&batch, &found[2], (uintptr_t)nothing + 8, 8);
	memory_batch_add(&batch, &found[3], (uintptr_t)&words[3], 8);
	assert_int_equal(memory_batch_read(getpid(), &batch), 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(batch.was_read[i], i % 2);
		assert_int_equal(found[i], i % 2 ? words[i] : 0);
	}
	assert_int_equal(process_memory_read(getpid(), (uintptr_t)nothing, found, 8), -EFAULT);
	assert_int_equal(memory_batch_read(INT32_MAX, &batch), -ESRCH);
	munmap(nothing, PAGE);
}

static void other_programs_have_no_goroutines(void **state)
{
	struct go_program program;
	struct go_process process;
	struct error error;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(go_program_read(worker_server(), fd, &program, &error), -ENODATA);
	assert_string_equal(error.text, "no function table of Go");
	close(fd);
	assert_int_equal(go_process_open(worker_server(), getpid(), &process, &error), -ENODATA);
	assert_non_null(strstr(error.text, "runs no Go program"));
}

/* It has functions, but no sizes of frames, and no list of goroutines. */
static void broken_program_is_an_error(void **state)
{
	struct go_image image;
	struct go_program program;
	struct error error;
	int fd;

	(void)state;
	go_image_make(&image, &go_1_20);
	write_file(in_sandbox("go"), image.bytes, image.size);
	fd = open(in_sandbox("go"), O_RDONLY | O_CLOEXEC);
	assert_true(go_program_read(worker_server(), fd, &program, &error) < 0);
	assert_non_null(strstr(error.text, "the function table of Go can't be used"));
	assert_null(program.memory);
	close(fd);
}

static volatile int forever = 1;

__attribute__((noinline)) static void wait_for_ever(int ready)
{
	if (write(ready, "", 1) != 1)
		_exit(1);
	while (forever)
		pause();
}

static void thread_runs_after_its_stack_was_read(void **state)
{
	struct stack_walk walk;
	struct error error;
	int ends[2], status;
	uint64_t word;
	char byte;
	pid_t child;

	(void)state;
	worker_server();
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child)
		wait_for_ever(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	wait_until(is_asleep(child));
	assert_int_equal(stack_walk_open(&walk, worker_server(), child, &error), 0);
	assert_int_equal(stack_walk_thread(&walk, getpid(), &error), -ESRCH);
	assert_int_equal(stack_walk_thread(&walk, child, &error), 0);
	assert_int_equal(walk.stops, 1);
	assert_true(walk.frame_count > 1);
	assert_true(walk.longest_stop_ns > 0);
	assert_true(stack_walk_word(&walk, walk.copy.registers[STACKBEAT_REGISTER_RSP], &word));
	assert_false(
		stack_walk_word(&walk, walk.copy.registers[STACKBEAT_REGISTER_RSP] - 8, &word));
	stack_walk_close(&walk);
	/* It is neither stopped nor traced: a signal ends it. */
	kill(child, SIGTERM);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mappings_have_their_paths_and_files),
		cmocka_unit_test(processes_that_cannot_be_read_are_errors),
		cmocka_unit_test(unreadable_places_do_not_hide_others),
		cmocka_unit_test(other_programs_have_no_goroutines),
		cmocka_unit_test(broken_program_is_an_error),
		cmocka_unit_test(thread_runs_after_its_stack_was_read),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}
