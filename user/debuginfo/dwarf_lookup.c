// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/dwarf_lookup.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>

#include "debuginfo/dwarf_line.h"
#include "debuginfo/dwarf_range.h"
#include "debuginfo/dwarf_unit.h"
#include "lib/array.h"
#include "lib/upper_bound.h"

/* A file beyond these limits is broken or malicious. */
#define UNIT_RANGES_MAX (1u << 22)
#define TREE_DEPTH_MAX 256u
#define ORIGINS_MAX 16u /* length of a chain of references between entries */
#define OVERLAP_MAX 64u /* ranges that are searched for an address */

#define NONE UINT32_MAX

#define FUNCTION_SLOTS (RANGE_SLOTS | SLOT_BIT(SLOT_CALL_FILE) | SLOT_BIT(SLOT_CALL_LINE))
#define NAME_SLOTS                                                                                 \
	(SLOT_BIT(SLOT_ORIGIN) | SLOT_BIT(SLOT_SPECIFICATION) | SLOT_BIT(SLOT_NAME) |              \
	 SLOT_BIT(SLOT_LINKAGE_NAME) | SLOT_BIT(SLOT_DECL_FILE) | SLOT_BIT(SLOT_DECL_LINE))

struct lookup_range {
	uint64_t start, end;
};

struct unit_range {
	uint64_t start, end;
	uint64_t reach; /* the highest end of this and all preceding ranges */
	uint32_t unit;
};

struct dwarf_lookup {
	struct dwarf dwarf, alt;
	struct lookup_range *code; /* executable sections, sorted */
	size_t code_count, code_capacity;
	struct unit_range *ranges; /* sorted by start */
	size_t range_count, range_capacity;
};

/* An address to look up. */
struct lookup_address {
	uint64_t vaddr; /* first, for upper_bound() */
	uint64_t size; /* of the smallest range of a function that holds it */
	size_t index; /* in the caller's array */
	uint32_t unit; /* index, or NONE */
	uint32_t function; /* index in walk->functions, or NONE */
};

/* A function, or an inlined instance, that holds an address to look up. */
struct dwarf_function {
	uint64_t entry; /* offset of its entry in .debug_info */
	uint64_t start;
	uint32_t outer; /* index of the function it is inlined in, or NONE */
	uint32_t call_file, call_line; /* of the call, if inlined */
	bool has_name; /* `name` and the declaration were read */
	bool is_declared; /* the file of the declaration is known */
	uint32_t declared_in; /* its index in this unit; NONE: declared in another unit */
	char *declared_path; /* path in another unit, or NULL */
	struct dwarf_frame name;
};

/* An open level of the tree: its entry has children that are being read. */
struct level {
	uint32_t scope; /* level of the innermost function at or above this level, or NONE */
	uint32_t outer_scope; /* `scope` of the level above */
	uint32_t function; /* index, or NONE: not added yet */
	bool is_inlined;
	uint32_t call_file, call_line;
	uint64_t entry, start;
};

/* State of the walk through one unit. */
struct dwarf_walk {
	const struct dwarf_unit *unit;
	const struct dwarf_abbrevs *abbrevs;
	struct cursor cursor;
	struct lookup_address *addresses;
	size_t address_count;
	bool types; /* types may contain functions */
	int error;
	struct level levels[TREE_DEPTH_MAX];
	uint32_t depth;
	struct dwarf_function *functions;
	size_t function_count, function_capacity;
	struct dwarf_lines lines;
	struct dwarf_lines other; /* files of another unit, without lines */
};

/* Opening */

static int compare_starts(const void *a, const void *b)
{
	uint64_t left, right;

	memcpy(&left, a, sizeof(left));
	memcpy(&right, b, sizeof(right));
	return (left > right) - (left < right);
}

static int dwarf_lookup_read_code(struct dwarf_lookup *lookup, Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_EXECINSTR) ||
		    header.sh_size == 0 || header.sh_size > UINT64_MAX - header.sh_addr)
			continue;
		if (array_reserve(&lookup->code, &lookup->code_capacity, lookup->code_count, 1,
				  sizeof(*lookup->code)) != 0)
			return -ENOMEM;
		lookup->code[lookup->code_count++] =
			(struct lookup_range){header.sh_addr, header.sh_addr + header.sh_size};
	}
	if (lookup->code_count > 0)
		qsort(lookup->code, lookup->code_count, sizeof(*lookup->code), compare_starts);
	return 0;
}

/* Functions that the linker dropped have addresses outside of all code, such as 0. */
static bool is_code(const struct dwarf_lookup *lookup, uint64_t vaddr)
{
	size_t after = upper_bound(lookup->code, lookup->code_count, sizeof(*lookup->code), vaddr);

	return after > 0 && vaddr < lookup->code[after - 1].end;
}

static int dwarf_lookup_add_ranges(struct dwarf_lookup *lookup, uint32_t unit,
				   struct dwarf_ranges ranges)
{
	uint64_t start, end;

	while (dwarf_ranges_next(&ranges, &start, &end)) {
		if (!is_code(lookup, start) || lookup->range_count >= UNIT_RANGES_MAX)
			continue;
		if (array_reserve(&lookup->ranges, &lookup->range_capacity, lookup->range_count, 1,
				  sizeof(*lookup->ranges)) != 0)
			return -ENOMEM;
		lookup->ranges[lookup->range_count++] =
			(struct unit_range){.start = start, .end = end, .unit = unit};
	}
	return 0;
}

/* For a unit without ranges of its own. */
static int add_ranges_of_functions(struct dwarf_lookup *lookup, uint32_t index)
{
	const struct dwarf_unit *unit = &lookup->dwarf.units[index];
	const struct dwarf_abbrevs *abbrevs = dwarf_abbrevs_of(unit);
	struct cursor cursor = dwarf_cursor(unit, unit->entries);
	struct dwarf_entry entry;
	int err = 0;

	if (!abbrevs)
		return -ENOMEM;
	while (!err && dwarf_entry_read(&cursor, unit, abbrevs, RANGE_SLOTS, &entry)) {
		if (entry.abbrev && entry.abbrev->kind == KIND_FUNCTION)
			err = dwarf_lookup_add_ranges(lookup, index, dwarf_ranges_of(unit, &entry));
	}
	return err;
}

static int dwarf_lookup_add_unit(struct dwarf_lookup *lookup, uint32_t index)
{
	const struct dwarf_unit *unit = &lookup->dwarf.units[index];

	if (!unit->has_code)
		return 0;
	if (unit->ranges.form || (unit->has_low_pc && unit->high_pc.form))
		return dwarf_lookup_add_ranges(lookup, index, dwarf_ranges_of_unit(unit));
	return add_ranges_of_functions(lookup, index);
}

static int dwarf_lookup_read_units(struct dwarf_lookup *lookup)
{
	uint64_t reach = 0;
	int err = 0;

	for (size_t i = 0; i < lookup->dwarf.unit_count && !err; i++) {
		err = dwarf_lookup_add_unit(lookup, (uint32_t)i);
		dwarf_trim(&lookup->dwarf);
	}
	if (lookup->range_count > 0)
		qsort(lookup->ranges, lookup->range_count, sizeof(*lookup->ranges), compare_starts);
	for (size_t i = 0; i < lookup->range_count; i++) {
		if (lookup->ranges[i].end > reach)
			reach = lookup->ranges[i].end;
		lookup->ranges[i].reach = reach;
	}
	return err;
}

int dwarf_lookup_open(Elf *elf, Elf *alt, const struct dwarf_contents *known,
		      struct dwarf_lookup **lookup, struct error *error)
{
	struct dwarf_lookup *opened = calloc(1, sizeof(*opened));
	int err = 0;

	if (!opened)
		return error_errno(error, ENOMEM, "can't read debug information");
	if (alt)
		err = dwarf_read(&opened->alt, alt, NULL, known ? &known[1] : NULL, error);
	if (!err)
		err = dwarf_read(&opened->dwarf, elf, alt ? &opened->alt : NULL, known, error);
	if (err)
		goto fail;
	err = dwarf_lookup_read_code(opened, elf);
	if (!err)
		err = dwarf_lookup_read_units(opened);
	if (err) {
		error_errno(error, -err, "can't read debug information");
		goto fail;
	}
	*lookup = opened;
	return 0;
fail:
	dwarf_lookup_close(opened);
	return err;
}

static void set_contents(const struct dwarf *dwarf, struct dwarf_contents *contents)
{
	*contents = (struct dwarf_contents){0};
	for (size_t i = 0; i < SECTIONS; i++) {
		if (dwarf->were_compressed[i])
			contents->sections[i] = dwarf->sections[i];
	}
}

void dwarf_lookup_contents(const struct dwarf_lookup *lookup, struct dwarf_contents *contents)
{
	set_contents(&lookup->dwarf, &contents[0]);
	set_contents(&lookup->alt, &contents[1]);
}

void dwarf_lookup_close(struct dwarf_lookup *lookup)
{
	if (!lookup)
		return;
	dwarf_clear(&lookup->dwarf);
	dwarf_clear(&lookup->alt);
	free(lookup->code);
	free(lookup->ranges);
	free(lookup);
}

/* The tree of a unit */

/* Returns the number of addresses to look up below `vaddr`. */
static size_t addresses_below(const struct dwarf_walk *walk, uint64_t vaddr)
{
	return vaddr == 0 ? 0
			  : upper_bound(walk->addresses, walk->address_count,
					sizeof(*walk->addresses), vaddr - 1);
}

/* Returns the index of a level's function, which it adds on first use. */
static uint32_t get_function(struct dwarf_walk *walk, struct level *level)
{
	struct dwarf_function function = {
		.entry = level->entry,
		.start = level->start,
		.outer = NONE,
	};

	if (level->function != NONE)
		return level->function;
	if (level->is_inlined && level->outer_scope != NONE) {
		function.outer = get_function(walk, &walk->levels[level->outer_scope]);
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

/* Assigns addresses to a level. The smallest range wins, and the inner one of equal ranges. */
static void assign_range(struct dwarf_walk *walk, struct level *level, uint64_t start, uint64_t end)
{
	for (size_t i = addresses_below(walk, start);
	     i < walk->address_count && walk->addresses[i].vaddr < end; i++) {
		struct lookup_address *address = &walk->addresses[i];

		if (address->function != NONE && address->size < end - start)
			continue;
		address->function = get_function(walk, level);
		address->size = end - start;
	}
}

static void assign_ranges(struct dwarf_walk *walk, struct level *level,
			  const struct dwarf_entry *entry)
{
	struct dwarf_ranges ranges;
	uint64_t start, end;

	if (!(entry->present & RANGE_SLOTS))
		return;
	ranges = dwarf_ranges_of(walk->unit, entry);
	if (ranges.low < ranges.high)
		level->start = ranges.low;
	while (dwarf_ranges_next(&ranges, &start, &end))
		assign_range(walk, level, start, end);
}

/* Begins the next entry. False at a broken entry, which ends the walk. */
static bool dwarf_walk_begin_entry(struct dwarf_walk *walk, struct dwarf_entry *entry)
{
	return walk->error == 0 &&
	       dwarf_entry_begin(&walk->cursor, walk->unit, walk->abbrevs, entry);
}

static bool end_entry(struct dwarf_walk *walk, uint32_t slots, struct dwarf_entry *entry)
{
	return dwarf_entry_end(&walk->cursor, walk->unit, walk->abbrevs, slots, entry);
}

/* Skips an entry's children by its sibling attribute. False if it has none. */
static bool go_to_sibling(struct dwarf_walk *walk, const struct dwarf_entry *entry)
{
	const struct dwarf_value *sibling = dwarf_value(entry, SLOT_SIBLING);
	uint64_t offset;

	if (!sibling->form || dwarf_reference(walk->unit, sibling, &offset) != walk->unit ||
	    offset <= entry->offset)
		return false;
	walk->cursor = dwarf_cursor(walk->unit, offset);
	return true;
}

/* Skips an entry with its children. False at the end of the walk. */
static bool skip_entry(struct dwarf_walk *walk, struct dwarf_entry *entry)
{
	uint64_t depth = 0;

	for (;;) {
		if (!entry->abbrev) {
			depth--;
		} else if (!dwarf_entry_skip(&walk->cursor, walk->unit, entry)) {
			if (!end_entry(walk, SLOT_BIT(SLOT_SIBLING), entry))
				return false;
			if (entry->abbrev->has_children && !go_to_sibling(walk, entry))
				depth++;
		}
		if (depth == 0)
			return true;
		if (!dwarf_walk_begin_entry(walk, entry))
			return false;
	}
}

static void visit_function(struct dwarf_walk *walk, struct level *level,
			   const struct dwarf_entry *entry)
{
	level->is_inlined = entry->abbrev->kind == KIND_INLINED;
	level->entry = entry->offset;
	level->call_file = dwarf_number(dwarf_value(entry, SLOT_CALL_FILE));
	level->call_line = dwarf_number(dwarf_value(entry, SLOT_CALL_LINE));
	level->scope = walk->depth;
	assign_ranges(walk, level, entry);
}

/* In C and C++, only types local to functions (lambdas) contain code, and types are many. */
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

/* Returns whether an entry or its children may be functions that hold an address. */
static bool may_hold_address(const struct dwarf_walk *walk, const struct level *level,
			     const struct dwarf_entry *entry)
{
	switch (entry->abbrev->kind) {
	case KIND_INLINED:
		/* The ranges of an inlined function lie within the outer function. */
		return level->outer_scope == NONE ||
		       walk->levels[level->outer_scope].function != NONE;
	case KIND_UNIT:
	case KIND_FUNCTION: /* may contain others */
	case KIND_BLOCK:
		return true;
	case KIND_TYPE:
		return walk->types || level->outer_scope != NONE;
	default:
		return false;
	}
}

/* Reads an entry, and descends to its children or skips them. False at the end of the walk. */
static bool visit_entry(struct dwarf_walk *walk, struct dwarf_entry *entry)
{
	struct level *level = &walk->levels[walk->depth];
	uint8_t kind = entry->abbrev->kind;
	bool is_function = kind == KIND_FUNCTION || kind == KIND_INLINED;

	*level = (struct level){.scope = NONE, .outer_scope = NONE, .function = NONE};
	if (walk->depth > 0)
		level->scope = level->outer_scope = walk->levels[walk->depth - 1].scope;
	if (walk->depth + 1 >= TREE_DEPTH_MAX || !may_hold_address(walk, level, entry))
		return skip_entry(walk, entry);
	if (!end_entry(walk, is_function ? FUNCTION_SLOTS : 0, entry))
		return false;
	if (is_function)
		visit_function(walk, level, entry);
	if (entry->abbrev->has_children)
		walk->depth++;
	return true;
}

/* Begins the next entry that may matter. False at the end of the walk. */
static bool dwarf_walk_next_entry(struct dwarf_walk *walk, struct dwarf_entry *entry)
{
	struct cursor cursor = walk->cursor; /* local, to stay in registers */
	bool found;

	do {
		found = dwarf_entry_begin(&cursor, walk->unit, walk->abbrevs, entry);
	} while (found && entry->abbrev && entry->abbrev->kind == KIND_OTHER &&
		 dwarf_entry_skip(&cursor, walk->unit, entry));
	walk->cursor = cursor;
	return found && walk->error == 0;
}

static void dwarf_walk_find_functions(struct dwarf_walk *walk)
{
	struct dwarf_entry entry;

	walk->types = has_code_in_types(walk->unit);
	walk->cursor = dwarf_cursor(walk->unit, walk->unit->entries);
	while (dwarf_walk_next_entry(walk, &entry)) {
		if (entry.abbrev) {
			if (!visit_entry(walk, &entry))
				return;
		} else if (walk->depth-- <= 1) {
			return;
		}
	}
}

/* Names, files and lines */

static void read_names(const struct dwarf_unit *unit, const struct dwarf_entry *entry,
		       struct dwarf_frame *name)
{
	if (!name->linkage_name)
		name->linkage_name = dwarf_string(unit, dwarf_value(entry, SLOT_LINKAGE_NAME));
	if (!name->name)
		name->name = dwarf_string(unit, dwarf_value(entry, SLOT_NAME));
	if (!name->start_line)
		name->start_line = dwarf_number(dwarf_value(entry, SLOT_DECL_LINE));
}

static bool use_same_files(const struct dwarf_unit *a, const struct dwarf_unit *b)
{
	return a && a->dwarf == b->dwarf && a->stmt_list.number == b->stmt_list.number &&
	       a->directory == b->directory;
}

/* Returns the path of a file of another unit, to be freed, or NULL. */
static char *path_in_other_unit(struct dwarf_walk *walk, const struct dwarf_unit *unit,
				uint32_t file)
{
	const char *path;

	if (!use_same_files(walk->other.unit, unit)) {
		dwarf_lines_clear(&walk->other);
		if (dwarf_lines_read(&walk->other, unit, NULL, NULL) != 0)
			return NULL;
	}
	path = dwarf_lines_path(&walk->other, file);
	return path ? strdup(path) : NULL;
}

static void read_declaration(struct dwarf_walk *walk, const struct dwarf_unit *unit,
			     const struct dwarf_entry *entry, struct dwarf_function *function)
{
	const struct dwarf_value *file = dwarf_value(entry, SLOT_DECL_FILE);

	if (function->is_declared || !file->form)
		return;
	function->is_declared = true;
	function->declared_in = unit == walk->unit ? dwarf_number(file) : NONE;
	if (unit != walk->unit)
		function->declared_path = path_in_other_unit(walk, unit, dwarf_number(file));
}

/* Reads names and declaration from the function's entry and from those it refers to. */
static void read_function_name(struct dwarf_walk *walk, struct dwarf_function *function)
{
	struct dwarf_frame *name = &function->name;
	const struct dwarf_abbrevs *abbrevs;
	const struct dwarf_unit *unit = walk->unit;
	uint64_t offset = function->entry;
	const struct dwarf_value *origin;
	struct dwarf_entry entry;
	struct cursor cursor;

	function->has_name = true;
	for (uint32_t i = 0; i < ORIGINS_MAX && unit; i++) {
		abbrevs = dwarf_abbrevs_of(unit);
		cursor = dwarf_cursor(unit, offset);
		if (!abbrevs || !dwarf_entry_read(&cursor, unit, abbrevs, NAME_SLOTS, &entry) ||
		    !entry.abbrev)
			return;
		read_names(unit, &entry, name);
		read_declaration(walk, unit, &entry, function);
		origin = dwarf_value(&entry, SLOT_ORIGIN);
		if (!origin->form)
			origin = dwarf_value(&entry, SLOT_SPECIFICATION);
		unit = dwarf_reference(unit, origin, &offset);
	}
}

static bool is_declared_in(const struct dwarf_function *function, uint32_t file, const char *path)
{
	if (function->declared_in != NONE)
		return function->declared_in == file;
	return function->declared_path && path && !strcmp(function->declared_path, path);
}

static struct dwarf_frame make_frame(struct dwarf_walk *walk, const struct dwarf_function *function,
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

static int report_address(struct dwarf_walk *walk, const struct lookup_address *address,
			  dwarf_lookup_fn callback, void *arg)
{
	const struct dwarf_row *row = dwarf_lines_at(&walk->lines, address->vaddr);
	struct dwarf_frame frames[INLINE_DEPTH_MAX];
	uint32_t file = row ? row->file : NONE, line = row ? row->line : 0;
	uint32_t index = address->function;
	struct dwarf_function *function;
	size_t count = 0;

	if (index == NONE && row)
		frames[count++] = make_frame(walk, NULL, file, line);
	while (index < walk->function_count) {
		function = &walk->functions[index];
		if (!function->has_name)
			read_function_name(walk, function);
		if (count == INLINE_DEPTH_MAX) /* keep the outermost function */
			count--;
		frames[count++] = make_frame(walk, function, file, line);
		file = function->call_file;
		line = function->call_line;
		index = function->outer;
	}
	return callback(arg, address->index, frames, count);
}

/* Units */

static uint64_t next_address(void *arg, uint64_t vaddr)
{
	const struct dwarf_walk *walk = arg;
	size_t first = addresses_below(walk, vaddr);

	return first < walk->address_count ? walk->addresses[first].vaddr : UINT64_MAX;
}

static int walk_unit(struct dwarf_lookup *lookup, struct dwarf_walk *walk)
{
	const struct lookup_address *first = walk->addresses;

	if (first->unit == NONE)
		return 0;
	walk->unit = &lookup->dwarf.units[first->unit];
	walk->abbrevs = dwarf_abbrevs_of(walk->unit);
	if (!walk->abbrevs)
		return -ENOMEM;
	dwarf_walk_find_functions(walk);
	if (walk->error != 0)
		return walk->error;
	return dwarf_lines_read(&walk->lines, walk->unit, next_address, walk);
}

/* Looks up all addresses of one unit. */
static int look_up_unit(struct dwarf_lookup *lookup, struct lookup_address *addresses, size_t count,
			dwarf_lookup_fn callback, void *arg)
{
	struct dwarf_walk *walk = calloc(1, sizeof(*walk));
	int result;

	if (!walk)
		return -ENOMEM;
	walk->addresses = addresses;
	walk->address_count = count;
	result = walk_unit(lookup, walk);
	for (size_t i = 0; i < count && result == 0; i++)
		result = report_address(walk, &addresses[i], callback, arg);
	dwarf_lines_clear(&walk->lines);
	dwarf_lines_clear(&walk->other);
	for (size_t i = 0; i < walk->function_count; i++)
		free(walk->functions[i].declared_path);
	free(walk->functions);
	free(walk);
	dwarf_trim(&lookup->dwarf);
	dwarf_trim(&lookup->alt);
	return result;
}

/*
 * Returns the index of the first unit at an address, or NONE. Several units have the same address
 * if each had a copy of the same function (COMDAT): the linker keeps the first copy, and the others
 * refer to it.
 */
static uint32_t unit_at(const struct dwarf_lookup *lookup, uint64_t vaddr)
{
	size_t i = upper_bound(lookup->ranges, lookup->range_count, sizeof(*lookup->ranges), vaddr);
	uint32_t unit = NONE;

	for (uint32_t steps = 0; i > 0 && steps < OVERLAP_MAX; i--, steps++) {
		const struct unit_range *range = &lookup->ranges[i - 1];

		if (vaddr >= range->reach)
			break;
		if (vaddr < range->end && range->unit < unit)
			unit = range->unit;
	}
	return unit;
}

static int dwarf_lookup_compare_addresses(const void *a, const void *b)
{
	const struct lookup_address *left = a, *right = b;

	if (left->unit != right->unit)
		return left->unit < right->unit ? -1 : 1;
	return (left->vaddr > right->vaddr) - (left->vaddr < right->vaddr);
}

int dwarf_lookup_each(struct dwarf_lookup *lookup, const uint64_t *vaddrs, size_t count,
		      dwarf_lookup_fn callback, void *arg)
{
	struct lookup_address *addresses;
	int result = 0;

	if (count == 0)
		return 0;
	addresses = calloc(count, sizeof(*addresses));
	if (!addresses)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		addresses[i] = (struct lookup_address){
			.vaddr = vaddrs[i],
			.index = i,
			.unit = unit_at(lookup, vaddrs[i]),
			.function = NONE,
		};
	}
	qsort(addresses, count, sizeof(*addresses), dwarf_lookup_compare_addresses);
	for (size_t from = 0, to; from < count && result == 0; from = to) {
		for (to = from + 1; to < count && addresses[to].unit == addresses[from].unit;)
			to++;
		result = look_up_unit(lookup, addresses + from, to - from, callback, arg);
	}
	free(addresses);
	return result;
}
