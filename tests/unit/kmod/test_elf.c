// SPDX-License-Identifier: GPL-2.0
/* The ELF reader of the module, compiled for user space, on files made to be expensive. */
#include "unit.h"

#include <string.h>

/* Before the system header with the same name. */
#include "../../../kmod/elf.h"

#include "../../../kmod/elf.c"

#define HEADERS SB_ELF_HEADERS_MAX
#define NOTES 128u /* in a segment */

struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segments[HEADERS];
	Elf64_Nhdr notes[NOTES]; /* without names or contents */
	struct {
		Elf64_Nhdr note;
		char name[4];
		uint8_t contents[8];
	} id;
};

static struct image image;
static size_t reads;

static bool read_image(void *file, u64 offset, void *to, size_t size)
{
	assert_ptr_equal(file, &image);
	reads++;
	if (offset > sizeof(image) || size > sizeof(image) - offset)
		return false;
	memcpy(to, (char *)&image + offset, size);
	return true;
}

static Elf64_Phdr note_segment(size_t offset, size_t size)
{
	return (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = offset, .p_filesz = size, .p_align = 4};
}

/* Makes an image with `segments` identical note segments; the last one has the build ID. */
static void make_image(uint32_t segments)
{
	memset(&image, 0, sizeof(image));
	memcpy(image.header.e_ident, ELFMAG, SELFMAG);
	image.header.e_ident[EI_CLASS] = ELFCLASS64;
	image.header.e_ident[EI_DATA] = ELFDATA2LSB;
	image.header.e_phoff = offsetof(struct image, segments);
	image.header.e_phentsize = sizeof(Elf64_Phdr);
	image.header.e_phnum = (uint16_t)segments;
	for (uint32_t i = 0; i + 1 < segments; i++)
		image.segments[i] =
			note_segment(offsetof(struct image, notes), sizeof(image.notes));
	image.segments[segments - 1] = note_segment(offsetof(struct image, id), sizeof(image.id));
	image.id.note = (Elf64_Nhdr){.n_namesz = 4, .n_descsz = 8, .n_type = SB_NOTE_BUILD_ID};
	memcpy(image.id.name, "GNU", 4);
	memset(image.id.contents, 0xab, sizeof(image.id.contents));
	reads = 0;
}

static void build_id_is_found_after_other_notes(void **state)
{
	struct sb_elf elf;

	(void)state;
	make_image(2);
	assert_int_equal(sb_elf_read(read_image, &image, &elf), 0);
	assert_int_equal(elf.build_id_size, 8);
	assert_memory_equal(elf.build_id, image.id.contents, 8);
}

/* Each read is a page cache lookup in the kernel. */
static void repeated_note_segments_cost_a_bounded_number_of_reads(void **state)
{
	struct sb_elf elf;

	(void)state;
	make_image(HEADERS);
	assert_int_equal(sb_elf_read(read_image, &image, &elf), -EAGAIN);
	assert_int_equal(elf.build_id_size, 0);
	assert_true(reads <= 1 + HEADERS + SB_ELF_NOTE_COUNT_MAX);
}

/* The result says that segments were skipped, so that the reader can search the file. */
static void long_segments_are_reported_as_not_read(void **state)
{
	struct sb_elf elf;

	(void)state;
	make_image(2);
	image.segments[0].p_filesz = SB_ELF_NOTES_MAX + 1;
	image.notes[0].n_descsz = SB_ELF_NOTES_MAX - sizeof(Elf64_Nhdr);
	image.segments[1].p_type = PT_NULL;
	assert_int_equal(sb_elf_read(read_image, &image, &elf), -EAGAIN);
	assert_int_equal(elf.build_id_size, 0);
}

/* A truncated file is reported as such and keeps the results found so far. */
static void truncated_files_keep_earlier_results(void **state)
{
	struct sb_elf elf;

	(void)state;
	make_image(2);
	image.segments[1].p_offset = sizeof(image) - 4;
	assert_int_equal(sb_elf_read(read_image, &image, &elf), -EAGAIN);
	assert_int_equal(elf.build_id_size, 0);
	make_image(2);
	image.header.e_phoff = sizeof(image) - sizeof(Elf64_Phdr);
	assert_int_equal(sb_elf_read(read_image, &image, &elf), -EAGAIN);
}

static void offsets_map_to_addresses(void **state)
{
	struct sb_elf elf;
	u64 vaddr;

	(void)state;
	make_image(2);
	image.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD,
					 .p_flags = PF_X,
					 .p_offset = 0x1234,
					 .p_vaddr = 0x401234,
					 .p_filesz = 0x100};
	assert_int_equal(sb_elf_read(read_image, &image, &elf), 0);
	assert_true(sb_elf_vaddr(&elf, 0x1000, &vaddr));
	assert_int_equal(vaddr, 0x401000);
	assert_true(sb_elf_vaddr(&elf, 0x1333, &vaddr));
	assert_int_equal(vaddr, 0x401333);
	assert_false(sb_elf_vaddr(&elf, 0x1334, &vaddr));
	assert_false(sb_elf_vaddr(&elf, 0xfff, &vaddr));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(build_id_is_found_after_other_notes),
		cmocka_unit_test(repeated_note_segments_cost_a_bounded_number_of_reads),
		cmocka_unit_test(long_segments_are_reported_as_not_read),
		cmocka_unit_test(truncated_files_keep_earlier_results),
		cmocka_unit_test(offsets_map_to_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
