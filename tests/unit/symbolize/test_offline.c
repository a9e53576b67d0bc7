// SPDX-License-Identifier: GPL-2.0
/* Names for profiles of other boots, other machines and other profilers. */
#include "symbolize/offline.h"

#include <inttypes.h>

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "pprof/pprof_writer.h"
#include "sandbox.h"
#include "symbolize/find_binary.h"

#define START UINT64_C(0xffffffff81000000)
#define MODULE UINT64_C(0xffffffffc0000000)

static struct error error;
static char problems[1024];

static void take_problem(void *arg, const char *path, const char *text)
{
	size_t used = strlen(problems);

	(void)arg;
	snprintf(problems + used, sizeof(problems) - used, "%s: %s\n", path, text);
}

static void take_missing(void *arg, const char *path, const char *build_id, size_t count)
{
	(void)arg, (void)path, (void)build_id, (void)count;
}

/* A profile with one location in each of the mappings. */
static struct pprof_profile *profile_of(const struct pprof_mapping *mappings,
					const uint64_t *addresses, size_t count)
{
	struct pprof_builder *builder = pprof_new();
	const char *path = in_sandbox("profile.pb.gz");
	struct pprof_profile *profile;
	uint32_t locations[4];

	for (size_t i = 0; i < count; i++)
		locations[i] = pprof_location(builder, pprof_mapping(builder, &mappings[i]),
					      addresses[i], NULL, 0);
	pprof_sample(builder, locations, count, 1, 1, NULL, 0);
	pprof_set_time(builder, INT64_C(4000000000000000000), 1, 1);
	assert_int_equal(pprof_write(builder, path, NULL, &error), 0);
	pprof_free(builder);
	profile = pprof_read(path, &error);
	assert_non_null(profile);
	return profile;
}

static struct pprof_profile *kernel_profile(void)
{
	const struct pprof_mapping mappings[] = {
		{.start = START, .limit = UINT64_MAX, .file = KERNEL_MAPPING},
		{.start = MODULE, .limit = MODULE + 0x1000, .file = "[ext4]"},
	};
	const uint64_t addresses[] = {START + 0x110, MODULE + 0x10};

	return profile_of(mappings, addresses, 2);
}

/* The name of a location; "" where it has none. */
static const char *name_of(const struct pprof_profile *profile, size_t location)
{
	const Perftools__Profiles__Location *found = profile->message->location[location];

	if (!found->n_line)
		return "";
	return pprof_text(
		profile,
		profile->message->function[found->line[found->n_line - 1]->function_id - 1]->name);
}

static void rename_with(struct pprof_profile *profile, struct kernel *kernel,
			const char *kallsyms_path)
{
	const struct binary_finder search = {.time = INT64_MAX};
	struct kallsyms *kallsyms = NULL;
	struct offline_symbolizer renaming = {
		.search = &search,
		.kernel = kernel,
		.options.problem = take_problem,
		.missing = take_missing,
	};
	struct offline_counts counts;

	*problems = '\0';
	if (kallsyms_path)
		assert_int_equal(kallsyms_read(kallsyms_path, &kallsyms, &error), 0);
	renaming.kallsyms = kallsyms;
	assert_int_equal(offline_symbolize(&renaming, profile, &counts, &error), 0);
	kallsyms_free(kallsyms);
	kernel_free(kernel);
}

/* As a kernel would tell that lies `shift` further, and its module twice as far. */
static void write_kernel(uint64_t shift)
{
	char text[512];

	run("mkdir -p %s %s", in_sandbox("proc"), in_sandbox("sys/kernel"));
	snprintf(text, sizeof(text),
		 "%" PRIx64 " T _text\n%" PRIx64 " T vfs_read\n%" PRIx64 " T _etext\n%" PRIx64
		 " t ext4_read\t[ext4]\n",
		 START + shift, START + shift + 0x100, START + shift + 0x200, MODULE + 2 * shift);
	write_text(in_sandbox("proc/kallsyms"), text);
	snprintf(text, sizeof(text), "ext4 4096 1 - Live 0x%" PRIx64 "\n", MODULE + 2 * shift);
	write_text(in_sandbox("proc/modules"), text);
}

static void test_a_kernel_that_lies_elsewhere(void **state)
{
	struct pprof_profile *profile;

	(void)state;
	for (uint64_t shift = 0; shift <= 0x5000000; shift += 0x5000000) {
		write_kernel(shift);
		profile = kernel_profile();
		rename_with(profile, kernel_new(sandbox), in_sandbox("proc/kallsyms"));
		assert_string_equal(problems, "");
		assert_string_equal(name_of(profile, 0), "vfs_read");
		assert_string_equal(name_of(profile, 1), "ext4_read");
		pprof_profile_free(profile);

		/* Symbols alone do not tell where modules begin. */
		profile = kernel_profile();
		rename_with(profile, kernel_from_kallsyms(in_sandbox("proc/kallsyms")),
			    in_sandbox("proc/kallsyms"));
		assert_string_equal(name_of(profile, 0), "vfs_read");
		assert_string_equal(name_of(profile, 1), shift ? "" : "ext4_read");
		assert_int_equal(!strstr(problems, "its load address is unknown"), !shift);
		pprof_profile_free(profile);
	}
}

static void test_another_kernel(void **state)
{
	static const uint32_t notes[] = {4, 2, 3, 0x00554e47, 0x0201};
	const struct pprof_mapping mapping = {
		.start = START, .limit = UINT64_MAX, .file = KERNEL_MAPPING, .build_id = "0103"};
	const uint64_t address = START + 0x110;
	struct pprof_profile *profile;

	(void)state;
	write_kernel(0);
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	profile = profile_of(&mapping, &address, 1);
	rename_with(profile, kernel_new(sandbox), in_sandbox("proc/kallsyms"));
	assert_string_equal(name_of(profile, 0), "");
	assert_non_null(strstr(problems, "is of another build"));
	pprof_profile_free(profile);
}

/* As most profilers write them: addresses of memory, and what of the file is there. */
static void test_mappings_that_are_not_normalized(void **state)
{
	struct pprof_mapping mapping = {.start = 0x7f0000000000, .limit = 0x7f0000001000};
	uint64_t address = 0x7f0000000008;
	struct pprof_profile *profile;
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
	rename_with(profile, kernel_new(sandbox), NULL);
	assert_string_equal(problems, "");
	assert_string_equal(name_of(profile, 0), "first");
	pprof_profile_free(profile);
}

/* Two programs that had one path, and tell no build id: what is there now may be either, or none.
 */
static void test_files_that_are_told_alike(void **state)
{
	const uint64_t addresses[] = {0x1000, 0x1000};
	struct pprof_mapping mappings[] = {
		{.limit = UINT64_MAX, .file = "/nowhere/program"},
		{.limit = UINT64_MAX, .file = "/nowhere/program", .number = 1},
	};
	struct pprof_profile *profile = profile_of(mappings, addresses, 2);
	const char *problem;

	(void)state;
	assert_int_equal(profile->message->n_mapping, 2);
	rename_with(profile, kernel_new(sandbox), NULL);
	problem = strstr(problems, "it was several files");
	assert_non_null(problem);
	assert_null(strstr(problem + 1, "it was several files"));
	assert_null(strstr(problems, "is not there any more"));
	pprof_profile_free(profile);
	/* Not so those of which more is told. */
	mappings[0].build_id = "1234";
	mappings[1].build_id = "5678";
	profile = profile_of(mappings, addresses, 2);
	rename_with(profile, kernel_new(sandbox), NULL);
	assert_null(strstr(problems, "it was several files"));
	pprof_profile_free(profile);
}

#define RENAMING_TEST(test) cmocka_unit_test_setup_teardown(test, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RENAMING_TEST(test_a_kernel_that_lies_elsewhere),
		RENAMING_TEST(test_another_kernel),
		RENAMING_TEST(test_mappings_that_are_not_normalized),
		RENAMING_TEST(test_files_that_are_told_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
