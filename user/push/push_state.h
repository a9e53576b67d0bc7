/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which windows of a store were pushed, in a file of its own: a line "next: US SERVICES". Windows
 * that start before US, a time in microseconds since 1970, were pushed; of the first window from US
 * on, SERVICES services. After the clock was ahead, a third number follows, and a line "early: US
 * SECONDS" for each window (its start and its length) of a time before this number that was pushed,
 * too. Without such lines, all windows that were stored then
 * are taken for early ones.
 */
#ifndef STACKBEAT_PUSH_PUSH_STATE_H
#define STACKBEAT_PUSH_PUSH_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct window_name;

struct push_state {
	const char *path;
	int lock;
	int64_t next_us;
	size_t done; /* services of that window */
	int64_t ahead_us; /* the third number; 0: none */
	int64_t wait_us; /* it has its delay up to this time; not in the file */
	/* The windows before `ahead_us` that were pushed. */
	struct window_name *early;
	size_t early_count;
	bool early_is_known;
};

/*
 * Reads the state at `path`, which outlives `state`, and locks it against other processes that
 * push. A new one begins at `now_us`. Returns 0; or a negative errno value: -EBUSY if another
 * process has the lock, -EBADMSG if the file is not a state. push_state_close() is to be called in
 * both cases.
 */
int push_state_open(struct push_state *state, const char *path, int64_t now_us,
		    struct error *error);
void push_state_close(struct push_state *state);

/* Writes the state; the file has either the old one or the new one. Returns 0 or a negative errno
 * value. */
int push_state_write(const struct push_state *state, struct error *error);

#endif
