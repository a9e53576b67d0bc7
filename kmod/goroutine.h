/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads what the runtime of a Go program knows of the goroutine that the current thread runs, in hard
 * interrupt context. The memory of the program may hold anything, and is read in bounded time.
 *
 * The structures are g and m of src/runtime/runtime2.go.
 */
#ifndef STACKBEAT_GOROUTINE_H
#define STACKBEAT_GOROUTINE_H

#include <linux/types.h>

struct stackbeat_unwind_go;

/*
 * Writes what is `wanted` (STACKBEAT_GOROUTINE_*) of the goroutine, in the order of the bits: a word
 * each, but for the labels: a struct stackbeat_go_labels. There is room in `words` for all of it, and
 * for STACKBEAT_GO_SLACK bytes. `fs_base`: of the thread. Returns the bits of those that were found; 0:
 * unknown, or no goroutine.
 */
u32 sb_goroutine_read(u32 wanted, u64 *words, const struct stackbeat_unwind_go *go,
		      unsigned long fs_base);

#endif
