/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The wall clock beside the clocks that nobody sets: notices that it was set, and that the machine
 * was suspended. CLOCK_REALTIME and CLOCK_BOOTTIME run alike, also while NTP adjusts their speed,
 * so that their difference changes only when the wall clock is set; CLOCK_MONOTONIC stands still
 * meanwhile.
 */
#ifndef STACKBEAT_LIB_WALL_CLOCK_H
#define STACKBEAT_LIB_WALL_CLOCK_H

#include <stdint.h>

/* All in ns. */
struct wall_clock {
	int64_t set_ns; /* CLOCK_REALTIME - CLOCK_BOOTTIME */
	int64_t suspended_ns; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
	int64_t stepped_ns; /* how far it was set ahead, since the last wall_clock_take_step() */
	int64_t set_error_ns, suspended_error_ns; /* private: how exactly they are known */
};

/* Reads the clocks for the first time. */
void wall_clock_start(struct wall_clock *clock);

/*
 * Reads the clocks again. Without a step of the clock or a suspend since the last time, nothing
 * changes, not even by what this process has waited between two clocks.
 */
void wall_clock_update(struct wall_clock *clock);

/*
 * Returns the time since 1970 (ns), by the clock as it is set now, when CLOCK_MONOTONIC was
 * `monotonic_ns` and suspended_ns was `suspended_ns`.
 */
int64_t wall_clock_ns(const struct wall_clock *clock, int64_t monotonic_ns, int64_t suspended_ns);

/*
 * Returns how far the clock was set ahead (or back: negative), at least a second, since the last
 * call that did; or 0.
 */
int64_t wall_clock_take_step(struct wall_clock *clock);

#endif
