/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbols of a recording of this process: the very files that were mapped, the perf maps of the
 * sampled processes, and the running kernel.
 *
 * The recorder makes raw profiles: their mappings have nothing but a `place`, and addresses are
 * offsets in the segment, or kernel addresses, or aliases of these (debuginfo/gone_modules.h).
 */
#ifndef STACKBEAT_SYMBOLIZE_LIVE_SOURCE_H
#define STACKBEAT_SYMBOLIZE_LIVE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "symbolize/symbol_source.h"

struct gone_modules;
struct mapped_files;
struct perf_map_fd;
struct profile;
struct sandbox_server;
struct symbol_cache;

struct live_source {
	const struct sandbox_server *sandbox; /* reads headers (debuginfo/elf_headers.h) */
	struct mapped_files *files;
	const struct perf_map_fd *perf_maps;
	size_t perf_map_count;
	struct kernel *kernel; /* the running kernel */
	struct gone_modules *gone; /* NULL: none */
	bool names_gone; /* the profile gets the names of their functions */
	struct symbol_cache *cache; /* NULL: none */
	/* An fd: once it is readable, no more headers are read. 0: none. */
	int stop;
};

/*
 * Seconds that reading the headers of all files may take, and the headers of the files of a device:
 * a file system may hang, or be slow on purpose.
 */
#define LIVE_HEADERS_S 60
#define LIVE_HEADERS_DEVICE_S 5

/*
 * Describes the mappings of a raw profile: their paths, build IDs and addresses. Workers read the
 * headers of files that the kernel could not read; a file whose load segments are unknown
 * nevertheless seems to be mapped as a whole: `start` is not 0 then. So do those that are left when
 * the time for headers is over, whose symbols can be read nevertheless. Returns 0, or -ENOMEM: the
 * profile may only be freed then.
 */
int live_source_describe(const struct live_source *live, struct profile *profile);

/*
 * Sets `source` for a described profile. `live`, which must outlive it, and `kallsyms` (NULL: none)
 * are of the running kernel. `root` is put before the paths of kernel files ("" except in tests).
 */
void live_source_init(struct symbol_source *source, const struct live_source *live,
		      const struct kallsyms *kallsyms, const char *root);

#endif
