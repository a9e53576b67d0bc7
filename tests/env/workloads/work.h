/* SPDX-License-Identifier: GPL-2.0 */
/* Common parts of programs and libraries with known behaviour. */
#ifndef WORK_H
#define WORK_H

typedef unsigned long long u64;

#define NOINLINE __attribute__((noipa))

/*
 * For leaf functions: gcc omits the frame of a function that does not use its stack, despite
 * -mno-omit-leaf-frame-pointer.
 */
static inline __attribute__((always_inline)) void keep_frame(void)
{
	__asm__ volatile("" : : "r"(__builtin_frame_address(0)));
}

/* The work of all programs: two instructions an iteration, no memory. */
static inline __attribute__((always_inline)) void work(unsigned long iterations)
{
	keep_frame();
	__asm__ volatile("1:	dec %0\n"
			 "	jnz 1b"
			 : "+r"(iterations)
			 :
			 : "cc");
}

#endif
