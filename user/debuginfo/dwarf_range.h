/* SPDX-License-Identifier: GPL-2.0 */
/* Address ranges of DWARF entries and units. */
#ifndef STACKBEAT_DEBUGINFO_DWARF_RANGE_H
#define STACKBEAT_DEBUGINFO_DWARF_RANGE_H

#include "debuginfo/dwarf_unit.h"

#define RANGE_SLOTS (SLOT_BIT(SLOT_LOW_PC) | SLOT_BIT(SLOT_HIGH_PC) | SLOT_BIT(SLOT_RANGES))

/* Ranges of one entry. A file with more is broken or malicious. */
#define RANGES_MAX (1u << 16)

struct dwarf_ranges {
	const struct dwarf_unit *unit;
	struct cursor cursor; /* in the list; broken: no list */
	uint64_t base;
	uint64_t low, high; /* the only range of an entry without a list */
	uint32_t left; /* ranges that may follow */
};

/* Return an iterator over the ranges of an entry, or of a unit. */
struct dwarf_ranges dwarf_ranges_of(const struct dwarf_unit *unit, const struct dwarf_entry *entry);
struct dwarf_ranges dwarf_ranges_of_unit(const struct dwarf_unit *unit);

/* Gets the next nonempty range. False at the end. */
bool dwarf_ranges_next(struct dwarf_ranges *ranges, uint64_t *start, uint64_t *end);

#endif
