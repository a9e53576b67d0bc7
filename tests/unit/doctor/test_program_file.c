// SPDX-License-Identifier: GPL-2.0
/* Executables of others, which may be cut or wrong anywhere. */
#include "doctor/program_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>

#include "sandbox.h"

static unsigned char *image;
static size_t image_size;

static int make_program(void **state)
{
	if (make_sandbox(state))
		return -1;
	run("printf 'int main(void) { return 0; }' | gcc -xc -g -Wl,--build-id -o %s/program -",
	    sandbox);
	image = read_bytes(in_sandbox("program"), &image_size);
	return 0;
}

static int remove_program(void **state)
{
	free(image);
	return remove_sandbox(state);
}

static int read_image(struct program_file *program, size_t size)
{
	int fd, err;

	write_file(in_sandbox("copy"), image, size);
	fd = open(in_sandbox("copy"), O_RDONLY | O_CLOEXEC);
	err = program_file_read(program, fd);
	close(fd);
	return err;
}

static void parts_of_a_program_are_seen(void **state)
{
	struct program_file program;

	(void)state;
	assert_int_equal(read_image(&program, image_size), 0);
	assert_true(program.has_symbols && program.has_dwarf && !program.has_mini);
	assert_int_equal(strlen(program.build_id), 40);
	run("strip %s/program", sandbox);
	free(image);
	image = read_bytes(in_sandbox("program"), &image_size);
	assert_int_equal(read_image(&program, image_size), 0);
	assert_false(program.has_symbols || program.has_dwarf);
	assert_int_equal(strlen(program.build_id), 40);
}

static void cut_programs_are_refused(void **state)
{
	struct program_file program;

	(void)state;
	/* The section headers are at the end. */
	for (size_t size = 0; size < image_size; size += size < 128 ? 1 : 511)
		assert_int_equal(read_image(&program, size), -ENOEXEC);
}

/* No byte of the headers makes it read or write outside of its memory. */
static void changed_programs_do_no_harm(void **state)
{
	static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
	Elf64_Ehdr header;
	struct program_file program;
	size_t start, end;

	(void)state;
	memcpy(&header, image, sizeof(header));
	for (int part = 0; part < 2; part++) {
		start = part ? header.e_shoff : 0;
		end = part ? header.e_shoff + 8 * sizeof(Elf64_Shdr) : sizeof(header);
		for (size_t at = start; at < end; at += part ? 3 : 1) {
			for (size_t i = 0; i < sizeof(values); i++) {
				const unsigned char old = image[at];

				image[at] = values[i];
				assert_true(read_image(&program, image_size) <= 0);
				image[at] = old;
			}
		}
	}
}

/* The sizes of a note are larger than its section. */
static void notes_are_not_believed(void **state)
{
	struct program_file program;
	Elf64_Nhdr note;

	(void)state;
	for (size_t at = 0; at + sizeof(note) + 4 < image_size; at += 4) {
		memcpy(&note, image + at, sizeof(note));
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp(image + at + sizeof(note), "GNU", 4))
			continue;
		note.n_descsz = UINT32_MAX;
		memcpy(image + at, &note, sizeof(note));
	}
	assert_int_equal(read_image(&program, image_size), 0);
	assert_string_equal(program.build_id, "");
}

int main(void)
{
#define PROGRAM_TEST(test) cmocka_unit_test_setup_teardown(test, make_program, remove_program)
	const struct CMUnitTest tests[] = {
		PROGRAM_TEST(parts_of_a_program_are_seen),
		PROGRAM_TEST(cut_programs_are_refused),
		PROGRAM_TEST(changed_programs_do_no_harm),
		PROGRAM_TEST(notes_are_not_believed),
	};

	return cmocka_run_group_tests_name("program_file", tests, NULL, NULL);
}
