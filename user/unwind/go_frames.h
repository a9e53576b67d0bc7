/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rows of Go functions, from the stack sizes in Go's pclntab. They hold at each instruction, also
 * in assembly, which often keeps no frame pointer. Untrusted, as the file is.
 *
 * A function that switches stacks (systemstack, asmcgocall, cgocallback) is unwound by its frame
 * pointer, which leads back to the first stack. Without one (Go 1.20 and before; gogo, morestack)
 * its callers are unknown.
 */
#ifndef STACKBEAT_UNWIND_GO_FRAMES_H
#define STACKBEAT_UNWIND_GO_FRAMES_H

#include <stddef.h>
#include <stdint.h>

struct cfi_row;
struct go_pclntab;

struct go_frames {
	/* Returns the code at an address, and sets *size to the bytes there; NULL: none. */
	const unsigned char *(*code)(void *arg, uint64_t address, size_t *size);
	/* Takes a row, as cfi_read(). */
	int (*row)(void *arg, uint64_t start, uint64_t end, const struct cfi_row *row);
	void *arg; /* of both */
};

/*
 * Passes the rows of all functions. Returns their number, or the first result of `row` that is not
 * 0, as a negative number.
 */
int64_t go_frames_read(const struct go_pclntab *pclntab, const struct go_frames *frames);

#endif
