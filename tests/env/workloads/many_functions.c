// SPDX-License-Identifier: GPL-2.0
/*
 * many_alpha and many_bravo: programs with a large symbol table, of 2,000 functions, that run for
 * ever in alpha_hot() or bravo_hot(). These names have the same length, so the files have the same
 * size, and both have the same build ID.
 *
 * They sleep for most of the time: unwind tables are compiled at a low priority.
 */
#include <unistd.h>

#include "work.h"

#define JOIN_WORDS(first, second) first##second
#define NAME_WITH(name, suffix) JOIN_WORDS(name, suffix)
#define QUOTE_WORD(word) #word
#define QUOTE(word) QUOTE_WORD(word)
#define HOT NAME_WITH(NAME, _hot)

volatile unsigned long calls;

/* By the assembler, as it makes the names. */
__asm__(".altmacro\n"
	".macro function number\n"
	".type " QUOTE(NAME) "_\\number, @function\n" QUOTE(
		NAME) "_\\number:\n"
		      "	.cfi_startproc\n"
		      "	addq $\\number, calls(%rip)\n"
		      "	ret\n"
		      "	.cfi_endproc\n"
		      ".size " QUOTE(NAME) "_\\number, . - " QUOTE(NAME) "_\\number\n"
									 ".endm\n"
									 ".text\n"
									 ".set number, 1000\n"
									 ".rept 2000\n"
									 "function %number\n"
									 ".set number, number + 1\n"
									 ".endr\n"
									 ".noaltmacro\n");

NOINLINE void HOT(void);

NOINLINE void HOT(void)
{
	for (int i = 0; i < 1000; i++)
		calls++;
}

int main(void)
{
	for (;;) {
		for (int i = 0; i < 300; i++)
			HOT();
		usleep(5000);
	}
}
