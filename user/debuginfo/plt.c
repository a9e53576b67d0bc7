// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/plt.h"

#include <string.h>

#define WORD 8u

/*
 * What an instruction does to rsp, or to the flow of control. EFFECT_PAD: nothing, as padding;
 * EFFECT_LOAD: nothing, and its operand is where a stub finds its target.
 */
enum effect { EFFECT_NONE, EFFECT_PAD, EFFECT_PUSH, EFFECT_LOAD, EFFECT_CALL, EFFECT_JUMP };

/* All instructions that linkers use in a PLT. */
static const struct instruction {
	unsigned char prefix[4]; /* its first bytes */
	unsigned char prefix_size, size;
	enum effect effect;
} instructions[] = {
	{{0xff, 0x35}, 2, 6, EFFECT_PUSH}, /* push x(%rip) */
	{{0xff, 0x25}, 2, 6, EFFECT_JUMP}, /* jmp *x(%rip) */
	{{0xf2, 0xff, 0x25}, 3, 7, EFFECT_JUMP}, /* bnd jmp *x(%rip) */
	{{0x3e, 0xff, 0x25}, 3, 7, EFFECT_JUMP}, /* notrack jmp *x(%rip) */
	{{0x68}, 1, 5, EFFECT_PUSH}, /* push $x */
	{{0x41, 0x53}, 2, 2, EFFECT_PUSH}, /* push %r11 */
	{{0xe9}, 1, 5, EFFECT_JUMP}, /* jmp x */
	{{0xf2, 0xe9}, 2, 6, EFFECT_JUMP}, /* bnd jmp x */
	{{0xf3, 0x0f, 0x1e, 0xfa}, 4, 4, EFFECT_NONE}, /* endbr64 */
	{{0x41, 0xbb}, 2, 6, EFFECT_NONE}, /* mov $x,%r11d */
	/* Retpolines: a call, a loop for speculation, and what is called: the jump to r11. */
	{{0x4c, 0x8b, 0x1d}, 3, 7, EFFECT_LOAD}, /* mov x(%rip),%r11 */
	{{0xe8}, 1, 5, EFFECT_CALL}, /* call x */
	{{0xf3, 0x90}, 2, 2, EFFECT_NONE}, /* pause */
	{{0x0f, 0xae, 0xe8}, 3, 3, EFFECT_NONE}, /* lfence */
	{{0xeb, 0xf9}, 2, 2, EFFECT_NONE}, /* jmp .-5 */
	{{0x4c, 0x89, 0x1c, 0x24}, 4, 5, EFFECT_JUMP}, /* mov %r11,(%rsp); ret */
	{{0x90}, 1, 1, EFFECT_PAD}, /* nop, in several forms */
	{{0xcc}, 1, 1, EFFECT_PAD}, /* int3, as padding */
	{{0x66, 0x90}, 2, 2, EFFECT_PAD},
	{{0x0f, 0x1f, 0x00}, 3, 3, EFFECT_PAD},
	{{0x0f, 0x1f, 0x40}, 3, 4, EFFECT_PAD},
	{{0x0f, 0x1f, 0x44}, 3, 5, EFFECT_PAD},
	{{0x66, 0x0f, 0x1f, 0x44}, 4, 6, EFFECT_PAD},
	{{0x0f, 0x1f, 0x80}, 3, 7, EFFECT_PAD},
	{{0x0f, 0x1f, 0x84}, 3, 8, EFFECT_PAD},
	{{0x66, 0x0f, 0x1f, 0x84}, 4, 9, EFFECT_PAD},
};

static const struct instruction *plt_decode(const unsigned char *code, size_t size)
{
	for (size_t i = 0; i < sizeof(instructions) / sizeof(instructions[0]); i++) {
		const struct instruction *instruction = &instructions[i];

		if (instruction->size <= size &&
		    !memcmp(code, instruction->prefix, instruction->prefix_size))
			return instruction;
	}
	return NULL;
}

int plt_read(const unsigned char *code, size_t size,
	     int (*fn)(void *arg, size_t start, size_t end, unsigned int cfa), void *arg)
{
	/* The first entry is the common part: the others jump to it after their push. */
	bool has_common = size >= 2 && code[0] == 0xff && code[1] == 0x35;
	unsigned int cfa = has_common ? 2 * WORD : WORD;
	size_t start = 0, at = 0;
	int err = 0;

	while (at < size && !err) {
		const struct instruction *instruction = plt_decode(code + at, size - at);
		unsigned int next = cfa;

		if (!instruction)
			break;
		at += instruction->size;
		if (instruction->effect == EFFECT_PUSH)
			next = cfa + WORD;
		/* Stubs call what is behind it, too, without a push before. */
		if (instruction->effect == EFFECT_CALL)
			next = 2 * WORD;
		if (instruction->effect == EFFECT_JUMP)
			next = WORD;
		if (next == cfa)
			continue;
		err = fn(arg, start, at, cfa);
		start = at;
		cfa = next;
	}
	return !err && start < at ? fn(arg, start, at, cfa) : err;
}

/* Sets what a stub refers to, by an instruction that ends before `next`. */
static void set_stub_target(struct plt_stub *stub, const struct instruction *instruction,
			    const unsigned char *end, uint64_t next)
{
	const unsigned char *prefix = instruction->prefix;
	int32_t operand;

	if (instruction->size < sizeof(operand))
		return;
	memcpy(&operand, end - sizeof(operand), sizeof(operand));
	if (instruction->effect == EFFECT_PUSH && prefix[0] == 0x68) {
		stub->has_index = true;
		stub->index = (uint32_t)operand;
	} else if (instruction->effect == EFFECT_LOAD ||
		   (instruction->effect == EFFECT_JUMP &&
		    prefix[instruction->prefix_size - 1] == 0x25)) {
		stub->slot = next + (uint64_t)(int64_t)operand;
	}
}

int plt_each_stub(const unsigned char *code, size_t size, uint64_t address,
		  int (*fn)(void *arg, const struct plt_stub *stub), void *arg)
{
	struct plt_stub stub = {.start = address};
	bool has_jumped = false;
	size_t at = 0;
	int err = 0;

	while (at < size && !err) {
		const struct instruction *instruction = plt_decode(code + at, size - at);

		if (!instruction)
			break;
		if (has_jumped && instruction->effect != EFFECT_PAD) {
			err = fn(arg, &stub);
			stub = (struct plt_stub){.start = address + at};
			has_jumped = false;
		}
		at += instruction->size;
		set_stub_target(&stub, instruction, code + at, address + at);
		has_jumped |= instruction->effect == EFFECT_JUMP;
		stub.end = address + at;
	}
	return !err && has_jumped ? fn(arg, &stub) : err;
}
