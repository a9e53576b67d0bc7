/* SPDX-License-Identifier: GPL-2.0 */
/* The known chain of calls: outer(), middle(), inner(), where nearly all time is. */
#ifndef STACKBEAT_TEST_CHAIN_H
#define STACKBEAT_TEST_CHAIN_H

#ifndef CHAIN_LINK
#define CHAIN_LINK static
#endif

static __attribute__((noinline)) void inner(void)
{
	unsigned long iterations = 100000;

	__asm__ volatile("1:	dec %0\n"
			 "	jnz 1b"
			 : "+r"(iterations)
			 :
			 : "cc");
}

CHAIN_LINK __attribute__((noinline)) void middle(void);

__attribute__((noinline)) void middle(void)
{
	inner();
	__asm__ volatile("");
}

CHAIN_LINK __attribute__((noinline)) void outer(void);

__attribute__((noinline)) void outer(void)
{
	for (int i = 0; i < 20; i++)
		middle();
	__asm__ volatile("");
}

#endif
