// SPDX-License-Identifier: GPL-2.0
/*
 * roots ADDRESS
 *
 * Spins on hand-made stacks in turn, which differ in one word behind the same return address,
 * ADDRESS of libc. The frames there have their CFA at rbp + 16, and rbp at CFA - 16. Leaf first:
 *	spin_0	ADDRESS, ADDRESS, outer_0
 *	spin_1	the same, but another outermost caller: outer_1
 *	spin_2	rbp leads to other frames: ADDRESS, ADDRESS, outer_2
 *	spin_3	the saved rbp of the second frame leads to another one: ADDRESS, ADDRESS, outer_3
 *	spin_4	ADDRESS, and unreadable memory behind it
 *	spin_5	the words of the first stack, but lower. Its saved rbp leads to the second frame of
 *		the first stack, which is not lower: ADDRESS, ADDRESS, outer_5
 * The functions outer_N have no caller.
 */
#include <dlfcn.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "work.h"

#define ITERATIONS 1000000
#define PAGE 4096u

/* Words above the stack pointer: a frame's rbp, and its return address behind it. */
#define FIRST 8
#define OTHER_FIRST 10
#define SECOND 16
#define OTHER_SECOND 20
#define LOWER 24
#define WORDS 64

/* Spins with the stack pointer at `stack`. The stack can be walked at each instruction. */
#define STACK(n)                                                                                   \
	void spin_##n(u64 iterations, u64 *stack, u64 *rbp);                                       \
	void outer_##n(void);                                                                      \
	__asm__(".type spin_" #n ", @function\n"                                                   \
		"spin_" #n ": .cfi_startproc\n"                                                    \
		"	mov %rsp, %r8\n"                                                                 \
		"	mov %rbp, %r9\n"                                                                 \
		"	mov %rdx, %rbp\n"                                                                \
		"	mov %rsi, %rsp\n"                                                                \
		"1:	dec %rdi\n"                                                                    \
		"	jnz 1b\n"                                                                        \
		"	mov %r8, %rsp\n"                                                                 \
		"	mov %r9, %rbp\n"                                                                 \
		"	ret\n"                                                                           \
		"	.cfi_endproc\n"                                                                  \
		"	.size spin_" #n ", . - spin_" #n "\n"                                      \
		"	.type outer_" #n ", @function\n"                                           \
		"outer_" #n ": .cfi_startproc\n"                                                   \
		"	.cfi_undefined %rip\n"                                                           \
		"	nop\n"                                                                           \
		"	ud2\n"                                                                           \
		"	.cfi_endproc\n"                                                                  \
		"	.size outer_" #n ", . - outer_" #n "\n")

STACK(0);
STACK(1);
STACK(2);
STACK(3);
STACK(4);
STACK(5);

static u64 code; /* ADDRESS, where libc is mapped */

static void set_frame(u64 *stack, int at, int caller, u64 address)
{
	stack[at] = (u64)&stack[caller];
	stack[at + 1] = address;
}

/* Behind a call of a function. */
static u64 inside(void (*function)(void))
{
	return (u64)function + 1;
}

/* Sets the words of the first stack. */
static void set_stack(u64 *stack)
{
	memset(stack, 0, WORDS * sizeof(*stack));
	stack[0] = code;
	set_frame(stack, FIRST, SECOND, code);
	set_frame(stack, SECOND, SECOND, inside(outer_0));
}

static u64 *map_last_word(void)
{
	char *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE))
		err(1, "mmap");
	return (u64 *)(pages + PAGE) - 1;
}

int main(int argc, char **argv)
{
	static u64 words[LOWER + WORDS];
	u64 *stack = words + LOWER, *lower = words, *last = map_last_word();
	Dl_info info;

	if (argc != 2 || !dladdr((void *)exit, &info))
		errx(2, "usage: roots ADDRESS");
	code = (u64)info.dli_fbase + strtoull(argv[1], NULL, 16);
	last[0] = code;
	for (;;) {
		set_stack(stack);
		spin_0(ITERATIONS, stack, &stack[FIRST]);
		stack[SECOND + 1] = inside(outer_1);
		spin_1(ITERATIONS, stack, &stack[FIRST]);
		set_stack(stack);
		set_frame(stack, OTHER_FIRST, OTHER_SECOND, code);
		set_frame(stack, OTHER_SECOND, SECOND, inside(outer_2));
		spin_2(ITERATIONS, stack, &stack[OTHER_FIRST]);
		set_stack(stack);
		set_frame(stack, FIRST, OTHER_SECOND, code);
		set_frame(stack, OTHER_SECOND, SECOND, inside(outer_3));
		spin_3(ITERATIONS, stack, &stack[FIRST]);
		spin_4(ITERATIONS, last, &last[FIRST]);
		/* A copy of the second frame is where it would be if it were lower, too. */
		set_stack(stack);
		stack[SECOND + 1] = inside(outer_5);
		memset(lower, 0, LOWER * sizeof(*lower));
		lower[0] = code;
		lower[FIRST] = (u64)&stack[SECOND];
		lower[FIRST + 1] = code;
		lower[SECOND + 1] = inside(outer_0);
		spin_5(ITERATIONS, lower, &lower[FIRST]);
	}
}
