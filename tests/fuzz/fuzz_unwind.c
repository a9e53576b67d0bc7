// SPDX-License-Identifier: GPL-2.0
/*
 * Walks by random tables: the input is the registers of a thread, a stack of 1 KiB, and a table,
 * whose valid size and counts are filled in if its first byte is odd. The stack is walked as a
 * copy, and as memory in which the thread has its pointer to the g of Go, too.
 */
#include "fuzz.h"

#include <stdbool.h>

#include "unwind/walk.h"

#define STACK_SIZE 1024u
#define FRAMES_MAX 128u
#define CODE UINT64_C(0x400000)

static struct walk_mapping mapping;

/* Half of the addresses have no table. */
static const struct walk_mapping *find_mapping(void *arg, uint64_t address)
{
	static const struct walk_mapping jit = {.end = UINT64_MAX};

	(void)arg;
	if (address - mapping.start < mapping.end - mapping.start)
		return &mapping;
	return address & 1 ? &jit : NULL;
}

/* Sets the counts of a table to its size. */
static void repair(struct stackbeat_unwind_table *table, size_t size)
{
	uint32_t *blocks;

	*table = (struct stackbeat_unwind_table){
		.magic = STACKBEAT_UNWIND_MAGIC,
		.size = (uint32_t)size,
		.start = CODE,
		.block_count = 1,
		.rule_count = (uint32_t)((size - sizeof(*table) - 16) / 16),
		.row_count = 1,
		.go = table->go,
	};
	if (!table->rule_count)
		table->rule_count = 1;
	table->row_count = (uint32_t)((size - sizeof(*table) - 8 - 8 * table->rule_count) / 3);
	if (table->row_count > 256)
		table->row_count = 256;
	table->size = (uint32_t)stackbeat_unwind_size(table);
	blocks = (uint32_t *)((char *)(table + 1) +
			      table->rule_count * sizeof(struct stackbeat_unwind_rule));
	blocks[0] = 0;
	blocks[1] = table->row_count;
	for (uint32_t i = 0; i < table->row_count; i++) {
		uint16_t *rules = (uint16_t *)(blocks + 2);
		uint8_t *starts = (uint8_t *)(rules + table->row_count);

		rules[i] = (uint16_t)(rules[i] % table->rule_count);
		starts[i] = (uint8_t)i;
	}
}

/* See stackbeat_unwind_read. */
static int read_stack(void *arg, __u64 address, __u64 *word)
{
	const struct stackbeat_stack *stack = arg;
	uint64_t offset = address - stack->registers[STACKBEAT_REGISTER_RSP];

	if (offset > STACK_SIZE - sizeof(*word))
		return 0;
	memcpy(word, stack->bytes + offset, sizeof(*word));
	return 1;
}

static void walk_memory(struct stackbeat_stack *stack)
{
	struct walk walk = {.mapping = find_mapping, .read = read_stack, .arg = stack};
	uint64_t frames[FRAMES_MAX];
	enum walk_end end;
	size_t count;

	memcpy(walk.frame.registers, stack->registers, sizeof(walk.frame.registers));
	walk.frame.fs_base = stack->registers[STACKBEAT_REGISTER_RSP];
	count = walk_stack(&walk, frames, FRAMES_MAX, &end);
	if (!count || count > FRAMES_MAX || walk.table_frames >= count || end > WALK_MAX_DEPTH)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t head = STACKBEAT_REGISTERS * sizeof(uint64_t) + STACK_SIZE;
	struct stackbeat_stack *stack = calloc(1, sizeof(*stack) + STACK_SIZE);
	struct stackbeat_unwind_table *table;
	struct stackbeat_unwind_view view;
	uint64_t frames[FRAMES_MAX];
	struct walk_result result;
	size_t table_size = size > head ? (size - head) & ~(size_t)7 : 0;

	if (!stack)
		abort();
	if (table_size < sizeof(*table) + 32) {
		free(stack);
		return 0;
	}
	table = malloc(table_size);
	if (!table)
		abort();
	memcpy(stack->registers, data, sizeof(stack->registers));
	memcpy(stack->bytes, data + sizeof(stack->registers), STACK_SIZE);
	memcpy(table, data + head, table_size);
	stack->size = STACK_SIZE;
	if (data[head] & 1)
		repair(table, table_size);
	if (table->size <= table_size && stackbeat_unwind_check(table, table->size)) {
		stackbeat_unwind_open(table, &view);
		mapping = (struct walk_mapping){view.start, view.start + view.size, 0, &view};
		walk_stack_copy(stack, find_mapping, NULL, frames, FRAMES_MAX, &result);
		if (!result.frames || result.frames > FRAMES_MAX ||
		    result.table_frames >= result.frames || result.end > WALK_MAX_DEPTH)
			abort();
		walk_memory(stack);
	}
	free(table);
	free(stack);
	return 0;
}
