// SPDX-License-Identifier: GPL-2.0
/* Profiles of other boots, other machines and other profilers. */
#include "symbolize/offline_source.h"

#include <inttypes.h>

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "sample_profile.h"
#include "sandbox.h"
#include "steps.h"
#include "symbolize/find_binary.h"
#include "symbolize/symbolizer.h"
#include "worker_server.h"

#define START UINT64_C(0xffffffff81000000)
#define MODULE UINT64_C(0xffffffffc0000000)

static struct error error;
static char problems[1024];

static void append_problem(void *arg, const char *path, const char *text)
{
	size_t used = strlen(problems);

	(void)arg;
	snprintf(problems + used, sizeof(problems) - used, "%s: %s\n", path, text);
}

struct mapping {
	uint64_t start, limit, offset;
	uint32_t segment;
	const char *file, *build_id;
};

/* A profile with one location in each of the mappings. */
static struct profile *profile_of(const struct mapping *mappings, const uint64_t *addresses,
				  size_t count)
{
	struct profile *built = empty_profile(), *profile;
	const char *path = in_sandbox("profile.pb.gz");
	uint32_t locations[4];

	for (size_t i = 0; i < count; i++) {
		const struct profile_mapping mapping = {
			.start = mappings[i].start,
			.limit = mappings[i].limit,
			.offset = mappings[i].offset,
			.place.segment = mappings[i].segment,
			.file = profile_string(built, mappings[i].file),
			.build_id = profile_string(built, mappings[i].build_id),
		};

		locations[i] = profile_location(built, profile_mapping(built, &mapping),
						addresses[i], NULL, 0);
	}
	example_add(built, locations, count, 1, 1, NULL, 0);
	assert_int_equal(pprof_write(built, path, NULL, &error), 0);
	profile_free(built);
	profile = pprof_read(path, &error);
	assert_non_null(profile);
	return profile;
}

static struct profile *kernel_profile(void)
{
	const struct mapping mappings[] = {
		{.start = START, .limit = UINT64_MAX, .file = KERNEL_MAPPING},
		{.start = MODULE, .limit = MODULE + 0x1000, .file = "[ext4]"},
	};
	const uint64_t addresses[] = {START + 0x110, MODULE + 0x10};

	return profile_of(mappings, addresses, 2);
}

#define MAPPINGS 50000u
#define LOCATIONS (4 * MAPPINGS)

/* A profile with LOCATIONS locations in MAPPINGS modules of the kernel. */
static struct profile *large_profile(void)
{
	struct profile *profile = empty_profile();

	for (uint32_t i = 0; i < MAPPINGS; i++) {
		uint64_t start = MODULE + UINT64_C(0x1000) * i;
		uint32_t mapping, location;
		char name[32];

		snprintf(name, sizeof(name), "[m%u]", i);
		mapping = example_mapping(profile, start, start + 0x1000, 0, name, "");
		for (uint32_t j = 0; j < LOCATIONS / MAPPINGS; j++) {
			location =
				profile_location(profile, mapping, start + 16 * (j + 1), NULL, 0);
			example_add(profile, &location, 1, 1, 1, NULL, 0);
		}
	}
	return profile;
}

/* The function of a location; "" if it has none. */
static const char *function_at(const struct profile *profile, size_t index)
{
	const struct profile_location *location = &profile->locations.items[index + 1];
	const struct profile_line *lines = profile_lines(profile, location);

	if (!location->line_count)
		return "";
	return profile_text(
		profile, profile->functions.items[lines[location->line_count - 1].function].name);
}

/* Of the --binaries option; NULL: none. */
static const char *binaries;

static void symbolize_with(struct profile *profile, struct kernel *kernel,
			   const char *kallsyms_path)
{
	const struct binary_finder search = {.time = INT64_MAX, .directory = binaries};
	struct kallsyms *kallsyms = NULL;
	const struct symbolize_options options = {
		.sandbox = worker_server(),
		.problem = append_problem,
	};
	struct symbolize_counts counts;
	struct symbol_source source;

	*problems = '\0';
	if (kallsyms_path)
		assert_int_equal(kallsyms_read(kallsyms_path, &kallsyms, &error), 0);
	offline_source_init(&source, profile, &search, kallsyms, kernel);
	assert_int_equal(symbolize_profile(profile, &source, &options, &counts, &error), 0);
	kallsyms_free(kallsyms);
	kernel_free(kernel);
}

static void steps_are_linear_in_mappings_and_locations(void **state)
{
	struct profile *profile = large_profile();
	uint64_t before;

	(void)state;
	write_text(in_sandbox("kallsyms"), "ffffffff81000000 T _text\n"
					   "ffffffff81000100 T vfs_read\n");
	before = steps;
	symbolize_with(profile, kernel_from_kallsyms(in_sandbox("kallsyms")),
		       in_sandbox("kallsyms"));
	assert_non_null(strstr(problems, "its load address is unknown"));
	assert_in_range(steps - before, LOCATIONS, 300 * (MAPPINGS + LOCATIONS));
	profile_free(profile);
}

/* As of a hostile file: many places of one file without a build ID. */
static void steps_are_linear_in_mappings_of_one_path(void **state)
{
	struct profile *profile = empty_profile();
	uint64_t before;

	(void)state;
	for (uint64_t i = 0; i < MAPPINGS; i++)
		example_mapping(profile, 0x10000 * i, 0x10000 * i + 0x1000, 0, "/nowhere/program",
				"");
	before = steps;
	symbolize_with(profile, kernel_new(sandbox), NULL);
	assert_in_range(steps - before, MAPPINGS, 300 * MAPPINGS);
	profile_free(profile);
}

/* The files of a kernel loaded `bias` higher, and its module twice as much. */
static void write_kernel(uint64_t bias)
{
	char text[512];

	run("mkdir -p %s %s", in_sandbox("proc"), in_sandbox("sys/kernel"));
	snprintf(text, sizeof(text),
		 "%" PRIx64 " T _text\n%" PRIx64 " T vfs_read\n%" PRIx64 " T _etext\n%" PRIx64
		 " t ext4_read\t[ext4]\n",
		 START + bias, START + bias + 0x100, START + bias + 0x200, MODULE + 2 * bias);
	write_text(in_sandbox("proc/kallsyms"), text);
	snprintf(text, sizeof(text), "ext4 4096 1 - Live 0x%" PRIx64 "\n", MODULE + 2 * bias);
	write_text(in_sandbox("proc/modules"), text);
}

static void relocated_kernel_and_module(void **state)
{
	struct profile *profile;

	(void)state;
	for (uint64_t bias = 0; bias <= 0x5000000; bias += 0x5000000) {
		write_kernel(bias);
		profile = kernel_profile();
		symbolize_with(profile, kernel_new(sandbox), in_sandbox("proc/kallsyms"));
		assert_string_equal(problems, "");
		assert_string_equal(function_at(profile, 0), "vfs_read");
		assert_string_equal(function_at(profile, 1), "ext4_read");
		profile_free(profile);

		/* kallsyms alone has no load addresses of modules. */
		profile = kernel_profile();
		symbolize_with(profile, kernel_from_kallsyms(in_sandbox("proc/kallsyms")),
			       in_sandbox("proc/kallsyms"));
		assert_string_equal(function_at(profile, 0), "vfs_read");
		assert_string_equal(function_at(profile, 1), bias ? "" : "ext4_read");
		assert_int_equal(!strstr(problems, "its load address is unknown"), !bias);
		profile_free(profile);
	}
}

/* As a merged profile has them: the module comes from the first one. */
static void profile_may_have_two_kernels(void **state)
{
	const struct mapping mappings[] = {
		{.start = START, .limit = UINT64_MAX, .file = KERNEL_MAPPING},
		{.start = START + 0x1000000,
		 .limit = UINT64_MAX,
		 .file = KERNEL_MAPPING,
		 .build_id = "0102"},
		{.start = MODULE, .limit = MODULE + 0x1000, .file = "[ext4]"},
	};
	const uint64_t addresses[] = {START + 0x110, START + 0x1000110, MODULE + 0x10};
	struct profile *profile = profile_of(mappings, addresses, 3);

	(void)state;
	write_kernel(0);
	symbolize_with(profile, kernel_from_kallsyms(in_sandbox("proc/kallsyms")),
		       in_sandbox("proc/kallsyms"));
	assert_string_equal(function_at(profile, 0), "vfs_read");
	assert_string_equal(function_at(profile, 2), "ext4_read");
	profile_free(profile);
}

static void kernel_of_another_build_is_rejected(void **state)
{
	static const uint32_t notes[] = {4, 2, 3, 0x00554e47, 0x0201};
	const struct mapping mapping = {
		.start = START, .limit = UINT64_MAX, .file = KERNEL_MAPPING, .build_id = "0103"};
	const uint64_t address = START + 0x110;
	struct profile *profile;

	(void)state;
	write_kernel(0);
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	profile = profile_of(&mapping, &address, 1);
	symbolize_with(profile, kernel_new(sandbox), in_sandbox("proc/kallsyms"));
	assert_string_equal(function_at(profile, 0), "");
	assert_non_null(strstr(problems, "is of another build"));
	profile_free(profile);
}

/* As most profilers write them: memory addresses, and the mapped part of the file. */
static void addresses_of_memory_are_converted_to_offsets(void **state)
{
	struct mapping mapping = {.start = 0x7f0000000000, .limit = 0x7f0000001000};
	uint64_t address = 0x7f0000000008;
	struct profile *profile;
	FILE *file;

	(void)state;
	write_text(in_sandbox("source.s"), ".text\n.globl first\n.type first, @function\n"
					   "first: .skip 16, 0x90\n.size first, 16\n");
	run("cd '%s' && cc -nostdlib -shared -Wl,-z,separate-code -Wl,-Ttext=0x5000 "
	    "-Wl,--build-id=0x0123 -o a.so source.s && readelf -lW a.so | "
	    "awk '$1 == \"LOAD\" && $8 == \"E\" {print $2}' >offset",
	    sandbox);
	file = fopen(in_sandbox("offset"), "r");
	assert_int_equal(fscanf(file, "%" SCNx64, &mapping.offset), 1);
	fclose(file);
	mapping.file = in_sandbox("a.so");
	mapping.build_id = "0123";
	profile = profile_of(&mapping, &address, 1);
	symbolize_with(profile, kernel_new(sandbox), NULL);
	assert_string_equal(problems, "");
	assert_string_equal(function_at(profile, 0), "first");
	profile_free(profile);
}

/* As while it records: where the path of a file is unknown, its build ID is enough. */
static void file_without_a_path_is_found_by_its_build_id(void **state)
{
	struct mapping mapping = {.limit = UINT64_MAX, .file = UNKNOWN_FILE, .build_id = "0123"};
	const uint64_t address = 0x5008;
	struct profile *profile = profile_of(&mapping, &address, 1);

	(void)state;
	write_text(in_sandbox("source.s"), ".text\n.globl first\n.type first, @function\n"
					   "first: .skip 16, 0x90\n.size first, 16\n");
	run("cd '%s' && mkdir -p .build-id/01 && cc -nostdlib -shared -Wl,-Ttext=0x5000 "
	    "-Wl,--build-id=0x0123 -o .build-id/01/23 source.s",
	    sandbox);
	binaries = sandbox;
	symbolize_with(profile, kernel_new(sandbox), NULL);
	binaries = NULL;
	assert_string_equal(problems, "");
	assert_string_equal(function_at(profile, 0), "first");
	profile_free(profile);
	mapping.build_id = NULL;
	profile = profile_of(&mapping, &address, 1);
	symbolize_with(profile, kernel_new(sandbox), NULL);
	assert_string_equal(problems, "");
	assert_string_equal(function_at(profile, 0), "");
	profile_free(profile);
}

/* Two programs that had the same path and no build ID: the file there now may be either, or none.
 */
static void ambiguous_files_are_not_symbolized(void **state)
{
	const uint64_t addresses[] = {0x1000, 0x1000};
	struct mapping mappings[] = {
		{.limit = UINT64_MAX, .file = "/nowhere/program"},
		{.limit = UINT64_MAX, .file = "/nowhere/program", .segment = 1},
	};
	struct profile *profile = profile_of(mappings, addresses, 2);
	const char *problem;

	(void)state;
	assert_int_equal(profile->mappings.count, 1 + 2);
	symbolize_with(profile, kernel_new(sandbox), NULL);
	problem = strstr(problems, "the profile has several files");
	assert_non_null(problem);
	assert_null(strstr(problem + 1, "the profile has several files"));
	assert_null(strstr(problems, "is not there any more"));
	profile_free(profile);
	/* With build IDs they are distinct. */
	mappings[0].build_id = "1234";
	mappings[1].build_id = "5678";
	profile = profile_of(mappings, addresses, 2);
	symbolize_with(profile, kernel_new(sandbox), NULL);
	assert_null(strstr(problems, "the profile has several files"));
	profile_free(profile);
}

#define OFFLINE_TEST(test) cmocka_unit_test_setup_teardown(test, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OFFLINE_TEST(relocated_kernel_and_module),
		OFFLINE_TEST(profile_may_have_two_kernels),
		OFFLINE_TEST(kernel_of_another_build_is_rejected),
		OFFLINE_TEST(addresses_of_memory_are_converted_to_offsets),
		OFFLINE_TEST(file_without_a_path_is_found_by_its_build_id),
		OFFLINE_TEST(ambiguous_files_are_not_symbolized),
		OFFLINE_TEST(steps_are_linear_in_mappings_and_locations),
		OFFLINE_TEST(steps_are_linear_in_mappings_of_one_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
