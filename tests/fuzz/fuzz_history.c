// SPDX-License-Identifier: GPL-2.0
/*
 * The mapping history of an address space: the input is a sequence of records and lookups of 8
 * bytes each.
 */
#include "fuzz.h"

#include "process/mapping_history.h"

#include <stdbool.h>

/* Small numbers, so that ranges and generations overlap. */
struct step {
	uint8_t type, generation, other, segment;
	uint8_t start, length, bias, high;
};

static struct mapping mapping_of(const struct step *step)
{
	/* At the end of all addresses, too. */
	uint64_t base = step->high & 1 ? 0x1000 * (uint64_t)step->start
				       : UINT64_MAX - 0x1000 * (uint64_t)step->start;
	uint64_t length = 0x1000 * ((uint64_t)step->length + 1);

	if (length > UINT64_MAX - base)
		length = UINT64_MAX - base;
	if (!length)
		base--;
	return (struct mapping){.start = base,
				.end = base + (length ? length : 1),
				.bias = step->bias,
				.segment = step->segment};
}

static void find(struct mapping_history *history, uint32_t generation, uint64_t address)
{
	const struct mapping *found = mapping_history_find(history, generation, address);

	if (found && (address < found->start || address >= found->end))
		abort();
}

static void see_place(uint32_t segment, void *arg)
{
	*(uint32_t *)arg += segment;
}

static void apply(struct mapping_history *history, const struct step *step)
{
	/* Generations may be as high as they get. */
	uint32_t generation = step->high & 2 ? UINT32_MAX - step->generation : step->generation;
	const struct mapping mapping = mapping_of(step);
	uint64_t lost = 0;
	uint32_t sum = 0;
	int err = 0;

	switch (step->type % 6) {
	case 0:
		err = mapping_history_add_snapshot(history, generation,
						   step->other > generation ? 0 : step->other,
						   step->high & 4);
		break;
	case 1:
		err = mapping_history_add_mapping(history, generation, &mapping, &lost);
		break;
	case 2:
	case 3:
		err = mapping_history_add_event(history, generation, &mapping, &lost);
		break;
	case 4:
		if (!mapping_history_ready(history, generation, step->high & 4))
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
	struct step step;

	if (!history)
		abort();
	for (; size >= sizeof(step); data += sizeof(step), size -= sizeof(step)) {
		memcpy(&step, data, sizeof(step));
		apply(history, &step);
	}
	mapping_history_free(history);
	return 0;
}
