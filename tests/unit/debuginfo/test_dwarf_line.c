// SPDX-License-Identifier: GPL-2.0
/* Line tables that are written here, instruction by instruction. */
#include "debuginfo/dwarf_line.h"

#include <dwarf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "debuginfo/dwarf_unit.h"
#include "unit.h"

#define LINE_BASE (-5)
#define LINE_RANGE 14
#define OPCODE_BASE 14 /* one opcode is unknown, and has two operands */

/* The table, and the places of its lengths. */
static unsigned char bytes[16384];
static size_t size, header_at, offset_size;

/* Properties of the next table. */
static struct {
	unsigned int version, instruction_size, operations, line_range, opcode_base;
	bool is_64_bit;
	size_t header_excess, excess; /* of the lengths */
} table;

static void put(uint64_t value, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bytes[size++] = (unsigned char)(value >> (8 * i));
}

static void put_uleb128(uint64_t value)
{
	for (; value > 0x7f; value >>= 7)
		put(0x80 | (value & 0x7f), 1);
	put(value, 1);
}

static void put_sleb128(int64_t value)
{
	for (; value < -64 || value > 63; value >>= 7)
		put(0x80 | ((uint64_t)value & 0x7f), 1);
	put((uint64_t)value & 0x7f, 1);
}

static void put_string(const char *text)
{
	memcpy(bytes + size, text, strlen(text) + 1);
	size += strlen(text) + 1;
}

/* Begins a table, up to its names. */
static void begin(void)
{
	static const unsigned char lengths[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2};

	size = 0;
	offset_size = table.is_64_bit ? 8 : 4;
	if (table.is_64_bit)
		put(UINT32_MAX, 4);
	put(0, offset_size);
	put(table.version, 2);
	if (table.version >= 5) {
		put(8, 1);
		put(0, 1);
	}
	header_at = size;
	put(0, offset_size);
	put(table.instruction_size, 1);
	if (table.version >= 4)
		put(table.operations, 1);
	put(1, 1);
	put((uint8_t)LINE_BASE, 1);
	put(table.line_range, 1);
	put(table.opcode_base, 1);
	for (unsigned int i = 1; i < table.opcode_base; i++)
		put(i <= sizeof(lengths) ? lengths[i - 1] : 0, 1);
}

static void put_at(size_t at, uint64_t value)
{
	size_t end = size;

	size = at;
	put(value, offset_size);
	size = end;
}

static void end_header(void)
{
	put_at(header_at, size - header_at - offset_size + table.header_excess);
}

/* A table without names. */
static void begin_program(void)
{
	begin();
	put(0, 2);
	if (table.version >= 5)
		put(0, 2);
	end_header();
}

static void set_address(uint64_t address)
{
	put(0, 1);
	put_uleb128(9);
	put(DW_LNE_set_address, 1);
	put(address, 8);
}

static void advance_to(int64_t address, int64_t line)
{
	put(DW_LNS_advance_pc, 1);
	put_uleb128((uint64_t)address);
	put(DW_LNS_advance_line, 1);
	put_sleb128(line);
	put(DW_LNS_copy, 1);
}

static void end_sequence_after(uint64_t more)
{
	put(DW_LNS_advance_pc, 1);
	put_uleb128(more);
	put(0, 1);
	put_uleb128(1);
	put(DW_LNE_end_sequence, 1);
}

static struct dwarf_lines lines;
static const char *directory; /* of the unit */

static uint64_t want_all(void *arg, uint64_t address)
{
	(void)arg;
	return address;
}

static void read_wanted(dwarf_next_address_fn next_address, void *arg)
{
	static struct dwarf dwarf;
	static struct dwarf_unit unit;
	const size_t start = table.is_64_bit ? 4 : 0;

	put_at(start, size - start - offset_size + table.excess);
	dwarf = (struct dwarf){.sections[SECTION_LINE] = {bytes, size}};
	unit = (struct dwarf_unit){
		.dwarf = &dwarf,
		.layout = {.version = 4, .address_size = 8, .offset_size = 4},
		.stmt_list = {.form = DW_FORM_sec_offset},
		.directory = directory,
	};
	assert_int_equal(dwarf_lines_read(&lines, &unit, next_address, arg), 0);
}

static void read_all(void)
{
	read_wanted(want_all, NULL);
}

static void assert_row(size_t index, uint64_t address, uint32_t file, uint32_t line)
{
	assert_true(index < lines.row_count);
	assert_int_equal(lines.rows[index].address, address);
	assert_int_equal(lines.rows[index].file, file);
	assert_int_equal(lines.rows[index].line, line);
}

/* The line of an address; 0: none. */
static uint32_t line_at(uint64_t address)
{
	const struct dwarf_row *row = dwarf_lines_at(&lines, address);

	return row ? row->line : 0;
}

static void each_instruction_has_its_effect(void **state)
{
	(void)state;
	begin_program();
	set_address(0x1000);
	put(DW_LNS_copy, 1);
	advance_to(0x10, 9);
	/* The last row of an address counts. */
	put(DW_LNS_set_file, 1);
	put_uleb128(200);
	put(DW_LNS_advance_line, 1);
	put_sleb128(-3);
	put(DW_LNS_copy, 1);
	put(DW_LNS_const_add_pc, 1);
	put(DW_LNS_copy, 1);
	put(DW_LNS_fixed_advance_pc, 1);
	put(0x100, 2);
	put(DW_LNS_copy, 1);
	/* 3 bytes and 4 lines further. */
	put(OPCODE_BASE + (4 - LINE_BASE) + 3 * LINE_RANGE, 1);
	/* 2 lines back. */
	put(OPCODE_BASE + (-2 - LINE_BASE) + 1 * LINE_RANGE, 1);
	/* Without an effect on rows. */
	put(DW_LNS_negate_stmt, 1);
	put(DW_LNS_set_basic_block, 1);
	put(DW_LNS_set_prologue_end, 1);
	put(DW_LNS_set_epilogue_begin, 1);
	put(DW_LNS_set_column, 1);
	put_uleb128(300);
	put(DW_LNS_set_isa, 1);
	put_uleb128(1);
	put(13, 1); /* unknown */
	put_uleb128(1000);
	put_uleb128(1);
	put(0, 1); /* unknown, extended */
	put_uleb128(3);
	put(DW_LNE_lo_user, 1);
	put(0x0101, 2);
	advance_to(0x20, 5000);
	end_sequence_after(5);
	read_all();
	assert_int_equal(lines.row_count, 7);
	assert_row(0, 0x1000, 1, 1);
	assert_row(1, 0x1010, 200, 7);
	assert_row(2, 0x1010 + (255 - OPCODE_BASE) / LINE_RANGE, 200, 7);
	assert_row(3, 0x1121, 200, 7);
	assert_row(4, 0x1124, 200, 11);
	assert_row(5, 0x1125, 200, 9);
	assert_row(6, 0x1145, 200, 5009);
	assert_int_equal(lines.sequence_count, 1);
	assert_int_equal(lines.sequences[0].start, 0x1000);
	assert_int_equal(lines.sequences[0].end, 0x114a);
	assert_int_equal(line_at(0xfff), 0);
	assert_int_equal(line_at(0x1000), 1);
	assert_int_equal(line_at(0x100f), 1);
	assert_int_equal(line_at(0x1010), 7);
	assert_int_equal(line_at(0x1149), 5009);
	assert_int_equal(line_at(0x114a), 0);
	dwarf_lines_clear(&lines);
}

/* Two sequences, the second one below the first, with registers of their own. */
static void sequences_are_sorted(void **state)
{
	(void)state;
	begin_program();
	set_address(0x2000);
	advance_to(0, 19);
	put(DW_LNS_set_file, 1);
	put_uleb128(3);
	advance_to(8, 1);
	end_sequence_after(8);
	set_address(0x1000);
	advance_to(0, 4);
	end_sequence_after(0x10);
	read_all();
	assert_int_equal(lines.sequence_count, 2);
	assert_int_equal(lines.sequences[0].start, 0x1000);
	assert_int_equal(lines.sequences[1].start, 0x2000);
	assert_int_equal(line_at(0x1000), 5);
	assert_int_equal(dwarf_lines_at(&lines, 0x1000)->file, 1);
	assert_int_equal(line_at(0x1010), 0);
	assert_int_equal(line_at(0x1fff), 0);
	assert_int_equal(line_at(0x2007), 20);
	assert_int_equal(line_at(0x200f), 21);
	assert_int_equal(dwarf_lines_at(&lines, 0x2008)->file, 3);
	assert_int_equal(line_at(0x2010), 0);
	dwarf_lines_clear(&lines);
}

/* A sequence may be inside another one: up to 15 of them are passed. */
static void sequences_may_overlap(void **state)
{
	(void)state;
	for (unsigned int inner = 14; inner < 18; inner++) {
		begin_program();
		set_address(0x1000);
		advance_to(0, 6);
		end_sequence_after(0x1000);
		for (unsigned int i = 0; i < inner; i++) {
			set_address(0x1100 + 16 * i);
			advance_to(0, 8);
			end_sequence_after(4);
		}
		read_all();
		assert_int_equal(lines.sequence_count, inner + 1);
		assert_int_equal(line_at(0x10ff), 7);
		assert_int_equal(line_at(0x1100), 9);
		assert_int_equal(line_at(0x1104), 7);
		assert_int_equal(line_at(0x1800), inner < 16 ? 7 : 0);
		dwarf_lines_clear(&lines);
	}
}

static void sequences_without_code_are_left_out(void **state)
{
	(void)state;
	begin_program();
	/* Its end is its start. */
	set_address(0x1000);
	advance_to(0, 1);
	end_sequence_after(0);
	/* No row. */
	set_address(0x1100);
	end_sequence_after(4);
	/* Its addresses decrease. */
	set_address(0x1200);
	advance_to(0, 1);
	set_address(0x1180);
	advance_to(0, 1);
	end_sequence_after(4);
	set_address(0x1300);
	advance_to(0, 1);
	end_sequence_after(4);
	/* No end. */
	set_address(0x1400);
	advance_to(0, 1);
	advance_to(4, 1);
	read_all();
	assert_int_equal(lines.sequence_count, 1);
	assert_int_equal(lines.row_count, 1);
	assert_int_equal(line_at(0x1300), 2);
	assert_int_equal(line_at(0x1400), 0);
	dwarf_lines_clear(&lines);
	/* A table without any. */
	begin_program();
	read_all();
	assert_int_equal(lines.row_count, 0);
	assert_int_equal(line_at(0x1000), 0);
	dwarf_lines_clear(&lines);
}

static uint64_t want_some(void *arg, uint64_t address)
{
	for (const uint64_t *wanted = arg; *wanted; wanted++) {
		if (*wanted >= address)
			return *wanted;
	}
	return UINT64_MAX;
}

static void only_rows_with_wanted_addresses_are_kept(void **state)
{
	static uint64_t wanted[] = {0x1008, 0x1013, 0x1017, 0x1028, 0x1029, 0x3000, 0};

	(void)state;
	begin_program();
	set_address(0x1000);
	advance_to(0, 9);
	for (unsigned int i = 1; i < 6; i++)
		advance_to(8, 10);
	end_sequence_after(1);
	set_address(0x2000);
	advance_to(0, 1);
	end_sequence_after(8);
	read_wanted(want_some, wanted);
	assert_int_equal(lines.row_count, 3);
	assert_row(0, 0x1008, 1, 20);
	assert_row(1, 0x1010, 1, 30);
	assert_row(2, 0x1028, 1, 60);
	assert_int_equal(lines.sequence_count, 1);
	dwarf_lines_clear(&lines);
	/* Of the last row, if it is not the only one. */
	read_wanted(want_some, (uint64_t[]){0x2007, 0});
	assert_int_equal(lines.row_count, 1);
	assert_row(0, 0x2000, 1, 2);
	dwarf_lines_clear(&lines);
	/* Names only. */
	read_wanted(NULL, NULL);
	assert_int_equal(lines.row_count, 0);
	dwarf_lines_clear(&lines);
}

static void put_rows(void)
{
	set_address(0x1000);
	advance_to(0, 9);
	end_sequence_after(1);
}

static size_t rows_of_table(void)
{
	size_t count;

	begin_program();
	put_rows();
	read_all();
	count = lines.row_count;
	dwarf_lines_clear(&lines);
	return count;
}

static int reset(void **state)
{
	(void)state;
	memset(&table, 0, sizeof(table));
	memset(bytes, 0, sizeof(bytes));
	table.version = 4;
	table.instruction_size = table.operations = 1;
	table.line_range = LINE_RANGE;
	table.opcode_base = OPCODE_BASE;
	directory = "/src";
	return 0;
}

static void headers_of_each_version_are_read(void **state)
{
	for (unsigned int version = 0; version < 8; version++) {
		for (int is_64_bit = 0; is_64_bit < 2; is_64_bit++) {
			reset(state);
			table.version = version;
			table.is_64_bit = is_64_bit;
			assert_int_equal(rows_of_table(), version >= 2 && version <= 5);
		}
	}
	reset(state);
	table.excess = 1;
	assert_int_equal(rows_of_table(), 0);
	reset(state);
	table.header_excess = 1000;
	assert_int_equal(rows_of_table(), 0);
	reset(state);
	table.line_range = 0;
	assert_int_equal(rows_of_table(), 0);
	/* All opcodes are special, or almost all are standard. */
	reset(state);
	table.opcode_base = 0;
	assert_int_equal(rows_of_table(), 0);
	table.opcode_base = 255;
	assert_int_equal(rows_of_table(), 1);
	reset(state);
	table.opcode_base = 1;
	begin_program();
	put(1 + (7 - LINE_BASE) + 4 * LINE_RANGE, 1);
	put(1 + (0 - LINE_BASE) + 4 * LINE_RANGE, 1);
	put(0, 1);
	put_uleb128(1);
	put(DW_LNE_end_sequence, 1);
	read_all();
	assert_int_equal(lines.row_count, 1);
	assert_row(0, 4, 1, 8);
	dwarf_lines_clear(&lines);
}

static void instructions_may_have_a_size(void **state)
{
	(void)state;
	table.instruction_size = 4;
	begin_program();
	set_address(0x1000);
	advance_to(0, 1);
	advance_to(3, 1);
	put(OPCODE_BASE + (1 - LINE_BASE) + 2 * LINE_RANGE, 1);
	put(DW_LNS_fixed_advance_pc, 1);
	put(3, 2);
	put(DW_LNS_copy, 1);
	end_sequence_after(1);
	read_all();
	assert_int_equal(lines.row_count, 4);
	assert_row(1, 0x100c, 1, 3);
	assert_row(2, 0x1014, 1, 4);
	assert_row(3, 0x1017, 1, 4);
	assert_int_equal(lines.sequences[0].end, 0x101b);
	dwarf_lines_clear(&lines);

	/* Three operations in each. */
	table.operations = 3;
	begin_program();
	set_address(0x1000);
	advance_to(0, 1);
	advance_to(2, 1); /* 0x1000, 2 */
	advance_to(2, 1); /* 0x1004, 1 */
	advance_to(5, 1); /* 0x100c, 0 */
	advance_to(2, 1); /* 0x100c, 2 */
	put(DW_LNS_fixed_advance_pc, 1); /* 0x100d, 0 */
	put(1, 2);
	advance_to(1, 1);
	advance_to(2, 1); /* 0x1011, 0 */
	advance_to(1, 1);
	set_address(0x1020); /* and the first operation */
	advance_to(2, 1);
	end_sequence_after(1);
	read_all();
	assert_int_equal(lines.row_count, 6);
	assert_row(0, 0x1000, 1, 3);
	assert_row(1, 0x1004, 1, 4);
	assert_row(2, 0x100c, 1, 6);
	assert_row(3, 0x100d, 1, 7);
	assert_row(4, 0x1011, 1, 9);
	assert_row(5, 0x1020, 1, 10);
	assert_int_equal(lines.sequences[0].end, 0x1024);
	dwarf_lines_clear(&lines);
}

static void broken_instructions_end_the_table(void **state)
{
	(void)state;
	/* An instruction that ends behind the table. */
	begin_program();
	put_rows();
	put(0, 1);
	put_uleb128(100);
	put(DW_LNE_end_sequence, 1);
	read_all();
	assert_int_equal(lines.row_count, 1);
	dwarf_lines_clear(&lines);
	/* A file would change the numbers of others. */
	begin_program();
	put_rows();
	put(0, 1);
	put_uleb128(6);
	put(DW_LNE_define_file, 1);
	put_string("f");
	put(0, 3);
	put_rows();
	read_all();
	assert_int_equal(lines.row_count, 1);
	dwarf_lines_clear(&lines);
	/* Addresses of other sizes. */
	begin_program();
	put(0, 1);
	put_uleb128(5);
	put(DW_LNE_set_address, 1);
	put(0x4000, 4);
	put(0, 1);
	put_uleb128(11);
	put(DW_LNE_set_address, 1);
	put(0x5000, 8);
	put(0, 2);
	advance_to(0, 1);
	end_sequence_after(1);
	read_all();
	assert_row(0, 0x4000, 1, 2);
	dwarf_lines_clear(&lines);
}

static void large_numbers_are_bounded(void **state)
{
	static const uint64_t numbers[] = {UINT32_MAX, UINT32_MAX + UINT64_C(1)};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		begin_program();
		set_address(0x1000);
		put(DW_LNS_set_file, 1);
		put_uleb128(numbers[i]);
		advance_to(0, (int64_t)numbers[i] - 1);
		end_sequence_after(1);
		read_all();
		assert_row(0, 0x1000, UINT32_MAX, i ? 0 : UINT32_MAX);
		dwarf_lines_clear(&lines);
	}
}

static void assert_path(uint64_t file, const char *path)
{
	const char *found = dwarf_lines_path(&lines, file);

	if (path)
		assert_string_equal(found, path);
	else
		assert_null(found);
	/* It is made once. */
	assert_ptr_equal(dwarf_lines_path(&lines, file), found);
}

static void put_old_file(const char *name, unsigned int number)
{
	put_string(name);
	put_uleb128(number);
	put_uleb128(1000);
	put_uleb128(1000);
}

static void paths_of_old_tables(void **state)
{
	static char longest[PATH_MAX], too_long[PATH_MAX + 1], path[PATH_MAX + 16];

	(void)state;
	memset(longest, 'a', PATH_MAX - 1);
	memset(too_long, 'a', PATH_MAX);
	for (int has_directory = 1; has_directory >= 0; has_directory--) {
		directory = has_directory ? "/src" : NULL;
		begin();
		put_string("include");
		put_string("/abs");
		put(0, 1);
		put_old_file("a.c", 0);
		put_old_file("b.h", 1);
		put_old_file("c.h", 2);
		put_old_file("/x/d.c", 1);
		put_old_file("e.c", 3);
		put_old_file(longest, 0);
		put_old_file(too_long, 0);
		put(0, 1);
		end_header();
		put_rows();
		read_all();
		assert_int_equal(lines.row_count, 1);
		assert_int_equal(lines.directory_count, 3);
		assert_int_equal(lines.file_count, 8);
		assert_path(0, NULL);
		assert_path(1, has_directory ? "/src/a.c" : "a.c");
		assert_path(2, has_directory ? "/src/include/b.h" : "include/b.h");
		assert_path(3, "/abs/c.h");
		assert_path(4, "/x/d.c");
		assert_path(5, has_directory ? "/src/e.c" : "e.c");
		snprintf(path, sizeof(path), "%s%s", has_directory ? "/src/" : "", longest);
		assert_path(6, path);
		assert_path(7, NULL);
		assert_path(8, NULL);
		dwarf_lines_clear(&lines);
	}
}

static void paths_of_new_tables(void **state)
{
	(void)state;
	table.version = 5;
	begin();
	put(1, 1);
	put_uleb128(DW_LNCT_path);
	put_uleb128(DW_FORM_string);
	put_uleb128(3);
	put_string("/src");
	put_string("include");
	put_string("/abs");
	/* With contents that are not read. */
	put(3, 1);
	put_uleb128(DW_LNCT_path);
	put_uleb128(DW_FORM_string);
	put_uleb128(DW_LNCT_MD5);
	put_uleb128(DW_FORM_data16);
	put_uleb128(DW_LNCT_directory_index);
	put_uleb128(DW_FORM_udata);
	put_uleb128(3);
	for (unsigned int i = 0; i < 3; i++) {
		put_string((const char *[]){"a.c", "b.h", "c.h"}[i]);
		put(0x0101010101010101, 8);
		put(0x0101010101010101, 8);
		put_uleb128(i);
	}
	end_header();
	put_rows();
	read_all();
	assert_int_equal(lines.row_count, 1);
	assert_int_equal(lines.directory_count, 3);
	assert_int_equal(lines.file_count, 3);
	assert_path(0, "/src/a.c");
	assert_path(1, "/src/include/b.h");
	assert_path(2, "/abs/c.h");
	assert_path(3, NULL);
	dwarf_lines_clear(&lines);
}

static void unit_may_have_no_table(void **state)
{
	struct dwarf dwarf = {0};
	const struct dwarf_unit unit = {.dwarf = &dwarf};

	(void)state;
	assert_int_equal(dwarf_lines_read(&lines, &unit, want_all, NULL), 0);
	assert_int_equal(lines.row_count, 0);
	assert_null(dwarf_lines_path(&lines, 0));
	assert_null(dwarf_lines_at(&lines, 0));
	dwarf_lines_clear(&lines);
}

#define TEST(function) cmocka_unit_test_setup(function, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_instruction_has_its_effect),
		TEST(sequences_are_sorted),
		TEST(sequences_may_overlap),
		TEST(sequences_without_code_are_left_out),
		TEST(only_rows_with_wanted_addresses_are_kept),
		TEST(headers_of_each_version_are_read),
		TEST(instructions_may_have_a_size),
		TEST(broken_instructions_end_the_table),
		TEST(large_numbers_are_bounded),
		TEST(paths_of_old_tables),
		TEST(paths_of_new_tables),
		TEST(unit_may_have_no_table),
	};

	return cmocka_run_group_tests_name("dwarf_line", tests, NULL, NULL);
}
