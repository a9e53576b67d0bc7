// SPDX-License-Identifier: GPL-2.0
/* DWARF tables that claim many entries in few bytes. test_dwarf_lookup.c tests valid ones. */
#include "debuginfo/dwarf_line.h"

#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>

#include "debuginfo/dwarf_unit.h"
#include "sandbox.h"
#include "unit.h"

#define COUNT 100000u

/* A line table header of version 5, up to the list of directories. */
static const unsigned char header[] = {
	0, 0, 0, 0, /* length */
	5, 0, 8, 0, /* version, sizes of addresses and segment selectors */
	0, 0, 0, 0, /* header_length */
	1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1,
};
#define LENGTHS_AT 8u

/* Reads a list of directories with COUNT entries. `formats` is its head, before the count. */
static void read_names(struct dwarf_lines *lines, const unsigned char *formats, size_t size)
{
	static unsigned char bytes[256];
	static struct dwarf dwarf;
	static struct dwarf_unit unit;
	size_t at = sizeof(header);

	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, header, sizeof(header));
	memcpy(bytes + at, formats, size);
	at += size;
	bytes[at++] = 0x80 | (COUNT & 0x7f);
	bytes[at++] = 0x80 | (COUNT >> 7 & 0x7f);
	bytes[at++] = COUNT >> 14;
	bytes[0] = (unsigned char)(sizeof(bytes) - 4);
	bytes[LENGTHS_AT] = (unsigned char)(sizeof(bytes) - LENGTHS_AT - 4);
	dwarf = (struct dwarf){.sections[SECTION_LINE] = {bytes, sizeof(bytes)}};
	unit = (struct dwarf_unit){
		.dwarf = &dwarf,
		.layout = {.version = 5, .address_size = 8, .offset_size = 4},
		.stmt_list = {.form = DW_FORM_sec_offset},
	};
	assert_int_equal(dwarf_lines_read(lines, &unit, NULL, NULL), 0);
}

static void test_zero_size_names_are_limited(void **state)
{
	static const unsigned char nothing[] = {1, DW_LNCT_path, DW_FORM_flag_present};
	static const unsigned char strings[] = {1, DW_LNCT_path, DW_FORM_string};
	struct dwarf_lines lines;

	(void)state;
	read_names(&lines, nothing, sizeof(nothing));
	assert_int_equal(lines.directory_count, 0);
	dwarf_lines_clear(&lines);
	/* Empty strings take a byte each, so the table ends the list. */
	read_names(&lines, strings, sizeof(strings));
	assert_in_range(lines.directory_count, 200, 256);
	dwarf_lines_clear(&lines);
}

static void test_zero_size_attributes_are_limited(void **state)
{
	const struct dwarf_layout layout = {.version = 5, .address_size = 8, .offset_size = 4};
	static unsigned char bytes[4 * COUNT + 16] = {1, DW_TAG_subprogram, DW_CHILDREN_no};
	struct dwarf_abbrevs abbrevs = {0};
	const struct dwarf_attribute *first;
	size_t at = 3;

	(void)state;
	bytes[at++] = DW_AT_name;
	bytes[at++] = DW_FORM_strp;
	for (size_t i = 0; i < COUNT; i++) {
		bytes[at++] = DW_AT_name;
		bytes[at++] = DW_FORM_flag_present;
		bytes[at++] = DW_AT_linkage_name;
		bytes[at++] = DW_FORM_flag_present;
	}
	assert_int_equal(
		dwarf_abbrevs_read(&abbrevs, cursor_at(bytes, sizeof(bytes), 0), layout, 0), 0);
	assert_int_equal(abbrevs.count, 1);
	assert_in_range(abbrevs.list[0].count, 2, SLOTS);
	assert_int_equal(abbrevs.list[0].size, 4);
	first = &abbrevs.attributes[abbrevs.list[0].first];
	assert_int_equal(first->slot, SLOT_NAME);
	assert_int_equal(first->form, DW_FORM_strp);
	dwarf_abbrevs_clear(&abbrevs);
}

/* Wants all rows. */
static uint64_t first_address(void *arg, uint64_t address)
{
	(void)arg;
	return address;
}

/* Returns the number of rows of the line table of a program, and the result of dwarf_read(). */
static size_t count_rows(const char *path, int *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	struct dwarf dwarf = {0};
	struct dwarf_lines lines;
	struct error error;
	size_t count = 0;

	assert_non_null(elf);
	*err = dwarf_read(&dwarf, elf, NULL, NULL, &error);
	if (!*err) {
		assert_int_equal(dwarf_lines_read(&lines, &dwarf.units[0], first_address, NULL), 0);
		count = lines.row_count;
		dwarf_lines_clear(&lines);
		dwarf_clear(&dwarf);
	}
	elf_end(elf);
	close(fd);
	return count;
}

/* 0x0105 is not version 5. */
static void test_large_versions_are_rejected(void **state)
{
	int err;

	(void)state;
	write_text(in_sandbox("main.c"), "int f(int x)\n{\n\treturn x + 1;\n}\n");
	run("cd '%s' && cc -g -gdwarf-5 -shared -nostdlib -o good main.c && "
	    "objcopy --dump-section .debug_info=info --dump-section .debug_line=line good && "
	    "for part in info line; do printf '\\001' | "
	    "dd of=$part bs=1 seek=5 conv=notrunc status=none; "
	    "objcopy --update-section .debug_$part=$part good bad-$part; done",
	    sandbox);
	elf_version(EV_CURRENT);
	assert_true(count_rows(in_sandbox("good"), &err) > 0);
	assert_int_equal(err, 0);
	assert_int_equal(count_rows(in_sandbox("bad-line"), &err), 0);
	assert_int_equal(err, 0);
	count_rows(in_sandbox("bad-info"), &err);
	assert_int_equal(err, -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_large_versions_are_rejected, make_sandbox,
						remove_sandbox),
		cmocka_unit_test(test_zero_size_names_are_limited),
		cmocka_unit_test(test_zero_size_attributes_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
