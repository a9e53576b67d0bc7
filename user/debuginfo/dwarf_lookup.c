// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/dwarf_lookup.h"

#include "debuginfo/dwarf_line.h"
#include "debuginfo/dwarf_range.h"
#include "debuginfo/dwarf_unit.h"
#include "lib/array.h"
#include "lib/upper_bound.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>

/* Beyond these a file is broken or means harm. */
#define UNIT_RANGES_MAX (1u << 22)
#define TREE_DEPTH_MAX 256u
#define ORIGINS_MAX 16u /* entries that an entry refers to, one after the other */
#define OVERLAP_MAX 64u /* units at one address */

#define NONE UINT32_MAX

#define FUNCTION_SLOTS (RANGE_SLOTS | SLOT_BIT(SLOT_CALL_FILE) | SLOT_BIT(SLOT_CALL_LINE))
#define NAME_SLOTS                                                                                 \
	(SLOT_BIT(SLOT_ORIGIN) | SLOT_BIT(SLOT_SPECIFICATION) | SLOT_BIT(SLOT_NAME) |              \
	 SLOT_BIT(SLOT_LINKAGE_NAME) | SLOT_BIT(SLOT_DECL_FILE) | SLOT_BIT(SLOT_DECL_LINE))

struct range {
	uint64_t start, end;
};

struct unit_range {
	uint64_t start, end;
	uint64_t reach; /* the highest end of this range and those before it */
	uint32_t unit;
};

struct dwarf_lookup {
	struct dwarf dwarf, alt;
	struct range *code; /* executable sections, sorted */
	size_t code_count, code_capacity;
	struct unit_range *ranges; /* sorted by start */
	size_t range_count, range_capacity;
};

/* One of the addresses asked for. */
struct address {
	uint64_t vaddr; /* first, for upper_bound() */
	uint64_t size; /* of the range by which it got its function */
	size_t index;
	uint32_t unit;
	uint32_t function; /* index in walk->functions, or NONE */
};

/* A function, or an inlined instance of it, that holds an address asked for. */
struct function {
	uint64_t entry; /* offset of it in the unit's section */
	uint64_t start;
	uint32_t outer; /* it is inlined there; NONE if it is not inlined */
	uint32_t call_file, call_line; /* where it is called, if inlined */
	bool named;
	bool is_declared; /* declared_in is known */
	uint32_t declared_in; /* its file, by number in this unit; NONE: of another one */
	char *declared_path; /* then; or NULL */
	struct dwarf_frame name;
};

/* An entry whose children are being read. */
struct level {
	uint32_t scope; /* the innermost level at or above it that is a function, or NONE */
	uint32_t outer_scope; /* that of the level above */
	uint32_t function; /* index, or NONE as long as it is not needed */
	bool is_inlined;
	uint32_t call_file, call_line;
	uint64_t entry, start;
};

/* One unit at work. */
struct walk {
	const struct dwarf_unit *unit;
	const struct dwarf_abbrevs *abbrevs;
	struct cursor cursor;
	struct address *addresses;
	size_t address_count;
	bool types; /* functions may be in them */
	int error;
	struct level levels[TREE_DEPTH_MAX];
	uint32_t depth;
	struct function *functions;
	size_t function_count, function_capacity;
	struct dwarf_lines lines;
	struct dwarf_lines other; /* the files of another unit */
};

/* Opening */

static int compare_starts(const void *a, const void *b)
{
	uint64_t left, right;

	memcpy(&left, a, sizeof(left));
	memcpy(&right, b, sizeof(right));
	return (left > right) - (left < right);
}

static int read_code_sections(struct dwarf_lookup *info, Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_EXECINSTR) ||
		    header.sh_size == 0 || header.sh_size > UINT64_MAX - header.sh_addr)
			continue;
		if (array_reserve(&info->code, &info->code_capacity, info->code_count, 1,
				  sizeof(*info->code)) != 0)
			return -ENOMEM;
		info->code[info->code_count++] =
			(struct range){header.sh_addr, header.sh_addr + header.sh_size};
	}
	if (info->code_count > 0)
		qsort(info->code, info->code_count, sizeof(*info->code), compare_starts);
	return 0;
}

/* Functions that the linker has dropped lie at 0 or another place that is no code. */
static bool is_code(const struct dwarf_lookup *info, uint64_t vaddr)
{
	size_t after = upper_bound(info->code, info->code_count, sizeof(*info->code), vaddr);

	return after > 0 && vaddr < info->code[after - 1].end;
}

static int add_ranges(struct dwarf_lookup *info, uint32_t unit, struct dwarf_ranges ranges)
{
	uint64_t start, end;

	while (dwarf_ranges_next(&ranges, &start, &end)) {
		if (!is_code(info, start) || info->range_count >= UNIT_RANGES_MAX)
			continue;
		if (array_reserve(&info->ranges, &info->range_capacity, info->range_count, 1,
				  sizeof(*info->ranges)) != 0)
			return -ENOMEM;
		info->ranges[info->range_count++] =
			(struct unit_range){.start = start, .end = end, .unit = unit};
	}
	return 0;
}

/* Of a unit that does not say what code is in it. */
static int add_ranges_of_functions(struct dwarf_lookup *info, uint32_t index)
{
	const struct dwarf_unit *unit = &info->dwarf.units[index];
	const struct dwarf_abbrevs *abbrevs = dwarf_abbrevs_of(unit);
	struct cursor cursor = dwarf_cursor(unit, unit->entries);
	struct dwarf_entry entry;
	int result = 0;

	if (!abbrevs)
		return -ENOMEM;
	while (result == 0 && dwarf_entry_read(&cursor, unit, abbrevs, RANGE_SLOTS, &entry)) {
		if (entry.abbrev && entry.abbrev->kind == KIND_FUNCTION)
			result = add_ranges(info, index, dwarf_ranges_of(unit, &entry));
	}
	return result;
}

static int add_unit(struct dwarf_lookup *info, uint32_t index)
{
	const struct dwarf_unit *unit = &info->dwarf.units[index];

	if (!unit->has_code)
		return 0;
	if (unit->ranges.form || (unit->has_low_pc && unit->high_pc.form))
		return add_ranges(info, index, dwarf_ranges_of_unit(unit));
	return add_ranges_of_functions(info, index);
}

static int read_units(struct dwarf_lookup *info)
{
	uint64_t reach = 0;
	int result = 0;

	for (size_t i = 0; i < info->dwarf.unit_count && result == 0; i++) {
		result = add_unit(info, (uint32_t)i);
		dwarf_trim(&info->dwarf);
	}
	if (info->range_count > 0)
		qsort(info->ranges, info->range_count, sizeof(*info->ranges), compare_starts);
	for (size_t i = 0; i < info->range_count; i++) {
		if (info->ranges[i].end > reach)
			reach = info->ranges[i].end;
		info->ranges[i].reach = reach;
	}
	return result;
}

int dwarf_lookup_open(Elf *elf, Elf *alt, struct dwarf_lookup **debuginfo, struct error *error)
{
	struct dwarf_lookup *info = calloc(1, sizeof(*info));
	int result = 0;

	if (!info)
		return error_errno(error, ENOMEM, "can't read debug information");
	if (alt)
		result = dwarf_read(&info->alt, alt, NULL, error);
	if (result == 0)
		result = dwarf_read(&info->dwarf, elf, alt ? &info->alt : NULL, error);
	if (result != 0)
		goto fail;
	result = read_code_sections(info, elf);
	if (result == 0)
		result = read_units(info);
	if (result != 0) {
		error_errno(error, -result, "can't read debug information");
		goto fail;
	}
	*debuginfo = info;
	return 0;
fail:
	dwarf_lookup_close(info);
	return result;
}

void dwarf_lookup_close(struct dwarf_lookup *debuginfo)
{
	if (!debuginfo)
		return;
	dwarf_clear(&debuginfo->dwarf);
	dwarf_clear(&debuginfo->alt);
	free(debuginfo->code);
	free(debuginfo->ranges);
	free(debuginfo);
}

/* The tree of a unit */

/* How many of the addresses are below `vaddr`. */
static size_t addresses_below(const struct walk *walk, uint64_t vaddr)
{
	return vaddr == 0 ? 0
			  : upper_bound(walk->addresses, walk->address_count,
					sizeof(*walk->addresses), vaddr - 1);
}

/* The index of the function of a level, which is added if it is not there yet. */
static uint32_t function_of(struct walk *walk, struct level *level)
{
	struct function function = {
		.entry = level->entry,
		.start = level->start,
		.outer = NONE,
	};

	if (level->function != NONE)
		return level->function;
	if (level->is_inlined && level->outer_scope != NONE) {
		function.outer = function_of(walk, &walk->levels[level->outer_scope]);
		function.call_file = level->call_file;
		function.call_line = level->call_line;
	}
	if (array_reserve(&walk->functions, &walk->function_capacity, walk->function_count, 1,
			  sizeof(*walk->functions)) != 0) {
		walk->error = -ENOMEM;
		return NONE;
	}
	walk->functions[walk->function_count] = function;
	level->function = (uint32_t)walk->function_count++;
	return level->function;
}

/* Where ranges overlap, the smallest one wins, and the inner one of equal ones. */
static void take_range(struct walk *walk, struct level *level, uint64_t start, uint64_t end)
{
	for (size_t i = addresses_below(walk, start);
	     i < walk->address_count && walk->addresses[i].vaddr < end; i++) {
		struct address *address = &walk->addresses[i];

		if (address->function != NONE && address->size < end - start)
			continue;
		address->function = function_of(walk, level);
		address->size = end - start;
	}
}

static void take_ranges(struct walk *walk, struct level *level, const struct dwarf_entry *entry)
{
	struct dwarf_ranges ranges;
	uint64_t start, end;

	if (!(entry->present & RANGE_SLOTS))
		return;
	ranges = dwarf_ranges_of(walk->unit, entry);
	if (ranges.low < ranges.high)
		level->start = ranges.low;
	while (dwarf_ranges_next(&ranges, &start, &end))
		take_range(walk, level, start, end);
}

/* The walk ends where the file makes no sense any more. */
static bool begin_entry(struct walk *walk, struct dwarf_entry *entry)
{
	return walk->error == 0 &&
	       dwarf_entry_begin(&walk->cursor, walk->unit, walk->abbrevs, entry);
}

static bool end_entry(struct walk *walk, uint32_t slots, struct dwarf_entry *entry)
{
	return dwarf_entry_end(&walk->cursor, walk->unit, walk->abbrevs, slots, entry);
}

/* Goes behind an entry's children if it says where that is. */
static bool go_to_sibling(struct walk *walk, const struct dwarf_entry *entry)
{
	const struct dwarf_value *sibling = dwarf_value(entry, SLOT_SIBLING);
	uint64_t offset;

	if (!sibling->form || dwarf_reference(walk->unit, sibling, &offset) != walk->unit ||
	    offset <= entry->offset)
		return false;
	walk->cursor = dwarf_cursor(walk->unit, offset);
	return true;
}

/* Skips an entry and what is below it. False at the end of the walk. */
static bool skip_entry(struct walk *walk, struct dwarf_entry *entry)
{
	uint64_t depth = 0;

	for (;;) {
		if (!entry->abbrev) {
			depth--;
		} else if (!dwarf_entry_pass(&walk->cursor, walk->unit, entry)) {
			if (!end_entry(walk, SLOT_BIT(SLOT_SIBLING), entry))
				return false;
			if (entry->abbrev->has_children && !go_to_sibling(walk, entry))
				depth++;
		}
		if (depth == 0)
			return true;
		if (!begin_entry(walk, entry))
			return false;
	}
}

static void visit_function(struct walk *walk, struct level *level, const struct dwarf_entry *entry)
{
	level->is_inlined = entry->abbrev->kind == KIND_INLINED;
	level->entry = entry->offset;
	level->call_file = dwarf_number(dwarf_value(entry, SLOT_CALL_FILE));
	level->call_line = dwarf_number(dwarf_value(entry, SLOT_CALL_LINE));
	level->scope = walk->depth;
	take_ranges(walk, level, entry);
}

/* C and C++ have code only in types of functions (lambdas), and many types. */
static bool has_code_in_types(const struct dwarf_unit *unit)
{
	switch (unit->language) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
		return false;
	default:
		return true;
	}
}

/* Whether functions that hold an address may be below an entry. */
static bool is_worth_it(const struct walk *walk, const struct level *level,
			const struct dwarf_entry *entry)
{
	switch (entry->abbrev->kind) {
	case KIND_INLINED:
		/* Nothing is inlined in a function outside of it. */
		return level->outer_scope == NONE ||
		       walk->levels[level->outer_scope].function != NONE;
	case KIND_UNIT:
	case KIND_FUNCTION: /* there may be others in it */
	case KIND_BLOCK:
		return true;
	case KIND_TYPE:
		return walk->types || level->outer_scope != NONE;
	default:
		return false;
	}
}

/* Reads what is needed of an entry, and goes below or behind it. False at the end of the walk. */
static bool visit(struct walk *walk, struct dwarf_entry *entry)
{
	struct level *level = &walk->levels[walk->depth];
	uint8_t kind = entry->abbrev->kind;
	bool is_function = kind == KIND_FUNCTION || kind == KIND_INLINED;

	*level = (struct level){.scope = NONE, .outer_scope = NONE, .function = NONE};
	if (walk->depth > 0)
		level->scope = level->outer_scope = walk->levels[walk->depth - 1].scope;
	if (walk->depth + 1 >= TREE_DEPTH_MAX || !is_worth_it(walk, level, entry))
		return skip_entry(walk, entry);
	if (!end_entry(walk, is_function ? FUNCTION_SLOTS : 0, entry))
		return false;
	if (is_function)
		visit_function(walk, level, entry);
	if (entry->abbrev->has_children)
		walk->depth++;
	return true;
}

/* Begins the next entry, behind those that never matter. False at the end of the walk. */
static bool next_entry(struct walk *walk, struct dwarf_entry *entry)
{
	struct cursor cursor = walk->cursor; /* of its own: it stays in registers */
	bool found;

	do {
		found = dwarf_entry_begin(&cursor, walk->unit, walk->abbrevs, entry);
	} while (found && entry->abbrev && entry->abbrev->kind == KIND_OTHER &&
		 dwarf_entry_pass(&cursor, walk->unit, entry));
	walk->cursor = cursor;
	return found && walk->error == 0;
}

static void find_functions(struct walk *walk)
{
	struct dwarf_entry entry;

	walk->types = has_code_in_types(walk->unit);
	walk->cursor = dwarf_cursor(walk->unit, walk->unit->entries);
	while (next_entry(walk, &entry)) {
		if (entry.abbrev) {
			if (!visit(walk, &entry))
				return;
		} else if (walk->depth-- <= 1) {
			return;
		}
	}
}

/* Names, files and lines */

static void take_names(const struct dwarf_unit *unit, const struct dwarf_entry *entry,
		       struct dwarf_frame *name)
{
	if (!name->linkage_name)
		name->linkage_name = dwarf_text(unit, dwarf_value(entry, SLOT_LINKAGE_NAME));
	if (!name->name)
		name->name = dwarf_text(unit, dwarf_value(entry, SLOT_NAME));
	if (!name->start_line)
		name->start_line = dwarf_number(dwarf_value(entry, SLOT_DECL_LINE));
}

static bool have_same_table(const struct dwarf_unit *a, const struct dwarf_unit *b)
{
	return a && a->dwarf == b->dwarf && a->stmt_list.number == b->stmt_list.number &&
	       a->directory == b->directory;
}

/* The path of a file of another unit, to be freed, or NULL. */
static char *path_of_other(struct walk *walk, const struct dwarf_unit *unit, uint32_t file)
{
	const char *path;

	if (!have_same_table(walk->other.unit, unit)) {
		dwarf_lines_clear(&walk->other);
		if (dwarf_lines_read(&walk->other, unit, NULL, NULL) != 0)
			return NULL;
	}
	path = dwarf_lines_path(&walk->other, file);
	return path ? strdup(path) : NULL;
}

static void take_declaration(struct walk *walk, const struct dwarf_unit *unit,
			     const struct dwarf_entry *entry, struct function *function)
{
	const struct dwarf_value *file = dwarf_value(entry, SLOT_DECL_FILE);

	if (function->is_declared || !file->form)
		return;
	function->is_declared = true;
	function->declared_in = unit == walk->unit ? dwarf_number(file) : NONE;
	if (unit != walk->unit)
		function->declared_path = path_of_other(walk, unit, dwarf_number(file));
}

/* Where the entry at an offset does not say it, the one that it refers to may. */
static void name_function(struct walk *walk, struct function *function)
{
	struct dwarf_frame *name = &function->name;
	const struct dwarf_abbrevs *abbrevs;
	const struct dwarf_unit *unit = walk->unit;
	uint64_t offset = function->entry;
	const struct dwarf_value *origin;
	struct dwarf_entry entry;
	struct cursor cursor;

	function->named = true;
	for (uint32_t i = 0; i < ORIGINS_MAX && unit; i++) {
		abbrevs = dwarf_abbrevs_of(unit);
		cursor = dwarf_cursor(unit, offset);
		if (!abbrevs || !dwarf_entry_read(&cursor, unit, abbrevs, NAME_SLOTS, &entry) ||
		    !entry.abbrev)
			return;
		take_names(unit, &entry, name);
		take_declaration(walk, unit, &entry, function);
		origin = dwarf_value(&entry, SLOT_ORIGIN);
		if (!origin->form)
			origin = dwarf_value(&entry, SLOT_SPECIFICATION);
		unit = dwarf_reference(unit, origin, &offset);
	}
}

static bool is_declared_in(const struct function *function, uint32_t file, const char *path)
{
	if (function->declared_in != NONE)
		return function->declared_in == file;
	return function->declared_path && path && strcmp(function->declared_path, path) == 0;
}

static struct dwarf_frame make_frame(struct walk *walk, const struct function *function,
				     uint32_t file, uint32_t line)
{
	const char *path = dwarf_lines_path(&walk->lines, file);
	struct dwarf_frame frame = {0};

	if (function) {
		frame = function->name;
		frame.start = function->outer == NONE ? function->start : 0;
		if (!is_declared_in(function, file, path))
			frame.start_line = 0;
	}
	frame.file = path;
	frame.line = line;
	return frame;
}

static int emit(struct walk *walk, const struct address *address, dwarf_lookup_fn callback,
		void *arg)
{
	const struct dwarf_row *row = dwarf_lines_at(&walk->lines, address->vaddr);
	struct dwarf_frame frames[INLINE_DEPTH_MAX];
	uint32_t file = row ? row->file : NONE, line = row ? row->line : 0;
	uint32_t index = address->function;
	struct function *function;
	size_t count = 0;

	if (index == NONE && row)
		frames[count++] = make_frame(walk, NULL, file, line);
	while (index < walk->function_count) {
		function = &walk->functions[index];
		if (!function->named)
			name_function(walk, function);
		if (count == INLINE_DEPTH_MAX) /* the last one is the one not inlined */
			count--;
		frames[count++] = make_frame(walk, function, file, line);
		file = function->call_file;
		line = function->call_line;
		index = function->outer;
	}
	return callback(arg, address->index, frames, count);
}

/* Units */

static uint64_t wanted_from(void *arg, uint64_t vaddr)
{
	const struct walk *walk = arg;
	size_t first = addresses_below(walk, vaddr);

	return first < walk->address_count ? walk->addresses[first].vaddr : UINT64_MAX;
}

static int walk_unit(struct dwarf_lookup *info, struct walk *walk)
{
	const struct address *first = walk->addresses;

	if (first->unit == NONE)
		return 0;
	walk->unit = &info->dwarf.units[first->unit];
	walk->abbrevs = dwarf_abbrevs_of(walk->unit);
	if (!walk->abbrevs)
		return -ENOMEM;
	find_functions(walk);
	if (walk->error != 0)
		return walk->error;
	return dwarf_lines_read(&walk->lines, walk->unit, wanted_from, walk);
}

/* All addresses of one unit. */
static int name_addresses(struct dwarf_lookup *info, struct address *addresses, size_t count,
			  dwarf_lookup_fn callback, void *arg)
{
	struct walk *walk = calloc(1, sizeof(*walk));
	int result;

	if (!walk)
		return -ENOMEM;
	walk->addresses = addresses;
	walk->address_count = count;
	result = walk_unit(info, walk);
	for (size_t i = 0; i < count && result == 0; i++)
		result = emit(walk, &addresses[i], callback, arg);
	dwarf_lines_clear(&walk->lines);
	dwarf_lines_clear(&walk->other);
	for (size_t i = 0; i < walk->function_count; i++)
		free(walk->functions[i].declared_path);
	free(walk->functions);
	free(walk);
	dwarf_trim(&info->dwarf);
	dwarf_trim(&info->alt);
	return result;
}

/*
 * Units share an address where each had the same function, of which the linker
 * has kept the first one and made the others point to it.
 */
static uint32_t unit_at(const struct dwarf_lookup *info, uint64_t vaddr)
{
	size_t i = upper_bound(info->ranges, info->range_count, sizeof(*info->ranges), vaddr);
	uint32_t unit = NONE;

	for (uint32_t steps = 0; i > 0 && steps < OVERLAP_MAX; i--, steps++) {
		const struct unit_range *range = &info->ranges[i - 1];

		if (vaddr >= range->reach)
			break;
		if (vaddr < range->end && range->unit < unit)
			unit = range->unit;
	}
	return unit;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct address *left = a, *right = b;

	if (left->unit != right->unit)
		return left->unit < right->unit ? -1 : 1;
	return (left->vaddr > right->vaddr) - (left->vaddr < right->vaddr);
}

int dwarf_lookup_each(struct dwarf_lookup *debuginfo, const uint64_t *vaddrs, size_t count,
		      dwarf_lookup_fn callback, void *arg)
{
	struct address *addresses;
	int result = 0;

	if (count == 0)
		return 0;
	addresses = calloc(count, sizeof(*addresses));
	if (!addresses)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		addresses[i] = (struct address){
			.vaddr = vaddrs[i],
			.index = i,
			.unit = unit_at(debuginfo, vaddrs[i]),
			.function = NONE,
		};
	}
	qsort(addresses, count, sizeof(*addresses), compare_addresses);
	for (size_t from = 0, to; from < count && result == 0; from = to) {
		for (to = from + 1; to < count && addresses[to].unit == addresses[from].unit;)
			to++;
		result = name_addresses(debuginfo, addresses + from, to - from, callback, arg);
	}
	free(addresses);
	return result;
}
