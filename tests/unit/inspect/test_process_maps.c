// SPDX-License-Identifier: GPL-2.0
/* Mappings whose lines in /proc/PID/maps the test makes up, and the files of such mappings. */
#include "unit.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "inspect/process_maps.h"
#include "lib/error.h"
#include "sandbox.h"
#include "worker_server.h"

/* What /proc/PID/maps has; NULL: what the kernel says. */
static const char *fake_lines;
/* The device of all files; 0: that which they have. */
static dev_t fake_device;

FILE *fopen(const char *path, const char *mode)
{
	if (fake_lines && strstr(path, "/maps"))
		return fmemopen((void *)fake_lines, strlen(fake_lines), "r");
	return fopen64(path, mode);
}

int fstat(int fd, struct stat *st)
{
	int err = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (fake_device)
		st->st_dev = fake_device;
	return err;
}

static int read_lines(const char *lines, struct process_maps *maps)
{
	struct error error;
	int err;

	fake_lines = lines;
	err = process_maps_read(4711, maps, &error);
	fake_lines = NULL;
	return err;
}

static void lines_are_decoded(void **state)
{
	struct process_maps maps;

	(void)state;
	assert_int_equal(
		read_lines("1000-2000 r-xp ffff0000 08:10 1234567                    /bin/a b\n"
			   "a000-b000 rw-p 00000000 00:00 0\n"
			   "c000-d000 r--p 00000000 00:00 0 \n"
			   "7ffffffde000-7ffffffff000 rwxp 00000000 00:00 0      [stack]\n",
			   &maps),
		0);
	assert_int_equal(maps.count, 3);
	assert_int_equal(maps.items[0].start, 0x1000);
	assert_int_equal(maps.items[0].end, 0x2000);
	assert_int_equal(maps.items[0].offset, 0xffff0000);
	assert_int_equal(maps.items[0].device, makedev(8, 16));
	assert_int_equal(maps.items[0].inode, 1234567);
	assert_true(maps.items[0].is_executable);
	assert_string_equal(maps.items[0].path, "/bin/a b");
	assert_int_equal(maps.items[1].start, 0xc000);
	assert_false(maps.items[1].is_executable);
	assert_string_equal(maps.items[1].path, "");
	assert_int_equal(maps.items[2].end, 0x7ffffffff000);
	assert_true(maps.items[2].is_executable);
	assert_string_equal(maps.items[2].path, "[stack]");
	process_maps_clear(&maps);
	assert_null(maps.items);
	assert_int_equal(maps.count, 0);
}

/* The kernel writes \012 for a newline, and a backslash as it is. */
static void newlines_of_paths_are_decoded(void **state)
{
	struct process_maps maps;

	(void)state;
	assert_int_equal(read_lines("1000-2000 r-xp 00000000 08:10 7 /\\012a\\0123\\012\n"
				    "2000-3000 r-xp 00000000 08:10 8 /\\134b\\01\n",
				    &maps),
			 0);
	assert_string_equal(maps.items[0].path, "/\na\n3\n");
	assert_string_equal(maps.items[1].path, "/\\134b\\01");
	process_maps_clear(&maps);
}

static void other_lines_are_left_out(void **state)
{
	static const char *const lines[] = {
		"",
		"1000",
		"1000-",
		"1000-2000",
		"1000-2000 ",
		"1000-2000 r-x",
		"1000-2000 r-xp",
		"1000-2000 r-xp ",
		"1000-2000 r-xp 0",
		"1000-2000 r-xp 0 8",
		"1000-2000 r-xp 0 8:",
		"1000-2000 r-xp 0 8:1",
		"1000-2000 r-xp 0 8:1 ",
		"1000-2000 r-xp 0 8:1 7",
		"1000 2000 r-xp 0 8:1 7 /a",
		"1000-2000-r-xp 0 8:1 7 /a",
		"-2000 r-xp 0 8:1 7 /a",
		"1000-2000 r-xp 0 8 1 7 /a",
		"1000-2000 r-xp 0 8:1g 7 /a",
		"1000-2000 r-xp 0 8:1 7a /a",
		"2000-2000 r-xp 0 8:1 7 /a",
		"3000-2000 r-xp 0 8:1 7 /a",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct process_maps maps;
		char text[128];

		snprintf(text, sizeof(text), "%s\n5000-6000 r--p 0 8:1 9 /b\n", lines[i]);
		assert_int_equal(read_lines(text, &maps), 0);
		if (maps.count != 1)
			fail_msg("'%s' is taken for a mapping", lines[i]);
		assert_int_equal(maps.items[0].inode, 9);
		process_maps_clear(&maps);
	}
}

static void the_number_of_mappings_is_bounded(void **state)
{
	const size_t count = PROCESS_MAPPINGS_MAX + 2;
	struct process_maps maps;
	char *lines, *at;

	(void)state;
	lines = malloc(count * 64);
	assert_non_null(lines);
	at = lines;
	for (size_t i = 0; i < count; i++)
		at += sprintf(at, "%zx000-%zx000 r--p 0 0:0 0 \n", i + 1, i + 2);
	assert_int_equal(read_lines(lines, &maps), 0);
	assert_int_equal(maps.count, PROCESS_MAPPINGS_MAX);
	assert_ptr_equal(process_maps_at(&maps, 0x1000), &maps.items[0]);
	assert_ptr_equal(process_maps_at(&maps, (uint64_t)PROCESS_MAPPINGS_MAX * 0x1000),
			 &maps.items[PROCESS_MAPPINGS_MAX - 1]);
	process_maps_clear(&maps);
	free(lines);
}

static void addresses_belong_to_mappings(void **state)
{
	struct process_mapping items[] = {
		{.start = 0x1000, .end = 0x2000},
		{.start = 0x3000, .end = 0x4000},
		{.start = 0x4000, .end = 0x5000},
	};
	const struct process_maps maps = {.items = items, .count = 3}, none = {.count = 0};

	(void)state;
	assert_null(process_maps_at(&none, 0x1000));
	assert_null(process_maps_at(&maps, 0));
	assert_null(process_maps_at(&maps, 0xfff));
	assert_ptr_equal(process_maps_at(&maps, 0x1000), &items[0]);
	assert_ptr_equal(process_maps_at(&maps, 0x1fff), &items[0]);
	assert_null(process_maps_at(&maps, 0x2000));
	assert_null(process_maps_at(&maps, 0x2fff));
	assert_ptr_equal(process_maps_at(&maps, 0x3000), &items[1]);
	assert_ptr_equal(process_maps_at(&maps, 0x3fff), &items[1]);
	assert_ptr_equal(process_maps_at(&maps, 0x4000), &items[2]);
	assert_ptr_equal(process_maps_at(&maps, 0x4fff), &items[2]);
	assert_null(process_maps_at(&maps, 0x5000));
}

/* A mapping of a file that seems to be mapped nowhere, so that its path leads to it. */
static struct process_mapping mapping_of(const char *path)
{
	struct process_mapping mapping = {.start = 8, .end = 16, .path = (char *)path};
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	mapping.device = st.st_dev;
	mapping.inode = st.st_ino;
	return mapping;
}

static int try_open(const struct process_mapping *mapping)
{
	const struct process_maps maps = {.pid = getpid()};
	int fd = process_maps_open(&maps, mapping);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static void other_files_of_the_same_name_are_not_opened(void **state)
{
	struct process_mapping mapping;

	(void)state;
	write_text(in_sandbox("file"), "text");
	mapping = mapping_of(in_sandbox("file"));
	assert_int_equal(try_open(&mapping), 0);
	mapping.inode++;
	assert_int_equal(try_open(&mapping), -ESTALE);
	mapping.inode = 0;
	assert_int_equal(try_open(&mapping), -ENOENT);
}

/* Some file systems have another device in stat() than in the list of mappings: none of a disk. */
static void devices_are_compared_if_both_are_of_disks(void **state)
{
	const struct {
		dev_t listed, found;
		int result;
	} cases[] = {
		{makedev(8, 1), makedev(8, 1), 0},       {makedev(8, 1), makedev(8, 2), -ESTALE},
		{makedev(8, 1), makedev(0, 2), 0},       {makedev(0, 1), makedev(8, 2), 0},
		{makedev(8, 1), makedev(9, 1), -ESTALE},
	};
	struct process_mapping mapping;

	(void)state;
	write_text(in_sandbox("file"), "text");
	mapping = mapping_of(in_sandbox("file"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		mapping.device = cases[i].listed;
		fake_device = cases[i].found;
		assert_int_equal(try_open(&mapping), cases[i].result);
		fake_device = 0;
	}
}

/* Its path leads nowhere, but /proc/PID/exe to the file. */
static void deleted_programs_are_opened(void **state)
{
	struct process_mapping mapping = mapping_of("/proc/self/exe");

	(void)state;
	mapping.path = (char *)in_sandbox("deleted");
	assert_int_equal(try_open(&mapping), 0);
	mapping.inode++;
	assert_int_equal(try_open(&mapping), -ESTALE);
}

/* An ELF file of two segments, the second one first in its table; and a build ID. */
struct image {
	Elf64_Ehdr elf;
	Elf64_Phdr segments[3];
	Elf64_Nhdr note;
	char name[4];
	unsigned char build_id[8];
};

static int open_image(void)
{
	const struct image image = {
		.elf =
			{
				.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					    ELFDATA2LSB, EV_CURRENT},
				.e_type = ET_DYN,
				.e_machine = EM_X86_64,
				.e_version = EV_CURRENT,
				.e_phoff = offsetof(struct image, segments),
				.e_ehsize = sizeof(Elf64_Ehdr),
				.e_phentsize = sizeof(Elf64_Phdr),
				.e_phnum = 3,
			},
		.segments =
			{
				{
					.p_type = PT_LOAD,
					.p_flags = PF_R | PF_X,
					.p_offset = 0x2000,
					.p_vaddr = 0x702000,
					.p_filesz = 0x1000,
					.p_memsz = 0x1000,
				},
				{
					.p_type = PT_LOAD,
					.p_flags = PF_R | PF_X,
					.p_offset = 0,
					.p_vaddr = 0x400000,
					.p_filesz = 0x1000,
					.p_memsz = 0x1000,
				},
				{
					.p_type = PT_NOTE,
					.p_offset = offsetof(struct image, note),
					.p_filesz = sizeof(image) - offsetof(struct image, note),
					.p_align = 4,
				},
			},
		.note = {4, 8, NT_GNU_BUILD_ID},
		.name = "GNU",
		.build_id = {1, 2, 3, 4, 5, 6, 7, 8},
	};
	const char *path = in_sandbox("image");
	int fd;

	write_file(path, &image, sizeof(image));
	assert_int_equal(truncate(path, 0x3000), 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void the_bias_is_that_of_the_mapped_segment(void **state)
{
	static const struct {
		uint64_t offset, size, bias;
		int result;
	} cases[] = {
		{0, 0x1000, 0x10000000 - 0x400000, 0},
		{0x2000, 0x1000, 0x10000000 - 0x702000, 0},
		{0x800, 0x100, 0x10000000 - 0x400800, 0},
		{0x2ff8, 0x100, 0x10000000 - 0x702ff8, 0},
		/* More of the file than the segment. */
		{0x1000, 0x1001, 0x10000000 - 0x701000, 0},
		/* Between the segments, and behind them. */
		{0x1000, 0x1000, 0, -ENODATA},
		{0x3000, 0x1000, 0, -ENODATA},
	};
	const int fd = open_image();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct process_mapping mapping = {.start = 0x10000000,
							.end = 0x10000000 + cases[i].size,
							.offset = cases[i].offset};
		struct process_file file = {.bias = 0};
		struct error error = {""};

		assert_int_equal(process_file_read(worker_server(), &mapping, fd, &file, &error),
				 cases[i].result);
		if (cases[i].result) {
			assert_string_equal(error.text, "its code is not in the file");
			continue;
		}
		assert_int_equal(file.bias, cases[i].bias);
		assert_string_equal(file.build_id, "0102030405060708");
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_decoded),
		cmocka_unit_test(newlines_of_paths_are_decoded),
		cmocka_unit_test(other_lines_are_left_out),
		cmocka_unit_test(the_number_of_mappings_is_bounded),
		cmocka_unit_test(addresses_belong_to_mappings),
		cmocka_unit_test(other_files_of_the_same_name_are_not_opened),
		cmocka_unit_test(devices_are_compared_if_both_are_of_disks),
		cmocka_unit_test(deleted_programs_are_opened),
		cmocka_unit_test(the_bias_is_that_of_the_mapped_segment),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}
