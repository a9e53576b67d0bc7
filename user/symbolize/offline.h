/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names for the locations of a profile that have none: of one that was taken without
 * names, perhaps on another machine, or of which some files were missing.
 */
#ifndef STACKBEAT_SYMBOLIZE_OFFLINE_H
#define STACKBEAT_SYMBOLIZE_OFFLINE_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct kallsyms;
struct kernel;
struct worker_pool;
struct binary_finder;
struct pprof_profile;

struct offline_symbolizer {
	const struct binary_finder *search; /* of files */
	const struct kallsyms *kallsyms; /* NULL: none */
	struct kernel *kernel; /* the one that kallsyms is of; NULL where that is */
	const char *const *directories; /* of debug files; NULL: DEBUG_DIRECTORY */
	size_t directory_count;
	const char *cache; /* as struct worker_pool has it */
	/* What is wrong with, or missing of, a mapping's file, one line. */
	void (*problem)(void *arg, const char *path, const char *text);
	/* As struct worker_pool has it. May be NULL: nothing is fetched from servers. */
	void (*progress)(void *arg, const char *path, uint64_t done, uint64_t total);
	/* So many addresses of a mapping have no name after all. */
	void (*missing)(void *arg, const char *path, const char *build_id, size_t count);
	void *arg;
};

struct offline_counts {
	size_t nameless; /* locations that had no name, and an address and a mapping */
	size_t named; /* of these, have one now */
};

/*
 * Names what can be named, in place. A profile of stackbeat's own becomes what it would be
 * if it had been named when it was taken: without what lies above the root of a stack, and
 * without what is not to be shown; and it tells anew which stacks are cut. Returns 0, or
 * -ENOMEM, and then the profile may only be freed.
 */
int offline_symbolize(const struct offline_symbolizer *renaming, struct pprof_profile *profile,
		      struct offline_counts *counts, struct error *error);

#endif
