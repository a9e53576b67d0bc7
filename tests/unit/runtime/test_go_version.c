// SPDX-License-Identifier: GPL-2.0
#include "runtime/go_version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define HEADER "\xff Go buildinf:\x08"

/* Builds the information at an offset, and looks for it in an allocation without a byte behind it.
 */
static bool find_at(uint64_t address, size_t offset, unsigned char flags, const char *version,
		    size_t cut, struct go_version *found)
{
	size_t size = offset + 33 + strlen(version) - cut;
	unsigned char bytes[256] = {0}, *exact = malloc(size);
	bool is_found;

	assert_non_null(exact);
	memcpy(bytes + offset, HEADER, 15);
	bytes[offset + 15] = flags;
	bytes[offset + 32] = (unsigned char)strlen(version);
	memcpy(bytes + offset + 33, version, strlen(version));
	memcpy(exact, bytes, size);
	is_found = go_version_find(exact, size, address, found);
	if (is_found) {
		assert_int_equal(found->length, strlen(version));
		assert_memory_equal(found->text, version, found->length);
	}
	free(exact);
	return is_found;
}

static bool find(size_t offset, unsigned char flags, const char *version, size_t cut,
		 struct go_version *found)
{
	return find_at(0, offset, flags, version, cut, found);
}

static void assert_version(const char *version, unsigned int minor)
{
	struct go_version found;

	assert_true(find(0, 2, version, 0, &found));
	assert_int_equal(found.major, 1);
	assert_int_equal(found.minor, minor);
}

static void test_versions(void **state)
{
	(void)state;
	assert_version("go1.18", 18);
	assert_version("go1.24.4", 24);
	assert_version("go1.26-devel_0123", 26);
	assert_version("devel go1.27-0123 Mon", 27);
	assert_version("go1.24.4 X:nocoverageredesign", 24);
	assert_version("go1.0", 0);
	assert_version("go1.9.1", 9);
	assert_version("go1.90/", 90);
	assert_version("go1.12345", 1234);
}

static void test_length_is_one_byte(void **state)
{
	char version[129];
	struct go_version found;

	(void)state;
	snprintf(version, sizeof(version), "go1.24%0121d", 0);
	assert_int_equal(strlen(version), 127);
	assert_true(find(0, 2, version, 0, &found));
	strcat(version, "0");
	assert_false(find(0, 2, version, 0, &found));
}

static void test_others_are_refused(void **state)
{
	struct go_version version;

	(void)state;
	assert_false(find(0, 2, "", 0, &version));
	assert_false(find(0, 2, "1.24", 0, &version));
	assert_false(find(0, 2, "go1", 0, &version));
	assert_false(find(0, 2, "go1.x", 0, &version));
	/* Go 1.17 and before have pointers there. */
	assert_false(find(0, 0, "go1.17", 0, &version));
	assert_false(go_version_find("", 0, 0, &version));
}

static void test_is_found_behind_other_data(void **state)
{
	struct go_version version;

	(void)state;
	assert_true(find(32, 2, "go1.21.1", 0, &version));
	/* The constant in a program that reads build information is not aligned, or not complete.
	 */
	assert_false(find(8, 2, "go1.21.1", 0, &version));
	/* A linker of C may begin the segment at any word: only the address is aligned. */
	assert_true(find_at(0x1a6b68, 8, 2, "go1.26.8", 0, &version));
	assert_false(find_at(0x1a6b68, 16, 2, "go1.26.8", 0, &version));
	assert_true(find_at(4, 12, 2, "go1.26.8", 0, &version));
	assert_false(find_at(4, 4, 2, "go1.26.8", 0, &version));
	for (size_t cut = 1; cut < 33; cut++) {
		assert_false(find(0, 2, "go1.21.1", cut, &version));
		assert_false(find(64, 2, "go1.21.1", cut, &version));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_length_is_one_byte),
		cmocka_unit_test(test_others_are_refused),
		cmocka_unit_test(test_is_found_behind_other_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
