/* SPDX-License-Identifier: GPL-2.0 */
/* Writes pprof files: built sample by sample, or read and changed. profile.proto has the format. */
#ifndef STACKBEAT_PPROF_PPROF_WRITER_H
#define STACKBEAT_PPROF_PPROF_WRITER_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct pprof_profile;

/*
 * A builder of a profile. Entries refer to entries added before by their ids: strings first, then
 * mappings and functions, then locations, then samples. Ids are numbered from 1 in the order of
 * creation; an entry that exists already keeps its id. The builder copies strings, and replaces
 * bytes that are not UTF-8 by U+FFFD.
 *
 * When memory runs out, functions return 0, the builder ignores all further entries, and
 * pprof_write() fails. The caller need not check ids.
 */
struct pprof_builder;

struct pprof_mapping {
	uint64_t start; /* first address */
	uint64_t limit; /* first address behind it */
	uint64_t offset; /* offset of `start` in the file, in bytes */
	const char *file; /* NULL: "" */
	const char *build_id; /* in hex; NULL: "" */
	/* Distinguishes files with equal path and no build ID. Not written to the profile. */
	uint32_t number;
};

struct pprof_line {
	uint32_t function; /* id, not 0 */
	int64_t line; /* 0: unknown */
};

/* A label with a string, or with a number if `text` is NULL. */
struct pprof_label {
	const char *key;
	const char *text;
	int64_t number;
	const char *unit; /* of the number; NULL: "" */
};

/* Returns an empty builder, which the caller frees with pprof_free(), or NULL without memory. */
struct pprof_builder *pprof_new(void);
void pprof_free(struct pprof_builder *builder);

/* Returns a copy of `text` in valid UTF-8, which the caller frees, or NULL without memory. */
char *pprof_copy_string(const char *text);

/* Returns the index of `text` in the string table; 0 for "" and NULL. */
uint32_t pprof_string(struct pprof_builder *builder, const char *text);

/* Returns the id of the mapping. Mappings with all members equal are merged. */
uint32_t pprof_mapping(struct pprof_builder *builder, const struct pprof_mapping *mapping);

/*
 * Returns the id of the function that begins at `start_line` (0: unknown) of `file` (NULL: "").
 * Functions with all members equal are merged.
 */
uint32_t pprof_function(struct pprof_builder *builder, const char *name, const char *system_name,
			const char *file, int64_t start_line);

/*
 * Returns the id of the location at `address` in `mapping` (an id, 0: none). Its `count` lines are
 * the functions inlined there, innermost first; none: not symbolized. Locations with all members
 * and lines equal are merged. The lines count because two programs may have the same path and no
 * build ID, and all generated code is in mappings called "[anon]".
 */
uint32_t pprof_location(struct pprof_builder *builder, uint32_t mapping, uint64_t address,
			const struct pprof_line *lines, size_t count);

/*
 * Adds a stack of `depth` ids of locations, leaf first, with its number of samples and its CPU time
 * in ns. Stacks with equal locations and labels (in the same order) are merged.
 */
void pprof_sample(struct pprof_builder *builder, const uint32_t *locations, size_t depth,
		  int64_t samples, int64_t cpu_ns, const struct pprof_label *labels, size_t count);

/* Adds a comment of one line, which viewers show. */
void pprof_comment(struct pprof_builder *builder, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Sets the start (ns since 1970), the duration (ns), and the sampling period (ns). */
void pprof_set_time(struct pprof_builder *builder, int64_t time_ns, int64_t duration_ns,
		    int64_t period_ns);

/*
 * Writes the gzipped profile to `path` ("-": the standard output), and sets *size (may be NULL) to
 * its size in bytes. The builder is unchanged. Returns 0 or a negative errno value: -ENOMEM also if
 * memory ran out while building.
 */
int pprof_write(struct pprof_builder *builder, const char *path, uint64_t *size,
		struct error *error);

/* Writes a profile of pprof_read(), which the caller may have changed, like pprof_write(). */
int pprof_write_profile(const struct pprof_profile *profile, const char *path, uint64_t *size,
			struct error *error);

#endif
