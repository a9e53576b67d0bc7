// SPDX-License-Identifier: GPL-2.0
/* The profile and the text of goroutines that the test makes up. */
#include "unit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "inspect/go_process.h"
#include "inspect/goroutine_labels.h"
#include "inspect/goroutine_profile.h"
#include "inspect/goroutines.h"
#include "lib/clock.h"
#include "pprof/profile.h"

#define CODE UINT64_C(0x1000)
#define MINUTES(n) ((n)*60 * NS_PER_SECOND)

/* Replaces libc's function: the machine may have been booted some minutes ago only. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	int err = (int)syscall(SYS_clock_gettime, clock, time);

	time->tv_sec += 3600;
	return err;
}

/* Functions of 0x100 bytes from CODE on. */
enum function {
	MAIN, /* main.main */
	WORK, /* main.work */
	PARK, /* runtime.gopark */
	PANIC, /* runtime.gopanic */
	EXPORTED, /* runtime.Gosched */
	WRAPPER, /* main.(*T).Call, a wrapper of main.work */
	FUNCTIONS
};

static const char *names[FUNCTIONS] = {
	"main.main",       "main.work",       "runtime.gopark",
	"runtime.gopanic", "runtime.Gosched", "main.(*T).Call",
};

struct fixture {
	struct go_program_function functions[FUNCTIONS];
	struct go_process process;
	struct go_file plugin;
	uint64_t frames[16];
	struct goroutine_stack stacks[4];
	struct goroutine items[8];
	struct goroutines goroutines;
	struct goroutine_labels labels;
	struct goroutine_view view;
	struct goroutine_profile made;
};

/* The call in a function, and the instruction before it. */
static uint64_t call_in(enum function function)
{
	return CODE + 0x100 * function + 0x10;
}

static void add_stack(struct fixture *fixture, const uint64_t *frames, uint32_t count,
		      enum goroutine_end end)
{
	struct goroutines *goroutines = &fixture->goroutines;

	if (count)
		memcpy(fixture->frames + goroutines->frame_count, frames, count * sizeof(*frames));
	fixture->stacks[goroutines->stack_count++] =
		(struct goroutine_stack){goroutines->frame_count, count, end};
	goroutines->frame_count += count;
}

static struct goroutine *add_goroutine(struct fixture *fixture, uint64_t id,
				       enum goroutine_status status, uint32_t stack)
{
	struct goroutine *goroutine = &fixture->items[fixture->goroutines.count++];

	*goroutine = (struct goroutine){.id = id, .status = (uint8_t)status, .stack = stack};
	return goroutine;
}

static struct fixture *fixture_new(void)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	for (unsigned int i = 0; i < FUNCTIONS; i++)
		fixture->functions[i] = (struct go_program_function){.start = 0x100 * i,
								     .is_wrapper = i == WRAPPER};
	fixture->process = (struct go_process){
		.pid = getpid(),
		.runtime = {.path = "/bin/app",
			    .file.build_id = "aabb",
			    .program = {.version = "go1.24.4",
					.minor = 24,
					.code_start = CODE,
					.code_end = CODE + 0x100 * FUNCTIONS,
					.functions = fixture->functions,
					.function_count = FUNCTIONS}},
		.others = &fixture->plugin,
		.other_count = 1,
	};
	fixture->plugin = (struct go_file){
		.path = "/lib/plugin.so",
		.file.build_id = "ccdd",
		.program = {.code_start = CODE + 0x100,
			    .code_end = CODE + 0x100 * FUNCTIONS,
			    .functions = fixture->functions,
			    .function_count = FUNCTIONS - 1},
	};
	fixture->goroutines.items = fixture->items;
	fixture->goroutines.stacks = fixture->stacks;
	fixture->goroutines.frames = fixture->frames;
	fixture->view.process = &fixture->process;
	fixture->view.goroutines = &fixture->goroutines;
	fixture->view.labels = &fixture->labels;
	add_stack(fixture, (uint64_t[]){call_in(PARK), call_in(WORK), call_in(MAIN)}, 3,
		  GOROUTINE_COMPLETE);
	add_stack(fixture, (uint64_t[]){call_in(WORK) | GOROUTINE_INTERRUPTED}, 1,
		  GOROUTINE_BAD_FRAME);
	return fixture;
}

static void fixture_free(struct fixture *fixture)
{
	goroutine_profile_clear(&fixture->made);
	free(fixture);
}

/* Gives each location of the profile the function that has its address. */
static void symbolize(struct profile *profile)
{
	for (uint32_t i = 1; i < profile->locations.count; i++) {
		const uint64_t index = (profile->locations.items[i].address - CODE) / 0x100;
		struct profile_function function = {0};
		struct profile_line line;

		if (index >= FUNCTIONS)
			continue;
		function.name = function.system_name = profile_string(profile, names[index]);
		function.file = profile_string(profile, index ? "/src/a.go" : "");
		line = (struct profile_line){.function = profile_function(profile, &function),
					     .line = (int64_t)index + 40};
		profile_set_lines(profile, i, &line, 1);
	}
}

static void make(struct fixture *fixture, bool creators)
{
	assert_int_equal(goroutine_profile_make(&fixture->view, creators, &fixture->made), 0);
}

static int64_t value_of(const struct profile *profile, size_t sample)
{
	return profile_values(profile, sample)[0];
}

static const char *label_of(const struct profile *profile, size_t sample)
{
	const uint32_t set = profile->samples.items[sample].label_set;

	if (!profile->label_sets.items[set].count)
		return "";
	return profile_text(profile, profile->labels.items[*profile_set_labels(profile, set)].text);
}

static void stacks_are_counted(void **state)
{
	struct fixture *fixture = fixture_new();
	const struct profile *profile;
	const uint32_t *locations;

	(void)state;
	add_goroutine(fixture, 1, GOROUTINE_WAITING, 0);
	add_goroutine(fixture, 2, GOROUTINE_WAITING, 0);
	add_goroutine(fixture, 3, GOROUTINE_RUNNABLE, 1);
	add_goroutine(fixture, 4, GOROUTINE_RUNNING, GOROUTINE_NO_STACK);
	add_goroutine(fixture, 5, GOROUTINE_WAITING, 0)->is_system = true;
	fixture->goroutines.running = 1;
	fixture->goroutines.moving = 2;
	fixture->goroutines.unread = 3;
	make(fixture, false);
	profile = fixture->made.profile;
	assert_null(fixture->made.creators);
	assert_int_equal(profile->samples.count, 2);
	assert_int_equal(value_of(profile, 0), 2);
	assert_string_equal(label_of(profile, 0), "");
	assert_int_equal(value_of(profile, 1), 1);
	assert_string_equal(label_of(profile, 1), "unreadable-memory");
	assert_int_equal(fixture->made.stacks[0], profile->samples.items[0].stack);
	assert_int_equal(fixture->made.stacks[1], profile->samples.items[1].stack);
	locations = profile_stack_locations(profile, fixture->made.stacks[0]);
	assert_int_equal(profile->locations.items[locations[0]].address, call_in(PARK));
	assert_int_equal(profile->locations.items[locations[2]].address, call_in(MAIN));
	locations = profile_stack_locations(profile, fixture->made.stacks[1]);
	assert_int_equal(profile->locations.items[locations[0]].address, call_in(WORK));
	assert_string_equal(profile_text(profile, profile->types.items[0].type), "goroutine");
	assert_string_equal(profile_text(profile, profile->types.items[0].unit), "count");
	assert_int_equal(profile->period, 1);
	assert_int_equal(profile->period_type.type, profile->types.items[0].type);
	assert_true(profile->time_ns > INT64_C(1700000000) * NS_PER_SECOND);
	assert_int_equal(profile->mappings.count, 2);
	assert_string_equal(profile_text(profile, profile->mappings.items[1].file), "/bin/app");
	assert_string_equal(profile_text(profile, profile->mappings.items[1].build_id), "aabb");
	assert_string_equal(
		profile_text(profile, profile->comments.items[profile->comments.count - 1]),
		"goroutines: 5; of the runtime, left out 1; without a stack: running 1, changed "
		"whenever read 2; not read 3");
	fixture_free(fixture);
}

/* Of a plugin: each frame has the mapping of its file, and the begin of its function there. */
static void frames_are_in_their_files(void **state)
{
	static const uint64_t plugin = UINT64_C(1) << GOROUTINE_FILE_SHIFT;
	struct fixture *fixture = fixture_new();
	const struct profile *profile;
	const struct profile_location *location;
	const uint32_t *locations;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	add_stack(fixture, (uint64_t[]){plugin | (call_in(WORK) + 2), call_in(MAIN)}, 2,
		  GOROUTINE_COMPLETE);
	add_goroutine(fixture, 2, GOROUTINE_RUNNABLE, 2)->creator = plugin | (call_in(WORK) + 8);
	make(fixture, true);
	profile = fixture->made.profile;
	assert_int_equal(profile->mappings.count, 3);
	assert_string_equal(profile_text(profile, profile->mappings.items[1].file), "/bin/app");
	assert_string_equal(profile_text(profile, profile->mappings.items[2].file),
			    "/lib/plugin.so");
	assert_string_equal(profile_text(profile, profile->mappings.items[2].build_id), "ccdd");
	locations = profile_stack_locations(profile, fixture->made.stacks[2]);
	location = &profile->locations.items[locations[0]];
	assert_int_equal(location->mapping, 2);
	assert_int_equal(location->address, call_in(WORK) + 2);
	assert_int_equal(profile->locations.items[locations[1]].mapping, 1);
	location = &profile->locations.items[fixture->made.creators[0]];
	assert_int_equal(location->mapping, 2);
	assert_int_equal(location->address, call_in(WORK) + 7);
	symbolize(fixture->made.profile);
	goroutine_text_print(&fixture->view, &fixture->made, out);
	fclose(out);
	/* Its first function is at CODE + 0x100. */
	assert_string_equal(text, "goroutine 2 [runnable]:\n"
				  "main.work(...)\n"
				  "\t/src/a.go:41 +0x13\n"
				  "main.main(...)\n"
				  "\t?:40 +0x11\n"
				  "created by main.work\n"
				  "\t/src/a.go:41 +0x18\n");
	free(text);
	fixture_free(fixture);
}

/* Goroutines with the same labels and stack are one sample. */
static void labels_divide_samples(void **state)
{
	struct fixture *fixture = fixture_new();
	union {
		struct stackbeat_go_labels labels;
		uint64_t words[3];
	} set = {{.size = 16, .count = 1}};
	struct goroutine_label_set sets[] = {{.address = 0x1000}, {.address = 0x2000, .at = 2}};
	const struct profile *profile;
	const struct profile_label *label;

	(void)state;
	memcpy(set.labels.bytes, "\1\1kv", 4);
	set.words[2] = (uint64_t)STACKBEAT_GO_LABELS_CUT << 48 | 8;
	fixture->labels = (struct goroutine_labels){
		.sets = sets, .set_count = 2, .words = set.words, .word_count = 3};
	add_goroutine(fixture, 1, GOROUTINE_WAITING, 0)->labels = 0x1000;
	add_goroutine(fixture, 2, GOROUTINE_WAITING, 0);
	add_goroutine(fixture, 3, GOROUTINE_WAITING, 0)->labels = 0x1000;
	add_goroutine(fixture, 4, GOROUTINE_WAITING, 1)->labels = 0x2000;
	add_goroutine(fixture, 5, GOROUTINE_WAITING, 1)->labels = 0x1000;
	make(fixture, false);
	profile = fixture->made.profile;
	assert_int_equal(profile->samples.count, 4);
	assert_int_equal(value_of(profile, 0), 1);
	assert_string_equal(label_of(profile, 0), "");
	assert_int_equal(value_of(profile, 1), 2);
	assert_string_equal(label_of(profile, 1), "v");
	label = &profile->labels
			 .items[*profile_set_labels(profile, profile->samples.items[1].label_set)];
	assert_string_equal(profile_text(profile, label->key), "k");
	assert_int_equal(profile->samples.items[0].stack, profile->samples.items[1].stack);
	for (size_t i = 2; i < 4; i++) {
		const uint32_t found = profile->samples.items[i].label_set;
		const uint32_t *of_set = profile_set_labels(profile, found);

		assert_string_equal(label_of(profile, i), "unreadable-memory");
		assert_int_equal(profile->label_sets.items[found].count, 2);
		label = &profile->labels.items[of_set[1]];
		assert_string_equal(profile_text(profile, label->text), i == 2 ? "v" : "cut");
	}
	fixture_free(fixture);
}

static void goroutines_of_the_runtime_can_be_shown(void **state)
{
	struct fixture *fixture = fixture_new();

	(void)state;
	add_goroutine(fixture, 1, GOROUTINE_WAITING, 0)->is_system = true;
	add_goroutine(fixture, 2, GOROUTINE_WAITING, 1);
	assert_int_equal(goroutine_view_hidden(&fixture->view), 1);
	fixture->view.shows_system = true;
	assert_int_equal(goroutine_view_hidden(&fixture->view), 0);
	make(fixture, false);
	assert_int_equal(fixture->made.profile->samples.count, 2);
	fixture_free(fixture);
}

/* A stack that has no frames, or that nothing shown has. */
static void other_stacks_are_no_samples(void **state)
{
	struct fixture *fixture = fixture_new();

	(void)state;
	add_stack(fixture, NULL, 0, GOROUTINE_NO_RULE);
	add_goroutine(fixture, 1, GOROUTINE_WAITING, 2);
	add_goroutine(fixture, 2, GOROUTINE_WAITING, 1)->is_system = true;
	make(fixture, false);
	assert_int_equal(fixture->made.profile->samples.count, 0);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(fixture->made.stacks[i], 0);
	fixture_free(fixture);
}

/* Compares the text of all goroutines. Frees the fixture. */
static void expect(struct fixture *fixture, const char *expected)
{
	char *printed;
	size_t size;
	FILE *out = open_memstream(&printed, &size);

	make(fixture, true);
	symbolize(fixture->made.profile);
	goroutine_text_print(&fixture->view, &fixture->made, out);
	fclose(out);
	assert_string_equal(printed, expected);
	free(printed);
	fixture_free(fixture);
}

static void text_is_that_of_go(void **state)
{
	struct fixture *fixture = fixture_new();
	struct goroutine *waiting;
	const uint64_t now = (uint64_t)kernel_now_ns(CLOCK_MONOTONIC);

	(void)state;
	add_goroutine(fixture, 1, GOROUTINE_RUNNING, GOROUTINE_NO_STACK)->creator = call_in(MAIN);
	waiting = add_goroutine(fixture, 7, GOROUTINE_WAITING, 0);
	waiting->creator = call_in(MAIN) + 2;
	waiting->parent_id = 1;
	waiting->wait_since = now - (uint64_t)MINUTES(3);
	add_goroutine(fixture, 8, GOROUTINE_WAITING, 0)->is_system = true;
	add_goroutine(fixture, 9, GOROUTINE_RUNNABLE, 1)->creator = call_in(WORK);
	add_goroutine(fixture, 10, GOROUTINE_WAITING, GOROUTINE_NO_STACK)->wait_since = now + 1000;
	add_goroutine(fixture, 11, GOROUTINE_SYSCALL, GOROUTINE_NO_STACK)->wait_since =
		now - (uint64_t)MINUTES(4);
	/* It does not wait any more. */
	add_goroutine(fixture, 12, GOROUTINE_RUNNABLE, GOROUTINE_NO_STACK)->wait_since =
		now - (uint64_t)MINUTES(4);
	expect(fixture, "goroutine 1 [running]:\n"
			"\tgoroutine running on other thread; stack unavailable\n"
			"\n"
			"goroutine 7 [waiting, 3 minutes]:\n"
			"main.work(...)\n"
			"\t/src/a.go:41 +0x11\n"
			"main.main(...)\n"
			"\t?:40 +0x11\n"
			"created by main.main in goroutine 1\n"
			"\t?:40 +0x12\n"
			"\n"
			"goroutine 9 [runnable]:\n"
			"main.work(...)\n"
			"\t/src/a.go:41 +0x10\n"
			"...stack truncated: a frame beyond the stack...\n"
			"created by main.work\n"
			"\t/src/a.go:41 +0x10\n"
			"\n"
			"goroutine 10 [waiting]:\n"
			"\tgoroutine changed whenever it was read; stack unavailable\n"
			"\n"
			"goroutine 11 [syscall, 4 minutes]:\n"
			"\tgoroutine changed whenever it was read; stack unavailable\n"
			"\n"
			"goroutine 12 [runnable]:\n"
			"\tgoroutine changed whenever it was read; stack unavailable\n");
}

/* The functions of the runtime that a program can't call are hidden, and gopanic at the leaf. */
static void functions_of_the_runtime_are_hidden(void **state)
{
	static const uint64_t stack[] = {
		CODE + 0x100 * PANIC + 0x10,    CODE + 0x100 * PANIC + 0x10,
		CODE + 0x100 * EXPORTED + 0x10, CODE + 0x100 * PARK + 0x10,
		CODE + 0x100 * WRAPPER + 0x10,
	};

	(void)state;
	for (unsigned int shows_system = 0; shows_system < 2; shows_system++) {
		struct fixture *fixture = fixture_new();

		add_stack(fixture, stack, 5, GOROUTINE_MAX_DEPTH);
		fixture->view.shows_system = shows_system;
		add_goroutine(fixture, 2, GOROUTINE_PREEMPTED, 2)->creator = call_in(PARK);
		expect(fixture, shows_system ? "goroutine 2 [preempted]:\n"
					       "panic(...)\n"
					       "\t/src/a.go:43 +0x11\n"
					       "panic(...)\n"
					       "\t/src/a.go:43 +0x11\n"
					       "runtime.Gosched(...)\n"
					       "\t/src/a.go:44 +0x11\n"
					       "runtime.gopark(...)\n"
					       "\t/src/a.go:42 +0x11\n"
					       "main.(*T).Call(...)\n"
					       "\t/src/a.go:45\n"
					       "...stack truncated: more frames...\n"
					       "created by runtime.gopark\n"
					       "\t/src/a.go:42 +0x10\n"
					     : "goroutine 2 [preempted]:\n"
					       "panic(...)\n"
					       "\t/src/a.go:43 +0x11\n"
					       "runtime.Gosched(...)\n"
					       "\t/src/a.go:44 +0x11\n"
					       "main.(*T).Call(...)\n"
					       "\t/src/a.go:45\n"
					       "...stack truncated: more frames...\n");
	}
}

/* Of a method, the type and the name begin with capital letters. */
static void exported_functions_of_the_runtime_are_shown(void **state)
{
	static const struct {
		const char *name;
		bool is_shown;
	} cases[] = {
		{"runtime.gosched", false},        {"runtime.Zgosched", true},
		{"runtime.(*Frames).Next", true},  {"runtime.(*frames).Next", false},
		{"runtime.(*Frames).next", false}, {"runtime.Func.Name", true},
		{"runtime.func.Name", false},      {"runtime.[Gosched", false},
		{"runtime.@Gosched", false},       {"nothing", false},
	};
	static const uint64_t stack[] = {CODE + 0x100 * EXPORTED + 0x10,
					 CODE + 0x100 * WORK + 0x10};
	const char *const name = names[EXPORTED];
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *fixture = fixture_new();

		names[EXPORTED] = cases[i].name;
		add_stack(fixture, stack, 2, GOROUTINE_COMPLETE);
		add_goroutine(fixture, 2, GOROUTINE_PREEMPTED, 2);
		snprintf(text, sizeof(text),
			 "goroutine 2 [preempted]:\n%s%smain.work(...)\n\t/src/a.go:41 +0x11\n",
			 cases[i].is_shown ? cases[i].name : "",
			 cases[i].is_shown ? "(...)\n\t/src/a.go:44 +0x11\n" : "");
		expect(fixture, text);
	}
	names[EXPORTED] = name;
}

static void states_have_names(void **state)
{
	static const struct {
		enum goroutine_status status;
		uint8_t reason;
		const char *text;
	} cases[] = {
		{GOROUTINE_IDLE, 0, "idle"},
		{GOROUTINE_SYSCALL, 0, "syscall"},
		{GOROUTINE_DEAD, 0, "dead"},
		{GOROUTINE_COPYSTACK, 0, "copystack"},
		{GOROUTINE_DEADEXTRA, 0, "dead"},
		{(enum goroutine_status)5, 0, "???"},
		{GOROUTINE_RUNNABLE, 2, "runnable"},
		{GOROUTINE_WAITING, 2, "IO wait"},
		{GOROUTINE_LEAKED, 2, "IO wait (leaked)"},
		{GOROUTINE_LEAKED, 0, "leaked (leaked)"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *fixture = fixture_new();
		char text[128];

		fixture->stacks[1].end = GOROUTINE_NO_RULE;
		add_goroutine(fixture, 3, cases[i].status, 1)->wait_reason = cases[i].reason;
		snprintf(text, sizeof(text),
			 "goroutine 3 [%s]:\nmain.work(...)\n\t/src/a.go:41 +0x10\n"
			 "...stack truncated: code that is not Go's...\n",
			 cases[i].text);
		expect(fixture, text);
	}
}

/* Addresses of which nothing is known, and functions that are inlined there. */
static void inlined_functions_are_printed(void **state)
{
	struct fixture *fixture = fixture_new();
	struct profile *profile;
	struct profile_line lines[2];
	char *printed;
	size_t size;
	FILE *out = open_memstream(&printed, &size);

	(void)state;
	add_stack(fixture, (uint64_t[]){0x77, call_in(WORK)}, 2, GOROUTINE_COMPLETE);
	add_goroutine(fixture, 3, GOROUTINE_RUNNABLE, 2)->creator = 0x88;
	make(fixture, true);
	profile = fixture->made.profile;
	for (unsigned int i = 0; i < 2; i++) {
		struct profile_function function = {
			.name = profile_string(profile, i ? "main.work" : "main.inlined"),
			.file = profile_string(profile, "/src/b.go")};

		function.system_name = function.name;
		lines[i] = (struct profile_line){.function = profile_function(profile, &function),
						 .line = i + 1};
	}
	profile_set_lines(profile, profile_stack_locations(profile, fixture->made.stacks[2])[1],
			  lines, 2);
	goroutine_text_print(&fixture->view, &fixture->made, out);
	fclose(out);
	assert_string_equal(printed, "goroutine 3 [runnable]:\n"
				     "0x77(...)\n"
				     "main.inlined(...)\n"
				     "\t/src/b.go:1\n"
				     "main.work(...)\n"
				     "\t/src/b.go:2 +0x11\n");
	free(printed);
	fixture_free(fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_are_counted),
		cmocka_unit_test(frames_are_in_their_files),
		cmocka_unit_test(labels_divide_samples),
		cmocka_unit_test(goroutines_of_the_runtime_can_be_shown),
		cmocka_unit_test(other_stacks_are_no_samples),
		cmocka_unit_test(text_is_that_of_go),
		cmocka_unit_test(functions_of_the_runtime_are_hidden),
		cmocka_unit_test(exported_functions_of_the_runtime_are_shown),
		cmocka_unit_test(states_have_names),
		cmocka_unit_test(inlined_functions_are_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
