/* SPDX-License-Identifier: GPL-2.0 */
/* Names of addresses in the files of a walked stack. */
#ifndef STACKBEAT_INSPECT_STACK_SYMBOLS_H
#define STACKBEAT_INSPECT_STACK_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/string_table.h"

struct stack_walk;
struct symbolize_options;

/* An address of code. */
struct stack_symbol {
	uint64_t address;
	uint32_t file; /* in walk->files, or STACK_NO_FILE: in anonymous memory */
	uint64_t vaddr; /* where there is no ELF file, the address */
	bool is_jit; /* its name is in the perf map of the process */
	/* The function that is not inlined, NULL: unknown; and where it begins, 0: unknown. */
	const char *function;
	uint64_t start; /* ELF virtual address */
	/* Of the innermost function that is inlined there. */
	const char *source;
	uint32_t line;
};

struct stack_symbols {
	struct stack_symbol *items; /* by address */
	size_t count, capacity;
	struct string_table strings;
};

/* Adds an address if it is in code. Returns 0 or -ENOMEM. */
int stack_symbols_add(struct stack_symbols *symbols, struct stack_walk *walk, uint64_t address);

/*
 * Finds the names, after all addresses were added; forgets those in anonymous memory that have
 * none. Returns 0 or a negative errno value.
 */
int stack_symbols_find(struct stack_symbols *symbols, const struct stack_walk *walk,
		       const struct symbolize_options *options);

/* Returns what is known about an address, or NULL. */
const struct stack_symbol *stack_symbols_at(const struct stack_symbols *symbols, uint64_t address);

void stack_symbols_clear(struct stack_symbols *symbols);

#endif
