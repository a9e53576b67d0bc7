// SPDX-License-Identifier: GPL-2.0
/* Profiles without memory: the error stays, and what can't be added is entry 0. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "failing_malloc.h"
#include "pprof/profile.h"

#define STRINGS 100

/* Adds strings, also such that are no UTF-8. Returns how many were added. */
static int add_strings(struct profile *profile)
{
	int added = 0;
	char text[32];

	for (int i = 0; i < STRINGS; i++) {
		uint32_t index;

		snprintf(text, sizeof(text), "%s%d", i % 2 ? "\xff" : "", i);
		index = profile_string(profile, text);
		assert_int_equal(!index, profile->error != 0);
		added += index != 0;
	}
	return added;
}

static void strings_without_memory_are_empty(void **state)
{
	unsigned int errors = 0;
	bool has_failed = true;

	(void)state;
	for (unsigned long number = 1; has_failed; number++) {
		struct profile *profile = profile_new();
		int added;

		assert_non_null(profile);
		fail_malloc(number, false);
		added = add_strings(profile);
		has_failed = malloc_has_failed();
		fail_malloc(0, false);
		/* The hash table can do without more memory for a while. */
		assert_true(has_failed || !profile->error);
		assert_int_equal(added == STRINGS, !profile->error);
		assert_true(!profile->error || profile->error == -ENOMEM);
		errors += profile->error != 0;
		profile_free(profile);
	}
	assert_true(errors > STRINGS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_without_memory_are_empty),
	};

	return cmocka_run_group_tests_name("profile_memory", tests, NULL, NULL);
}
