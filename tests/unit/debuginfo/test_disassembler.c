// SPDX-License-Identifier: GPL-2.0
/* Code as text: syntaxes, and instructions that the library does not know. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debuginfo/disassembler.h"
#include "lib/error.h"

#define ADDRESS 0x1000u
#define STOP 7

static char text[1024];
static uint64_t expected;

/* Appends "SIZE TEXT\n"; each instruction follows the one before. */
static int append(void *arg, struct instruction *instruction)
{
	size_t used = strlen(text);

	(void)arg;
	assert_int_equal(instruction->address, expected);
	expected += instruction->size;
	snprintf(text + used, sizeof(text) - used, "%u %s\n", instruction->size, instruction->text);
	return strstr(instruction->text, "ret") ? STOP : 0;
}

static int run_syntax(const uint8_t *code, size_t size, enum disassembler_syntax syntax)
{
	*text = '\0';
	expected = ADDRESS;
	return disassemble(code, size, ADDRESS, syntax, append, NULL);
}

static void library_is_loaded_first(void **state)
{
	const uint8_t code[] = {0x90};
	struct error error;

	(void)state;
	assert_int_equal(run_syntax(code, sizeof(code), SYNTAX_ATT), -EOPNOTSUPP);
	assert_string_equal(text, "");
	assert_int_equal(disassembler_load(&error), 0);
	assert_int_equal(run_syntax(code, sizeof(code), SYNTAX_ATT), 0);
	assert_string_equal(text, "1 nop\n");
}

static void syntax_is_of_att_or_intel(void **state)
{
	const uint8_t code[] = {0x48, 0x89, 0xe5, 0xe8, 0xf8, 0x00, 0x00, 0x00};

	(void)state;
	assert_int_equal(run_syntax(code, sizeof(code), SYNTAX_ATT), 0);
	assert_string_equal(text, "3 movq   %rsp, %rbp\n5 callq  0x1100\n");
	assert_int_equal(run_syntax(code, sizeof(code), SYNTAX_INTEL), 0);
	assert_string_equal(text, "3 mov    rbp, rsp\n5 call   0x1100\n");
}

static void callback_ends_the_code(void **state)
{
	const uint8_t code[] = {0x90, 0xc3, 0x90};

	(void)state;
	assert_int_equal(run_syntax(code, sizeof(code), SYNTAX_INTEL), STOP);
	assert_string_equal(text, "1 nop\n1 ret\n");
}

/*
 * No processor has these opcodes: each is followed by a nop, which shows that its length is right.
 */
static void unknown_vector_instructions_have_their_length(void **state)
{
	static const struct {
		uint8_t code[INSTRUCTION_BYTES_MAX];
		size_t size;
	} cases[] = {
		{{0xc5, 0xf8, 0x04, 0xc0}, 4}, /* registers */
		{{0xc5, 0xf8, 0x04, 0x40, 1}, 5}, /* 8 bits of displacement */
		{{0xc5, 0xf8, 0x04, 0x80, 1, 2, 3, 4}, 8}, /* 32 bits */
		{{0xc5, 0xf8, 0x04, 0x05, 1, 2, 3, 4}, 8}, /* relative to rip */
		{{0xc5, 0xf8, 0x04, 0x04, 0x08}, 5}, /* SIB */
		{{0xc5, 0xf8, 0x04, 0x04, 0x05, 1, 2, 3, 4}, 9}, /* SIB without a base */
		{{0xc5, 0xf8, 0x04, 0x44, 0x05, 1}, 6},
		{{0xc4, 0xe1, 0x78, 0x04, 0xc0}, 5},
		{{0xc4, 0xe3, 0x79, 0xfe, 0xc0, 9}, 6}, /* with a byte of data */
		{{0x62, 0xf1, 0x7c, 0x48, 0x04, 0xc0}, 6},
		{{0x62, 0xf3, 0x7d, 0x48, 0xfe, 0x40, 1, 9}, 8},
		{{0x0f, 0x01, 0xff}, 3},
		{{0x06}, 1}, /* not of 64 bits */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t code[INSTRUCTION_BYTES_MAX + 1];
		char wanted[128];
		int used = snprintf(wanted, sizeof(wanted), "%zu .byte", cases[i].size);

		memcpy(code, cases[i].code, cases[i].size);
		code[cases[i].size] = 0x90;
		for (size_t j = 0; j < cases[i].size; j++)
			used += snprintf(wanted + used, sizeof(wanted) - (size_t)used, "%s 0x%02x",
					 j ? "," : "", code[j]);
		snprintf(wanted + used, sizeof(wanted) - (size_t)used, "\n1 nop\n");
		assert_int_equal(run_syntax(code, cases[i].size + 1, SYNTAX_ATT), 0);
		assert_string_equal(text, wanted);
	}
}

static void incomplete_instructions_are_bytes(void **state)
{
	const uint8_t code[] = {0x62, 0xf1, 0x7c, 0x48, 0x04, 0x80, 1, 2, 3};

	(void)state;
	for (size_t size = 1; size <= sizeof(code); size++) {
		/* A copy of this size, for the sanitizer. */
		uint8_t *copy = malloc(size);

		memcpy(copy, code, size);
		assert_int_equal(run_syntax(copy, size, SYNTAX_ATT), 0);
		assert_int_equal(strncmp(text, "1 .byte 0x62\n", 13), 0);
		assert_int_equal(expected, ADDRESS + size);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(library_is_loaded_first),
		cmocka_unit_test(syntax_is_of_att_or_intel),
		cmocka_unit_test(callback_ends_the_code),
		cmocka_unit_test(unknown_vector_instructions_have_their_length),
		cmocka_unit_test(incomplete_instructions_are_bytes),
	};

	return cmocka_run_group_tests_name("disassembler", tests, NULL, NULL);
}
