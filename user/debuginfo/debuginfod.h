/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fetches debug files from debuginfod servers by elfutils' libdebuginfod. The library is loaded on
 * use: stackbeat runs without it.
 */
#ifndef STACKBEAT_DEBUGINFO_DEBUGINFOD_H
#define STACKBEAT_DEBUGINFO_DEBUGINFOD_H

#include "lib/error.h"

/* Returns whether DEBUGINFOD_URLS names a server. No other server is ever contacted. */
int debuginfod_is_enabled(void);

/*
 * Fetches the debug file of a build ID (hex) from a server or from debuginfod's cache. `progress`
 * is called from time to time with bytes (`total` 0: unknown); a value other than 0 stops the
 * fetching. Returns an fd and sets *path, to be freed; or a negative errno value with `error` set:
 * -ENOENT if no server has the file, -EOPNOTSUPP if the library is missing or too old.
 */
int debuginfod_fetch(const char *build_id, int (*progress)(void *arg, long done, long total),
		     void *arg, char **path, struct error *error);

#endif
