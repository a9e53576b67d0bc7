/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Debug files from debuginfod servers, through elfutils' own library. It is
 * loaded when it is asked for the first time: stackbeat runs without it.
 */
#ifndef STACKBEAT_DEBUGINFO_DEBUGINFOD_H
#define STACKBEAT_DEBUGINFO_DEBUGINFOD_H

#include "lib/error.h"

/* Whether DEBUGINFOD_URLS names a server. Nothing is ever asked of any other. */
int debuginfod_is_wanted(void);

/*
 * Fetches the debug file of a build id (hex), or takes it from debuginfod's own
 * cache. `progress` is called now and then with bytes (`total` 0: not known);
 * fetching stops when it returns other than 0. Returns an fd and sets *path, to
 * be freed; or a negative errno value: -ENOENT where no server has it, -EOPNOTSUPP
 * where the library is not there.
 */
int debuginfod_fetch(const char *build_id, int (*progress)(void *arg, long done, long total),
		     void *arg, char **path, struct error *error);

#endif
