// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/dwarf_unit.h"

#include <dwarf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>

#include "lib/array.h"
#include "lib/upper_bound.h"

/* A file beyond these limits is broken or malicious. */
#define UNITS_MAX (1u << 20)

/* Limit of the cached abbreviation tables. */
#define ABBREVS_BYTES_MAX ((size_t)16 << 20)

#define UNIT_SLOTS                                                                                 \
	(SLOT_BIT(SLOT_LOW_PC) | SLOT_BIT(SLOT_HIGH_PC) | SLOT_BIT(SLOT_RANGES) |                  \
	 SLOT_BIT(SLOT_STMT_LIST) | SLOT_BIT(SLOT_COMP_DIR) | SLOT_BIT(SLOT_STR_OFFSETS_BASE) |    \
	 SLOT_BIT(SLOT_ADDR_BASE) | SLOT_BIT(SLOT_RNGLISTS_BASE) | SLOT_BIT(SLOT_LANGUAGE))

/* Sections */

static const char *const section_names[SECTIONS] = {
	[SECTION_INFO] = "info",         [SECTION_ABBREV] = "abbrev",
	[SECTION_LINE] = "line",         [SECTION_STR] = "str",
	[SECTION_LINE_STR] = "line_str", [SECTION_STR_OFFSETS] = "str_offsets",
	[SECTION_ADDR] = "addr",         [SECTION_RANGES] = "ranges",
	[SECTION_RNGLISTS] = "rnglists",
};

/* Parses ".debug_NAME", or ".zdebug_NAME" of older compilers. SECTIONS: no section that is read. */
static enum dwarf_section section_of(const char *name, bool *is_zdebug)
{
	static const char prefix[] = ".debug_", old_prefix[] = ".zdebug_";
	enum dwarf_section section = SECTION_INFO;

	*is_zdebug = !strncmp(name, old_prefix, strlen(old_prefix));
	if (*is_zdebug)
		name += strlen(old_prefix);
	else if (!strncmp(name, prefix, strlen(prefix)))
		name += strlen(prefix);
	else
		return SECTIONS;
	while (section < SECTIONS && strcmp(name, section_names[section]))
		section++;
	return section;
}

static int dwarf_read_section(struct dwarf_bytes *bytes, Elf_Scn *section, const GElf_Shdr *header,
			      bool is_zdebug)
{
	Elf_Data *data;

	if (is_zdebug)
		elf_compress_gnu(section, 0, 0);
	else if ((header->sh_flags & SHF_COMPRESSED) && elf_compress(section, 0, 0) < 0)
		return -EINVAL;
	data = elf_getdata(section, NULL);
	if (!data)
		return -EINVAL;
	if (data->d_buf)
		*bytes = (struct dwarf_bytes){data->d_buf, data->d_size};
	return 0;
}

/* Drops bytes after the last NUL, so that all strings are terminated. */
static void trim_strings(struct dwarf_bytes *strings)
{
	const unsigned char *last = memrchr(strings->data, '\0', strings->size);

	strings->size = last ? (size_t)(last + 1 - strings->data) : 0;
}

static bool is_compressed(const GElf_Shdr *header, bool is_zdebug)
{
	return is_zdebug || (header->sh_flags & SHF_COMPRESSED);
}

static int dwarf_read_sections(struct dwarf *dwarf, Elf *elf, const struct dwarf_contents *known,
			       struct error *error)
{
	enum dwarf_section section;
	Elf_Scn *found = NULL;
	GElf_Shdr header;
	bool is_zdebug;
	const char *name;
	size_t names;

	for (size_t i = 0; i < SECTIONS; i++)
		dwarf->sections[i].data = (const unsigned char *)"";
	if (elf_getshdrstrndx(elf, &names) != 0)
		return error_set(error, EINVAL, "broken section names");
	while ((found = elf_nextscn(elf, found))) {
		if (!gelf_getshdr(found, &header) || header.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf, names, header.sh_name);
		section = name ? section_of(name, &is_zdebug) : SECTIONS;
		if (section == SECTIONS || dwarf->sections[section].size > 0)
			continue;
		dwarf->were_compressed[section] = is_compressed(&header, is_zdebug);
		if (dwarf->were_compressed[section] && known && known->sections[section].data) {
			dwarf->sections[section] = known->sections[section];
			continue;
		}
		if (dwarf_read_section(&dwarf->sections[section], found, &header, is_zdebug) != 0)
			return error_set(error, EINVAL, "can't read %s: %s", name, elf_errmsg(-1));
	}
	trim_strings(&dwarf->sections[SECTION_STR]);
	trim_strings(&dwarf->sections[SECTION_LINE_STR]);
	return 0;
}

static struct cursor section_cursor(const struct dwarf *dwarf, enum dwarf_section section,
				    uint64_t offset)
{
	const struct dwarf_bytes *bytes = &dwarf->sections[section];

	return cursor_at(bytes->data, bytes->size, offset);
}

static const char *section_string(const struct dwarf *dwarf, enum dwarf_section section,
				  uint64_t offset)
{
	const struct dwarf_bytes *strings = &dwarf->sections[section];

	return offset < strings->size ? (const char *)strings->data + offset : NULL;
}

/* Values */

bool dwarf_value_read(struct cursor *cursor, uint64_t form, struct dwarf_layout layout,
		      struct dwarf_value *value)
{
	uint32_t size;

	if (form == DW_FORM_indirect) {
		form = cursor_uleb128(cursor);
		if (form == DW_FORM_indirect || form == DW_FORM_implicit_const)
			cursor_break(cursor);
	}
	*value = (struct dwarf_value){.form = (uint16_t)form};
	size = dwarf_form_size(form, layout);
	if (size <= sizeof(value->number)) {
		value->number = cursor_number(cursor, size);
		return !cursor->broken;
	}
	if (size != SIZE_VARIES)
		return cursor_skip(cursor, size);
	switch (form) {
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_rnglistx:
	case DW_FORM_loclistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		value->number = cursor_uleb128(cursor);
		break;
	case DW_FORM_sdata:
		value->number = (uint64_t)cursor_sleb128(cursor);
		break;
	case DW_FORM_string:
		value->string = cursor_string(cursor);
		break;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		cursor_skip(cursor, cursor_uleb128(cursor));
		break;
	case DW_FORM_block1:
		cursor_skip(cursor, cursor_u8(cursor));
		break;
	case DW_FORM_block2:
		cursor_skip(cursor, cursor_u16(cursor));
		break;
	case DW_FORM_block4:
		cursor_skip(cursor, cursor_u32(cursor));
		break;
	default:
		cursor_break(cursor);
	}
	return !cursor->broken;
}

/* Reads the number of `size` bytes at an index of a table in a section. */
static bool table_number(const struct dwarf *dwarf, enum dwarf_section section, uint64_t base,
			 uint64_t index, uint8_t size, uint64_t *number)
{
	struct cursor cursor;
	uint64_t offset;

	if (__builtin_mul_overflow(index, size, &offset) ||
	    __builtin_add_overflow(offset, base, &offset))
		return false;
	cursor = section_cursor(dwarf, section, offset);
	*number = cursor_number(&cursor, size);
	return !cursor.broken;
}

const char *dwarf_string(const struct dwarf_unit *unit, const struct dwarf_value *value)
{
	const struct dwarf *dwarf = unit->dwarf;
	uint64_t offset;

	switch (value->form) {
	case DW_FORM_string:
		return value->string;
	case DW_FORM_strp:
		return section_string(dwarf, SECTION_STR, value->number);
	case DW_FORM_line_strp:
		return section_string(dwarf, SECTION_LINE_STR, value->number);
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		return dwarf->alt ? section_string(dwarf->alt, SECTION_STR, value->number) : NULL;
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
		if (!table_number(dwarf, SECTION_STR_OFFSETS, unit->str_offsets_base, value->number,
				  unit->layout.offset_size, &offset))
			return NULL;
		return section_string(dwarf, SECTION_STR, offset);
	default:
		return NULL;
	}
}

uint32_t dwarf_number(const struct dwarf_value *value)
{
	return value->number > UINT32_MAX ? 0 : (uint32_t)value->number;
}

bool dwarf_indexed_address(const struct dwarf_unit *unit, uint64_t index, uint64_t *address)
{
	return table_number(unit->dwarf, SECTION_ADDR, unit->addr_base, index,
			    unit->layout.address_size, address);
}

bool dwarf_address(const struct dwarf_unit *unit, const struct dwarf_value *value,
		   uint64_t *address)
{
	switch (value->form) {
	case DW_FORM_addr:
		*address = value->number;
		return true;
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index:
		return dwarf_indexed_address(unit, value->number, address);
	default:
		return false;
	}
}

const struct dwarf_unit *dwarf_reference(const struct dwarf_unit *unit,
					 const struct dwarf_value *value, uint64_t *offset)
{
	switch (value->form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		if (value->number >= unit->end - unit->offset)
			return NULL;
		*offset = unit->offset + value->number;
		return unit;
	case DW_FORM_ref_addr:
		*offset = value->number;
		return dwarf_unit_at(unit->dwarf, *offset);
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
	case DW_FORM_GNU_ref_alt:
		*offset = value->number;
		return unit->dwarf->alt ? dwarf_unit_at(unit->dwarf->alt, *offset) : NULL;
	default:
		return NULL;
	}
}

/* Entries */

struct cursor dwarf_cursor(const struct dwarf_unit *unit, uint64_t offset)
{
	struct cursor cursor = section_cursor(unit->dwarf, SECTION_INFO, offset);

	if (offset < unit->entries || offset > unit->end)
		cursor_break(&cursor);
	else
		cursor.end = cursor.at + (unit->end - offset);
	return cursor;
}

bool dwarf_entry_attributes(struct cursor *cursor, const struct dwarf_unit *unit,
			    const struct dwarf_abbrevs *abbrevs, uint32_t slots,
			    struct dwarf_entry *entry)
{
	const struct dwarf_attribute *attribute = &abbrevs->attributes[entry->abbrev->first];
	const struct dwarf_attribute *end = attribute + entry->abbrev->count;
	struct dwarf_value ignored = {0}, *value;

	for (; attribute < end; attribute++) {
		bool is_wanted = slots & SLOT_BIT(attribute->slot);

		if (!is_wanted && attribute->size != SIZE_VARIES) {
			cursor_skip(cursor, attribute->size);
			continue;
		}
		value = is_wanted ? &entry->values[attribute->slot] : &ignored;
		if (attribute->size <= sizeof(value->number)) {
			*value = (struct dwarf_value){
				.form = attribute->form,
				.number = attribute->form == DW_FORM_implicit_const
						  ? (uint64_t)attribute->constant
						  : cursor_number(cursor, attribute->size),
			};
		} else if (!dwarf_value_read(cursor, attribute->form, unit->layout, value)) {
			return false;
		}
	}
	entry->present |= slots;
	return !cursor->broken;
}

bool dwarf_entry_read(struct cursor *cursor, const struct dwarf_unit *unit,
		      const struct dwarf_abbrevs *abbrevs, uint32_t slots,
		      struct dwarf_entry *entry)
{
	return dwarf_entry_begin(cursor, unit, abbrevs, entry) &&
	       dwarf_entry_end(cursor, unit, abbrevs, slots, entry);
}

/* Units */

/* Moves the cursor past the unit; `inside` covers the unit. False: the length is broken. */
static bool read_length(struct cursor *cursor, struct dwarf_unit *unit, struct cursor *inside)
{
	const unsigned char *start = cursor->at;
	uint64_t length = cursor_u32(cursor);

	unit->layout.offset_size = 4;
	if (length == UINT32_MAX) {
		unit->layout.offset_size = 8;
		length = cursor_u64(cursor);
	}
	*inside = *cursor;
	if (!cursor_skip(cursor, length))
		return false;
	inside->end = cursor->at;
	unit->end = unit->offset + (uint64_t)(cursor->at - start);
	return true;
}

/* Reads the header after the length. False: the unit is unsupported or not needed. */
static bool read_unit_header(struct cursor *cursor, struct dwarf_unit *unit)
{
	struct dwarf_layout *layout = &unit->layout;
	uint16_t version = cursor_u16(cursor);
	uint8_t type = DW_UT_compile;

	if (version < 2 || version > 5)
		return false;
	layout->version = (uint8_t)version;
	if (layout->version == 5) {
		type = cursor_u8(cursor);
		layout->address_size = cursor_u8(cursor);
	}
	unit->abbrevs = cursor_number(cursor, layout->offset_size);
	if (layout->version < 5)
		layout->address_size = cursor_u8(cursor);
	if (type == DW_UT_skeleton)
		cursor_u64(cursor);
	else if (type != DW_UT_compile && type != DW_UT_partial)
		return false;
	return !cursor->broken && (layout->address_size == 4 || layout->address_size == 8);
}

static int read_first_entry(struct dwarf_unit *unit)
{
	struct cursor cursor = dwarf_cursor(unit, unit->entries), peek = cursor;
	struct dwarf_abbrevs abbrevs = {0};
	struct dwarf_entry entry;
	int err;

	err = dwarf_abbrevs_read(&abbrevs,
				 section_cursor(unit->dwarf, SECTION_ABBREV, unit->abbrevs),
				 unit->layout, cursor_uleb128(&peek));
	if (err)
		return err;
	if (dwarf_entry_read(&cursor, unit, &abbrevs, UNIT_SLOTS, &entry) && entry.abbrev) {
		unit->has_code = entry.abbrev->kind == KIND_UNIT;
		unit->str_offsets_base = dwarf_value(&entry, SLOT_STR_OFFSETS_BASE)->number;
		unit->addr_base = dwarf_value(&entry, SLOT_ADDR_BASE)->number;
		unit->rnglists_base = dwarf_value(&entry, SLOT_RNGLISTS_BASE)->number;
		unit->ranges = *dwarf_value(&entry, SLOT_RANGES);
		unit->high_pc = *dwarf_value(&entry, SLOT_HIGH_PC);
		unit->stmt_list = *dwarf_value(&entry, SLOT_STMT_LIST);
		unit->language = dwarf_number(dwarf_value(&entry, SLOT_LANGUAGE));
		unit->has_low_pc =
			dwarf_address(unit, dwarf_value(&entry, SLOT_LOW_PC), &unit->low_pc);
		unit->directory = dwarf_string(unit, dwarf_value(&entry, SLOT_COMP_DIR));
	}
	dwarf_abbrevs_clear(&abbrevs);
	return 0;
}

static int dwarf_add_unit(struct dwarf *dwarf, struct dwarf_unit *unit)
{
	int err = read_first_entry(unit);

	if (!err)
		err = array_reserve(&dwarf->units, &dwarf->unit_capacity, dwarf->unit_count, 1,
				    sizeof(*unit));
	if (!err)
		dwarf->units[dwarf->unit_count++] = *unit;
	return err;
}

static int dwarf_read_units(struct dwarf *dwarf)
{
	const struct dwarf_bytes *bytes = &dwarf->sections[SECTION_INFO];
	struct cursor cursor = section_cursor(dwarf, SECTION_INFO, 0), inside;
	struct dwarf_unit unit;
	int err = 0;

	while (!err && cursor_left(&cursor) > 0 && dwarf->unit_count < UNITS_MAX) {
		unit = (struct dwarf_unit){
			.offset = (uint64_t)(cursor.at - bytes->data),
			.dwarf = dwarf,
		};
		if (!read_length(&cursor, &unit, &inside))
			break;
		if (!read_unit_header(&inside, &unit))
			continue;
		unit.entries = (uint64_t)(inside.at - bytes->data);
		err = dwarf_add_unit(dwarf, &unit);
	}
	return err;
}

static bool is_readable(Elf *elf)
{
	GElf_Ehdr header;

	return gelf_getehdr(elf, &header) && header.e_ident[EI_DATA] == ELFDATA2LSB;
}

int dwarf_read(struct dwarf *dwarf, Elf *elf, struct dwarf *alt, const struct dwarf_contents *known,
	       struct error *error)
{
	int err;

	*dwarf = (struct dwarf){.alt = alt};
	if (!is_readable(elf))
		return error_set(error, EINVAL, "for a machine of another byte order");
	err = dwarf_read_sections(dwarf, elf, known, error);
	if (!err) {
		err = dwarf_read_units(dwarf);
		if (err)
			error_errno(error, -err, "can't read debug information");
	}
	if (!err && dwarf->unit_count == 0)
		err = error_set(error, EINVAL, "no unit of DWARF 2 to 5 can be read");
	if (err)
		dwarf_clear(dwarf);
	return err;
}

static void free_abbrevs(struct dwarf *dwarf)
{
	for (size_t i = 0; i < dwarf->abbrevs_count; i++) {
		dwarf_abbrevs_clear(dwarf->abbrevs[i]);
		free(dwarf->abbrevs[i]);
	}
	dwarf->abbrevs_count = 0;
	dwarf->abbrevs_bytes = 0;
	hash_clear(&dwarf->abbrevs_index);
}

void dwarf_trim(struct dwarf *dwarf)
{
	if (dwarf->abbrevs_bytes > ABBREVS_BYTES_MAX)
		free_abbrevs(dwarf);
}

void dwarf_clear(struct dwarf *dwarf)
{
	free_abbrevs(dwarf);
	free(dwarf->abbrevs);
	free(dwarf->units);
	*dwarf = (struct dwarf){0};
}

const struct dwarf_unit *dwarf_unit_at(const struct dwarf *dwarf, uint64_t offset)
{
	size_t after = upper_bound(dwarf->units, dwarf->unit_count, sizeof(*dwarf->units), offset);

	return after > 0 && offset < dwarf->units[after - 1].end ? &dwarf->units[after - 1] : NULL;
}

static bool is_table_of(const void *context, uint32_t index, const void *key)
{
	const struct dwarf *dwarf = context;
	const struct dwarf_abbrevs *abbrevs = dwarf->abbrevs[index];
	const struct dwarf_unit *unit = key;

	return abbrevs->offset == unit->abbrevs &&
	       !memcmp(&abbrevs->layout, &unit->layout, sizeof(unit->layout));
}

static struct dwarf_abbrevs *read_abbrevs(const struct dwarf_unit *unit)
{
	struct dwarf_abbrevs *abbrevs = calloc(1, sizeof(*abbrevs));

	if (!abbrevs)
		return NULL;
	if (dwarf_abbrevs_read(abbrevs, section_cursor(unit->dwarf, SECTION_ABBREV, unit->abbrevs),
			       unit->layout, 0) != 0) {
		free(abbrevs);
		return NULL;
	}
	abbrevs->offset = unit->abbrevs;
	return abbrevs;
}

const struct dwarf_abbrevs *dwarf_abbrevs_of(const struct dwarf_unit *unit)
{
	struct dwarf *dwarf = unit->dwarf;
	uint32_t hash = hash_number(HASH_START, unit->abbrevs);
	uint32_t index = hash_find(&dwarf->abbrevs_index, hash, is_table_of, dwarf, unit);
	struct dwarf_abbrevs *abbrevs;

	if (index != HASH_NONE)
		return dwarf->abbrevs[index];
	if (array_reserve(&dwarf->abbrevs, &dwarf->abbrevs_capacity, dwarf->abbrevs_count, 1,
			  sizeof(abbrevs)) != 0)
		return NULL;
	abbrevs = read_abbrevs(unit);
	if (!abbrevs)
		return NULL;
	if (hash_add(&dwarf->abbrevs_index, hash, (uint32_t)dwarf->abbrevs_count) != 0) {
		dwarf_abbrevs_clear(abbrevs);
		free(abbrevs);
		return NULL;
	}
	dwarf->abbrevs[dwarf->abbrevs_count++] = abbrevs;
	dwarf->abbrevs_bytes += abbrevs->capacity * sizeof(*abbrevs->list) +
				abbrevs->attribute_capacity * sizeof(*abbrevs->attributes);
	return abbrevs;
}
