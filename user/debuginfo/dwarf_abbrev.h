/* SPDX-License-Identifier: GPL-2.0 */
/* Abbreviations of DWARF: what the entries of a unit look like. */
#ifndef STACKBEAT_DEBUGINFO_DWARF_ABBREV_H
#define STACKBEAT_DEBUGINFO_DWARF_ABBREV_H

#include "lib/byte_cursor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The attributes that we read. */
enum dwarf_slot {
	SLOT_SIBLING,
	SLOT_LOW_PC,
	SLOT_HIGH_PC,
	SLOT_RANGES,
	SLOT_ORIGIN,
	SLOT_SPECIFICATION,
	SLOT_NAME,
	SLOT_LINKAGE_NAME,
	SLOT_DECL_FILE,
	SLOT_DECL_LINE,
	SLOT_CALL_FILE,
	SLOT_CALL_LINE,
	SLOT_LANGUAGE,
	SLOT_STMT_LIST,
	SLOT_COMP_DIR,
	SLOT_STR_OFFSETS_BASE,
	SLOT_ADDR_BASE,
	SLOT_RNGLISTS_BASE,
	SLOTS,
};

#define SLOT_NONE SLOTS
#define SLOT_BIT(slot) (1u << (slot))

/* What an entry is to us. */
enum dwarf_kind {
	KIND_OTHER,
	KIND_FUNCTION,
	KIND_INLINED,
	KIND_BLOCK, /* functions may be in it: a namespace, a block of code */
	KIND_TYPE, /* functions with code are rarely in it */
	KIND_UNIT, /* a whole unit */
};

/* The size of a form's value that depends on the value. */
#define SIZE_VARIES UINT32_MAX

/* How numbers are stored in a unit, and so how large the forms are. */
struct dwarf_layout {
	uint8_t version;
	uint8_t address_size; /* 4 or 8 */
	uint8_t offset_size; /* 4 or 8 */
};

/* Neighbours that are not read, and whose sizes are fixed, are one. */
struct dwarf_attribute {
	uint16_t form;
	uint8_t slot;
	uint32_t size; /* of its value in bytes, or SIZE_VARIES */
	int64_t constant; /* of DW_FORM_implicit_const */
};

struct dwarf_abbrev {
	uint64_t code;
	uint32_t slots; /* SLOT_BIT() of each that it has */
	uint32_t size; /* of all attributes in bytes, or SIZE_VARIES */
	uint32_t sibling; /* bytes before a DW_AT_sibling of DW_FORM_ref4, or SIZE_VARIES */
	uint32_t first, count; /* attributes, in the table */
	uint8_t kind;
	bool has_children;
};

struct dwarf_abbrevs {
	uint64_t offset; /* in the section */
	struct dwarf_layout layout;
	struct dwarf_abbrev *list; /* sorted by code */
	size_t count, capacity;
	struct dwarf_attribute *attributes;
	size_t attribute_count, attribute_capacity;
};

/*
 * Reads the table at a cursor, up to its end or what is broken; if `last` is not 0,
 * only the abbreviation with that code. Returns 0, and dwarf_abbrevs_clear()
 * must follow, or -ENOMEM. `abbrevs` is all zero before.
 */
int dwarf_abbrevs_read(struct dwarf_abbrevs *abbrevs, struct cursor cursor,
		       struct dwarf_layout layout, uint64_t last);
void dwarf_abbrevs_clear(struct dwarf_abbrevs *abbrevs);

/* Whatever the order of the codes. */
const struct dwarf_abbrev *dwarf_abbrev_search(const struct dwarf_abbrevs *abbrevs, uint64_t code);

/* NULL if there is none with this code. */
static inline const struct dwarf_abbrev *dwarf_abbrev(const struct dwarf_abbrevs *abbrevs,
						      uint64_t code)
{
	/* As compilers number them. */
	if (code - 1 < abbrevs->count && abbrevs->list[code - 1].code == code)
		return &abbrevs->list[code - 1];
	return dwarf_abbrev_search(abbrevs, code);
}

/* The size of a value of a form, SIZE_VARIES if that depends on the value. */
uint32_t dwarf_form_size(uint64_t form, struct dwarf_layout layout);

#endif
