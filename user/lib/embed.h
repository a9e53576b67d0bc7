/* SPDX-License-Identifier: GPL-2.0 */
/* Files of the source tree as strings of the program. */
#ifndef STACKBEAT_LIB_EMBED_H
#define STACKBEAT_LIB_EMBED_H

/*
 * Declares `symbol`, the contents of the file at `path`, relative to the root of the source tree,
 * with a NUL at the end. The Makefile lists the files that an object embeds.
 */
#define EMBED(symbol, path)                                                                        \
	extern const char(symbol)[];                                                               \
	__asm__(".pushsection .rodata\n" #symbol ":\n.incbin \"" path "\"\n.byte "                 \
		"0\n.popsection\n")

#endif
