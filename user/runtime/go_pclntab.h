/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbolizes addresses of Go programs by Go's own pclntab, which strip does not remove. Supports
 * Go 1.18 and later in little-endian ELF files of 32 and 64 bits: programs, also with cgo or
 * position independent, and C shared libraries built from Go. Reports inlined functions, too.
 */
#ifndef STACKBEAT_RUNTIME_GO_PCLNTAB_H
#define STACKBEAT_RUNTIME_GO_PCLNTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct go_pclntab;

/* Frames of inlined calls are reported up to this limit; the outermost function always is. */
#define GO_INLINED_MAX 256u

struct go_frame {
	const char *name; /* as Go prints it: main.Map[...], main.(*T).Run, main.main.func1 */
	const char *system_name; /* as in the file: main.Map[go.shape.int] */
	const char *file; /* NULL: unknown */
	uint32_t line; /* 0: unknown; the line of the call, for all frames but the first */
	uint32_t start_line; /* first line of the function, Go 1.20 and later; 0: unknown */
	bool inlined;
	uint64_t start; /* ELF virtual address of the function; 0: it is inlined */
};

/* Takes a frame; its strings are valid during the call only. A value other than 0 stops. */
typedef int go_frame_fn(const struct go_frame *frame, void *arg);

/*
 * Finds Go's tables in an ELF file of `size` bytes at `data`. The bytes are not trusted, and must
 * not change until go_pclntab_close() (which takes NULL, too). Allocates memory for the program
 * headers and little else. Returns 0 or a negative errno value:
 *	-ENODATA not an ELF file, or not a Go program
 *	-ENOTSUP built by a Go before 1.18, or for a machine of the other byte order
 *	-ENOMEM
 */
int go_pclntab_open(const void *data, size_t size, struct go_pclntab **pclntab,
		    struct error *error);
void go_pclntab_close(struct go_pclntab *pclntab);

/*
 * Passes the frames at an ELF virtual address to `fn`, innermost first: inlined functions, and
 * last the function that holds the address. The caller subtracts 1 from a return address, as for
 * all symbols.
 *
 * Wrappers that the compiler generated are omitted, as in Go's tracebacks; the result may then
 * have no frame at all, which is no error. (Go does show a wrapper that called a panic of the
 * runtime. The callee is not known here.)
 *
 * Returns 0, -ENOENT where no Go function holds the address, -ENOMEM, or the value of `fn`.
 * Several threads may call it at a time.
 */
int go_pclntab_lookup(const struct go_pclntab *pclntab, uint64_t vaddr, go_frame_fn *fn, void *arg);

/* A function, for go_pclntab_each_function(). */
struct go_function {
	const char *name; /* as in the file */
	uint64_t start, end; /* ELF virtual addresses */
	bool is_outermost; /* has no caller (TOPFRAME) */
	bool is_wrapper; /* omitted by go_pclntab_lookup() */
	bool changes_stack; /* sets rsp to another stack (SPWRITE): sizes are wrong from there on */
	uint32_t stack_sizes; /* private */
};

/*
 * Calls `fn` for each function, in the order of the table, with names of "" where they are broken.
 * Returns 0, or the first result of `fn` that is not 0.
 */
int go_pclntab_each_function(const struct go_pclntab *pclntab,
			     int (*fn)(void *arg, const struct go_function *function), void *arg);

/*
 * Calls `fn` for each part of a function in which its frame, without the return address, has
 * `size` bytes, in ascending order. Returns 0, or the first result of `fn` that is not 0.
 */
int go_pclntab_each_stack_size(const struct go_pclntab *pclntab, const struct go_function *function,
			       int (*fn)(void *arg, uint64_t start, uint64_t end, int32_t size),
			       void *arg);

#endif
