/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cache of symbols by build ID: one file for each build ID, in a directory of limited size. Cache
 * files are untrusted input, and checked when read.
 */
#ifndef STACKBEAT_SYMBOLIZE_SYMBOL_CACHE_H
#define STACKBEAT_SYMBOLIZE_SYMBOL_CACHE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolize/source_line.h"

struct cached_symbols;

/* Bytes of all files of a cache directory; the least recently used files are evicted. */
#define SYMBOL_CACHE_BYTES_MAX (UINT64_C(128) << 20)
/* Bytes of one file. */
#define SYMBOL_CACHE_FILE_MAX (UINT64_C(32) << 20)

/*
 * Writes the cache directory of this user, a path without symbolic links:
 * XDG_CACHE_HOME/stackbeat or ~/.cache/stackbeat, which is created if needed. Returns false, with
 * "" in `directory`, if there is no such directory, or if a user other than this one and root can
 * replace it or a directory on its path, as in the home of another user.
 */
bool symbol_cache_directory(char directory[PATH_MAX]);

/*
 * Reads the cached symbols of a build ID (hex). Returns an empty set if there is no file or the
 * file is invalid; NULL when out of memory. cached_symbols_free() accepts NULL.
 */
struct cached_symbols *symbol_cache_read(const char *directory, const char *build_id);
void cached_symbols_free(struct cached_symbols *symbols);

/*
 * Finds the lines at an address. Writes at most INLINE_DEPTH_MAX of them (see
 * debuginfo/dwarf_lookup.h), and their number into *count; 0: the frame is elided. `symbols` owns
 * the strings, which are valid until an address is added. Returns false if the address is not
 * cached.
 */
bool cached_symbols_find(const struct cached_symbols *symbols, uint64_t address,
			 struct source_line *lines, size_t *count);

/* Adds an address that is not cached. Returns 0 or -ENOMEM. */
int cached_symbols_add(struct cached_symbols *symbols, uint64_t address,
		       const struct source_line *lines, size_t count);

/* Writes the file if addresses were added. Ignores errors, as the cache is optional. */
void symbol_cache_write(const char *directory, const char *build_id,
			const struct cached_symbols *symbols);

/* Evicts files until the directory is within SYMBOL_CACHE_BYTES_MAX. */
void symbol_cache_trim(const char *directory);

#endif
