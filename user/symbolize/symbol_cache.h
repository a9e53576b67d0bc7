/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbols of addresses that were looked up before, in memory that a process shares with those that
 * it forks: what one of them finds, all have. All functions may be called by several processes at a
 * time; none waits for a process that was stopped within one: nothing is found or added then. A
 * process that is killed there costs the contents, which are all lost when the memory is full, too.
 *
 * A file is the one with its identity, size, owner, build ID and path: another file that claims the
 * same build ID is another one, and so is the same file below a path where somebody else may have
 * put debug files beside it.
 */
#ifndef STACKBEAT_SYMBOLIZE_SYMBOL_CACHE_H
#define STACKBEAT_SYMBOLIZE_SYMBOL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolize/source_line.h"

struct symbol_cache;

/* The file of an address. */
struct symbol_file {
	uint64_t device, inode, size;
	uint32_t generation; /* of the inode */
	uint32_t owner; /* uid */
	const char *build_id, *path;
};

/* As the number of lines: the file has no symbol for the address. */
#define SYMBOL_CACHE_NONE SIZE_MAX

/*
 * Returns a cache of `bytes` bytes, from 64 KiB to 1 GiB, of which it uses what it needs; NULL: out
 * of memory. symbol_cache_free() accepts NULL, and leaves the cache to other processes.
 */
struct symbol_cache *symbol_cache_new(size_t bytes);
void symbol_cache_free(struct symbol_cache *cache);

/*
 * Takes the lines of an address: innermost first; none if the frame is elided. The strings are
 * valid during the call, which must not use the cache. Returns 0 or a negative errno value.
 */
typedef int (*symbol_cache_fn)(void *arg, const struct source_line *lines, size_t count);

/*
 * Returns whether the cache knows the address, and calls found() then, unless the file has no
 * symbol for it. *err is what that returns, or 0.
 */
bool symbol_cache_find(struct symbol_cache *cache, const struct symbol_file *file, uint64_t address,
		       symbol_cache_fn found, void *arg, int *err);

/*
 * Adds the lines of an address, or none (SYMBOL_CACHE_NONE), if there is room. `same` is a range
 * with the address, if all of it has these lines: what is kept are the pages and blocks of 64 KiB
 * around the address, as far as 32 of them in each direction, and all of a file that has no others
 * (from 0 to UINT64_MAX).
 */
void symbol_cache_add(struct symbol_cache *cache, const struct symbol_file *file, uint64_t address,
		      const struct address_range *same, const struct source_line *lines,
		      size_t count);

/* Forgets all. Returns false if another process uses the cache: nothing is forgotten. */
bool symbol_cache_clear(struct symbol_cache *cache);

#endif
