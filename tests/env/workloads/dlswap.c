// SPDX-License-Identifier: GPL-2.0
/*
 * dlswap DIR LOOPS [ITERATIONS]
 *
 * Loads the libraries libswap_0.so to libswap_3.so of DIR in turn, calls swap_N of each library
 * from call_N, and unloads the library; all this LOOPS times. Fails unless all are loaded at the
 * same address.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "work.h"

typedef void function(unsigned long iterations);

#define CALL(n)                                                                                    \
	static NOINLINE void call_##n(function *swap, unsigned long iterations)                    \
	{                                                                                          \
		swap(iterations);                                                                  \
		__asm__ volatile("");                                                              \
	}

CALL(0)
CALL(1)
CALL(2)
CALL(3)

static void (*const calls[])(function *, unsigned long) = {call_0, call_1, call_2, call_3};

#define LIBRARIES (sizeof(calls) / sizeof(*calls))

static int fail(const char *what)
{
	fprintf(stderr, "dlswap: %s\n", what);
	return -1;
}

/* Returns the load address of the library, or 0. */
static unsigned long swap(const char *directory, unsigned int number, unsigned long iterations)
{
	char path[4096], name[16];
	struct link_map *map;
	unsigned long address;
	function *function;
	void *library;

	snprintf(path, sizeof(path), "%s/libswap_%u.so", directory, number);
	snprintf(name, sizeof(name), "swap_%u", number);
	library = dlopen(path, RTLD_NOW);
	if (!library)
		return fail(dlerror()), 0;
	*(void **)&function = dlsym(library, name);
	if (!function || dlinfo(library, RTLD_DI_LINKMAP, &map))
		return fail(dlerror()), 0;
	address = map->l_addr;
	calls[number](function, iterations);
	dlclose(library);
	return address;
}

int main(int argc, char **argv)
{
	unsigned long iterations = argc > 3 ? strtoul(argv[3], NULL, 10) : 1000000;
	unsigned int loops = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	unsigned long address, first = 0;
	unsigned int loop;

	if (argc < 3)
		return 2;
	for (loop = 0; loop < loops * LIBRARIES; loop++) {
		address = swap(argv[1], loop % LIBRARIES, iterations);
		if (!first)
			first = address;
		if (!address)
			return 1;
		if (address != first)
			return fail("a library was loaded at another address"), 1;
	}
	return 0;
}
