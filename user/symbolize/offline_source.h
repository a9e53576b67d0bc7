/* SPDX-License-Identifier: GPL-2.0 */
/* Symbols of a profile of another time, another machine, or another profiler: by path and build ID.
 */
#ifndef STACKBEAT_SYMBOLIZE_OFFLINE_SOURCE_H
#define STACKBEAT_SYMBOLIZE_OFFLINE_SOURCE_H

#include "symbolize/symbol_source.h"

struct binary_finder;
struct profile;

/*
 * Sets `source` for a profile. `search` finds the binaries; `kallsyms` (NULL: none) are the symbols
 * of `kernel`, which may be NULL without them. All of these must outlive the source.
 */
void offline_source_init(struct symbol_source *source, const struct profile *profile,
			 const struct binary_finder *search, const struct kallsyms *kallsyms,
			 struct kernel *kernel);

#endif
