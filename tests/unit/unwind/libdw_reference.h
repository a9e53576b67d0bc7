/* SPDX-License-Identifier: GPL-2.0 */
/* Compares rules of unwind tables with what elfutils says of the same address. */
#ifndef STACKBEAT_TEST_LIBDW_REFERENCE_H
#define STACKBEAT_TEST_LIBDW_REFERENCE_H

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <stackbeat_unwind.h>

#include "unwind/cfi.h"

enum reference_kind {
	REFERENCE_NONE, /* no rule */
	REFERENCE_UNSUPPORTED, /* an expression that the reference does not evaluate */
	REFERENCE_END,
	REFERENCE_SIGNAL,
	REFERENCE_CALLER,
};

/* A frame's caller, found with made-up registers and memory. */
struct reference_caller {
	enum reference_kind kind;
	uint64_t cfa, rip, rbp; /* cfa: its rsp */
};

/* Any values will do, as long as they differ. */
static inline uint64_t reference_register(unsigned int number)
{
	return UINT64_C(0x100000000000) * (number + 1);
}

static inline uint64_t reference_memory(uint64_t address)
{
	return (address ^ UINT64_C(0x5555555555555555)) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline bool reference_constant(const Dwarf_Op *op, uint64_t *value)
{
	*value = op->number;
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		*value = op->atom - DW_OP_lit0;
	else if (op->atom < DW_OP_const1u || op->atom > DW_OP_consts)
		return false;
	return true;
}

static inline bool reference_binary(uint8_t atom, uint64_t a, uint64_t b, uint64_t *value)
{
	switch (atom) {
	case DW_OP_plus:
		*value = a + b;
		return true;
	case DW_OP_minus:
		*value = a - b;
		return true;
	case DW_OP_and:
		*value = a & b;
		return true;
	case DW_OP_or:
		*value = a | b;
		return true;
	case DW_OP_mul:
		*value = a * b;
		return true;
	case DW_OP_shl:
		*value = b < 64 ? a << b : 0;
		return true;
	case DW_OP_shr:
		*value = b < 64 ? a >> b : 0;
		return true;
	case DW_OP_ge:
		*value = (int64_t)a >= (int64_t)b;
		return true;
	case DW_OP_gt:
		*value = (int64_t)a > (int64_t)b;
		return true;
	case DW_OP_le:
		*value = (int64_t)a <= (int64_t)b;
		return true;
	case DW_OP_lt:
		*value = (int64_t)a < (int64_t)b;
		return true;
	case DW_OP_eq:
		*value = a == b;
		return true;
	case DW_OP_ne:
		*value = a != b;
		return true;
	default:
		return false;
	}
}

/* The result of a DWARF expression. */
struct reference_place {
	uint64_t value;
	bool is_register; /* the value itself, not its address */
};

/* Evaluates an expression at the address `rip`. Returns false if it is not supported. */
static inline bool reference_evaluate(const Dwarf_Op *ops, size_t count, uint64_t rip, uint64_t cfa,
				      struct reference_place *place)
{
	uint64_t stack[16] = {0}, value;
	size_t depth = 0;

	*place = (struct reference_place){0};
	for (size_t i = 0; i < count; i++) {
		const Dwarf_Op *op = &ops[i];
		unsigned int number = op->atom - DW_OP_breg0;
		uint64_t offset = op->number;

		if (depth == 15)
			return false;
		if (op->atom == DW_OP_bregx) {
			number = (unsigned int)op->number;
			offset = op->number2;
		}
		if (op->atom == DW_OP_regx || (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)) {
			number = op->atom == DW_OP_regx ? (unsigned int)op->number
							: (unsigned int)op->atom - DW_OP_reg0;
			place->is_register = true;
			place->value = reference_register(number);
			return count == 1 && number < CFI_REGISTERS;
		}
		if (op->atom == DW_OP_bregx ||
		    (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)) {
			if (number > CFI_RETURN_ADDRESS)
				return false;
			stack[depth++] =
				offset +
				(number == CFI_RETURN_ADDRESS ? rip : reference_register(number));
		} else if (reference_constant(op, &value)) {
			stack[depth++] = value;
		} else if (op->atom == DW_OP_call_frame_cfa) {
			stack[depth++] = cfa;
		} else if (op->atom == DW_OP_plus_uconst && depth) {
			stack[depth - 1] += op->number;
		} else if (op->atom == DW_OP_deref && depth) {
			stack[depth - 1] = reference_memory(stack[depth - 1]);
		} else if (op->atom == DW_OP_nop) {
			continue;
		} else if (depth >= 2 &&
			   reference_binary(op->atom, stack[depth - 2], stack[depth - 1], &value)) {
			stack[--depth - 1] = value;
		} else {
			return false;
		}
	}
	place->value = depth ? stack[depth - 1] : 0;
	return depth;
}

/* Finds the caller's value of a register. Returns false if that is not supported. */
static inline bool reference_find_register(Dwarf_Frame *frame, int number, uint64_t rip,
					   uint64_t cfa, uint64_t *value, uint64_t *slot)
{
	struct reference_place place;
	Dwarf_Op memory[3], *ops;
	size_t count;

	*slot = 0;
	if (dwarf_frame_register(frame, number, memory, &ops, &count))
		return false;
	if (!count) { /* unchanged, or undefined, which the table does not distinguish */
		*value = reference_register((unsigned int)number);
		return true;
	}
	if (!reference_evaluate(ops, count, rip, cfa, &place))
		return false;
	if (!place.is_register)
		*slot = place.value;
	*value = place.is_register ? place.value : reference_memory(place.value);
	return ops[count - 1].atom != DW_OP_stack_value;
}

/* Finds the caller's rsp: the CFA, or a register in longjmp(). */
static inline bool reference_find_rsp(Dwarf_Frame *frame, uint64_t rip, uint64_t cfa, uint64_t *rsp)
{
	struct reference_place place;
	Dwarf_Op memory[3], *ops;
	size_t count;

	*rsp = cfa;
	if (dwarf_frame_register(frame, CFI_RSP, memory, &ops, &count) || !count)
		return false;
	if (ops[count - 1].atom == DW_OP_stack_value)
		return ops[0].atom == DW_OP_call_frame_cfa && count == 2;
	if (!reference_evaluate(ops, count, rip, cfa, &place) || !place.is_register)
		return false;
	*rsp = place.value;
	return true;
}

static inline bool reference_is_undefined(Dwarf_Frame *frame, int number)
{
	Dwarf_Op memory[3], *ops;
	size_t count;

	return !dwarf_frame_register(frame, number, memory, &ops, &count) && !count &&
	       ops == memory;
}

/* Finds the caller by the call frame information of elfutils. */
static inline struct reference_caller reference_libdw(Dwarf_Frame *frame, uint64_t address)
{
	struct reference_caller caller = {.kind = REFERENCE_UNSUPPORTED};
	struct reference_place cfa;
	uint64_t slot, rip_slot;
	bool is_signal = false;
	Dwarf_Op *ops;
	size_t count;

	dwarf_frame_info(frame, NULL, NULL, &is_signal);
	if (is_signal)
		return (struct reference_caller){.kind = REFERENCE_SIGNAL};
	if (reference_is_undefined(frame, CFI_RETURN_ADDRESS))
		return (struct reference_caller){.kind = REFERENCE_END};
	if (dwarf_frame_cfa(frame, &ops, &count) ||
	    !reference_evaluate(ops, count, address, 0, &cfa) || cfa.is_register)
		return caller;
	if (!reference_find_rsp(frame, address, cfa.value, &caller.cfa))
		return caller;
	if (!reference_find_register(frame, CFI_RETURN_ADDRESS, address, cfa.value, &caller.rip,
				     &rip_slot) ||
	    !reference_find_register(frame, CFI_RBP, address, cfa.value, &caller.rbp, &slot))
		return caller;
	/* A slot below rsp is popped: the register has its value back. */
	if (slot < reference_register(CFI_RSP) &&
	    slot > reference_register(CFI_RSP) - (UINT64_C(1) << 40))
		caller.rbp = reference_register(CFI_RBP);
	caller.kind = REFERENCE_CALLER;
	return caller;
}

/* Finds the caller by a rule of a table; NULL: none. */
static inline struct reference_caller reference_rule(const struct stackbeat_unwind_rule *rule)
{
	struct reference_caller caller = {.kind = REFERENCE_NONE};
	unsigned int kind = rule ? rule->kind_base & 0xf : STACKBEAT_UNWIND_NONE;

	if (kind == STACKBEAT_UNWIND_END)
		caller.kind = REFERENCE_END;
	if (kind == STACKBEAT_UNWIND_SIGNAL)
		caller.kind = REFERENCE_SIGNAL;
	if (kind != STACKBEAT_UNWIND_CALLER)
		return caller;
	caller.kind = REFERENCE_CALLER;
	caller.cfa = reference_register(rule->kind_base >> 4) + (uint64_t)(int64_t)rule->cfa;
	if (rule->flags & STACKBEAT_UNWIND_INDIRECT)
		caller.cfa = reference_memory(caller.cfa) + 8 * (uint64_t)(int64_t)rule->extra;
	caller.rip = rule->flags & STACKBEAT_UNWIND_RIP_IN_REGISTER
			     ? reference_register((unsigned int)rule->extra)
			     : reference_memory(caller.cfa - 8);
	caller.rbp = reference_register(CFI_RBP);
	if (rule->flags & STACKBEAT_UNWIND_RBP_SAVED)
		caller.rbp = reference_memory(caller.cfa + 8 * (uint64_t)(int64_t)rule->rbp);
	if (rule->flags & STACKBEAT_UNWIND_RBP_AT_RBP)
		caller.rbp = reference_memory(caller.rbp + 8 * (uint64_t)(int64_t)rule->rbp);
	if (rule->flags & STACKBEAT_UNWIND_RBP_IN_REGISTER)
		caller.rbp = reference_register((unsigned int)rule->rbp);
	return caller;
}

/* Compares what elfutils says with a rule; an unsupported expression has none. */
static inline bool reference_equal(const struct reference_caller *a,
				   const struct reference_caller *b)
{
	if (a->kind == REFERENCE_UNSUPPORTED && b->kind == REFERENCE_NONE)
		return true;
	return a->kind == b->kind && a->cfa == b->cfa && a->rip == b->rip && a->rbp == b->rbp;
}

#endif
