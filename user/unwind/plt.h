/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unwinding in the procedure linkage table (PLT) from its code: lld and mold write no call frame
 * information for it, and GNU ld none for some of its sections.
 */
#ifndef STACKBEAT_UNWIND_PLT_H
#define STACKBEAT_UNWIND_PLT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Calls `fn` for ranges of the offsets [0, size) of the section `code`, in ascending order, with
 * the distance of the CFA from rsp, in bytes. Ends at an instruction that is in no known PLT.
 * Returns 0, or the first result of `fn` that is not 0.
 */
int plt_read(const unsigned char *code, size_t size,
	     int (*fn)(void *arg, size_t start, size_t end, unsigned int cfa), void *arg);

#endif
