/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DWARF 2 to 5: sections, units, their entries (DIEs) and the values of attributes. elfutils' libdw
 * reads the same at a tenth of the speed, and keeps everything that it has read in memory.
 *
 * The file is not trusted: offsets and sizes are checked at each use.
 */
#ifndef STACKBEAT_DEBUGINFO_DWARF_UNIT_H
#define STACKBEAT_DEBUGINFO_DWARF_UNIT_H

#include "debuginfo/dwarf_abbrev.h"
#include "lib/byte_cursor.h"
#include "lib/error.h"
#include "lib/hash.h"

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dwarf_section {
	SECTION_INFO,
	SECTION_ABBREV,
	SECTION_LINE,
	SECTION_STR,
	SECTION_LINE_STR,
	SECTION_STR_OFFSETS,
	SECTION_ADDR,
	SECTION_RANGES,
	SECTION_RNGLISTS,
	SECTIONS,
};

struct dwarf_bytes {
	const unsigned char *data; /* not NULL */
	size_t size;
};

/* Contents of compressed sections; `data` NULL: unknown. */
struct dwarf_contents {
	struct dwarf_bytes sections[SECTIONS];
};

/* A value as stored; dwarf_string(), dwarf_address() and others interpret it. */
struct dwarf_value {
	uint16_t form; /* 0: no value */
	uint64_t number; /* a constant, offset, index or address */
	const char *string; /* of DW_FORM_string */
};

struct dwarf_unit {
	uint64_t offset; /* of its header; first, for upper_bound() */
	uint64_t end;
	uint64_t entries; /* offset of its first entry */
	uint64_t abbrevs; /* offset of its table in .debug_abbrev */
	struct dwarf *dwarf;
	struct dwarf_layout layout;
	bool has_code; /* a compilation unit, neither a partial nor a type unit */
	uint64_t str_offsets_base, addr_base, rnglists_base;
	uint64_t low_pc; /* base of its ranges */
	struct dwarf_value ranges, high_pc, stmt_list;
	uint32_t language; /* DW_LANG_..., 0 if unknown */
	bool has_low_pc;
	const char *directory; /* of the compilation, NULL if unknown */
};

struct dwarf {
	struct dwarf_bytes sections[SECTIONS];
	bool were_compressed[SECTIONS];
	struct dwarf *alt; /* the file that dwz shares between binaries, or NULL */
	struct dwarf_unit *units; /* sorted by offset */
	size_t unit_count, unit_capacity;
	/* Cache of abbreviation tables; dwarf_trim() frees them when they are too large. */
	struct dwarf_abbrevs **abbrevs;
	size_t abbrevs_count, abbrevs_capacity;
	struct hash abbrevs_index;
	size_t abbrevs_bytes;
};

struct dwarf_entry {
	uint64_t offset; /* in .debug_info */
	const struct dwarf_abbrev *abbrev; /* NULL: the end of a list of siblings */
	uint32_t present; /* SLOT_BIT() of each value that was read */
	struct dwarf_value values[SLOTS]; /* valid for the slots in `present` */
};

/*
 * Reads the units of a file. `elf` must stay open until dwarf_clear(), and so must `alt`, the
 * shared file of dwz or NULL. Returns 0, to be followed by dwarf_clear(); or -EINVAL or -ENOMEM
 * with `error` set.
 */
int dwarf_read(struct dwarf *dwarf, Elf *elf, struct dwarf *alt, const struct dwarf_contents *known,
	       struct error *error);
void dwarf_clear(struct dwarf *dwarf);

/* Returns the unit that holds an offset of .debug_info, or NULL. */
const struct dwarf_unit *dwarf_unit_at(const struct dwarf *dwarf, uint64_t offset);

/* Returns the abbreviations of a unit, valid until dwarf_trim(); NULL when out of memory. */
const struct dwarf_abbrevs *dwarf_abbrevs_of(const struct dwarf_unit *unit);

/* Frees the cached abbreviation tables if they exceed a limit. */
void dwarf_trim(struct dwarf *dwarf);

/* Returns a cursor at an offset of .debug_info that ends with the unit. */
struct cursor dwarf_cursor(const struct dwarf_unit *unit, uint64_t offset);

/* Slow path of dwarf_entry_end(): some attributes are wanted, or the entry's size is variable. */
bool dwarf_entry_attributes(struct cursor *cursor, const struct dwarf_unit *unit,
			    const struct dwarf_abbrevs *abbrevs, uint32_t slots,
			    struct dwarf_entry *entry);

/*
 * Reads the entry at a cursor in two steps: first its abbreviation, then those among its attributes
 * that are in `slots` (SLOT_BIT()); an entry without an abbreviation has none. Both return false
 * for a broken entry; the rest of the unit is unusable then.
 */
static inline bool dwarf_entry_begin(struct cursor *cursor, const struct dwarf_unit *unit,
				     const struct dwarf_abbrevs *abbrevs, struct dwarf_entry *entry)
{
	uint64_t code;

	entry->offset = (uint64_t)(cursor->at - unit->dwarf->sections[SECTION_INFO].data);
	entry->abbrev = NULL;
	entry->present = 0;
	code = cursor_uleb128(cursor);
	if (code == 0)
		return !cursor->broken;
	entry->abbrev = dwarf_abbrev(abbrevs, code);
	return entry->abbrev;
}

static inline bool dwarf_entry_end(struct cursor *cursor, const struct dwarf_unit *unit,
				   const struct dwarf_abbrevs *abbrevs, uint32_t slots,
				   struct dwarf_entry *entry)
{
	if (!entry->abbrev)
		return true;
	slots &= entry->abbrev->slots;
	if (slots == 0 && entry->abbrev->size != SIZE_VARIES)
		return cursor_skip(cursor, entry->abbrev->size);
	return dwarf_entry_attributes(cursor, unit, abbrevs, slots, entry);
}

/*
 * Fast path: skips the entry that was begun, with its children, if its size is fixed, or the offset
 * of its sibling attribute is. Otherwise, and for a broken entry, returns false and leaves the
 * cursor unchanged.
 */
static inline bool dwarf_entry_skip(struct cursor *cursor, const struct dwarf_unit *unit,
				    const struct dwarf_entry *entry)
{
	const struct dwarf_abbrev *abbrev = entry->abbrev;
	size_t left = cursor_left(cursor);
	uint32_t sibling;

	if (!abbrev->has_children) {
		if (abbrev->size == SIZE_VARIES || abbrev->size > left)
			return false;
		cursor->at += abbrev->size;
		return true;
	}
	if (abbrev->sibling == SIZE_VARIES || left < sizeof(sibling) ||
	    abbrev->sibling > left - sizeof(sibling))
		return false;
	memcpy(&sibling, cursor->at + abbrev->sibling, sizeof(sibling));
	if (sibling <= entry->offset - unit->offset || sibling >= unit->end - unit->offset)
		return false;
	cursor->at = cursor->end - (unit->end - unit->offset - sibling);
	return true;
}

/* Does both steps. */
bool dwarf_entry_read(struct cursor *cursor, const struct dwarf_unit *unit,
		      const struct dwarf_abbrevs *abbrevs, uint32_t slots,
		      struct dwarf_entry *entry);

/* Returns a value that was read, or one of form 0. */
static inline const struct dwarf_value *dwarf_value(const struct dwarf_entry *entry,
						    enum dwarf_attr_slot slot)
{
	static const struct dwarf_value none;

	return (entry->present & SLOT_BIT(slot)) ? &entry->values[slot] : &none;
}

/* Reads a value of a form, of an entry or elsewhere. False: it is broken or of unknown form. */
bool dwarf_value_read(struct cursor *cursor, uint64_t form, struct dwarf_layout layout,
		      struct dwarf_value *value);

/* Interpret values. NULL, 0 or false: no value, or a broken one. */
const char *dwarf_string(const struct dwarf_unit *unit, const struct dwarf_value *value);
uint32_t dwarf_number(const struct dwarf_value *value);
bool dwarf_address(const struct dwarf_unit *unit, const struct dwarf_value *value,
		   uint64_t *address);
bool dwarf_indexed_address(const struct dwarf_unit *unit, uint64_t index, uint64_t *address);
/* Gets the offset of the referenced entry, and returns its unit. NULL: no or a broken reference. */
const struct dwarf_unit *dwarf_reference(const struct dwarf_unit *unit,
					 const struct dwarf_value *value, uint64_t *offset);

#endif
