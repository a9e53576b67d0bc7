/* SPDX-License-Identifier: GPL-2.0 */
/* Line tables of DWARF units: from addresses to files and lines. */
#ifndef STACKBEAT_DEBUGINFO_DWARF_LINE_H
#define STACKBEAT_DEBUGINFO_DWARF_LINE_H

#include "debuginfo/dwarf_unit.h"

struct dwarf_row {
	uint64_t address; /* first, for upper_bound() */
	uint32_t file, line;
};

/* Rows of contiguous code. */
struct dwarf_sequence {
	uint64_t start; /* first, for upper_bound() */
	uint64_t end;
	size_t first, count; /* rows */
};

struct dwarf_file {
	struct dwarf_value name;
	uint64_t directory; /* index of the directory */
};

struct dwarf_lines {
	const struct dwarf_unit *unit;
	uint8_t version;
	struct dwarf_value *directories;
	size_t directory_count, directory_capacity;
	struct dwarf_file *files;
	size_t file_count, file_capacity;
	char **paths; /* of the files, built on demand */
	struct dwarf_row *rows;
	size_t row_count, row_capacity;
	struct dwarf_sequence *sequences; /* sorted by start */
	size_t sequence_count, sequence_capacity;
};

/* Returns the lowest address to look up that is at or above `address`, or UINT64_MAX. */
typedef uint64_t (*dwarf_next_address_fn)(void *arg, uint64_t address);

/*
 * Reads the table of a unit up to the first broken part. Keeps only rows that hold an address of
 * `next_address`; no rows, but files, if that is NULL. Returns 0, to be followed by
 * dwarf_lines_clear(), or -ENOMEM.
 */
int dwarf_lines_read(struct dwarf_lines *lines, const struct dwarf_unit *unit,
		     dwarf_next_address_fn next_address, void *arg);
void dwarf_lines_clear(struct dwarf_lines *lines);

/* Returns the row that holds an address, or NULL. */
const struct dwarf_row *dwarf_lines_at(const struct dwarf_lines *lines, uint64_t address);

/*
 * Returns the path of a file, with its directory. The table owns the string. NULL: no such file, or
 * out of memory.
 */
const char *dwarf_lines_path(struct dwarf_lines *lines, uint64_t file);

#endif
