// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/dwarf_abbrev.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "lib/array.h"

/* Larger sums of sizes become SIZE_VARIES: attributes are then read one by one. */
#define FIXED_SIZE_MAX (1u << 20)

static uint8_t slot_of(uint64_t name)
{
	switch (name) {
	case DW_AT_sibling:
		return SLOT_SIBLING;
	case DW_AT_low_pc:
		return SLOT_LOW_PC;
	case DW_AT_high_pc:
		return SLOT_HIGH_PC;
	case DW_AT_ranges:
		return SLOT_RANGES;
	case DW_AT_abstract_origin:
		return SLOT_ORIGIN;
	case DW_AT_specification:
		return SLOT_SPECIFICATION;
	case DW_AT_name:
		return SLOT_NAME;
	case DW_AT_linkage_name:
	case DW_AT_MIPS_linkage_name:
		return SLOT_LINKAGE_NAME;
	case DW_AT_decl_file:
		return SLOT_DECL_FILE;
	case DW_AT_decl_line:
		return SLOT_DECL_LINE;
	case DW_AT_call_file:
		return SLOT_CALL_FILE;
	case DW_AT_call_line:
		return SLOT_CALL_LINE;
	case DW_AT_language:
		return SLOT_LANGUAGE;
	case DW_AT_stmt_list:
		return SLOT_STMT_LIST;
	case DW_AT_comp_dir:
		return SLOT_COMP_DIR;
	case DW_AT_str_offsets_base:
		return SLOT_STR_OFFSETS_BASE;
	case DW_AT_addr_base:
	case DW_AT_GNU_addr_base:
		return SLOT_ADDR_BASE;
	case DW_AT_rnglists_base:
		return SLOT_RNGLISTS_BASE;
	default:
		return SLOT_NONE;
	}
}

static uint8_t abbrev_tag_kind(uint64_t tag)
{
	switch (tag) {
	case DW_TAG_compile_unit:
	case DW_TAG_skeleton_unit:
		return KIND_UNIT;
	case DW_TAG_subprogram:
		return KIND_FUNCTION;
	case DW_TAG_inlined_subroutine:
		return KIND_INLINED;
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
		return KIND_BLOCK;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		return KIND_TYPE;
	default:
		return KIND_OTHER;
	}
}

uint32_t dwarf_form_size(uint64_t form, struct dwarf_layout layout)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_ref_sup4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8:
		return 8;
	case DW_FORM_data16:
		return 16;
	case DW_FORM_addr:
		return layout.address_size;
	case DW_FORM_ref_addr:
		return layout.version == 2 ? layout.address_size : layout.offset_size;
	case DW_FORM_sec_offset:
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		return layout.offset_size;
	default:
		return SIZE_VARIES;
	}
}

static uint32_t add_sizes(uint32_t a, uint32_t b)
{
	if (a == SIZE_VARIES || b == SIZE_VARIES || a > FIXED_SIZE_MAX)
		return SIZE_VARIES;
	return a + b;
}

static int add_attribute(struct dwarf_abbrevs *abbrevs, struct dwarf_abbrev *abbrev,
			 struct dwarf_attribute attribute)
{
	struct dwarf_attribute *last;
	uint32_t size;

	if (abbrev->count > 0 && attribute.slot == SLOT_NONE) {
		last = &abbrevs->attributes[abbrevs->attribute_count - 1];
		size = add_sizes(last->size, attribute.size);
		if (last->slot == SLOT_NONE && size != SIZE_VARIES) {
			last->size = size;
			return 0;
		}
	}
	if (array_reserve(&abbrevs->attributes, &abbrevs->attribute_capacity,
			  abbrevs->attribute_count, 1, sizeof(attribute)) != 0)
		return -ENOMEM;
	abbrevs->attributes[abbrevs->attribute_count++] = attribute;
	abbrev->count++;
	return 0;
}

/*
 * Only the first occurrence of an attribute counts, all others are skipped. Some forms have no
 * bytes; repeated ones could otherwise make an entry cost far more than its bytes.
 */
static uint8_t claim_slot(struct dwarf_abbrev *abbrev, uint64_t name)
{
	uint8_t slot = slot_of(name);

	if (slot == SLOT_NONE || (abbrev->slots & SLOT_BIT(slot)))
		return SLOT_NONE;
	abbrev->slots |= SLOT_BIT(slot);
	return slot;
}

static int read_attributes(struct dwarf_abbrevs *abbrevs, struct dwarf_abbrev *abbrev,
			   struct cursor *cursor)
{
	struct dwarf_attribute attribute;
	uint64_t name, form;

	abbrev->sibling = SIZE_VARIES;
	while (!cursor->broken) {
		name = cursor_uleb128(cursor);
		form = cursor_uleb128(cursor);
		if (name == 0 && form == 0)
			break;
		attribute = (struct dwarf_attribute){
			.form = form > UINT16_MAX ? 0 : (uint16_t)form,
			.slot = claim_slot(abbrev, name),
			.size = dwarf_form_size(form, abbrevs->layout),
		};
		if (form == DW_FORM_implicit_const)
			attribute.constant = cursor_sleb128(cursor);
		if (attribute.slot == SLOT_SIBLING && form == DW_FORM_ref4)
			abbrev->sibling = abbrev->size;
		abbrev->size = add_sizes(abbrev->size, attribute.size);
		if (add_attribute(abbrevs, abbrev, attribute) != 0)
			return -ENOMEM;
	}
	return 0;
}

static void skip_attributes(struct cursor *cursor)
{
	uint64_t name, form;

	do {
		name = cursor_uleb128(cursor);
		form = cursor_uleb128(cursor);
		if (form == DW_FORM_implicit_const)
			cursor_sleb128(cursor);
	} while ((name != 0 || form != 0) && !cursor->broken);
}

static int compare_codes(const void *a, const void *b)
{
	const struct dwarf_abbrev *left = a, *right = b;

	return (left->code > right->code) - (left->code < right->code);
}

static void sort_by_code(struct dwarf_abbrevs *abbrevs)
{
	for (size_t i = 1; i < abbrevs->count; i++) {
		if (abbrevs->list[i].code <= abbrevs->list[i - 1].code) {
			qsort(abbrevs->list, abbrevs->count, sizeof(*abbrevs->list), compare_codes);
			return;
		}
	}
}

int dwarf_abbrevs_read(struct dwarf_abbrevs *abbrevs, struct cursor cursor,
		       struct dwarf_layout layout, uint64_t only)
{
	struct dwarf_abbrev abbrev;
	int err = 0;

	abbrevs->layout = layout;
	while (!err) {
		abbrev = (struct dwarf_abbrev){.code = cursor_uleb128(&cursor)};
		if (abbrev.code == 0)
			break;
		abbrev.kind = abbrev_tag_kind(cursor_uleb128(&cursor));
		abbrev.has_children = cursor_u8(&cursor) != DW_CHILDREN_no;
		if (only && abbrev.code != only) {
			skip_attributes(&cursor);
			continue;
		}
		abbrev.first = (uint32_t)abbrevs->attribute_count;
		err = read_attributes(abbrevs, &abbrev, &cursor);
		if (cursor.broken || err)
			break;
		err = array_reserve(&abbrevs->list, &abbrevs->capacity, abbrevs->count, 1,
				    sizeof(abbrev));
		if (!err)
			abbrevs->list[abbrevs->count++] = abbrev;
		if (abbrev.code == only)
			break;
	}
	if (err)
		dwarf_abbrevs_clear(abbrevs);
	else
		sort_by_code(abbrevs);
	return err;
}

void dwarf_abbrevs_clear(struct dwarf_abbrevs *abbrevs)
{
	free(abbrevs->list);
	free(abbrevs->attributes);
	*abbrevs = (struct dwarf_abbrevs){0};
}

const struct dwarf_abbrev *dwarf_abbrev_search(const struct dwarf_abbrevs *abbrevs, uint64_t code)
{
	const struct dwarf_abbrev key = {.code = code};

	if (abbrevs->count == 0)
		return NULL;
	return bsearch(&key, abbrevs->list, abbrevs->count, sizeof(key), compare_codes);
}
