// SPDX-License-Identifier: GPL-2.0
/* Values of each form, references, and tables of abbreviations. */
#include "debuginfo/dwarf_unit.h"

#include <dwarf.h>
#include <string.h>

#include "unit.h"

static const struct dwarf_layout layout32 = {.version = 5, .address_size = 8, .offset_size = 4};
static const struct dwarf_layout layout64 = {.version = 5, .address_size = 4, .offset_size = 8};

struct form {
	uint64_t form;
	const char *bytes;
	size_t size;
	uint64_t number;
	struct dwarf_layout layout;
};

#define BYTES "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"

/* Each value takes all of its bytes, and is broken without the last one. */
static void test_forms(void **state)
{
	static const struct dwarf_layout version2 = {2, 8, 4}, version3 = {3, 8, 4};
	const struct form forms[] = {
		{DW_FORM_flag_present, "", 0, 0, layout32},
		{DW_FORM_data1, BYTES, 1, 1, layout32},
		{DW_FORM_flag, BYTES, 1, 1, layout32},
		{DW_FORM_ref1, BYTES, 1, 1, layout32},
		{DW_FORM_strx1, BYTES, 1, 1, layout32},
		{DW_FORM_addrx1, BYTES, 1, 1, layout32},
		{DW_FORM_data2, BYTES, 2, 0x0201, layout32},
		{DW_FORM_strx3, BYTES, 3, 0x030201, layout32},
		{DW_FORM_addrx3, BYTES, 3, 0x030201, layout32},
		{DW_FORM_data4, BYTES, 4, 0x04030201, layout32},
		{DW_FORM_ref_sup4, BYTES, 4, 0x04030201, layout64},
		{DW_FORM_data8, BYTES, 8, 0x0807060504030201, layout32},
		{DW_FORM_ref_sig8, BYTES, 8, 0x0807060504030201, layout32},
		{DW_FORM_data16, BYTES, 16, 0, layout32},
		{DW_FORM_addr, BYTES, 8, 0x0807060504030201, layout32},
		{DW_FORM_addr, BYTES, 4, 0x04030201, layout64},
		{DW_FORM_ref_addr, BYTES, 8, 0x0807060504030201, version2},
		{DW_FORM_ref_addr, BYTES, 4, 0x04030201, version3},
		{DW_FORM_ref_addr, BYTES, 8, 0x0807060504030201, layout64},
		{DW_FORM_strp, BYTES, 4, 0x04030201, layout32},
		{DW_FORM_strp, BYTES, 8, 0x0807060504030201, layout64},
		{DW_FORM_GNU_strp_alt, BYTES, 8, 0x0807060504030201, layout64},
		{DW_FORM_udata, "\x80\x7f", 2, 0x3f80, layout32},
		{DW_FORM_ref_udata, "\x05", 1, 5, layout32},
		{DW_FORM_strx, "\x80\x01", 2, 0x80, layout32},
		{DW_FORM_rnglistx, "\x06", 1, 6, layout32},
		{DW_FORM_GNU_addr_index, "\x07", 1, 7, layout32},
		{DW_FORM_sdata, "\x80\x7f", 2, (uint64_t)-128, layout32},
		{DW_FORM_block, "\x02xy", 3, 0, layout32},
		{DW_FORM_exprloc, "\x02xy", 3, 0, layout32},
		{DW_FORM_block1, "\x02xy", 3, 0, layout32},
		{DW_FORM_block2, "\x02\x00xy", 4, 0, layout32},
		{DW_FORM_block4, "\x02\x00\x00\x00xy", 6, 0, layout32},
		{DW_FORM_indirect, "\x0b\x05", 2, 5, layout32},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const struct form *form = &forms[i];
		struct cursor cursor = cursor_at(form->bytes, form->size + 1, 0);
		struct dwarf_value value;

		assert_true(dwarf_value_read(&cursor, form->form, form->layout, &value));
		assert_int_equal(cursor_left(&cursor), 1);
		assert_int_equal(value.number, form->number);
		assert_int_equal(value.form,
				 form->form == DW_FORM_indirect ? DW_FORM_data1 : form->form);
		if (form->size == 0)
			continue;
		cursor = cursor_at(form->bytes, form->size - 1, 0);
		assert_false(dwarf_value_read(&cursor, form->form, form->layout, &value));
	}
}

static void test_broken_forms(void **state)
{
	static const unsigned char nested[] = {DW_FORM_indirect, DW_FORM_data1, 5},
				   constant[] = {DW_FORM_implicit_const, 5};
	struct cursor cursor = cursor_at(nested, sizeof(nested), 0);
	struct dwarf_value value;

	(void)state;
	assert_false(dwarf_value_read(&cursor, DW_FORM_indirect, layout32, &value));
	cursor = cursor_at(constant, sizeof(constant), 0);
	assert_false(dwarf_value_read(&cursor, DW_FORM_indirect, layout32, &value));
	cursor = cursor_at(BYTES, 16, 0);
	assert_false(dwarf_value_read(&cursor, 0x7777, layout32, &value));
	cursor = cursor_at("name", 5, 0);
	assert_true(dwarf_value_read(&cursor, DW_FORM_string, layout32, &value));
	assert_string_equal(value.string, "name");
	cursor = cursor_at("name", 4, 0);
	assert_false(dwarf_value_read(&cursor, DW_FORM_string, layout32, &value));
}

static void test_numbers(void **state)
{
	(void)state;
	assert_int_equal(dwarf_number(&(struct dwarf_value){.number = UINT32_MAX}), UINT32_MAX);
	assert_int_equal(dwarf_number(&(struct dwarf_value){.number = UINT32_MAX + 1ull}), 0);
	assert_int_equal(dwarf_number(&(struct dwarf_value){.number = 0}), 0);
}

#define SECTION(bytes)                                                                             \
	{                                                                                          \
		(const unsigned char *)(bytes), sizeof(bytes) - 1                                  \
	}

static void test_strings(void **state)
{
	struct dwarf alt = {.sections[SECTION_STR] = SECTION("xx\0alt\0")};
	struct dwarf dwarf = {
		.sections[SECTION_STR] = SECTION("first\0second\0"),
		.sections[SECTION_LINE_STR] = SECTION("line\0"),
		.sections[SECTION_STR_OFFSETS] =
			SECTION("head\x00\x00\x00\x00\x06\x00\x00\x00\x0d"),
	};
	struct dwarf_unit unit = {.dwarf = &dwarf, .layout = layout32, .str_offsets_base = 4};
	struct dwarf_value value = {.form = DW_FORM_strp, .number = 6};

	(void)state;
	assert_string_equal(dwarf_string(&unit, &value), "second");
	value.number = 12;
	assert_string_equal(dwarf_string(&unit, &value), "");
	value.number = 13;
	assert_null(dwarf_string(&unit, &value));
	value = (struct dwarf_value){.form = DW_FORM_line_strp};
	assert_string_equal(dwarf_string(&unit, &value), "line");
	value = (struct dwarf_value){.form = DW_FORM_string, .string = "own"};
	assert_string_equal(dwarf_string(&unit, &value), "own");
	value = (struct dwarf_value){.form = DW_FORM_strx2, .number = 0};
	assert_string_equal(dwarf_string(&unit, &value), "first");
	value.number = 1;
	assert_string_equal(dwarf_string(&unit, &value), "second");
	/* Beyond the table, and too large to multiply. */
	value.number = 2;
	assert_null(dwarf_string(&unit, &value));
	value.number = UINT64_MAX / 2;
	assert_null(dwarf_string(&unit, &value));
	value.number = UINT64_MAX / 4;
	assert_null(dwarf_string(&unit, &value));
	value = (struct dwarf_value){.form = DW_FORM_GNU_strp_alt, .number = 3};
	assert_null(dwarf_string(&unit, &value));
	dwarf.alt = &alt;
	assert_string_equal(dwarf_string(&unit, &value), "alt");
	value.form = DW_FORM_data1;
	assert_null(dwarf_string(&unit, &value));
}

static void test_addresses(void **state)
{
	struct dwarf dwarf = {.sections[SECTION_ADDR] = SECTION(BYTES BYTES)};
	struct dwarf_unit unit = {.dwarf = &dwarf, .layout = layout32, .addr_base = 8};
	struct dwarf_value value = {.form = DW_FORM_addr, .number = 77};
	uint64_t address = 0;

	(void)state;
	assert_true(dwarf_address(&unit, &value, &address));
	assert_int_equal(address, 77);
	value = (struct dwarf_value){.form = DW_FORM_addrx, .number = 1};
	assert_true(dwarf_address(&unit, &value, &address));
	assert_int_equal(address, 0x0807060504030201);
	value.number = 2;
	assert_true(dwarf_address(&unit, &value, &address));
	assert_int_equal(address, 0x100f0e0d0c0b0a09);
	value.number = 3;
	assert_false(dwarf_address(&unit, &value, &address));
	value = (struct dwarf_value){.form = DW_FORM_data8, .number = 1};
	assert_false(dwarf_address(&unit, &value, &address));
}

static void test_references(void **state)
{
	struct dwarf_unit units[] = {{.offset = 10, .end = 30}, {.offset = 30, .end = 50}};
	struct dwarf_unit shared[] = {{.offset = 5, .end = 9}};
	struct dwarf alt = {.units = shared, .unit_count = 1};
	struct dwarf dwarf = {.units = units, .unit_count = 2};
	struct dwarf_value value = {.form = DW_FORM_ref4, .number = 19};
	uint64_t offset = 0;

	(void)state;
	units[0].dwarf = units[1].dwarf = &dwarf;
	assert_null(dwarf_unit_at(&dwarf, 9));
	assert_ptr_equal(dwarf_unit_at(&dwarf, 10), &units[0]);
	assert_ptr_equal(dwarf_unit_at(&dwarf, 29), &units[0]);
	assert_ptr_equal(dwarf_unit_at(&dwarf, 30), &units[1]);
	assert_ptr_equal(dwarf_unit_at(&dwarf, 49), &units[1]);
	assert_null(dwarf_unit_at(&dwarf, 50));
	assert_ptr_equal(dwarf_reference(&units[0], &value, &offset), &units[0]);
	assert_int_equal(offset, 29);
	value.number = 20;
	assert_null(dwarf_reference(&units[0], &value, &offset));
	value.form = DW_FORM_ref_addr;
	value.number = 31;
	assert_ptr_equal(dwarf_reference(&units[0], &value, &offset), &units[1]);
	assert_int_equal(offset, 31);
	value.form = DW_FORM_GNU_ref_alt;
	value.number = 6;
	assert_null(dwarf_reference(&units[0], &value, &offset));
	dwarf.alt = &alt;
	assert_ptr_equal(dwarf_reference(&units[0], &value, &offset), &shared[0]);
	assert_int_equal(offset, 6);
	value.form = DW_FORM_data4;
	assert_null(dwarf_reference(&units[0], &value, &offset));
}

static void test_cursors_end_with_their_unit(void **state)
{
	struct dwarf dwarf = {.sections[SECTION_INFO] = SECTION(BYTES BYTES)};
	struct dwarf_unit unit = {.dwarf = &dwarf, .offset = 4, .entries = 10, .end = 20};
	struct cursor cursor;

	(void)state;
	for (uint64_t offset = 0; offset < 40; offset++) {
		bool inside = offset >= 10 && offset <= 20;

		cursor = dwarf_cursor(&unit, offset);
		assert_int_equal(cursor.broken, !inside);
		assert_int_equal(cursor_left(&cursor), inside ? 20 - offset : 0);
	}
}

/* Abbreviations with these codes, each of a function with an attribute of one byte. */
static void read_abbrevs(struct dwarf_abbrevs *abbrevs, const char *codes, uint64_t only)
{
	unsigned char bytes[128];
	size_t at = 0;

	for (; *codes; codes++) {
		const unsigned char abbrev[] = {(unsigned char)*codes,
						DW_TAG_subprogram,
						DW_CHILDREN_yes,
						DW_AT_decl_line,
						DW_FORM_data1,
						0,
						0};

		memcpy(bytes + at, abbrev, sizeof(abbrev));
		at += sizeof(abbrev);
	}
	bytes[at++] = 0;
	*abbrevs = (struct dwarf_abbrevs){0};
	assert_int_equal(dwarf_abbrevs_read(abbrevs, cursor_at(bytes, at, 0), layout32, only), 0);
}

static void test_abbreviations_are_found_by_code(void **state)
{
	static const char *const tables[] = {"\1\2\3\4",   "\4\3\2\1",   "\2\1\3\4", "\1\2\4\3",
					     "\5\7\11\23", "\23\11\7\5", "\1\5\2",   "\7"};
	struct dwarf_abbrevs abbrevs;

	(void)state;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		read_abbrevs(&abbrevs, tables[i], 0);
		assert_int_equal(abbrevs.count, strlen(tables[i]));
		for (uint64_t code = 0; code < 30; code++) {
			const struct dwarf_abbrev *found = dwarf_abbrev(&abbrevs, code);
			bool listed = code && strchr(tables[i], (int)code);

			assert_int_equal(!!found, listed);
			if (!found)
				continue;
			assert_int_equal(found->code, code);
			assert_int_equal(found->kind, KIND_FUNCTION);
			assert_true(found->has_children);
			assert_int_equal(found->slots, SLOT_BIT(SLOT_DECL_LINE));
			assert_int_equal(found->size, 1);
		}
		dwarf_abbrevs_clear(&abbrevs);
	}
	read_abbrevs(&abbrevs, "\1\2\3\4", 3);
	assert_int_equal(abbrevs.count, 1);
	assert_non_null(dwarf_abbrev(&abbrevs, 3));
	assert_null(dwarf_abbrev(&abbrevs, 1));
	dwarf_abbrevs_clear(&abbrevs);
}

static void test_attributes_that_are_not_read_are_merged(void **state)
{
	static const unsigned char bytes[] = {
		1,
		DW_TAG_inlined_subroutine,
		DW_CHILDREN_no, /* */
		DW_AT_external,
		DW_FORM_flag,
		DW_AT_artificial,
		DW_FORM_data4, /* 5 bytes */
		DW_AT_sibling,
		DW_FORM_ref4, /* at 5 */
		DW_AT_call_line,
		DW_FORM_implicit_const,
		0x7f, /* -1 */
		DW_AT_external,
		DW_FORM_data2,
		DW_AT_artificial,
		DW_FORM_string,
		0,
		0,
		0,
	};
	struct dwarf_abbrevs abbrevs = {0};
	const struct dwarf_abbrev *abbrev;

	(void)state;
	assert_int_equal(
		dwarf_abbrevs_read(&abbrevs, cursor_at(bytes, sizeof(bytes), 0), layout32, 0), 0);
	abbrev = dwarf_abbrev(&abbrevs, 1);
	assert_non_null(abbrev);
	assert_int_equal(abbrev->kind, KIND_INLINED);
	assert_false(abbrev->has_children);
	assert_int_equal(abbrev->sibling, 5);
	assert_int_equal(abbrev->size, SIZE_VARIES);
	assert_int_equal(abbrev->count, 5);
	assert_int_equal(abbrevs.attributes[0].size, 5);
	assert_int_equal(abbrevs.attributes[1].slot, SLOT_SIBLING);
	assert_int_equal(abbrevs.attributes[2].constant, -1);
	assert_int_equal(abbrevs.attributes[3].size, 2);
	assert_int_equal(abbrevs.attributes[4].size, SIZE_VARIES);
	dwarf_abbrevs_clear(&abbrevs);
}

/* Forms are numbers of 16 bits: 0x1000b is not DW_FORM_data1. */
static void test_large_forms_are_unknown(void **state)
{
	static const unsigned char data[] = {
		1, DW_TAG_subprogram, DW_CHILDREN_no, DW_AT_decl_line, DW_FORM_data1, 0, 0, 0,
	};
	static const unsigned char large[] = {
		1, DW_TAG_subprogram, DW_CHILDREN_no, DW_AT_decl_line, 0x8b, 0x80, 4, 0, 0, 0,
	};
	struct dwarf dwarf = {.sections[SECTION_INFO] = SECTION("\x01" BYTES)};
	struct dwarf_unit unit = {.dwarf = &dwarf, .layout = layout32, .end = 17};
	struct dwarf_abbrevs abbrevs = {0};
	struct dwarf_entry entry;
	struct cursor cursor;

	(void)state;
	assert_int_equal(
		dwarf_abbrevs_read(&abbrevs, cursor_at(data, sizeof(data), 0), layout32, 0), 0);
	cursor = dwarf_cursor(&unit, 0);
	assert_true(dwarf_entry_read(&cursor, &unit, &abbrevs, SLOT_BIT(SLOT_DECL_LINE), &entry));
	assert_int_equal(dwarf_value(&entry, SLOT_DECL_LINE)->number, 1);
	dwarf_abbrevs_clear(&abbrevs);
	assert_int_equal(
		dwarf_abbrevs_read(&abbrevs, cursor_at(large, sizeof(large), 0), layout32, 0), 0);
	cursor = dwarf_cursor(&unit, 0);
	assert_false(dwarf_entry_read(&cursor, &unit, &abbrevs, SLOT_BIT(SLOT_DECL_LINE), &entry));
	dwarf_abbrevs_clear(&abbrevs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_broken_forms),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_cursors_end_with_their_unit),
		cmocka_unit_test(test_abbreviations_are_found_by_code),
		cmocka_unit_test(test_attributes_that_are_not_read_are_merged),
		cmocka_unit_test(test_large_forms_are_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
