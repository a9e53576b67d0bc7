// SPDX-License-Identifier: GPL-2.0
/* Symbols that a worker keeps, of this program. */
#include "symbolize/kept_symbols.h"

#include <errno.h>
#include <fcntl.h>

#include "lib/error.h"
#include "sandbox.h"

#define ADDRESSES 4000u

static struct elf_file whole; /* of this program */

struct bytes {
	char *bytes;
	size_t size, capacity;
	size_t calls_max; /* 0: all */
};

static int add_bytes(void *arg, const void *bytes, size_t size)
{
	struct bytes *all = arg;

	if (all->calls_max && !--all->calls_max)
		return -EPIPE;
	assert_in_range(all->size + size, all->size, all->capacity);
	memcpy(all->bytes + all->size, bytes, size);
	all->size += size;
	return 0;
}

static struct bytes write_all(const struct kept_symbols *kept)
{
	struct bytes all = {.capacity = kept_symbols_size(kept)};

	all.bytes = malloc(all.capacity);
	assert_non_null(all.bytes);
	assert_int_equal(kept_symbols_write(kept, add_bytes, &all), 0);
	assert_int_equal(all.size, all.capacity);
	assert_int_equal(all.size % 8, 0);
	return all;
}

static void read_program(struct elf_file *file, bool functions)
{
	struct error problem;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(elf_read(file, fd, NULL, 0, functions, &problem), 0);
	close(fd);
}

/* An address of the program, in its code or near it. */
static uint64_t address_at(unsigned int number)
{
	const struct elf_segment *code = &whole.loads[number % whole.load_count];

	return code->vaddr - 64 + (code->size + 128) / ADDRESSES * number;
}

static void assert_same_functions(const struct elf_file *a, const struct elf_file *b)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < ADDRESSES; i++) {
		uint64_t starts[2] = {0}, ends[2] = {UINT64_MAX, UINT64_MAX};
		const uint64_t address = address_at(i);
		struct symbol symbols[2];
		bool has = elf_lookup(a, address, &symbols[0]);

		assert_int_equal(elf_lookup(b, address, &symbols[1]), has);
		elf_lookup_range(a, address, &starts[0], &ends[0]);
		elf_lookup_range(b, address, &starts[1], &ends[1]);
		assert_int_equal(starts[0], starts[1]);
		assert_int_equal(ends[0], ends[1]);
		if (!has)
			continue;
		assert_string_equal(symbols[0].name, symbols[1].name);
		assert_int_equal(symbols[0].start, symbols[1].start);
		assert_int_equal(symbols[0].size, symbols[1].size);
		found++;
	}
	assert_in_range(found, 100, ADDRESSES);
}

static void set_functions(struct kept_symbols *kept, enum kept_file which)
{
	kept->files[which].is_known = true;
	elf_pack(&whole, &kept->files[which].packed, kept->files[which].parts);
}

static const struct dwarf_bytes text = {(const unsigned char *)"seven\0!", 7};

static void what_is_kept_is_the_same(void **state)
{
	struct kept_symbols kept = {0}, found, again;
	struct elf_file file;
	struct bytes bytes, copy;

	(void)state;
	set_functions(&kept, KEPT_BINARY);
	kept.contents[0].sections[SECTION_STR] = text;
	kept.contents[1].sections[SECTION_RNGLISTS] = text;
	bytes = write_all(&kept);
	assert_true(kept_symbols_read(&found, bytes.bytes, bytes.size));
	assert_false(found.files[KEPT_DEBUG].is_known);
	assert_false(found.files[KEPT_MINI].is_known);
	assert_true(found.files[KEPT_BINARY].is_known);
	for (size_t i = 0; i < DWARF_FILES; i++) {
		for (size_t j = 0; j < SECTIONS; j++) {
			const struct dwarf_bytes *section = &found.contents[i].sections[j];

			if (!kept.contents[i].sections[j].data) {
				assert_null(section->data);
				continue;
			}
			assert_int_equal(section->size, text.size);
			assert_memory_equal(section->data, text.data, text.size);
		}
	}
	read_program(&file, false);
	assert_true(elf_unpack(&file, &found.files[KEPT_BINARY].packed,
			       found.files[KEPT_BINARY].parts[0].iov_base));
	assert_same_functions(&whole, &file);
	elf_clear(&file);
	/* What was found can be kept again, with more. */
	again = found;
	copy = write_all(&again);
	assert_int_equal(copy.size, bytes.size);
	assert_memory_equal(copy.bytes, bytes.bytes, copy.size);
	free(copy.bytes);
	free(bytes.bytes);
}

static void files_without_functions_are_known(void **state)
{
	struct kept_symbols kept = {0}, found;
	struct elf_file none = {0};
	struct symbol symbol;
	struct bytes bytes;

	(void)state;
	kept.files[KEPT_MINI].is_known = true;
	elf_pack(&none, &kept.files[KEPT_MINI].packed, kept.files[KEPT_MINI].parts);
	bytes = write_all(&kept);
	assert_true(kept_symbols_read(&found, bytes.bytes, bytes.size));
	assert_true(found.files[KEPT_MINI].is_known);
	assert_true(elf_unpack(&none, &found.files[KEPT_MINI].packed,
			       found.files[KEPT_MINI].parts[0].iov_base));
	assert_false(elf_lookup(&none, 0, &symbol));
	elf_clear(&none);
	free(bytes.bytes);
}

static void errors_of_the_writer_end_it(void **state)
{
	struct kept_symbols kept = {0};

	(void)state;
	set_functions(&kept, KEPT_BINARY);
	kept.contents[0].sections[SECTION_STR] = text;
	for (size_t calls = 1; calls < 6; calls++) {
		struct bytes all = {.capacity = kept_symbols_size(&kept), .calls_max = calls};

		all.bytes = malloc(all.capacity);
		assert_non_null(all.bytes);
		assert_int_equal(kept_symbols_write(&kept, add_bytes, &all), -EPIPE);
		free(all.bytes);
	}
}

/* Uses all that was found in bytes of exactly this size, so that the sanitizer finds a bad access.
 */
static void use_any(const char *bytes, size_t size)
{
	char *copy = malloc(size + !size);
	struct kept_symbols found;
	struct elf_file file;
	struct symbol symbol;
	size_t sum = 0;

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	kept_symbols_read(&found, copy, size);
	for (size_t i = 0; i < KEPT_FILES; i++) {
		file = (struct elf_file){0};
		if (!found.files[i].is_known ||
		    !elf_unpack(&file, &found.files[i].packed, found.files[i].parts[0].iov_base))
			continue;
		for (unsigned int j = 0; j < ADDRESSES; j += 40) {
			uint64_t start = 0, end = UINT64_MAX;

			if (elf_lookup(&file, address_at(j), &symbol))
				sum += strlen(symbol.name);
			elf_lookup_range(&file, address_at(j), &start, &end);
		}
		elf_clear(&file);
	}
	for (size_t i = 0; i < DWARF_FILES * SECTIONS; i++) {
		const struct dwarf_bytes *section =
			&found.contents[i / SECTIONS].sections[i % SECTIONS];

		for (size_t j = 0; section->data && j < section->size; j++)
			sum += section->data[j];
	}
	assert_true(sum < SIZE_MAX);
	free(copy);
}

/* A checksum finds damage; without it, nothing is read that is not there. */
static void damaged_bytes_do_no_harm(void **state)
{
	struct kept_symbols kept = {0}, found;
	struct bytes bytes;
	uint64_t number;

	(void)state;
	set_functions(&kept, KEPT_DEBUG);
	kept.contents[1].sections[SECTION_STR] = text;
	bytes = write_all(&kept);
	/* Each number of the head, and some others. */
	for (size_t at = 0; at + sizeof(number) <= bytes.size;
	     at += at < 300 ? sizeof(number) : bytes.size / 200 / 8 * 8) {
		static const uint64_t values[] = {0,         1, 7, 8, UINT32_MAX, UINT64_MAX - 7,
						  UINT64_MAX};

		memcpy(&number, bytes.bytes + at, sizeof(number));
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			memcpy(bytes.bytes + at, &values[i], sizeof(number));
			use_any(bytes.bytes, bytes.size);
		}
		memcpy(bytes.bytes + at, &number, sizeof(number));
	}
	for (size_t i = 0; i < 100; i++)
		use_any(bytes.bytes, bytes.size * i / 100);
	assert_false(kept_symbols_read(&found, bytes.bytes, bytes.size - 8));
	assert_false(kept_symbols_read(&found, bytes.bytes, bytes.size - 1));
	assert_false(kept_symbols_read(&found, bytes.bytes, 0));
	free(bytes.bytes);
}

static int read_whole(void **state)
{
	(void)state;
	read_program(&whole, true);
	return whole.load_count == 0;
}

static int clear_whole(void **state)
{
	(void)state;
	elf_clear(&whole);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_is_the_same),
		cmocka_unit_test(files_without_functions_are_known),
		cmocka_unit_test(errors_of_the_writer_end_it),
		cmocka_unit_test(damaged_bytes_do_no_harm),
	};

	return cmocka_run_group_tests_name("kept_symbols", tests, read_whole, clear_whole);
}
