// SPDX-License-Identifier: GPL-2.0
/* What is read of the file of a Go program, and its functions by address. */
#include "unit.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/error.h"
#include "runtime/go_pclntab.h"
#include "sandbox/worker_call.h"
#include "unwind/go_program.h"

#define START UINT64_C(0x400000)

static const struct go_program_function functions[] = {
	{.start = 0}, {.start = 0x10}, {.start = 0x40}, {.start = 0x41}};

static const struct go_program program = {
	.code_start = START,
	.code_end = START + 0x60,
	.functions = functions,
	.function_count = 4,
};

static void expect_function(uint64_t offset, size_t index)
{
	assert_ptr_equal(go_program_function_at(&program, START + offset), &functions[index]);
}

static void functions_end_where_the_next_one_starts(void **state)
{
	(void)state;
	expect_function(0, 0);
	expect_function(0xf, 0);
	expect_function(0x10, 1);
	expect_function(0x3f, 1);
	expect_function(0x40, 2);
	expect_function(0x41, 3);
	expect_function(0x5f, 3);
}

static void other_code_has_no_function(void **state)
{
	(void)state;
	assert_null(go_program_function_at(&program, START - 1));
	assert_null(go_program_function_at(&program, START + 0x60));
	assert_null(go_program_function_at(&program, 0));
	assert_null(go_program_function_at(&program, UINT64_MAX));
}

/* A program: its functions, and a file with a segment of data and one of code. */

#define DATA UINT64_C(0x600000)
#define DATA_OFFSET 0x400u
#define CODE_OFFSET 0x800u
#define CODE_SIZE 0x400u
#define FILE_SIZE (CODE_OFFSET + CODE_SIZE)
#define FUNCTION_SIZE 0x20u
/* In bytes of runtime.forEachGRace. */
#define LOADS_MAX 96u
#define LOAD_SIZE 7u

static struct {
	const char *const *names;
	size_t count;
	bool has_symbols;
	/* runtime.forEachGRace: its offset in the code, and its instructions. */
	uint64_t loads_start;
	unsigned char loads[LOADS_MAX + LOAD_SIZE];
	bool has_loads;
	uint64_t code_bytes; /* of the segment in the file */
} example;

int go_pclntab_open(const void *data, size_t size, struct go_pclntab **pclntab, struct error *error)
{
	(void)data;
	(void)error;
	assert_int_equal(size, FILE_SIZE);
	*pclntab = NULL;
	return 0;
}

void go_pclntab_close(struct go_pclntab *pclntab)
{
	assert_null(pclntab);
}

int go_pclntab_each_function(const struct go_pclntab *pclntab,
			     int (*fn)(void *arg, const struct go_function *function), void *arg)
{
	struct go_function function;
	int err = 0;

	assert_null(pclntab);
	for (size_t i = 0; i < example.count && !err; i++) {
		function = (struct go_function){
			.name = example.names[i],
			.start = START + i * FUNCTION_SIZE,
			.end = START + (i + 1) * FUNCTION_SIZE,
			.is_wrapper = i == 1,
		};
		err = fn(arg, &function);
	}
	function = (struct go_function){
		.name = "runtime.forEachGRace",
		.start = START + example.loads_start,
		.end = START + CODE_SIZE,
	};
	return err || !example.has_loads ? err : fn(arg, &function);
}

int go_pclntab_each_stack_size(const struct go_pclntab *pclntab, const struct go_function *function,
			       int (*fn)(void *arg, uint64_t start, uint64_t end, int32_t size),
			       void *arg)
{
	assert_null(pclntab);
	return fn(arg, function->start, function->end, 16);
}

/* The worker, in this process. */
ssize_t worker_call(const struct sandbox_server *server, enum worker_kind kind, int input,
		    void *result, size_t size, unsigned int cpu_ms, unsigned int timeout_ms)
{
	int output = memfd_create("result", MFD_CLOEXEC);
	ssize_t got;

	(void)cpu_ms;
	(void)timeout_ms;
	assert_null(server);
	assert_int_equal(kind, WORKER_GO_PROGRAM);
	assert_true(output >= 0);
	run_go_program_worker((const int[]){input, output}, 2);
	got = pread(output, result, size, 0);
	close(output);
	return got;
}

/* Section headers, a symbol table and its strings, in front of the data. */
static void put_symbols(unsigned char *file, Elf64_Ehdr *header)
{
	static const char strings[] = "\0runtime.allglen\0runtime.allgptr\0.";
	const Elf64_Sym symbols[] = {
		{.st_info = STT_NOTYPE},
		/* Of a name, but no variable. */
		{.st_name = 1, .st_info = STT_FUNC, .st_shndx = 1, .st_value = DATA + 0x18},
		{.st_name = 1, .st_info = STT_OBJECT, .st_shndx = 1, .st_value = DATA + 0x110},
		{.st_name = 17, .st_info = STT_OBJECT, .st_shndx = 1, .st_value = DATA + 0x120},
		{.st_name = 17, .st_info = STT_FUNC, .st_shndx = 1, .st_value = DATA + 0x28},
		{.st_name = 33, .st_info = STT_OBJECT, .st_shndx = 1, .st_value = DATA + 0x38},
	};
	const size_t names = 0xc0 + sizeof(symbols), table = 0x200;
	const Elf64_Shdr sections[] = {
		{.sh_type = SHT_NULL},
		{.sh_type = SHT_STRTAB, .sh_offset = names, .sh_size = sizeof(strings)},
		{.sh_type = SHT_SYMTAB,
		 .sh_offset = 0xc0,
		 .sh_size = sizeof(symbols),
		 .sh_entsize = sizeof(symbols[0]),
		 .sh_link = 1},
	};

	memcpy(file + 0xc0, symbols, sizeof(symbols));
	memcpy(file + names, strings, sizeof(strings));
	memcpy(file + table, sections, sizeof(sections));
	header->e_shoff = table;
	header->e_shentsize = sizeof(sections[0]);
	header->e_shnum = 3;
	header->e_shstrndx = 1;
}

static int read_example(struct go_program *read, struct error *error)
{
	static const char version[] = "\xff Go buildinf:\x08\x02";
	unsigned char file[FILE_SIZE] = {0};
	Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2,
	};
	const Elf64_Phdr segments[] = {
		{.p_type = PT_LOAD, .p_offset = DATA_OFFSET, .p_vaddr = DATA, .p_filesz = 0x100},
		{.p_type = PT_LOAD,
		 .p_offset = CODE_OFFSET,
		 .p_vaddr = START,
		 .p_filesz = example.code_bytes},
	};
	int fd = memfd_create("program", MFD_CLOEXEC), err;

	assert_true(fd >= 0);
	if (example.has_symbols)
		put_symbols(file, &header);
	memcpy(file, &header, sizeof(header));
	memcpy(file + sizeof(header), segments, sizeof(segments));
	memcpy(file + DATA_OFFSET, version, sizeof(version));
	memcpy(file + DATA_OFFSET + 32, "\x08go1.24.4", 9);
	assert_in_range(example.loads_start + sizeof(example.loads), 0, CODE_SIZE);
	memcpy(file + CODE_OFFSET + example.loads_start, example.loads, sizeof(example.loads));
	assert_int_equal(pwrite(fd, file, sizeof(file), 0), sizeof(file));
	err = go_program_read(NULL, fd, read, error);
	close(fd);
	return err;
}

static const char *const one_name[] = {"main.main"};

static int example_setup(void **state)
{
	(void)state;
	memset(&example, 0, sizeof(example));
	example.names = one_name;
	example.count = 1;
	example.code_bytes = CODE_SIZE;
	return 0;
}

static void reads_kinds_of_functions(void **state)
{
	static const struct {
		const char *name;
		enum go_function_kind kind;
	} expected[] = {
		{"main.main", GO_FUNCTION_OTHER},
		{"goexit", GO_FUNCTION_OTHER},
		{"runtime.goexit", GO_FUNCTION_GOEXIT},
		{"runtime.goexit.abi0", GO_FUNCTION_GOEXIT},
		{"runtime.goexit0", GO_FUNCTION_RUNTIME},
		{"runtime.goexi", GO_FUNCTION_RUNTIME},
		{"runtime.main", GO_FUNCTION_RUNTIME_ENTRY},
		{"runtime.corostart", GO_FUNCTION_RUNTIME_ENTRY},
		{"runtime.handleAsyncEvent", GO_FUNCTION_RUNTIME_ENTRY},
		{"runtime.runfinq", GO_FUNCTION_RUNTIME_CALLER},
		{"runtime.runFinalizers", GO_FUNCTION_RUNTIME_CALLER},
		{"runtime.runCleanups", GO_FUNCTION_RUNTIME_CALLER},
		{"runtime.asyncPreempt", GO_FUNCTION_INJECTED},
		{"runtime.asyncPreempt.abi0", GO_FUNCTION_INJECTED},
		{"runtime.asyncPreempt2", GO_FUNCTION_RUNTIME},
		{"runtime.sigpanic", GO_FUNCTION_INJECTED},
		{"runtime.sigpanic0", GO_FUNCTION_INJECTED},
		{"runtime.debugCallV2", GO_FUNCTION_INJECTED},
		{"runtime.gopark", GO_FUNCTION_RUNTIME},
		{"runtime/debug.main", GO_FUNCTION_OTHER},
	};
	enum { COUNT = sizeof(expected) / sizeof(expected[0]) };
	const char *names[COUNT];
	struct go_program read;
	struct error error;

	(void)state;
	for (size_t i = 0; i < COUNT; i++)
		names[i] = expected[i].name;
	example.names = names;
	example.count = COUNT;
	example.has_symbols = true;
	assert_int_equal(read_example(&read, &error), 0);
	assert_int_equal(read.function_count, COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		if (read.functions[i].kind != expected[i].kind)
			fail_msg("%s: %u", expected[i].name, read.functions[i].kind);
		assert_int_equal(read.functions[i].start, i * FUNCTION_SIZE);
		assert_int_equal(read.functions[i].is_wrapper, i == 1);
	}
	assert_int_equal(read.code_start, START);
	assert_int_equal(read.code_end, START + COUNT * FUNCTION_SIZE);
	assert_string_equal(read.version, "go1.24.4");
	assert_int_equal(read.minor, 24);
	go_program_clear(&read);
	assert_null(read.functions);
}

static void reads_variables_of_the_symbol_table(void **state)
{
	struct go_program read;
	struct error error;

	(void)state;
	example.has_symbols = true;
	assert_int_equal(read_example(&read, &error), 0);
	assert_int_equal(read.allglen, DATA + 0x110);
	assert_int_equal(read.allgptr, DATA + 0x120);
	go_program_clear(&read);
}

/* An instruction that takes its operand relative to its end. */
static void put_load(size_t at, const char code[3], uint64_t variable)
{
	int32_t disp = (int32_t)(variable - (START + example.loads_start + at + LOAD_SIZE));

	memcpy(example.loads + at, code, 3);
	memcpy(example.loads + at + 3, &disp, sizeof(disp));
}

static void expect_variables(uint64_t allglen, uint64_t allgptr)
{
	struct go_program read;
	struct error error;

	assert_int_equal(read_example(&read, &error), 0);
	assert_int_equal(read.allglen, allglen);
	assert_int_equal(read.allgptr, allgptr);
	go_program_clear(&read);
}

/* The code may be a plugin's. */
static void expect_no_variables(void)
{
	expect_variables(0, 0);
}

static int loads_setup(void **state)
{
	example_setup(state);
	example.has_loads = true;
	example.loads_start = 0x130;
	return 0;
}

/* Only mov disp(%rip),%reg counts, of any 64-bit register. */
static void finds_variables_by_their_loads(void **state)
{
	(void)state;
	put_load(0, "\x48\x89\x05", DATA + 1); /* a store */
	put_load(7, "\x48\x8b\x44", DATA + 2); /* relative to another register */
	put_load(14, "\x40\x8b\x05", DATA + 3); /* 32 bits */
	put_load(21, "\x48\x8b\x0d", DATA + 0x10);
	put_load(30, "\x48\x8d\x05", DATA + 4); /* the address */
	put_load(40, "\x4c\x8b\x05", DATA + 0x20);
	put_load(47, "\x48\x8b\x05", DATA + 5); /* the third one */
	expect_variables(DATA + 0x10, DATA + 0x20);
}

static void finds_loads_up_to_a_limit(void **state)
{
	(void)state;
	put_load(0, "\x48\x8b\x05", DATA);
	put_load(LOADS_MAX - LOAD_SIZE, "\x48\x8b\x15", START - 8);
	expect_variables(DATA, START - 8);
	memset(example.loads, 0, sizeof(example.loads));
	put_load(0, "\x48\x8b\x05", DATA);
	put_load(LOADS_MAX - LOAD_SIZE + 1, "\x48\x8b\x15", START - 8);
	expect_no_variables();
}

static void loads_must_be_in_the_file(void **state)
{
	(void)state;
	put_load(0, "\x48\x8b\x05", DATA);
	put_load(7, "\x48\x8b\x05", DATA + 8);
	example.code_bytes = example.loads_start + LOADS_MAX;
	expect_variables(DATA, DATA + 8);
	example.code_bytes--;
	expect_no_variables();
	example.code_bytes = example.loads_start;
	expect_no_variables();
	example.code_bytes = CODE_SIZE;
	example.has_loads = false;
	expect_no_variables();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_end_where_the_next_one_starts),
		cmocka_unit_test(other_code_has_no_function),
		cmocka_unit_test_setup(reads_kinds_of_functions, example_setup),
		cmocka_unit_test_setup(reads_variables_of_the_symbol_table, example_setup),
		cmocka_unit_test_setup(finds_variables_by_their_loads, loads_setup),
		cmocka_unit_test_setup(finds_loads_up_to_a_limit, loads_setup),
		cmocka_unit_test_setup(loads_must_be_in_the_file, loads_setup),
	};

	return cmocka_run_group_tests_name("go_program", tests, NULL, NULL);
}
