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

/* No table begins in the header, also if the module data has the same address. */
static void test_tables_in_the_header_are_refused(void **state)
{
	const size_t word = 8, header_size = 8 + 8 * word, names = 8 + 3 * word;

	(void)state;
	for (size_t offset = 0; offset < header_size; offset++) {
		uint64_t address = GO_BASE;

		go_image_make(&image, &go_1_20);
		address += image.header + offset;
		memcpy(image.bytes + image.header + names, &offset, word);
		memcpy(image.bytes + image.module + word, &address, word);
		assert_refused(image.bytes, image.size, -ENODATA, "no function table of Go");
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
	image.bytes[elf.e_shoff + 2 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_addr)] ^= 0x10;
	assert_int_equal(go_pclntab_open(image.bytes, image.size, &pclntab, NULL), 0);
	assert_all(pclntab);
	go_pclntab_close(pclntab);
}

/* An external linker may move the pclntab into another section. Other programs are not searched. */
static void test_programs_with_sections_of_go_are_searched(void **state)
{
	static const char *const names[] = {".gosymtab\0", ".data.rel\0"};
	struct go_options options = go_1_20;
	struct go_pclntab *pclntab = NULL;
	unsigned char *name;

	(void)state;
	options.has_section_headers = true;
	for (size_t i = 0; i < 2; i++) {
		go_image_make(&image, &options);
		name = memmem(image.bytes, image.size, ".gopclntab", sizeof(".gopclntab"));
		assert_non_null(name);
		memcpy(name, names[i], sizeof(".gopclntab"));
		if (i) {
			assert_refused(image.bytes, image.size, -ENODATA,
				       "no function table of Go");
			continue;
		}
		assert_int_equal(go_pclntab_open(image.bytes, image.size, &pclntab, NULL), 0);
		assert_all(pclntab);
		go_pclntab_close(pclntab);
	}
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

/* Changes to an image: behind its end is room for more. */

static unsigned char *record_of(unsigned int function)
{
	uint32_t offset;

	memcpy(&offset, image.bytes + image.functions + 8 * function + 4, sizeof(offset));
	return image.bytes + image.functions + offset;
}

static void set_u32(unsigned char *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* Returns the offset of the bytes in the image. */
static size_t append(const void *bytes, size_t size)
{
	const size_t at = go_align(&image);

	go_put(&image, bytes, size);
	memcpy(image.bytes + sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz), &image.size,
	       sizeof(image.size));
	return at;
}

static struct go_pclntab *reopen_image(void)
{
	struct go_pclntab *pclntab = NULL;
	struct error error;

	if (go_pclntab_open(image.bytes, image.size, &pclntab, &error) != 0)
		fail_msg("%s", error.text);
	return pclntab;
}

/* Sets the lines of main.plain to a sequence. */
static void set_lines(const void *sequence, size_t size)
{
	set_u32(record_of(0) + 24, (uint32_t)(append(sequence, size) - image.values));
}

static void test_programs_of_32_bits(void **state)
{
	struct go_options options = go_1_20;
	struct go_pclntab *pclntab;

	(void)state;
	options.is_32_bit = true;
	pclntab = open_image(&options);
	assert_all(pclntab);
	go_pclntab_close(pclntab);
	/* The size of a pointer differs from the file's. */
	image.bytes[image.header + 7] = 8;
	assert_refused(image.bytes, image.size, -ENODATA, "no function table of Go");
}

static void assert_line(const void *sequence, size_t size, const char *expected)
{
	struct go_pclntab *pclntab;

	go_image_make(&image, &go_1_20);
	set_lines(sequence, size);
	pclntab = reopen_image();
	assert_chain(pclntab, 0x1f, expected);
	go_pclntab_close(pclntab);
}

/* Numbers take up to five bytes; a sequence that ends too early has no value. */
static void test_lines_of_any_size(void **state)
{
	(void)state;
	assert_line("\xda\x04\x20\0", 5, "main.plain main.plain /a.go:300\n");
	assert_line("\x80\x80\x80\x80\x02\x20", 7, "main.plain main.plain /a.go:268435455\n");
	assert_line("\x80\x80\x80\x80\x80\x01\x20", 8, "main.plain main.plain /a.go:0\n");
	assert_line("\x0c\x90\x80\x80\x80\0\x02\x10\0", 10, "main.plain main.plain /a.go:6\n");
	assert_line("\x0c\x1f\0\x20", 5, "main.plain main.plain /a.go:0\n");
	/* The last line is the last but one minus 2. */
	assert_line("\x0c\x10\x03\x10\0", 6, "main.plain main.plain /a.go:3\n");
	/* No line is 0, or below. */
	assert_line("\x02\x20\0", 4, "main.plain main.plain /a.go:0\n");
	assert_line("\x01\x20\0", 4, "main.plain main.plain /a.go:0\n");
	/* Beyond the end of the file. */
	assert_line("\x0c\x1f\x02", 3, "main.plain main.plain /a.go:0\n");
}

/* Other machines have instructions of 2 or 4 bytes: lengths of code are counted by them. */
static void test_lengths_of_instructions(void **state)
{
	static const unsigned char quanta[] = {1, 2, 4};

	(void)state;
	for (size_t i = 0; i < sizeof(quanta); i++) {
		struct go_pclntab *pclntab;

		go_image_make(&image, &go_1_20);
		image.bytes[image.header + 6] = quanta[i];
		pclntab = reopen_image();
		assert_chain(pclntab, 0x0f, "main.plain main.plain /a.go:10\n");
		assert_chain(pclntab, 0x1f,
			     i ? "main.plain main.plain /a.go:10\n"
			       : "main.plain main.plain /a.go:11\n");
		go_pclntab_close(pclntab);
	}
}

/* A function without a file has no line. */
static void test_unknown_files(void **state)
{
	struct go_pclntab *pclntab;

	(void)state;
	go_image_make(&image, &go_1_20);
	set_u32(image.bytes + image.units, UINT32_MAX);
	pclntab = reopen_image();
	assert_chain(pclntab, 0x10, "main.plain main.plain ?:0\n");
	assert_chain(pclntab, 0x28,
		     "+main.middle main.middle /b.go:30\n"
		     "main.outer[...] main.outer[go.shape.int] ?:0\n");
	go_pclntab_close(pclntab);
	/* The second unit begins with /b.go. */
	go_image_make(&image, &go_1_20);
	set_u32(record_of(0) + 32, 1);
	pclntab = reopen_image();
	assert_chain(pclntab, 0x10, "main.plain main.plain /b.go:11\n");
	go_pclntab_close(pclntab);
	/* Out of the table of files. */
	set_u32(image.bytes + image.units, 0x10000000);
	set_u32(record_of(0) + 32, 0);
	set_u32(record_of(0) + 4, 0x10000000);
	pclntab = reopen_image();
	assert_chain(pclntab, 0x10, "  ?:0\n");
	go_pclntab_close(pclntab);
	/* The sequence of files ends in the middle of the function. */
	go_image_make(&image, &go_1_20);
	set_u32(record_of(1) + 20, (uint32_t)(append("\x02\x20", 3) - image.values));
	pclntab = reopen_image();
	assert_chain(pclntab, 0x20, OUTER);
	assert_chain(pclntab, 0x40, "main.outer[...] main.outer[go.shape.int] ?:0\n");
	go_pclntab_close(pclntab);
}

/* The last kind of functions is the wrappers, if there are enough kinds. */
static void test_kind_of_wrappers(void **state)
{
	static const struct {
		unsigned char kind;
		const char *expected;
	} kinds[] = {
		{20, "main.(*T).M main.(*T).M /a.go:10\n"},
		{21, ""},
		{30, ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct go_pclntab *pclntab;

		go_image_make(&image, &go_1_20);
		record_of(2)[40] = kinds[i].kind;
		pclntab = reopen_image();
		assert_chain(pclntab, 0x60, kinds[i].expected);
		assert_chain(pclntab, 0x00, "main.plain main.plain /a.go:10\n");
		go_pclntab_close(pclntab);
	}
	/* An inlined wrapper is omitted, too: the kind of main.middle. */
	go_image_make(&image, &go_1_20);
	image.bytes[image.trees] = GO_WRAPPER;
	{
		struct go_pclntab *pclntab = reopen_image();

		assert_chain(pclntab, 0x28, OUTER);
		assert_chain(pclntab, 0x30, "+main.inner main.inner /b.go:40\n" OUTER);
		go_pclntab_close(pclntab);
	}
}

/* Functions without the data of inlined calls. */
static void test_functions_without_inlined_calls(void **state)
{
	static const char *const expected = "main.outer[...] main.outer[go.shape.int] /b.go:40\n";
	struct go_pclntab *pclntab;

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		go_image_make(&image, &go_1_20);
		if (i == 0)
			record_of(1)[43] = 3; /* number of function data */
		else if (i == 1)
			set_u32(record_of(1) + 28, 2); /* number of PC data */
		else if (i == 2)
			set_u32(record_of(1) + 44 + 6 * 4, UINT32_MAX); /* the tree */
		else
			set_u32(record_of(1) + 44 + 2 * 4, 0); /* the indices of calls */
		pclntab = reopen_image();
		assert_chain(pclntab, 0x30, expected);
		go_pclntab_close(pclntab);
	}
}

struct functions {
	char text[2048];
	unsigned int count, stop_at;
};

static int add_size(void *arg, uint64_t start, uint64_t end, int32_t size)
{
	struct functions *functions = arg;
	size_t used = strlen(functions->text);

	snprintf(functions->text + used, sizeof(functions->text) - used, " %x-%x:%d",
		 (unsigned int)(start - GO_TEXT), (unsigned int)(end - GO_TEXT), size);
	return ++functions->count == functions->stop_at ? 5 : 0;
}

static const struct go_pclntab *listed;

static int add_function(void *arg, const struct go_function *function)
{
	struct functions *functions = arg;
	size_t used = strlen(functions->text);
	int result;

	snprintf(functions->text + used, sizeof(functions->text) - used, "%s %x-%x%s%s",
		 function->name, (unsigned int)(function->start - GO_TEXT),
		 (unsigned int)(function->end - GO_TEXT),
		 function->is_outermost ? " outermost" : "",
		 function->changes_stack ? " changes" : "");
	result = go_pclntab_each_stack_size(listed, function, add_size, arg);
	strcat(functions->text, "\n");
	return result;
}

static void assert_functions(unsigned int stop_at, int result, const char *expected)
{
	struct functions functions = {.stop_at = stop_at};
	struct go_pclntab *pclntab = reopen_image();

	listed = pclntab;
	assert_int_equal(go_pclntab_each_function(pclntab, add_function, &functions), result);
	assert_string_equal(functions.text, expected);
	go_pclntab_close(pclntab);
}

/* Copies a sequence of a function to its sizes of the stack. */
static void use_as_sizes(unsigned int function, unsigned int of, unsigned int field)
{
	memcpy(record_of(function) + 16, record_of(of) + field, 4);
}

static void test_stack_sizes(void **state)
{
	(void)state;
	go_image_make(&image, &go_1_20);
	assert_functions(0, 0,
			 "main.plain 0-20\n"
			 "main.outer[go.shape.int] 20-60\n"
			 "main.(*T).M 60-80\n");
	record_of(0)[41] = 1;
	record_of(1)[41] = 2;
	record_of(2)[41] = 3;
	use_as_sizes(0, 0, 24);
	use_as_sizes(1, 1, 24);
	use_as_sizes(2, 1, 24);
	assert_functions(0, 0,
			 "main.plain 0-20 outermost 0-10:10 10-20:11\n"
			 "main.outer[go.shape.int] 20-60 changes 20-28:20 28-30:30 30-40:40 "
			 "40-60:20\n"
			 "main.(*T).M 60-80 outermost changes 60-68:20 68-70:30 70-80:40\n");
	assert_functions(3, 5,
			 "main.plain 0-20 outermost 0-10:10 10-20:11\n"
			 "main.outer[go.shape.int] 20-60 changes 20-28:20\n");
	/* Instructions of 4 bytes: the parts are longer, but not than the function. */
	image.bytes[image.header + 6] = 4;
	assert_functions(0, 0,
			 "main.plain 0-20 outermost 0-20:10\n"
			 "main.outer[go.shape.int] 20-60 changes 20-40:20 40-60:30\n"
			 "main.(*T).M 60-80 outermost changes 60-80:20\n");
	/* A sequence that ends before the function does. */
	image.bytes[image.header + 6] = 1;
	use_as_sizes(1, 0, 24);
	assert_functions(0, 0,
			 "main.plain 0-20 outermost 0-10:10 10-20:11\n"
			 "main.outer[go.shape.int] 20-60 changes 20-30:10 30-40:11\n"
			 "main.(*T).M 60-80 outermost changes 60-68:20 68-70:30 70-80:40\n");
}

/* A sequence may begin with the value of before, and end with 0 bytes, or at the end of the file.
 */
static void test_odd_stack_sizes(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *expected;
	} cases[] = {
		{"\0\x08\x02\x08", 5, "main.plain 0-20 0-8:-1 8-10:0\n"},
		{"\x02\x08\x02\0\x08\x10", 7, "main.plain 0-20 0-8:0\n"},
		{"\x02\x08\x02", 3, "main.plain 0-20 0-8:0\n"},
		{"\x02\x08", 2, "main.plain 0-20 0-8:0\n"},
		{"\x02", 1, "main.plain 0-20\n"},
	};
	const char *others = "main.outer[go.shape.int] 20-60\n"
			     "main.(*T).M 60-80\n";
	char expected[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t at;

		go_image_make(&image, &go_1_20);
		at = append(cases[i].bytes, cases[i].size);
		set_u32(record_of(0) + 16, (uint32_t)(at - image.values));
		snprintf(expected, sizeof(expected), "%s%s", cases[i].expected, others);
		assert_functions(0, 0, expected);
	}
}

/* Functions whose name, or record, is out of the file. */
static void test_broken_functions(void **state)
{
	struct go_pclntab *pclntab;

	(void)state;
	go_image_make(&image, &go_1_18);
	set_u32(record_of(0) + 4, 0x10000000);
	set_u32(image.bytes + image.functions + 12, 0x10000000);
	assert_functions(0, 0, " 0-20\nmain.(*T).M 60-80\n");
	/* Code without a record has no name: not the name of another function. */
	pclntab = reopen_image();
	assert_chain(pclntab, 0x00, "  /a.go:10\n");
	assert_nothing(pclntab, GO_TEXT + 0x20);
	assert_nothing(pclntab, GO_TEXT + 0x5f);
	assert_chain(pclntab, 0x60, "");
	go_pclntab_close(pclntab);
	/* A function without code. */
	go_image_make(&image, &go_1_18);
	set_u32(image.bytes + image.functions + 8, 0x60);
	assert_functions(0, 0, "main.plain 0-60\nmain.(*T).M 60-80\n");
}

/* Puts sections of text at the end, and points the module data to them. */
static void put_sections(const uint64_t *words, size_t size, uint64_t count, uint64_t capacity)
{
	const uint64_t slice[] = {GO_BASE + append(words, size), count, capacity};

	memcpy(image.bytes + image.module + 41 * 8, slice, sizeof(slice));
}

/* A linker has split the code. */
static void test_split_code(void **state)
{
	const uint64_t sections[] = {0, 0x30, GO_TEXT, 0x30, 0x80, GO_TEXT + 0x1030};
	struct go_pclntab *pclntab;

	(void)state;
	go_image_make(&image, &go_1_20);
	put_sections(sections, sizeof(sections), 2, 2);
	pclntab = reopen_image();
	assert_chain(pclntab, 0x28, "+main.middle main.middle /b.go:30\n" OUTER);
	assert_chain(pclntab, 0x2f, "+main.middle main.middle /b.go:30\n" OUTER);
	assert_nothing(pclntab, GO_TEXT + 0x30);
	assert_nothing(pclntab, GO_TEXT + 0x102f);
	assert_chain(pclntab, 0x1030,
		     "+main.inner main.inner /b.go:40\n+main.middle main.middle /b.go:30\n" OUTER);
	assert_chain(pclntab, 0x1040, OUTER);
	assert_chain(pclntab, 0x107f, "");
	assert_nothing(pclntab, GO_TEXT + 0x1080);
	go_pclntab_close(pclntab);
	/* A function is in the section of its start. */
	assert_functions(0, 0,
			 "main.plain 0-20\n"
			 "main.outer[go.shape.int] 20-30\n"
			 "main.(*T).M 1060-1080\n");
}

/* Without valid sections of text, the version of Go is not known. */
static void test_wrong_sections(void **state)
{
	static const struct {
		uint64_t words[3], count, capacity;
		bool is_valid;
	} cases[] = {
		{{0, 0x80, GO_TEXT}, 1, 1, true},
		{{0, UINT32_MAX, GO_TEXT}, 1, 1, true},
		{{0, 0x80, GO_TEXT}, 1, 2, false},
		{{0, 0x80, GO_TEXT}, 0, 0, false},
		{{1, 0x80, GO_TEXT}, 1, 1, false},
		{{0, 0x80, GO_TEXT + 1}, 1, 1, false},
		{{0, UINT64_C(0x100000000), GO_TEXT}, 1, 1, false},
		{{0, 0x80, GO_TEXT}, 64, 64, true},
		{{0, 0x80, GO_TEXT}, 65, 65, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t words[3 * 65] = {0};
		struct go_pclntab *pclntab;

		memcpy(words, cases[i].words, sizeof(cases[i].words));
		go_image_make(&image, &go_1_20);
		put_sections(words, sizeof(words), cases[i].count, cases[i].capacity);
		pclntab = reopen_image();
		assert_chain(pclntab, 0x28,
			     cases[i].is_valid
				     ? "+main.middle main.middle /b.go:30\n" OUTER
				     : "main.outer[...] main.outer[go.shape.int] /b.go:30\n");
		go_pclntab_close(pclntab);
	}
	/* A function that ends before it begins. */
	go_image_make(&image, &go_1_20);
	put_sections((const uint64_t[]){0, 0x80, GO_TEXT, 9, 8, GO_TEXT}, 48, 2, 2);
	{
		struct go_pclntab *pclntab = reopen_image();

		assert_chain(pclntab, 0x28, "main.outer[...] main.outer[go.shape.int] /b.go:30\n");
		go_pclntab_close(pclntab);
	}
}

/* The header is searched for in a limited number of places, and then its module data. */
static void test_number_of_candidates_is_limited(void **state)
{
	const uint64_t wrong = 1;

	(void)state;
	for (size_t fakes = 60; fakes < 64; fakes++) {
		unsigned char module[48 * 8];
		uint64_t header;

		go_image_make(&image, &go_1_20);
		header = GO_BASE + image.header;
		memcpy(module, image.bytes + image.module, sizeof(module));
		memcpy(image.bytes + image.module + 8, &wrong, sizeof(wrong));
		for (size_t i = 0; i < fakes; i++)
			append(&header, sizeof(header));
		append(module, sizeof(module));
		/* With the header, and the broken module data. */
		if (fakes <= 61) {
			struct go_pclntab *pclntab = reopen_image();

			assert_all(pclntab);
			go_pclntab_close(pclntab);
		} else {
			assert_refused(image.bytes, image.size, -ENODATA,
				       "no function table of Go");
		}
	}
}

/* The data of a program is in another segment than its tables; only that is searched. */
static void test_several_segments(void **state)
{
	Elf64_Ehdr elf;
	Elf64_Phdr segments[2];
	struct go_pclntab *pclntab;

	(void)state;
	go_image_make(&image, &go_1_20);
	memcpy(&elf, image.bytes, sizeof(elf));
	elf.e_phnum = 2;
	memcpy(image.bytes, &elf, sizeof(elf));
	memcpy(&segments[0], image.bytes + sizeof(elf), sizeof(segments[0]));
	segments[1] = segments[0];
	segments[0].p_filesz = image.module;
	segments[0].p_flags = PF_R | PF_X;
	segments[1].p_offset = image.module;
	segments[1].p_vaddr = GO_BASE + image.module;
	segments[1].p_filesz = image.size - image.module;
	segments[1].p_flags = PF_R | PF_W;
	memcpy(image.bytes + sizeof(elf), segments, sizeof(segments));
	pclntab = reopen_image();
	assert_all(pclntab);
	go_pclntab_close(pclntab);
	segments[1].p_flags = PF_R;
	memcpy(image.bytes + sizeof(elf), segments, sizeof(segments));
	assert_refused(image.bytes, image.size, -ENODATA, "no function table of Go");
}

/* Program headers come in any order. */
static void test_order_of_program_headers(void **state)
{
	struct go_options options = go_1_20;
	Elf64_Phdr segments[2], first;
	struct go_pclntab *pclntab;

	(void)state;
	options.has_relocations = true;
	go_image_make(&image, &options);
	memcpy(segments, image.bytes + sizeof(Elf64_Ehdr), sizeof(segments));
	first = segments[0];
	segments[0] = segments[1];
	segments[1] = first;
	assert_int_equal(segments[0].p_type, PT_DYNAMIC);
	memcpy(image.bytes + sizeof(Elf64_Ehdr), segments, sizeof(segments));
	pclntab = reopen_image();
	assert_all(pclntab);
	go_pclntab_close(pclntab);
}

static void set_machine(uint16_t machine, uint32_t type)
{
	const struct go_options *options = &go_1_20;
	struct go_options relocated = *options;
	Elf64_Rela relocation;

	relocated.has_relocations = true;
	go_image_make(&image, &relocated);
	memcpy(image.bytes + offsetof(Elf64_Ehdr, e_machine), &machine, sizeof(machine));
	for (size_t at = image.relocations;
	     at + sizeof(relocation) + 3 * sizeof(Elf64_Dyn) <= image.size;
	     at += sizeof(relocation)) {
		memcpy(&relocation, image.bytes + at, sizeof(relocation));
		relocation.r_info = ELF64_R_INFO(0, type);
		memcpy(image.bytes + at, &relocation, sizeof(relocation));
	}
}

static void test_relocations_of_machines(void **state)
{
	struct go_pclntab *pclntab;
	const uint64_t less = 23;
	Elf64_Dyn *sizes;

	(void)state;
	set_machine(EM_AARCH64, R_AARCH64_RELATIVE);
	pclntab = reopen_image();
	assert_all(pclntab);
	go_pclntab_close(pclntab);
	set_machine(EM_AARCH64, R_X86_64_RELATIVE);
	assert_refused(image.bytes, image.size, -ENODATA, "no function table of Go");
	set_machine(EM_X86_64, R_AARCH64_RELATIVE);
	assert_refused(image.bytes, image.size, -ENODATA, "no function table of Go");
	/* The last one, of the sections of text, is not in the table. */
	set_machine(EM_X86_64, R_X86_64_RELATIVE);
	sizes = (void *)(image.bytes + image.size - 2 * sizeof(*sizes));
	assert_int_equal(sizes->d_tag, DT_RELASZ);
	sizes->d_un.d_val -= less;
	pclntab = reopen_image();
	assert_chain(pclntab, 0x28, "main.outer[...] main.outer[go.shape.int] /b.go:30\n");
	go_pclntab_close(pclntab);
	/* There is none behind the end. */
	sizes->d_un.d_val = 0;
	assert_refused(image.bytes, image.size, -ENODATA, "no function table of Go");
	sizes->d_un.d_val = UINT64_MAX;
	pclntab = reopen_image();
	assert_all(pclntab);
	go_pclntab_close(pclntab);
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
		cmocka_unit_test(test_tables_in_the_header_are_refused),
		cmocka_unit_test(test_wrong_section_header_is_ignored),
		cmocka_unit_test(test_programs_with_sections_of_go_are_searched),
		cmocka_unit_test(test_programs_of_32_bits),
		cmocka_unit_test(test_lines_of_any_size),
		cmocka_unit_test(test_lengths_of_instructions),
		cmocka_unit_test(test_unknown_files),
		cmocka_unit_test(test_kind_of_wrappers),
		cmocka_unit_test(test_functions_without_inlined_calls),
		cmocka_unit_test(test_stack_sizes),
		cmocka_unit_test(test_odd_stack_sizes),
		cmocka_unit_test(test_broken_functions),
		cmocka_unit_test(test_split_code),
		cmocka_unit_test(test_wrong_sections),
		cmocka_unit_test(test_number_of_candidates_is_limited),
		cmocka_unit_test(test_relocations_of_machines),
		cmocka_unit_test(test_several_segments),
		cmocka_unit_test(test_order_of_program_headers),
		cmocka_unit_test(test_survives_truncation),
		cmocka_unit_test(test_survives_wrong_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
