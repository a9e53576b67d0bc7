/* SPDX-License-Identifier: GPL-2.0 */
/* A profile as someone wants to see it: chosen samples and frames, and other names of frames. */
#ifndef STACKBEAT_REPORT_PROFILE_VIEW_H
#define STACKBEAT_REPORT_PROFILE_VIEW_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/error.h"

struct profile;

#define SORT_KEYS_MAX 8u
/* ASCII's unit separator, which the parts of names do not have. */
#define KEY_SEPARATOR '\x1f'

/* All zero: the profile as it is. */
struct profile_view {
	/*
	 * As the options of pprof: each is compared with the names, source files and files of
	 * frames. NULL: none.
	 */
	const regex_t *focus; /* only samples with such a frame */
	const regex_t *ignore; /* no sample with such a frame */
	const regex_t *hide; /* without these frames */
	const regex_t *show; /* only these frames */
	bool folds_irqs_off; /* leaves that enable interrupts are a part of their callers */
	bool lines; /* names with source file and line */
	/*
	 * What names are made of: "comm", "dso", "sym" (or "symbol"), "line" (or "srcline"),
	 * "srcfile", "service" or the key of a label. If none is of frames, samples have one frame.
	 */
	const char *keys[SORT_KEYS_MAX];
	size_t key_count;
	bool separates_keys; /* by KEY_SEPARATOR in names, for programs; else by blanks */
};

/* Returns whether a key of a view is no label: a part of frames, or the service. */
bool profile_view_knows_key(const char *key);

/* Returns whether a view shows the profile as it is. */
bool profile_view_is_whole(const struct profile_view *view);

/* Which regular expressions of a view match a frame of the profile. */
struct profile_view_matches {
	bool focus, ignore, hide, show;
};

/*
 * Sets *shown to a new profile with what a view shows. Samples that have lost all frames are left
 * out, as in pprof. Returns 0 or -ENOMEM.
 */
int profile_view_make(const struct profile *profile, const struct profile_view *view,
		      struct profile **shown, struct profile_view_matches *matches);

#endif
