/* SPDX-License-Identifier: GPL-2.0 */
/* Prints a walked stack, word by word. */
#ifndef STACKBEAT_INSPECT_STACK_TEXT_H
#define STACKBEAT_INSPECT_STACK_TEXT_H

#include <stddef.h>
#include <stdio.h>

struct stack_symbols;
struct stack_walk;
struct symbolize_options;

/*
 * Finds the names of all addresses that stack_text_print() prints, of at most `words` words of each
 * stack. Returns 0, to be followed by stack_symbols_clear(), or a negative errno value.
 */
int stack_text_symbolize(struct stack_walk *walk, size_t words,
			 const struct symbolize_options *options, struct stack_symbols *symbols);

/*
 * Prints the registers, the frames with their rules, and up to `words` words of each stack. Returns
 * 0 or -ENOMEM. Errors of writing are errors of `out`.
 */
int stack_text_print(const struct stack_walk *walk, const struct stack_symbols *symbols,
		     size_t words, FILE *out);

#endif
