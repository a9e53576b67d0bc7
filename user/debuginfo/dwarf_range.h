/* SPDX-License-Identifier: GPL-2.0 */
/* The ranges of addresses that an entry of DWARF covers. */
#ifndef STACKBEAT_DEBUGINFO_DWARF_RANGE_H
#define STACKBEAT_DEBUGINFO_DWARF_RANGE_H

#include "debuginfo/dwarf_unit.h"

#define RANGE_SLOTS (SLOT_BIT(SLOT_LOW_PC) | SLOT_BIT(SLOT_HIGH_PC) | SLOT_BIT(SLOT_RANGES))

/* Of one entry. A file with more is broken or means harm. */
#define RANGES_MAX (1u << 16)

struct dwarf_ranges {
	const struct dwarf_unit *unit;
	struct cursor cursor; /* in the list; broken: there is none */
	uint64_t base;
	uint64_t low, high; /* the only range of an entry without a list */
	uint32_t left; /* that may follow */
};

/* Begins with the ranges of an entry, or of a unit itself. */
struct dwarf_ranges dwarf_ranges_of(const struct dwarf_unit *unit, const struct dwarf_entry *entry);
struct dwarf_ranges dwarf_ranges_of_unit(const struct dwarf_unit *unit);

/* The next range that is not empty; false at the end. */
bool dwarf_ranges_next(struct dwarf_ranges *ranges, uint64_t *start, uint64_t *end);

#endif
