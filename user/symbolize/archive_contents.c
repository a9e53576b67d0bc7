// SPDX-License-Identifier: GPL-2.0
#include "symbolize/archive_contents.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debuginfo/debug_paths.h"
#include "debuginfo/elf_headers.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "lib/regular_file.h"
#include "pprof/origin.h"
#include "pprof/profile.h"
#include "symbolize/find_binary.h"
#include "symbolize/symbol_source.h"

struct archive_collector {
	const struct archive_plan *plan;
	const struct profile *profile;
	const struct archive_sink *sink;
};

/*
 * Writes the path of a binary or debug file in the archive, by its build ID. Returns false if the
 * build ID is invalid.
 */
static bool archive_path(const char *build_id, const char *suffix, char name[PATH_MAX])
{
	if (!build_id_valid(build_id))
		return false;
	snprintf(name, PATH_MAX, ".build-id/%.2s/%s%s", build_id, build_id + 2, suffix);
	return true;
}

/* Debug files */

/*
 * Adds a debug file if a worker finds that it has this build ID, and closes it. Returns 1 with
 * `headers` if it was added, 0 if it is another file, or a negative errno value.
 */
static int archive_add_debug_file(const struct archive_collector *collector, int fd,
				  const char *path, const char *build_id,
				  struct elf_headers *headers)
{
	const struct archive_sink *sink = collector->sink;
	char name[PATH_MAX];
	struct error error;
	int err = worker_read_headers(collector->plan->sandbox, fd, headers, &error), added = 0;

	if (err == -EBADMSG || err == -ETIMEDOUT)
		sink->missing(sink->arg, path, "a debug file can't be read");
	if (!err && build_id_equal(headers->build_id, build_id) &&
	    archive_path(build_id, ".debug", name)) {
		err = sink->debug_file(sink->arg, path, name, fd);
		added = err ? err : 1;
	}
	close(fd);
	return added;
}

/* As archive_add_debug_file(), for the first of the files that a name may mean. */
static int archive_find_debug_file(const struct archive_collector *collector, const char *path,
				   enum debug_name kind, const char *debug_name,
				   const char *build_id, struct elf_headers *headers)
{
	const struct debug_paths paths = {collector->plan->directories,
					  collector->plan->directory_count};
	unsigned int candidate = 0;
	int added = 0, fd;
	char *found;

	do {
		fd = debug_paths_open(&paths, kind, debug_name, path, &candidate, &found);
		if (fd >= 0)
			added = archive_add_debug_file(collector, fd, path, build_id, headers);
		free(found);
	} while (!added && found);
	return added;
}

/* Adds the debug file that several binaries share. */
static int collect_alt_file(const struct archive_collector *collector, const char *path,
			    const struct elf_headers *from)
{
	struct elf_headers *headers;
	int added;

	if (!*from->alt_link)
		return 0;
	headers = malloc(sizeof(*headers));
	if (!headers)
		return -ENOMEM;
	added = archive_find_debug_file(collector, path, DEBUG_BUILD_ID, from->alt_build_id,
					from->alt_build_id, headers);
	if (!added)
		added = archive_find_debug_file(collector, path, DEBUG_ALT_LINK, from->alt_link,
						from->alt_build_id, headers);
	free(headers);
	return added < 0 ? added : 0;
}

/* `binary` belongs to the binary, all zero if it is missing. */
static int collect_debug_files(const struct archive_collector *collector, const char *path,
			       const char *build_id, const struct elf_headers *binary)
{
	struct elf_headers *debug;
	int added = 0, err;

	if (collector->plan->without_debug || !*build_id)
		return 0;
	if (binary->has_dwarf)
		return collect_alt_file(collector, path, binary);
	debug = malloc(sizeof(*debug));
	if (!debug)
		return -ENOMEM;
	added = archive_find_debug_file(collector, path, DEBUG_BUILD_ID, build_id, build_id, debug);
	if (!added && *binary->link)
		added = archive_find_debug_file(collector, path, DEBUG_LINK, binary->link, build_id,
						debug);
	err = added > 0 ? collect_alt_file(collector, path, debug) : added;
	free(debug);
	return err;
}

/* Files */

/* The mappings of files with one build ID: any user can give a file the ID of another. */
struct claims {
	size_t *next; /* the next mapping with the build ID of each; HASH_NONE: none */
	bool *repeats; /* whether an earlier mapping has the same build ID */
	struct hash by_id; /* the last mapping with each build ID */
};

static bool has_build_id(const void *profile, uint32_t mapping, const void *build_id)
{
	const struct profile *of = profile;

	return build_id_equal(profile_text(of, of->mappings.items[mapping].build_id), build_id);
}

/* Returns 0 or -ENOMEM; claims_clear() is to be called in both cases. */
static int claims_find(struct claims *claims, const struct profile *profile)
{
	size_t count = profile->mappings.count;
	int err = 0;

	*claims = (struct claims){0};
	claims->next = calloc(count, sizeof(*claims->next));
	claims->repeats = calloc(count, sizeof(*claims->repeats));
	if (!claims->next || !claims->repeats)
		return -ENOMEM;
	for (size_t i = 1; i < count && !err; i++) {
		const char *id = profile_text(profile, profile->mappings.items[i].build_id);
		uint32_t hash = hash_string(HASH_START, id), last;

		claims->next[i] = HASH_NONE;
		if (!*id)
			continue;
		last = hash_find(&claims->by_id, hash, has_build_id, profile, id);
		if (last != HASH_NONE) {
			claims->repeats[i] = true;
			claims->next[last] = i;
			hash_remove(&claims->by_id, hash, last);
		}
		err = hash_add(&claims->by_id, hash, (uint32_t)i);
	}
	return err;
}

static void claims_clear(struct claims *claims)
{
	free(claims->next);
	free(claims->repeats);
	hash_clear(&claims->by_id);
}

static const char *path_of(const struct archive_collector *collector, size_t mapping)
{
	return profile_text(collector->profile, collector->profile->mappings.items[mapping].file);
}

/*
 * Opens a file of a mapping, if a worker finds that it has the build ID ("": any). Returns an fd,
 * or a negative errno value with `error` set.
 */
static int find_binary(const struct archive_collector *collector, const char *path,
		       const char *build_id, struct elf_headers *headers, bool *is_trusted,
		       struct error *error)
{
	struct error mismatch = {""};
	unsigned int candidate = 0;
	int fd;

	while ((fd = binary_finder_open(collector->plan->search, path, build_id, candidate++,
					is_trusted, error)) >= 0) {
		int err = worker_read_headers(collector->plan->sandbox, fd, headers, error);

		if (!err && (!*build_id || build_id_equal(headers->build_id, build_id)))
			return fd;
		if (!err)
			error_set(error, ESTALE, "has %s%s, not %s: not taken",
				  *headers->build_id ? "build ID " : "no build ID",
				  headers->build_id, build_id);
		if (!*mismatch.text)
			mismatch = *error;
		close(fd);
	}
	if (*mismatch.text)
		*error = mismatch;
	return fd;
}

/*
 * Opens the file of a build ID at the path of the first mapping or a later one: the first
 * trusted one, or the only one, or -1. Reports files that are missing. headers[0], all zero before,
 * belong to the file; headers[1] are overwritten.
 */
static int archive_open_binary(const struct archive_collector *collector,
			       const struct claims *claims, size_t mapping, const char *build_id,
			       struct elf_headers headers[2])
{
	const struct archive_sink *sink = collector->sink;
	const char *path = path_of(collector, mapping);
	bool is_trusted = false, differ = false;
	struct error error;
	int found = -1, fd;

	for (; mapping != HASH_NONE && !is_trusted; mapping = claims->next[mapping]) {
		path = path_of(collector, mapping);
		fd = find_binary(collector, path, build_id, &headers[1], &is_trusted, &error);
		if (fd < 0) {
			sink->missing(sink->arg, path, error.text);
			continue;
		}
		differ = !is_trusted && (differ || (found >= 0 && !file_contents_equal(found, fd)));
		if (found >= 0)
			close(found);
		found = fd;
		headers[0] = headers[1];
	}
	if (!differ)
		return found;
	headers[0] = (struct elf_headers){.build_id = ""};
	error_set(&error, ESTALE, "is left out: different files of users have build ID %s",
		  build_id);
	sink->missing(sink->arg, path, error.text);
	close(found);
	return -1;
}

static int collect_file(const struct archive_collector *collector, const struct claims *claims,
			size_t mapping, const char *build_id)
{
	const struct archive_sink *sink = collector->sink;
	const char *path = path_of(collector, mapping);
	struct elf_headers *headers;
	char name[PATH_MAX];
	int fd, err;

	if (!archive_path(build_id, "", name)) {
		/* With "..", unpacking would reject the whole archive. */
		if (*path != '/' || strlen(path) >= sizeof(name) || strstr(path, "/..")) {
			sink->missing(sink->arg, path, "has neither a build ID nor a plain path");
			return 0;
		}
		strcpy(name, path + 1);
	}
	headers = calloc(2, sizeof(*headers));
	if (!headers)
		return -ENOMEM;
	fd = archive_open_binary(collector, claims, mapping, build_id, headers);
	err = fd >= 0 ? sink->binary(sink->arg, path, name, fd) : 0;
	if (!err)
		err = collect_debug_files(collector, path, build_id, headers);
	if (fd >= 0)
		close(fd);
	free(headers);
	return err;
}

/* Kernel */

/*
 * Adds the vmlinux or a module. Prefers debug files by build ID to the module itself, which may
 * have no DWARF.
 */
static int collect_kernel_debug(const struct archive_collector *collector, const char *name,
				const char *build_id)
{
	char release[ORIGIN_RELEASE_SIZE];
	struct elf_headers *headers;
	int added, fd;

	if (collector->plan->without_debug)
		return 0;
	headers = malloc(sizeof(*headers));
	if (!headers)
		return -ENOMEM;
	added = archive_find_debug_file(collector, name, DEBUG_BUILD_ID, build_id, build_id,
					headers);
	for (unsigned int candidate = 0; !added && origin_release(collector->profile, release);
	     candidate++) {
		fd = strcmp(name, KERNEL_MAPPING) ? kernel_open_module("", release, name, candidate)
						  : kernel_open_vmlinux("", release, candidate);
		if (fd < 0)
			break;
		added = archive_add_debug_file(collector, fd, name, build_id, headers);
	}
	free(headers);
	return added < 0 ? added : 0;
}

static int collect_kernel(const struct archive_collector *collector, struct kernel *kernel,
			  const char *name, const char *build_id)
{
	const struct kernel_mapping *mapping = kernel_mapping_by_name(kernel, name);
	const struct archive_sink *sink = collector->sink;
	char notes[PATH_MAX];
	int err;

	if (!mapping || !build_id_equal(mapping->build_id, build_id)) {
		sink->missing(sink->arg, name, "this kernel is of another build, or without it");
		return 0;
	}
	if (!mapping->start) {
		sink->missing(sink->arg, name, "the kernel hides its symbols");
		return 0;
	}
	if (!strcmp(name, KERNEL_MAPPING)) {
		err = sink->kernel_file(sink->arg, KERNEL_NOTES_PATH);
	} else {
		snprintf(notes, sizeof(notes), "/sys/module/%.*s/notes/.note.gnu.build-id",
			 (int)strlen(name) - 2, name + 1);
		err = sink->kernel_file(sink->arg, notes);
	}
	if (!err)
		err = collect_kernel_debug(collector, name, build_id);
	if (!err)
		err = sink->kernel_file(sink->arg, KALLSYMS_PATH);
	return err ? err : sink->kernel_file(sink->arg, MODULES_PATH);
}

/* Marks the mappings that have locations in the kernel; the caller frees the marks. */
static bool *mark_kernel(const struct profile *profile)
{
	bool *marks = calloc(profile->mappings.count, sizeof(*marks));

	for (size_t i = 1; marks && i < profile->locations.count; i++) {
		const struct profile_location *location = &profile->locations.items[i];
		uint32_t file = profile->mappings.items[location->mapping].file;

		if (is_kernel_mapping(profile_text(profile, file), location->address))
			marks[location->mapping] = true;
	}
	return marks;
}

static bool is_user_file(const char *path, const char *build_id)
{
	if (!strcmp(path, UNKNOWN_FILE))
		return *build_id;
	return *path && (*path != '[' || !strcmp(path, "[vdso]"));
}

int archive_contents_collect(const struct archive_plan *plan, const struct profile *profile,
			     const struct archive_sink *sink)
{
	const struct archive_collector collector = {plan, profile, sink};
	struct kernel *kernel = kernel_new("");
	bool *in_kernel = mark_kernel(profile);
	struct claims claims;
	int err = claims_find(&claims, profile);

	if (!kernel || !in_kernel)
		err = -ENOMEM;
	for (size_t i = 1; i < profile->mappings.count && !err; i++) {
		const char *path = profile_text(profile, profile->mappings.items[i].file);
		const char *build_id = profile_text(profile, profile->mappings.items[i].build_id);

		if (in_kernel[i])
			err = collect_kernel(&collector, kernel, path, build_id);
		else if (is_user_file(path, build_id) && !claims.repeats[i])
			err = collect_file(&collector, &claims, i, build_id);
	}
	claims_clear(&claims);
	free(in_kernel);
	kernel_free(kernel);
	return err;
}
