// SPDX-License-Identifier: GPL-2.0
/* Call trees: order, kinds, and large ones. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/call_tree.h"
#include "sample_profile.h"
#include "steps.h"

#define MANY 300000u

static const struct calltree_options options = {.sample_type = 1};

static struct calltree *make_tree(const struct profile *profile)
{
	struct calltree *tree;
	struct error error;

	assert_int_equal(calltree_new(profile, &options, &tree, &error), 0);
	return tree;
}

static void add_leaf(struct profile *profile, const char *name, int64_t value)
{
	uint32_t location = example_location(profile, 0, profile->locations.count, NULL, name);

	example_add(profile, &location, 1, 1, value, NULL, 0);
}

static const char *name_of(const struct calltree *tree, uint32_t node)
{
	return tree->names[tree->nodes[node].name];
}

#define FEW 2000u

/* A group costs what is below it, not all names of the profile. */
static void functions_of_many_groups_are_found(void **state)
{
	struct profile *profile = empty_profile();
	struct calltree *tree;
	uint64_t before;
	char name[16];
	size_t count;

	(void)state;
	for (uint32_t i = 0; i < FEW; i++) {
		snprintf(name, sizeof(name), "%u", i);
		add_leaf(profile, name, 1 + i);
	}
	tree = make_tree(profile);
	before = steps;
	for (uint32_t group = tree->nodes[0].first_child; group != CALLTREE_NONE;
	     group = tree->nodes[group].next_sibling) {
		free(calltree_functions(tree, group, &count));
		assert_int_equal(count, 0);
	}
	assert_in_range(steps - before, FEW, 100 * FEW);
	calltree_free(tree);
	profile_free(profile);
}

/* Some of these functions have the same hash. */
static void many_functions_are_distinct(void **state)
{
	struct profile *profile = empty_profile();
	struct calltree_function *functions;
	struct calltree *tree;
	char name[16];
	size_t count;

	(void)state;
	for (uint32_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "%u", i);
		add_leaf(profile, name, 1 + i);
	}
	tree = make_tree(profile);
	assert_int_equal(tree->name_count, MANY + 1);
	assert_int_equal(tree->node_count, MANY + 1);
	assert_int_equal(tree->total, (int64_t)MANY * (MANY + 1) / 2);
	functions = calltree_functions(tree, 0, &count);
	assert_int_equal(count, MANY);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(functions[i].flat, MANY - i);
		assert_int_equal(strtoul(tree->names[functions[i].name], NULL, 10), MANY - i - 1);
	}
	free(functions);
	calltree_free(tree);
	profile_free(profile);
}

/* The same function has many callers. */
static void many_callers_are_distinct(void **state)
{
	const uint32_t callers = 100000;
	struct profile *profile = empty_profile();
	uint32_t called;
	struct calltree *tree;
	char name[16];

	(void)state;
	called = example_location(profile, 0, 1, NULL, "called");
	for (uint32_t i = 0; i < callers; i++) {
		uint32_t pair[2] = {called};

		snprintf(name, sizeof(name), "%u", i);
		pair[1] = example_location(profile, 0, 2 + i, NULL, name);
		example_add(profile, pair, 2, 1, 1, NULL, 0);
	}
	tree = make_tree(profile);
	assert_int_equal(tree->node_count, 1 + 2 * callers);
	assert_int_equal(tree->name_count, 2 + callers);
	calltree_free(tree);
	profile_free(profile);
}

/* Siblings: the largest total first, then by name, then by kind. */
static void siblings_are_sorted(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t kernel = example_mapping(profile, 0, 1, 0, "[kernel.kallsyms]", "");
	uint32_t user = example_mapping(profile, 0, 1, 0, "[heap]", "");
	uint32_t file = example_mapping(profile, 0, 1, 0, "same", "");
	static const char *const names[] = {"y", "a", "same+0x1", "same+0x1", "same+0x1", "z"};
	static const enum frame_kind kinds[] = {FRAME_USER,   FRAME_USER,       FRAME_USER,
						FRAME_KERNEL, FRAME_UNRESOLVED, FRAME_USER};
	struct calltree *tree;
	uint32_t location, node;
	size_t i = 0;

	(void)state;
	add_leaf(profile, "z", 5);
	location = profile_location(profile, file, 1, NULL, 0);
	example_add(profile, &location, 1, 1, 5, NULL, 0);
	location = example_location(profile, kernel, 1, NULL, "same+0x1");
	example_add(profile, &location, 1, 1, 5, NULL, 0);
	location = example_location(profile, user, 1, NULL, "same+0x1");
	example_add(profile, &location, 1, 1, 5, NULL, 0);
	add_leaf(profile, "a", 5);
	add_leaf(profile, "y", 6);
	tree = make_tree(profile);
	assert_int_equal(tree->node_count, 7);
	for (node = tree->nodes[0].first_child; node != CALLTREE_NONE;
	     node = tree->nodes[node].next_sibling, i++) {
		assert_true(i < 6);
		assert_string_equal(name_of(tree, node), names[i]);
		assert_int_equal(tree->nodes[node].kind, kinds[i]);
		assert_int_equal(tree->nodes[node].parent, 0);
	}
	assert_int_equal(i, 6);
	assert_int_equal(tree->nodes[0].parent, CALLTREE_NONE);
	assert_int_equal(tree->nodes[0].next_sibling, CALLTREE_NONE);
	calltree_free(tree);
	profile_free(profile);
}

static void samples_of_value_0_have_no_node(void **state)
{
	struct profile *profile = empty_profile();
	struct calltree_options positive = options;
	struct calltree *tree;
	struct error error;

	(void)state;
	add_leaf(profile, "a", 0);
	add_leaf(profile, "b", 1);
	add_leaf(profile, "c", -1);
	tree = make_tree(profile);
	assert_int_equal(tree->node_count, 3);
	/* The names of all functions are there. */
	assert_int_equal(tree->name_count, 4);
	assert_int_equal(tree->total, 2);
	assert_int_equal(tree->nodes[0].total, 0);
	calltree_free(tree);
	positive.only_positive = true;
	assert_int_equal(calltree_new(profile, &positive, &tree, &error), 0);
	assert_int_equal(tree->node_count, 2);
	assert_string_equal(name_of(tree, 1), "b");
	calltree_free(tree);
	profile_free(profile);
}

/* A profile has functions of which only one of two names is known, or none. */
static void functions_without_name_are_unresolved(void **state)
{
	struct profile *profile = empty_profile();
	const struct profile_function mangled = {.system_name = profile_string(profile, "_Zf")};
	struct profile_line lines[2] = {{.line = 1}, {.line = 2}};
	struct calltree *tree;
	uint32_t location;

	(void)state;
	lines[0].function = profile_function(profile, &mangled);
	lines[1].function = example_function(profile, "", "/f.c");
	location = profile_location(profile, 0, 0x1000, lines, 2);
	example_add(profile, &location, 1, 1, 1, NULL, 0);
	tree = make_tree(profile);
	assert_int_equal(tree->node_count, 3);
	assert_string_equal(name_of(tree, 1), "0x1000");
	assert_int_equal(tree->nodes[1].kind, FRAME_UNRESOLVED);
	assert_string_equal(name_of(tree, 2), "_Zf");
	assert_int_equal(tree->nodes[2].kind, FRAME_USER);
	assert_int_equal(tree->nodes[2].parent, 1);
	calltree_free(tree);
	profile_free(profile);
}

static void groups_are_values_of_a_label(void **state)
{
	struct profile *profile = example_profile();
	struct calltree_options by_pid = {.sample_type = 1, .group = "pid"};
	struct calltree_options by_cpu = {.sample_type = 1, .group = "cpu"};
	struct calltree *tree;
	struct error error;

	(void)state;
	assert_int_equal(calltree_new(profile, &by_pid, &tree, &error), 0);
	assert_string_equal(name_of(tree, 1), "pid 1234");
	assert_int_equal(tree->nodes[1].kind, FRAME_GROUP);
	assert_int_equal(tree->nodes[1].total, EXAMPLE_CPU);
	assert_int_equal(tree->nodes[1].next_sibling, CALLTREE_NONE);
	calltree_free(tree);
	assert_int_equal(calltree_new(profile, &by_cpu, &tree, &error), 0);
	assert_string_equal(name_of(tree, 1), "(no cpu)");
	assert_int_equal(tree->nodes[1].total, EXAMPLE_CPU);
	calltree_free(tree);
	assert_true(calltree_has_label(profile, "comm"));
	assert_false(calltree_has_label(profile, ""));
	profile_free(profile);
}

/* A subtree is skipped, or not. */
static void nodes_are_visited_in_order(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t a = example_location(profile, 0, 1, NULL, "a");
	uint32_t b = example_location(profile, 0, 2, NULL, "b");
	struct calltree *tree;
	uint32_t node;

	(void)state;
	example_add(profile, (uint32_t[]){b, a}, 2, 1, 2, NULL, 0);
	example_add(profile, (uint32_t[]){a, b}, 2, 1, 1, NULL, 0);
	tree = make_tree(profile);
	node = calltree_next(tree, 0, false);
	assert_string_equal(name_of(tree, node), "a");
	assert_string_equal(name_of(tree, calltree_next(tree, node, true)), "b");
	node = calltree_next(tree, node, false);
	assert_string_equal(name_of(tree, node), "b");
	assert_int_equal(tree->nodes[node].self, 2);
	node = calltree_next(tree, node, false);
	assert_int_equal(tree->nodes[node].self, 0);
	assert_int_equal(tree->nodes[node].total, 1);
	assert_int_equal(calltree_next(tree, node, true), CALLTREE_NONE);
	node = calltree_next(tree, node, false);
	assert_int_equal(calltree_next(tree, node, false), CALLTREE_NONE);
	assert_int_equal(calltree_next(tree, 0, true), CALLTREE_NONE);
	calltree_free(tree);
	profile_free(profile);
}

/* Functions: by flat, then by cum, then by name; of values below 0, the absolute ones count. */
static void functions_are_sorted(void **state)
{
	static const char *const names[] = {"low", "leaf", "caller", "a", "b"};
	struct profile *profile = empty_profile();
	uint32_t caller = example_location(profile, 0, 1, NULL, "caller");
	uint32_t leaf = example_location(profile, 0, 2, NULL, "leaf");
	struct calltree_function *functions;
	struct calltree *tree;
	size_t count;

	(void)state;
	add_leaf(profile, "b", 5);
	add_leaf(profile, "a", 5);
	add_leaf(profile, "low", -7);
	example_add(profile, (uint32_t[]){leaf, caller}, 2, 1, 6, NULL, 0);
	example_add(profile, &caller, 1, 1, 5, NULL, 0);
	tree = make_tree(profile);
	functions = calltree_functions(tree, 0, &count);
	assert_int_equal(count, 5);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(tree->names[functions[i].name], names[i]);
	assert_int_equal(functions[2].flat, 5);
	assert_int_equal(functions[2].cum, 11);
	free(functions);
	calltree_free(tree);
	profile_free(profile);
}

static void sums_saturate(void **state)
{
	(void)state;
	assert_int_equal(add_saturated(2, -3), -1);
	assert_int_equal(add_saturated(INT64_MAX, 1), INT64_MAX);
	assert_int_equal(add_saturated(INT64_MIN, -1), INT64_MIN);
	assert_int_equal(magnitude(-5), 5);
	assert_int_equal(magnitude(5), 5);
	assert_int_equal(magnitude(INT64_MIN), INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_of_many_groups_are_found),
		cmocka_unit_test(many_functions_are_distinct),
		cmocka_unit_test(many_callers_are_distinct),
		cmocka_unit_test(siblings_are_sorted),
		cmocka_unit_test(samples_of_value_0_have_no_node),
		cmocka_unit_test(functions_without_name_are_unresolved),
		cmocka_unit_test(groups_are_values_of_a_label),
		cmocka_unit_test(nodes_are_visited_in_order),
		cmocka_unit_test(functions_are_sorted),
		cmocka_unit_test(sums_saturate),
	};

	return cmocka_run_group_tests_name("call_tree", tests, NULL, NULL);
}
