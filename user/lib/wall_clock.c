// SPDX-License-Identifier: GPL-2.0
#include "lib/wall_clock.h"

#include <stdbool.h>
#include <stdlib.h>

#include "lib/clock.h"

/* Smaller steps are worth no message, unless they add up. */
#define STEP_MIN_NS NS_PER_SECOND

static void wall_clock_read(struct wall_clock *clock)
{
	/* Both differences have the time between these two as their error, also in a suspend. */
	const int64_t before = now_ns(CLOCK_BOOTTIME);
	const int64_t real = now_ns(CLOCK_REALTIME), monotonic = now_ns(CLOCK_MONOTONIC);
	const int64_t error = now_ns(CLOCK_BOOTTIME) - before;

	*clock = (struct wall_clock){
		.set_ns = real - before - error / 2,
		.suspended_ns = before + error / 2 - monotonic,
		.set_error_ns = error,
		.suspended_error_ns = error,
	};
}

void wall_clock_start(struct wall_clock *clock)
{
	wall_clock_read(clock);
}

static bool has_changed(int64_t before, int64_t before_error, int64_t now, int64_t now_error)
{
	return llabs(now - before) > before_error + now_error;
}

void wall_clock_update(struct wall_clock *clock)
{
	struct wall_clock now;

	wall_clock_read(&now);
	if (has_changed(clock->set_ns, clock->set_error_ns, now.set_ns, now.set_error_ns)) {
		clock->stepped_ns += now.set_ns - clock->set_ns;
		clock->set_ns = now.set_ns;
		clock->set_error_ns = now.set_error_ns;
	}
	if (has_changed(clock->suspended_ns, clock->suspended_error_ns, now.suspended_ns,
			now.suspended_error_ns)) {
		clock->suspended_ns = now.suspended_ns;
		clock->suspended_error_ns = now.suspended_error_ns;
	}
}

int64_t wall_clock_ns(const struct wall_clock *clock, int64_t monotonic_ns, int64_t suspended_ns)
{
	return clock->set_ns + suspended_ns + monotonic_ns;
}

int64_t wall_clock_take_step(struct wall_clock *clock)
{
	const int64_t step = clock->stepped_ns;

	if (llabs(step) < STEP_MIN_NS)
		return 0;
	clock->stepped_ns = 0;
	return step;
}
