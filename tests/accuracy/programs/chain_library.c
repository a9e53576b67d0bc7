// SPDX-License-Identifier: GPL-2.0
/*
 * The known chain in a library, of which inner() has no symbol if the library is stripped: it lies
 * behind a symbol without a size, whose name is not its own. SPARE bytes of code set two libraries
 * apart.
 */
#define CHAIN_LINK
void marker(void);

__asm__(".text\n"
	".globl	marker\n"
	".type	marker, @function\n"
	"marker:\n"
	"	ret\n"
#ifdef SPARE
	"	.skip	4096, 0xcc\n"
#endif
	"	.p2align 4");

#include "chain.h"
