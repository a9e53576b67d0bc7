// SPDX-License-Identifier: GPL-2.0
/* Names of addresses in files that are mapped more than once. test_stack_walk.c has a process. */
#include "inspect/stack_symbols.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>

#include "inspect/stack_walk.h"
#include "sandbox.h"
#include "symbolize/symbolize_options.h"
#include "worker_server.h"

#define FILES 3u
#define MAPPINGS 6u
#define MAPPING_SIZE 0x100000u
#define CODE 0x1000u /* ELF address of two functions of 16 bytes */

/*
 * Replaces libc's function. The order of the arguments of a comparison is unspecified: it may be
 * the other one.
 */
static bool is_swapped;
static int (*compare_unswapped)(const void *a, const void *b);

static int compare_swapped(const void *a, const void *b)
{
	return -compare_unswapped(b, a);
}

void qsort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b))
{
	void (*real)(void *, size_t, size_t, int (*)(const void *, const void *));

	*(void **)&real = dlsym(RTLD_NEXT, "qsort");
	compare_unswapped = compare;
	real(items, count, size, is_swapped ? compare_swapped : compare);
}

static const char *const names[FILES] = {"one", "two", "broken"};

/* Each file is mapped twice, and there are others between. */
static const uint32_t mapping_files[MAPPINGS] = {2, 1, 0, 2, 1, 0};

/* A walk that has looked at all of its mappings. */
struct fake_walk {
	struct process_mapping items[MAPPINGS];
	struct walk_mapping mappings[MAPPINGS];
	uint32_t mapping_files[MAPPINGS];
	struct stack_file files[FILES];
	struct stack_walk walk;
};

static uint64_t start_of(size_t mapping)
{
	return MAPPING_SIZE * (mapping + 1);
}

static void build_files(void)
{
	for (size_t i = 0; i < 2; i++) {
		write_text(in_sandbox("source.s"), "");
		run("cd '%s' && for name in first second; do "
		    "printf '.type %s_%%s, @function\\n%s_%%s: .skip 16, 0x90\\n"
		    ".size %s_%%s, 16\\n' $name $name $name >>source.s; done && "
		    "gcc -shared -nostdlib -Wl,-Ttext=%#x -o %s source.s",
		    sandbox, names[i], names[i], names[i], CODE, names[i]);
	}
	write_text(in_sandbox("broken"), "text\n");
}

static void open_walk(struct fake_walk *fake)
{
	*fake = (struct fake_walk){
		.walk = {.server = worker_server(), .file_count = FILES},
	};
	fake->walk.maps.items = fake->items;
	fake->walk.maps.count = MAPPINGS;
	fake->walk.mappings = fake->mappings;
	fake->walk.mapping_files = fake->mapping_files;
	fake->walk.files = fake->files;
	for (uint32_t i = 0; i < FILES; i++)
		fake->files[i] = (struct stack_file){
			.path = names[i],
			.fd = open(in_sandbox("%s", names[i]), O_RDONLY | O_CLOEXEC),
		};
	for (size_t i = 0; i < MAPPINGS; i++) {
		fake->items[i] = (struct process_mapping){
			.start = start_of(i),
			.end = start_of(i + 1),
			.inode = 1 + mapping_files[i],
			.is_executable = true,
		};
		fake->mappings[i] = (struct walk_mapping){
			.start = start_of(i), .end = start_of(i + 1), .bias = start_of(i) - CODE};
		fake->mapping_files[i] = mapping_files[i];
	}
}

static size_t problems;

static void count_problem(void *arg, const char *path, const char *text)
{
	(void)arg;
	assert_string_equal(path, "broken");
	assert_non_null(strstr(text, "not an ELF file"));
	problems++;
}

/* Adds both functions of each mapping, the last one first. */
static void add_addresses(struct stack_symbols *symbols, struct stack_walk *walk)
{
	for (size_t i = MAPPINGS; i > 0; i--) {
		assert_int_equal(stack_symbols_add(symbols, walk, start_of(i - 1) + 5), 0);
		assert_int_equal(stack_symbols_add(symbols, walk, start_of(i - 1) + 20), 0);
	}
	/* Not mapped. */
	assert_int_equal(stack_symbols_add(symbols, walk, start_of(MAPPINGS)), 0);
}

static void expect_symbol(const struct stack_symbols *symbols, size_t mapping, bool is_second)
{
	const uint64_t offset = is_second ? 20 : 5;
	const struct stack_symbol *symbol = stack_symbols_at(symbols, start_of(mapping) + offset);
	char function[32];

	assert_non_null(symbol);
	assert_int_equal(symbol->address, start_of(mapping) + offset);
	assert_int_equal(symbol->file, mapping_files[mapping]);
	assert_int_equal(symbol->vaddr, CODE + offset);
	if (mapping_files[mapping] == 2) {
		assert_null(symbol->function);
		return;
	}
	snprintf(function, sizeof(function), "%s_%s", names[mapping_files[mapping]],
		 is_second ? "second" : "first");
	assert_non_null(symbol->function);
	assert_string_equal(symbol->function, function);
	assert_int_equal(symbol->start, CODE + (is_second ? 16 : 0));
}

/* Addresses come in any order and more than once. Each file is read once. */
static void files_may_be_mapped_twice(void **state)
{
	struct stack_symbols symbols = {.items = NULL};
	const struct symbolize_options options = {.sandbox = worker_server(),
						  .problem = count_problem};
	struct fake_walk fake;

	(void)state;
	build_files();
	open_walk(&fake);
	for (int i = 0; i < 2; i++) {
		is_swapped = i;
		problems = 0;
		add_addresses(&symbols, &fake.walk);
		add_addresses(&symbols, &fake.walk);
		assert_int_equal(stack_symbols_find(&symbols, &fake.walk, &options), 0);
		assert_int_equal(problems, 1);
		assert_int_equal(symbols.count, 2 * MAPPINGS);
		for (size_t mapping = 0; mapping < MAPPINGS; mapping++) {
			expect_symbol(&symbols, mapping, false);
			expect_symbol(&symbols, mapping, true);
		}
		assert_null(stack_symbols_at(&symbols, start_of(0)));
		assert_null(stack_symbols_at(&symbols, start_of(MAPPINGS)));
		stack_symbols_clear(&symbols);
	}
	for (size_t i = 0; i < FILES; i++)
		close(fake.files[i].fd);
}

static void there_may_be_no_addresses(void **state)
{
	const struct symbolize_options options = {.sandbox = worker_server()};
	struct stack_symbols symbols = {.items = NULL};
	const struct stack_walk walk = {.file_count = 0};

	(void)state;
	assert_int_equal(stack_symbols_find(&symbols, &walk, &options), 0);
	assert_null(stack_symbols_at(&symbols, 0));
	stack_symbols_clear(&symbols);
}

/* Generated code is named by the perf map of the process, in anonymous memory and in other files.
 */
static void perf_map_names_generated_code(void **state)
{
	enum { ANONYMOUS, OTHER, UNNAMED };
	const struct symbolize_options options = {.sandbox = worker_server(),
						  .problem = count_problem};
	struct stack_symbols symbols = {.items = NULL};
	struct fake_walk fake;
	char path[64], map[128];

	(void)state;
	build_files();
	open_walk(&fake);
	fake.walk.pid = getpid();
	fake.mapping_files[ANONYMOUS] = fake.mapping_files[UNNAMED] = STACK_NO_FILE;
	fake.mapping_files[OTHER] = 2;
	fake.files[2].is_no_elf = true;
	add_addresses(&symbols, &fake.walk);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	snprintf(map, sizeof(map), "%" PRIx64 " 10 here\n%" PRIx64 " 10 there\n",
		 start_of(ANONYMOUS), start_of(OTHER) + 16);
	write_text(path, map);
	problems = 0;
	assert_int_equal(stack_symbols_find(&symbols, &fake.walk, &options), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(problems, 0);
	assert_string_equal(stack_symbols_at(&symbols, start_of(ANONYMOUS) + 5)->function, "here");
	assert_null(stack_symbols_at(&symbols, start_of(ANONYMOUS) + 20));
	assert_null(stack_symbols_at(&symbols, start_of(OTHER) + 5)->function);
	assert_string_equal(stack_symbols_at(&symbols, start_of(OTHER) + 20)->function, "there");
	assert_null(stack_symbols_at(&symbols, start_of(UNNAMED) + 5));
	stack_symbols_clear(&symbols);
	/* Without a map, nothing has a name there. */
	add_addresses(&symbols, &fake.walk);
	assert_int_equal(stack_symbols_find(&symbols, &fake.walk, &options), 0);
	assert_null(stack_symbols_at(&symbols, start_of(ANONYMOUS) + 5));
	assert_null(stack_symbols_at(&symbols, start_of(OTHER) + 20)->function);
	stack_symbols_clear(&symbols);
	for (size_t i = 0; i < FILES; i++)
		close(fake.files[i].fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_may_be_mapped_twice),
		cmocka_unit_test(there_may_be_no_addresses),
		cmocka_unit_test(perf_map_names_generated_code),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}
