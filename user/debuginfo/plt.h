/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The procedure linkage table (PLT) from its code. Linkers give its stubs no symbols; lld and mold
 * write no call frame information for it, and GNU ld none for some of its sections.
 */
#ifndef STACKBEAT_DEBUGINFO_PLT_H
#define STACKBEAT_DEBUGINFO_PLT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Calls `fn` for ranges of the offsets [0, size) of the section `code`, in ascending order, with
 * the distance of the CFA from rsp, in bytes. Ends at an instruction that is in no known PLT.
 * Returns 0, or the first result of `fn` that is not 0.
 */
int plt_read(const unsigned char *code, size_t size,
	     int (*fn)(void *arg, size_t start, size_t end, unsigned int cfa), void *arg);

/* A part of the PLT that ends with a jump: a stub, or one of the two parts of a lazy stub. */
struct plt_stub {
	uint64_t start, end; /* with the padding behind it */
	uint64_t slot; /* the address of the pointer that it jumps to; 0: it has none */
	bool has_index;
	uint32_t index; /* that it passes to the dynamic linker: of an entry of .rela.plt */
};

/*
 * Calls `fn` for each stub of the `size` bytes of the section `code` at `address`, in ascending
 * order, until it does not return 0. Ends at an instruction that is in no known PLT. Returns the
 * last result of `fn`.
 */
int plt_each_stub(const unsigned char *code, size_t size, uint64_t address,
		  int (*fn)(void *arg, const struct plt_stub *stub), void *arg);

#endif
