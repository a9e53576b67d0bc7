/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of kernel modules that come and go during a recording (debuginfo/gone_modules.h), read
 * from the session, which keeps them until it is closed; and the code that the kernel generates
 * meanwhile, as it is announced (source/generated_code.h).
 */
#ifndef STACKBEAT_RECORD_GONE_PARTS_H
#define STACKBEAT_RECORD_GONE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/clock.h"

struct device;
struct generated_code_change;
struct gone_part;

/* A sample can arrive so long after the time when it was taken: it waits in a ring, and for its
 * mappings. */
#define GONE_PARTS_SAMPLE_AGE_NS (10 * NS_PER_SECOND)
/* A CPU may run generated code so long after it was announced to go. */
#define GONE_PARTS_END_NS NS_PER_SECOND
/* Pieces of generated code that are kept; a machine that loads more of them loses the oldest. */
#define GONE_PARTS_GENERATED_MAX 4096u

/* All zero: none. */
struct gone_parts {
	struct gone_part *items; /* in the order of their starts */
	size_t count, capacity;
	uint64_t dropped; /* parts that could not be kept, and may have samples */
	/* Private. */
	size_t generated; /* parts of generated code */
	uint64_t generated_ever; /* which have had serials */
	uint64_t changes; /* see struct stackbeat_module_symbols */
	uint64_t first; /* no part below this serial is read */
	uint64_t last; /* the highest serial that was seen; 0: none */
	uint64_t dropped_before; /* by the module, when it was asked first, if `has_asked` */
	bool has_asked;
	uint64_t start, end; /* of the functions of all parts */
	size_t bytes; /* of their texts */
	bool is_refused; /* the session can't have them */
};

/*
 * Reads the parts that were there after `since` (the kernel's CLOCK_MONOTONIC, ns), which does not
 * decrease from call to call, if there were changes since the last call. Parts that can't be read
 * are left out. Returns whether any has come or gone, or is left out from now on.
 */
bool gone_parts_refresh(struct gone_parts *parts, const struct device *device, uint64_t since);
void gone_parts_clear(struct gone_parts *parts);

/* Notes that generated code has come or gone: a change, as for gone_parts_refresh(). */
void gone_parts_announce(struct gone_parts *parts, const struct generated_code_change *change);

/*
 * Announcements were lost until `time`: what was there may be gone, and other code in its place,
 * which must not have its name.
 */
void gone_parts_lose_announcements(struct gone_parts *parts, uint64_t time);

/* Returns the bytes of memory of the parts, without the overhead of malloc(). */
size_t gone_parts_bytes(const struct gone_parts *parts);

/*
 * Replaces the addresses of a sample in the kernel, of a time, that are in the ranges of the parts,
 * by aliases. Returns whether the same addresses at another time have the same ones, as long as
 * gone_parts_refresh() returns false, and nothing is announced.
 */
bool gone_parts_set_aliases(const struct gone_parts *parts, uint64_t time, uint64_t *addresses,
			    size_t count);

#endif
