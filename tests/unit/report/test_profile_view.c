// SPDX-License-Identifier: GPL-2.0
/* What is shown of a profile: samples, frames with inlined functions, and names. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"
#include "report/folded.h"
#include "report/profile_view.h"
#include "sample_profile.h"

static void expect_folded(const struct profile_view *view, const char *expected)
{
	struct profile *profile = example_profile(), *shown;
	struct profile_view_matches matches;
	struct error error;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(profile_view_make(profile, view, &shown, &matches), 0);
	assert_int_equal(print_folded(shown, 0, out, &error), 0);
	fclose(out);
	assert_string_equal(text, expected);
	/* The head and the comments are still there. */
	assert_int_equal(shown->duration_ns, profile->duration_ns);
	assert_int_equal(shown->comments.count, profile->comments.count);
	free(text);
	profile_free(profile);
	profile_free(shown);
}

static void samples_and_frames_are_chosen(void **state)
{
	regex_t fib, inner, file;
	struct profile_view view = {0};

	(void)state;
	assert_true(profile_view_is_whole(&view));
	assert_int_equal(regcomp(&fib, "^fib$", REG_EXTENDED | REG_NOSUB), 0);
	assert_int_equal(regcomp(&inner, "inner|^fib", REG_EXTENDED | REG_NOSUB), 0);
	assert_int_equal(regcomp(&file, "libx", REG_EXTENDED | REG_NOSUB), 0);
	view.focus = &fib;
	assert_false(profile_view_is_whole(&view));
	expect_folded(&view, "main;fib;fib;fib 3\n");
	view = (struct profile_view){.ignore = &fib, .focus = &inner};
	expect_folded(&view, "main;outer;inner 2\n");
	/* One of the functions at an address is hidden, and equal stacks are one sample. */
	view = (struct profile_view){.hide = &inner, .ignore = &file};
	expect_folded(&view, "main 3\nmain;read;entry;vfs_read 4\nmain;outer 3\n");
	/* A file without functions. */
	view = (struct profile_view){.show = &file};
	expect_folded(&view, "libx.so+0x1234 1\n");
	regfree(&fib);
	regfree(&inner);
	regfree(&file);
}

/* Kernel functions that enable interrupts, at the leaf end, but not all of a stack. */
static void interrupts_off_are_the_callers(void **state)
{
	const struct profile_view view = {.folds_irqs_off = true};
	struct profile *profile = empty_profile(), *shown;
	uint32_t kernel = example_mapping(profile, 0x1000, 0x9000, 0, "[kernel.kallsyms]", NULL);
	uint32_t unlock =
		example_location(profile, kernel, 0x1000, NULL, "_raw_spin_unlock_irqrestore");
	uint32_t finish =
		example_location(profile, kernel, 0x1001, NULL, "finish_task_switch.isra.0");
	uint32_t other = example_location(profile, kernel, 0x1002, NULL, "finish_task_switcher");
	uint32_t user = example_location(profile, 0, 0x1003, NULL, "finish_task_switch");
	struct profile_view_matches matches;
	struct error error;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_false(profile_view_is_whole(&view));
	example_sample(profile, (uint32_t[]){unlock, finish, other, user}, 4, 1, "a");
	example_sample(profile, (uint32_t[]){other, unlock}, 2, 2, "a");
	example_sample(profile, (uint32_t[]){unlock}, 1, 4, "a");
	example_sample(profile, (uint32_t[]){user, other}, 2, 8, "a");
	assert_int_equal(profile_view_make(profile, &view, &shown, &matches), 0);
	assert_int_equal(print_folded(shown, 0, out, &error), 0);
	fclose(out);
	assert_string_equal(text, "finish_task_switcher;finish_task_switch 8\n"
				  "_raw_spin_unlock_irqrestore 4\n"
				  "_raw_spin_unlock_irqrestore;finish_task_switcher 2\n"
				  "finish_task_switch;finish_task_switcher 1\n");
	free(text);
	profile_free(profile);
	profile_free(shown);
}

static void frames_have_the_names_of_keys(void **state)
{
	struct profile_view view = {.keys = {"comm"}, .key_count = 1};

	(void)state;
	expect_folded(&view, "app 6\n" EXAMPLE_COMM " 5\n");
	view = (struct profile_view){.keys = {"none"}, .key_count = 1};
	expect_folded(&view, "- 11\n");
	view = (struct profile_view){.keys = {"srcfile"}, .key_count = 1};
	expect_folded(&view, "app.c;app.c 1\napp.c;app.c;app.c;app.c 7\napp.c;app.c;app.h 2\n"
			     "app.c;libx.so+0x1234 1\n");
	view = (struct profile_view){.keys = {"srcline"}, .key_count = 1};
	expect_folded(&view, "app.c:42;app.c:42 1\napp.c:42;app.c:42;app.c:42;app.c:42 7\n"
			     "app.c:42;app.c:42;app.h:7 2\napp.c:42;libx.so+0x1234 1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_and_frames_are_chosen),
		cmocka_unit_test(interrupts_off_are_the_callers),
		cmocka_unit_test(frames_have_the_names_of_keys),
	};

	return cmocka_run_group_tests_name("profile_view", tests, NULL, NULL);
}
