// SPDX-License-Identifier: GPL-2.0
#include "unwind/cfi.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

#include "lib/byte_cursor.h"

/* Deepest nesting of DW_CFA_remember_state; compilers nest it once. */
#define STATES_MAX 16u
/* Values on the stack of an expression. */
#define VALUES_MAX 16u
/* Bytes of code for which expressions that depend on rip are evaluated, in one section. */
#define RIP_BYTES_MAX (UINT64_C(1) << 20)
/* Rows of such an expression that repeat after at most this many bytes, a power of 2. */
#define RIP_PERIOD_MAX 64u

/* An expression of the section, or a value of a register. */
struct cfi_register_rule {
	enum {
		RULE_DEFAULT,
		RULE_OFFSET,
		RULE_REGISTER,
		RULE_EXPRESSION,
		RULE_VALUE,
		RULE_UNKNOWN
	} kind;
	int64_t offset;
	uint8_t reg;
	struct cursor expression;
};

/* The rules of the current address. */
struct state {
	bool cfa_is_expression;
	uint64_t cfa_reg;
	int64_t cfa_offset;
	struct cursor cfa_expression;
	struct cfi_register_rule return_address, rbp, rbx, rsp;
};

/* A common information entry (CIE). */
struct cie {
	uint64_t offset;
	bool is_valid;
	uint64_t code_alignment;
	int64_t data_alignment;
	uint64_t return_address; /* its column */
	uint8_t encoding; /* of addresses in its FDEs */
	bool has_augmentation, is_signal;
	struct state state; /* after its instructions */
};

struct cfi_reader {
	const struct cfi_section *section;
	int (*fn)(void *arg, uint64_t start, uint64_t end, const struct cfi_row *row);
	void *arg;
	struct cfi_counts *counts;
	struct cie cie; /* the latest: FDEs mostly refer to it */
	uint64_t rip_bytes;
	uint32_t rows;
	int err; /* of `fn` */
};

/* An interpreter of the instructions of a CIE or an FDE. */
struct cfi_machine {
	struct cfi_reader *reader;
	struct cie *cie;
	uint64_t start, end, at; /* addresses */
	struct state state;
	struct state saved[STATES_MAX];
	unsigned int saved_count;
};

/* Pointers */

/* Reads an encoded pointer, see LSB 5, "DWARF Exception Header Encoding". */
static uint64_t read_pointer(const struct cfi_reader *reader, struct cursor *cursor,
			     uint8_t encoding)
{
	const struct cfi_section *section = reader->section;
	uint64_t at =
		section->vaddr + (uint64_t)(cursor->at - (const unsigned char *)section->bytes);
	uint64_t value;

	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		value = cursor_u64(cursor);
		break;
	case DW_EH_PE_udata2:
		value = cursor_u16(cursor);
		break;
	case DW_EH_PE_sdata2:
		value = (uint64_t)(int16_t)cursor_u16(cursor);
		break;
	case DW_EH_PE_udata4:
		value = cursor_u32(cursor);
		break;
	case DW_EH_PE_sdata4:
		value = (uint64_t)(int32_t)cursor_u32(cursor);
		break;
	case DW_EH_PE_uleb128:
		value = cursor_uleb128(cursor);
		break;
	case DW_EH_PE_sleb128:
		value = (uint64_t)cursor_sleb128(cursor);
		break;
	default:
		cursor_break(cursor);
		return 0;
	}
	switch (encoding & 0x70) {
	case DW_EH_PE_absptr:
		return value;
	case DW_EH_PE_pcrel:
		return at + value;
	default: /* relative to data that only the dynamic linker knows, or aligned */
		cursor_break(cursor);
		return 0;
	}
}

/* Expressions */

/* A symbolic value: a constant, a register + offset, or memory there + addend. */
struct value {
	enum { VALUE_CONSTANT, VALUE_REGISTER, VALUE_MEMORY, VALUE_UNKNOWN } kind;
	uint8_t reg;
	bool is_rip; /* a constant: the sum of rip and others */
	int64_t offset; /* the constant, or the offset */
	int64_t addend; /* of VALUE_MEMORY */
};

struct evaluation {
	struct value values[VALUES_MAX];
	unsigned int count;
	uint64_t rip;
	uint64_t rip_bits; /* the low bits of rip on which the result depends: 0, 1, 3, 7, ... */
	bool failed;
};

/* Notes that the result depends on what is passed, in all of its bits. */
static struct value evaluation_use(struct evaluation *evaluation, struct value value)
{
	if (value.is_rip)
		evaluation->rip_bits = UINT64_MAX;
	value.is_rip = false;
	return value;
}

static void evaluation_push(struct evaluation *evaluation, struct value value)
{
	if (evaluation->count == VALUES_MAX)
		evaluation->failed = true;
	else
		evaluation->values[evaluation->count++] = value;
}

static void push_constant(struct evaluation *evaluation, uint64_t number)
{
	evaluation_push(evaluation,
			(struct value){.kind = VALUE_CONSTANT, .offset = (int64_t)number});
}

static struct value evaluation_pop(struct evaluation *evaluation)
{
	if (!evaluation->count) {
		evaluation->failed = true;
		return (struct value){.kind = VALUE_UNKNOWN};
	}
	return evaluation->values[--evaluation->count];
}

static void push_register(struct evaluation *evaluation, uint64_t reg, int64_t offset)
{
	if (reg == CFI_RETURN_ADDRESS) {
		evaluation_push(evaluation, (struct value){.kind = VALUE_CONSTANT,
							   .is_rip = true,
							   .offset = (int64_t)(evaluation->rip +
									       (uint64_t)offset)});
		return;
	}
	evaluation_push(evaluation,
			(struct value){.kind = reg < CFI_REGISTERS ? VALUE_REGISTER : VALUE_UNKNOWN,
				       .reg = (uint8_t)reg,
				       .offset = offset});
}

static struct value add_constant(struct value value, uint64_t number)
{
	int64_t *sum = value.kind == VALUE_MEMORY ? &value.addend : &value.offset;

	*sum = (int64_t)((uint64_t)*sum + number);
	return value;
}

static bool is_constant(struct value value)
{
	return value.kind == VALUE_CONSTANT && !value.is_rip;
}

static struct value evaluation_add(struct evaluation *evaluation, struct value a, struct value b)
{
	if (is_constant(a))
		return add_constant(b, (uint64_t)a.offset);
	if (is_constant(b))
		return add_constant(a, (uint64_t)b.offset);
	a = evaluation_use(evaluation, a);
	b = evaluation_use(evaluation, b);
	if (is_constant(a))
		return add_constant(b, (uint64_t)a.offset);
	if (is_constant(b))
		return add_constant(a, (uint64_t)b.offset);
	return (struct value){.kind = VALUE_UNKNOWN};
}

/* Clears the bits of a sum with rip that are not in `mask`. Low bits depend on low bits only. */
static struct value mask_rip(struct evaluation *evaluation, struct value value, uint64_t mask)
{
	if (mask)
		evaluation->rip_bits |= UINT64_MAX >> __builtin_clzll(mask);
	value.is_rip = false;
	value.offset = (int64_t)((uint64_t)value.offset & mask);
	return value;
}

/* Applies a binary operator to two constants. */
static struct value evaluation_operate(uint8_t opcode, struct value left, struct value right)
{
	uint64_t a = (uint64_t)left.offset, b = (uint64_t)right.offset, result;

	if (left.kind != VALUE_CONSTANT || right.kind != VALUE_CONSTANT)
		return (struct value){.kind = VALUE_UNKNOWN};
	switch (opcode) {
	case DW_OP_and:
		result = a & b;
		break;
	case DW_OP_or:
		result = a | b;
		break;
	case DW_OP_mul:
		result = a * b;
		break;
	case DW_OP_shl:
		result = b < 64 ? a << b : 0;
		break;
	case DW_OP_shr:
		result = b < 64 ? a >> b : 0;
		break;
	case DW_OP_ge:
		result = left.offset >= right.offset;
		break;
	case DW_OP_gt:
		result = left.offset > right.offset;
		break;
	case DW_OP_le:
		result = left.offset <= right.offset;
		break;
	case DW_OP_lt:
		result = left.offset < right.offset;
		break;
	case DW_OP_eq:
		result = a == b;
		break;
	case DW_OP_ne:
		result = a != b;
		break;
	default:
		return (struct value){.kind = VALUE_UNKNOWN};
	}
	return (struct value){.kind = VALUE_CONSTANT, .offset = (int64_t)result};
}

static void evaluation_dereference(struct evaluation *evaluation)
{
	struct value value = evaluation_pop(evaluation);

	if (value.kind == VALUE_REGISTER)
		evaluation_push(evaluation, (struct value){.kind = VALUE_MEMORY,
							   .reg = value.reg,
							   .offset = value.offset});
	else
		evaluation_push(evaluation, (struct value){.kind = VALUE_UNKNOWN});
}

static void evaluate_operator(struct evaluation *evaluation, uint8_t opcode, struct cursor *cursor)
{
	struct value a, b;

	if (opcode >= DW_OP_lit0 && opcode <= DW_OP_lit31) {
		push_constant(evaluation, opcode - DW_OP_lit0);
		return;
	}
	if (opcode >= DW_OP_breg0 && opcode <= DW_OP_breg31) {
		push_register(evaluation, opcode - DW_OP_breg0, cursor_sleb128(cursor));
		return;
	}
	switch (opcode) {
	case DW_OP_const1u:
		push_constant(evaluation, cursor_u8(cursor));
		return;
	case DW_OP_const1s:
		push_constant(evaluation, (uint64_t)(int8_t)cursor_u8(cursor));
		return;
	case DW_OP_const2u:
		push_constant(evaluation, cursor_u16(cursor));
		return;
	case DW_OP_const2s:
		push_constant(evaluation, (uint64_t)(int16_t)cursor_u16(cursor));
		return;
	case DW_OP_const4u:
		push_constant(evaluation, cursor_u32(cursor));
		return;
	case DW_OP_const4s:
		push_constant(evaluation, (uint64_t)(int32_t)cursor_u32(cursor));
		return;
	case DW_OP_const8u:
	case DW_OP_const8s:
		push_constant(evaluation, cursor_u64(cursor));
		return;
	case DW_OP_constu:
		push_constant(evaluation, cursor_uleb128(cursor));
		return;
	case DW_OP_consts:
		push_constant(evaluation, (uint64_t)cursor_sleb128(cursor));
		return;
	case DW_OP_plus_uconst:
		a = evaluation_pop(evaluation);
		evaluation_push(evaluation, add_constant(a, cursor_uleb128(cursor)));
		return;
	case DW_OP_deref:
		evaluation_dereference(evaluation);
		return;
	case DW_OP_dup:
		a = evaluation_pop(evaluation);
		evaluation_push(evaluation, a);
		evaluation_push(evaluation, a);
		return;
	case DW_OP_drop:
		evaluation_pop(evaluation);
		return;
	case DW_OP_swap:
		b = evaluation_pop(evaluation);
		a = evaluation_pop(evaluation);
		evaluation_push(evaluation, b);
		evaluation_push(evaluation, a);
		return;
	case DW_OP_nop:
		return;
	case DW_OP_plus:
		b = evaluation_pop(evaluation);
		a = evaluation_pop(evaluation);
		evaluation_push(evaluation, evaluation_add(evaluation, a, b));
		return;
	case DW_OP_minus:
		b = evaluation_pop(evaluation);
		a = evaluation_pop(evaluation);
		b = evaluation_use(evaluation, b);
		if (b.kind == VALUE_CONSTANT)
			evaluation_push(evaluation, add_constant(a, -(uint64_t)b.offset));
		else
			evaluation_push(evaluation, (struct value){.kind = VALUE_UNKNOWN});
		return;
	default:
		b = evaluation_pop(evaluation);
		a = evaluation_pop(evaluation);
		if (opcode == DW_OP_and && a.is_rip && is_constant(b))
			a = mask_rip(evaluation, a, (uint64_t)b.offset);
		else if (opcode == DW_OP_and && b.is_rip && is_constant(a))
			b = mask_rip(evaluation, b, (uint64_t)a.offset);
		a = evaluation_use(evaluation, a);
		b = evaluation_use(evaluation, b);
		evaluation_push(evaluation, evaluation_operate(opcode, a, b));
		return;
	}
}

/*
 * Evaluates an expression at an address, and adds the bits of rip on which it depends. No loop is
 * possible: there are no branches.
 */
static struct value cfi_evaluate(struct cursor expression, uint64_t rip, uint64_t *rip_bits)
{
	struct evaluation evaluation = {.rip = rip};
	struct value result;

	while (!evaluation.failed && !expression.broken && cursor_left(&expression))
		evaluate_operator(&evaluation, cursor_u8(&expression), &expression);
	result = evaluation_use(&evaluation, evaluation_pop(&evaluation));
	*rip_bits |= evaluation.rip_bits;
	if (evaluation.failed || expression.broken)
		result.kind = VALUE_UNKNOWN;
	return result;
}

/* Rows */

static struct cfi_value other_value_at(const struct cfi_register_rule *rule, uint64_t rip,
				       uint64_t *rip_bits)
{
	struct value value;

	switch (rule->kind) {
	case RULE_REGISTER:
		return (struct cfi_value){.place = CFI_IN_REGISTER, .reg = rule->reg};
	case RULE_EXPRESSION:
		value = cfi_evaluate(rule->expression, rip, rip_bits);
		if (value.kind != VALUE_REGISTER)
			return (struct cfi_value){.place = CFI_UNKNOWN};
		return (struct cfi_value){
			.place = CFI_AT_BASE, .reg = value.reg, .offset = value.offset};
	case RULE_VALUE: /* it is computed, and in no place */
	case RULE_UNKNOWN:
		return (struct cfi_value){.place = CFI_UNKNOWN};
	default:
		return (struct cfi_value){.place = CFI_SAME};
	}
}

static inline struct cfi_value cfi_value_at(const struct cfi_register_rule *rule, uint64_t rip,
					    uint64_t *rip_bits)
{
	if (rule->kind == RULE_OFFSET)
		return (struct cfi_value){.place = CFI_AT_CFA, .offset = rule->offset};
	if (rule->kind == RULE_DEFAULT)
		return (struct cfi_value){.place = CFI_SAME};
	return other_value_at(rule, rip, rip_bits);
}

/* Sets the CFA of a row. Returns false if its expression is not supported. */
static bool cfi_set_cfa(const struct state *state, uint64_t rip, uint64_t *rip_bits,
			struct cfi_row *row)
{
	struct value cfa;

	if (!state->cfa_is_expression) {
		row->base = (uint8_t)state->cfa_reg;
		row->offset = state->cfa_offset;
		return state->cfa_reg < CFI_REGISTERS;
	}
	cfa = cfi_evaluate(state->cfa_expression, rip, rip_bits);
	row->base = cfa.reg;
	row->offset = cfa.offset;
	row->addend = cfa.addend;
	row->is_indirect = cfa.kind == VALUE_MEMORY;
	return cfa.kind == VALUE_REGISTER || cfa.kind == VALUE_MEMORY;
}

/*
 * Where the caller's rsp is not the CFA, as in longjmp(), which has it in a register. What walks
 * need is rsp, so that takes the place of the CFA. Returns false if it is elsewhere.
 */
static bool set_rsp(const struct state *state, struct cfi_row *row)
{
	if (state->rsp.kind == RULE_DEFAULT)
		return true;
	row->base = state->rsp.reg;
	row->offset = row->addend = 0;
	row->is_indirect = false;
	if (row->rbp.place == CFI_AT_CFA)
		row->rbp.place = CFI_UNKNOWN;
	row->rbx.place = CFI_UNKNOWN;
	return state->rsp.kind == RULE_REGISTER && row->base < CFI_REGISTERS &&
	       row->return_address.place == CFI_IN_REGISTER;
}

/* Returns the low bits of rip on which expressions of the state depend; 0: none. */
static uint64_t make_row(const struct cfi_machine *machine, uint64_t rip, struct cfi_row *row)
{
	const struct state *state = &machine->state;
	uint64_t rip_bits = 0;

	*row = (struct cfi_row){.kind = CFI_CALLER};
	if (machine->cie->is_signal) {
		row->kind = CFI_SIGNAL;
		return 0;
	}
	row->return_address = cfi_value_at(&state->return_address, rip, &rip_bits);
	/* An undefined return address marks the outermost frame. */
	if (state->return_address.kind == RULE_UNKNOWN) {
		*row = (struct cfi_row){.kind = CFI_END};
		return 0;
	}
	row->rbp = cfi_value_at(&state->rbp, rip, &rip_bits);
	row->rbx = cfi_value_at(&state->rbx, rip, &rip_bits);
	if (!cfi_set_cfa(state, rip, &rip_bits, row) || !set_rsp(state, row) ||
	    row->return_address.place == CFI_UNKNOWN || row->return_address.place == CFI_SAME)
		*row = (struct cfi_row){.kind = CFI_UNSUPPORTED};
	return rip_bits;
}

static bool is_same_value(const struct cfi_value *a, const struct cfi_value *b)
{
	return a->place == b->place && a->reg == b->reg && a->offset == b->offset;
}

static bool is_same_row(const struct cfi_row *a, const struct cfi_row *b)
{
	return a->kind == b->kind && a->base == b->base && a->is_indirect == b->is_indirect &&
	       a->offset == b->offset && a->addend == b->addend &&
	       is_same_value(&a->return_address, &b->return_address) &&
	       is_same_value(&a->rbp, &b->rbp) && is_same_value(&a->rbx, &b->rbx);
}

static int cfi_pass_row(struct cfi_reader *reader, uint64_t start, uint64_t end,
			const struct cfi_row *row)
{
	if (reader->rows++ == CFI_ROWS_MAX)
		return reader->err = -E2BIG;
	reader->counts->unsupported += row->kind == CFI_UNSUPPORTED;
	reader->err = reader->fn(reader->arg, start, end, row);
	return reader->err;
}

/*
 * Passes the rows of a range in which expressions depend on bits of rip, as in the PLT,
 * which has an entry each 16 bytes. They are evaluated at each address, until they repeat: the rows
 * then need no expression.
 */
static int emit_by_rip(const struct cfi_machine *machine, uint64_t start, uint64_t end,
		       uint64_t bits)
{
	struct cfi_reader *reader = machine->reader;
	const bool repeats = bits < RIP_PERIOD_MAX;
	const uint64_t slots = repeats ? bits + 1 : 2;
	struct cfi_row rows[RIP_PERIOD_MAX];
	const struct cfi_row *before = NULL;
	uint64_t from = start;

	for (uint64_t at = start; at < end; at++) {
		struct cfi_row *row = &rows[(at - start) % slots];

		if (!repeats || at - start < slots)
			make_row(machine, at, row);
		if (before && !is_same_row(before, row)) {
			if (cfi_pass_row(reader, from, at, before))
				return reader->err;
			from = at;
		}
		before = row;
	}
	return cfi_pass_row(reader, from, end, before);
}

/* Passes the rows from machine->at to `end`. */
static int cfi_emit(struct cfi_machine *machine, uint64_t end)
{
	struct cfi_reader *reader = machine->reader;
	uint64_t start = machine->at, bits;
	struct cfi_row row;

	if (end > machine->end)
		end = machine->end;
	if (end <= start)
		return 0;
	machine->at = end;
	bits = make_row(machine, start, &row);
	if (bits) {
		reader->rip_bytes += end - start;
		if (reader->rip_bytes <= RIP_BYTES_MAX)
			return emit_by_rip(machine, start, end, bits);
		row = (struct cfi_row){.kind = CFI_UNSUPPORTED};
	}
	return cfi_pass_row(reader, start, end, &row);
}

/* Instructions */

static struct cfi_register_rule *register_rule(struct state *state, const struct cie *cie,
					       uint64_t reg)
{
	if (reg == cie->return_address)
		return &state->return_address;
	if (reg == CFI_RBP)
		return &state->rbp;
	if (reg == CFI_RSP)
		return &state->rsp;
	return reg == CFI_RBX ? &state->rbx : NULL;
}

static void set_rule(struct cfi_machine *machine, uint64_t reg,
		     struct cfi_register_rule replacement)
{
	struct cfi_register_rule *rule = register_rule(&machine->state, machine->cie, reg);

	if (rule)
		*rule = replacement;
}

static void set_offset(struct cfi_machine *machine, uint64_t reg, int64_t offset)
{
	struct cfi_register_rule *rule = register_rule(&machine->state, machine->cie, reg);

	/* Of most registers, nothing is kept. */
	if (!rule)
		return;
	rule->kind = RULE_OFFSET;
	rule->offset = offset;
}

static void restore_rule(struct cfi_machine *machine, uint64_t reg)
{
	struct cfi_register_rule *initial = register_rule(&machine->cie->state, machine->cie, reg);

	if (initial)
		set_rule(machine, reg, *initial);
}

static int64_t cfi_scale(const struct cfi_machine *machine, uint64_t factor)
{
	return (int64_t)(factor * (uint64_t)machine->cie->data_alignment);
}

static struct cursor read_block(struct cursor *cursor)
{
	uint64_t size = cursor_uleb128(cursor);
	struct cursor block = {cursor->at, cursor->at, false};

	if (cursor_skip(cursor, size))
		block.end = cursor->at;
	return block;
}

static void set_cfa_register(struct cfi_machine *machine, uint64_t reg)
{
	machine->state.cfa_is_expression = false;
	machine->state.cfa_reg = reg;
}

static int cfi_advance(struct cfi_machine *machine, uint64_t delta)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(delta, machine->cie->code_alignment, &bytes) ||
	    bytes > machine->end - machine->at)
		bytes = machine->end - machine->at;
	return cfi_emit(machine, machine->at + bytes);
}

static bool remember_state(struct cfi_machine *machine)
{
	if (machine->saved_count == STATES_MAX)
		return false;
	machine->saved[machine->saved_count++] = machine->state;
	return true;
}

static bool restore_state(struct cfi_machine *machine)
{
	if (!machine->saved_count)
		return false;
	machine->state = machine->saved[--machine->saved_count];
	return true;
}

/* Instructions that set the rule of a register. Returns false if `code` is none of these. */
static bool execute_register(struct cfi_machine *machine, uint8_t code, struct cursor *cursor)
{
	struct cfi_register_rule rule = {.kind = RULE_UNKNOWN};
	uint64_t reg;

	switch (code) {
	case DW_CFA_offset_extended:
		reg = cursor_uleb128(cursor);
		set_offset(machine, reg, cfi_scale(machine, cursor_uleb128(cursor)));
		return true;
	case DW_CFA_offset_extended_sf:
		reg = cursor_uleb128(cursor);
		set_offset(machine, reg, cfi_scale(machine, (uint64_t)cursor_sleb128(cursor)));
		return true;
	case DW_CFA_GNU_negative_offset_extended:
		reg = cursor_uleb128(cursor);
		set_offset(machine, reg, cfi_scale(machine, -cursor_uleb128(cursor)));
		return true;
	case DW_CFA_restore_extended:
		restore_rule(machine, cursor_uleb128(cursor));
		return true;
	case DW_CFA_undefined:
		set_rule(machine, cursor_uleb128(cursor), rule);
		return true;
	case DW_CFA_same_value:
		rule.kind = RULE_DEFAULT;
		set_rule(machine, cursor_uleb128(cursor), rule);
		return true;
	case DW_CFA_register:
		reg = cursor_uleb128(cursor);
		rule.kind = RULE_REGISTER;
		rule.reg = (uint8_t)cursor_uleb128(cursor);
		set_rule(machine, reg, rule);
		return true;
	case DW_CFA_expression:
		reg = cursor_uleb128(cursor);
		rule.kind = RULE_EXPRESSION;
		rule.expression = read_block(cursor);
		set_rule(machine, reg, rule);
		return true;
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
		reg = cursor_uleb128(cursor);
		/* That rsp is the CFA is the default. */
		rule.kind = !cursor_uleb128(cursor) && reg == CFI_RSP ? RULE_DEFAULT : RULE_VALUE;
		set_rule(machine, reg, rule);
		return true;
	case DW_CFA_val_expression:
		reg = cursor_uleb128(cursor);
		read_block(cursor);
		rule.kind = RULE_VALUE;
		set_rule(machine, reg, rule);
		return true;
	default:
		return false;
	}
}

/* Executes an instruction. Returns false if it is unknown or invalid. */
static bool cfi_execute(struct cfi_machine *machine, uint8_t code, struct cursor *cursor)
{
	struct state *state = &machine->state;
	uint64_t address;

	if (execute_register(machine, code, cursor))
		return true;
	switch (code) {
	case DW_CFA_nop:
		return true;
	case DW_CFA_set_loc:
		address = read_pointer(machine->reader, cursor, machine->cie->encoding);
		return address >= machine->at && !cfi_emit(machine, address);
	case DW_CFA_advance_loc1:
		return !cfi_advance(machine, cursor_u8(cursor));
	case DW_CFA_advance_loc2:
		return !cfi_advance(machine, cursor_u16(cursor));
	case DW_CFA_advance_loc4:
		return !cfi_advance(machine, cursor_u32(cursor));
	case DW_CFA_remember_state:
		return remember_state(machine);
	case DW_CFA_restore_state:
		return restore_state(machine);
	case DW_CFA_def_cfa:
		set_cfa_register(machine, cursor_uleb128(cursor));
		state->cfa_offset = (int64_t)cursor_uleb128(cursor);
		return true;
	case DW_CFA_def_cfa_sf:
		set_cfa_register(machine, cursor_uleb128(cursor));
		state->cfa_offset = cfi_scale(machine, (uint64_t)cursor_sleb128(cursor));
		return true;
	case DW_CFA_def_cfa_register:
		set_cfa_register(machine, cursor_uleb128(cursor));
		return true;
	case DW_CFA_def_cfa_offset:
		state->cfa_offset = (int64_t)cursor_uleb128(cursor);
		return true;
	case DW_CFA_def_cfa_offset_sf:
		state->cfa_offset = cfi_scale(machine, (uint64_t)cursor_sleb128(cursor));
		return true;
	case DW_CFA_def_cfa_expression:
		state->cfa_is_expression = true;
		state->cfa_expression = read_block(cursor);
		return true;
	case DW_CFA_GNU_args_size: /* concerns landing pads only */
		cursor_uleb128(cursor);
		return true;
	default:
		return false;
	}
}

/* Runs instructions. Returns false at an invalid one, or when `fn` has ended the reading. */
static bool cfi_run(struct cfi_machine *machine, struct cursor cursor)
{
	while (cursor_left(&cursor)) {
		uint8_t code = cursor_u8(&cursor), low = code & 0x3f;
		bool valid = true;

		switch (code & 0xc0) {
		case DW_CFA_advance_loc:
			valid = !cfi_advance(machine, low);
			break;
		case DW_CFA_offset:
			set_offset(machine, low, cfi_scale(machine, cursor_uleb128(&cursor)));
			break;
		case DW_CFA_restore:
			restore_rule(machine, low);
			break;
		default:
			/* Entries are padded. */
			valid = code == DW_CFA_nop || cfi_execute(machine, code, &cursor);
			break;
		}
		if (!valid || cursor.broken)
			return false;
	}
	return true;
}

/* Entries */

/* The saved states, which few entries need, are not cleared. */
static void begin_machine(struct cfi_machine *machine, struct cfi_reader *reader, struct cie *cie)
{
	machine->reader = reader;
	machine->cie = cie;
	machine->saved_count = 0;
}

/* Reads the augmentation of a CIE, see LSB 5. */
static void read_augmentation(const struct cfi_reader *reader, const char *text,
			      struct cursor *cursor, struct cie *cie)
{
	struct cursor data;
	uint8_t encoding;

	cie->has_augmentation = *text == 'z';
	if (!cie->has_augmentation) {
		/* "eh" of gcc 2 is the only other one, and has no known use on x86-64. */
		if (*text)
			cursor_break(cursor);
		return;
	}
	data = read_block(cursor);
	for (text++; *text && !data.broken; text++) {
		switch (*text) {
		case 'R':
			cie->encoding = cursor_u8(&data);
			break;
		case 'L':
			cursor_u8(&data);
			break;
		case 'P':
			encoding = cursor_u8(&data);
			read_pointer(reader, &data, encoding & 0x0f);
			break;
		case 'S':
			cie->is_signal = true;
			break;
		default: /* what follows is unknown, and not needed */
			return;
		}
	}
	if (data.broken)
		cursor_break(cursor);
}

/* `cursor` is behind the id of the CIE, and ends with it. */
static void read_cie(struct cfi_reader *reader, uint64_t offset, struct cursor cursor,
		     struct cie *cie)
{
	struct cfi_machine machine;
	uint8_t version = cursor_u8(&cursor);
	const char *augmentation = cursor_string(&cursor);

	*cie = (struct cie){.offset = offset};
	if (!augmentation || (version != 1 && version != 3 && version != 4))
		return;
	if (version == 4 && (cursor_u8(&cursor) != 8 || cursor_u8(&cursor)))
		return; /* another size of addresses, or segments */
	cie->code_alignment = cursor_uleb128(&cursor);
	cie->data_alignment = cursor_sleb128(&cursor);
	cie->return_address = version == 1 ? cursor_u8(&cursor) : cursor_uleb128(&cursor);
	read_augmentation(reader, augmentation, &cursor, cie);
	if (cursor.broken)
		return;
	/* They pass no row: addresses do not advance beyond the end. */
	begin_machine(&machine, reader, cie);
	machine.start = machine.at = machine.end = 0;
	machine.state = (struct state){.cfa_reg = 0};
	cie->is_valid = cfi_run(&machine, cursor);
	cie->state = machine.state;
}

/* Splits the entry at the cursor off. Returns false at the end of the section. */
static bool cfi_next_entry(struct cursor *cursor, bool *is_wide, struct cursor *entry)
{
	uint64_t size = cursor_u32(cursor);

	*is_wide = size == UINT32_MAX;
	if (*is_wide)
		size = cursor_u64(cursor);
	*entry = (struct cursor){cursor->at, cursor->at, false};
	if (!cursor_skip(cursor, size))
		return false;
	entry->end = cursor->at;
	return true;
}

/* Reads the id of an entry. Sets *cie_offset for an FDE; returns whether it is a CIE. */
static bool read_id(const struct cfi_reader *reader, bool is_wide, struct cursor *entry,
		    uint64_t *cie_offset)
{
	uint64_t at = (uint64_t)(entry->at - (const unsigned char *)reader->section->bytes);
	uint64_t id = is_wide ? cursor_u64(entry) : cursor_u32(entry);

	if (reader->section->is_eh_frame) {
		*cie_offset = at - id;
		return !id;
	}
	*cie_offset = id;
	return id == (is_wide ? UINT64_MAX : UINT32_MAX);
}

/* Makes the CIE at an offset the current one. */
static void find_cie(struct cfi_reader *reader, uint64_t offset)
{
	const struct cfi_section *section = reader->section;
	struct cursor cursor = cursor_at(section->bytes, section->size, offset), entry;
	uint64_t ignored;
	bool is_wide;

	if (reader->cie.is_valid && reader->cie.offset == offset)
		return;
	reader->cie = (struct cie){.offset = offset};
	if (!cursor.broken && cfi_next_entry(&cursor, &is_wide, &entry) &&
	    read_id(reader, is_wide, &entry, &ignored))
		read_cie(reader, offset, entry, &reader->cie);
}

/* Reads an FDE. Returns false if it is broken. */
static bool read_fde(struct cfi_reader *reader, struct cursor entry)
{
	struct cie *cie = &reader->cie;
	struct cfi_machine machine;
	uint64_t size;

	if (!cie->is_valid)
		return false;
	begin_machine(&machine, reader, cie);
	machine.start = read_pointer(reader, &entry, cie->encoding);
	size = read_pointer(reader, &entry, cie->encoding & 0x0f);
	if (cie->has_augmentation)
		read_block(&entry);
	if (entry.broken || __builtin_add_overflow(machine.start, size, &machine.end))
		return false;
	/* The linker zeroes the address of a function that it has discarded. */
	if (!machine.start || !size)
		return true;
	machine.at = machine.start;
	machine.state = cie->state;
	return cfi_run(&machine, entry) && !cfi_emit(&machine, machine.end);
}

int cfi_read(const struct cfi_section *section,
	     int (*fn)(void *arg, uint64_t start, uint64_t end, const struct cfi_row *row),
	     void *arg, struct cfi_counts *counts)
{
	struct cfi_reader reader = {.section = section, .fn = fn, .arg = arg, .counts = counts};
	struct cursor cursor = cursor_at(section->bytes, section->size, 0), entry;
	uint64_t cie_offset;
	bool is_wide;

	*counts = (struct cfi_counts){0};
	while (cursor_left(&cursor) && !reader.err) {
		if (!cfi_next_entry(&cursor, &is_wide, &entry))
			return -EBADMSG;
		if (!cursor_left(&entry)) {
			if (section->is_terminated)
				break;
			continue;
		}
		if (read_id(&reader, is_wide, &entry, &cie_offset))
			continue;
		counts->entries++;
		find_cie(&reader, cie_offset);
		if (!read_fde(&reader, entry) && !reader.err)
			counts->broken++;
	}
	return reader.err;
}
