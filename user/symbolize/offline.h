/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbolizes the locations of a profile that have no symbols: a profile recorded without
 * symbolization, perhaps on another machine, or while some files were missing.
 */
#ifndef STACKBEAT_SYMBOLIZE_OFFLINE_H
#define STACKBEAT_SYMBOLIZE_OFFLINE_H

#include <stddef.h>
#include <stdint.h>

#include "symbolize/symbolize_options.h"

struct binary_finder;
struct error;
struct kallsyms;
struct kernel;
struct profile;

struct offline_symbolizer {
	struct symbolize_options options;
	const struct binary_finder *search; /* finds the binaries */
	const struct kallsyms *kallsyms; /* NULL: none */
	struct kernel *kernel; /* the kernel that kallsyms belongs to; may be NULL without it */
	/*
	 * Reports that `count` addresses of a mapping have no symbol after all. `arg` is that of
	 * the options.
	 */
	void (*missing)(void *arg, const char *path, const char *build_id, size_t count);
};

struct offline_counts {
	size_t unsymbolized; /* locations with an address and a mapping that had no symbol */
	size_t named; /* those of them that have one now, or are elided */
};

/*
 * Symbolizes in place. A profile written by stackbeat becomes equal to one that was symbolized
 * while recording: frames above the root of a stack and elided frames are removed, and truncated
 * stacks are counted again. Returns 0, or -ENOMEM with `error` set; the profile may only be freed
 * then.
 */
int offline_symbolize(const struct offline_symbolizer *symbolizer, struct profile *profile,
		      struct offline_counts *counts, struct error *error);

#endif
