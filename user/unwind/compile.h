/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compiles the unwind table (stackbeat_unwind.h) of an ELF file, from
 * - Go's pclntab (go_frames.h),
 * - .eh_frame, found by its section header or by PT_GNU_EH_FRAME, and .debug_frame,
 * - the code of the PLT, which some linkers describe by no call frame information (plt.h),
 * - the entry point, the return trampoline of signal handlers, and _init, if nothing covers them.
 *
 * The file is untrusted. Its code and sections are mapped: access to a file that shrinks raises
 * SIGBUS, so call this in a worker (job.h).
 */
#ifndef STACKBEAT_UNWIND_COMPILE_H
#define STACKBEAT_UNWIND_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include <stackbeat_unwind.h>

enum unwind_result {
	UNWIND_COMPILED,
	UNWIND_NO_INFORMATION, /* no call frame information */
	UNWIND_OTHER_MACHINE, /* the code is not of x86-64: a 32-bit program */
	UNWIND_BROKEN_FILE, /* not an ELF file, or a broken one */
	UNWIND_TOO_LARGE, /* beyond a limit */
	UNWIND_NO_MEMORY,
	UNWIND_RESULT_COUNT
};

struct unwind_summary {
	uint32_t result; /* enum unwind_result */
	uint32_t go_minor; /* of the Go 1.x whose goroutines the table can follow; 0: none */
	uint64_t size; /* bytes of the table; 0: none */
	uint64_t rows;
	uint64_t functions; /* entries (FDEs) of call frame information */
	uint64_t broken; /* those that were skipped, or read in part */
	uint64_t unsupported; /* ranges of code whose rule a table can't express */
	uint64_t overlapping; /* ranges that were dropped, because another one starts before */
};

/* Larger tables are UNWIND_TOO_LARGE. */
#define UNWIND_TABLE_MAX (64u << 20) /* bytes */

/* Returns the summary; sets *table, which the caller frees; NULL unless UNWIND_COMPILED. */
struct unwind_summary unwind_compile(int fd, struct stackbeat_unwind_table **table);

/* Returns whether a summary that others have made is consistent. */
bool unwind_summary_is_valid(const struct unwind_summary *summary);

/* Returns why there is no table, in a few words: "no call frame information". */
const char *unwind_result_text(enum unwind_result result);

#endif
