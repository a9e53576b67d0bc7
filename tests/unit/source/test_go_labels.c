// SPDX-License-Identifier: GPL-2.0
/* Labels of goroutines in samples: their records, their order, and how they become labels. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/error.h"
#include "pprof/labels.h"
#include "source/go_labels.h"

union record {
	struct stackbeat_go_labels labels;
	uint64_t words[STACKBEAT_GO_LABELS_SIZE_MAX / sizeof(uint64_t)];
};

static void begin(union record *record)
{
	memset(record, 0, sizeof(*record));
	record->labels.size = sizeof(record->labels);
}

/* Adds a label to a record whose size is not padded yet. */
static void add_bytes(union record *record, const char *key, size_t key_size, const char *value,
		      size_t value_size)
{
	uint8_t *to = (uint8_t *)record + record->labels.size;

	to[0] = (uint8_t)key_size;
	to[1] = (uint8_t)value_size;
	memcpy(to + 2, key, key_size);
	memcpy(to + 2 + key_size, value, value_size);
	record->labels.size += (uint32_t)(2 + key_size + value_size);
	record->labels.count++;
}

static void add(union record *record, const char *key, const char *value)
{
	add_bytes(record, key, strlen(key), value, strlen(value));
}

static void end(union record *record)
{
	record->labels.size = (record->labels.size + 7u) & ~7u;
	assert_null(go_labels_check(&record->labels, record->labels.size));
}

static void refuses_malformed_records(void **state)
{
	union record record, bad;
	size_t size;

	(void)state;
	begin(&record);
	add(&record, "kind", "large");
	add(&record, "k", "12345678");
	end(&record);
	size = record.labels.size;
	assert_null(go_labels_check(&record.labels, sizeof(record)));
	assert_non_null(go_labels_check(&record.labels, size - 1));
	assert_non_null(go_labels_check(&record.labels, sizeof(record.labels) - 1));
	for (uint32_t other = 0; other <= sizeof(record) + 8; other++) {
		bad = record;
		bad.labels.size = other;
		/* The labels end in the last word. */
		assert_int_equal(!go_labels_check(&bad.labels, sizeof(bad) + 8),
				 other % 8 == 0 && other >= size && other <= sizeof(bad));
	}
	bad = record;
	bad.labels.flags = STACKBEAT_GO_LABELS_CUT;
	assert_null(go_labels_check(&bad.labels, size));
	bad.labels.flags = 2;
	assert_non_null(go_labels_check(&bad.labels, size));
	bad = record;
	bad.labels.bytes[1] += 80;
	assert_non_null(go_labels_check(&bad.labels, size));
	bad.labels.bytes[1] -= 80;
	bad.labels.bytes[0] = 255;
	assert_non_null(go_labels_check(&bad.labels, size));
	begin(&bad);
	for (unsigned int i = 0; i < STACKBEAT_GO_LABELS_COUNT_MAX; i++)
		add(&bad, "k", "v");
	end(&bad);
	bad.labels.count++;
	assert_non_null(go_labels_check(&bad.labels, sizeof(bad)));
}

static void a_label_ends_with_the_record(void **state)
{
	union record record;
	struct go_label label;
	size_t at = 0;

	(void)state;
	begin(&record);
	add(&record, "k", "12345");
	assert_int_equal(record.labels.size, 16);
	end(&record);
	assert_true(go_labels_next(&record.labels, &at, &label));
	assert_int_equal(label.key_size, 1);
	assert_int_equal(label.value_size, 5);
	assert_memory_equal(label.key, "k", 1);
	assert_memory_equal(label.value, "12345", 5);
	assert_int_equal(at, 8);
	assert_false(go_labels_next(&record.labels, &at, &label));
	/* One byte more does not fit. */
	record.labels.bytes[1]++;
	at = 0;
	assert_false(go_labels_next(&record.labels, &at, &label));
	assert_int_equal(at, 0);
}

/* Equal sets are equal bytes, in whatever order a map has them. */
static void order_does_not_matter(void **state)
{
	static const char *const pairs[][2] = {{"b", "1"},     {"a", "2"},       {"ab", "3"},
					       {"", "no key"}, {"no value", ""}, {"c", "4"}};
	union record record, sorted[2] = {0};
	size_t size[2];

	(void)state;
	for (unsigned int reverse = 0; reverse < 2; reverse++) {
		begin(&record);
		for (size_t i = 0; i < 6; i++) {
			const char *const *pair = pairs[reverse ? 5 - i : i];

			add(&record, pair[0], pair[1]);
		}
		end(&record);
		memset(&sorted[reverse], 0xff, sizeof(sorted[reverse]));
		size[reverse] = go_labels_sort(&record.labels, &sorted[reverse].labels);
	}
	assert_int_equal(size[0], size[1]);
	assert_memory_equal(&sorted[0], &sorted[1], size[0]);
	assert_null(go_labels_check(&sorted[0].labels, size[0]));
	assert_int_equal(sorted[0].labels.count, 4);
	assert_int_equal(size[0], (8 + 4 * 4 + 1 + 7) / 8 * 8);
	assert_memory_equal(sorted[0].labels.bytes,
			    "\1\1a2"
			    "\2\1ab3"
			    "\1\1b1"
			    "\1\1c4",
			    17);
}

static void one_label_of_a_key_is_kept(void **state)
{
	union record record, sorted;

	(void)state;
	for (unsigned int reverse = 0; reverse < 2; reverse++) {
		begin(&record);
		add(&record, "k", reverse ? "2" : "10");
		add(&record, "k", reverse ? "10" : "2");
		end(&record);
		assert_int_equal(go_labels_sort(&record.labels, &sorted.labels), 16);
		assert_int_equal(sorted.labels.count, 1);
		assert_memory_equal(sorted.labels.bytes, "\1\2k10", 5);
	}
}

static void nothing_is_left_of_empty_labels(void **state)
{
	union record record, sorted;

	(void)state;
	begin(&record);
	add(&record, "", "x");
	end(&record);
	assert_int_equal(go_labels_sort(&record.labels, &sorted.labels), 0);
	record.labels.flags = STACKBEAT_GO_LABELS_CUT;
	assert_int_equal(go_labels_sort(&record.labels, &sorted.labels), 8);
	assert_int_equal(sorted.labels.flags, STACKBEAT_GO_LABELS_CUT);
	assert_int_equal(sorted.labels.count, 0);
}

static const struct label_origin nobody;
static struct label_values values;
static struct labels labels;

/* Sets `values` to the labels of a record. */
static void convert(union record *record)
{
	const struct label_process process = {
		.comm = "", .cgroup_path = "", .truncated = "", .go_labels = &record->labels};

	end(record);
	label_values(&labels, &nobody, &process, &values);
}

static void expect_item(size_t i, const char *key, const char *text)
{
	assert_true(i < values.count);
	assert_string_equal(values.items[i].key, key);
	assert_string_equal(values.items[i].text, text);
}

static int forget_labels(void **state)
{
	(void)state;
	labels = (struct labels){0};
	return 0;
}

static void labels_become_labels_of_the_profile(void **state)
{
	union record record;

	(void)state;
	begin(&record);
	add(&record, "kind", "large");
	add(&record, "\xc3\xa4", "\xe2\x82\xac");
	convert(&record);
	assert_int_equal(values.count, 2);
	expect_item(0, "kind", "large");
	expect_item(1, "\xc3\xa4", "\xe2\x82\xac");
}

/* A program must not pass off its labels as labels of stackbeat. */
static void keys_of_other_meaning_get_a_prefix(void **state)
{
	static const char *const taken[] = {"pid",       "nspid",       "comm",
					    "container", "merged",      "go-creator",
					    "go-labels", "pprof::base", "region"};
	char expected[64];
	struct error error;
	union record record;

	(void)state;
	assert_int_equal(labels_add(&labels, "region=eu", &error), 0);
	assert_int_equal(labels_add(&labels, "go.comm=app", &error), -EINVAL);
	assert_non_null(strstr(error.text, "go. is of labels of programs"));
	begin(&record);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		add(&record, taken[i], "forged");
	add(&record, "regions", "x");
	convert(&record);
	assert_int_equal(values.count, 11);
	expect_item(0, "region", "eu");
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		snprintf(expected, sizeof(expected), "go.%s", taken[i]);
		expect_item(i + 1, expected, "forged");
	}
	expect_item(10, "regions", "x");
}

static void bytes_that_are_no_text_are_replaced(void **state)
{
	union record record;

	(void)state;
	begin(&record);
	add_bytes(&record, "a\0b", 3, "\0\0", 2);
	add(&record, "\xff", "\x1b[31m");
	add(&record, "cut", "\xe2\x82");
	/* As a text, it is the key of the second label. */
	add(&record, "\x01", "other");
	add(&record, "last", "value");
	convert(&record);
	assert_int_equal(values.count, 4);
	expect_item(0, "a?b", "??");
	expect_item(1, "?", "?[31m");
	expect_item(2, "cut", "??");
	expect_item(3, "last", "value");
}

static void cut_labels_are_marked(void **state)
{
	union record record;

	(void)state;
	begin(&record);
	add(&record, "k", "v");
	record.labels.flags = STACKBEAT_GO_LABELS_CUT;
	convert(&record);
	assert_int_equal(values.count, 2);
	expect_item(0, "go-labels", "cut");
	expect_item(1, "k", "v");
}

/* As many labels as there can be, of the largest size, each with a prefix. */
static void largest_labels_fit(void **state)
{
	static const char *const keys[STACKBEAT_GO_LABELS_COUNT_MAX] = {
		"pprof::a", "pprof::b", "pprof::c", "pprof::d", "pprof::e", "pprof::f",
		"pprof::g", "pprof::h", "pprof::i", "pprof::j", "pprof::k", "pprof::l",
		"pprof::m", "pprof::n", "pprof::o", "pprof::p"};
	union record record;
	struct error error;
	char value[32];

	(void)state;
	assert_int_equal(labels_choose(&labels, "all", &error), 0);
	begin(&record);
	memset(value, 'v', sizeof(value));
	/* 31 bytes each; the first one is larger. Each key gets the prefix. */
	for (unsigned int i = 0; i < STACKBEAT_GO_LABELS_COUNT_MAX; i++)
		add_bytes(&record, keys[i], strlen(keys[i]), value,
			  (i ? 29 : 35) - strlen(keys[i]));
	record.labels.flags = STACKBEAT_GO_LABELS_CUT;
	assert_in_range(record.labels.size, STACKBEAT_GO_LABELS_SIZE_MAX - 7,
			STACKBEAT_GO_LABELS_SIZE_MAX);
	convert(&record);
	for (size_t i = values.count - STACKBEAT_GO_LABELS_COUNT_MAX; i < values.count; i++) {
		assert_memory_equal(values.items[i].key, "go.", 3);
		assert_memory_equal(values.items[i].text, value, 29 - strlen(keys[0]));
	}
	assert_in_range(values.items[values.count - 1].text - values.go_labels, 480,
			sizeof(values.go_labels) - 20);
}

static void labels_are_behind_the_words_of_a_goroutine(void **state)
{
	union {
		struct stackbeat_sample sample;
		uint64_t words[64];
	} any = {0};
	const uint32_t chosen = LABEL_SET(LABEL_GO_LABELS);
	struct stackbeat_sample *sample = &any.sample;

	(void)state;
	sample->kernel_frames = 1;
	sample->user_frames = 2;
	assert_null(label_go_labels(chosen, sample));
	sample->record.flags = STACKBEAT_SAMPLE_GO_LABELS;
	assert_ptr_equal(label_go_labels(chosen, sample), sample->frames + 3);
	assert_null(label_go_labels(~chosen, sample));
	sample->record.flags |= STACKBEAT_SAMPLE_GOROUTINE;
	assert_ptr_equal(label_go_labels(chosen, sample), sample->frames + 4);
	sample->record.flags |= STACKBEAT_SAMPLE_GO_CREATOR;
	assert_ptr_equal(label_go_labels(chosen, sample), sample->frames + 5);
	sample->record.flags &= ~STACKBEAT_SAMPLE_GOROUTINE;
	assert_ptr_equal(label_go_labels(chosen, sample), sample->frames + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_malformed_records),
		cmocka_unit_test(a_label_ends_with_the_record),
		cmocka_unit_test(order_does_not_matter),
		cmocka_unit_test(one_label_of_a_key_is_kept),
		cmocka_unit_test(nothing_is_left_of_empty_labels),
		cmocka_unit_test_setup(labels_become_labels_of_the_profile, forget_labels),
		cmocka_unit_test_setup(keys_of_other_meaning_get_a_prefix, forget_labels),
		cmocka_unit_test_setup(bytes_that_are_no_text_are_replaced, forget_labels),
		cmocka_unit_test_setup(cut_labels_are_marked, forget_labels),
		cmocka_unit_test_setup(largest_labels_fit, forget_labels),
		cmocka_unit_test(labels_are_behind_the_words_of_a_goroutine),
	};

	return cmocka_run_group_tests_name("go_labels", tests, NULL, NULL);
}
