/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbols that are kept between the profiles of one session, one after the other: of the kernel,
 * and of addresses in files that were looked up before.
 */
#ifndef STACKBEAT_RECORD_LIVE_SYMBOLS_H
#define STACKBEAT_RECORD_LIVE_SYMBOLS_H

#include <stdint.h>

#include "debuginfo/kernel_symbols.h"

struct recording;
struct symbol_cache;

/* All zero: none are kept. */
struct live_symbols {
	/* Private. */
	struct kernel_symbols kernel;
	struct symbol_cache *cache; /* NULL: none */
	int64_t cache_start_ns; /* of the monotonic clock */
	/* When an export read the symbols of the kernel; 0: none has. */
	int64_t kernel_read_ns;
};

/*
 * Sets `kallsyms`, `tolerated_missing` and `cache` of a recording that is to be exported, also by a
 * copy of this process. Reads the symbols of the kernel unless they are kept and valid.
 */
void live_symbols_use(struct live_symbols *symbols, struct recording *recording);

/* An export has set *reads_kernel of its recording. */
void live_symbols_note_kernel_read(struct live_symbols *symbols);

void live_symbols_clear(struct live_symbols *symbols);

#endif
