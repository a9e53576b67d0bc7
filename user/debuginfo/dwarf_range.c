// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/dwarf_range.h"

#include <dwarf.h>

/* Returns the begin of a list in .debug_ranges or, since DWARF 5, in .debug_rnglists. */
static struct cursor list_cursor(const struct dwarf_unit *unit, const struct dwarf_value *value)
{
	const struct dwarf_bytes *sections = unit->dwarf->sections;
	const struct dwarf_bytes *lists = &sections[SECTION_RANGES];
	uint64_t offset = value->number, entry;
	struct cursor cursor;

	if (unit->layout.version >= 5)
		lists = &sections[SECTION_RNGLISTS];
	if (value->form == DW_FORM_rnglistx) {
		/* An index in the table of offsets; these are relative to the table. */
		if (__builtin_mul_overflow(offset, unit->layout.offset_size, &entry) ||
		    __builtin_add_overflow(entry, unit->rnglists_base, &entry))
			entry = UINT64_MAX;
		cursor = cursor_at(lists->data, lists->size, entry);
		offset = unit->rnglists_base + cursor_number(&cursor, unit->layout.offset_size);
		if (cursor.broken)
			return cursor;
	}
	return cursor_at(lists->data, lists->size, offset);
}

static struct dwarf_ranges make_ranges(const struct dwarf_unit *unit,
				       const struct dwarf_value *list,
				       const struct dwarf_value *low_pc,
				       const struct dwarf_value *high_pc)
{
	struct dwarf_ranges ranges = {
		.unit = unit,
		.cursor.broken = true,
		.base = unit->low_pc,
		.left = RANGES_MAX,
	};

	if (list->form) {
		ranges.cursor = list_cursor(unit, list);
		return ranges;
	}
	ranges.left = 1;
	if (!dwarf_address(unit, low_pc, &ranges.low) || !high_pc->form)
		return ranges;
	/* Either an address, or a size in bytes. */
	if (!dwarf_address(unit, high_pc, &ranges.high))
		ranges.high = ranges.low + high_pc->number;
	return ranges;
}

struct dwarf_ranges dwarf_ranges_of(const struct dwarf_unit *unit, const struct dwarf_entry *entry)
{
	return make_ranges(unit, dwarf_value(entry, SLOT_RANGES), dwarf_value(entry, SLOT_LOW_PC),
			   dwarf_value(entry, SLOT_HIGH_PC));
}

struct dwarf_ranges dwarf_ranges_of_unit(const struct dwarf_unit *unit)
{
	const struct dwarf_value low_pc = {
		.form = unit->has_low_pc ? DW_FORM_addr : 0,
		.number = unit->low_pc,
	};

	return make_ranges(unit, &unit->ranges, &low_pc, &unit->high_pc);
}

/* Reads one pair of .debug_ranges. False at the end of the list. */
static bool next_pair(struct dwarf_ranges *ranges, uint64_t *start, uint64_t *end)
{
	uint8_t size = ranges->unit->layout.address_size;
	uint64_t highest = size == 4 ? UINT32_MAX : UINT64_MAX;

	*start = cursor_number(&ranges->cursor, size);
	*end = cursor_number(&ranges->cursor, size);
	if (ranges->cursor.broken || (*start == 0 && *end == 0))
		return false;
	if (*start == highest) {
		ranges->base = *end;
		*end = *start; /* an empty range */
		return true;
	}
	*start += ranges->base;
	*end += ranges->base;
	return true;
}

static uint64_t indexed_address(struct dwarf_ranges *ranges)
{
	uint64_t address = 0;

	if (!dwarf_indexed_address(ranges->unit, cursor_uleb128(&ranges->cursor), &address))
		cursor_break(&ranges->cursor);
	return address;
}

/* Reads one entry of .debug_rnglists. False at the end of the list. */
static bool dwarf_ranges_next_entry(struct dwarf_ranges *ranges, uint64_t *start, uint64_t *end)
{
	uint8_t size = ranges->unit->layout.address_size;
	struct cursor *cursor = &ranges->cursor;

	*start = *end = 0;
	switch (cursor_u8(cursor)) {
	case DW_RLE_base_addressx:
		ranges->base = indexed_address(ranges);
		break;
	case DW_RLE_startx_endx:
		*start = indexed_address(ranges);
		*end = indexed_address(ranges);
		break;
	case DW_RLE_startx_length:
		*start = indexed_address(ranges);
		*end = *start + cursor_uleb128(cursor);
		break;
	case DW_RLE_offset_pair:
		*start = ranges->base + cursor_uleb128(cursor);
		*end = ranges->base + cursor_uleb128(cursor);
		break;
	case DW_RLE_base_address:
		ranges->base = cursor_number(cursor, size);
		break;
	case DW_RLE_start_end:
		*start = cursor_number(cursor, size);
		*end = cursor_number(cursor, size);
		break;
	case DW_RLE_start_length:
		*start = cursor_number(cursor, size);
		*end = *start + cursor_uleb128(cursor);
		break;
	default: /* DW_RLE_end_of_list, or an unknown entry */
		return false;
	}
	return !cursor->broken;
}

bool dwarf_ranges_next(struct dwarf_ranges *ranges, uint64_t *start, uint64_t *end)
{
	bool is_new = ranges->unit->layout.version >= 5;

	while (ranges->left > 0) {
		ranges->left--;
		if (ranges->cursor.broken) {
			ranges->left = 0;
			*start = ranges->low;
			*end = ranges->high;
		} else if (!(is_new ? dwarf_ranges_next_entry : next_pair)(ranges, start, end)) {
			ranges->left = 0;
			return false;
		}
		if (*start < *end)
			return true;
	}
	return false;
}
