/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names for addresses of Go programs from what Go itself names them with: its
 * pclntab, which no strip removes. Go 1.18 and later, little-endian ELF of 32 and
 * 64 bits: programs, also with cgo or position independent, and C libraries made
 * of Go. Functions that were inlined are told, too.
 */
#ifndef STACKBEAT_RUNTIME_GO_PCLNTAB_H
#define STACKBEAT_RUNTIME_GO_PCLNTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct go_pclntab;

/* A chain of inlined calls is told up to here; the function they are inlined in comes always. */
#define GO_INLINED_MAX 256u

struct go_frame {
	const char *name; /* as Go prints it: main.Map[...], main.(*T).Run, main.main.func1 */
	const char *system_name; /* as it is in the file: main.Map[go.shape.int] */
	const char *file; /* NULL: unknown */
	uint32_t line; /* 0: unknown. Where the frame was called from, for all but the first. */
	uint32_t start_line; /* where the function begins, Go 1.20 and later; 0: unknown */
	bool inlined;
};

/* Gets a frame, whose texts are gone afterwards. Returns 0, or another value to stop. */
typedef int go_frame_fn(const struct go_frame *frame, void *arg);

/*
 * Finds the tables of Go in an ELF file of `size` bytes at `data`, which may be
 * anything, and must stay as it is until go_pclntab_close() (NULL is fine there).
 * Takes memory for the program headers and little else. Returns 0 or a negative errno value:
 *	-ENODATA it is no ELF file, or no Go program
 *	-ENOTSUP it was made by Go before 1.18, or for a machine of other byte order
 *	-ENOMEM
 */
int go_pclntab_open(const void *data, size_t size, struct go_pclntab **gosym, struct error *error);
void go_pclntab_close(struct go_pclntab *gosym);

/*
 * Hands the frames at an address, as the ELF file counts addresses, to `fn`, innermost
 * first: inlined functions, and last the function that holds it. A return address must
 * be reduced by 1 before, as for all symbols.
 *
 * Wrappers, which the compiler made, are left out as Go leaves them out of tracebacks;
 * there may be no frame at all then, and nothing is missing. (Go shows a wrapper that
 * called a panic of the runtime: what was called is not known here.)
 *
 * Returns 0, -ENOENT where there is no function of Go, -ENOMEM, or what `fn` returned.
 * May be called by several threads at a time.
 */
int go_pclntab_lookup(const struct go_pclntab *gosym, uint64_t vaddr, go_frame_fn *fn, void *arg);

#endif
