// SPDX-License-Identifier: GPL-2.0
#include "symbolize/live_source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "debuginfo/elf_headers.h"
#include "debuginfo/gone_modules.h"
#include "debuginfo/kernel_image.h"
#include "lib/array.h"
#include "lib/build_id.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/regular_file.h"
#include "mappings/address_space.h"
#include "mappings/find_mapped_file.h"
#include "mappings/mapped_files.h"
#include "mappings/opened_files.h"
#include "mappings/table_files.h"
#include "pprof/profile.h"
#include "runtime/perf_map_watcher.h"
#include "symbolize/symbol_cache.h"

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

/* Time that reading headers has taken. */
struct headers_time {
	int64_t end; /* of all; ns */
	struct device_time {
		uint64_t device;
		int64_t ns;
	} * devices;
	size_t count, capacity;
};

/* What each file may take; only a device that is slower is charged. */
#define FILE_NS (NS_PER_SECOND / 50)

static bool time_is_over(const struct live_source *live, const struct headers_time *time)
{
	struct pollfd stop = {.fd = live->stop > 0 ? live->stop : -1, .events = POLLIN};

	return now_ns(CLOCK_MONOTONIC) >= time->end || poll(&stop, 1, 0) > 0;
}

/* Returns the time of the device of a file; NULL: it is unknown, or out of memory. */
static struct device_time *time_of_device(struct headers_time *time, int fd)
{
	uint64_t device;
	struct statx st;

	/* Use cached attributes only: a remote file system may hang. */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st))
		return NULL;
	device = makedev(st.stx_dev_major, st.stx_dev_minor);
	for (size_t i = 0; i < time->count; i++) {
		if (time->devices[i].device == device)
			return &time->devices[i];
	}
	if (array_reserve(&time->devices, &time->capacity, time->count, 1, sizeof(*time->devices)))
		return NULL;
	time->devices[time->count] = (struct device_time){.device = device};
	return &time->devices[time->count++];
}

/* As worker_read_headers(). -ETIMEDOUT if the device of the file has used up its time. */
static int read_in_time(const struct live_source *live, struct headers_time *time, int fd,
			struct elf_headers *headers)
{
	struct device_time *device = time_of_device(time, fd);
	int64_t begin = now_ns(CLOCK_MONOTONIC), taken;
	struct error problem;
	int err;

	if (!device || device->ns >= LIVE_HEADERS_DEVICE_S * NS_PER_SECOND)
		return -ETIMEDOUT;
	err = worker_read_headers(live->sandbox, fd, headers, &problem);
	taken = now_ns(CLOCK_MONOTONIC) - begin;
	if (taken > FILE_NS)
		device->ns += taken;
	return err;
}

/* The load segments of the files whose addresses are offsets, in the order of their mappings. */
struct segments {
	struct elf_segment *items;
	size_t count, capacity;
	size_t *ends; /* of each mapping: the end of its segments in `items` */
};

/*
 * Opens the first candidate that proves to be the mapped file, and reads its headers. Returns
 * whether there is one.
 */
static bool read_file_headers(const struct live_source *live, struct headers_time *time,
			      const struct mapped_file *file, struct elf_headers *headers)
{
	struct error problem;
	bool found = false;
	int fd = 0;

	for (unsigned int i = 0; !found && fd != -ENOENT && !time_is_over(live, time); i++) {
		fd = mapped_file_open_candidate(live->files, file, i, &problem);
		if (fd < 0)
			continue;
		found = !read_in_time(live, time, fd, headers) &&
			(!*file->build_id || build_id_equal(headers->build_id, file->build_id));
		close(fd);
	}
	return found;
}

static int live_read_headers(const struct live_source *live, struct headers_time *time,
			     struct mapped_file *file, struct segments *segments)
{
	struct elf_headers *headers = calloc(1, sizeof(*headers));
	int err = headers ? 0 : -ENOMEM;

	if (!err && read_file_headers(live, time, file, headers)) {
		err = array_reserve(&segments->items, &segments->capacity, segments->count,
				    headers->segment_count, sizeof(*segments->items));
		for (size_t i = 0; !err && i < headers->segment_count; i++)
			segments->items[segments->count++] = headers->segments[i];
		if (*headers->build_id)
			mapped_file_set_build_id(live->files, file, headers->build_id);
	}
	free(headers);
	return err;
}

static int describe_mapping(const struct live_source *live, struct headers_time *time,
			    struct profile *profile, uint32_t number, struct segments *segments)
{
	struct profile_mapping mapping = {
		.limit = UINT64_MAX,
		.place = profile->mappings.items[number].place,
	};
	uint32_t segment = mapping.place.segment;
	struct mapped_file *file;
	bool is_offset;
	int err = 0;

	if (segment == SEGMENT_KERNEL)
		return 0;
	file = segment_file(live->files, segment, &is_offset);
	if (!file) {
		mapping.file = profile_string(profile, segment_name(segment));
	} else if (segment_is_jit(segment)) {
		mapping.file = profile_string(profile, *file->path ? file->path : UNKNOWN_FILE);
	} else {
		if (is_offset)
			err = live_read_headers(live, time, file, segments);
		mapping.file = profile_string(profile, *file->path ? file->path : UNKNOWN_FILE);
		mapping.build_id = profile_string(profile, file->build_id);
		if (is_offset)
			mapping.start = OFFSETS_START;
	}
	profile_set_mapping(profile, number, &mapping);
	return err;
}

/* `serial`: of the part of a module that has the address; 0: of none that is known. */
static uint32_t describe_kernel(const struct live_source *live, struct profile *profile,
				uint64_t address, uint64_t serial)
{
	const struct kernel_mapping *from = kernel_mapping_at(live->kernel, address);
	const struct profile_mapping mapping = {
		.start = from->start,
		.limit = from->limit,
		.file = profile_string(profile, from->name),
		.build_id = profile_string(profile, from->build_id),
		.place = {.part = (uint32_t)serial},
	};

	return profile_mapping(profile, &mapping);
}

/*
 * Without a name now, an address in a mapping with the name of a module could get a wrong one
 * later, when the module is loaded elsewhere.
 */
static uint32_t describe_gone(const struct live_source *live, struct profile *profile,
			      enum gone_answer answer, uint64_t serial, uint64_t address)
{
	struct profile_mapping mapping = {
		.limit = UINT64_MAX,
		.place = {.segment = SEGMENT_KERNEL},
		.file = profile_string(profile, GONE_MODULES_MAPPING),
	};
	char name[KERNEL_MAPPING_NAME_SIZE];
	const struct gone_part *part;
	const char *function;
	uint64_t start;

	if (answer != GONE_UNKNOWN && live->names_gone &&
	    gone_modules_function(live->gone, serial, address, &function, &start)) {
		part = gone_modules_part(live->gone, serial);
		snprintf(name, sizeof(name), "[%s]", part->module);
		mapping.start = part->start;
		mapping.limit = part->end;
		mapping.place.part = (uint32_t)serial;
		mapping.file = profile_string(profile, name);
	}
	return profile_mapping(profile, &mapping);
}

/*
 * Whether an address is in the module of the part now. If so, the module has its file and build ID,
 * as any other. Else it has gone since the parts were read.
 */
static bool is_still_loaded(const struct live_source *live, uint64_t serial, uint64_t address)
{
	char name[KERNEL_MAPPING_NAME_SIZE];

	snprintf(name, sizeof(name), "[%s]", gone_modules_part(live->gone, serial)->module);
	return !strcmp(kernel_mapping_at(live->kernel, address)->name, name);
}

static void describe_kernel_location(const struct live_source *live, struct profile *profile,
				     uint32_t number)
{
	uint64_t address = profile->locations.items[number].address, serial = 0;
	enum gone_answer answer = gone_modules_find(live->gone, &address, &serial);
	uint32_t mapping;

	if (answer == GONE_NONE)
		mapping = describe_kernel(live, profile, address, 0);
	else if (answer == GONE_LOADED && is_still_loaded(live, serial, address))
		mapping = describe_kernel(live, profile, address, serial);
	else
		mapping = describe_gone(live, profile, answer, serial, address);
	profile_move_location(profile, number, mapping, address);
}

/* Moves a location from an offset to the ELF virtual address if the headers of the file have it. */
static void describe_offset(struct profile *profile, uint32_t number,
			    const struct segments *segments)
{
	const struct profile_location *location = &profile->locations.items[number];
	struct profile_mapping mapping = profile->mappings.items[location->mapping];
	size_t first = segments->ends[location->mapping - 1];
	size_t count = segments->ends[location->mapping] - first;
	uint64_t vaddr;

	if (!count ||
	    !elf_segments_vaddr(&segments->items[first], count, location->address, &vaddr)) {
		profile_move_location(profile, number, location->mapping,
				      location->address + mapping.start);
		return;
	}
	mapping.start = 0;
	mapping.place.segment--;
	profile_move_location(profile, number, profile_mapping(profile, &mapping), vaddr);
}

/* `segments` belong to `count` mappings. */
static void live_describe_locations(const struct live_source *live, struct profile *profile,
				    const struct segments *segments, size_t count)
{
	for (size_t i = 1; i < profile->locations.count; i++) {
		const struct profile_location *location = &profile->locations.items[i];
		const struct profile_mapping *mapping = &profile->mappings.items[location->mapping];

		if (mapping->place.segment == SEGMENT_KERNEL)
			describe_kernel_location(live, profile, (uint32_t)i);
		else if (mapping->start && location->mapping < count)
			describe_offset(profile, (uint32_t)i, segments);
	}
}

int live_source_describe(const struct live_source *live, struct profile *profile)
{
	size_t count = profile->mappings.count;
	struct segments segments = {.ends = calloc(count, sizeof(*segments.ends))};
	struct headers_time time = {
		.end = now_ns(CLOCK_MONOTONIC) + LIVE_HEADERS_S * NS_PER_SECOND,
	};
	int err = 0;

	if (!segments.ends)
		return -ENOMEM;
	for (size_t i = 1; i < count && !err; i++) {
		err = describe_mapping(live, &time, profile, (uint32_t)i, &segments);
		segments.ends[i] = segments.count;
	}
	if (!err)
		live_describe_locations(live, profile, &segments, count);
	free(time.devices);
	free(segments.items);
	free(segments.ends);
	return err ? err : profile->error;
}

/* Opening */

/* Returns the fd of the perf map of a mapping, or -1. */
static int find_perf_map(const struct live_source *live, const struct symbol_mapping *mapping)
{
	uint32_t id = mapping->place.perf_map;

	for (size_t i = 0; id && i < live->perf_map_count; i++) {
		if (live->perf_maps[i].id == id)
			return live->perf_maps[i].fd;
	}
	return -1;
}

static int open_perf_map(const struct live_source *live, const struct symbol_mapping *mapping)
{
	int fd = fcntl(find_perf_map(live, mapping), F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? -ENOENT : fd;
}

static enum symbol_kind live_mapping_kind(void *arg, const struct symbol_mapping *mapping)
{
	const uint32_t segment = mapping->place.segment;

	if (segment_is_jit(segment))
		return find_perf_map(arg, mapping) >= 0 ? SYMBOLS_PERF_MAP : SYMBOLS_NONE;
	return segment >= SEGMENT_FILES ? SYMBOLS_FILE : SYMBOLS_NONE;
}

static int live_open_mapping(void *arg, const struct symbol_mapping *mapping,
			     unsigned int candidate, struct error *error)
{
	const struct live_source *live = arg;
	uint32_t segment = mapping->place.segment;
	bool is_offset;

	if (segment_is_jit(segment))
		return candidate ? -ENOENT : open_perf_map(live, mapping);
	return mapped_file_open_candidate(
		live->files, segment_file(live->files, segment, &is_offset), candidate, error);
}

/* Perf maps of root count as files of file systems that can report any owner. */
static uint32_t live_mapping_owner(void *arg, const struct symbol_mapping *mapping)
{
	const struct live_source *live = arg;
	uint32_t segment = mapping->place.segment;
	bool is_offset;
	struct statx st;

	if (!segment_is_jit(segment))
		return mapped_file_owner(segment_file(live->files, segment, &is_offset));
	if (statx(find_perf_map(live, mapping), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_UID,
		  &st) ||
	    !st.stx_uid)
		return FILE_UID_ANY;
	return st.stx_uid;
}

/*
 * A file without a build ID could be written to, and stay the same by all else. On a file system
 * that reports any owner, a user chooses all of the identity but the number of the device, which
 * another file system can get next.
 */
static bool live_identify(void *arg, const struct symbol_mapping *mapping, struct symbol_file *file)
{
	const struct live_source *live = arg;
	uint32_t segment = mapping->place.segment;
	const struct mapped_file *mapped;
	struct file_identity identity;
	bool is_offset;

	if (segment < SEGMENT_FILES || !*mapping->build_id)
		return false;
	mapped = segment_file(live->files, segment, &is_offset);
	if (!mapped_file_identity(mapped, &identity) || mapped_file_owner(mapped) == FILE_UID_ANY)
		return false;
	*file = (struct symbol_file){
		.device = identity.device,
		.inode = identity.inode,
		.size = identity.size,
		.generation = identity.generation,
		.owner = mapped_file_owner(mapped),
		.build_id = mapping->build_id,
		.path = mapping->path,
	};
	return true;
}

static bool find_key(void *arg, const struct symbol_mapping *mapping, int fd, struct file_key *key)
{
	const struct live_source *live = arg;
	uint32_t segment = mapping->place.segment;
	bool is_offset;

	return segment >= SEGMENT_FILES &&
	       mapped_file_symbols_key(live->files, segment_file(live->files, segment, &is_offset),
				       fd, key);
}

void live_source_init(struct symbol_source *source, const struct live_source *live,
		      const struct kallsyms *kallsyms, const char *root)
{
	struct utsname self;

	*source = (struct symbol_source){
		.kallsyms = kallsyms,
		.kernel = live->kernel,
		.gone = live->gone,
		.root = root,
		.kind = live_mapping_kind,
		.open = live_open_mapping,
		.owner = live_mapping_owner,
		.file_key = find_key,
		.cache = live->cache,
		.identify = live_identify,
		.arg = (void *)live,
	};
	if (!uname(&self))
		snprintf(source->release, sizeof(source->release), "%s", self.release);
}
