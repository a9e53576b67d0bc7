// SPDX-License-Identifier: GPL-2.0
#include "debuginfo.h"

#include "array.h"
#include "upper_bound.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beyond these a file is broken or means harm. */
#define UNITS_MAX (1u << 20)
#define RANGES_MAX (1u << 22) /* of all units */
#define RANGES_OF_ONE_MAX (1u << 16) /* of one function or unit */
#define TREE_DEPTH_MAX 256u
#define OVERLAP_MAX 64u /* units at one address */

/* libdw frees nothing of a unit: from so many bytes on it is opened anew. */
#define KEPT_BYTES_MAX ((size_t)48 << 20)
#define KEPT_BYTES_OF_LINE 64u

#define NONE UINT32_MAX

struct range {
	uint64_t start, end;
};

struct unit_range {
	uint64_t start, end;
	uint64_t reach; /* the highest end of this range and those before it */
	uint32_t unit;
};

struct debuginfo {
	Elf *elf, *alt_elf;
	Dwarf *dwarf, *alt;
	size_t kept; /* bytes that libdw holds, about */
	struct range *code; /* executable sections, sorted */
	size_t code_count, code_capacity;
	Dwarf_Off *units; /* where their first entry is */
	size_t unit_count, unit_capacity;
	struct unit_range *ranges; /* of units, sorted by start */
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
	uint32_t outer; /* it is inlined there; NONE if it is not inlined */
	uint32_t call_file, call_line; /* where it is called, if inlined */
	Dwarf_Die die;
	bool named;
	struct debuginfo_frame name;
	const char *declared_in; /* a path as libdw has it */
};

/* One unit at work. */
struct walk {
	struct debuginfo *info;
	Dwarf_Die unit;
	const char *directory; /* in which it was compiled */
	struct address *addresses;
	size_t address_count;
	bool deep; /* look for functions in functions that were not hit, too */
	int error;
	struct function *functions;
	size_t function_count, function_capacity;
	Dwarf_Lines *lines;
	size_t line_count;
	Dwarf_Files *files;
	size_t file_count;
	char **paths; /* of the files, made when asked for */
};

/* Where the walk is: the functions around the entry that it looks at. */
struct scope {
	const struct scope *outer;
	Dwarf_Die *die;
	uint32_t *function; /* its index, or NONE as long as it is not needed */
	bool is_inlined;
};

/* Opening */

static int compare_starts(const void *a, const void *b)
{
	uint64_t left, right;

	memcpy(&left, a, sizeof(left));
	memcpy(&right, b, sizeof(right));
	return (left > right) - (left < right);
}

static int read_code_sections(struct debuginfo *info)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(info->elf, section))) {
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
static bool is_code(const struct debuginfo *info, uint64_t vaddr)
{
	size_t after = upper_bound(info->code, info->code_count, sizeof(*info->code), vaddr);

	return after > 0 && vaddr < info->code[after - 1].end;
}

static void end_dwarf(struct debuginfo *info)
{
	dwarf_end(info->dwarf);
	dwarf_end(info->alt);
	info->dwarf = NULL;
	info->alt = NULL;
	info->kept = 0;
}

static int begin_dwarf(struct debuginfo *info)
{
	info->dwarf = dwarf_begin_elf(info->elf, DWARF_C_READ, NULL);
	if (!info->dwarf)
		return -EINVAL;
	if (!info->alt_elf)
		return 0;
	info->alt = dwarf_begin_elf(info->alt_elf, DWARF_C_READ, NULL);
	if (!info->alt)
		return -EINVAL;
	dwarf_setalt(info->dwarf, info->alt);
	return 0;
}

static int add_unit_range(struct debuginfo *info, uint64_t start, uint64_t end)
{
	if (start >= end || !is_code(info, start) || info->range_count >= RANGES_MAX)
		return 0;
	if (array_reserve(&info->ranges, &info->range_capacity, info->range_count, 1,
			  sizeof(*info->ranges)) != 0)
		return -ENOMEM;
	info->ranges[info->range_count++] = (struct unit_range){
		.start = start,
		.end = end,
		.unit = (uint32_t)info->unit_count - 1,
	};
	return 0;
}

static int add_ranges_of(struct debuginfo *info, Dwarf_Die *die)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	int result = 0;

	for (uint32_t i = 0; i < RANGES_OF_ONE_MAX && result == 0; i++) {
		at = dwarf_ranges(die, at, &base, &start, &end);
		if (at <= 0)
			break;
		result = add_unit_range(info, start, end);
	}
	return result;
}

/* Of a unit that does not say what code is in it. */
static int add_ranges_of_functions(struct debuginfo *info, Dwarf_Die *parent, unsigned int depth)
{
	Dwarf_Die die;
	int result = 0;

	if (depth >= TREE_DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return 0;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			result = add_ranges_of(info, &die);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
			result = add_ranges_of_functions(info, &die, depth + 1);
			break;
		}
	} while (result == 0 && dwarf_siblingof(&die, &die) == 0);
	return result;
}

static int add_unit(struct debuginfo *info, Dwarf_Die *die)
{
	size_t before = info->range_count;
	int result;

	if (array_reserve(&info->units, &info->unit_capacity, info->unit_count, 1,
			  sizeof(*info->units)) != 0)
		return -ENOMEM;
	info->units[info->unit_count++] = dwarf_dieoffset(die);
	result = add_ranges_of(info, die);
	if (result == 0 && info->range_count == before)
		result = add_ranges_of_functions(info, die, 0);
	return result;
}

static int read_units(struct debuginfo *info)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	uint8_t type;
	int result = 0;

	while (result == 0 && info->unit_count < UNITS_MAX &&
	       dwarf_get_units(info->dwarf, unit, &unit, NULL, &type, &die, NULL) == 0) {
		if (type == DW_UT_compile || type == DW_UT_skeleton)
			result = add_unit(info, &die);
	}
	return result;
}

static void sort_unit_ranges(struct debuginfo *info)
{
	uint64_t reach = 0;

	if (info->range_count > 0)
		qsort(info->ranges, info->range_count, sizeof(*info->ranges), compare_starts);
	for (size_t i = 0; i < info->range_count; i++) {
		if (info->ranges[i].end > reach)
			reach = info->ranges[i].end;
		info->ranges[i].reach = reach;
	}
}

int debuginfo_open(Elf *elf, Elf *alt, struct debuginfo **debuginfo, struct error *error)
{
	struct debuginfo *info = calloc(1, sizeof(*info));
	int result;

	if (!info)
		return error_errno(error, ENOMEM, "can't read debug information");
	info->elf = elf;
	info->alt_elf = alt;
	result = read_code_sections(info);
	if (result == 0)
		result = begin_dwarf(info);
	if (result == 0)
		result = read_units(info);
	if (result != 0) {
		debuginfo_close(info);
		if (result == -EINVAL)
			return error_set(error, EINVAL, "broken debug information: %s",
					 dwarf_errmsg(-1));
		return error_errno(error, -result, "can't read debug information");
	}
	sort_unit_ranges(info);
	*debuginfo = info;
	return 0;
}

void debuginfo_close(struct debuginfo *debuginfo)
{
	if (!debuginfo)
		return;
	end_dwarf(debuginfo);
	free(debuginfo->code);
	free(debuginfo->units);
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

static uint32_t number(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0 ||
	    value > UINT32_MAX)
		return 0;
	return (uint32_t)value;
}

/* The index of the function of a scope, which is added if it is not there yet. */
static uint32_t function_of(struct walk *walk, const struct scope *scope)
{
	struct function function = {.outer = NONE, .die = *scope->die};

	if (*scope->function != NONE)
		return *scope->function;
	if (scope->is_inlined && scope->outer) {
		function.outer = function_of(walk, scope->outer);
		function.call_file = number(scope->die, DW_AT_call_file);
		function.call_line = number(scope->die, DW_AT_call_line);
	}
	if (array_reserve(&walk->functions, &walk->function_capacity, walk->function_count, 1,
			  sizeof(*walk->functions)) != 0) {
		walk->error = -ENOMEM;
		return NONE;
	}
	walk->functions[walk->function_count] = function;
	*scope->function = (uint32_t)walk->function_count++;
	return *scope->function;
}

/* Where ranges overlap, the smallest one wins, and the inner one of equal ones. */
static void take_range(struct walk *walk, const struct scope *scope, uint64_t start, uint64_t end)
{
	size_t from, to;

	if (start >= end)
		return;
	from = addresses_below(walk, start);
	if (from == walk->address_count || walk->addresses[from].vaddr >= end)
		return;
	to = addresses_below(walk, end);
	for (size_t i = from; i < to; i++) {
		struct address *address = &walk->addresses[i];

		if (address->function != NONE && address->size < end - start)
			continue;
		address->function = function_of(walk, scope);
		address->size = end - start;
	}
}

/* Returns whether the function holds an address that was asked for. */
static bool take_ranges(struct walk *walk, const struct scope *scope)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	for (uint32_t i = 0; i < RANGES_OF_ONE_MAX; i++) {
		at = dwarf_ranges(scope->die, at, &base, &start, &end);
		if (at <= 0)
			break;
		take_range(walk, scope, start, end);
	}
	return *scope->function != NONE;
}

static void visit_children(struct walk *walk, Dwarf_Die *parent, const struct scope *outer,
			   unsigned int depth);

static void visit_function(struct walk *walk, Dwarf_Die *die, const struct scope *outer,
			   unsigned int depth)
{
	uint32_t function = NONE;
	struct scope scope = {
		.outer = outer,
		.die = die,
		.function = &function,
		.is_inlined = dwarf_tag(die) == DW_TAG_inlined_subroutine,
	};

	if (take_ranges(walk, &scope) || scope.is_inlined || walk->deep)
		visit_children(walk, die, &scope, depth);
}

static void visit_children(struct walk *walk, Dwarf_Die *parent, const struct scope *outer,
			   unsigned int depth)
{
	Dwarf_Die die;

	if (depth >= TREE_DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
			visit_function(walk, &die, outer, depth + 1);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
		case DW_TAG_with_stmt:
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			visit_children(walk, &die, outer, depth + 1);
			break;
		}
	} while (walk->error == 0 && dwarf_siblingof(&die, &die) == 0);
}

static bool all_found(const struct walk *walk)
{
	for (size_t i = 0; i < walk->address_count; i++) {
		if (walk->addresses[i].function == NONE)
			return false;
	}
	return true;
}

static void find_functions(struct walk *walk)
{
	visit_children(walk, &walk->unit, NULL, 0);
	/* Rare, but costly to look for at once. */
	if (walk->error != 0 || all_found(walk))
		return;
	walk->deep = true;
	visit_children(walk, &walk->unit, NULL, 0);
}

/* Names, files and lines */

static const char *text(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

/* The directory goes before what is relative to it. */
static char *full_path(const char *directory, const char *name)
{
	size_t length = directory ? strlen(directory) : 0;
	char *path;

	if (*name == '/' || length == 0 ||
	    (strncmp(name, directory, length) == 0 && name[length] == '/'))
		return strdup(name);
	return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

/* NULL where there is none. */
static const char *file_path(struct walk *walk, size_t file)
{
	const char *name;

	if (file >= walk->file_count)
		return NULL;
	if (walk->paths[file])
		return walk->paths[file];
	name = dwarf_filesrc(walk->files, file, NULL, NULL);
	if (!name)
		return NULL;
	walk->paths[file] = full_path(walk->directory, name);
	if (!walk->paths[file])
		walk->error = -ENOMEM;
	return walk->paths[file];
}

static void name_function(struct function *function)
{
	struct debuginfo_frame *name = &function->name;
	Dwarf_Addr start;
	int line;

	if (function->named)
		return;
	function->named = true;
	name->linkage_name = text(&function->die, DW_AT_linkage_name);
	if (!name->linkage_name)
		name->linkage_name = text(&function->die, DW_AT_MIPS_linkage_name);
	name->name = text(&function->die, DW_AT_name);
	function->declared_in = dwarf_decl_file(&function->die);
	if (function->declared_in && dwarf_decl_line(&function->die, &line) == 0 && line > 0)
		name->start_line = (uint32_t)line;
	if (function->outer == NONE && dwarf_entrypc(&function->die, &start) == 0)
		name->start = start;
}

/* The last row at or before the address; NULL where no code is known to be. */
static Dwarf_Line *find_line(const struct walk *walk, uint64_t vaddr)
{
	size_t low = 0, high = walk->line_count;
	Dwarf_Addr start;
	Dwarf_Line *line;
	bool is_end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (dwarf_lineaddr(dwarf_onesrcline(walk->lines, middle), &start) != 0)
			return NULL;
		if (start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	line = low > 0 ? dwarf_onesrcline(walk->lines, low - 1) : NULL;
	if (!line || dwarf_lineendsequence(line, &is_end) != 0 || is_end)
		return NULL;
	return line;
}

/* Returns the index of the file, or SIZE_MAX. */
static size_t line_at(const struct walk *walk, uint64_t vaddr, uint32_t *number)
{
	Dwarf_Line *line = find_line(walk, vaddr);
	Dwarf_Files *files;
	size_t file;
	int value;

	*number = 0;
	if (!line)
		return SIZE_MAX;
	if (dwarf_lineno(line, &value) == 0 && value > 0)
		*number = (uint32_t)value;
	return dwarf_line_file(line, &files, &file) == 0 ? file : SIZE_MAX;
}

static void make_frame(struct walk *walk, struct debuginfo_frame *frame,
		       const struct function *function, size_t file, uint32_t line)
{
	const char *raw = NULL;

	*frame = (struct debuginfo_frame){0};
	if (function)
		*frame = function->name;
	frame->file = file_path(walk, file);
	frame->line = line;
	if (frame->file)
		raw = dwarf_filesrc(walk->files, file, NULL, NULL);
	if (!raw || !function || !function->declared_in || strcmp(raw, function->declared_in) != 0)
		frame->start_line = 0;
}

static int emit(struct walk *walk, const struct address *address, debuginfo_callback callback,
		void *arg)
{
	struct debuginfo_frame frames[INLINE_DEPTH_MAX];
	uint32_t index = address->function;
	struct function *function;
	size_t file, count = 0;
	uint32_t line;

	file = line_at(walk, address->vaddr, &line);
	if (index == NONE && file < walk->file_count)
		make_frame(walk, &frames[count++], NULL, file, line);
	while (index != NONE) {
		function = &walk->functions[index];
		name_function(function);
		if (count == INLINE_DEPTH_MAX) /* the last one is not inlined */
			count--;
		make_frame(walk, &frames[count++], function, file, line);
		file = function->call_file;
		line = function->call_line;
		index = function->outer;
	}
	if (walk->error != 0)
		return walk->error;
	return callback(arg, address->index, frames, count);
}

/* Units */

static void read_files(struct walk *walk)
{
	Dwarf_Attribute attribute;

	walk->directory = dwarf_formstring(dwarf_attr(&walk->unit, DW_AT_comp_dir, &attribute));
	if (dwarf_getsrclines(&walk->unit, &walk->lines, &walk->line_count) != 0)
		walk->line_count = 0;
	walk->info->kept += walk->line_count * KEPT_BYTES_OF_LINE;
	if (dwarf_getsrcfiles(&walk->unit, &walk->files, &walk->file_count) != 0)
		walk->file_count = 0;
	if (walk->file_count == 0)
		return;
	walk->paths = calloc(walk->file_count, sizeof(*walk->paths));
	if (!walk->paths)
		walk->error = -ENOMEM;
}

static int walk_unit(struct debuginfo *info, uint32_t unit, struct address *addresses, size_t count,
		     debuginfo_callback callback, void *arg)
{
	struct walk walk = {.info = info, .addresses = addresses, .address_count = count};
	int result;

	if (unit != NONE && dwarf_offdie(info->dwarf, info->units[unit], &walk.unit)) {
		find_functions(&walk);
		read_files(&walk);
	}
	result = walk.error;
	for (size_t i = 0; i < count && result == 0; i++)
		result = emit(&walk, &addresses[i], callback, arg);
	for (size_t i = 0; walk.paths && i < walk.file_count; i++)
		free(walk.paths[i]);
	free(walk.paths);
	free(walk.functions);
	if (result == 0 && info->kept > KEPT_BYTES_MAX) {
		end_dwarf(info);
		result = begin_dwarf(info);
	}
	return result;
}

/* The unit whose range begins last before the address. */
static uint32_t unit_at(const struct debuginfo *info, uint64_t vaddr)
{
	size_t i = upper_bound(info->ranges, info->range_count, sizeof(*info->ranges), vaddr);

	for (uint32_t steps = 0; i > 0 && steps < OVERLAP_MAX; i--, steps++) {
		if (vaddr < info->ranges[i - 1].end)
			return info->ranges[i - 1].unit;
		if (vaddr >= info->ranges[i - 1].reach)
			break;
	}
	return NONE;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct address *left = a, *right = b;

	if (left->unit != right->unit)
		return left->unit < right->unit ? -1 : 1;
	return (left->vaddr > right->vaddr) - (left->vaddr < right->vaddr);
}

int debuginfo_each(struct debuginfo *debuginfo, const uint64_t *vaddrs, size_t count,
		   debuginfo_callback callback, void *arg)
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
		result = walk_unit(debuginfo, addresses[from].unit, addresses + from, to - from,
				   callback, arg);
	}
	free(addresses);
	return result;
}
