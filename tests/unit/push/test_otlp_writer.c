// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of OTLP, unpacked by protobuf-c with the definitions of the writer; tests/cli/push.py
 * reads them by the numbers of the protocol, and a Collector does in tests/integration.
 */
#include "unit.h"

#include "failing_malloc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/error.h"
#include "otlp.pb-c.h"
#include "pprof/gzip.h"
#include "push/otlp_writer.h"
#include "sample_profile.h"

#define SIZE_LIMIT ((size_t)1 << 20)

static struct error error;

/* A request, unpacked. */
struct request {
	Stackbeat__Otlp__ExportProfilesServiceRequest *message;
	Stackbeat__Otlp__ResourceProfiles *source;
	Stackbeat__Otlp__ProfilesDictionary *dictionary;
	Stackbeat__Otlp__Profile *profiles[3];
	size_t profile_count;
};

static size_t expand(int fd, unsigned char *bytes)
{
	struct stat status;
	struct gzip_reader *reader;
	unsigned char *packed;
	size_t size = 0;
	ssize_t got;

	assert_int_equal(fstat(fd, &status), 0);
	packed = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(packed, MAP_FAILED);
	reader = gzip_reader_new(packed, (size_t)status.st_size, SIZE_LIMIT, "request");
	while ((got = gzip_read(reader, bytes + size, SIZE_LIMIT - size, &error)) > 0)
		size += (size_t)got;
	assert_int_equal(got, 0);
	gzip_reader_free(reader);
	munmap(packed, (size_t)status.st_size);
	return size;
}

static void read_request(struct request *request, int fd)
{
	unsigned char *bytes = malloc(SIZE_LIMIT);
	Stackbeat__Otlp__ScopeProfiles *scope;
	size_t size = expand(fd, bytes);

	*request = (struct request){0};
	request->message =
		stackbeat__otlp__export_profiles_service_request__unpack(NULL, size, bytes);
	assert_non_null(request->message);
	assert_int_equal(request->message->n_resource_profiles, 1);
	request->source = request->message->resource_profiles[0];
	request->dictionary = stackbeat__otlp__profiles_dictionary__unpack(
		NULL, request->message->dictionary.len, request->message->dictionary.data);
	assert_non_null(request->dictionary);
	assert_int_equal(request->source->n_scope_profiles, 1);
	scope = request->source->scope_profiles[0];
	assert_string_equal(scope->scope->name, "stackbeat");
	assert_string_equal(scope->scope->version, STACKBEAT_VERSION);
	assert_true(scope->n_profiles <= 3);
	for (size_t i = 0; i < scope->n_profiles; i++) {
		request->profiles[i] = stackbeat__otlp__profile__unpack(
			NULL, scope->profiles[i].len, scope->profiles[i].data);
		assert_non_null(request->profiles[i]);
	}
	request->profile_count = scope->n_profiles;
	free(bytes);
}

static void free_request(struct request *request)
{
	for (size_t i = 0; i < request->profile_count; i++)
		stackbeat__otlp__profile__free_unpacked(request->profiles[i], NULL);
	stackbeat__otlp__profiles_dictionary__free_unpacked(request->dictionary, NULL);
	stackbeat__otlp__export_profiles_service_request__free_unpacked(request->message, NULL);
}

static struct request write_request(const struct profile *profile, const struct push_label *labels,
				    size_t count)
{
	int fd = memfd_create("request", MFD_CLOEXEC);
	struct request request;

	assert_int_equal(otlp_write_fd(profile, labels, count, fd, &error), 0);
	read_request(&request, fd);
	close(fd);
	return request;
}

static void expect_text(const struct request *request, int32_t index, const struct profile *profile,
			uint32_t string)
{
	assert_in_range(index, 0, request->dictionary->n_string_table - 1);
	assert_string_equal(request->dictionary->string_table[index],
			    profile_text(profile, string));
}

static void expect_attribute(const struct request *request, const struct profile *profile,
			     int32_t index, uint32_t label)
{
	const struct profile_label *wanted = &profile->labels.items[label];
	const Stackbeat__Otlp__KeyValueAndUnit *attribute =
		request->dictionary->attribute_table[index];

	expect_text(request, attribute->key_strindex, profile, wanted->key);
	expect_text(request, attribute->unit_strindex, profile, wanted->unit);
	if (wanted->text) {
		assert_int_equal(attribute->value->value_case,
				 STACKBEAT__OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX);
		expect_text(request, attribute->value->string_value_strindex, profile,
			    wanted->text);
	} else {
		assert_int_equal(attribute->value->value_case,
				 STACKBEAT__OTLP__ANY_VALUE__VALUE_INT_VALUE);
		assert_true(attribute->value->int_value == wanted->number);
	}
}

static void expect_samples(const struct request *request, const struct profile *profile,
			   const Stackbeat__Otlp__Profile *found, size_t type)
{
	expect_text(request, found->sample_type->type_strindex, profile,
		    profile->types.items[type].type);
	expect_text(request, found->sample_type->unit_strindex, profile,
		    profile->types.items[type].unit);
	expect_text(request, found->period_type->type_strindex, profile, profile->period_type.type);
	assert_true(found->period == profile->period);
	assert_true(found->time_unix_nano == (uint64_t)profile->time_ns);
	assert_true(found->duration_nano == (uint64_t)profile->duration_ns);
	assert_int_equal(found->n_samples, profile->samples.count);
	for (size_t i = 0; i < found->n_samples; i++) {
		const Stackbeat__Otlp__Sample *sample = found->samples[i];
		const struct profile_sample *wanted = &profile->samples.items[i];
		const uint32_t *labels = profile_set_labels(profile, wanted->label_set);
		const Stackbeat__Otlp__Stack *stack =
			request->dictionary->stack_table[sample->stack_index];

		assert_int_equal(sample->n_values, 1);
		assert_true(sample->values[0] == profile_values(profile, i)[type]);
		assert_int_equal(sample->n_attribute_indices,
				 profile->label_sets.items[wanted->label_set].count);
		for (size_t j = 0; j < sample->n_attribute_indices; j++)
			expect_attribute(request, profile, sample->attribute_indices[j], labels[j]);
		assert_int_equal(stack->n_location_indices,
				 profile->stacks.items[wanted->stack].count);
		for (size_t j = 0; j < stack->n_location_indices; j++)
			assert_int_equal(stack->location_indices[j],
					 profile_stack_locations(profile, wanted->stack)[j]);
	}
}

static void expect_locations(const struct request *request, const struct profile *profile)
{
	const Stackbeat__Otlp__ProfilesDictionary *dictionary = request->dictionary;

	assert_int_equal(dictionary->n_location_table, profile->locations.count);
	for (size_t i = 1; i < profile->locations.count; i++) {
		const Stackbeat__Otlp__Location *found = dictionary->location_table[i];
		const struct profile_location *wanted = &profile->locations.items[i];

		assert_true(found->address == wanted->address);
		assert_int_equal(found->mapping_index, wanted->mapping);
		assert_int_equal(found->n_lines, wanted->line_count);
		for (size_t j = 0; j < found->n_lines; j++) {
			const struct profile_line *line = &profile_lines(profile, wanted)[j];
			const Stackbeat__Otlp__Function *function =
				dictionary->function_table[found->lines[j]->function_index];
			const struct profile_function *named =
				&profile->functions.items[line->function];

			assert_true(found->lines[j]->line == line->line);
			assert_true(found->lines[j]->column == line->column);
			expect_text(request, function->name_strindex, profile, named->name);
			expect_text(request, function->system_name_strindex, profile,
				    named->system_name);
			expect_text(request, function->filename_strindex, profile, named->file);
			assert_true(function->start_line == named->start_line);
		}
	}
}

static void expect_mappings(const struct request *request, const struct profile *profile)
{
	const Stackbeat__Otlp__ProfilesDictionary *dictionary = request->dictionary;

	assert_int_equal(dictionary->n_mapping_table, profile->mappings.count);
	for (size_t i = 1; i < profile->mappings.count; i++) {
		const Stackbeat__Otlp__Mapping *found = dictionary->mapping_table[i];
		const struct profile_mapping *wanted = &profile->mappings.items[i];
		const Stackbeat__Otlp__KeyValueAndUnit *build_id;

		assert_true(found->memory_start == wanted->start);
		assert_true(found->memory_limit == wanted->limit);
		assert_true(found->file_offset == wanted->offset);
		expect_text(request, found->filename_strindex, profile, wanted->file);
		assert_int_equal(found->n_attribute_indices, wanted->build_id != 0);
		if (!wanted->build_id)
			continue;
		build_id = dictionary->attribute_table[found->attribute_indices[0]];
		assert_string_equal(dictionary->string_table[build_id->key_strindex],
				    "process.executable.build_id.gnu");
		expect_text(request, build_id->value->string_value_strindex, profile,
			    wanted->build_id);
	}
}

/* Item 0 of a table stands for none. */
static void expect_empty_items(const Stackbeat__Otlp__ProfilesDictionary *dictionary)
{
	static const uint8_t zero[16];

	assert_string_equal(dictionary->string_table[0], "");
	assert_int_equal(dictionary->n_link_table, 1);
	assert_int_equal(dictionary->link_table[0]->trace_id.len, sizeof(zero));
	assert_memory_equal(dictionary->link_table[0]->trace_id.data, zero, sizeof(zero));
	assert_int_equal(dictionary->link_table[0]->span_id.len, 8);
	assert_memory_equal(dictionary->link_table[0]->span_id.data, zero, 8);
	assert_int_equal(stackbeat__otlp__mapping__get_packed_size(dictionary->mapping_table[0]),
			 0);
	assert_int_equal(stackbeat__otlp__location__get_packed_size(dictionary->location_table[0]),
			 0);
	assert_int_equal(stackbeat__otlp__function__get_packed_size(dictionary->function_table[0]),
			 0);
	assert_int_equal(stackbeat__otlp__key_value_and_unit__get_packed_size(
				 dictionary->attribute_table[0]),
			 0);
	assert_int_equal(stackbeat__otlp__stack__get_packed_size(dictionary->stack_table[0]), 0);
}

/* The example has inlined functions, locations without lines, and labels with numbers. */
static void all_parts_of_a_profile_are_written(void **state)
{
	struct profile *profile = example_profile();
	struct request request;

	(void)state;
	profile->period = 52631579;
	request = write_request(profile, NULL, 0);
	expect_empty_items(request.dictionary);
	expect_mappings(&request, profile);
	expect_locations(&request, profile);
	assert_int_equal(request.profile_count, 2);
	/* The default type is the first one. */
	expect_samples(&request, profile, request.profiles[0], PROFILE_CPU);
	expect_samples(&request, profile, request.profiles[1], PROFILE_SAMPLES);
	assert_int_equal(request.source->resource->n_attributes, 0);
	free_request(&request);
	profile_free(profile);
}

static void empty_profile_is_written(void **state)
{
	struct profile *profile = empty_profile();
	struct request request = write_request(profile, NULL, 0);

	(void)state;
	expect_empty_items(request.dictionary);
	assert_int_equal(request.profile_count, 2);
	assert_int_equal(request.profiles[0]->n_samples, 0);
	free_request(&request);
	profile_free(profile);
}

static void labels_become_attributes_of_the_resource(void **state)
{
	static const struct push_label labels[] = {
		{"service.name", "<a>"}, {"host.name", "b"}, {"zone", ""}};
	struct profile *profile = example_profile();
	struct request request = write_request(profile, labels, 3);

	(void)state;
	assert_int_equal(request.source->resource->n_attributes, 3);
	for (size_t i = 0; i < 3; i++) {
		const Stackbeat__Otlp__KeyValue *found = request.source->resource->attributes[i];

		assert_string_equal(found->key, labels[i].name);
		assert_int_equal(found->value->value_case,
				 STACKBEAT__OTLP__ANY_VALUE__VALUE_STRING_VALUE);
		assert_string_equal(found->value->string_value, labels[i].value);
	}
	free_request(&request);
	profile_free(profile);
}

/* Copies of a file have one attribute; without a file, there is not even its key. */
static void build_ids_are_written_once(void **state)
{
	struct profile *profile = empty_profile();
	const Stackbeat__Otlp__ProfilesDictionary *dictionary;
	struct request request = write_request(profile, NULL, 0);

	(void)state;
	dictionary = request.dictionary;
	assert_int_equal(dictionary->n_attribute_table, 1);
	assert_int_equal(dictionary->n_string_table, profile->strings.count);
	free_request(&request);
	example_mapping(profile, 0x1000, 0x2000, 0, "/a", "aabb");
	example_mapping(profile, 0x1000, 0x2000, 0, "/b", "ccdd");
	example_mapping(profile, 0x3000, 0x4000, 0, "/c", "aabb");
	request = write_request(profile, NULL, 0);
	dictionary = request.dictionary;
	expect_mappings(&request, profile);
	assert_int_equal(dictionary->n_attribute_table, 3);
	assert_int_equal(dictionary->mapping_table[1]->attribute_indices[0],
			 dictionary->mapping_table[3]->attribute_indices[0]);
	free_request(&request);
	profile_free(profile);
}

/* As pprof may have it: times before 1970, and two labels with one key. */
static void other_profiles_are_written_by_the_rules(void **state)
{
	const int64_t values[] = {1, 1};
	struct profile *profile = empty_profile();
	const uint32_t labels[] = {example_label(profile, "a", "x"),
				   example_label(profile, "b", "y"),
				   example_label(profile, "a", "z")};
	struct request request;

	(void)state;
	profile_add(profile, 0, profile_label_set(profile, labels, 3), values);
	profile->time_ns = -5;
	profile->duration_ns = -7;
	request = write_request(profile, NULL, 0);
	assert_true(request.profiles[0]->time_unix_nano == 0);
	assert_true(request.profiles[0]->duration_nano == 0);
	assert_int_equal(request.profiles[0]->samples[0]->n_attribute_indices, 2);
	expect_attribute(&request, profile, request.profiles[0]->samples[0]->attribute_indices[0],
			 labels[1]);
	expect_attribute(&request, profile, request.profiles[0]->samples[0]->attribute_indices[1],
			 labels[2]);
	free_request(&request);
	profile_free(profile);
}

/* Any allocation may fail; all allocations but those for the compression are of the request. */
static void lack_of_memory_is_an_error(void **state)
{
	const struct push_label label = {"service_name", "a"};
	struct profile *profile = example_profile();
	unsigned int failures = 0;
	bool has_failed = true;

	(void)state;
	for (unsigned long number = 1; has_failed; number++) {
		int fd = memfd_create("request", MFD_CLOEXEC), err;

		fail_malloc(number, false);
		err = otlp_write_fd(profile, &label, 1, fd, &error);
		has_failed = malloc_has_failed();
		fail_malloc(0, false);
		assert_int_equal(err, has_failed ? -ENOMEM : 0);
		if (has_failed)
			assert_non_null(strstr(error.text, "Cannot allocate memory"));
		failures += has_failed;
		close(fd);
	}
	assert_true(failures > 8);
	profile->error = -ENOMEM;
	assert_int_equal(otlp_write_fd(profile, &label, 1, -1, &error), -ENOMEM);
	profile_free(profile);
}

static void failed_write_is_an_error(void **state)
{
	struct profile *profile = example_profile();

	(void)state;
	assert_int_equal(otlp_write_fd(profile, NULL, 0, -1, &error), -EBADF);
	profile_free(profile);
}

static void answers_are_read(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		bool is_accepted;
		const char *message; /* NULL: no error */
	} answers[] = {
		{"", 0, true, NULL},
		{"\x0a\x03\x12\x01x", 5, true, NULL},
		{"\x0a\x02\x08\x00", 4, true, NULL},
		{"\x0a\x05\x08\x01\x12\x01x", 7, true, "the server has rejected profiles (1): x"},
		{"\x0a\x02\x08\x01", 4, true, "the server has rejected profiles (1)"},
		{"\x0a\x05\x08\x01\x12\x01\x1b", 7, true, "the server has rejected profiles (1): "},
		{"\x0a\x05\x08\x01", 4, true, "the answer is no message of OTLP"},
		{"", 0, false, NULL},
		{"\x08\x03", 2, false, NULL},
		{"\x08\x03\x12\x01y", 5, false, "y"},
		{"<html>", 6, false, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		const char *message = answers[i].message;

		assert_int_equal(otlp_read_answer(answers[i].bytes, answers[i].size,
						  answers[i].is_accepted, &error),
				 message ? -EREMOTEIO : 0);
		if (message)
			assert_memory_equal(error.text, message, strlen(message));
		if (message)
			assert_null(strchr(error.text, '\x1b'));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_parts_of_a_profile_are_written),
		cmocka_unit_test(empty_profile_is_written),
		cmocka_unit_test(labels_become_attributes_of_the_resource),
		cmocka_unit_test(build_ids_are_written_once),
		cmocka_unit_test(other_profiles_are_written_by_the_rules),
		cmocka_unit_test(lack_of_memory_is_an_error),
		cmocka_unit_test(failed_write_is_an_error),
		cmocka_unit_test(answers_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
