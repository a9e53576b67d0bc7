// SPDX-License-Identifier: GPL-2.0
/* Lists of .debug_ranges. test_dwarf_lookup.c has those that compilers write. */
#include "debuginfo/dwarf_range.h"

#include <dwarf.h>
#include <string.h>

#include "unit.h"

#define LOW_PC 0x1000u

static unsigned char bytes[256];
static size_t size;

/* Adds a pair of addresses of a size to the list. */
static void put_pair(uint8_t address_size, uint64_t first, uint64_t second)
{
	memcpy(bytes + size, &first, address_size);
	memcpy(bytes + size + address_size, &second, address_size);
	size += 2u * address_size;
}

/* A list whose base changes twice. */
static void check_base_selection(uint8_t address_size, uint64_t highest)
{
	static const uint64_t expected[][2] = {
		{LOW_PC + 0x10, LOW_PC + 0x20}, {0x500010, 0x500011}, {0x600000, 0x600008}};
	struct dwarf dwarf = {0};
	const struct dwarf_unit unit = {
		.dwarf = &dwarf,
		.layout = {.version = 4, .address_size = address_size, .offset_size = 4},
		.low_pc = LOW_PC,
		.ranges = {.form = DW_FORM_sec_offset},
	};
	struct dwarf_ranges ranges;
	uint64_t start, end;

	size = 0;
	put_pair(address_size, 0x10, 0x20);
	put_pair(address_size, highest, 0x500000);
	put_pair(address_size, 0x10, 0x11);
	put_pair(address_size, highest, 0x600000);
	put_pair(address_size, 0, 8);
	put_pair(address_size, 0, 0);
	dwarf.sections[SECTION_RANGES] = (struct dwarf_bytes){bytes, size};
	ranges = dwarf_ranges_of_unit(&unit);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		assert_true(dwarf_ranges_next(&ranges, &start, &end));
		assert_int_equal(start, expected[i][0]);
		assert_int_equal(end, expected[i][1]);
	}
	assert_false(dwarf_ranges_next(&ranges, &start, &end));
}

static void highest_address_selects_the_base(void **state)
{
	(void)state;
	check_base_selection(8, UINT64_MAX);
	check_base_selection(4, UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(highest_address_selects_the_base),
	};

	return cmocka_run_group_tests_name("dwarf_range", tests, NULL, NULL);
}
