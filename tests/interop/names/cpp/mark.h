/* SPDX-License-Identifier: GPL-2.0 */
/* MARK("NAME"): an instruction whose address is noted, wherever it is inlined, in the section .marks. */
#ifndef MARK_H
#define MARK_H

#define MARK(name)                                                                                 \
	__asm__ volatile("771: nop\n\t"                                                            \
			 ".pushsection .marks, \"R?\", @progbits\n\t"                              \
			 ".quad 771b\n\t"                                                          \
			 ".asciz \"" name "\"\n\t"                                                 \
			 ".popsection")

#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))

#endif
