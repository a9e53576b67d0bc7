/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A profile with numbers that can be checked by hand. Its stacks, root first, with samples
 * and CPU time in ms; fib calls itself, inner is inlined in outer, [k] is the kernel:
 *
 *	main fib fib fib			3	30	comm app
 *	main outer				1	10	comm app
 *	main outer inner			2	20	comm app
 *	main read [k]entry [k]vfs_read		4	40	comm <io> & "co"
 *	main libx.so+0x1234			1	10	comm <io> & "co"
 */
#ifndef STACKBEAT_TEST_SAMPLE_PROFILE_H
#define STACKBEAT_TEST_SAMPLE_PROFILE_H

#include "pprof/profile.h"

#define EXAMPLE_SAMPLES 11
#define EXAMPLE_CPU 110000000
#define MS 1000000
#define EXAMPLE_COMM "<io> & \"co\""

static inline uint32_t example_mapping(struct profile *profile, uint64_t start, uint64_t limit,
				       uint64_t offset, const char *file, const char *build_id)
{
	return profile_mapping(profile, &(struct profile_mapping){
						.start = start,
						.limit = limit,
						.offset = offset,
						.file = profile_string(profile, file),
						.build_id = profile_string(profile, build_id),
					});
}

static inline uint32_t example_function(struct profile *profile, const char *name, const char *file)
{
	return profile_function(profile, &(struct profile_function){
						 .name = profile_string(profile, name),
						 .system_name = profile_string(profile, name),
						 .file = profile_string(profile, file),
					 });
}

static inline uint32_t example_location(struct profile *profile, uint32_t mapping, uint64_t address,
					const char *inlined, const char *name)
{
	struct profile_line lines[2];
	size_t count = 0;

	if (inlined)
		lines[count++] = (struct profile_line){
			.function = example_function(profile, inlined, "/src/app.h"), .line = 7};
	if (name)
		lines[count++] = (struct profile_line){
			.function = example_function(profile, name, "/src/app.c"), .line = 42};
	return profile_location(profile, mapping, address, lines, count);
}

static inline uint32_t example_label(struct profile *profile, const char *key, const char *text)
{
	return profile_label(profile, &(struct profile_label){
					      .key = profile_string(profile, key),
					      .text = profile_string(profile, text),
				      });
}

static inline uint32_t example_number(struct profile *profile, const char *key, int64_t number,
				      const char *unit)
{
	return profile_label(profile, &(struct profile_label){
					      .key = profile_string(profile, key),
					      .number = number,
					      .unit = profile_string(profile, unit),
				      });
}

/* Adds a sample with `count` labels. */
static inline void example_add(struct profile *profile, const uint32_t *locations, size_t depth,
			       int64_t samples, int64_t cpu_ns, const uint32_t *labels,
			       size_t count)
{
	const int64_t values[PROFILE_RECORDED_TYPES] = {samples, cpu_ns};

	profile_add(profile, profile_stack(profile, locations, depth),
		    profile_label_set(profile, labels, count), values);
}

static inline void example_sample(struct profile *profile, const uint32_t *locations, size_t depth,
				  int64_t samples, const char *comm)
{
	const uint32_t labels[] = {
		example_label(profile, "comm", comm),
		example_number(profile, "pid", 1234, "id"),
	};

	example_add(profile, locations, depth, samples, samples * 10 * MS, labels, 2);
}

/* Returns an empty profile with the types of a recording, which the caller frees. */
static inline struct profile *empty_profile(void)
{
	struct profile *profile = profile_new();

	profile_set_recorded_types(profile);
	return profile;
}

/* Returns the profile above, which the caller frees. */
static inline struct profile *example_profile(void)
{
	struct profile *profile = empty_profile();
	uint32_t app = example_mapping(profile, 0x400000, 0x500000, 0, "/usr/bin/app", "aabb");
	uint32_t libx = example_mapping(profile, 0x7f0000000000, 0x7f0000100000, 0x1000,
					"/usr/lib/libx.so", NULL);
	uint32_t kernel = example_mapping(profile, 0xffffffff80000000, UINT64_MAX, 0,
					  "[kernel.kallsyms]", "ccdd");
	uint32_t main = example_location(profile, app, 0x400100, NULL, "main");
	uint32_t fib = example_location(profile, app, 0x400200, NULL, "fib");
	uint32_t fib_leaf = example_location(profile, app, 0x400204, NULL, "fib");
	uint32_t outer = example_location(profile, app, 0x400300, NULL, "outer");
	uint32_t inner = example_location(profile, app, 0x400304, "inner", "outer");
	uint32_t read = example_location(profile, app, 0x400400, NULL, "read");
	uint32_t entry = example_location(profile, kernel, 0xffffffff80000100, NULL, "entry");
	uint32_t vfs = example_location(profile, kernel, 0xffffffff80000200, NULL, "vfs_read");
	uint32_t unknown = example_location(profile, libx, 0x1234, NULL, NULL);

	example_sample(profile, (uint32_t[]){fib_leaf, fib, fib, main}, 4, 3, "app");
	example_sample(profile, (uint32_t[]){outer, main}, 2, 1, "app");
	example_sample(profile, (uint32_t[]){inner, main}, 2, 2, "app");
	example_sample(profile, (uint32_t[]){vfs, entry, read, main}, 4, 4, EXAMPLE_COMM);
	example_sample(profile, (uint32_t[]){unknown, main}, 2, 1, EXAMPLE_COMM);
	profile_comment(profile, "%d samples", EXAMPLE_SAMPLES);
	profile->time_ns = 1700000000LL * 1000 * MS;
	profile->duration_ns = 1000LL * MS;
	profile->period = 10 * MS;
	return profile;
}

#endif
