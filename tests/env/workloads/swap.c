// SPDX-License-Identifier: GPL-2.0
/*
 * libswap_N.so, for dlswap: libraries that differ in the name of their function,
 * which works.
 */
#include "work.h"

void NAME(unsigned long iterations);

NOINLINE void NAME(unsigned long iterations)
{
	work(iterations);
}
