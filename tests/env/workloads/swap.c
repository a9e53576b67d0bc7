// SPDX-License-Identifier: GPL-2.0
/*
 * libswap_N.so, for dlswap: libraries that differ only in the name of their function.
 */
#include "work.h"

void NAME(unsigned long iterations);

NOINLINE void NAME(unsigned long iterations)
{
	work(iterations);
}
