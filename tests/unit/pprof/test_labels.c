// SPDX-License-Identifier: GPL-2.0
/* Labels of samples. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"
#include "pprof/labels.h"
#include "pprof/profile.h"
#include "sample.h"

#define ID "3726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860"

static struct error error;

static const struct label_process unknown = {.comm = "", .cgroup_path = "", .truncated = ""};
static const struct label_process server = {
	.comm = "server",
	.cgroup_path = "/system.slice/docker-" ID ".scope",
	.truncated = "",
	.ns_pid = 1,
};

/* Formats the labels of a sample: "comm=x pid=1 ". */
static const char *labels_of(const struct labels *labels, const struct label_process *process,
			     const struct stackbeat_sample *sample)
{
	static char text[4096];
	struct label_origin origin;
	struct label_values values;
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_non_null(out);
	label_origin(labels->chosen, process->comm, sample, &origin);
	label_values(labels, &origin, process, &values);
	for (size_t i = 0; i < values.count; i++) {
		fprintf(out, "%s=", values.items[i].key);
		if (values.items[i].text)
			fprintf(out, "%s ", values.items[i].text);
		else
			fprintf(out, "%ld ", (long)values.items[i].number);
	}
	fclose(out);
	return text;
}

static struct labels chosen(const char *list)
{
	struct labels labels = {0};

	assert_int_equal(labels_choose(&labels, list, &error), 0);
	return labels;
}

/* Adds the maximum of labels. */
static void add_all(struct labels *labels)
{
	static char texts[LABELS_ADDED_MAX][32];

	for (int i = 0; i < LABELS_ADDED_MAX; i++) {
		snprintf(texts[i], sizeof(texts[i]), "key%d=%d", i, i);
		assert_int_equal(labels_add(labels, texts[i], &error), 0);
	}
}

/* Thread 12 of process 10, on CPU 3. */
static struct stackbeat_sample *worker(union any_sample *any)
{
	struct stackbeat_sample *sample = sample_begin(any, 10, "worker");

	sample->tid = 12;
	sample->cpu = 3;
	return sample;
}

static void lists_choose_labels(void **state)
{
	(void)state;
	assert_int_equal(chosen("all").chosen, (1u << LABEL_COUNT) - 1);
	assert_int_equal(chosen("none").chosen, 0);
	assert_int_equal(chosen("").chosen, 0);
	assert_int_equal(chosen("tid").chosen, LABEL_SET(LABEL_TID));
	assert_int_equal(chosen("container,comm,comm").chosen,
			 LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_CONTAINER));
	assert_int_equal(chosen("comm,thread,pid,tid,goroutine,go-creator,go-labels,cpu,cgroup,"
				"container,truncated")
				 .chosen,
			 LABELS_ALL);
}

static void invalid_lists_change_nothing(void **state)
{
	static const char *const bad[] = {",",    "pid,",    "pid,,tid", "PID",   "pid tid",
					  "p",    "pid,all", "none,pid", "nspid", " pid",
					  "pidx", "pid\n",   "\xff"};
	struct labels labels = chosen("cpu");

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(labels_choose(&labels, bad[i], &error), -EINVAL);
		assert_non_null(strstr(error.text, "--labels: '"));
		assert_null(strchr(error.text, '\n'));
		assert_int_equal(labels.chosen, LABEL_SET(LABEL_CPU));
	}
}

static void invalid_labels_are_not_added(void **state)
{
	static const struct {
		const char *text, *part;
	} bad[] = {
		{"", "is not KEY=VALUE"},
		{"a", "'a' is not KEY=VALUE"},
		{"=", "is not KEY=VALUE"},
		{"=b", "is not KEY=VALUE"},
		{"a=", "is not KEY=VALUE"},
		{"\xff=b", "is not UTF-8"},
		{"a=\xff", "is not UTF-8"},
		{"comm=x", "reserved by stackbeat"},
		{"container=x", "reserved by stackbeat"},
		{"nspid=1", "reserved by stackbeat"},
		{"pprof::x=1", "reserved by pprof"},
		{"there=2", "'there' is given twice"},
		{"0123456789012345678901234567890123456789012345678901234567890123=x", "63 bytes"},
	};
	struct labels labels = {0};

	(void)state;
	assert_int_equal(labels_add(&labels, "there=1", &error), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(labels_add(&labels, bad[i].text, &error), -EINVAL);
		if (!strstr(error.text, bad[i].part))
			fail_msg("'%s' is not in '%s'", bad[i].part, error.text);
		assert_int_equal(labels.added_count, 1);
	}
	assert_int_equal(
		labels_add(&labels,
			   "012345678901234567890123456789012345678901234567890123456789012=x",
			   &error),
		0);
	assert_int_equal(strlen(labels.added[1].key), 63);
}

static void added_labels_are_limited(void **state)
{
	struct labels labels = {0};

	(void)state;
	add_all(&labels);
	assert_int_equal(labels_add(&labels, "one=more", &error), -EINVAL);
	assert_int_equal(labels.added_count, LABELS_ADDED_MAX);
}

static void each_label_appears_if_chosen(void **state)
{
	static const struct {
		const char *list, *labels;
	} cases[] = {
		{"none", ""},
		{"comm", "comm=server "},
		{"thread", "thread=worker "},
		{"pid", "pid=10 nspid=1 "},
		{"tid", "tid=12 "},
		{"cpu", "cpu=3 "},
		{"cgroup", "cgroup=/system.slice/docker-" ID ".scope "},
		{"container", "container=" ID " "},
	};
	union any_sample any;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct labels labels = chosen(cases[i].list);

		assert_string_equal(labels_of(&labels, &server, worker(&any)), cases[i].labels);
	}
}

static void unknown_values_have_no_label(void **state)
{
	struct labels labels = chosen("all");
	struct label_process process = unknown;
	union any_sample any;

	(void)state;
	assert_string_equal(labels_of(&labels, &process, worker(&any)),
			    "comm=worker thread=worker pid=10 tid=12 cpu=3 ");
	assert_string_equal(labels_of(&labels, &process, sample_begin(&any, 10, "")),
			    "pid=10 tid=10 cpu=0 ");
	/* A process in the initial namespace has one id; a group may have no container. */
	process.ns_pid = 10;
	process.cgroup_path = "/a";
	assert_string_equal(labels_of(&labels, &process, worker(&any)),
			    "comm=worker thread=worker pid=10 tid=12 cpu=3 cgroup=/a ");
	process.truncated = "bad-frame-pointer";
	labels = chosen("truncated");
	assert_string_equal(labels_of(&labels, &process, worker(&any)),
			    "truncated=bad-frame-pointer ");
}

/* The name of the first thread is newer: prctl() or exec may have changed it. */
static void first_thread_names_the_process(void **state)
{
	struct labels labels = chosen("comm,thread");
	union any_sample any;

	(void)state;
	assert_string_equal(labels_of(&labels, &server, sample_begin(&any, 10, "renamed")),
			    "comm=renamed thread=renamed ");
	assert_string_equal(labels_of(&labels, &server, worker(&any)),
			    "comm=server thread=worker ");
	labels = chosen("comm");
	assert_string_equal(labels_of(&labels, &server, sample_begin(&any, 10, "renamed")),
			    "comm=renamed ");
	assert_string_equal(labels_of(&labels, &unknown, worker(&any)), "comm=worker ");
}

static void added_labels_follow_the_others(void **state)
{
	struct labels labels = chosen("none");
	union any_sample any;

	(void)state;
	assert_int_equal(labels_add(&labels, "build=1.2=3", &error), 0);
	assert_int_equal(labels_add(&labels, "host=\xc3\xa4", &error), 0);
	assert_string_equal(labels_of(&labels, &unknown, worker(&any)),
			    "build=1.2=3 host=\xc3\xa4 ");
	labels.chosen = LABEL_SET(LABEL_TID);
	assert_string_equal(labels_of(&labels, &unknown, worker(&any)),
			    "tid=12 build=1.2=3 host=\xc3\xa4 ");
}

/* pprof ignores labels of value 0 without a unit. */
static void numbers_have_units(void **state)
{
	struct labels labels = chosen("cpu");
	struct label_origin origin = {0};
	struct label_values values;

	(void)state;
	label_values(&labels, &origin, &unknown, &values);
	assert_int_equal(values.count, 1);
	assert_int_equal(values.items[0].number, 0);
	assert_null(values.items[0].text);
	assert_string_equal(values.items[0].unit, "cpu");
}

static void goroutine_is_behind_the_frames(void **state)
{
	struct labels labels = chosen("goroutine");
	struct label_origin origin;
	struct label_values values;
	union any_sample any;
	struct stackbeat_sample *sample = worker(&any);

	(void)state;
	sample->user_frames = 1;
	sample->frames[0] = 0x401000;
	sample->frames[1] = 7;
	label_origin(labels.chosen, "", sample, &origin);
	assert_int_equal(origin.goroutine, 0);
	label_values(&labels, &origin, &unknown, &values);
	assert_int_equal(values.count, 0);
	sample->record.flags |= STACKBEAT_SAMPLE_GOROUTINE;
	label_origin(labels.chosen, "", sample, &origin);
	label_values(&labels, &origin, &unknown, &values);
	assert_int_equal(values.count, 1);
	assert_string_equal(values.items[0].key, "goroutine");
	assert_int_equal(values.items[0].number, 7);
	sample->frames[1] = UINT64_MAX;
	label_origin(labels.chosen, "", sample, &origin);
	label_values(&labels, &origin, &unknown, &values);
	assert_int_equal(values.count, 0);
	label_origin(chosen("pid").chosen, "", sample, &origin);
	assert_int_equal(origin.goroutine, 0);
}

static void creator_is_behind_the_goroutine(void **state)
{
	const uint32_t labels = chosen("goroutine,go-creator").chosen;
	struct label_origin origin;
	union any_sample any;
	struct stackbeat_sample *sample = worker(&any);

	(void)state;
	sample->user_frames = 1;
	sample->frames[1] = 7;
	sample->frames[2] = 0x402000;
	sample->record.flags = STACKBEAT_SAMPLE_GOROUTINE | STACKBEAT_SAMPLE_GO_CREATOR;
	label_origin(labels, "", sample, &origin);
	assert_int_equal(origin.goroutine, 7);
	assert_int_equal(origin.go_creator, 0x402000);
	label_origin(chosen("goroutine").chosen, "", sample, &origin);
	assert_int_equal(origin.go_creator, 0);
	label_origin(chosen("go-creator").chosen, "", sample, &origin);
	assert_int_equal(origin.goroutine, 0);
	assert_int_equal(origin.go_creator, 0x402000);
	sample->record.flags = STACKBEAT_SAMPLE_GO_CREATOR;
	label_origin(labels, "", sample, &origin);
	assert_int_equal(origin.goroutine, 0);
	assert_int_equal(origin.go_creator, 7);
	sample->record.flags = 0;
	label_origin(labels, "", sample, &origin);
	assert_int_equal(origin.go_creator, 0);
}

/* Files of others may have such a label with any number. */
static void creators_are_locations_of_the_profile(void **state)
{
	struct profile *profile = profile_new();
	const uint32_t location = profile_location(profile, 0, 0x401000, NULL, 0);
	const int64_t invalid[] = {0, -1, location + 1, INT64_MAX, INT64_MIN};
	struct label_value value;
	uint32_t set, label;

	(void)state;
	label_set_go_creator(&value, location);
	set = labels_intern(profile, &value, 1);
	label = profile_set_labels(profile, set)[0];
	assert_true(label_is_go_creator_location(profile, label));
	for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
		value.number = invalid[i];
		set = labels_intern(profile, &value, 1);
		label = profile_set_labels(profile, set)[0];
		assert_false(label_is_go_creator_location(profile, label));
	}
	value = (struct label_value){.key = "go-creator", .number = location, .unit = "bytes"};
	set = labels_intern(profile, &value, 1);
	assert_false(label_is_go_creator_location(profile, profile_set_labels(profile, set)[0]));
	value = (struct label_value){.key = "go-creator", .text = "main.main"};
	set = labels_intern(profile, &value, 1);
	assert_false(label_is_go_creator_location(profile, profile_set_labels(profile, set)[0]));
	profile_free(profile);
}

static void maximum_of_labels_fits(void **state)
{
	struct labels labels = chosen("all");
	struct label_origin origin = {.pid = 1, .thread = "x", .goroutine = 1};
	struct label_process process = server;
	struct label_values values;
	union {
		struct stackbeat_go_labels labels;
		uint8_t bytes[STACKBEAT_GO_LABELS_SIZE_MAX];
	} most = {{.size = STACKBEAT_GO_LABELS_SIZE_MAX,
		   .count = STACKBEAT_GO_LABELS_COUNT_MAX,
		   .flags = STACKBEAT_GO_LABELS_CUT}};

	(void)state;
	add_all(&labels);
	labels.chosen |= LABEL_SET(LABEL_BLOCK);
	process.ns_pid = 7;
	process.truncated = "max-depth";
	process.go_labels = &most.labels;
	for (uint32_t i = 0; i < STACKBEAT_GO_LABELS_COUNT_MAX; i++) {
		most.labels.bytes[4 * i] = most.labels.bytes[4 * i + 1] = 1;
		most.labels.bytes[4 * i + 2] = (uint8_t)('a' + i);
		most.labels.bytes[4 * i + 3] = 'v';
	}
	label_values(&labels, &origin, &process, &values);
	label_set_go_creator(&values.items[values.count++], 1);
	/* But for "merged", which comes later. */
	assert_int_equal(values.count, LABELS_MAX - 1);
}

/* The block of time is no label of --labels. */
static void block_is_a_label_of_its_own(void **state)
{
	struct labels labels = chosen("all");
	struct stackbeat_sample sample = {.time = UINT64_C(7) << 29};
	struct label_values values;
	struct label_origin origin;

	(void)state;
	label_origin(labels.chosen, "", &sample, &origin);
	assert_int_equal(origin.block, 0);
	assert_int_equal(label_of_key("block"), LABEL_BLOCK);
	labels.chosen = LABEL_SET(LABEL_BLOCK);
	label_origin(labels.chosen, "", &sample, &origin);
	label_values(&labels, &origin, &server, &values);
	assert_int_equal(values.count, 1);
	assert_string_equal(values.items[0].key, "block");
	assert_int_equal(values.items[0].number, 7);
}

/* Properties without a chosen label do not distinguish samples. */
static void origins_hold_chosen_labels_only(void **state)
{
	static const struct {
		const char *list;
		struct label_origin origin;
	} cases[] = {
		{"none", {0}},        {"cgroup,container", {0}},
		{"pid", {.pid = 10}}, {"tid", {.tid = 12}},
		{"cpu", {.cpu = 3}},  {"thread", {.thread = "worker"}},
		{"comm", {0}},        {"comm,thread", {.thread = "worker"}},
	};
	struct label_origin origin;
	union any_sample any;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&origin, 0xaa, sizeof(origin));
		label_origin(chosen(cases[i].list).chosen, "server", worker(&any), &origin);
		assert_memory_equal(&origin, &cases[i].origin, sizeof(origin));
	}
	/* Without a process name, the thread name is used. */
	label_origin(LABEL_SET(LABEL_COMM), "", worker(&any), &origin);
	assert_string_equal(origin.thread, "worker");
	assert_int_equal(origin.first, 0);
	label_origin(LABEL_SET(LABEL_COMM), "server", sample_begin(&any, 10, "x"), &origin);
	assert_string_equal(origin.thread, "x");
	assert_int_equal(origin.first, 1);
}

/* A name without a NUL has 15 bytes. Bytes behind a NUL are ignored. */
static void names_are_terminated(void **state)
{
	struct label_origin origin;
	union any_sample any;

	(void)state;
	memset(worker(&any)->comm, 'a', sizeof(any.sample.comm));
	label_origin(LABEL_SET(LABEL_THREAD), "", &any.sample, &origin);
	assert_string_equal(origin.thread, "aaaaaaaaaaaaaaa");
	any.sample.comm[1] = '\0';
	label_origin(LABEL_SET(LABEL_THREAD), "", &any.sample, &origin);
	assert_memory_equal(origin.thread, "a\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_choose_labels),
		cmocka_unit_test(invalid_lists_change_nothing),
		cmocka_unit_test(invalid_labels_are_not_added),
		cmocka_unit_test(added_labels_are_limited),
		cmocka_unit_test(each_label_appears_if_chosen),
		cmocka_unit_test(unknown_values_have_no_label),
		cmocka_unit_test(first_thread_names_the_process),
		cmocka_unit_test(added_labels_follow_the_others),
		cmocka_unit_test(numbers_have_units),
		cmocka_unit_test(goroutine_is_behind_the_frames),
		cmocka_unit_test(creator_is_behind_the_goroutine),
		cmocka_unit_test(creators_are_locations_of_the_profile),
		cmocka_unit_test(maximum_of_labels_fits),
		cmocka_unit_test(block_is_a_label_of_its_own),
		cmocka_unit_test(origins_hold_chosen_labels_only),
		cmocka_unit_test(names_are_terminated),
	};

	return cmocka_run_group_tests_name("labels", tests, NULL, NULL);
}
