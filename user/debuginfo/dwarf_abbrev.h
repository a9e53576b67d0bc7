/* SPDX-License-Identifier: GPL-2.0 */
/* DWARF abbreviations: tag and attributes of the entries (DIEs) of a unit. */
#ifndef STACKBEAT_DEBUGINFO_DWARF_ABBREV_H
#define STACKBEAT_DEBUGINFO_DWARF_ABBREV_H

#include "lib/byte_cursor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The attributes that stackbeat reads. */
enum dwarf_attr_slot {
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

/* Kinds of entries, by their use for the lookup of functions. */
enum dwarf_kind {
	KIND_OTHER,
	KIND_FUNCTION,
	KIND_INLINED,
	KIND_BLOCK, /* may contain functions: a namespace, a lexical block */
	KIND_TYPE, /* rarely contains functions with code */
	KIND_UNIT, /* root of a compilation unit */
};

/* Size of a value that is known only after reading it. */
#define SIZE_VARIES UINT32_MAX

/* Encoding of a unit, which determines the sizes of forms. */
struct dwarf_layout {
	uint8_t version;
	uint8_t address_size; /* 4 or 8 */
	uint8_t offset_size; /* 4 or 8 */
};

/* Adjacent attributes of fixed size that are not read are merged into one. */
struct dwarf_attribute {
	uint16_t form;
	uint8_t slot; /* SLOT_NONE: not read */
	uint32_t size; /* of the value in bytes, or SIZE_VARIES */
	int64_t constant; /* of DW_FORM_implicit_const */
};

struct dwarf_abbrev {
	uint64_t code;
	uint32_t slots; /* SLOT_BIT() of each attribute present */
	uint32_t size; /* of all attributes in bytes, or SIZE_VARIES */
	uint32_t sibling; /* offset of a DW_FORM_ref4 DW_AT_sibling, or SIZE_VARIES */
	uint32_t first, count; /* attributes in the table */
	uint8_t kind;
	bool has_children;
};

struct dwarf_abbrevs {
	uint64_t offset; /* in .debug_abbrev */
	struct dwarf_layout layout;
	struct dwarf_abbrev *list; /* sorted by code */
	size_t count, capacity;
	struct dwarf_attribute *attributes;
	size_t attribute_count, attribute_capacity;
};

/*
 * Reads the table at a cursor up to its end or to a broken entry; if `only` is not 0, only the
 * abbreviation with that code. `abbrevs` must be all zero. Returns 0, to be followed by
 * dwarf_abbrevs_clear(), or -ENOMEM.
 */
int dwarf_abbrevs_read(struct dwarf_abbrevs *abbrevs, struct cursor cursor,
		       struct dwarf_layout layout, uint64_t only);
void dwarf_abbrevs_clear(struct dwarf_abbrevs *abbrevs);

/* Slow path of dwarf_abbrev(): a binary search, for codes that are not 1, 2, 3, ... */
const struct dwarf_abbrev *dwarf_abbrev_search(const struct dwarf_abbrevs *abbrevs, uint64_t code);

/* Returns the abbreviation with a code, or NULL. */
static inline const struct dwarf_abbrev *dwarf_abbrev(const struct dwarf_abbrevs *abbrevs,
						      uint64_t code)
{
	/* Compilers number them 1, 2, 3, ... */
	if (code - 1 < abbrevs->count && abbrevs->list[code - 1].code == code)
		return &abbrevs->list[code - 1];
	return dwarf_abbrev_search(abbrevs, code);
}

/* Returns the size of a form's value in bytes, or SIZE_VARIES. */
uint32_t dwarf_form_size(uint64_t form, struct dwarf_layout layout);

#endif
