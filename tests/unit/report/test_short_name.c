// SPDX-License-Identifier: GPL-2.0
/* Short names: what is left out, and that they are never too long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/utf8.h"
#include "report/short_name.h"

static void assert_short(const char *name, size_t columns, const char *expected)
{
	char *text = short_name(name, columns);

	assert_string_equal(text, expected);
	free(text);
}

static void packages_are_left_out_first(void **state)
{
	static const char go[] = "github.com/very/long/pkg.(*T).Method";

	(void)state;
	assert_short(go, 36, go);
	assert_short(go, 35, "…very/long/pkg.(*T).Method");
	assert_short(go, 26, "…very/long/pkg.(*T).Method");
	assert_short(go, 25, "…long/pkg.(*T).Method");
	assert_short(go, 16, "…pkg.(*T).Method");
	assert_short(go, 15, "…(*T).Method");
	assert_short(go, 7, "…Method");
	assert_short(go, 6, "Metho…");
	assert_short(go, 5, "Meth…");
	assert_short(go, 4, "");
	assert_short("core::iter::Iterator::fold", 16, "…Iterator::fold");
	assert_short("a/b.F[go/shape.int]", 18, "a/b.F[…]");
	assert_short("a/b.F[go/shape.int]", 7, "…b.F[…]");
	assert_short("std::map<a::b, c::d>::find", 10, "…find");
	assert_short("trailing::", 8, "trailin…");
	assert_short("trailing/", 8, "trailin…");
	assert_short("libfoo.so+0x1234", 10, "libfoo.so…");
}

/* Before packages: the name of a function says more than the types that it is made for. */
static void template_arguments_are_left_out(void **state)
{
	static const char find[] = "std::map<int, std::string<char> >::find(int)";

	(void)state;
	assert_short(find, 44, find);
	assert_short(find, 42, "std::map<int, std::string<char> >::find(…)");
	assert_short(find, 41, "std::map<…>::find(…)");
	assert_short(find, 19, "…map<…>::find(…)");
	assert_short("f<a->b, c>::g", 12, "f<…>::g");
	assert_short("pkg.Map[string,int].Get", 20, "pkg.Map[…].Get");
	/* These are no arguments. */
	assert_short("<alloc::Vec as Clone>::clone", 20, "…clone");
	assert_short("ns::operator<<", 12, "…operator<<");
	assert_short("long_name<T>", 11, "long_name<…");
}

static void arguments_are_left_out(void **state)
{
	(void)state;
	assert_short("ns::f(std::string const&, int)", 8, "ns::f(…)");
	assert_short("ns::f(std::string const&, int)", 7, "…f(…)");
	assert_short("function(int (*)(long), x)", 11, "function(…)");
	assert_short("function(int (*)(long), x)", 9, "function…");
	assert_short("function(int (*)(long), x)", 8, "functio…");
	assert_short("ns::function(int (*)(long), x)", 9, "…function");
	assert_short("(anonymous namespace)", 10, "(anonymou…");
	assert_short("operator()(int, long)", 14, "operator()(…)");
	/* Receivers, and what is as short as the ellipsis. */
	assert_short("main.(*Type)", 10, "…(*Type)");
	assert_short("function(i)", 10, "function(…");
	assert_short("unbalanced)x)", 10, "unbalance…");
}

static void columns_are_counted(void **state)
{
	(void)state;
	assert_short("函数名函数名", 12, "函数名函数名");
	assert_short("函数名函数名", 11, "函数名函数…");
	assert_short("函数名函数名", 5, "函数…");
	assert_short("\xff\xff\xff\xff\xff\xff\xff", 6, "\xff\xff\xff\xff\xff…");
	assert_short("", 0, "");
	assert_short("abcd", 4, "abcd");
	assert_short("abcde", 4, "");
}

static void no_name_is_too_long(void **state)
{
	static const char *const names[] = {
		"operator<",
		"operator->",
		"a<<b::c",
		"]]]::x",
		"::",
		"://::",
		"....((((",
		"a.(b",
		"))).x.y",
		"f(",
		"()",
		"a/b/c/d/e/f/g/h",
		"main.(*sequencer).Add.func2",
		"x(yyyy)z(wwww)",
	};
	char *text;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (size_t columns = 0; columns < 30; columns++) {
			size_t count = 0;

			text = short_name(names[i], columns);
			for (const char *at = text; *at; at += utf8_decode(at, NULL))
				count++;
			assert_true(count <= columns);
			assert_true(count || columns < 5);
			free(text);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packages_are_left_out_first),
		cmocka_unit_test(template_arguments_are_left_out),
		cmocka_unit_test(arguments_are_left_out),
		cmocka_unit_test(columns_are_counted),
		cmocka_unit_test(no_name_is_too_long),
	};

	return cmocka_run_group_tests_name("short_name", tests, NULL, NULL);
}
