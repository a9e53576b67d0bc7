// SPDX-License-Identifier: GPL-2.0
#include "record/live_symbols.h"

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "lib/clock.h"
#include "record/profile_export.h"
#include "symbolize/symbol_cache.h"

#define CACHE_BYTES ((size_t)8 << 20) /* of symbols */
/* A debug package that is installed later has symbols that the cache does not. */
#define CACHE_NS (3600 * NS_PER_SECOND)
/*
 * All symbols of the kernel are read again for code that has none, such as filters of system calls,
 * which many programs have: for few samples after the longer time.
 */
#define KERNEL_READ_NS (600 * NS_PER_SECOND)
#define KERNEL_READ_RARE_NS (3600 * NS_PER_SECOND)
#define RARE_PERCENTAGE 1

/* Returns recording->tolerated_missing. */
static unsigned int tolerated_missing(const struct live_symbols *symbols, int64_t now)
{
	const int64_t age = now - symbols->kernel_read_ns;

	if (!symbols->kernel_read_ns || age >= KERNEL_READ_RARE_NS)
		return 0;
	return age < KERNEL_READ_NS ? 100 : RARE_PERCENTAGE;
}

void live_symbols_use(struct live_symbols *symbols, struct recording *recording)
{
	const int64_t monotonic_ns = now_ns(CLOCK_MONOTONIC);
	int64_t now = monotonic_ns;

	kernel_symbols_refresh(&symbols->kernel, "");
	if (!symbols->cache)
		symbols->cache = symbol_cache_new(CACHE_BYTES);
	else if (now - symbols->cache_start_ns < CACHE_NS || !symbol_cache_clear(symbols->cache))
		now = symbols->cache_start_ns;
	symbols->cache_start_ns = now;
	recording->kallsyms = symbols->kernel.table;
	recording->kernel_text = symbols->kernel.text;
	recording->tolerated_missing = tolerated_missing(symbols, monotonic_ns);
	recording->cache = symbols->cache;
}

void live_symbols_note_kernel_read(struct live_symbols *symbols)
{
	symbols->kernel_read_ns = now_ns(CLOCK_MONOTONIC);
}

void live_symbols_clear(struct live_symbols *symbols)
{
	kernel_symbols_clear(&symbols->kernel);
	symbol_cache_free(symbols->cache);
	*symbols = (struct live_symbols){.cache = NULL};
}
