// SPDX-License-Identifier: GPL-2.0
#include "symbolize/kept_symbols.h"

#include <sys/param.h>

#define PADDING sizeof(uint64_t)

/* The beginning; the functions of the files follow, then the sections, each with padding. */
struct head {
	uint64_t is_known[KEPT_FILES];
	struct elf_packed packed[KEPT_FILES];
	uint64_t section_sizes[DWARF_FILES][SECTIONS]; /* 0: unknown */
};

static size_t functions_size(const struct kept_symbols *kept, size_t file)
{
	return kept->files[file].parts[0].iov_len + kept->files[file].parts[1].iov_len;
}

static size_t section_size(const struct kept_symbols *kept, size_t file, size_t section)
{
	const struct dwarf_bytes *bytes = &kept->contents[file].sections[section];

	return bytes->data ? bytes->size : 0;
}

size_t kept_symbols_size(const struct kept_symbols *kept)
{
	size_t size = sizeof(struct head);

	for (size_t i = 0; i < KEPT_FILES; i++)
		size += roundup(functions_size(kept, i), PADDING);
	for (size_t i = 0; i < DWARF_FILES; i++) {
		for (size_t j = 0; j < SECTIONS; j++)
			size += roundup(section_size(kept, i, j), PADDING);
	}
	return size;
}

/* Writes what makes a size a multiple of the padding. */
static int write_padding(size_t size, kept_symbols_fn write, void *arg)
{
	static const char zeros[PADDING];
	const size_t padding = roundup(size, PADDING) - size;

	return padding ? write(arg, zeros, padding) : 0;
}

static int kept_symbols_write_functions(const struct iovec parts[ELF_PARTS], kept_symbols_fn write,
					void *arg)
{
	size_t size = 0;
	int err = 0;

	for (size_t i = 0; i < ELF_PARTS && !err; i++) {
		if (parts[i].iov_len)
			err = write(arg, parts[i].iov_base, parts[i].iov_len);
		size += parts[i].iov_len;
	}
	return err ? err : write_padding(size, write, arg);
}

static int write_section(const struct dwarf_bytes *bytes, kept_symbols_fn write, void *arg)
{
	int err = write(arg, bytes->data, bytes->size);

	return err ? err : write_padding(bytes->size, write, arg);
}

int kept_symbols_write(const struct kept_symbols *kept, kept_symbols_fn write, void *arg)
{
	struct head head = {0};
	int err;

	for (size_t i = 0; i < KEPT_FILES; i++) {
		head.is_known[i] = kept->files[i].is_known;
		if (kept->files[i].is_known)
			head.packed[i] = kept->files[i].packed;
	}
	for (size_t i = 0; i < DWARF_FILES; i++) {
		for (size_t j = 0; j < SECTIONS; j++)
			head.section_sizes[i][j] = section_size(kept, i, j);
	}
	err = write(arg, &head, sizeof(head));
	for (size_t i = 0; i < KEPT_FILES && !err; i++)
		err = kept_symbols_write_functions(kept->files[i].parts, write, arg);
	for (size_t i = 0; i < DWARF_FILES; i++) {
		for (size_t j = 0; j < SECTIONS && !err; j++) {
			if (section_size(kept, i, j))
				err = write_section(&kept->contents[i].sections[j], write, arg);
		}
	}
	return err;
}

static bool kept_symbols_read_functions(struct kept_symbols *kept, const struct head *head,
					size_t i, const char **next, const char *end)
{
	const size_t size = elf_packed_size(&head->packed[i], (size_t)(end - *next));

	if (!head->is_known[i])
		return true;
	if (size == SIZE_MAX)
		return false;
	kept->files[i].is_known = true;
	kept->files[i].packed = head->packed[i];
	kept->files[i].parts[0] = (struct iovec){(void *)*next, size};
	/* What is left is a multiple of the padding. */
	*next += roundup(size, PADDING);
	return true;
}

static bool kept_symbols_read_section(struct dwarf_bytes *bytes, uint64_t size, const char **next,
				      const char *end)
{
	const size_t left = (size_t)(end - *next);

	if (!size)
		return true;
	if (size > left)
		return false;
	*bytes = (struct dwarf_bytes){(const unsigned char *)*next, size};
	*next += roundup(size, PADDING);
	return true;
}

bool kept_symbols_read(struct kept_symbols *kept, const void *bytes, size_t size)
{
	const char *next = bytes, *const end = next + size;
	const struct head *head = bytes;
	bool valid = size >= sizeof(*head) && size % PADDING == 0;

	*kept = (struct kept_symbols){0};
	next += valid ? sizeof(*head) : 0;
	for (size_t i = 0; i < KEPT_FILES && valid; i++)
		valid = kept_symbols_read_functions(kept, head, i, &next, end);
	for (size_t i = 0; i < DWARF_FILES; i++) {
		for (size_t j = 0; j < SECTIONS && valid; j++)
			valid = kept_symbols_read_section(&kept->contents[i].sections[j],
							  head->section_sizes[i][j], &next, end);
	}
	if (!valid)
		*kept = (struct kept_symbols){0};
	return valid;
}
