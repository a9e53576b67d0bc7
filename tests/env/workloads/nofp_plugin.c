// SPDX-License-Identifier: GPL-2.0
/* The library that nofp loads and unloads. */
#include "work.h"

NOINLINE void plugin_call(void (*function)(void));

void plugin_call(void (*function)(void))
{
	for (int i = 0; i < 8; i++) {
		function();
		__asm__ volatile("");
	}
}
