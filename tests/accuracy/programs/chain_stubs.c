// SPDX-License-Identifier: GPL-2.0
/*
 * chain_stubs SECONDS
 *
 * Calls tiny functions of a library, so that a part of the samples is in the stubs of the procedure
 * linkage table: of direct() and, as its address is taken, of taken().
 */
#include <stdlib.h>
#include <time.h>

unsigned int direct(unsigned int value);
unsigned int taken(unsigned int value);

#ifdef LIBRARY
unsigned int direct(unsigned int value)
{
	return value * 3 + 1;
}

unsigned int taken(unsigned int value)
{
	return value ^ 7;
}
#else
unsigned int (*volatile address)(unsigned int) = taken;

__attribute__((noinline)) unsigned int caller(unsigned int value);

unsigned int caller(unsigned int value)
{
	for (unsigned int i = 0; i < 100000; i++)
		value += direct(value) + taken(value);
	return value;
}

int main(int argc, char **argv)
{
	const double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	unsigned int value = 0;

	while ((double)clock() / CLOCKS_PER_SEC < seconds)
		value += caller(value);
	return value == 7;
}
#endif
