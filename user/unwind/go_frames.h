/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rows of Go functions, from the stack sizes in Go's pclntab. They hold at each instruction, also
 * in assembly, which often keeps no frame pointer. Untrusted, as the file is.
 *
 * The runtime changes to the stack of the thread and back in a few functions of assembly. Their
 * code shows where they do so: a sequence of instructions that is not as expected makes rows of
 * unknown callers.
 */
#ifndef STACKBEAT_UNWIND_GO_FRAMES_H
#define STACKBEAT_UNWIND_GO_FRAMES_H

#include <stdbool.h>
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

/* What the code of the runtime shows of its structures; see stackbeat_unwind.h. */
struct go_runtime {
	bool has_tls, tls_in_memory;
	int64_t tls;
	uint16_t m, sched_bp, curg; /* 0: not found */
};

/*
 * Passes the rows of all functions, and sets *runtime. Returns the number of functions, or the
 * first result of `row` that is not 0, as a negative number.
 */
int64_t go_frames_read(const struct go_pclntab *pclntab, const struct go_frames *frames,
		       struct go_runtime *runtime);

#endif
