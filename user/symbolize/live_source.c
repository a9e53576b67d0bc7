// SPDX-License-Identifier: GPL-2.0
#include "symbolize/live_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "debuginfo/elf_symbols.h"
#include "debuginfo/kernel_image.h"
#include "lib/build_id.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/timed_call.h"
#include "pprof/profile.h"
#include "process/address_space.h"
#include "process/mapped_files.h"
#include "runtime/perf_map_watcher.h"

/* Where files seem to be mapped whose addresses are offsets. 0 would mean virtual addresses. */
#define OFFSETS_START UINT64_C(0x1000)

/* Files */

/* How long the headers of a file may take: a file system may hang. */
#define HEADERS_TIMEOUT_NS (5 * NS_PER_SECOND)

struct headers_call {
	int fd; /* owned */
	struct elf_file elf;
};

static void run_headers_call(void *arg)
{
	struct headers_call *call = arg;
	struct error problem;

	elf_read(&call->elf, call->fd, NULL, 0, false, &problem);
}

static void drop_headers_call(void *arg)
{
	struct headers_call *call = arg;

	close(call->fd);
	elf_clear(&call->elf);
	free(call);
}

/* Reads the headers of a file. Returns false, with `elf` empty, if its file system hangs. */
static bool read_elf_headers(int fd, struct elf_file *elf)
{
	struct headers_call *call = calloc(1, sizeof(*call));
	int err;

	*elf = (struct elf_file){0};
	if (!call)
		return false;
	call->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	err = timed_call(run_headers_call, drop_headers_call, call, HEADERS_TIMEOUT_NS);
	if (err == -ETIMEDOUT)
		return false; /* the thread owns the call */
	if (!err) {
		*elf = call->elf;
		call->elf = (struct elf_file){0};
	}
	drop_headers_call(call);
	return !err;
}

/* Returns whether a file has a build ID; any file has "". */
static bool has_build_id(int fd, const char *build_id)
{
	struct elf_file elf;
	bool matches;

	if (!*build_id)
		return true;
	matches = read_elf_headers(fd, &elf) && build_id_equal(elf.build_id, build_id);
	elf_clear(&elf);
	return matches;
}

/* Opens the first candidate that proves to be the mapped file. Returns an fd or an errno value. */
static int open_mapped_file(const struct mapped_files *files, const struct mapped_file *file,
			    struct error *error)
{
	bool changed = false;
	int fd = 0;

	for (unsigned int i = 0; fd != -ENOENT; i++) {
		fd = mapped_file_open_candidate(files, file, i, error);
		if (fd >= 0 && has_build_id(fd, file->build_id))
			return fd;
		changed = changed || fd >= 0;
		if (fd >= 0)
			close(fd);
	}
	if (changed && !*file->problem)
		return error_set(error, ESTALE, "was changed during the recording");
	return fd;
}

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

/* The headers of the files whose addresses are offsets, by mapping. */
struct headers {
	struct elf_file *files;
	size_t count;
};

static void read_headers(const struct live_source *live, struct mapped_file *file,
			 struct elf_file *elf)
{
	struct error problem;
	int fd = open_mapped_file(live->files, file, &problem);

	if (fd < 0)
		return;
	if (read_elf_headers(fd, elf) && *elf->build_id)
		mapped_file_set_build_id(live->files, file, elf->build_id);
	close(fd);
}

static void describe_mapping(const struct live_source *live, struct profile *profile,
			     uint32_t number, struct elf_file *headers)
{
	struct profile_mapping mapping = {
		.limit = UINT64_MAX,
		.source = profile->mappings.items[number].source,
	};
	uint32_t segment = source_segment(mapping.source);
	struct mapped_file *file;
	bool is_offset;

	if (segment == SEGMENT_KERNEL)
		return;
	file = segment_file(live->files, segment, &is_offset);
	if (!file) {
		mapping.file = profile_string(profile, segment_name(segment));
	} else {
		/* The offsets in a vdso are its addresses. */
		is_offset = is_offset && strcmp(file->path, "[vdso]");
		if (is_offset)
			read_headers(live, file, headers);
		mapping.file = profile_string(profile, *file->path ? file->path : "[file]");
		mapping.build_id = profile_string(profile, file->build_id);
		if (is_offset)
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

/* Moves a location from an offset to the ELF virtual address if the headers of the file have it. */
static void describe_offset(struct profile *profile, uint32_t number,
			    const struct elf_file *headers)
{
	const struct profile_location *location = &profile->locations.items[number];
	struct profile_mapping mapping = profile->mappings.items[location->mapping];
	uint64_t vaddr;

	if (!elf_vaddr(headers, location->address, &vaddr)) {
		profile_move_location(profile, number, location->mapping,
				      location->address + mapping.start);
		return;
	}
	mapping.start = 0;
	mapping.source = segment_source(source_segment(mapping.source) - 1, 0);
	profile_move_location(profile, number, profile_mapping(profile, &mapping), vaddr);
}

static void describe_locations(const struct live_source *live, struct profile *profile,
			       const struct headers *headers)
{
	for (size_t i = 1; i < profile->locations.count; i++) {
		const struct profile_location *location = &profile->locations.items[i];
		const struct profile_mapping *mapping = &profile->mappings.items[location->mapping];

		if (source_segment(mapping->source) == SEGMENT_KERNEL)
			profile_move_location(profile, (uint32_t)i,
					      describe_kernel(live, profile, location->address),
					      location->address);
		else if (mapping->start && location->mapping < headers->count)
			describe_offset(profile, (uint32_t)i, &headers->files[location->mapping]);
	}
}

int live_source_describe(const struct live_source *live, struct profile *profile)
{
	struct headers headers = {.count = profile->mappings.count};

	headers.files = calloc(headers.count + 1, sizeof(*headers.files));
	if (!headers.files)
		return -ENOMEM;
	for (size_t i = 1; i < headers.count; i++)
		describe_mapping(live, profile, (uint32_t)i, &headers.files[i]);
	describe_locations(live, profile, &headers);
	for (size_t i = 0; i < headers.count; i++)
		elf_clear(&headers.files[i]);
	free(headers.files);
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

static int open_mapping(void *arg, const struct symbol_mapping *mapping, unsigned int candidate,
			struct error *error)
{
	const struct live_source *live = arg;
	uint32_t segment = source_segment(mapping->source);
	bool is_offset;

	if (candidate)
		return -ENOENT;
	if (segment < SEGMENT_FILES)
		return find_perf_map(live, mapping);
	return open_mapped_file(live->files, segment_file(live->files, segment, &is_offset), error);
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
