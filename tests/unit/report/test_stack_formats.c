// SPDX-License-Identifier: GPL-2.0
/* Profiles in the formats of other tools: folded stacks, and speedscope's. */
#include "unit.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "failing_malloc.h"
#include "lib/error.h"
#include "report/folded.h"
#include "report/speedscope.h"
#include "sample_profile.h"

typedef int print_fn(const struct profile *profile, size_t type, FILE *out);

/* Returns what was printed, which the caller frees. */
static char *print(print_fn *function, const struct profile *profile, size_t type)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(function(profile, type, out), 0);
	fclose(out);
	return text;
}

static int folded(const struct profile *profile, size_t type, FILE *out)
{
	struct error error = {""};
	int err = print_folded(profile, type, out, &error);

	assert_int_equal(!err, !*error.text);
	return err;
}

static void assert_prints(print_fn *function, struct profile *profile, size_t type,
			  const char *expected)
{
	char *text = print(function, profile, type);

	assert_string_equal(text, expected);
	free(text);
	profile_free(profile);
}

/* A profile with a sample of one frame. */
static struct profile *profile_of_name(const char *name)
{
	struct profile *profile = empty_profile();
	uint32_t location = example_location(profile, 0, 0x10, NULL, name);

	example_add(profile, &location, 1, 1, 1, NULL, 0);
	return profile;
}

static void folded_stacks_have_a_line_each(void **state)
{
	(void)state;
	assert_prints(folded, example_profile(), PROFILE_SAMPLES,
		      "main;read;entry;vfs_read 4\n"
		      "main;fib;fib;fib 3\n"
		      "main;outer 1\n"
		      "main;outer;inner 2\n"
		      "main;libx.so+0x1234 1\n");
}

/* Equal stacks with different labels, a stack within another one, and no stack at all. */
static void folded_lines_add_up(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t f = example_location(profile, 0, 0x10, NULL, "f"),
		 g = example_location(profile, 0, 0x20, NULL, "g"), stack[] = {f, g},
		 same = example_location(profile, 0, 0x14, NULL, "f");
	const uint32_t label = profile_label(
		profile,
		&(struct profile_label){.key = profile_string(profile, "tid"), .number = 7});

	(void)state;
	example_add(profile, stack, 2, 1, 10, NULL, 0);
	example_add(profile, stack, 2, 1, 20, &label, 1);
	stack[0] = same;
	example_add(profile, stack, 2, 1, 30, NULL, 0);
	example_add(profile, stack + 1, 1, 1, 5, NULL, 0);
	example_add(profile, NULL, 0, 1, 7, NULL, 0);
	example_add(profile, NULL, 0, 1, 8, &label, 1);
	assert_prints(folded, profile, PROFILE_CPU, "[no frames] 15\ng 5\ng;f 60\n");
}

static void folded_names_have_no_separators(void **state)
{
	(void)state;
	assert_prints(folded, profile_of_name("a;b\nc\rd \xc3\xa9\x1b[m"), PROFILE_CPU,
		      "a:b c d \xc3\xa9\\x1b[m 1\n");
}

/* A function without a name, and a location without a file. */
static struct profile *nameless_profile(void)
{
	struct profile *profile = empty_profile();
	uint32_t app = example_mapping(profile, 0, 0x1000, 0, "/bin/app", NULL);
	uint32_t linked = profile_function(
		profile, &(struct profile_function){.system_name = profile_string(profile, "_Zf"),
						    .start_line = 12});
	const struct profile_line lines[] = {{.function = linked}, {.function = 0}};
	uint32_t locations[] = {
		profile_location(profile, app, 0x20, lines, 2),
		profile_location(profile, 0, 0x30, NULL, 0),
	};

	example_add(profile, locations, 2, 1, 1, NULL, 0);
	return profile;
}

static void frames_without_a_name_have_an_address(void **state)
{
	(void)state;
	assert_prints(folded, nameless_profile(), PROFILE_CPU, "0x30;app+0x20;_Zf 1\n");
	assert_prints(print_speedscope, nameless_profile(), PROFILE_CPU,
		      "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
		      "\"exporter\":\"stackbeat\",\n"
		      "\"shared\":{\"frames\":[\n"
		      "{\"name\":\"_Zf\",\"line\":12},\n"
		      "{\"name\":\"app+0x20\"},\n"
		      "{\"name\":\"0x30\"}]},\n"
		      "\"profiles\":[{\"type\":\"sampled\",\"name\":\"cpu\","
		      "\"unit\":\"nanoseconds\",\n"
		      "\"samples\":[\n[2,1,0]],\n"
		      "\"weights\":[1],\n"
		      "\"startValue\":0,\"endValue\":1}]}\n");
}

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value;

	assert_true(json_object_object_get_ex(object, key, &value));
	return value;
}

static const char *text_of(struct json_object *object, const char *key)
{
	return json_object_get_string(member(object, key));
}

static void speedscope_has_the_stacks(void **state)
{
	static const char *const stacks[] = {"main fib fib fib ", "main outer ",
					     "main outer inner ", "main read entry vfs_read ",
					     "main libx.so+0x1234 "};
	static const int64_t weights[] = {30, 10, 20, 40, 10};
	struct profile *profile = example_profile();
	char *text = print(print_speedscope, profile, PROFILE_CPU);
	struct json_object *document = json_tokener_parse(text), *frames, *shown;

	(void)state;
	frames = member(member(document, "shared"), "frames");
	/* Each function once, and the location without one. */
	assert_int_equal(json_object_array_length(frames), 8);
	shown = json_object_array_get_idx(member(document, "profiles"), 0);
	assert_string_equal(text_of(shown, "type"), "sampled");
	assert_int_equal(json_object_get_int64(member(shown, "endValue")), EXAMPLE_CPU);
	assert_int_equal(json_object_array_length(member(shown, "samples")), 5);
	for (size_t i = 0; i < 5; i++) {
		struct json_object *stack = json_object_array_get_idx(member(shown, "samples"), i);
		struct json_object *weight = json_object_array_get_idx(member(shown, "weights"), i);
		char names[128] = "";

		for (size_t j = 0; j < json_object_array_length(stack); j++) {
			size_t frame =
				(size_t)json_object_get_int64(json_object_array_get_idx(stack, j));

			strcat(names, text_of(json_object_array_get_idx(frames, frame), "name"));
			strcat(names, " ");
		}
		assert_string_equal(names, stacks[i]);
		assert_int_equal(json_object_get_int64(weight), weights[i] * MS);
	}
	json_object_put(document);
	free(text);
	profile_free(profile);
}

static void speedscope_escapes_names(void **state)
{
	/* U+2028, U+009B and U+202E, which have a meaning for terminals. */
	static const char name[] = "</script>\"\\\n\x1b\xe2\x80\xa8\xc2\x9b\xe2\x80\xae";
	struct profile *profile = profile_of_name(name);
	char *text = print(print_speedscope, profile, PROFILE_SAMPLES);
	struct json_object *document = json_tokener_parse(text), *frame;

	(void)state;
	assert_non_null(strstr(text, "\"unit\":\"none\""));
	assert_non_null(strstr(text, "\\n\\u001b\\u2028\\u009b\\u202e\""));
	frame = json_object_array_get_idx(member(member(document, "shared"), "frames"), 0);
	assert_string_equal(text_of(frame, "name"), name);
	assert_string_equal(text_of(frame, "file"), "/src/app.c");
	json_object_put(document);
	free(text);
	profile_free(profile);
}

/* Of a difference of profiles. */
static void speedscope_has_positive_values_alone(void **state)
{
	struct profile *profile = profile_of_name("f");
	uint32_t location = example_location(profile, 0, 0x20, NULL, "g");
	char *text;

	(void)state;
	example_add(profile, &location, 1, -1, 0, NULL, 0);
	text = print(print_speedscope, profile, PROFILE_SAMPLES);
	assert_non_null(strstr(text, "\"samples\":[\n[0]],\n\"weights\":[1],\n"));
	free(text);
	text = print(print_speedscope, profile, PROFILE_CPU);
	assert_non_null(strstr(text, "\"weights\":[1],\n"));
	free(text);
	text = print(folded, profile, PROFILE_SAMPLES);
	assert_string_equal(text, "f 1\ng -1\n");
	free(text);
	profile_free(profile);
}

static void profile_may_be_empty(void **state)
{
	struct profile *profile = empty_profile();
	char *text = print(print_speedscope, profile, PROFILE_CPU);

	(void)state;
	assert_non_null(strstr(text, "\"samples\":[\n],\n\"weights\":[],\n\"startValue\":0,"
				     "\"endValue\":0}]}\n"));
	free(text);
	assert_prints(folded, profile, PROFILE_CPU, "");
}

static void lack_of_memory_is_an_error(void **state)
{
	static print_fn *const functions[] = {folded, print_speedscope};
	struct profile *profiles[] = {example_profile(), profile_of_name("f")};
	FILE *out = fopen("/dev/null", "w");

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		unsigned long failing = 1;
		int err;

		/* The stream has a buffer. */
		fputc(' ', out);
		do {
			fail_malloc(failing++, false);
			err = functions[i / 2](profiles[i % 2], PROFILE_CPU, out);
			fail_malloc(0, false);
			assert_true(!err || err == -ENOMEM);
		} while (err);
		assert_true(failing > 2);
	}
	fclose(out);
	profile_free(profiles[0]);
	profile_free(profiles[1]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(folded_stacks_have_a_line_each),
		cmocka_unit_test(folded_lines_add_up),
		cmocka_unit_test(folded_names_have_no_separators),
		cmocka_unit_test(frames_without_a_name_have_an_address),
		cmocka_unit_test(speedscope_has_the_stacks),
		cmocka_unit_test(speedscope_escapes_names),
		cmocka_unit_test(speedscope_has_positive_values_alone),
		cmocka_unit_test(profile_may_be_empty),
		cmocka_unit_test(lack_of_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
