// SPDX-License-Identifier: GPL-2.0
#include "symbolize/stack_roots.h"

#include "unit.h"

static void known_roots_are_recognized(void **state)
{
	static const char *const roots[] = {"_start",
					    "__libc_start_main",
					    "__libc_start_main_impl",
					    "__libc_start_call_main",
					    "start_thread",
					    "clone",
					    "clone3",
					    "__clone",
					    "__clone3",
					    "runtime.goexit",
					    "runtime.goexit.abi0",
					    "runtime.rt0_go.abi0",
					    "runtime.mstart"};
	static const char *const others[] = {"",
					     "main",
					     "start",
					     "_start_worker",
					     "clone_node",
					     "runtime.goexit0",
					     "runtime.goexit1",
					     "runtime.mstart1",
					     "runtime.main",
					     "my_start_thread"};

	(void)state;
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		assert_true(stack_is_root(roots[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(stack_is_root(others[i]));
}

#define LIBC "/usr/lib/x86_64-linux-gnu/libc.so.6"

#define RESOLVED(name, of)                                                                         \
	(struct root_frame)                                                                        \
	{                                                                                          \
		.path = of, .system_name = name                                                    \
	}
#define UNRESOLVED(of)                                                                             \
	(struct root_frame)                                                                        \
	{                                                                                          \
		.path = of                                                                         \
	}

#define ROOT_DEPTH(...)                                                                            \
	stack_root_depth((const struct root_frame[]){__VA_ARGS__},                                 \
			 sizeof((const struct root_frame[]){__VA_ARGS__}) /                        \
				 sizeof(struct root_frame))

static void stack_ends_at_outermost_root(void **state)
{
	(void)state;
	assert_int_equal(ROOT_DEPTH(RESOLVED("leaf", "/a"), RESOLVED("main", "/a"),
				    RESOLVED("_start", "/a")),
			 3);
	/* Frames above the root are garbage that the unwinder has followed. */
	assert_int_equal(ROOT_DEPTH(RESOLVED("main", "/a"),
				    RESOLVED("__libc_start_call_main", LIBC), RESOLVED("any", "/a"),
				    UNRESOLVED("")),
			 2);
	assert_int_equal(ROOT_DEPTH(RESOLVED("main", "/a"), RESOLVED("__libc_start_main", LIBC),
				    RESOLVED("_start", "/a"), UNRESOLVED("")),
			 3);
	assert_int_equal(ROOT_DEPTH(RESOLVED("main.main", "/g"), RESOLVED("runtime.main", "/g"),
				    RESOLVED("runtime.goexit.abi0", "/g")),
			 3);
}

static void caller_of_main_in_stripped_libc_is_root(void **state)
{
	(void)state;
	assert_int_equal(
		ROOT_DEPTH(RESOLVED("leaf", "/a"), RESOLVED("main", "/a"), UNRESOLVED(LIBC)), 3);
	assert_int_equal(ROOT_DEPTH(RESOLVED("main", "/a"), UNRESOLVED("/lib/ld-musl-x86_64.so.1"),
				    UNRESOLVED("[stack]")),
			 2);
	/* A callback of qsort(): the frame of its caller is lost. */
	assert_int_equal(ROOT_DEPTH(RESOLVED("compare", "/a"), UNRESOLVED(LIBC)), 0);
	assert_int_equal(ROOT_DEPTH(RESOLVED("main", "/a"), RESOLVED("qsort", LIBC)), 0);
	assert_int_equal(ROOT_DEPTH(RESOLVED("main", "/a"), UNRESOLVED("/usr/lib/libcrypto.so.3")),
			 0);
	assert_int_equal(ROOT_DEPTH(UNRESOLVED(LIBC)), 0);
}

static void program_function_may_be_named_like_a_root(void **state)
{
	(void)state;
	assert_int_equal(ROOT_DEPTH(RESOLVED("work", "/a"), RESOLVED("start_thread", LIBC),
				    RESOLVED("any", "/a")),
			 2);
	assert_int_equal(
		ROOT_DEPTH(RESOLVED("work", "/static"), RESOLVED("start_thread", "/static")), 2);
	assert_int_equal(ROOT_DEPTH(RESOLVED("work", "/a"), RESOLVED("start_thread", "/a"),
				    RESOLVED("caller", "/a")),
			 0);
}

static void stack_without_root_is_truncated(void **state)
{
	(void)state;
	assert_int_equal(ROOT_DEPTH(RESOLVED("f", "/a"), UNRESOLVED("[anon]")), 0);
	assert_int_equal(ROOT_DEPTH(RESOLVED("f", "/a"), RESOLVED("main", "/a")), 0);
	assert_int_equal(ROOT_DEPTH(RESOLVED("f", "/a")), 0);
	assert_int_equal(stack_root_depth(NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_roots_are_recognized),
		cmocka_unit_test(stack_ends_at_outermost_root),
		cmocka_unit_test(caller_of_main_in_stripped_libc_is_root),
		cmocka_unit_test(program_function_may_be_named_like_a_root),
		cmocka_unit_test(stack_without_root_is_truncated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
