// SPDX-License-Identifier: GPL-2.0
#include "runtime/go_pclntab.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "go_image.h"
#include "lib/error.h"
#include "unit.h"

#define OUTER "main.outer[...] main.outer[go.shape.int] /a.go:20\n"

static struct go_image image;

struct chain {
	char text[1024];
	size_t frames;
};

static int add_frame(const struct go_frame *frame, void *arg)
{
	struct chain *chain = arg;
	size_t used = strlen(chain->text);

	snprintf(chain->text + used, sizeof(chain->text) - used, "%s%s %s %s:%u\n",
		 frame->inlined ? "+" : "", frame->name, frame->system_name,
		 frame->file ? frame->file : "?", frame->line);
	chain->frames++;
	return 0;
}

static struct go_pclntab *open_image(const struct go_options *options)
{
	struct go_pclntab *pclntab = NULL;
	struct error error;

	go_image_make(&image, options);
	if (go_pclntab_open(image.bytes, image.size, &pclntab, &error) != 0)
		fail_msg("%s", error.text);
	return pclntab;
}

static void assert_chain(const struct go_pclntab *pclntab, uint32_t offset, const char *text)
{
	struct chain chain = {0};

	assert_int_equal(go_pclntab_lookup(pclntab, GO_TEXT + offset, add_frame, &chain), 0);
	assert_string_equal(chain.text, text);
}

static void assert_nothing(const struct go_pclntab *pclntab, uint64_t vaddr)
{
	struct chain chain = {0};

	assert_int_equal(go_pclntab_lookup(pclntab, vaddr, add_frame, &chain), -ENOENT);
	assert_int_equal(chain.frames, 0);
}

/* Checks all addresses against the description in go_image.h. */
static void assert_all(const struct go_pclntab *pclntab)
{
	assert_chain(pclntab, 0x00, "main.plain main.plain /a.go:10\n");
	assert_chain(pclntab, 0x0f, "main.plain main.plain /a.go:10\n");
	assert_chain(pclntab, 0x10, "main.plain main.plain /a.go:11\n");
	assert_chain(pclntab, 0x1f, "main.plain main.plain /a.go:11\n");
	assert_chain(pclntab, 0x20, OUTER);
	assert_chain(pclntab, 0x28, "+main.middle main.middle /b.go:30\n" OUTER);
	assert_chain(pclntab, 0x30,
		     "+main.inner main.inner /b.go:40\n+main.middle main.middle /b.go:30\n" OUTER);
	assert_chain(pclntab, 0x3f,
		     "+main.inner main.inner /b.go:40\n+main.middle main.middle /b.go:30\n" OUTER);
	assert_chain(pclntab, 0x40, OUTER);
	assert_chain(pclntab, 0x60, "");
	assert_nothing(pclntab, GO_TEXT - 1);
	assert_nothing(pclntab, GO_TEXT + GO_TEXT_SIZE);
	assert_nothing(pclntab, 0);
	assert_nothing(pclntab, GO_BASE);
	assert_nothing(pclntab, UINT64_MAX);
}

static void test_all_versions_are_supported(void **state)
{
	const struct go_options versions[] = {go_1_18, go_1_20, go_1_26, go_1_27};

	(void)state;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		for (unsigned int variant = 0; variant < 4; variant++) {
			struct go_options options = versions[i];
			struct go_pclntab *pclntab;

			options.has_section_headers = variant & 1;
			options.has_relocations = variant & 2;
			pclntab = open_image(&options);
			assert_all(pclntab);
			go_pclntab_close(pclntab);
		}
	}
}

static int add_start_line(const struct go_frame *frame, void *arg)
{
	struct chain *chain = arg;
	size_t used = strlen(chain->text);

	snprintf(chain->text + used, sizeof(chain->text) - used, "%u ", frame->start_line);
	return 0;
}

static void test_start_lines(void **state)
{
	struct go_pclntab *pclntab = open_image(&go_1_20);
	struct chain chain = {0}, none = {0};

	(void)state;
	assert_int_equal(go_pclntab_lookup(pclntab, GO_TEXT + 0x30, add_start_line, &chain), 0);
	assert_string_equal(chain.text, "39 29 19 ");
	go_pclntab_close(pclntab);
	pclntab = open_image(&go_1_18);
	assert_int_equal(go_pclntab_lookup(pclntab, GO_TEXT + 0x30, add_start_line, &none), 0);
	assert_string_equal(none.text, "0 0 0 ");
	go_pclntab_close(pclntab);
}

/* In the tables of an unknown version of Go, functions are found, but not inlined calls. */
static void test_unknown_version_has_no_inlined_frames(void **state)
{
	struct go_options options = go_1_20;
	struct go_pclntab *pclntab;

	(void)state;
	options.trees = 44;
	options.sections = 43;
	pclntab = open_image(&options);
	assert_chain(pclntab, 0x10, "main.plain main.plain /a.go:11\n");
	assert_chain(pclntab, 0x30, "main.outer[...] main.outer[go.shape.int] /b.go:40\n");
	go_pclntab_close(pclntab);
}

static void assert_printed(const struct go_options *version, const char *name, const char *printed)
{
	struct go_options options = *version;
	struct chain chain = {0};
	struct go_pclntab *pclntab;
	char text[128];

	options.name = name;
	pclntab = open_image(&options);
	assert_int_equal(go_pclntab_lookup(pclntab, GO_TEXT + 0x20, add_frame, &chain), 0);
	snprintf(text, sizeof(text), "%s %s /a.go:20\n", printed, name);
	assert_string_equal(chain.text, text);
	go_pclntab_close(pclntab);
}

static void test_printed_names(void **state)
{
	(void)state;
	assert_printed(&go_1_20, "main.f", "main.f");
	assert_printed(&go_1_20, "main.f[...].func1", "main.f[...].func1");
	assert_printed(&go_1_20, "main.f[go.shape.[]int].func1", "main.f[...].func1");
	assert_printed(&go_1_20, "main.(*T[int,main.T[int]]).M", "main.(*T[...]).M");
	assert_printed(&go_1_20, "a[b].c[d].e", "a[...].e");
	assert_printed(&go_1_27, "a[b].c[d].e", "a[...].c[...].e");
	assert_printed(&go_1_27, "a[[]b].c[map[d]e]", "a[...].c[...]");
	assert_printed(&go_1_27, "a[[]b].c", "a[...].c");
	assert_printed(&go_1_27, "a[]b]c[d]", "a[]b]c[d]");
	assert_printed(&go_1_27, "a[b[c]", "a[b[c]");
	assert_printed(&go_1_20, "a]b[c", "a]b[c");
	assert_printed(&go_1_20, "a]", "a]");
	assert_printed(&go_1_20, "[", "[");
	assert_printed(&go_1_20, "", "");
}

static int stop_at_first_frame(const struct go_frame *frame, void *arg)
{
	(void)frame;
	++*(int *)arg;
	return 17;
}

static void test_callback_stops_lookup(void **state)
{
	struct go_pclntab *pclntab = open_image(&go_1_20);
	int calls = 0;

	(void)state;
	assert_int_equal(go_pclntab_lookup(pclntab, GO_TEXT + 0x30, stop_at_first_frame, &calls),
			 17);
	assert_int_equal(calls, 1);
	go_pclntab_close(pclntab);
}

static void test_circular_inline_tree_ends(void **state)
{
	struct go_options options = go_1_20;
	struct chain chain = {0};
	struct go_pclntab *pclntab;

	(void)state;
	options.circular = true;
	pclntab = open_image(&options);
	assert_int_equal(go_pclntab_lookup(pclntab, GO_TEXT + 0x30, add_frame, &chain), 0);
	assert_int_equal(chain.frames, 3);
	assert_non_null(strstr(chain.text, "\nmain.outer[...]"));
	go_pclntab_close(pclntab);
}

static void assert_refused(const void *data, size_t size, int code, const char *text)
{
	struct go_pclntab *pclntab = NULL;
	struct error error = {0};

	assert_int_equal(go_pclntab_open(data, size, &pclntab, &error), code);
	assert_non_null(strstr(error.text, text));
	assert_null(pclntab);
}

static void test_unsupported_files_are_refused(void **state)
{
	struct go_options options = go_1_20;
	uint32_t old = GO_MAGIC_1_16;

	(void)state;
	assert_refused("", 0, -ENODATA, "not an ELF file");
	assert_refused("\177ELF", 4, -ENODATA, "ELF");
	assert_refused("#!/bin/sh\necho it is a script, and long enough for headers\n", 59,
		       -ENODATA, "not an ELF file");
	options.has_section_headers = true;
	go_image_make(&image, &options);
	memcpy(image.bytes + image.header, &old, sizeof(old));
	assert_refused(image.bytes, image.size, -ENOTSUP, "older than 1.18");
	memset(image.bytes + image.header, 0, sizeof(old));
	assert_refused(image.bytes, image.size, -ENODATA, "no function table of Go");
	go_image_make(&image, &options);
	memset(image.bytes + image.module, 0, 8);
	assert_refused(image.bytes, image.size, -ENODATA, "no function table of Go");
	image.bytes[EI_DATA] = ELFDATA2MSB;
	assert_refused(image.bytes, image.size, -ENOTSUP, "big-endian");
}

/* No header of Go has such a byte, and none is found elsewhere. */
static void test_wrong_headers_are_refused(void **state)
{
	static const struct {
		unsigned int at;
		unsigned char value;
	} wrong[] = {
		{0, 0xf2}, /* magic */
		{4, 1},    {5, 1}, /* padding */
		{6, 0},    {6, 3}, /* quantum of instructions */
		{7, 4},    {7, 0}, /* size of a pointer */
		{8, 0},    {8, 4}, /* number of functions */
		{12, 1}, /* the same, beyond 32 bits */
	};
	struct go_options options = go_1_20;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		for (unsigned int variant = 0; variant < 4; variant++) {
			options.has_section_headers = variant & 1;
			options.has_relocations = variant & 2;
			go_image_make(&image, &options);
			image.bytes[image.header + wrong[i].at] = wrong[i].value;
			assert_refused(image.bytes, image.size, -ENODATA,
				       "no function table of Go");
		}
	}
}

/* Wrong section headers are handled like missing ones. */
static void test_wrong_section_header_is_ignored(void **state)
{
	struct go_options options = go_1_20;
	struct go_pclntab *pclntab = NULL;
	Elf64_Ehdr elf;

	(void)state;
	options.has_section_headers = true;
	go_image_make(&image, &options);
	memcpy(&elf, image.bytes, sizeof(elf));
	image.bytes[elf.e_shoff + sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_addr)] ^= 0x10;
	assert_int_equal(go_pclntab_open(image.bytes, image.size, &pclntab, NULL), 0);
	assert_all(pclntab);
	go_pclntab_close(pclntab);
}

/* Copies the bytes, so that the sanitizer detects reads beyond the end of the file. */
static void try_bytes(const unsigned char *bytes, size_t size)
{
	unsigned char *copy = malloc(size ? size : 1);
	struct go_pclntab *pclntab = NULL;
	struct chain chain;

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	if (go_pclntab_open(copy, size, &pclntab, NULL) == 0) {
		for (uint32_t at = 0; at < GO_TEXT_SIZE; at += 8) {
			chain = (struct chain){0};
			go_pclntab_lookup(pclntab, GO_TEXT + at, add_frame, &chain);
		}
		go_pclntab_close(pclntab);
	}
	free(copy);
}

static void test_survives_truncation(void **state)
{
	struct go_options options = go_1_20;

	(void)state;
	options.has_section_headers = options.has_relocations = true;
	go_image_make(&image, &options);
	for (size_t size = 0; size < image.size; size++)
		try_bytes(image.bytes, size);
}

static void test_survives_wrong_bytes(void **state)
{
	static const unsigned char changes[] = {0x01, 0x80, 0xff};
	const struct go_options versions[] = {go_1_18, go_1_27};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct go_options options = versions[i];

		options.has_section_headers = options.has_relocations = i;
		go_image_make(&image, &options);
		for (size_t at = 0; at < image.size; at++) {
			for (size_t j = 0; j < sizeof(changes); j++) {
				image.bytes[at] ^= changes[j];
				try_bytes(image.bytes, image.size);
				image.bytes[at] ^= changes[j];
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_versions_are_supported),
		cmocka_unit_test(test_start_lines),
		cmocka_unit_test(test_printed_names),
		cmocka_unit_test(test_unknown_version_has_no_inlined_frames),
		cmocka_unit_test(test_callback_stops_lookup),
		cmocka_unit_test(test_circular_inline_tree_ends),
		cmocka_unit_test(test_unsupported_files_are_refused),
		cmocka_unit_test(test_wrong_headers_are_refused),
		cmocka_unit_test(test_wrong_section_header_is_ignored),
		cmocka_unit_test(test_survives_truncation),
		cmocka_unit_test(test_survives_wrong_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
