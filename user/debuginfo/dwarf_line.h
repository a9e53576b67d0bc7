/* SPDX-License-Identifier: GPL-2.0 */
/* The line table of a unit of DWARF: which line of which file an address belongs to. */
#ifndef STACKBEAT_DEBUGINFO_DWARF_LINE_H
#define STACKBEAT_DEBUGINFO_DWARF_LINE_H

#include "debuginfo/dwarf_unit.h"

struct dwarf_row {
	uint64_t address; /* first, for upper_bound() */
	uint32_t file, line;
};

/* Rows of code that lies together. */
struct dwarf_sequence {
	uint64_t start; /* first, for upper_bound() */
	uint64_t end;
	size_t first, count; /* rows */
};

struct dwarf_file {
	struct dwarf_value name;
	uint64_t directory; /* its number */
};

struct dwarf_lines {
	const struct dwarf_unit *unit;
	uint8_t version;
	struct dwarf_value *directories;
	size_t directory_count, directory_capacity;
	struct dwarf_file *files;
	size_t file_count, file_capacity;
	char **paths; /* of the files, made when asked for */
	struct dwarf_row *rows;
	size_t row_count, row_capacity;
	struct dwarf_sequence *sequences; /* sorted by start */
	size_t sequence_count, sequence_capacity;
};

/* The lowest address from one on of which the row is wanted; UINT64_MAX: there is none. */
typedef uint64_t (*dwarf_lines_wanted)(void *arg, uint64_t address);

/*
 * Reads the table of a unit, as far as it is sound; those rows only that hold an address
 * that is wanted, none of them where `wanted` is NULL. Returns 0, and dwarf_lines_clear()
 * must follow, or -ENOMEM.
 */
int dwarf_lines_read(struct dwarf_lines *lines, const struct dwarf_unit *unit,
		     dwarf_lines_wanted wanted, void *arg);
void dwarf_lines_clear(struct dwarf_lines *lines);

/* The last row at or before an address; NULL where no code is known to be. */
const struct dwarf_row *dwarf_lines_at(const struct dwarf_lines *lines, uint64_t address);

/*
 * The path of a file, with its directory. Owned by the table. NULL where it has no
 * such file, or when out of memory.
 */
const char *dwarf_lines_path(struct dwarf_lines *lines, uint64_t file);

#endif
