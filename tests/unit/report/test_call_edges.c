// SPDX-License-Identifier: GPL-2.0
/* Callers and callees of a function. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/call_edges.h"
#include "report/call_tree.h"
#include "sample_profile.h"

static const struct calltree_options cpu = {.sample_type = PROFILE_CPU};
static struct error error;

static struct calltree *tree_of(struct profile *profile)
{
	struct calltree *tree;

	assert_int_equal(calltree_new(profile, &cpu, &tree, &error), 0);
	profile_free(profile);
	return tree;
}

/* The edges are names with values in ms, and are these alone. */
static void expect_edges(const struct calltree *tree, const char *function, bool callers,
			 const char *expected)
{
	struct call_edges edges;
	char text[512];
	uint32_t name;
	int used;

	assert_int_equal(call_edges_find_function(tree, function, &name, &error), 0);
	assert_int_equal(call_edges_make(tree, name, callers, &edges), 0);
	used = snprintf(text, sizeof(text), "%d %d:", (int)(edges.flat / MS),
			(int)(edges.cum / MS));
	for (size_t i = 0; i < edges.count; i++)
		used += snprintf(text + used, sizeof(text) - (size_t)used, " %s %d",
				 tree->names[edges.items[i].name],
				 (int)(edges.items[i].value / MS));
	assert_string_equal(text, expected);
	free(edges.items);
}

static void calls_count_once_for_each_sample(void **state)
{
	struct calltree *tree = tree_of(example_profile());

	(void)state;
	expect_edges(tree, "main", true, "0 110: all 110");
	expect_edges(tree, "main", false, "0 110: read 40 fib 30 outer 30 libx.so+0x1234 10");
	expect_edges(tree, "fib", true, "30 30: fib 30 main 30");
	expect_edges(tree, "fib", false, "30 30: all 30 fib 30");
	/* An inlined function is called, too. */
	expect_edges(tree, "inner", true, "20 20: outer 20");
	expect_edges(tree, "outer", false, "10 30: inner 20 all 10");
	calltree_free(tree);
}

static void expect_unknown(const struct calltree *tree, const char *typed, const char *message)
{
	uint32_t name;

	assert_int_equal(call_edges_find_function(tree, typed, &name, &error), -ENOENT);
	assert_string_equal(error.text, message);
}

static void functions_are_found_by_what_is_typed(void **state)
{
	static const char *const names[] = {"std::map<int, a::b>::find(int const&)",
					    "ns::find2(void (*)(int))",
					    "encoding/json.(*Decoder).Decode",
					    "main.Decode",
					    "operator<<(a, b)",
					    "(anonymous namespace)::run()",
					    "evil\x1bname"};
	struct profile *profile = empty_profile();
	struct calltree *tree;
	uint32_t name;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint32_t location = example_location(profile, 0, 0x1000 + i, NULL, names[i]);

		example_sample(profile, &location, 1, 1, "comm");
	}
	tree = tree_of(profile);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(call_edges_find_function(tree, names[i], &name, &error), 0);
		assert_string_equal(tree->names[name], names[i]);
	}
	assert_int_equal(call_edges_find_function(tree, "find", &name, &error), 0);
	assert_string_equal(tree->names[name], names[0]);
	assert_int_equal(call_edges_find_function(tree, "find2", &name, &error), 0);
	assert_string_equal(tree->names[name], names[1]);
	assert_int_equal(call_edges_find_function(tree, "run", &name, &error), 0);
	assert_string_equal(tree->names[name], names[5]);
	expect_unknown(tree, "Decode",
		       "'Decode' is the name of 2 functions: 'encoding/json.(*Decoder).Decode', "
		       "'main.Decode'");
	expect_unknown(tree, "mian.Decode",
		       "no function 'mian.Decode'; did you mean 'main.Decode'?");
	expect_unknown(tree, "JSON",
		       "no function 'JSON'; did you mean 'encoding/json.(*Decoder).Decode'?");
	expect_unknown(tree, "evil", "no function 'evil'; did you mean 'evil?name'?");
	expect_unknown(tree, "", "no function ''");
	/* The root and groups are no functions. */
	expect_unknown(tree, "all", "no function 'all'");
	calltree_free(tree);
}

/* A tree of the stacks from a function on, or up to the roots; other samples are the root's. */
static void trees_begin_at_a_function(void **state)
{
	struct calltree_options options = {.sample_type = PROFILE_CPU, .from = "fib"};
	struct profile *profile = example_profile();
	struct calltree *tree;

	(void)state;
	assert_int_equal(calltree_new(profile, &options, &tree, &error), 0);
	assert_int_equal(tree->node_count, 4);
	assert_int_equal(tree->nodes[0].total, 110 * MS);
	assert_int_equal(tree->nodes[0].self, 80 * MS);
	assert_string_equal(tree->names[tree->nodes[3].name], "fib");
	assert_int_equal(tree->nodes[3].self, 30 * MS);
	calltree_free(tree);
	options.from = "vfs_read";
	options.upwards = true;
	assert_int_equal(calltree_new(profile, &options, &tree, &error), 0);
	assert_int_equal(tree->node_count, 5);
	assert_string_equal(tree->names[tree->nodes[1].name], "vfs_read");
	assert_string_equal(tree->names[tree->nodes[4].name], "main");
	assert_int_equal(tree->nodes[4].self, 40 * MS);
	calltree_free(tree);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_count_once_for_each_sample),
		cmocka_unit_test(functions_are_found_by_what_is_typed),
		cmocka_unit_test(trees_begin_at_a_function),
	};

	return cmocka_run_group_tests_name("call_edges", tests, NULL, NULL);
}
