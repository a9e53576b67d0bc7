/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Gives the windows of a store to a server, as `stackbeat serve` writes them. The store is the
 * queue while the server is away: it has limits of size and age. A window that is merged with older
 * ones, which were pushed, before it is pushed itself, is left out rather than pushed twice.
 *
 * After the clock was ahead, or while it is behind, the position is later than now: it goes back to
 * the newest window that is not, and those that were pushed of the time after that are remembered.
 */
#ifndef STACKBEAT_PUSH_PUSH_STORE_H
#define STACKBEAT_PUSH_PUSH_STORE_H

#include <stdint.h>

#include "push/push_profile.h"
#include "push/push_state.h"

struct error;

/* Since the start. */
struct push_store_counts {
	struct push_counts pushed;
	uint64_t windows; /* that were pushed completely */
	uint64_t went_back; /* as the position was ahead of the clock */
};

/*
 * Pushes all windows of the store in `path` from the state's position on, and writes the state.
 * Returns HTTP_ACCEPTED if there is nothing to be pushed any more, HTTP_REFUSED likewise if the
 * server has refused some or a window could not be read, or HTTP_UNAVAILABLE if it is to be tried
 * again later, or HTTP_NONE if all that is left has its delay. HTTP_REFUSED and HTTP_UNAVAILABLE
 * set `error`.
 */
enum http_result push_store(struct http_client *client, const struct push_options *options,
			    const char *path, struct push_state *state,
			    struct push_store_counts *counts, struct error *error);

#endif
