/* SPDX-License-Identifier: GPL-2.0 */
/* The query of the server itself, which stores a window each minute. */
#ifndef STACKBEAT_SERVE_STORE_QUERY_H
#define STACKBEAT_SERVE_STORE_QUERY_H

#include <stdint.h>

struct http;

/* Waits for the end of the next window. */
void store_query_begin(struct http *http, int64_t now);
/* Takes all steps that are possible now. */
void store_query_advance(struct http *http, int64_t now);
/* Closes the slices that no query needs. */
void store_query_drop_slices(struct http *http);
/* The sampler has ended: stores the slices that are there. */
void store_query_store_rest(struct http *http);

#endif
