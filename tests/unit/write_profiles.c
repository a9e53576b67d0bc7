// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: write_profiles DIRECTORY
 *
 * Writes profiles for the tests of decoders and flame graphs: example.pb.gz, deep.pb.gz (one call
 * chain of 1,000 with branches), random.pb.gz (5,000 stacks with recursion, inlined, kernel and
 * unresolved frames, and hostile names; the same ones each time).
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/error.h"
#include "pprof/pprof_writer.h"
#include "sample_profile.h"

#define DEEP 1000
#define RANDOM_STACKS 5000
#define RANDOM_DEPTH_MAX 60
#define RANDOM_LOCATIONS 600

static uint32_t random_below(uint32_t limit)
{
	static uint64_t state = 42;

	state = state * 6364136223846793005 + 1442695040888963407;
	return (state >> 33) % limit;
}

static struct profile *deep_profile(void)
{
	struct profile *profile = empty_profile();
	uint32_t mapping = example_mapping(profile, 0x400000, 0x500000, 0, "/usr/bin/deep", NULL);
	uint32_t stack[DEEP];
	char name[32];
	size_t i;

	for (i = 0; i < DEEP; i++) {
		snprintf(name, sizeof(name), "level_%zu", i);
		stack[DEEP - 1 - i] = example_location(profile, mapping, 0x400000 + i, NULL, name);
	}
	for (i = 0; i < DEEP; i += 50)
		example_sample(profile, stack + i, DEEP - i, 1 + (int64_t)i / 100, "deep");
	return profile;
}

static const char *const hostile_names[] = {
	"operator<< <char, std::char_traits<char> >(std::ostream&)",
	"</title><script>alert(1)</script>",
	"]]>&amp;&#0;\"'",
	"bad\xff\xfe\x80utf8",
	"\x1b[31mred\x07",
	"(inline) name  with  spaces ",
	"函数名 ünïcödé 🔥",
	"crate::module::{{closure}}::h0123456789abcdef",
};

static uint32_t random_location(struct profile *profile, const uint32_t *mappings)
{
	uint32_t kind = random_below(10), number = random_below(80);
	uint64_t address = 0x1000 + random_below(RANDOM_LOCATIONS);
	char name[32], inlined[32];

	snprintf(name, sizeof(name), "function_%u", number);
	snprintf(inlined, sizeof(inlined), "inlined_%u", number);
	if (kind == 0)
		return example_location(profile, mappings[2], address, NULL, NULL);
	if (kind == 1)
		return example_location(profile, 0, address, NULL, NULL);
	if (kind == 2)
		return example_location(profile, mappings[0], address, NULL,
					hostile_names[number % 8]);
	if (kind < 5)
		return example_location(profile, mappings[1], address, NULL, name);
	return example_location(profile, mappings[0], address, kind == 5 ? inlined : NULL, name);
}

static struct profile *random_profile(void)
{
	struct profile *profile = empty_profile();
	uint32_t mappings[3], stack[RANDOM_DEPTH_MAX];
	size_t i, depth;

	mappings[0] = example_mapping(profile, 0x1000, 0x2000, 0, "/usr/bin/random", "0123");
	mappings[1] = example_mapping(profile, 0x1000, 0x2000, 0, "[kernel.kallsyms]", "4567");
	mappings[2] =
		example_mapping(profile, 0x1000, 0x2000, 0, "/opt/some dir/libstripped.so", NULL);
	for (i = 0; i < RANDOM_DEPTH_MAX; i++)
		stack[i] = random_location(profile, mappings);
	for (i = 0; i < RANDOM_STACKS; i++) {
		depth = 1 + random_below(RANDOM_DEPTH_MAX - 1);
		stack[RANDOM_DEPTH_MAX - 1 - random_below(depth)] =
			random_location(profile, mappings);
		example_sample(profile, stack + RANDOM_DEPTH_MAX - depth, depth,
			       1 + random_below(100), random_below(2) ? "random" : "other <comm>");
	}
	return profile;
}

static int write_profile(struct profile *profile, const char *directory, const char *name)
{
	struct error error;
	char path[4096];
	int err;

	snprintf(path, sizeof(path), "%s/%s.pb.gz", directory, name);
	err = pprof_write(profile, path, NULL, &error);
	if (err)
		fprintf(stderr, "write_profiles: %s\n", error.text);
	profile_free(profile);
	return err;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "Usage: write_profiles DIRECTORY\n");
		return 2;
	}
	return write_profile(example_profile(), argv[1], "example") ||
	       write_profile(deep_profile(), argv[1], "deep") ||
	       write_profile(random_profile(), argv[1], "random");
}
