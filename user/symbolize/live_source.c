// SPDX-License-Identifier: GPL-2.0
#include "symbolize/live_source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "pprof/profile.h"
#include "process/address_space.h"
#include "process/mapped_files.h"
#include "runtime/perf_map_watcher.h"

/* Where files seem to be mapped whose addresses are offsets. 0 would mean virtual addresses. */
#define OFFSETS_START UINT64_C(0x1000)

/* Describing */

static const char *segment_name(uint32_t segment)
{
	switch (segment) {
	case SEGMENT_ANON:
		return "[anon]";
	case SEGMENT_VSYSCALL:
		return "[vsyscall]";
	case SEGMENT_MERGED:
		return "[merged]";
	default:
		return "[vdso]";
	}
}

static void describe_mapping(const struct live_source *live, struct profile *profile,
			     uint32_t number)
{
	struct profile_mapping mapping = {
		.limit = UINT64_MAX,
		.source = profile->mappings.items[number].source,
	};
	uint32_t segment = source_segment(mapping.source);
	const struct mapped_file *file;
	bool is_offset;

	if (segment == SEGMENT_KERNEL)
		return;
	file = segment_file(live->files, segment, &is_offset);
	if (!file) {
		mapping.file = profile_string(profile, segment_name(segment));
	} else {
		mapping.file = profile_string(profile, *file->path ? file->path : "[file]");
		mapping.build_id = profile_string(profile, file->build_id);
		/* The offsets in a vdso are its addresses. */
		if (is_offset && strcmp(file->path, "[vdso]"))
			mapping.start = OFFSETS_START;
	}
	profile_set_mapping(profile, number, &mapping);
}

static uint32_t describe_kernel(const struct live_source *live, struct profile *profile,
				uint64_t address)
{
	const struct kernel_mapping *from = kernel_mapping_at(live->kernel, address);
	const struct profile_mapping mapping = {
		.start = from->start,
		.limit = from->limit,
		.file = profile_string(profile, from->name),
		.build_id = profile_string(profile, from->build_id),
	};

	return profile_mapping(profile, &mapping);
}

int live_source_describe(const struct live_source *live, struct profile *profile)
{
	const size_t mapping_count = profile->mappings.count;

	for (size_t i = 1; i < mapping_count; i++)
		describe_mapping(live, profile, (uint32_t)i);
	for (size_t i = 1; i < profile->locations.count; i++) {
		const struct profile_location *location = &profile->locations.items[i];
		const struct profile_mapping *mapping = &profile->mappings.items[location->mapping];

		if (source_segment(mapping->source) == SEGMENT_KERNEL)
			profile_move_location(profile, (uint32_t)i,
					      describe_kernel(live, profile, location->address),
					      location->address);
		else if (mapping->start)
			profile_move_location(profile, (uint32_t)i, location->mapping,
					      location->address + mapping->start);
	}
	return profile->error;
}

/* Opening */

/* Returns the fd of the perf map of a mapping, or -1. */
static int find_perf_map(const struct live_source *live, const struct symbol_mapping *mapping)
{
	uint32_t id = source_perf_map(mapping->source);

	for (size_t i = 0; id && i < live->perf_map_count; i++) {
		if (live->perf_maps[i].id == id)
			return live->perf_maps[i].fd;
	}
	return -1;
}

static enum symbol_kind find_kind(void *arg, const struct symbol_mapping *mapping)
{
	if (source_segment(mapping->source) >= SEGMENT_FILES)
		return SYMBOLS_FILE;
	return find_perf_map(arg, mapping) >= 0 ? SYMBOLS_PERF_MAP : SYMBOLS_NONE;
}

static int open_file(const struct live_source *live, const struct symbol_mapping *mapping,
		     struct error *error)
{
	bool is_offset;
	const struct mapped_file *file =
		segment_file(live->files, source_segment(mapping->source), &is_offset);
	int fd = mapped_file_open(live->files, file);

	if (fd < 0 && file->problem && *file->problem)
		error_set(error, -fd, "%s", file->problem);
	return fd;
}

static int open_mapping(void *arg, const struct symbol_mapping *mapping, unsigned int candidate,
			struct error *error)
{
	if (candidate)
		return -ENOENT;
	if (source_segment(mapping->source) >= SEGMENT_FILES)
		return open_file(arg, mapping, error);
	return find_perf_map(arg, mapping);
}

void live_source_init(struct symbol_source *source, const struct live_source *live,
		      const struct kallsyms *kallsyms, const char *root)
{
	struct utsname self;

	*source = (struct symbol_source){
		.kallsyms = kallsyms,
		.kernel = live->kernel,
		.root = root,
		.kind = find_kind,
		.open = open_mapping,
		.arg = (void *)live,
	};
	if (!uname(&self))
		snprintf(source->release, sizeof(source->release), "%s", self.release);
}
