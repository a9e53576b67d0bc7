// SPDX-License-Identifier: GPL-2.0
#include "unwind/walk.h"

#include <string.h>

#include "unwind/cfi.h"

/* Offset of uc_mcontext in struct ucontext of the kernel, and of a register in it. */
#define UCONTEXT_REGISTERS 40u

/* The general registers of struct sigcontext, in its order, by DWARF number; then rip. */
static const uint8_t sigcontext_registers[] = {8, 9, 10, 11, 12, 13, 14, 15,      5,
					       4, 6, 3,  1,  0,  2,  7,  WALK_RIP};

static bool is_known(const struct walk *walk, unsigned int reg)
{
	return walk->known >> reg & 1;
}

static uint64_t offset_by_words(uint64_t address, int words)
{
	return address + (uint64_t)(int64_t)words * 8;
}

/* Restores the registers that a signal has interrupted, from the frame of the handler. */
static bool step_signal(struct walk *walk, enum walk_end *end)
{
	uint64_t context = walk->registers[CFI_RSP] + UCONTEXT_REGISTERS;

	for (size_t i = 0; i < sizeof(sigcontext_registers); i++) {
		if (!walk->read(walk->arg, context + i * sizeof(uint64_t),
				&walk->registers[sigcontext_registers[i]])) {
			*end = WALK_UNREADABLE;
			return false;
		}
	}
	walk->known = (1u << WALK_REGISTERS) - 1;
	walk->is_return_address = false;
	return true;
}

static bool find_cfa(const struct walk *walk, const struct stackbeat_unwind_rule *rule,
		     uint64_t *cfa, enum walk_end *end)
{
	unsigned int base = rule->kind_base >> 4;

	if (!is_known(walk, base)) {
		*end = WALK_LOST_REGISTER;
		return false;
	}
	*cfa = walk->registers[base] + (uint64_t)(int64_t)rule->cfa;
	if (!(rule->flags & STACKBEAT_UNWIND_INDIRECT))
		return true;
	if (!walk->read(walk->arg, *cfa, cfa)) {
		*end = WALK_UNREADABLE;
		return false;
	}
	*cfa = offset_by_words(*cfa, rule->extra);
	return true;
}

/* Finds the caller's rbp. An unreadable slot costs only the frames that need it. */
static void step_rbp(struct walk *walk, const struct stackbeat_unwind_rule *rule, uint64_t cfa,
		     uint32_t *known)
{
	uint64_t *rbp = &walk->registers[CFI_RBP], at;

	if (rule->flags & STACKBEAT_UNWIND_RBP_IN_REGISTER) {
		*rbp = walk->registers[rule->rbp];
		if (!is_known(walk, (unsigned int)rule->rbp))
			*known &= ~(1u << CFI_RBP);
		return;
	}
	if (rule->flags & STACKBEAT_UNWIND_RBP_SAVED)
		at = offset_by_words(cfa, rule->rbp);
	else if (rule->flags & STACKBEAT_UNWIND_RBP_AT_RBP)
		at = offset_by_words(*rbp, rule->rbp);
	else
		return;
	*known |= 1u << CFI_RBP;
	if (!walk->read(walk->arg, at, rbp))
		*known &= ~(1u << CFI_RBP);
}

static bool step_caller(struct walk *walk, const struct stackbeat_unwind_rule *rule,
			enum walk_end *end)
{
	const uint32_t followed = 1u << CFI_RSP | 1u << CFI_RBP | 1u << CFI_RBX | 1u << WALK_RIP;
	uint32_t known = walk->known & followed;
	uint64_t cfa, rip;

	if (!find_cfa(walk, rule, &cfa, end))
		return false;
	if (rule->flags & STACKBEAT_UNWIND_RIP_IN_REGISTER) {
		*end = WALK_LOST_REGISTER;
		if (!is_known(walk, (unsigned int)rule->extra))
			return false;
		rip = walk->registers[rule->extra];
	} else if (!walk->read(walk->arg, cfa - sizeof(uint64_t), &rip)) {
		*end = WALK_UNREADABLE;
		return false;
	}
	/* The leaf may have the CFA of its caller's frame; beyond it, each call has pushed. */
	if (cfa % 8 || cfa < walk->registers[CFI_RSP] ||
	    (walk->is_return_address && cfa == walk->registers[CFI_RSP])) {
		*end = WALK_BAD_FRAME;
		return false;
	}
	step_rbp(walk, rule, cfa, &known);
	if (rule->flags & STACKBEAT_UNWIND_RBX_SAVED &&
	    !walk->read(walk->arg, offset_by_words(cfa, rule->extra), &walk->registers[CFI_RBX]))
		known &= ~(1u << CFI_RBX);
	walk->registers[CFI_RSP] = cfa;
	walk->registers[WALK_RIP] = rip;
	walk->known = known;
	walk->is_return_address = true;
	return true;
}

/* One step by frame pointers, in code without a table. */
static bool step_frame_pointer(struct walk *walk, enum walk_end *end)
{
	static const struct stackbeat_unwind_rule rule = {
		.cfa = 16,
		.kind_base = STACKBEAT_UNWIND_CALLER | CFI_RBP << 4,
		.flags = STACKBEAT_UNWIND_RBP_SAVED,
		.rbp = -2,
	};

	if (is_known(walk, CFI_RBP) && !walk->registers[CFI_RBP]) {
		*end = WALK_OUTERMOST;
		return false;
	}
	return step_caller(walk, &rule, end);
}

/*
 * Sets the registers to those of the caller, and *by_table if a table said where they are. Returns
 * false, with *end set, if there is none.
 */
static bool step(struct walk *walk, bool *by_table, enum walk_end *end)
{
	uint64_t address = walk->registers[WALK_RIP] - walk->is_return_address;
	const struct walk_mapping *mapping = walk->mapping(walk->arg, address);
	const struct stackbeat_unwind_rule *rule;

	if (!mapping) {
		*end = WALK_NO_MAPPING;
		return false;
	}
	if (!mapping->table)
		return step_frame_pointer(walk, end);
	rule = stackbeat_unwind_find(mapping->table, address - mapping->bias);
	*by_table = true;
	switch (rule ? rule->kind_base & 0xf : STACKBEAT_UNWIND_NONE) {
	case STACKBEAT_UNWIND_CALLER:
		return step_caller(walk, rule, end);
	case STACKBEAT_UNWIND_SIGNAL:
		return step_signal(walk, end);
	case STACKBEAT_UNWIND_END:
		*end = WALK_OUTERMOST;
		return false;
	default:
		*end = WALK_NO_RULE;
		return false;
	}
}

size_t walk_stack(struct walk *walk, uint64_t *addresses, size_t max, enum walk_end *end)
{
	size_t count = 0;

	walk->known = (1u << WALK_REGISTERS) - 1;
	walk->is_return_address = false;
	walk->table_frames = 0;
	*end = WALK_MAX_DEPTH;
	while (count < max) {
		bool by_table = false;

		addresses[count++] = walk->registers[WALK_RIP];
		if (!step(walk, &by_table, end))
			return count;
		*end = WALK_MAX_DEPTH;
		/* A return address of 0 ends the stack of a thread on some systems. */
		if (!walk->registers[WALK_RIP]) {
			*end = WALK_OUTERMOST;
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
};

static const struct walk_mapping *find_mapping(void *arg, uint64_t address)
{
	const struct copy *copy = arg;

	return copy->mapping(copy->arg, address);
}

static bool read_copy(void *arg, uint64_t address, uint64_t *word)
{
	struct copy *copy = arg;
	uint64_t start = copy->stack->registers[STACKBEAT_REGISTER_RSP];
	uint64_t size = copy->stack->size, offset = address - start;

	copy->is_exceeded =
		address >= start && (size < sizeof(*word) || offset > size - sizeof(*word));
	if (address < start || copy->is_exceeded) {
		copy->unreadable = address;
		return false;
	}
	memcpy(word, copy->stack->bytes + offset, sizeof(*word));
	return true;
}

_Static_assert(STACKBEAT_REGISTERS == WALK_REGISTERS && STACKBEAT_REGISTER_RIP == WALK_RIP,
	       "registers have the order of DWARF");

void walk_stack_copy(const struct stackbeat_stack *stack,
		     const struct walk_mapping *(*mapping)(void *arg, uint64_t address), void *arg,
		     uint64_t *addresses, size_t max, struct walk_result *result)
{
	struct copy copy = {.stack = stack, .mapping = mapping, .arg = arg};
	struct walk walk = {.mapping = find_mapping, .read = read_copy, .arg = &copy};

	memcpy(walk.registers, stack->registers, sizeof(walk.registers));
	result->frames = walk_stack(&walk, addresses, max, &result->end);
	result->table_frames = walk.table_frames;
	result->unreadable = copy.unreadable;
	result->is_truncated = result->end == WALK_UNREADABLE && copy.is_exceeded;
}
