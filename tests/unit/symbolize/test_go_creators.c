// SPDX-License-Identifier: GPL-2.0
/* The label of the function that has created a goroutine: a location, its text, and back. */
#include "symbolize/go_creators.h"

#include <stdio.h>
#include <string.h>

#include "pprof/labels.h"
#include "pprof/truncation.h"
#include "sample_profile.h"
#include "symbolize/normalize.h"
#include "unit.h"

static uint32_t add_labeled(struct profile *profile, uint32_t location,
			    const struct label_value *value)
{
	const uint32_t set = labels_intern(profile, value, 1);
	const uint32_t label = profile_set_labels(profile, set)[0];

	example_add(profile, &location, 1, 1, 1, &label, 1);
	return label;
}

/* Adds a sample at a location whose creator is another one. */
static void add_created(struct profile *profile, uint32_t location, uint32_t creator)
{
	struct label_value value;

	label_set_go_creator(&value, creator);
	add_labeled(profile, location, &value);
}

static void add_text(struct profile *profile, uint32_t location, const char *text)
{
	const struct label_value value = {.key = LABEL_GO_CREATOR_KEY, .text = text};

	add_labeled(profile, location, &value);
}

/* The text of the only label of a sample. */
static const char *text_of(const struct profile *profile, size_t sample)
{
	const uint32_t set = profile->samples.items[sample].label_set;

	assert_int_equal(profile->label_sets.items[set].count, 1);
	return profile_text(profile,
			    profile->labels.items[profile_set_labels(profile, set)[0]].text);
}

static void normalize(struct profile *profile)
{
	struct truncation_counts counts;

	assert_int_equal(normalize_profile(profile, false, &counts), 0);
}

static void creators_have_the_name_of_their_function(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t app = example_mapping(profile, 0, UINT64_MAX, 0, "/bin/app", "aabb");
	uint32_t leaf = example_location(profile, app, 0x1000, NULL, "main.work");
	uint32_t creator = example_location(profile, app, 0x2000, NULL, "main.main");
	uint32_t nameless = example_location(profile, app, 0x3000, NULL, NULL);
	uint32_t inlined = example_location(profile, app, 0x4000, "main.start", "main.serve");

	(void)state;
	add_created(profile, leaf, creator);
	add_created(profile, leaf, nameless);
	add_created(profile, leaf, inlined);
	normalize(profile);
	assert_string_equal(text_of(profile, 0), "main.main");
	assert_string_equal(text_of(profile, 1), "/bin/app+0x3000");
	/* The function of the machine code, as in Go. */
	assert_string_equal(text_of(profile, 2), "main.serve");
	/* A creator is no frame. */
	for (size_t i = 1; i < profile->locations.count; i++)
		assert_int_equal(profile->locations.items[i].address, 0x1000);
	profile_free(profile);
}

/* Two creators in one function are one. */
static void equal_creators_are_merged(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t app = example_mapping(profile, 0, UINT64_MAX, 0, "/bin/app", "aabb");
	uint32_t leaf = example_location(profile, app, 0x1000, NULL, "main.work");

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		add_created(profile, leaf,
			    example_location(profile, app, 0x2000 + i, NULL, "main.main"));
	normalize(profile);
	assert_int_equal(profile->samples.count, 1);
	assert_int_equal(profile_values(profile, 0)[0], 3);
	profile_free(profile);
}

static void places_become_locations(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t app = example_mapping(profile, 0x1000, 0x5000, 0, "/bin/a+0x1", "aabb");
	uint32_t leaf = example_location(profile, app, 0x1000, NULL, NULL);
	const struct profile_label *label;
	uint32_t located = 0;

	(void)state;
	add_text(profile, leaf, "/bin/a+0x1+0x2000");
	assert_int_equal(go_creators_locate(profile), 0);
	for (uint32_t i = 1; i < profile->labels.count; i++) {
		if (!label_is_go_creator_location(profile, i))
			continue;
		label = &profile->labels.items[i];
		assert_int_equal(profile->locations.items[label->number].address, 0x2000);
		assert_int_equal(profile->locations.items[label->number].mapping, app);
		located++;
	}
	assert_int_equal(located, 1);
	/* Without a symbol, the text is as before. */
	normalize(profile);
	assert_string_equal(text_of(profile, 0), "/bin/a+0x1+0x2000");
	profile_free(profile);
}

static void other_texts_stay(void **state)
{
	static const char *const texts[] = {
		"main.main",         "",
		"/bin/app",          "/bin/app+",
		"/bin/app+0x",       "/bin/app+0xg",
		"/bin/app+0x 2000",  "/bin/app+2000",
		"/bin/other+0x2000", "/bin/app+0x10000000000002000",
		"/bin/app+0xfff",    "/bin/app+0x5000",
		"/bin/two+0x2000",
	};
	struct profile *profile = empty_profile();
	uint32_t app = example_mapping(profile, 0x1000, 0x5000, 0, "/bin/app", "aabb");
	uint32_t leaf = example_location(profile, app, 0x1000, NULL, NULL);

	(void)state;
	example_mapping(profile, 0x1000, 0x5000, 0, "/bin/two", "aabb");
	example_mapping(profile, 0x1000, 0x5000, 0, "/bin/two", "ccdd");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		add_text(profile, leaf, texts[i]);
	assert_int_equal(go_creators_locate(profile), 0);
	for (uint32_t i = 1; i < profile->labels.count; i++)
		assert_false(label_is_go_creator_location(profile, i));
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(creators_have_the_name_of_their_function),
		cmocka_unit_test(equal_creators_are_merged),
		cmocka_unit_test(places_become_locations),
		cmocka_unit_test(other_texts_stay),
	};

	return cmocka_run_group_tests_name("go_creators", tests, NULL, NULL);
}
