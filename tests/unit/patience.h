/* SPDX-License-Identifier: GPL-2.0 */
/* How long tests wait for what other threads and processes do. */
#ifndef STACKBEAT_TEST_PATIENCE_H
#define STACKBEAT_TEST_PATIENCE_H

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

/*
 * Seconds after which what a test waits for has hung, however busy the machine. STACKBEAT_PATIENCE
 * is how many times slower the machine is than usual.
 */
static inline int hang_s(void)
{
	const char *patience = getenv("STACKBEAT_PATIENCE");

	return 300 * (patience ? atoi(patience) : 1);
}

static inline int hang_ms(void)
{
	return 1000 * hang_s();
}

/* Limits of user/ for what hangs are over at once. */
extern bool limits_pass;
extern int64_t limits_passed_ms; /* by poll() */

/* Waits until a condition holds. Counts looks at it, as tests replace the clock. */
#define wait_until(condition)                                                                      \
	do {                                                                                       \
		for (int looks_ = 0; !(condition); looks_++) {                                     \
			assert_true(looks_ < hang_ms());                                           \
			usleep(1000);                                                              \
		}                                                                                  \
	} while (0)

#endif
