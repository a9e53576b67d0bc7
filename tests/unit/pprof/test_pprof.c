// SPDX-License-Identifier: GPL-2.0
/* The reader reads profiles of the builder, and refuses invalid ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <zlib.h>

#include "pprof/gzip.h"
#include "pprof/pprof_reader.h"
#include "sample_profile.h"
#include "scratch.h"

#define MUTATIONS 5000
#define LARGE_STACKS 100000
#define LARGE_DEPTH 30

static struct pprof_profile *write_and_read(void **state, struct pprof_builder *builder)
{
	char *path = scratch_file(state, "profile");
	struct pprof_profile *profile;
	struct error error = {""};
	uint64_t size = 0;

	assert_int_equal(pprof_write(builder, path, &size, &error), 0);
	assert_true(size > 0);
	profile = pprof_read(path, &error);
	assert_string_equal(error.text, "");
	assert_non_null(profile);
	pprof_free(builder);
	free(path);
	return profile;
}

static void assert_text(const struct pprof_profile *profile, int64_t index, const char *expected)
{
	assert_string_equal(pprof_string_at(profile, index), expected);
}

static void head_is_preserved(void **state)
{
	struct pprof_profile *profile = write_and_read(state, example_profile());
	const Perftools__Profiles__Profile *message = profile->message;

	assert_int_equal(message->n_sample_type, 2);
	assert_text(profile, message->sample_type[0]->type, "samples");
	assert_text(profile, message->sample_type[0]->unit, "count");
	assert_text(profile, message->sample_type[1]->type, "cpu");
	assert_text(profile, message->sample_type[1]->unit, "nanoseconds");
	assert_text(profile, message->default_sample_type, "cpu");
	assert_int_equal(profile->sample_type, 1);
	assert_text(profile, message->period_type->type, "cpu");
	assert_text(profile, message->period_type->unit, "nanoseconds");
	assert_int_equal(message->period, 10 * MS);
	assert_int_equal(message->time_nanos, 1700000000000000000);
	assert_int_equal(message->duration_nanos, 1000 * MS);
	assert_int_equal(message->n_comment, 1);
	assert_text(profile, message->comment[0], "11 samples");
	assert_text(profile, 0, "");
	pprof_profile_free(profile);
}

static void samples_are_preserved(void **state)
{
	struct pprof_profile *profile = write_and_read(state, example_profile());
	const Perftools__Profiles__Profile *message = profile->message;
	const Perftools__Profiles__Sample *sample = message->sample[2];
	const Perftools__Profiles__Location *leaf;
	const Perftools__Profiles__Function *function;

	assert_int_equal(message->n_sample, 5);
	assert_int_equal(sample->value[0], 2);
	assert_int_equal(sample->value[1], 20 * MS);
	assert_int_equal(sample->n_location_id, 2);
	leaf = message->location[sample->location_id[0] - 1];
	assert_int_equal(leaf->address, 0x400304);
	assert_int_equal(leaf->n_line, 2);
	assert_int_equal(leaf->line[0]->line, 7);
	function = message->function[leaf->line[0]->function_id - 1];
	assert_text(profile, function->name, "inner");
	assert_text(profile, function->filename, "/src/app.h");
	function = message->function[leaf->line[1]->function_id - 1];
	assert_text(profile, function->name, "outer");
	assert_int_equal(sample->n_label, 2);
	assert_text(profile, sample->label[0]->key, "comm");
	assert_text(profile, sample->label[0]->str, "app");
	assert_int_equal(sample->label[1]->num, 1234);
	assert_text(profile, sample->label[1]->num_unit, "id");
	pprof_profile_free(profile);
}

/* The reader renumbers ids, so this test unpacks the file with protobuf alone. */
static void ids_have_no_gaps(void **state)
{
	struct pprof_builder *builder = example_profile();
	char *path = scratch_file(state, "profile");
	Perftools__Profiles__Profile *message;
	unsigned char bytes[1 << 16];
	size_t size, i;
	void *plain;
	int fd;

	assert_int_equal(pprof_write(builder, path, NULL, NULL), 0);
	fd = open(path, O_RDONLY);
	size = read(fd, bytes, sizeof(bytes));
	close(fd);
	assert_true(gzip_detect(bytes, size));
	assert_int_equal(gzip_expand(bytes, size, 1 << 20, "", &plain, &size, NULL), 0);
	message = perftools__profiles__profile__unpack(NULL, size, plain);
	assert_non_null(message);
	assert_int_equal(message->n_mapping, 3);
	assert_int_equal(message->n_location, 9);
	assert_int_equal(message->n_function, 7);
	for (i = 0; i < message->n_mapping; i++)
		assert_int_equal(message->mapping[i]->id, i + 1);
	for (i = 0; i < message->n_location; i++)
		assert_int_equal(message->location[i]->id, i + 1);
	for (i = 0; i < message->n_function; i++)
		assert_int_equal(message->function[i]->id, i + 1);
	perftools__profiles__profile__free_unpacked(message, NULL);
	pprof_free(builder);
	free(plain);
	free(path);
}

static void equal_entries_are_merged(void **state)
{
	struct pprof_builder *builder = pprof_new();
	struct pprof_mapping mapping = {1, 2, 3, "file", "id", 0};
	struct pprof_line line;
	uint32_t text, function, location;

	(void)state;
	text = pprof_string(builder, "text");
	assert_int_not_equal(text, 0);
	assert_int_equal(pprof_string(builder, "text"), text);
	assert_int_not_equal(pprof_string(builder, "other"), text);
	assert_int_equal(pprof_string(builder, ""), 0);
	assert_int_equal(pprof_string(builder, NULL), 0);

	assert_int_equal(pprof_mapping(builder, &mapping), 1);
	assert_int_equal(pprof_mapping(builder, &mapping), 1);
	mapping.build_id = NULL;
	assert_int_equal(pprof_mapping(builder, &mapping), 2);
	mapping.offset++;
	assert_int_equal(pprof_mapping(builder, &mapping), 3);
	mapping.number++;
	assert_int_equal(pprof_mapping(builder, &mapping), 4);

	function = pprof_function(builder, "f", "_f", "f.c", 0);
	assert_int_equal(function, 1);
	assert_int_equal(pprof_function(builder, "f", "_f", "f.c", 0), 1);
	assert_int_equal(pprof_function(builder, "f", "_f", "g.c", 0), 2);

	line = (struct pprof_line){function, 1};
	location = pprof_location(builder, 1, 100, &line, 1);
	assert_int_equal(location, 1);
	assert_int_equal(pprof_location(builder, 1, 100, &line, 1), 1);
	assert_int_equal(pprof_location(builder, 2, 100, &line, 1), 2);
	assert_int_equal(pprof_location(builder, 0, 100, NULL, 0), 3);
	/* The same address in another program. */
	line.function = 2;
	assert_int_equal(pprof_location(builder, 1, 100, &line, 1), 4);
	assert_int_equal(pprof_location(builder, 1, 100, NULL, 0), 5);
	line.line++;
	assert_int_equal(pprof_location(builder, 1, 100, &line, 1), 6);
	pprof_free(builder);
}

static void invalid_utf8_is_replaced(void **state)
{
	static const struct {
		const char *given, *expected;
	} texts[] = {
		{"plain", "plain"},
		{"\xc3\xbc", "\xc3\xbc"},
		{"a\xff"
		 "b",
		 "a\xef\xbf\xbd"
		 "b"},
		{"\xc3", "\xef\xbf\xbd"},
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"}, /* overlong */
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	};
	struct pprof_builder *builder = pprof_new();
	struct pprof_profile *profile;
	uint32_t indices[7];
	size_t i;

	for (i = 0; i < 7; i++)
		indices[i] = pprof_string(builder, texts[i].given);
	profile = write_and_read(state, builder);
	for (i = 0; i < 7; i++)
		assert_text(profile, indices[i], texts[i].expected);
	pprof_profile_free(profile);
}

static void has_functions_only_if_all_are_symbolized(void **state)
{
	struct pprof_builder *builder = pprof_new();
	const struct pprof_mapping files[] = {
		{0, 1, 0, "resolved", NULL, 0},
		{0, 1, 0, "half", NULL, 0},
		{0, 1, 0, "unused", NULL, 0},
		{0, 1, 0, "no lines", NULL, 0},
	};
	const struct pprof_line line = {pprof_function(builder, "f", "f", "f.c", 0), 5};
	const struct pprof_line bare = {pprof_function(builder, "g", "g", NULL, 0), 0};
	const Perftools__Profiles__Mapping *mapping;
	struct pprof_profile *profile;
	uint32_t ids[4];
	size_t i;

	for (i = 0; i < 4; i++)
		ids[i] = pprof_mapping(builder, &files[i]);
	pprof_location(builder, ids[0], 1, &line, 1);
	pprof_location(builder, ids[0], 2, &line, 1);
	pprof_location(builder, ids[1], 1, &line, 1);
	pprof_location(builder, ids[1], 2, NULL, 0);
	pprof_location(builder, ids[3], 1, &line, 1);
	pprof_location(builder, ids[3], 2, &bare, 1);
	profile = write_and_read(state, builder);
	for (i = 0; i < 4; i++) {
		mapping = profile->message->mapping[i];
		assert_int_equal(mapping->has_functions, i == 0 || i == 3);
		assert_int_equal(mapping->has_filenames, i == 0);
		assert_int_equal(mapping->has_line_numbers, i == 0);
		assert_false(mapping->has_inline_frames);
	}
	pprof_profile_free(profile);
}

static void large_profile(void **state)
{
	struct pprof_builder *builder = pprof_new();
	uint32_t stack[LARGE_DEPTH];
	struct pprof_profile *profile;
	size_t i, j;

	for (i = 0; i < LARGE_STACKS; i++) {
		for (j = 0; j < LARGE_DEPTH; j++)
			stack[j] = pprof_location(builder, 0, i * 7 % 5000 + j, NULL, 0);
		/* Stacks repeat; labels distinguish the samples. */
		pprof_sample(builder, stack, LARGE_DEPTH, 1, i,
			     &(struct pprof_label){.key = "number", .number = i}, 1);
	}
	profile = write_and_read(state, builder);
	assert_int_equal(profile->message->n_sample, LARGE_STACKS);
	assert_int_equal(profile->message->n_location, 5000 + LARGE_DEPTH - 1);
	assert_int_equal(profile->message->sample[99]->value[1], 99);
	pprof_profile_free(profile);
}

/* Samples are merged only if all locations and labels are equal. */
static void equal_samples_are_merged(void **state)
{
	struct pprof_builder *builder = pprof_new();
	const uint32_t a = example_location(builder, 0, 1, NULL, "a");
	const uint32_t b = example_location(builder, 0, 2, NULL, "b");
	const struct pprof_label labels[] = {
		{.key = "k", .text = "v"}, {.key = "k", .text = "w"},
		{.key = "l", .text = "v"}, {.key = "k", .number = 1},
		{.key = "k", .number = 2}, {.key = "k", .number = 1, .unit = "v"},
	};
	enum { LABELS = sizeof(labels) / sizeof(labels[0]), SAMPLES = 5 + LABELS };
	struct pprof_profile *profile;

	for (int64_t round = 0; round < 3; round++) {
		pprof_sample(builder, NULL, 0, 1, 1, NULL, 0);
		pprof_sample(builder, (uint32_t[]){a, b}, 2, 1, 10, NULL, 0);
		pprof_sample(builder, (uint32_t[]){b, a}, 2, 1, 100, NULL, 0);
		pprof_sample(builder, &a, 1, 1, 1000, NULL, 0);
		for (size_t i = 0; i < LABELS; i++)
			pprof_sample(builder, &a, 1, 1, 10000 * (int64_t)(i + 1), &labels[i], 1);
		pprof_sample(builder, &a, 1, 1, 7, labels, 2);
	}
	profile = write_and_read(state, builder);
	assert_int_equal(profile->message->n_sample, SAMPLES);
	for (size_t i = 0; i < SAMPLES; i++)
		assert_int_equal(profile->message->sample[i]->value[0], 3);
	assert_int_equal(profile->message->sample[0]->value[1], 3);
	assert_int_equal(profile->message->sample[2]->value[1], 300);
	assert_int_equal(profile->message->sample[2]->n_location_id, 2);
	assert_int_equal(profile->message->sample[2]->location_id[0], b);
	assert_int_equal(profile->message->sample[4]->value[1], 30000);
	assert_int_equal(profile->message->sample[SAMPLES - 1]->n_label, 2);
	pprof_profile_free(profile);
}

static void overflowing_sums_are_not_merged(void **state)
{
	struct pprof_builder *builder = pprof_new();
	struct pprof_profile *profile;

	pprof_sample(builder, NULL, 0, 1, INT64_MAX - 1, NULL, 0);
	pprof_sample(builder, NULL, 0, 1, 1, NULL, 0);
	pprof_sample(builder, NULL, 0, 1, 1, NULL, 0);
	profile = write_and_read(state, builder);
	assert_int_equal(profile->message->n_sample, 2);
	assert_int_equal(profile->message->sample[0]->value[0], 2);
	assert_true(profile->message->sample[0]->value[1] == INT64_MAX);
	assert_int_equal(profile->message->sample[1]->value[1], 1);
	pprof_profile_free(profile);
}

static void write_errors_leave_no_file(void **state)
{
	struct pprof_builder *builder = example_profile();
	char *path = scratch_file(state, "missing/profile");
	struct error error;

	assert_int_equal(pprof_write(builder, path, NULL, &error), -ENOENT);
	assert_int_equal(pprof_write(builder, "/dev/full", NULL, &error), -ENOSPC);
	assert_int_equal(scratch_count(state, 0), 0);
	pprof_free(builder);
	free(path);
}

/* A valid message for tests to damage. The fixture owns its parts. */
struct fixture {
	Perftools__Profiles__Profile message;
	Perftools__Profiles__ValueType type, *types[1];
	Perftools__Profiles__Sample sample, *samples[1];
	Perftools__Profiles__Label label, *labels[1];
	Perftools__Profiles__Mapping mappings[2], *mapping_table[2];
	Perftools__Profiles__Location locations[2], *location_table[2];
	Perftools__Profiles__Line line, *lines[1];
	Perftools__Profiles__Function functions[2], *function_table[2];
	char *strings[3];
	int64_t values[2], comments[1];
	uint64_t location_ids[1];
};

static void fixture_init(struct fixture *fixture)
{
	static char empty[] = "", cpu[] = "cpu", unit[] = "nanoseconds";
	size_t i;

	perftools__profiles__profile__init(&fixture->message);
	perftools__profiles__value_type__init(&fixture->type);
	perftools__profiles__sample__init(&fixture->sample);
	perftools__profiles__label__init(&fixture->label);
	perftools__profiles__line__init(&fixture->line);
	fixture->types[0] = &fixture->type;
	fixture->samples[0] = &fixture->sample;
	fixture->labels[0] = &fixture->label;
	fixture->lines[0] = &fixture->line;
	for (i = 0; i < 2; i++) {
		perftools__profiles__mapping__init(&fixture->mappings[i]);
		perftools__profiles__location__init(&fixture->locations[i]);
		perftools__profiles__function__init(&fixture->functions[i]);
		/* Ids may have gaps, and any order. */
		fixture->mappings[i].id = 9 - i;
		fixture->locations[i].id = 1000000 - i;
		fixture->functions[i].id = UINT64_MAX - i;
		fixture->mapping_table[i] = &fixture->mappings[i];
		fixture->location_table[i] = &fixture->locations[i];
		fixture->function_table[i] = &fixture->functions[i];
	}
	fixture->strings[0] = empty;
	fixture->strings[1] = cpu;
	fixture->strings[2] = unit;
	fixture->type.type = 1;
	fixture->type.unit = 2;
	fixture->line.function_id = UINT64_MAX - 1;
	fixture->locations[1].mapping_id = 8;
	fixture->locations[1].line = fixture->lines;
	fixture->locations[1].n_line = 1;
	fixture->values[0] = 5;
	fixture->comments[0] = 1;
	fixture->location_ids[0] = 999999;
	fixture->sample.location_id = fixture->location_ids;
	fixture->sample.n_location_id = 1;
	fixture->sample.value = fixture->values;
	fixture->sample.n_value = 1;
	fixture->sample.label = fixture->labels;
	fixture->sample.n_label = 1;
	fixture->message.sample_type = fixture->types;
	fixture->message.n_sample_type = 1;
	fixture->message.sample = fixture->samples;
	fixture->message.n_sample = 1;
	fixture->message.mapping = fixture->mapping_table;
	fixture->message.n_mapping = 2;
	fixture->message.location = fixture->location_table;
	fixture->message.n_location = 2;
	fixture->message.function = fixture->function_table;
	fixture->message.n_function = 2;
	fixture->message.string_table = fixture->strings;
	fixture->message.n_string_table = 3;
	fixture->message.comment = fixture->comments;
	fixture->message.n_comment = 1;
}

static struct pprof_profile *fixture_decode(const struct fixture *fixture, struct error *error)
{
	uint8_t bytes[1024];
	size_t size = perftools__profiles__profile__get_packed_size(&fixture->message);

	assert_true(size <= sizeof(bytes));
	perftools__profiles__profile__pack(&fixture->message, bytes);
	return pprof_decode(bytes, size, "FILE", error);
}

static void ids_are_renumbered(void **state)
{
	const Perftools__Profiles__Profile *message;
	struct pprof_profile *profile;
	struct fixture fixture;
	struct error error;

	(void)state;
	fixture_init(&fixture);
	profile = fixture_decode(&fixture, &error);
	assert_non_null(profile);
	message = profile->message;
	assert_int_equal(message->sample[0]->location_id[0], 2);
	assert_int_equal(message->location[0]->id, 1);
	assert_int_equal(message->location[0]->mapping_id, 0);
	assert_int_equal(message->location[1]->mapping_id, 2);
	assert_int_equal(message->location[1]->line[0]->function_id, 2);
	assert_int_equal(profile->sample_type, 0);
	pprof_profile_free(profile);
}

static void assert_refused(const struct fixture *fixture, const char *reason)
{
	char expected[256];
	struct error error = {""};

	assert_null(fixture_decode(fixture, &error));
	snprintf(expected, sizeof(expected), "FILE: not a pprof profile: %s", reason);
	assert_string_equal(error.text, expected);
}

/* Damages one part of a valid message. */
#define REFUSED(breakage, reason)                                                                  \
	do {                                                                                       \
		struct fixture fixture;                                                            \
                                                                                                   \
		fixture_init(&fixture);                                                            \
		fixture.breakage;                                                                  \
		assert_refused(&fixture, reason);                                                  \
	} while (0)

static void invalid_messages_are_refused(void **state)
{
	static char text[] = "x", latin[] = "\xfc";

	(void)state;
	REFUSED(message.n_string_table = 0, "it has no string table");
	REFUSED(strings[0] = text, "its string 0 is not empty");
	REFUSED(strings[2] = latin, "its string 2 is not UTF-8");
	REFUSED(message.n_sample_type = 0, "it has no sample type");
	REFUSED(type.unit = 3, "sample type 0 names no string");
	REFUSED(type.type = -1, "sample type 0 names no string");
	REFUSED(message.default_sample_type = 3, "its head names no string");
	REFUSED(message.drop_frames = INT64_MIN, "its head names no string");
	REFUSED(comments[0] = 3, "comment 0 names no string");
	REFUSED(mappings[1].build_id = 3, "mapping 2 names no string");
	REFUSED(mappings[0].filename = -1, "mapping 1 names no string");
	REFUSED(functions[1].name = 3, "function 2 names no string");
	REFUSED(functions[0].filename = INT64_MAX, "function 1 names no string");
	REFUSED(label.key = 3, "a label of sample 1 names no string");
	REFUSED(label.num_unit = 3, "a label of sample 1 names no string");
	REFUSED(mappings[0].id = 0, "a mapping has the reserved id 0");
	REFUSED(locations[1].id = 0, "a location has the reserved id 0");
	REFUSED(functions[1].id = 0, "a function has the reserved id 0");
	REFUSED(mappings[0].id = 8, "two mappings have the id 8");
	REFUSED(locations[0].id = 999999, "two locations have the id 999999");
	REFUSED(functions[0].id = UINT64_MAX - 1, "two functions have the id 18446744073709551614");
	REFUSED(locations[1].mapping_id = 7, "location 2 has a mapping that is not there");
	REFUSED(line.function_id = 1, "location 2 has a function that is not there");
	REFUSED(line.function_id = 0, "location 2 has a function that is not there");
	REFUSED(location_ids[0] = 1, "sample 1 has a location that is not there");
	REFUSED(location_ids[0] = 0, "sample 1 has a location that is not there");
	REFUSED(sample.n_value = 0, "sample 1 has 0 values for 1 sample types");
	REFUSED(sample.n_value = 2, "sample 1 has 2 values for 1 sample types");
}

static void sample_types_are_found(void **state)
{
	struct pprof_profile *profile = write_and_read(state, example_profile());
	struct error error;
	size_t index;

	assert_int_equal(pprof_sample_type(profile, NULL, &index, &error), 0);
	assert_int_equal(index, 1);
	assert_int_equal(pprof_sample_type(profile, "samples", &index, &error), 0);
	assert_int_equal(index, 0);
	assert_int_equal(pprof_sample_type(profile, "heap", &index, &error), -EINVAL);
	assert_string_equal(error.text,
			    "no sample type 'heap' in the profile: it has samples, cpu");
	pprof_profile_free(profile);
}

/* Reads the example file, gzipped or plain, into bytes that the caller frees. */
static unsigned char *example_bytes(void **state, bool plain, size_t *size)
{
	struct pprof_builder *builder = example_profile();
	char *path = scratch_file(state, "profile");
	unsigned char *bytes = malloc(1 << 16);
	void *expanded;
	int fd;

	assert_int_equal(pprof_write(builder, path, NULL, NULL), 0);
	fd = open(path, O_RDONLY);
	*size = read(fd, bytes, 1 << 16);
	close(fd);
	pprof_free(builder);
	free(path);
	if (!plain)
		return bytes;
	assert_int_equal(gzip_expand(bytes, *size, 1 << 20, "", &expanded, size, NULL), 0);
	free(bytes);
	return expanded;
}

static void assert_not_decoded(const void *bytes, size_t size, const char *expected)
{
	struct error error = {""};

	assert_null(pprof_decode(bytes, size, "FILE", &error));
	assert_string_equal(error.text, expected);
}

static void damaged_files_are_refused(void **state)
{
	unsigned char *bytes;
	size_t size;

	bytes = example_bytes(state, false, &size);
	assert_not_decoded(bytes, 0, "FILE: not a pprof profile: it is empty");
	assert_not_decoded("hello", 5,
			   "FILE: not a pprof profile: its bytes are no such message, or one that "
			   "is too large");
	assert_not_decoded(bytes, size - 1, "FILE: truncated: its gzip stream has no end");
	assert_not_decoded(bytes, 2, "FILE: truncated: its gzip stream has no end");
	bytes[size - 5] ^= 1;
	assert_not_decoded(bytes, size,
			   "FILE: damaged: its gzip stream is broken (incorrect data check)");
	free(bytes);
}

static void plain_and_split_files_are_read(void **state)
{
	struct pprof_profile *profile;
	unsigned char *bytes, *twice;
	size_t size;

	bytes = example_bytes(state, true, &size);
	profile = pprof_decode(bytes, size, "FILE", NULL);
	assert_non_null(profile);
	pprof_profile_free(profile);
	free(bytes);

	/* Concatenated gzip streams are one file, and concatenated messages one message. */
	bytes = example_bytes(state, false, &size);
	twice = malloc(2 * size);
	assert_non_null(twice);
	memcpy(twice, bytes, size);
	memcpy(twice + size, bytes, size);
	assert_not_decoded(twice, 2 * size,
			   "FILE: not a pprof profile: two mappings have the id 1");
	free(twice);
	free(bytes);
}

static void expansion_is_limited(void **state)
{
	static unsigned char zeros[1 << 20], packed[1 << 16];
	z_stream stream = {.next_in = zeros,
			   .avail_in = sizeof(zeros),
			   .next_out = packed,
			   .avail_out = sizeof(packed)};
	struct error error;
	size_t size;
	void *plain;

	(void)state;
	assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	size = sizeof(packed) - stream.avail_out;
	assert_int_equal(gzip_expand(packed, size, (1 << 20) - 1, "FILE", &plain, &size, &error),
			 -EFBIG);
	size = sizeof(packed) - stream.avail_out;
	assert_int_equal(gzip_expand(packed, size, 1 << 20, "FILE", &plain, &size, &error), 0);
	assert_int_equal(size, 1 << 20);
	free(plain);
}

static uint32_t random_next(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005 + 1442695040888963407;
	return state >> 33;
}

/* Mutations must be decoded to valid profiles or refused with a message, under sanitizers. */
static void survives_mutations(void **state)
{
	unsigned char *original[2], *bytes;
	struct pprof_profile *profile;
	struct error error;
	size_t size[2], length, i, j, decoded = 0, refused = 0;

	original[0] = example_bytes(state, false, &size[0]);
	original[1] = example_bytes(state, true, &size[1]);
	for (i = 0; i < MUTATIONS; i++) {
		length = random_next() % 4 ? size[i % 2] : 1 + random_next() % size[i % 2];
		/* An allocation of the exact size, so that ASan finds a read beyond it. */
		bytes = malloc(length);
		memcpy(bytes, original[i % 2], length);
		for (j = random_next() % 8; j > 0; j--)
			bytes[random_next() % length] = random_next();
		error.text[0] = '\0';
		profile = pprof_decode(bytes, length, "FILE", &error);
		assert_int_equal(!profile, !!error.text[0]);
		decoded += !!profile;
		refused += !profile;
		pprof_profile_free(profile);
		free(bytes);
	}
	assert_true(decoded > MUTATIONS / 20);
	assert_true(refused > MUTATIONS / 20);
	free(original[0]);
	free(original[1]);
}

static void unreadable_files(void **state)
{
	const struct scratch *scratch = *state;
	struct error error;
	char expected[128];

	assert_null(pprof_read("/nonexistent", &error));
	assert_string_equal(error.text, "/nonexistent: No such file or directory");
	assert_null(pprof_read(scratch->path, &error));
	snprintf(expected, sizeof(expected), "%s: Is a directory", scratch->path);
	assert_string_equal(error.text, expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(head_is_preserved),
		SCRATCH_TEST(samples_are_preserved),
		SCRATCH_TEST(ids_have_no_gaps),
		cmocka_unit_test(equal_entries_are_merged),
		SCRATCH_TEST(invalid_utf8_is_replaced),
		SCRATCH_TEST(has_functions_only_if_all_are_symbolized),
		SCRATCH_TEST(large_profile),
		SCRATCH_TEST(equal_samples_are_merged),
		SCRATCH_TEST(overflowing_sums_are_not_merged),
		SCRATCH_TEST(write_errors_leave_no_file),
		cmocka_unit_test(ids_are_renumbered),
		cmocka_unit_test(invalid_messages_are_refused),
		SCRATCH_TEST(sample_types_are_found),
		SCRATCH_TEST(damaged_files_are_refused),
		SCRATCH_TEST(plain_and_split_files_are_read),
		cmocka_unit_test(expansion_is_limited),
		SCRATCH_TEST(survives_mutations),
		SCRATCH_TEST(unreadable_files),
	};

	return cmocka_run_group_tests_name("pprof", tests, NULL, NULL);
}
