// SPDX-License-Identifier: GPL-2.0
/*
 * The mapping history of an address space: the input is a sequence of records and lookups of 8
 * bytes each.
 */
#include "fuzz.h"

#include "process/mapping_history.h"

#include <stdbool.h>

/* Small numbers, so that ranges and generations overlap. */
struct told {
	uint8_t type, generation, other, place;
	uint8_t start, length, shift, high;
};

static struct mapping mapping_of(const struct told *told)
{
	/* At the end of all addresses, too. */
	uint64_t base = told->high & 1 ? 0x1000 * (uint64_t)told->start
				       : UINT64_MAX - 0x1000 * (uint64_t)told->start;
	uint64_t length = 0x1000 * ((uint64_t)told->length + 1);

	if (length > UINT64_MAX - base)
		length = UINT64_MAX - base;
	if (!length)
		base--;
	return (struct mapping){.start = base,
				.end = base + (length ? length : 1),
				.bias = told->shift,
				.segment = told->place};
}

static void find(struct mapping_history *history, uint32_t generation, uint64_t address)
{
	const struct mapping *found = mapping_history_find(history, generation, address);

	if (found && (address < found->start || address >= found->end))
		abort();
}

static void see_place(uint32_t place, void *arg)
{
	*(uint32_t *)arg += place;
}

static void tell(struct mapping_history *history, const struct told *told)
{
	/* Generations may be as high as they get. */
	uint32_t generation = told->high & 2 ? UINT32_MAX - told->generation : told->generation;
	const struct mapping mapping = mapping_of(told);
	uint64_t lost = 0;
	uint32_t sum = 0;
	int err = 0;

	switch (told->type % 6) {
	case 0:
		err = mapping_history_add_snapshot(history, generation,
						   told->other > generation ? 0 : told->other,
						   told->high & 4);
		break;
	case 1:
		err = mapping_history_add_mapping(history, generation, &mapping, &lost);
		break;
	case 2:
	case 3:
		err = mapping_history_add_event(history, generation, &mapping, &lost);
		break;
	case 4:
		if (!mapping_history_ready(history, generation, told->high & 4))
			err = mapping_history_advance(history, generation);
		find(history, generation, mapping.start);
		find(history, generation, mapping.end);
		find(history, generation, mapping.end - 1);
		break;
	default:
		mapping_history_each_segment(history, see_place, &sum);
		sum += mapping_history_latest_generation(history) +
		       mapping_history_has_pending(history) +
		       mapping_history_is_certain(history, generation);
	}
	if (err)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mapping_history *history = mapping_history_new();
	struct told told;

	if (!history)
		abort();
	for (; size >= sizeof(told); data += sizeof(told), size -= sizeof(told)) {
		memcpy(&told, data, sizeof(told));
		tell(history, &told);
	}
	mapping_history_free(history);
	return 0;
}
