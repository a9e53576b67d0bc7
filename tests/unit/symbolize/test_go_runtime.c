// SPDX-License-Identifier: GPL-2.0
/* Functions of Go's runtime at the leaf end of stacks are left out. */
#include "symbolize/go_runtime.h"

#include <string.h>

#include "debuginfo/kernel_image.h"
#include "sample_profile.h"
#include "unit.h"

#define KERNEL UINT64_C(0xffffffff81000000)

/* The functions of a stack, leaf first, with inlined ones, separated by spaces. */
static const char *functions_of(const struct profile *profile, size_t sample)
{
	const uint32_t stack = profile->samples.items[sample].stack;
	const uint32_t *locations = profile_stack_locations(profile, stack);
	static char text[256];

	*text = '\0';
	for (uint32_t i = 0; i < profile->stacks.items[stack].count; i++) {
		const struct profile_location *location = &profile->locations.items[locations[i]];
		const struct profile_line *lines = profile_lines(profile, location);

		if (!location->line_count)
			strcat(text, " ?");
		for (uint32_t j = 0; j < location->line_count; j++) {
			strcat(text, " ");
			strcat(text,
			       profile_text(profile,
					    profile->functions.items[lines[j].function].name));
		}
	}
	return text;
}

struct frames {
	struct profile *profile;
	uint32_t kernel, vdso, malloc, heap, helper, swiss, map, work, inlined, nameless, main,
		goexit;
};

static struct frames new_frames(void)
{
	struct profile *profile = empty_profile();
	uint32_t app = example_mapping(profile, 0, UINT64_MAX, 0, "/bin/app", "aabb");
	uint32_t kernel = example_mapping(profile, KERNEL, UINT64_MAX, 0, KERNEL_MAPPING, "cc");
	uint32_t vdso = example_mapping(profile, 0, UINT64_MAX, 0, "[vdso]", "dd");

	return (struct frames){
		.profile = profile,
		.kernel = example_location(profile, kernel, KERNEL + 1, NULL, "page_fault"),
		.vdso = example_location(profile, vdso, 1, NULL, "clock_gettime"),
		.malloc = example_location(profile, app, 1, NULL, "runtime.mallocgc"),
		.heap = example_location(profile, app, 2, "runtime.add", "runtime.(*mheap).alloc"),
		.helper = example_location(profile, app, 10, "internal/abi.NoEscape",
					   "runtime.mapassign"),
		.swiss = example_location(profile, app, 3, NULL, "internal/runtime/maps.(*Map).x"),
		.map = example_location(profile, app, 4, NULL, "runtime/internal/atomic.Load"),
		.work = example_location(profile, app, 5, NULL, "main.work"),
		.inlined = example_location(profile, app, 6, "runtime.getg", "main.lock"),
		.nameless = example_location(profile, app, 7, NULL, NULL),
		.main = example_location(profile, app, 8, NULL, "runtime.main"),
		.goexit = example_location(profile, app, 9, NULL, "runtime.goexit"),
	};
}

static void expect(const struct frames *frames, const uint32_t *stack, size_t depth,
		   const char *functions)
{
	example_add(frames->profile, stack, depth, 5, 50, NULL, 0);
	assert_int_equal(go_runtime_hide(frames->profile), 0);
	assert_int_equal(frames->profile->samples.count, 1);
	assert_string_equal(functions_of(frames->profile, 0), functions);
	assert_int_equal(profile_values(frames->profile, 0)[0], 5);
	assert_int_equal(profile_values(frames->profile, 0)[1], 50);
	profile_free(frames->profile);
}
#define EXPECT(functions, ...)                                                                     \
	do {                                                                                       \
		const struct frames f = new_frames();                                              \
		const uint32_t stack[] = {__VA_ARGS__};                                            \
		expect(&f, stack, sizeof(stack) / sizeof(stack[0]), functions);                    \
	} while (0)

static void the_runtime_is_hidden_at_the_leaf(void **state)
{
	(void)state;
	EXPECT(" main.work runtime.main runtime.goexit", f.heap, f.malloc, f.swiss, f.map, f.work,
	       f.main, f.goexit);
	/* Elsewhere, it is not. */
	EXPECT(" main.work runtime.mallocgc main.work runtime.goexit", f.work, f.malloc, f.work,
	       f.goexit);
	EXPECT(" ? runtime.mallocgc main.work", f.nameless, f.malloc, f.work);
}

static void inlined_functions_are_hidden(void **state)
{
	(void)state;
	EXPECT(" main.lock main.work", f.malloc, f.inlined, f.work);
	EXPECT(" main.lock main.work", f.inlined, f.work);
	/* Functions of other packages, too, that are inlined in the runtime. */
	EXPECT(" main.work", f.helper, f.malloc, f.work);
	EXPECT(" main.work runtime.getg main.lock", f.work, f.inlined);
}

static void callees_outside_of_go_stay(void **state)
{
	(void)state;
	EXPECT(" page_fault main.work runtime.goexit", f.kernel, f.malloc, f.work, f.goexit);
	EXPECT(" clock_gettime main.work", f.vdso, f.malloc, f.work);
	EXPECT(" page_fault main.lock", f.kernel, f.inlined);
}

/* The scheduler and the garbage collector have no other function. */
static void the_runtime_alone_stays(void **state)
{
	(void)state;
	EXPECT(" runtime.mallocgc runtime.main runtime.goexit", f.malloc, f.main, f.goexit);
	EXPECT(" page_fault runtime.main", f.kernel, f.main);
	EXPECT(" page_fault", f.kernel);
}

static void equal_stacks_and_their_labels_are_merged(void **state)
{
	const struct frames f = new_frames();
	const uint32_t label = example_label(f.profile, "comm", "app");

	(void)state;
	example_add(f.profile, (uint32_t[]){f.malloc, f.work}, 2, 1, 10, &label, 1);
	example_add(f.profile, (uint32_t[]){f.swiss, f.work}, 2, 2, 20, &label, 1);
	example_add(f.profile, &f.work, 1, 4, 40, NULL, 0);
	profile_comment(f.profile, "first");
	assert_int_equal(go_runtime_hide(f.profile), 0);
	assert_int_equal(go_runtime_hide(f.profile), 0);
	assert_int_equal(f.profile->samples.count, 2);
	assert_int_equal(profile_values(f.profile, 0)[1], 30);
	assert_int_equal(profile_values(f.profile, 1)[1], 40);
	assert_int_equal(f.profile->label_sets.items[f.profile->samples.items[0].label_set].count,
			 1);
	/* One comment says it. */
	assert_int_equal(f.profile->comments.count, 2);
	assert_string_equal(profile_text(f.profile, f.profile->comments.items[0]), "first");
	assert_string_equal(profile_text(f.profile, f.profile->default_type), "cpu");
	profile_free(f.profile);
}

static void names_of_the_runtime(void **state)
{
	static const char *const own[] = {"runtime.mallocgc",     "runtime.(*mheap).alloc",
					  "runtime.memmove.abi0", "internal/runtime/atomic.Load",
					  "aeshashbody",          "gcWriteBarrier"};
	static const char *const others[] = {"",
					     "main.main",
					     "runtime",
					     "runtimes.x",
					     "runtime_x",
					     "runtime/pprof.Do",
					     "example.com/runtime.x",
					     "runtime/debug.x"};

	(void)state;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		assert_true(go_runtime_has(own[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(go_runtime_has(others[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_runtime_is_hidden_at_the_leaf),
		cmocka_unit_test(inlined_functions_are_hidden),
		cmocka_unit_test(callees_outside_of_go_stay),
		cmocka_unit_test(the_runtime_alone_stays),
		cmocka_unit_test(equal_stacks_and_their_labels_are_merged),
		cmocka_unit_test(names_of_the_runtime),
	};

	return cmocka_run_group_tests_name("go_runtime", tests, NULL, NULL);
}
