// SPDX-License-Identifier: GPL-2.0
/* Which files of a process are searched for Go's code. Its mappings and files are this test's. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inspect/go_process.h"
#include "inspect/goroutines.h"
#include "inspect/process_memory.h"
#include "lib/error.h"
#include "runtime/go_layout.h"
#include "symbolize/symbol_source.h"

#define MAPPINGS 1000u
#define NO_MAPPING UINT32_MAX

static struct process_mapping mappings[MAPPINGS];
static size_t mapping_count;
static size_t opened[MAPPINGS]; /* mappings, in the order of the search */
static size_t opened_count;
static size_t go_at; /* the mapping of a Go program, or NO_MAPPING */
/* By inode: whether a file has Go's code, with or without a runtime, which is used if it is the
 * last one. */
static enum { NO_CODE, CODE, RUNTIME, USED_RUNTIME } kinds[16];
static int open_errors[16]; /* by inode; 0: none */
static unsigned int go_minor; /* of the version of all files */
static const struct process_mapping *found_mapping; /* at the address of the program */

/* What go_process.c needs */

int process_maps_read(pid_t pid, struct process_maps *maps, struct error *error)
{
	(void)error;
	*maps = (struct process_maps){.pid = pid, .items = mappings, .count = mapping_count};
	return 0;
}

void process_maps_clear(struct process_maps *maps)
{
	maps->count = 0;
}

const struct process_mapping *process_maps_at(const struct process_maps *maps, uint64_t address)
{
	(void)maps;
	assert_int_equal(address, 0x1000);
	return found_mapping;
}

int process_maps_open(const struct process_maps *maps, const struct process_mapping *mapping)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);

	opened[opened_count++] = (size_t)(mapping - maps->items);
	if (mapping->inode < 16 && open_errors[mapping->inode]) {
		close(fd);
		return -open_errors[mapping->inode];
	}
	/* A file is as long as the number of its inode. */
	assert_int_equal(ftruncate(fd, (off_t)mapping->inode), 0);
	return fd;
}

int process_file_read(const struct sandbox_server *server, const struct process_mapping *mapping,
		      int fd, struct process_file *file, struct error *error)
{
	(void)server, (void)fd, (void)error;
	*file = (struct process_file){.bias = mapping->inode << 32};
	snprintf(file->build_id, sizeof(file->build_id), "%04x", (unsigned int)mapping->inode);
	return 0;
}

int process_memory_read(pid_t pid, uint64_t address, void *to, size_t size)
{
	const uint64_t inode = address >> 32;
	const uint64_t value = inode == 5000 || kinds[inode % 16] == USED_RUNTIME;

	(void)pid;
	assert_int_equal(size, sizeof(value));
	memcpy(to, &value, size);
	return 0;
}

int go_program_read(const struct sandbox_server *server, int fd, struct go_program *program,
		    struct error *error)
{
	const size_t at = opened[opened_count - 1];
	const uint64_t inode = mappings[at].inode;

	(void)server, (void)fd;
	*program = (struct go_program){.version = "go1.24.4", .minor = go_minor};
	if (at == go_at || (inode < 16 && kinds[inode] >= RUNTIME))
		program->allglen = 8;
	return at == go_at || (inode < 16 && kinds[inode])
		       ? 0
		       : error_set(error, ENODATA, "no function table of Go");
}

void go_program_clear(struct go_program *program)
{
	(void)program;
}

static int set_up(void **state)
{
	(void)state;
	mapping_count = opened_count = 0;
	go_at = NO_MAPPING;
	memset(kinds, 0, sizeof(kinds));
	memset(open_errors, 0, sizeof(open_errors));
	go_minor = 24;
	found_mapping = NULL;
	return 0;
}

static void add_mapping(uint64_t device, uint64_t inode, bool is_executable)
{
	const uint64_t start = 0x1000 * (mapping_count + 1);

	assert_true(mapping_count < MAPPINGS);
	mappings[mapping_count++] = (struct process_mapping){
		.start = start,
		.end = start + 0x1000,
		.device = device,
		.inode = inode,
		.is_executable = is_executable,
		.path = "/bin/program",
	};
}

static void files_with_code_are_searched_once(void **state)
{
	static const struct {
		uint64_t device, inode;
		bool is_executable, is_searched;
	} cases[] = {
		{8, 1, true, true},   {8, 1, true, false}, /* the same file */
		{8, 2, false, false}, /* data */
		{8, 2, true, true}, /* its code */
		{0, 0, true, false}, /* no file: generated code */
		{9, 1, true, true}, /* the same inode number in another file system */
		{8, 3, true, true},   {8, 2, true, false},
		{9, 1, true, false},  {9, 1, false, false},
	};
	struct go_process process;
	struct error error;
	size_t next = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		add_mapping(cases[i].device, cases[i].inode, cases[i].is_executable);
	/* Beyond the last one. */
	add_mapping(8, 4, true);
	mapping_count--;
	assert_int_equal(go_process_open(NULL, getpid(), &process, &error), -ENODATA);
	assert_non_null(strstr(error.text, "runs no Go program"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!cases[i].is_searched)
			continue;
		assert_true(next < opened_count);
		assert_int_equal(opened[next++], i);
	}
	assert_int_equal(opened_count, next);
}

/* Returns whether Go's code is found in a file after those that were added. */
static bool is_found(void)
{
	struct go_process process;
	struct error error;
	bool found;

	go_at = mapping_count;
	opened_count = 0;
	add_mapping(8, 5000, true);
	found = !go_process_open(NULL, getpid(), &process, &error);
	if (found) {
		assert_int_equal(process.runtime.mapping.start, mappings[go_at].start);
		assert_int_equal(process.runtime.mapping.inode, 5000);
		assert_string_equal(process.runtime.path, "/bin/program");
		assert_int_equal(process.other_count, 0);
		go_process_close(&process);
	}
	mapping_count--;
	return found;
}

/* The number of files is limited, the number of their mappings is not. */
static void mappings_of_one_file_hide_no_other(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 500; i++)
		add_mapping(8, 1 + i % 2, true);
	assert_true(is_found());
	mapping_count = 0;
	for (unsigned int i = 0; i < 255; i++)
		add_mapping(8, 1 + i, true);
	assert_true(is_found());
	add_mapping(8, 256, true);
	assert_false(is_found());
}

/* The number of the file, by its inode, whose runtime is taken of three files. */
static uint64_t runtime_of(unsigned int first, unsigned int second, unsigned int third)
{
	struct goroutines_source source;
	struct go_process process;
	struct error error;
	uint64_t inode, sum = 0;

	set_up(NULL);
	kinds[1] = first;
	kinds[2] = second;
	kinds[3] = third;
	for (uint64_t i = 1; i <= 3; i++)
		add_mapping(8, i, true);
	if (go_process_open(NULL, getpid(), &process, &error)) {
		assert_non_null(strstr(error.text, "the list of goroutines is not found"));
		return 0;
	}
	inode = process.runtime.mapping.inode;
	go_process_source(&process, &source);
	assert_ptr_equal(source.program, &process.runtime.program);
	assert_int_equal(source.bias, inode << 32);
	assert_ptr_equal(go_process_file(&process, 0), &process.runtime);
	for (size_t i = 0; i < source.other_count; i++) {
		const struct go_file *file = go_process_file(&process, i + 1);

		assert_ptr_equal(source.others[i].program, &file->program);
		assert_int_equal(source.others[i].bias, file->mapping.inode << 32);
		sum += file->mapping.inode;
	}
	assert_null(go_process_file(&process, source.other_count + 1));
	assert_int_equal(sum + inode, (first ? 1 : 0) + (second ? 2 : 0) + (third ? 3 : 0));
	go_process_close(&process);
	return inode;
}

/* A plugin has a runtime that is not used; with -buildmode=shared, a library has the runtime. */
static void the_runtime_is_the_one_that_is_used(void **state)
{
	(void)state;
	assert_int_equal(runtime_of(USED_RUNTIME, RUNTIME, CODE), 1);
	assert_int_equal(runtime_of(RUNTIME, CODE, USED_RUNTIME), 3);
	assert_int_equal(runtime_of(CODE, NO_CODE, USED_RUNTIME), 3);
	assert_int_equal(runtime_of(CODE, RUNTIME, NO_CODE), 2);
	assert_int_equal(runtime_of(RUNTIME, CODE, RUNTIME), 1);
	assert_int_equal(runtime_of(USED_RUNTIME, USED_RUNTIME, NO_CODE), 1);
	assert_int_equal(runtime_of(CODE, NO_CODE, CODE), 0);
}

static void open_process(struct go_process *process, pid_t pid)
{
	struct error error;

	if (go_process_open(NULL, pid, process, &error))
		fail_msg("%s", error.text);
}

static void close_process(struct go_process *process)
{
	go_process_close(process);
	assert_int_equal(process->runtime.fd, -1);
	assert_int_equal(process->other_count, 0);
	/* Only its own files. */
	assert_int_not_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
}

static void version_has_a_layout(void **state)
{
	const unsigned int last = go_layout_of_version(1, 1000)->last;
	struct go_process process;
	struct error error;

	(void)state;
	kinds[1] = USED_RUNTIME;
	add_mapping(8, 1, true);
	for (go_minor = 17; go_minor <= last + 1; go_minor++) {
		if (go_minor == 17) {
			assert_int_equal(go_process_open(NULL, getpid(), &process, &error),
					 -ENOTSUP);
			assert_non_null(strstr(error.text, "1.18 is the oldest"));
			continue;
		}
		open_process(&process, getpid());
		assert_ptr_equal(process.layout, go_layout_of_version(1, go_minor));
		assert_int_equal(process.is_newer, go_minor > last);
		close_process(&process);
	}
}

static void first_error_is_kept(void **state)
{
	struct go_process process;
	struct error error;

	(void)state;
	open_errors[2] = EACCES;
	open_errors[3] = EMFILE;
	kinds[5] = CODE;
	for (uint64_t i = 1; i <= 5; i++)
		add_mapping(8, i, true);
	assert_int_equal(go_process_open(NULL, getpid(), &process, &error), -EACCES);
	assert_non_null(strstr(error.text, "/bin/program can't be opened: Permission denied"));
	/* Unless there is a runtime. */
	kinds[4] = RUNTIME;
	open_process(&process, getpid());
	assert_int_equal(process.runtime.mapping.inode, 4);
	close_process(&process);
	/* Without an error, the file that has code only. */
	kinds[4] = open_errors[2] = open_errors[3] = 0;
	assert_int_equal(go_process_open(NULL, getpid(), &process, &error), -ENODATA);
	assert_non_null(strstr(error.text, "/bin/program: the list of goroutines is not found"));
}

/* The number of files beside the file of the runtime is limited. */
static void files_with_code_are_limited(void **state)
{
	struct go_process process;
	int fds[2];

	(void)state;
	kinds[1] = CODE;
	for (uint64_t i = 0; i < GOROUTINE_OTHERS_MAX + 3u; i++)
		add_mapping(i, 1, true);
	go_at = 0;
	open_process(&process, getpid());
	assert_int_equal(process.other_count, GOROUTINE_OTHERS_MAX);
	assert_int_equal(opened_count, GOROUTINE_OTHERS_MAX + 1u);
	fds[0] = process.others[0].fd;
	fds[1] = process.others[GOROUTINE_OTHERS_MAX - 1].fd;
	close_process(&process);
	assert_int_equal(fcntl(fds[0], F_GETFD), -1);
	assert_int_equal(fcntl(fds[1], F_GETFD), -1);
}

static void expect_outcome(struct go_process *process, int err, const char *text)
{
	struct error error = {""};

	assert_int_equal(go_process_check(process, &error), -err);
	assert_non_null(strstr(error.text, text));
}

static void other_program_is_noticed(void **state)
{
	const pid_t child = fork();
	struct process_mapping now;
	struct go_process process;

	(void)state;
	if (!child) {
		pause();
		_exit(0);
	}
	assert_true(child > 0);
	kinds[1] = USED_RUNTIME;
	add_mapping(8, 1, true);
	open_process(&process, child);
	expect_outcome(&process, ESTALE, "has executed another program");
	now = mappings[0];
	found_mapping = &now;
	expect_outcome(&process, 0, "");
	now.start--;
	expect_outcome(&process, ESTALE, "has executed another program");
	now = mappings[0];
	now.inode++;
	expect_outcome(&process, ESTALE, "has executed another program");
	now = mappings[0];
	now.device++;
	expect_outcome(&process, ESTALE, "has executed another program");
	now = mappings[0];
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)child, NULL, WEXITED | WNOWAIT), 0);
	expect_outcome(&process, ESRCH, "has exited");
	assert_int_equal(waitpid(child, NULL, 0), child);
	close_process(&process);
}

/* Returns the number of the file whose symbols are read, or a negative errno value. */
static off_t symbols_of(const struct go_process *process, const char *path, const char *build_id,
			unsigned int candidate)
{
	const struct symbol_mapping mapping = {.path = path, .build_id = build_id};
	struct symbol_source source;
	struct error error;
	off_t length;
	int fd;

	go_process_symbols(process, &source);
	assert_string_equal(source.root, "");
	assert_int_equal(source.kind(source.arg, &mapping), SYMBOLS_FILE);
	fd = source.open(source.arg, &mapping, candidate, &error);
	if (fd < 0)
		return fd;
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	length = lseek(fd, 0, SEEK_END);
	close(fd);
	return length;
}

static void symbols_are_of_the_open_files(void **state)
{
	struct go_process process;

	(void)state;
	kinds[1] = kinds[2] = CODE;
	kinds[3] = RUNTIME;
	for (uint64_t i = 1; i <= 3; i++)
		add_mapping(8, i, true);
	open_process(&process, getpid());
	assert_int_equal(symbols_of(&process, "/bin/program", "0001", 0), 1);
	assert_int_equal(symbols_of(&process, "/bin/program", "0002", 0), 2);
	assert_int_equal(symbols_of(&process, "/bin/program", "0003", 0), 3);
	assert_int_equal(symbols_of(&process, "/bin/program", "0003", 1), -ENOENT);
	assert_int_equal(symbols_of(&process, "/bin/program", "0004", 0), -ENOENT);
	assert_int_equal(symbols_of(&process, "/bin/other", "0003", 0), -ENOENT);
	close_process(&process);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_with_code_are_searched_once),
		TEST(mappings_of_one_file_hide_no_other),
		TEST(version_has_a_layout),
		TEST(first_error_is_kept),
		TEST(files_with_code_are_limited),
		TEST(other_program_is_noticed),
		TEST(symbols_are_of_the_open_files),
		TEST(the_runtime_is_the_one_that_is_used),
	};

	return cmocka_run_group_tests_name("go_process", tests, NULL, NULL);
}
