/* SPDX-License-Identifier: GPL-2.0 */
/* Goroutines as a profile, and as text. */
#ifndef STACKBEAT_INSPECT_GOROUTINE_PROFILE_H
#define STACKBEAT_INSPECT_GOROUTINE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct error;
struct go_process;
struct goroutine_labels;
struct goroutines;
struct profile;

struct goroutine_view {
	const struct go_process *process;
	const struct goroutines *goroutines;
	const struct goroutine_labels *labels;
	bool shows_system; /* goroutines of the runtime, too, and in the text its functions */
};

struct goroutine_profile {
	struct profile *profile;
	uint32_t *stacks; /* in the profile, of each of goroutines->stacks; 0: it is not shown */
	uint32_t *creators; /* location of the go statement of each goroutine; NULL: not wanted */
};

/*
 * Makes a profile of the type goroutine/count, as runtime/pprof does, with the labels of the
 * goroutines, as labels.h makes them labels of samples, but without symbols; `creators`
 * are needed for goroutine_text_print(). Returns 0, to be followed by goroutine_profile_clear(), or
 * -ENOMEM.
 */
int goroutine_profile_make(const struct goroutine_view *view, bool creators,
			   struct goroutine_profile *result);
void goroutine_profile_clear(struct goroutine_profile *result);

/*
 * Prints the goroutines like runtime/pprof's goroutine profile with debug=2, by the symbols that
 * the profile has got meanwhile. The arguments of functions are left out. Errors are as of
 * `out`.
 */
void goroutine_text_print(const struct goroutine_view *view, const struct goroutine_profile *made,
			  FILE *out);

/* Returns the number of goroutines that are not shown, as they are of the runtime. */
uint64_t goroutine_view_hidden(const struct goroutine_view *view);

#endif
