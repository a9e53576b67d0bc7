// SPDX-License-Identifier: GPL-2.0
#include "unwind/go_frames.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/go_pclntab.h"
#include "unwind/cfi.h"

#define WORD 8

/* mov %rsp,%rbp, after push %rbp */
static const unsigned char set_rbp[] = {0x48, 0x89, 0xe5};

struct reader {
	const struct go_pclntab *pclntab;
	const struct go_frames *frames;
	int64_t count;
	/* The function: */
	const struct go_function *function;
	int32_t size; /* of the frame before the current part */
	bool has_prologue; /* rbp was saved at CFA - 16 */
	uint64_t saved, set; /* the addresses from which on it is saved, and is CFA - 16 */
	uint64_t end; /* of the last row */
	struct cfi_row last;
};

static const struct cfi_value saved_rip = {.place = CFI_AT_CFA, .offset = -WORD};
static const struct cfi_value saved_rbp = {.place = CFI_AT_CFA, .offset = INT64_C(-2) * WORD};

/*
 * Returns the size of `mov %rbp,disp(%rsp)` or `lea disp(%rsp),%rbp` (by its opcode); 0 if it is
 * another instruction.
 */
static size_t match_slot(const unsigned char *code, size_t size, unsigned char opcode, int32_t disp)
{
	int32_t wide;

	if (size < 5 || code[0] != 0x48 || code[1] != opcode || code[3] != 0x24)
		return 0;
	if (code[2] == 0x6c)
		return (int8_t)code[4] == disp ? 5 : 0;
	if (code[2] != 0xac || size < 8)
		return 0;
	memcpy(&wide, code + 4, sizeof(wide));
	return wide == disp ? 8 : 0;
}

/*
 * Recognizes the prologue where the frame has grown from nothing to `size`: push %rbp; mov
 * %rsp,%rbp (Go 1.21), or sub $size,%rsp; mov %rbp,size-8(%rsp); lea size-8(%rsp),%rbp.
 */
static void find_prologue(struct reader *reader, uint64_t at, int32_t size)
{
	const struct go_frames *frames = reader->frames;
	const unsigned char *code;
	size_t left, slot, lea;

	code = at > reader->function->start ? frames->code(frames->arg, at - 1, &left) : NULL;
	if (!code)
		return;
	if (size == WORD && left > sizeof(set_rbp) && code[0] == 0x55 &&
	    !memcmp(code + 1, set_rbp, sizeof(set_rbp))) {
		reader->has_prologue = true;
		reader->saved = at;
		reader->set = at + sizeof(set_rbp);
		return;
	}
	slot = match_slot(code + 1, left - 1, 0x89, size - WORD);
	lea = slot ? match_slot(code + 1 + slot, left - 1 - slot, 0x8d, size - WORD) : 0;
	if (!lea)
		return;
	reader->has_prologue = true;
	reader->saved = at + slot;
	reader->set = reader->saved + lea;
}

/* Passes a row for the part of [start, end) that is in [from, to). */
static int pass(struct reader *reader, uint64_t start, uint64_t end, uint64_t from, uint64_t to,
		const struct cfi_row *row)
{
	start = start > from ? start : from;
	end = end < to ? end : to;
	if (start >= end)
		return 0;
	reader->end = end;
	reader->last = *row;
	return reader->frames->row(reader->frames->arg, start, end, row);
}

static int add_frame(struct reader *reader, uint64_t start, uint64_t end, int32_t size)
{
	struct cfi_row row = {
		.kind = CFI_CALLER,
		.base = CFI_RSP,
		.offset = (int64_t)size + WORD,
		.return_address = saved_rip,
	};
	bool has_slot;
	int err;

	if (size > 0 && !reader->size && !reader->has_prologue)
		find_prologue(reader, start, size);
	reader->size = size;
	has_slot = reader->has_prologue && size > 0;
	if (reader->function->changes_stack && !reader->has_prologue)
		row = (struct cfi_row){.kind = CFI_UNSUPPORTED};
	err = pass(reader, start, end, 0, has_slot ? reader->saved : UINT64_MAX, &row);
	if (err || !has_slot)
		return err;
	row.rbp = saved_rbp;
	if (!reader->function->changes_stack)
		return pass(reader, start, end, reader->saved, UINT64_MAX, &row);
	err = pass(reader, start, end, reader->saved, reader->set, &row);
	row.base = CFI_RBP;
	row.offset = INT64_C(2) * WORD;
	return err ? err : pass(reader, start, end, reader->set, UINT64_MAX, &row);
}

static int add_stack_size(void *arg, uint64_t start, uint64_t end, int32_t size)
{
	return add_frame(arg, start, end, size);
}

/* Functions that are no calls: the trampoline of signal handlers, and the end of a stack. */
static bool is_special(const struct go_function *function, struct cfi_row *row)
{
	/* sigtramp has no caller in Go, but the trampoline is one. */
	static const char *const signals[] = {"runtime.sigreturn", "runtime.sigreturn.abi0",
					      "runtime.sigreturn__sigaction",
					      "runtime.sigreturn__sigaction.abi0"};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		if (!strcmp(function->name, signals[i])) {
			row->kind = CFI_SIGNAL;
			return true;
		}
	}
	row->kind = CFI_END;
	if (function->is_outermost && strncmp(function->name, "runtime.sigtramp", 16))
		return true;
	/* It switches to the stack of the scheduler, which ends there. */
	return !strcmp(function->name, "runtime.mcall") ||
	       !strcmp(function->name, "runtime.mcall.abi0");
}

static int add_function(void *arg, const struct go_function *function)
{
	struct reader *reader = arg;
	struct cfi_row row = {0};
	int err;

	reader->count++;
	if (is_special(function, &row))
		return reader->frames->row(reader->frames->arg, function->start, function->end,
					   &row);
	reader->function = function;
	reader->size = 0;
	reader->has_prologue = false;
	reader->end = function->end;
	err = go_pclntab_each_stack_size(reader->pclntab, function, add_stack_size, reader);
	/* The padding behind a function needs no row of its own. */
	if (err || reader->end >= function->end)
		return err;
	return reader->frames->row(reader->frames->arg, reader->end, function->end, &reader->last);
}

int64_t go_frames_read(const struct go_pclntab *pclntab, const struct go_frames *frames)
{
	struct reader reader = {.pclntab = pclntab, .frames = frames};
	int err = go_pclntab_each_function(pclntab, add_function, &reader);

	return err ? err : reader.count;
}
