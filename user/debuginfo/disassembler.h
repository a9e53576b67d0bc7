/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Machine code of x86-64 as text, by libcapstone, loaded on demand. The code is untrusted: a worker
 * disassembles it.
 */
#ifndef STACKBEAT_DEBUGINFO_DISASSEMBLER_H
#define STACKBEAT_DEBUGINFO_DISASSEMBLER_H

#include <stddef.h>
#include <stdint.h>

struct error;

#define INSTRUCTION_BYTES_MAX 15u
#define INSTRUCTION_TEXT_SIZE 320u

enum disassembler_syntax {
	SYNTAX_NONE, /* nothing is disassembled */
	SYNTAX_ATT,
	SYNTAX_INTEL,
};

struct instruction {
	uint64_t address; /* ELF virtual address */
	uint8_t size; /* bytes, at least 1 */
	uint8_t bytes[INSTRUCTION_BYTES_MAX];
	char text[INSTRUCTION_TEXT_SIZE];
};

/* Takes an instruction. A value other than 0 ends the disassembly. */
typedef int instruction_fn(void *arg, struct instruction *instruction);

/*
 * Loads the library, once, for this process and those that are forked from it: workers can't open
 * it. Returns 0, or -EOPNOTSUPP if it is missing or has another interface.
 */
int disassembler_load(struct error *error);

/*
 * Calls `fn` for each instruction of `size` bytes of code at `address`, in order. Each byte belongs
 * to one instruction. An instruction that the library does not know has its bytes as text (".byte
 * 0x62, ..."); its length is known nevertheless if it is a vector instruction (VEX, EVEX) or begins
 * with 0f 01, and else 1. Returns 0, what `fn` has returned, or -EOPNOTSUPP if the library is not
 * loaded or refuses.
 */
int disassemble(const uint8_t *code, size_t size, uint64_t address, enum disassembler_syntax syntax,
		instruction_fn *fn, void *arg);

#endif
