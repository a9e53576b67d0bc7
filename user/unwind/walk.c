// SPDX-License-Identifier: GPL-2.0
#include "unwind/walk.h"

#include <string.h>

/*
 * The base of fs is not in a copy: Go's rules that need it read above the copy, and the walk ends
 * there as at each other stack that was not copied.
 */
#define NO_FS_BASE (UINT64_MAX - (1u << 20))

static enum walk_end end_of(enum stackbeat_unwind_result result)
{
	switch (result) {
	case STACKBEAT_UNWIND_OUTERMOST:
		return WALK_OUTERMOST;
	case STACKBEAT_UNWIND_NO_RULE:
		return WALK_NO_RULE;
	case STACKBEAT_UNWIND_UNREADABLE:
		return WALK_UNREADABLE;
	case STACKBEAT_UNWIND_LOST_REGISTER:
		return WALK_LOST_REGISTER;
	case STACKBEAT_UNWIND_BAD_FRAME:
	case STACKBEAT_UNWIND_STEPPED:
		break;
	}
	return WALK_BAD_FRAME;
}

/*
 * Sets *go to what the rule of a frame needs. Returns false if the place of g can't be read.
 * Without the base of fs, the offset from there does not matter.
 */
static bool walk_find_go(const struct walk *walk, const struct walk_mapping *mapping,
			 const struct stackbeat_unwind_rule *rule, struct stackbeat_unwind_go *go)
{
	const struct stackbeat_unwind_go *of = mapping->table->go;

	*go = *of;
	if (!of->tls_in_memory || !rule || (rule->kind_base & 0xf) < STACKBEAT_UNWIND_GO_SWITCH)
		return true;
	if (walk->frame.fs_base != NO_FS_BASE)
		return stackbeat_unwind_go_in_process(go, of, mapping->bias, walk->read, walk->arg);
	go->tls = 0;
	return true;
}

/*
 * Sets the frame to the caller's, and *by_table if a table has its rule. Returns false, with
 * *end set, if there is none.
 */
static bool walk_step(struct walk *walk, bool *by_table, enum walk_end *end)
{
	uint64_t address = stackbeat_unwind_address(&walk->frame);
	const struct walk_mapping *mapping = walk->mapping(walk->arg, address);
	const struct stackbeat_unwind_rule *rule = NULL;
	enum stackbeat_unwind_result result;
	struct stackbeat_unwind_go go = {0};

	if (mapping && mapping->table)
		rule = stackbeat_unwind_find(mapping->table, address - mapping->bias);
	if (walk->visit)
		walk->visit(walk->arg, &walk->frame, mapping, rule);
	if (!mapping) {
		*end = WALK_NO_MAPPING;
		return false;
	}
	*by_table = mapping->table;
	if (mapping->table && !walk_find_go(walk, mapping, rule, &go)) {
		*end = WALK_UNREADABLE;
		return false;
	}
	result = mapping->table
			 ? stackbeat_unwind_step(&walk->frame, rule, &go, walk->read, walk->arg)
			 : stackbeat_unwind_step_frame_pointer(&walk->frame, walk->read, walk->arg);
	if (result == STACKBEAT_UNWIND_STEPPED)
		return true;
	*end = end_of(result);
	return false;
}

size_t walk_stack(struct walk *walk, uint64_t *addresses, size_t max, enum walk_end *end)
{
	const __u64 *rip = &walk->frame.registers[STACKBEAT_REGISTER_RIP];
	size_t count = 0;

	walk->frame.known = STACKBEAT_UNWIND_ALL_KNOWN;
	walk->frame.is_return_address = walk->begins_at_call;
	walk->frame.descents = 0;
	walk->table_frames = 0;
	*end = WALK_MAX_DEPTH;
	while (count < max) {
		bool by_table = false, is_leaf = !walk->frame.is_return_address;

		addresses[count] = *rip + (count && !walk->frame.is_return_address);
		count++;
		if (!walk_step(walk, &by_table, end))
			return count;
		/*
		 * A return address of 0 ends the stack of a thread on some systems. Where the
		 * thread was interrupted in code without a table, the frame pointer may be data.
		 */
		if (!*rip) {
			*end = by_table || !is_leaf ? WALK_OUTERMOST : WALK_BAD_FRAME;
			return count;
		}
		walk->table_frames += by_table && count < max;
	}
	return count;
}

/* Copies */

struct copy {
	const struct stackbeat_stack *stack;
	const struct walk_mapping *(*mapping)(void *arg, uint64_t address);
	void *arg;
	uint64_t unreadable; /* the address of the last word that could not be read */
	bool is_exceeded; /* it is above the copy */
	uint64_t need; /* as in struct walk_result */
};

static const struct walk_mapping *walk_image_find_mapping(void *arg, uint64_t address)
{
	const struct copy *copy = arg;

	return copy->mapping(copy->arg, address);
}

/* See stackbeat_unwind_read. */
static int read_copy(void *arg, __u64 address, __u64 *word)
{
	struct copy *copy = arg;
	uint64_t start = copy->stack->registers[STACKBEAT_REGISTER_RSP];
	uint64_t size = copy->stack->size, offset = address - start;

	copy->is_exceeded =
		address >= start && (size < sizeof(*word) || offset > size - sizeof(*word));
	if (address >= start && offset < STACKBEAT_STACK_COPY_MAX &&
	    offset + sizeof(*word) > copy->need)
		copy->need = offset + sizeof(*word);
	if (address < start || copy->is_exceeded) {
		copy->unreadable = address;
		return 0;
	}
	memcpy(word, copy->stack->bytes + offset, sizeof(*word));
	return 1;
}

void walk_stack_copy(const struct stackbeat_stack *stack,
		     const struct walk_mapping *(*mapping)(void *arg, uint64_t address), void *arg,
		     uint64_t *addresses, size_t max, struct walk_result *result)
{
	struct copy copy = {.stack = stack, .mapping = mapping, .arg = arg};
	struct walk walk = {.mapping = walk_image_find_mapping, .read = read_copy, .arg = &copy};

	memcpy(walk.frame.registers, stack->registers, sizeof(walk.frame.registers));
	walk.frame.fs_base = NO_FS_BASE;
	result->frames = walk_stack(&walk, addresses, max, &result->end);
	result->table_frames = walk.table_frames;
	result->unreadable = copy.unreadable;
	result->need = copy.need;
	result->is_truncated = result->end == WALK_UNREADABLE && copy.is_exceeded;
}
