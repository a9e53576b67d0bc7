/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the symbolizer finds the symbols of a profile: live_source.h, for a recording of this
 * process, or offline_source.h, for any profile.
 */
#ifndef STACKBEAT_SYMBOLIZE_SYMBOL_SOURCE_H
#define STACKBEAT_SYMBOLIZE_SYMBOL_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "pprof/origin.h"
#include "pprof/profile.h"

struct error;
struct file_key;
struct gone_modules;
struct kallsyms;
struct kernel;
struct symbol_cache;
struct symbol_file;

/* The path of a mapped file whose path is unknown. */
#define UNKNOWN_FILE "[file]"

/* What the mapping of user addresses is symbolized by. */
enum symbol_kind {
	SYMBOLS_NONE,
	SYMBOLS_FILE, /* an ELF file */
	SYMBOLS_PERF_MAP,
};

/* A mapping of a profile; the strings belong to the profile. */
struct symbol_mapping {
	const char *path;
	const char *build_id; /* hex; "" if unknown */
	struct frame_place place;
};

struct symbol_source {
	/* Symbols of the kernel; NULL: none. */
	const struct kallsyms *kallsyms;
	/* The kernel that kallsyms belongs to; may be NULL without it. */
	struct kernel *kernel;
	/*
	 * Modules that may be gone; NULL: none. The place of their mappings has the serial of the
	 * part, or 0, and, unless the module was loaded when they were described, the segment
	 * SEGMENT_KERNEL.
	 */
	struct gone_modules *gone;
	/* Of the kernel in the profile, whose files are opened below `root`; "": unknown. */
	char release[ORIGIN_RELEASE_SIZE];
	const char *root;
	/*
	 * Files are found by path and build ID. Mappings that differ only in their place are
	 * ambiguous then: they are not symbolized.
	 */
	bool by_path;
	enum symbol_kind (*kind)(void *arg, const struct symbol_mapping *mapping);
	/*
	 * Opens the file number `candidate` (from 0) of those that may be the file or perf map of a
	 * mapping, as `open` of struct worker_job (worker_protocol.h).
	 */
	int (*open)(void *arg, const struct symbol_mapping *mapping, unsigned int candidate,
		    struct error *error);
	/*
	 * Returns the uid of the owner of the file or perf map of a mapping, or FILE_UID_ANY. NULL:
	 * the files that `open` opens show their owners.
	 */
	uint32_t (*owner)(void *arg, const struct symbol_mapping *mapping);
	/* As `identify` of struct worker_job. NULL: what is read of files is not kept. */
	bool (*file_key)(void *arg, const struct symbol_mapping *mapping, int fd,
			 struct file_key *key);
	/* Symbols of files that `identify` identifies; NULL: none are kept. */
	struct symbol_cache *cache;
	/* Returns whether the file of a mapping is known by more than its build ID. NULL without a
	 * cache. */
	bool (*identify)(void *arg, const struct symbol_mapping *mapping, struct symbol_file *file);
	void *arg; /* of the functions */
};

#endif
