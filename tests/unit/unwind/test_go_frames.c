// SPDX-License-Identifier: GPL-2.0
/* Rows of Go functions: their stack sizes and code, as if a pclntab had them. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/go_pclntab.h"
#include "unwind/cfi.h"
#include "unwind/go_frames.h"

#define PARTS_MAX 8u

/* Functions follow each other at 0x1000, 0x2000, ... */
struct function {
	const char *name;
	uint64_t size; /* bytes */
	bool is_outermost, changes_stack;
	/* Stack sizes: from an offset on; the last one has size -1. */
	struct {
		uint64_t from;
		int32_t size;
	} parts[PARTS_MAX];
	const char *code;
	size_t code_size;
};

static const struct function *functions;
static size_t function_count;

static struct {
	char text[2048];
	unsigned char *code; /* without room behind it, for ASan */
	unsigned int rows, fail_at;
} result;

int go_pclntab_each_function(const struct go_pclntab *pclntab,
			     int (*fn)(void *arg, const struct go_function *function), void *arg)
{
	int err = 0;

	assert_null(pclntab);
	for (size_t i = 0; i < function_count && !err; i++) {
		const struct go_function function = {
			.name = functions[i].name,
			.start = 0x1000 * (i + 1),
			.end = 0x1000 * (i + 1) + functions[i].size,
			.is_outermost = functions[i].is_outermost,
			.changes_stack = functions[i].changes_stack,
			.stack_sizes = (uint32_t)i,
		};

		err = fn(arg, &function);
	}
	return err;
}

int go_pclntab_each_stack_size(const struct go_pclntab *pclntab, const struct go_function *function,
			       int (*fn)(void *arg, uint64_t start, uint64_t end, int32_t size),
			       void *arg)
{
	const struct function *from = &functions[function->stack_sizes];
	int err = 0;

	assert_null(pclntab);
	for (size_t i = 0; i < PARTS_MAX && from->parts[i].size >= 0 && !err; i++)
		err = fn(arg, function->start + from->parts[i].from,
			 function->start + from->parts[i + 1].from, from->parts[i].size);
	return err;
}

static const unsigned char *code_at(void *arg, uint64_t address, size_t *size)
{
	const struct function *function = &functions[address / 0x1000 - 1];
	const uint64_t offset = address % 0x1000;

	assert_ptr_equal(arg, &result);
	if (offset >= function->code_size)
		return NULL;
	*size = function->code_size - offset;
	free(result.code);
	result.code = malloc(*size);
	assert_non_null(result.code);
	memcpy(result.code, function->code + offset, *size);
	return result.code;
}

static const char *value_text(const struct cfi_value *value, char text[16])
{
	snprintf(text, 16, value->place == CFI_AT_CFA ? "%d" : "-", (int)value->offset);
	return text;
}

/* One line: START-END BASE+OFFSET, and where rip and rbp are. */
static int take_row(void *arg, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	size_t used = strlen(result.text), size = sizeof(result.text) - used;
	static const char *const kinds[] = {"", "end", "signal", "unsupported"};
	char rip[16], rbp[16];

	assert_ptr_equal(arg, &result);
	used += (size_t)snprintf(result.text + used, size, "%x-%x ", (unsigned int)start,
				 (unsigned int)end);
	size = sizeof(result.text) - used;
	if (row->kind == CFI_CALLER)
		snprintf(result.text + used, size, "%s+%d %s %s\n",
			 row->base == CFI_RSP   ? "rsp"
			 : row->base == CFI_RBP ? "rbp"
						: "?",
			 (int)row->offset, value_text(&row->return_address, rip),
			 value_text(&row->rbp, rbp));
	else
		snprintf(result.text + used, size, "%s\n", kinds[row->kind]);
	return ++result.rows == result.fail_at ? -E2BIG : 0;
}

static int64_t read_all(const struct function *list, size_t count)
{
	const struct go_frames frames = {.code = code_at, .row = take_row, .arg = &result};
	struct go_runtime runtime;
	int64_t read;

	functions = list;
	function_count = count;
	result.rows = 0;
	*result.text = '\0';
	read = go_frames_read(NULL, &frames, &runtime);
	free(result.code);
	result.code = NULL;
	return read;
}

static void expect(const struct function *function, const char *rows)
{
	assert_int_equal(read_all(function, 1), 1);
	assert_string_equal(result.text, rows);
}

#define CODE(text) .code = (text), .code_size = sizeof(text) - 1

#define PUSH "\x55\x48\x89\xe5" /* push %rbp; mov %rsp,%rbp */
#define SUB "\x48\x83\xec\x20" /* sub $0x20,%rsp */
#define SAVE "\x48\x89\x6c\x24\x18" /* mov %rbp,0x18(%rsp) */
#define SET "\x48\x8d\x6c\x24\x18" /* lea 0x18(%rsp),%rbp */
#define SUB_WIDE "\x48\x81\xec\x00\x01\x00\x00" /* sub $0x100,%rsp */
#define SAVE_WIDE "\x48\x89\xac\x24\xf8\x00\x00\x00"
#define SET_WIDE "\x48\x8d\xac\x24\xf8\x00\x00\x00"

static void function_without_frame(void **state)
{
	const struct function function = {"main.f", 0x20, .parts = {{0, 0}, {0x20, -1}},
					  CODE("\x90\xc3")};

	(void)state;
	expect(&function, "1000-1020 rsp+8 -8 -\n");
}

/* Go 1.21 and later. */
static void pushed_frame_pointer(void **state)
{
	struct function function = {
		"main.f", 0x30,
		.parts = {{0, 0}, {1, 8}, {8, 0x20}, {0x20, 8}, {0x21, 0}, {0x30, -1}}, CODE(PUSH)};
	const char *without = "1000-1001 rsp+8 -8 -\n"
			      "1001-1008 rsp+16 -8 -\n"
			      "1008-1020 rsp+40 -8 -\n"
			      "1020-1021 rsp+16 -8 -\n"
			      "1021-1030 rsp+8 -8 -\n";

	(void)state;
	expect(&function, "1000-1001 rsp+8 -8 -\n"
			  "1001-1008 rsp+16 -8 -16\n"
			  "1008-1020 rsp+40 -8 -16\n"
			  "1020-1021 rsp+16 -8 -16\n"
			  "1021-1030 rsp+8 -8 -\n");
	/* Other instructions, or the code ends. */
	function.code = "\x54\x48\x89\xe5";
	expect(&function, without);
	function.code = "\x55\x48\x89\xe6";
	expect(&function, without);
	function.code = PUSH;
	function.code_size = 3;
	expect(&function, without);
	function.code_size = 0;
	expect(&function, without);
	/* Another register is pushed before. */
	function.code = PUSH;
	function.code_size = 4;
	function.parts[1].size = 16;
	expect(&function, "1000-1001 rsp+8 -8 -\n"
			  "1001-1008 rsp+24 -8 -\n"
			  "1008-1020 rsp+40 -8 -\n"
			  "1020-1021 rsp+16 -8 -\n"
			  "1021-1030 rsp+8 -8 -\n");
}

/* The prologue of before, where it is not at the start: a check of the stack comes first. */
static void stored_frame_pointer(void **state)
{
	struct function function = {
		"main.f", 0x30, .parts = {{0, 0}, {8, 0x20}, {0x28, 0}, {0x29, 0x20}, {0x30, -1}},
		CODE("\x90\x90\x90\x90" SUB SAVE SET)};
	const char *without = "1000-1008 rsp+8 -8 -\n"
			      "1008-1028 rsp+40 -8 -\n"
			      "1028-1029 rsp+8 -8 -\n"
			      "1029-1030 rsp+40 -8 -\n";
	static const struct {
		size_t at; /* in the code */
		unsigned char value;
	} changes[] = {{8, 0x49},  {9, 0x8b},  {10, 0x6d}, {10, 0xac}, {11, 0x25}, {12, 0x10},
		       {13, 0x4c}, {14, 0x89}, {15, 0x5c}, {16, 0x26}, {17, 0x20}};
	char code[18];

	(void)state;
	expect(&function, "1000-1008 rsp+8 -8 -\n"
			  "1008-100d rsp+40 -8 -\n"
			  "100d-1028 rsp+40 -8 -16\n"
			  "1028-1029 rsp+8 -8 -\n"
			  "1029-1030 rsp+40 -8 -16\n");
	/* Other instructions, and code that ends too early. */
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		memcpy(code, function.code, sizeof(code));
		code[changes[i].at] = (char)changes[i].value;
		function.code = code;
		expect(&function, without);
		function.code = "\x90\x90\x90\x90" SUB SAVE SET;
	}
	for (function.code_size = 8; function.code_size < 18; function.code_size++)
		expect(&function, without);
	/* Not where the frame has grown before. */
	function.parts[0].size = 8;
	expect(&function, "1000-1008 rsp+16 -8 -\n"
			  "1008-1028 rsp+40 -8 -\n"
			  "1028-1029 rsp+8 -8 -\n"
			  "1029-1030 rsp+40 -8 -\n");
}

static void large_frames(void **state)
{
	struct function function = {"main.f", 0x30, .parts = {{0, 0}, {7, 0x100}, {0x30, -1}},
				    CODE(SUB_WIDE SAVE_WIDE SET_WIDE)};

	(void)state;
	expect(&function, "1000-1007 rsp+8 -8 -\n"
			  "1007-100f rsp+264 -8 -\n"
			  "100f-1030 rsp+264 -8 -16\n");
	for (function.code_size = 7; function.code_size < 23; function.code_size++)
		expect(&function, "1000-1007 rsp+8 -8 -\n"
				  "1007-1030 rsp+264 -8 -\n");
	function.code_size = 23;
	function.parts[1].size = 0x1000;
	expect(&function, "1000-1007 rsp+8 -8 -\n"
			  "1007-1030 rsp+4104 -8 -\n");
}

/* The code before a function is not its prologue. */
static void frame_at_the_start_of_a_function(void **state)
{
	struct function function = {"main.f", 0x10, .parts = {{0, 8}, {0x10, -1}}, CODE(PUSH)};

	(void)state;
	expect(&function, "1000-1010 rsp+16 -8 -\n");
}

/* Functions that switch stacks are unwound by the frame pointer. */
static void switched_stacks(void **state)
{
	struct function pushes = {"runtime.nanotime1", 0x20, .changes_stack = true,
				  .parts = {{0, 0}, {1, 8}, {0x1f, 0}, {0x20, -1}}, CODE(PUSH)};
	struct function stores = {"runtime.nanotime1", 0x20, .changes_stack = true,
				  .parts = {{0, 0}, {4, 0x20}, {0x1f, 0}, {0x20, -1}},
				  CODE(SUB SAVE SET)};

	(void)state;
	expect(&pushes, "1000-1001 rsp+8 -8 -\n"
			"1001-1004 rsp+16 -8 -16\n"
			"1004-101f rbp+16 -8 -16\n"
			"101f-1020 rsp+8 -8 -\n");
	expect(&stores, "1000-1004 rsp+8 -8 -\n"
			"1004-1009 rsp+40 -8 -\n"
			"1009-100e rsp+40 -8 -16\n"
			"100e-101f rbp+16 -8 -16\n"
			"101f-1020 rsp+8 -8 -\n");
	pushes.code_size = 0;
	expect(&pushes, "1000-1001 rsp+8 -8 -\n"
			"1001-101f unsupported\n"
			"101f-1020 unsupported\n");
}

static void functions_that_are_no_calls(void **state)
{
	static const struct {
		const char *name;
		bool is_outermost;
		const char *rows;
	} cases[] = {
		{"runtime.sigreturn", false, "1000-1010 signal\n"},
		{"runtime.sigreturn.abi0", false, "1000-1010 signal\n"},
		{"runtime.sigreturn__sigaction", true, "1000-1010 signal\n"},
		{"runtime.sigreturn__sigaction.abi0", false, "1000-1010 signal\n"},
		{"runtime.mcall", false, "1000-1010 unsupported\n"},
		{"runtime.mcall.abi0", false, "1000-1010 unsupported\n"},
		{"runtime.goexit", true, "1000-1010 end\n"},
		{"runtime.goexit", false, "1000-1010 rsp+8 -8 -\n"},
		{"runtime.sigtramp", true, "1000-1010 rsp+8 -8 -\n"},
		{"runtime.sigtramp.abi0", true, "1000-1010 rsp+8 -8 -\n"},
		{"runtime.mcallx", false, "1000-1010 rsp+8 -8 -\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct function function = {cases[i].name, 0x10,
						  .is_outermost = cases[i].is_outermost,
						  .parts = {{0, 0}, {0x10, -1}}};

		expect(&function, cases[i].rows);
	}
}

/* The last row holds up to the end of the function. */
static void padding_has_the_last_row(void **state)
{
	const struct function function = {"main.f", 0x20, .parts = {{0, 0}, {1, 8}, {0x18, -1}},
					  CODE(PUSH)};
	const struct function empty = {"main.f", 0x20, .parts = {{0, -1}}};

	(void)state;
	expect(&function, "1000-1001 rsp+8 -8 -\n"
			  "1001-1018 rsp+16 -8 -16\n"
			  "1018-1020 rsp+16 -8 -16\n");
	expect(&empty, "");
}

/* Each function is on its own, and an error ends the reading. */
static void several_functions(void **state)
{
	const struct function list[] = {
		{"main.f", 0x10, .parts = {{0, 0}, {1, 8}, {0x10, -1}}, CODE(PUSH)},
		{"main.g", 0x10, .parts = {{0, 0}, {1, 8}, {0x10, -1}}, CODE("\x90\x90\x90\x90")},
		{"main.h", 0x10, .parts = {{0, 0}, {1, 8}, {0x10, -1}}, CODE(PUSH)},
	};
	const unsigned int rows = 6;

	(void)state;
	assert_int_equal(read_all(list, 3), 3);
	assert_string_equal(result.text, "1000-1001 rsp+8 -8 -\n"
					 "1001-1010 rsp+16 -8 -16\n"
					 "2000-2001 rsp+8 -8 -\n"
					 "2001-2010 rsp+16 -8 -\n"
					 "3000-3001 rsp+8 -8 -\n"
					 "3001-3010 rsp+16 -8 -16\n");
	for (result.fail_at = 1; result.fail_at <= rows; result.fail_at++) {
		assert_int_equal(read_all(list, 3), -E2BIG);
		assert_int_equal(result.rows, result.fail_at);
	}
	result.fail_at = 0;
	assert_int_equal(read_all(list, 0), 0);
}

static void errors_of_switched_stacks(void **state)
{
	const struct function function = {"runtime.nanotime1", 0x20, .changes_stack = true,
					  .parts = {{0, 0}, {4, 0x20}, {0x1f, -1}},
					  CODE(SUB SAVE SET)};

	(void)state;
	assert_int_equal(read_all(&function, 1), 1);
	assert_int_equal(result.rows, 5);
	for (result.fail_at = 1; result.fail_at <= 5; result.fail_at++) {
		assert_int_equal(read_all(&function, 1), -E2BIG);
		assert_int_equal(result.rows, result.fail_at);
	}
	result.fail_at = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(function_without_frame),
		cmocka_unit_test(pushed_frame_pointer),
		cmocka_unit_test(stored_frame_pointer),
		cmocka_unit_test(large_frames),
		cmocka_unit_test(frame_at_the_start_of_a_function),
		cmocka_unit_test(switched_stacks),
		cmocka_unit_test(functions_that_are_no_calls),
		cmocka_unit_test(padding_has_the_last_row),
		cmocka_unit_test(several_functions),
		cmocka_unit_test(errors_of_switched_stacks),
	};

	return cmocka_run_group_tests_name("go_frames", tests, NULL, NULL);
}
