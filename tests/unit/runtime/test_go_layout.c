// SPDX-License-Identifier: GPL-2.0
#include "runtime/go_layout.h"

#include "unit.h"

static void test_each_version_and_no_older_one(void **state)
{
	(void)state;
	assert_null(go_layout_of_version(0, 20));
	assert_null(go_layout_of_version(1, 17));
	assert_null(go_layout_of_version(2, 20));
	for (unsigned int minor = 18; minor <= 27; minor++) {
		const struct go_layout *layout = go_layout_of_version(1, minor);

		assert_in_range(minor, layout->first, layout->last);
		/* gobuf lost a field in 1.25; see go_layout.h for the source. */
		assert_int_equal(layout->sched_bp, minor < 25 ? 104 : 96);
		assert_int_equal(layout->m_curg, minor < 25 ? 192 : 184);
		assert_int_equal(layout->goid, minor == 23 || minor == 24 ? 160 : 152);
		assert_int_equal(layout->has_label_slices, minor >= 24);
	}
}

static void test_newer_version_has_last_layout(void **state)
{
	const struct go_layout *layout = go_layout_of_version(1, 99);

	(void)state;
	assert_ptr_equal(layout, go_layout_of_version(1, 27));
	assert_true(layout->last < 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_version_and_no_older_one),
		cmocka_unit_test(test_newer_version_has_last_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
