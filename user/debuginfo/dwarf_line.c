// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/dwarf_line.h"

#include <dwarf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/array.h"
#include "lib/upper_bound.h"

/* Limit of sequences that are searched for an address. */
#define OVERLAP_MAX 16u

/* A line number program with the values of its header. */
struct program {
	struct cursor cursor;
	struct dwarf_layout layout;
	uint8_t instruction_size; /* bytes of the shortest one */
	uint8_t operations; /* per instruction; 1 except for VLIW */
	int8_t line_base;
	uint8_t line_range;
	uint8_t opcode_base;
	uint8_t lengths[UINT8_MAX]; /* number of operands of each standard opcode; [0] is unused */
	dwarf_next_address_fn next_address;
	void *arg; /* of next_address */
};

/* Registers of the state machine. */
struct line_machine {
	uint64_t address;
	uint64_t operation; /* in a VLIW instruction */
	uint64_t file;
	uint64_t line;
	/* The current row, which ends at the next one. */
	bool has_row;
	uint64_t row_address, row_file, row_line;
	uint64_t wanted; /* the lowest address to look up at or above the current row */
	uint64_t start; /* of the sequence */
	size_t first; /* first row of the sequence that is kept */
};

/* Files and directories */

static int add_directory(struct dwarf_lines *lines, struct dwarf_value name)
{
	if (array_reserve(&lines->directories, &lines->directory_capacity, lines->directory_count,
			  1, sizeof(*lines->directories)) != 0)
		return -ENOMEM;
	lines->directories[lines->directory_count++] = name;
	return 0;
}

static int line_add_file(struct dwarf_lines *lines, struct dwarf_file file)
{
	if (array_reserve(&lines->files, &lines->file_capacity, lines->file_count, 1,
			  sizeof(*lines->files)) != 0)
		return -ENOMEM;
	lines->files[lines->file_count++] = file;
	return 0;
}

/* DWARF 2 to 4: strings up to an empty one. The lists omit index 0. */
static int read_old_names(struct dwarf_lines *lines, struct cursor *cursor)
{
	struct dwarf_value string = {.form = DW_FORM_string};
	struct dwarf_file file;
	int err;

	err = add_directory(lines, (struct dwarf_value){0});
	while (!err && (string.string = cursor_string(cursor)) && *string.string)
		err = add_directory(lines, string);
	if (!err)
		err = line_add_file(lines, (struct dwarf_file){0});
	while (!err && (string.string = cursor_string(cursor)) && *string.string) {
		file = (struct dwarf_file){.name = string, .directory = cursor_uleb128(cursor)};
		cursor_uleb128(cursor); /* time */
		cursor_uleb128(cursor); /* size */
		err = line_add_file(lines, file);
	}
	return err;
}

/* Reads an entry of a list of DWARF 5. `formats` is at its pairs of content type and form. */
static struct dwarf_file read_new_name(struct cursor *cursor, struct cursor formats,
				       uint8_t format_count, struct dwarf_layout layout)
{
	struct dwarf_file file = {0};
	struct dwarf_value value;
	uint64_t content;

	for (uint8_t i = 0; i < format_count; i++) {
		content = cursor_uleb128(&formats);
		if (!dwarf_value_read(cursor, cursor_uleb128(&formats), layout, &value))
			break;
		if (content == DW_LNCT_path)
			file.name = value;
		else if (content == DW_LNCT_directory_index)
			file.directory = value.number;
	}
	return file;
}

static int read_new_names(struct dwarf_lines *lines, struct cursor *cursor,
			  struct dwarf_layout layout, bool directories)
{
	uint8_t format_count = cursor_u8(cursor);
	const struct cursor formats = *cursor;
	const unsigned char *start;
	struct dwarf_file file;
	uint64_t count;
	int err = 0;

	for (uint32_t i = 0; i < 2u * format_count; i++)
		cursor_uleb128(cursor);
	count = cursor_uleb128(cursor);
	if (format_count == 0)
		return 0;
	/* Some forms have no bytes. An entry without bytes ends the list: the count may be huge. */
	for (uint64_t i = 0; i < count && !err; i++) {
		start = cursor->at;
		file = read_new_name(cursor, formats, format_count, layout);
		if (cursor->broken || cursor->at == start)
			break;
		err = directories ? add_directory(lines, file.name) : line_add_file(lines, file);
	}
	return err;
}

/* Returns NULL for an index out of range. */
static const char *directory_name(const struct dwarf_lines *lines, uint64_t number)
{
	if (number >= lines->directory_count)
		return NULL;
	return dwarf_string(lines->unit, &lines->directories[number]);
}

/* Returns NULL for strings that are too long for a path. */
static const char *bounded_path(const char *path)
{
	return path && strnlen(path, PATH_MAX) < PATH_MAX ? path : NULL;
}

static char *line_file_path(const struct dwarf_lines *lines, const struct dwarf_file *file)
{
	const char *name = bounded_path(dwarf_string(lines->unit, &file->name));
	const char *base = bounded_path(lines->unit->directory), *directory = NULL;
	char *path;

	if (!name)
		return NULL;
	/* Index 0 is the directory of the unit; others are relative to it. */
	if (*name != '/' && file->directory > 0)
		directory = bounded_path(directory_name(lines, file->directory));
	if (*name == '/' || (directory && *directory == '/'))
		base = NULL;
	if (asprintf(&path, "%s%s%s%s%s", base ? base : "", base ? "/" : "",
		     directory ? directory : "", directory ? "/" : "", name) < 0)
		return NULL;
	return path;
}

const char *dwarf_lines_path(struct dwarf_lines *lines, uint64_t file)
{
	if (file >= lines->file_count)
		return NULL;
	if (!lines->paths[file])
		lines->paths[file] = line_file_path(lines, &lines->files[file]);
	return lines->paths[file];
}

/* Line number programs */

/* Moves the cursor of the program to its first instruction. False: the header is broken. */
static bool line_read_header(struct program *program, struct cursor *names)
{
	struct cursor *cursor = &program->cursor;
	uint64_t length = cursor_u32(cursor);
	uint16_t version;

	program->layout.offset_size = 4;
	if (length == UINT32_MAX) {
		program->layout.offset_size = 8;
		length = cursor_u64(cursor);
	}
	if (length > cursor_left(cursor))
		return false;
	cursor->end = cursor->at + length;
	version = cursor_u16(cursor);
	if (version < 2 || version > 5)
		return false;
	program->layout.version = (uint8_t)version;
	if (program->layout.version == 5) {
		program->layout.address_size = cursor_u8(cursor);
		cursor_u8(cursor); /* size of segment selectors */
	}
	length = cursor_number(cursor, program->layout.offset_size);
	*names = *cursor;
	if (!cursor_skip(cursor, length))
		return false;
	names->end = cursor->at;
	program->instruction_size = cursor_u8(names);
	program->operations = program->layout.version >= 4 ? cursor_u8(names) : 1;
	cursor_u8(names); /* default_is_stmt */
	program->line_base = (int8_t)cursor_u8(names);
	program->line_range = cursor_u8(names);
	program->opcode_base = cursor_u8(names);
	for (unsigned int i = 1; i < program->opcode_base; i++)
		program->lengths[i] = cursor_u8(names);
	return !names->broken && program->line_range > 0 && program->opcode_base > 0;
}

static struct line_machine first_state(const struct dwarf_lines *lines)
{
	return (struct line_machine){.file = 1, .line = 1, .first = lines->row_count};
}

static inline void line_advance(struct line_machine *machine, const struct program *program,
				uint64_t operations)
{
	if (program->operations <= 1) {
		machine->address += operations * program->instruction_size;
		return;
	}
	operations += machine->operation;
	machine->address += operations / program->operations * program->instruction_size;
	machine->operation = operations % program->operations;
}

static int append_row(struct dwarf_lines *lines, const struct line_machine *machine)
{
	if (array_reserve(&lines->rows, &lines->row_capacity, lines->row_count, 1,
			  sizeof(*lines->rows)) != 0)
		return -ENOMEM;
	lines->rows[lines->row_count++] = (struct dwarf_row){
		.address = machine->row_address,
		.file = machine->row_file > UINT32_MAX ? UINT32_MAX : (uint32_t)machine->row_file,
		.line = machine->row_line > UINT32_MAX ? 0 : (uint32_t)machine->row_line,
	};
	return 0;
}

/* Ends the current row, keeps it if it holds an address to look up, and begins the next. */
static inline int line_add_row(struct dwarf_lines *lines, const struct program *program,
			       struct line_machine *machine)
{
	int err = 0;

	if (!machine->has_row)
		machine->start = machine->address;
	else if (machine->address > machine->wanted)
		err = append_row(lines, machine);
	/* Addresses decrease only in a broken sequence. */
	if (!machine->has_row || machine->address > machine->wanted ||
	    machine->address < machine->row_address)
		machine->wanted = program->next_address(program->arg, machine->address);
	machine->has_row = true;
	machine->row_address = machine->address;
	machine->row_file = machine->file;
	machine->row_line = machine->line;
	return err;
}

static int end_sequence(struct dwarf_lines *lines, struct line_machine *machine)
{
	struct dwarf_sequence sequence = {
		.start = machine->start,
		.end = machine->address,
		.first = machine->first,
	};

	if (machine->has_row && machine->address > machine->wanted &&
	    append_row(lines, machine) != 0)
		return -ENOMEM;
	sequence.count = lines->row_count - machine->first;
	if (sequence.count == 0 || sequence.start >= sequence.end) {
		lines->row_count = machine->first;
	} else {
		if (array_reserve(&lines->sequences, &lines->sequence_capacity,
				  lines->sequence_count, 1, sizeof(sequence)) != 0)
			return -ENOMEM;
		lines->sequences[lines->sequence_count++] = sequence;
	}
	*machine = first_state(lines);
	return 0;
}

static int run_extended(struct dwarf_lines *lines, struct program *program,
			struct line_machine *machine)
{
	uint64_t length = cursor_uleb128(&program->cursor);
	struct cursor inside = program->cursor;
	size_t size;

	if (!cursor_skip(&program->cursor, length))
		return 0;
	inside.end = program->cursor.at;
	switch (cursor_u8(&inside)) {
	case DW_LNE_end_sequence:
		return end_sequence(lines, machine);
	case DW_LNE_set_address:
		size = cursor_left(&inside);
		if (size <= sizeof(uint64_t))
			machine->address = cursor_number(&inside, size);
		machine->operation = 0;
		break;
	case DW_LNE_define_file:
		/* No compiler emits these; they would shift the indices of files. */
		cursor_break(&program->cursor);
		break;
	}
	return 0;
}

static inline int run_standard(struct dwarf_lines *lines, struct program *program,
			       struct line_machine *machine, uint8_t opcode)
{
	struct cursor *cursor = &program->cursor;

	switch (opcode) {
	case DW_LNS_copy:
		return line_add_row(lines, program, machine);
	case DW_LNS_advance_pc:
		line_advance(machine, program, cursor_uleb128(cursor));
		break;
	case DW_LNS_advance_line:
		machine->line += (uint64_t)cursor_sleb128(cursor);
		break;
	case DW_LNS_set_file:
		machine->file = cursor_uleb128(cursor);
		break;
	case DW_LNS_const_add_pc:
		line_advance(machine, program,
			     (uint8_t)(UINT8_MAX - program->opcode_base) / program->line_range);
		break;
	case DW_LNS_fixed_advance_pc:
		machine->address += cursor_u16(cursor);
		machine->operation = 0;
		break;
	default:
		for (uint8_t i = 0; i < program->lengths[opcode]; i++)
			cursor_uleb128(cursor);
	}
	return 0;
}

static inline int run_special(struct dwarf_lines *lines, const struct program *program,
			      struct line_machine *machine, uint8_t opcode)
{
	uint8_t adjusted = opcode - program->opcode_base;

	line_advance(machine, program, adjusted / program->line_range);
	machine->line += (uint64_t)(program->line_base + adjusted % program->line_range);
	return line_add_row(lines, program, machine);
}

static int run_program(struct dwarf_lines *lines, struct program *program)
{
	struct line_machine machine = first_state(lines);
	int err = 0;
	uint8_t opcode;

	while (!err && cursor_left(&program->cursor) > 0) {
		opcode = cursor_u8(&program->cursor);
		if (opcode >= program->opcode_base)
			err = run_special(lines, program, &machine, opcode);
		else if (opcode == 0)
			err = run_extended(lines, program, &machine);
		else
			err = run_standard(lines, program, &machine, opcode);
	}
	lines->row_count = machine.first; /* drop a sequence without an end */
	return err;
}

/* Line tables */

static int compare_sequences(const void *a, const void *b)
{
	const struct dwarf_sequence *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static int read_table(struct dwarf_lines *lines, dwarf_next_address_fn next_address, void *arg)
{
	const struct dwarf_unit *unit = lines->unit;
	const struct dwarf_bytes *bytes = &unit->dwarf->sections[SECTION_LINE];
	struct program program = {.layout = unit->layout, .next_address = next_address, .arg = arg};
	struct cursor names;
	int err;

	program.cursor = cursor_at(bytes->data, bytes->size, unit->stmt_list.number);
	if (!line_read_header(&program, &names))
		return 0;
	lines->version = program.layout.version;
	if (lines->version < 5) {
		err = read_old_names(lines, &names);
	} else {
		err = read_new_names(lines, &names, program.layout, true);
		if (!err)
			err = read_new_names(lines, &names, program.layout, false);
	}
	if (!err && next_address)
		err = run_program(lines, &program);
	return err;
}

int dwarf_lines_read(struct dwarf_lines *lines, const struct dwarf_unit *unit,
		     dwarf_next_address_fn next_address, void *arg)
{
	int err;

	*lines = (struct dwarf_lines){.unit = unit};
	if (!unit->stmt_list.form)
		return 0;
	err = read_table(lines, next_address, arg);
	if (!err && lines->file_count > 0) {
		lines->paths = calloc(lines->file_count, sizeof(*lines->paths));
		if (!lines->paths)
			err = -ENOMEM;
	}
	if (err)
		dwarf_lines_clear(lines);
	else if (lines->sequence_count > 0)
		qsort(lines->sequences, lines->sequence_count, sizeof(*lines->sequences),
		      compare_sequences);
	return err;
}

void dwarf_lines_clear(struct dwarf_lines *lines)
{
	for (size_t i = 0; lines->paths && i < lines->file_count; i++)
		free(lines->paths[i]);
	free(lines->paths);
	free(lines->directories);
	free(lines->files);
	free(lines->rows);
	free(lines->sequences);
	*lines = (struct dwarf_lines){0};
}

static const struct dwarf_sequence *sequence_at(const struct dwarf_lines *lines, uint64_t address)
{
	size_t i = upper_bound(lines->sequences, lines->sequence_count, sizeof(*lines->sequences),
			       address);

	for (uint32_t steps = 0; i > 0 && steps < OVERLAP_MAX; i--, steps++) {
		if (address < lines->sequences[i - 1].end)
			return &lines->sequences[i - 1];
	}
	return NULL;
}

const struct dwarf_row *dwarf_lines_at(const struct dwarf_lines *lines, uint64_t address)
{
	const struct dwarf_sequence *sequence = sequence_at(lines, address);
	const struct dwarf_row *rows;
	size_t after;

	if (!sequence)
		return NULL;
	rows = lines->rows + sequence->first;
	after = upper_bound(rows, sequence->count, sizeof(*rows), address);
	return after > 0 ? &rows[after - 1] : NULL;
}
