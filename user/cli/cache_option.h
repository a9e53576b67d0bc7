/* SPDX-License-Identifier: GPL-2.0 */
/* The options of the cache of what was read of files (debuginfo/file_cache.h), and its default
 * place. */
#ifndef STACKBEAT_CLI_CACHE_OPTION_H
#define STACKBEAT_CLI_CACHE_OPTION_H

#include <stdbool.h>

#include "cli/options.h"

struct error;
struct file_cache;

struct cache_options {
	const char *directory; /* NULL: the default of the user */
	bool off;
};

/* --cache and --no-cache: the last one counts. */
option_fn option_cache, option_no_cache;

/* Rows for a table of options; `member` is the struct cache_options of the subcommand. */
/* clang-format off */
#define CACHE_OPTIONS(type, member)                                                                \
	{0, "cache", "DIR",                                                                        \
	 "keep unwind tables and symbols in this directory, for later recordings "                 \
	 "(default: /var/cache/stackbeat/files for root, else $XDG_CACHE_HOME/stackbeat/files or "  \
	 "~/.cache/stackbeat/files)",                                                              \
	 OPTION_CALL(option_cache), OPTION_TARGET(struct cache_options, type, member)},            \
	{0, "no-cache", NULL, "keep no unwind tables and symbols, and use none that were kept",    \
	 OPTION_CALL(option_no_cache), OPTION_TARGET(struct cache_options, type, member)}
/* clang-format on */

/*
 * Opens the cache that the options choose. Sets *cache, which the caller closes, to NULL if it is
 * off, or if the default can't be used: `problem` says why, or is "". Returns 0, or -EINVAL if DIR
 * can't be used.
 */
int cache_option_open(const struct cache_options *options, struct file_cache **cache,
		      struct error *problem);

#endif
