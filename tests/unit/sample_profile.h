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

#include "pprof/pprof_writer.h"

#define EXAMPLE_SAMPLES 11
#define EXAMPLE_CPU 110000000
#define MS 1000000
#define EXAMPLE_COMM "<io> & \"co\""

static inline uint32_t example_location(struct pprof_builder *builder, uint32_t mapping,
					uint64_t address, const char *inlined, const char *name)
{
	struct pprof_line lines[2];
	size_t count = 0;

	if (inlined)
		lines[count++] = (struct pprof_line){
			pprof_function(builder, inlined, inlined, "/src/app.h", 0), 7};
	if (name)
		lines[count++] = (struct pprof_line){
			pprof_function(builder, name, name, "/src/app.c", 0), 42};
	return pprof_location(builder, mapping, address, lines, count);
}

static inline void example_sample(struct pprof_builder *builder, const uint32_t *locations,
				  size_t depth, int64_t samples, const char *comm)
{
	const struct pprof_label labels[] = {
		{.key = "comm", .text = comm},
		{.key = "pid", .number = 1234, .unit = "id"},
	};

	pprof_sample(builder, locations, depth, samples, samples * 10 * MS, labels, 2);
}

/* Returns a builder, which the caller frees. */
static inline struct pprof_builder *example_profile(void)
{
	struct pprof_builder *builder = pprof_new();
	const struct pprof_mapping files[] = {
		{0x400000, 0x500000, 0, "/usr/bin/app", "aabb", 0},
		{0x7f0000000000, 0x7f0000100000, 0x1000, "/usr/lib/libx.so", NULL, 0},
		{0xffffffff80000000, UINT64_MAX, 0, "[kernel.kallsyms]", "ccdd", 0},
	};
	uint32_t app = pprof_mapping(builder, &files[0]);
	uint32_t libx = pprof_mapping(builder, &files[1]);
	uint32_t kernel = pprof_mapping(builder, &files[2]);
	uint32_t main = example_location(builder, app, 0x400100, NULL, "main");
	uint32_t fib = example_location(builder, app, 0x400200, NULL, "fib");
	uint32_t fib_leaf = example_location(builder, app, 0x400204, NULL, "fib");
	uint32_t outer = example_location(builder, app, 0x400300, NULL, "outer");
	uint32_t inner = example_location(builder, app, 0x400304, "inner", "outer");
	uint32_t read = example_location(builder, app, 0x400400, NULL, "read");
	uint32_t entry = example_location(builder, kernel, 0xffffffff80000100, NULL, "entry");
	uint32_t vfs = example_location(builder, kernel, 0xffffffff80000200, NULL, "vfs_read");
	uint32_t unknown = example_location(builder, libx, 0x1234, NULL, NULL);

	example_sample(builder, (uint32_t[]){fib_leaf, fib, fib, main}, 4, 3, "app");
	example_sample(builder, (uint32_t[]){outer, main}, 2, 1, "app");
	example_sample(builder, (uint32_t[]){inner, main}, 2, 2, "app");
	example_sample(builder, (uint32_t[]){vfs, entry, read, main}, 4, 4, EXAMPLE_COMM);
	example_sample(builder, (uint32_t[]){unknown, main}, 2, 1, EXAMPLE_COMM);
	pprof_comment(builder, "%d samples", EXAMPLE_SAMPLES);
	pprof_set_time(builder, 1700000000LL * 1000 * MS, 1000 * MS, 10 * MS);
	return builder;
}

#endif
