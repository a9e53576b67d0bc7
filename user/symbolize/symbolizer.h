/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbolizes the locations of a profile that have no symbols: locations of a recording, or of a
 * profile recorded without symbolization, perhaps on another machine, or while some files were
 * missing.
 */
#ifndef STACKBEAT_SYMBOLIZE_SYMBOLIZER_H
#define STACKBEAT_SYMBOLIZE_SYMBOLIZER_H

#include <stddef.h>

#include "symbolize/symbol_source.h"
#include "symbolize/symbolize_options.h"

struct error;
struct profile;

struct symbolize_counts {
	size_t unsymbolized; /* locations with an address and a mapping that had no symbol */
	size_t named; /* locations that have one now, or are elided */
};

/*
 * Symbolizes in place, as far as there are symbols. An address refers to the call instruction: a
 * return address minus 1, and the leaf address as it is. In mappings of the kernel, addresses are
 * addresses of memory; in other mappings, if `start` is 0, ELF virtual addresses, else addresses of
 * the memory to which the part of the file at `offset` was mapped at `start`.
 *
 * normalize_profile() is to follow if stackbeat recorded the profile. Sets `counts`. Returns 0, or
 * -ENOMEM with `error` set; then some symbols are missing, but all samples are there (see
 * profile->error).
 */
int symbolize_profile(struct profile *profile, const struct symbol_source *source,
		      const struct symbolize_options *options, struct symbolize_counts *counts,
		      struct error *error);

#endif
