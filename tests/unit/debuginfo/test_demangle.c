// SPDX-License-Identifier: GPL-2.0
/* Names that are too long. AddressSanitizer reports what the demangler leaks. */
#include "debuginfo/demangle.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

#define LONG DEMANGLED_MAX

static char name[4 * LONG];
static char text[DEMANGLED_MAX];

static void short_punycode_is_decoded(void **state)
{
	(void)state;
	assert_true(demangle("_RNvC1au10abcdefgh_a", text));
	assert_string_equal(text, "a::\xc2\x80"
				  "abcdefgh");
}

/* Writes a Rust name: a crate, and an identifier in Punycode of LONG letters and one more. */
static char *write_long_identifier(void)
{
	char *end = name + sprintf(name, "_RNvC1au%u", LONG + 2);

	memset(end, 'a', LONG);
	return stpcpy(end + LONG, "_a");
}

static void long_punycode_leaks_nothing(void **state)
{
	(void)state;
	write_long_identifier();
	assert_false(demangle(name, text));
	/* Inside a longer path: the demangler is stopped in the middle. */
	memmove(name + 4, name + 2, strlen(name + 2) + 1);
	memcpy(name + 2, "Nv", 2);
	strcat(name, "3foo");
	assert_false(demangle(name, text));
	/* The memory of the demangler is not reachable from here any more. */
	memset(text, 0, sizeof(text));
}

static void long_ascii_name_stays_mangled(void **state)
{
	char *end = name + sprintf(name, "_RNvC1a%u", LONG);

	(void)state;
	memset(end, 'a', LONG);
	end[LONG] = '\0';
	assert_false(demangle(name, text));
	end = name + sprintf(name, "_ZN1a%u", LONG);
	memset(end, 'a', LONG);
	strcpy(end + LONG, "E");
	assert_false(demangle(name, text));
}

/* Names of stubs of the PLT, which the demanglers do not know. */
static void stubs_are_demangled(void **state)
{
	(void)state;
	assert_true(demangle("_ZN3foo3barEi@plt", text));
	assert_string_equal(text, "foo::bar@plt");
	assert_true(demangle("_RNvCs1234_7mycrate3foo@plt", text));
	assert_non_null(strstr(text, "mycrate"));
	assert_string_equal(text + strlen(text) - 4, "@plt");
	assert_false(demangle("main@plt", text));
	assert_false(demangle("@plt", text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_punycode_is_decoded),
		cmocka_unit_test(long_punycode_leaks_nothing),
		cmocka_unit_test(long_ascii_name_stays_mangled),
		cmocka_unit_test(stubs_are_demangled),
	};

	return cmocka_run_group_tests_name("demangle", tests, NULL, NULL);
}
