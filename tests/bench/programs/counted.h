/* SPDX-License-Identifier: GPL-2.0 */
/* Work with a known number of instructions, and the clock to measure it. */
#ifndef COUNTED_H
#define COUNTED_H

/* The time-stamp counter. */
static inline __attribute__((always_inline)) unsigned long long ticks(void)
{
	unsigned int low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (unsigned long long)high << 32 | low;
}

/*
 * COUNT times 500 instructions, at WORK_ADDRESSES addresses, which gives as many distinct
 * stacks. An emulator runs longer loops faster.
 */
#define WORK_ADDRESSES 10

static inline __attribute__((always_inline)) void work_500(unsigned long long count)
{
	count *= 50;
	__asm__ volatile("1:	.rept 8\n"
			 "	nop\n"
			 "	.endr\n"
			 "	dec %0\n"
			 "	jnz 1b"
			 : "+r"(count)
			 :
			 : "cc");
}

#endif
