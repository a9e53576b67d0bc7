/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names that were found before, by build id: a file for each, in a directory that grows up
 * to a bound. What is in it is checked as any other file from outside.
 */
#ifndef STACKBEAT_SYMBOLIZE_SYMBOL_CACHE_H
#define STACKBEAT_SYMBOLIZE_SYMBOL_CACHE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolize/source_line.h"

struct cached_symbols;

/* Of all files of a directory; the ones that were not used for longest go first. */
#define SYMBOL_CACHE_BYTES_MAX (UINT64_C(128) << 20)
/* Of one file. */
#define SYMBOL_CACHE_FILE_MAX (UINT64_C(32) << 20)

/*
 * Writes where this user's names are kept, without links: XDG_CACHE_HOME/stackbeat or
 * ~/.cache/stackbeat, which is made if need be. False, with "", where there is no such place, or
 * somebody else but root may change it or a directory on the way there: that of another user's
 * home.
 */
bool symbol_cache_directory(char directory[PATH_MAX]);

/*
 * The names of a build id (hex) in a directory: none where there are none, or the file is
 * not sound. NULL when out of memory. cached_symbols_free() takes NULL too.
 */
struct cached_symbols *symbol_cache_read(const char *directory, const char *build_id);
void cached_symbols_free(struct cached_symbols *names);

/*
 * The lines at an address, as many as *count tells, at most INLINE_DEPTH_MAX (see
 * debuginfo/dwarf_lookup.h); 0: it is not to be shown. The texts are owned by `names`, and valid
 * until something is added. False: not known.
 */
bool cached_symbols_find(const struct cached_symbols *names, uint64_t address,
			 struct source_line *lines, size_t *count);

/* Adds an address that is not there. Returns 0 or -ENOMEM. */
int cached_symbols_add(struct cached_symbols *names, uint64_t address,
		       const struct source_line *lines, size_t count);

/* Keeps the names if some were added. What can't be kept is found again another time. */
void symbol_cache_write(const char *directory, const char *build_id,
			const struct cached_symbols *names);

/* Removes what is beyond the bound. */
void symbol_cache_trim(const char *directory);

#endif
