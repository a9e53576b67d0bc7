// SPDX-License-Identifier: GPL-2.0
/* Build IDs in notes of both alignments. */
#include <elf.h>
#include <fcntl.h>
#include <libelf.h>

#include "debuginfo/debug_files.h"
#include "debuginfo/elf_symbols.h"
#include "sandbox.h"

static unsigned char bytes[512];
static size_t used;

static void pad(size_t align)
{
	while (used % align)
		bytes[used++] = 0xee;
}

static void add_note(uint32_t type, const void *name, size_t name_size, const void *text,
		     size_t size, size_t align)
{
	const uint32_t head[] = {(uint32_t)name_size, (uint32_t)size, type};

	memcpy(bytes + used, head, sizeof(head));
	used += sizeof(head);
	memcpy(bytes + used, name, name_size);
	used += name_size;
	pad(align);
	memcpy(bytes + used, text, size);
	used += size;
}

static char hex[BUILD_ID_SIZE];

static bool find(size_t align)
{
	unsigned char *copy = malloc(used);
	bool found;

	assert_non_null(copy);
	memcpy(copy, bytes, used);
	strcpy(hex, "none");
	found = build_id_from_notes(copy, used, align, hex);
	free(copy);
	assert_true(found || !strcmp(hex, "none"));
	return found;
}

#define BUILD_ID "\x01\x23\xab"

/* The build ID comes after a note with a name and contents of any size. */
static void sizes_are_rounded_up_to_the_alignment(void **state)
{
	(void)state;
	for (size_t align = 4; align <= 8; align += 4) {
		for (size_t name = 0; name < 18; name++) {
			for (size_t size = 0; size < 18; size++) {
				used = 0;
				add_note(1, "aaaaaaaaaaaaaaaaaaaaa", name, "bbbbbbbbbbbbbbbbbbbbb",
					 size, align);
				pad(align);
				add_note(NT_GNU_BUILD_ID, "GNU", 4, BUILD_ID, 3, align);
				assert_true(find(align));
				assert_string_equal(hex, "0123ab");
				/* The last one may lack padding, and nothing else. */
				used--;
				assert_false(find(align));
			}
		}
	}
}

static void other_notes_are_not_taken(void **state)
{
	static const char longest[65];

	(void)state;
	used = 0;
	add_note(NT_GNU_BUILD_ID + 1, "GNU", 4, BUILD_ID, 3, 4);
	assert_false(find(4));
	used = 0;
	add_note(NT_GNU_BUILD_ID, "GNU", 3, BUILD_ID, 3, 4);
	assert_false(find(4));
	used = 0;
	add_note(NT_GNU_BUILD_ID, "GNV", 4, BUILD_ID, 3, 4);
	assert_false(find(4));
	used = 0;
	add_note(NT_GNU_BUILD_ID, "GNU", 4, "", 0, 4);
	assert_false(find(4));
	used = 0;
	add_note(NT_GNU_BUILD_ID, "GNU", 4, longest, 65, 4);
	assert_false(find(4));
	used = 0;
	add_note(NT_GNU_BUILD_ID, "GNU", 4, longest, 64, 4);
	assert_true(find(4));
	used = 0;
	add_note(NT_GNU_BUILD_ID, "GNU", 4, "\x01", 1, 4);
	assert_true(find(4));
	assert_string_equal(hex, "01");
	used = 0;
	assert_false(find(4));
	used = 11;
	assert_false(find(4));
}

/* Returns the build ID of a file by its segments or, if it is an object, by its sections. */
static const char *build_id_of(const char *path, bool by_sections)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

	assert_non_null(elf);
	if (by_sections)
		debug_build_id(elf, hex);
	else
		elf_build_id(elf, hex);
	elf_end(elf);
	close(fd);
	return hex;
}

/* A note before the build ID, in one section with it, of each alignment. */
static void alignment_is_that_of_the_section_or_segment(void **state)
{
	char text[512];

	(void)state;
	elf_version(EV_CURRENT);
	for (unsigned int align = 4; align <= 8; align += 4) {
		snprintf(text, sizeof(text),
			 ".section .note.both, \"a\", @note\n.balign %u\n"
			 ".long 4, 4, 9\n.ascii \"GNU\\0\"\n.long 0x11111111\n.balign %u\n"
			 ".long 4, 4, 3\n.ascii \"GNU\\0\"\n.long 0x67452301\n.balign %u\n"
			 ".data\n.long 1\n",
			 align, align, align);
		write_text(in_sandbox("notes.s"), text);
		run("cd '%s' && as -o notes.o notes.s && ld -shared --build-id=none -o notes.so "
		    "notes.o",
		    sandbox);
		assert_string_equal(build_id_of(in_sandbox("notes.o"), true), "01234567");
		assert_string_equal(build_id_of(in_sandbox("notes.so"), true), "01234567");
		assert_string_equal(build_id_of(in_sandbox("notes.so"), false), "01234567");
		/* An object has no segments. */
		assert_string_equal(build_id_of(in_sandbox("notes.o"), false), "");
	}
	write_text(in_sandbox("notes.s"), ".data\n.long 1\n");
	run("cd '%s' && as -o notes.o notes.s && ld -shared --build-id=none -o notes.so notes.o",
	    sandbox);
	assert_string_equal(build_id_of(in_sandbox("notes.so"), true), "");
	assert_string_equal(build_id_of(in_sandbox("notes.so"), false), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_rounded_up_to_the_alignment),
		cmocka_unit_test(other_notes_are_not_taken),
		cmocka_unit_test(alignment_is_that_of_the_section_or_segment),
	};

	return cmocka_run_group_tests_name("elf_notes", tests, make_sandbox, remove_sandbox);
}
