// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/gone_modules.h"

#include "unit.h"

#include <string.h>

#define CODE UINT64_C(0xffffffffc0230000)

static char old_text[] = "ffffffffc0230000 t old_init\t[old]\n"
			 "ffffffffc0230100 T init_module\t[old]\n"
			 "ffffffffc0230180 A _end\t[old]\n";
static char new_text[] = "ffffffffc0230100 t new_init\t[new]\n"
			 "ffffffffc0230000 t new_first\t[new]\n"
			 "ffffffffc0230200 A _end\t[new]\n";
static char no_text[] = "not a line\n";

static struct gone_part part_of(uint64_t serial, uint64_t came, uint64_t gone, char *text)
{
	return (struct gone_part){
		.serial = serial,
		.came = came,
		.gone = gone,
		.start = CODE,
		.end = CODE + (text == new_text ? 0x200 : 0x180),
		.module = "a_module",
		.text = text,
		.size = strlen(text),
	};
}

static enum gone_answer find(const struct gone_part *parts, size_t count, uint64_t address,
			     uint64_t *serial)
{
	struct gone_modules *modules = gone_modules_new(parts, count);
	enum gone_answer answer;

	assert_non_null(modules);
	answer = gone_modules_find(modules, &address, serial);
	assert_true(address >= CODE);
	gone_modules_free(modules);
	return answer;
}

static void aliases_are_no_addresses(void **state)
{
	static const uint64_t addresses[] = {0,
					     0x401000,
					     UINT64_C(0x7fffffffffff),
					     UINT64_C(0xff11000000000000),
					     UINT64_C(0xffff888000000000),
					     UINT64_C(0xffffffff80000000),
					     UINT64_MAX};
	uint64_t serial, address;

	(void)state;
	for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++)
		assert_false(gone_from_alias(addresses[i], &serial, &address));
	assert_true(gone_from_alias(gone_alias(GONE_SERIAL_MAX - 1, CODE + 5), &serial, &address));
	assert_int_equal(serial, GONE_SERIAL_MAX - 1);
	assert_int_equal(address, CODE + 5);
	assert_true(
		gone_from_alias(gone_alias(0, UINT64_C(0xffffffff80000001)), &serial, &address));
	assert_int_equal(serial, 0);
	assert_int_equal(address, UINT64_C(0xffffffff80000001));
}

static void alias_belongs_to_its_part(void **state)
{
	struct gone_part parts[] = {part_of(3, 10, 20, old_text), part_of(4, 30, 0, new_text)};
	uint64_t serial = 0;

	(void)state;
	assert_int_equal(find(parts, 2, gone_alias(3, CODE), &serial), GONE_PART);
	assert_int_equal(serial, 3);
	assert_int_equal(find(parts, 2, gone_alias(4, CODE), &serial), GONE_LOADED);
	assert_int_equal(serial, 4);
	/* Init sections go any moment. */
	parts[1].is_init = true;
	assert_int_equal(find(parts, 2, gone_alias(4, CODE), &serial), GONE_PART);
	assert_int_equal(serial, 4);
	/* Generated code, between two modules. */
	assert_int_equal(find(parts, 2, gone_alias(0, CODE), &serial), GONE_NONE);
	/* Without memory for the parts. */
	assert_int_equal(find(parts, 2, gone_alias(5, CODE), &serial), GONE_UNKNOWN);
	assert_int_equal(find(NULL, 0, gone_alias(3, CODE), &serial), GONE_UNKNOWN);
}

/* Samples that were read while the module was loaded. */
static void address_belongs_to_a_module_from_before_the_recording(void **state)
{
	struct gone_part parts[] = {part_of(3, 0, 20, old_text), part_of(4, 30, 40, new_text)};
	uint64_t serial = 0, address = CODE + 0x17f;

	(void)state;
	assert_int_equal(find(parts, 2, address, &serial), GONE_PART);
	assert_int_equal(serial, 3);
	assert_int_equal(find(parts, 2, address + 1, &serial), GONE_NONE);
	/* Samples of a module that has come later have aliases. */
	parts[0].came = 10;
	assert_int_equal(find(parts, 2, address, &serial), GONE_NONE);
	parts[0].came = parts[1].came = 0;
	assert_int_equal(find(parts, 2, address, &serial), GONE_UNKNOWN);
	assert_int_equal(gone_modules_find(NULL, &address, &serial), GONE_NONE);
	assert_int_equal(address, CODE + 0x17f);
}

static void assert_function(struct gone_modules *modules, uint64_t serial, uint64_t address,
			    const char *wanted, uint64_t wanted_start)
{
	const char *name = NULL;
	uint64_t start = 0;

	assert_int_equal(gone_modules_function(modules, serial, address, &name, &start), !!wanted);
	if (!wanted)
		return;
	assert_string_equal(name, wanted);
	assert_int_equal(start, wanted_start);
}

static void functions_are_of_the_part(void **state)
{
	const struct gone_part parts[] = {part_of(3, 10, 20, old_text),
					  part_of(4, 30, 40, new_text),
					  part_of(5, 50, 60, no_text)};
	struct gone_modules *modules = gone_modules_new(parts, 3);

	(void)state;
	assert_non_null(modules);
	assert_function(modules, 3, CODE + 0x20, "old_init", CODE);
	assert_function(modules, 4, CODE + 0x20, "new_first", CODE);
	assert_function(modules, 3, CODE + 0x17f, "init_module", CODE + 0x100);
	assert_function(modules, 3, CODE + 0x180, NULL, 0);
	assert_function(modules, 4, CODE + 0x180, "new_init", CODE + 0x100);
	assert_function(modules, 3, CODE - 1, NULL, 0);
	assert_function(modules, 5, CODE, NULL, 0);
	assert_function(modules, 6, CODE, NULL, 0);
	assert_ptr_equal(gone_modules_part(modules, 4), &parts[1]);
	assert_null(gone_modules_part(modules, 6));
	gone_modules_free(modules);
	gone_modules_free(NULL);
	assert_function(NULL, 3, CODE, NULL, 0);
}

/* Longer than the last function of a module may be. */
static void generated_code_is_one_function(void **state)
{
	static char name[] = "bpf_prog_6deef7357e7b4530_a";
	const struct gone_part part = {
		.serial = 7,
		.came = 10,
		.start = CODE,
		.end = CODE + 0x20000,
		.is_generated = true,
		.module = "bpf",
		.text = name,
		.size = sizeof(name),
	};
	struct gone_modules *modules = gone_modules_new(&part, 1);
	uint64_t serial;

	(void)state;
	assert_non_null(modules);
	assert_function(modules, 7, CODE, name, CODE);
	assert_function(modules, 7, CODE + 0x1ffff, name, CODE);
	assert_function(modules, 7, CODE + 0x20000, NULL, 0);
	gone_modules_free(modules);
	/* Also while it is there: what has its address at the end can be another program. */
	assert_int_equal(find(&part, 1, gone_alias(7, CODE), &serial), GONE_PART);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aliases_are_no_addresses),
		cmocka_unit_test(alias_belongs_to_its_part),
		cmocka_unit_test(address_belongs_to_a_module_from_before_the_recording),
		cmocka_unit_test(functions_are_of_the_part),
		cmocka_unit_test(generated_code_is_one_function),
	};

	return cmocka_run_group_tests_name("gone_modules", tests, NULL, NULL);
}
