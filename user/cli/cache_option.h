/* SPDX-License-Identifier: GPL-2.0 */
/* The options of the cache of what was read of files (debuginfo/file_cache.h), and its default
 * place. */
#ifndef STACKBEAT_CLI_CACHE_OPTION_H
#define STACKBEAT_CLI_CACHE_OPTION_H

#include <stdbool.h>

struct error;
struct file_cache;

struct cache_options {
	const char *directory; /* NULL: the default of the user */
	bool off;
};

/* Entries for a table of options. */
enum {
	CACHE_DIRECTORY = 0x3000,
	CACHE_OFF,
};

/* clang-format off */
#define CACHE_OPTIONS                                                                              \
	{CACHE_DIRECTORY, "cache", "DIR",                                                          \
	 "keep unwind tables and symbols in this directory, for later recordings "                 \
	 "(default: /var/cache/stackbeat/files for root, else $XDG_CACHE_HOME/stackbeat/files or "  \
	 "~/.cache/stackbeat/files)"},                                                             \
	{CACHE_OFF, "no-cache", NULL, "keep no unwind tables and symbols, and use none that were kept"}
/* clang-format on */

/* Handles an option of these entries. Returns 0 or -EINVAL. */
int cache_option_parse(int id, const char *value, struct cache_options *options,
		       struct error *error);

/*
 * Opens the cache that the options choose. Sets *cache, which the caller closes, to NULL if it is
 * off, or if the default can't be used: `problem` says why, or is "". Returns 0, or -EINVAL if DIR
 * can't be used.
 */
int cache_option_open(const struct cache_options *options, struct file_cache **cache,
		      struct error *problem);

#endif
