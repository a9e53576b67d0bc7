/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DWARF 2 to 5: its sections, the units in them, their entries (DIEs) and the
 * values of these. elfutils' libdw reads the same, at a tenth of the speed, and
 * keeps what it has read.
 *
 * Nothing is trusted: offsets and sizes are checked where they are used.
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

/* As stored: dwarf_text() and the others tell what it means. */
struct dwarf_value {
	uint16_t form; /* 0: there is none */
	uint64_t number; /* a constant, offset, index or address */
	const char *text; /* of DW_FORM_string */
};

struct dwarf_unit {
	uint64_t offset; /* first, for upper_bound(): of its header */
	uint64_t end;
	uint64_t entries; /* offset of its first entry */
	uint64_t abbrevs; /* offset of its table */
	struct dwarf *dwarf;
	struct dwarf_layout layout;
	bool has_code; /* it is a compilation unit, not a part of some, and no type */
	uint64_t str_offsets_base, addr_base, rnglists_base;
	uint64_t low_pc; /* to which ranges are relative */
	struct dwarf_value ranges, high_pc, stmt_list;
	uint32_t language; /* DW_LANG_..., 0 if unknown */
	bool has_low_pc;
	const char *directory; /* in which it was compiled, NULL if unknown */
};

struct dwarf {
	struct dwarf_bytes sections[SECTIONS];
	struct dwarf *alt; /* what dwz made common with others, or NULL */
	struct dwarf_unit *units; /* sorted by offset */
	size_t unit_count, unit_capacity;
	/* Tables that are in use; dwarf_trim() frees them when they are too many. */
	struct dwarf_abbrevs **abbrevs;
	size_t abbrevs_count, abbrevs_capacity;
	struct hash abbrevs_index;
	size_t abbrevs_bytes;
};

struct dwarf_entry {
	uint64_t offset; /* in .debug_info */
	const struct dwarf_abbrev *abbrev; /* NULL: none, but the end of a list of siblings */
	uint32_t present; /* SLOT_BIT() of what was read */
	struct dwarf_value values[SLOTS]; /* those are set */
};

/*
 * Reads the units of a file, which must live on. `alt` is what dwz made common, or
 * NULL. Returns 0, and dwarf_clear() must follow; or -EINVAL with `error`, or -ENOMEM.
 */
int dwarf_read(struct dwarf *dwarf, Elf *elf, struct dwarf *alt, struct error *error);
void dwarf_clear(struct dwarf *dwarf);

/* The unit that holds an offset of .debug_info, or NULL. */
const struct dwarf_unit *dwarf_unit_at(const struct dwarf *dwarf, uint64_t offset);

/* The abbreviations of a unit, valid until dwarf_trim(). NULL when out of memory. */
const struct dwarf_abbrevs *dwarf_abbrevs_of(const struct dwarf_unit *unit);

/* Frees what is kept for speed, where it is much. */
void dwarf_trim(struct dwarf *dwarf);

/* A cursor at an offset of .debug_info, which ends with the unit. */
struct cursor dwarf_cursor(const struct dwarf_unit *unit, uint64_t offset);

/* Reads attributes, where some are wanted or take as many bytes as they say. */
bool dwarf_entry_attributes(struct cursor *cursor, const struct dwarf_unit *unit,
			    const struct dwarf_abbrevs *abbrevs, uint32_t slots,
			    struct dwarf_entry *entry);

/*
 * Reads the entry at a cursor in two steps: its abbreviation, and then those of its
 * attributes that are in `slots` (SLOT_BIT()); there are none if it has no abbreviation.
 * They return false where the entry is broken; the unit is of no use from there on.
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
 * Goes behind the entry that was begun, and what is below it, where that needs none of its
 * values but a sibling at a place that is known. False, and the cursor is where it was, if
 * it needs more, or the entry is broken.
 */
static inline bool dwarf_entry_pass(struct cursor *cursor, const struct dwarf_unit *unit,
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

/* Both steps. */
bool dwarf_entry_read(struct cursor *cursor, const struct dwarf_unit *unit,
		      const struct dwarf_abbrevs *abbrevs, uint32_t slots,
		      struct dwarf_entry *entry);

/* A value that was read, or one of no form. */
static inline const struct dwarf_value *dwarf_value(const struct dwarf_entry *entry,
						    enum dwarf_slot slot)
{
	static const struct dwarf_value none;

	return (entry->present & SLOT_BIT(slot)) ? &entry->values[slot] : &none;
}

/* A value of a form, also of one from elsewhere than an entry. */
bool dwarf_value_read(struct cursor *cursor, uint64_t form, struct dwarf_layout layout,
		      struct dwarf_value *value);

/* What values mean. NULL, 0 or false where there is none or it is broken. */
const char *dwarf_text(const struct dwarf_unit *unit, const struct dwarf_value *value);
uint32_t dwarf_number(const struct dwarf_value *value);
bool dwarf_address(const struct dwarf_unit *unit, const struct dwarf_value *value,
		   uint64_t *address);
bool dwarf_indexed_address(const struct dwarf_unit *unit, uint64_t index, uint64_t *address);
/* Gives the offset of an entry, and the unit that holds it. */
const struct dwarf_unit *dwarf_reference(const struct dwarf_unit *unit,
					 const struct dwarf_value *value, uint64_t *offset);

#endif
