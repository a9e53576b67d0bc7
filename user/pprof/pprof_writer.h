/* SPDX-License-Identifier: GPL-2.0 */
/* Writes pprof files, built sample by sample or changed after reading; profile.proto has the
 * format. */
#ifndef STACKBEAT_PPROF_PPROF_WRITER_H
#define STACKBEAT_PPROF_PPROF_WRITER_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct pprof_profile;

/*
 * The builder. Everything is handed over once and refers to what came before it
 * by its id: string, then mapping and function, then location, then sample. Ids
 * run from 1 in the order of creation; what is there already gives its id again.
 * Texts are copied. Bytes that are not UTF-8 become U+FFFD.
 *
 * When memory runs out, functions return 0 and the builder takes nothing more:
 * pprof_write() tells. So the ids need no check on the way.
 */
struct pprof_builder;

struct pprof_mapping {
	uint64_t start; /* first address */
	uint64_t limit; /* first address beyond */
	uint64_t offset; /* bytes; what of the file is at start */
	const char *file; /* NULL: "" */
	const char *build_id; /* in hex; NULL: "" */
	/* Tells files apart of which all that is told is the same; it is not in the profile. */
	uint32_t number;
};

struct pprof_line {
	uint32_t function; /* id, not 0 */
	int64_t line; /* 0: unknown */
};

/* A text where `text` is given, or else a number. */
struct pprof_label {
	const char *key;
	const char *text;
	int64_t number;
	const char *unit; /* of the number; NULL: "" */
};

/* Returns NULL when there is no memory. The caller frees it with pprof_free(). */
struct pprof_builder *pprof_new(void);
void pprof_free(struct pprof_builder *builder);

/* Returns a copy of `text` in which all is UTF-8, for free(), or NULL. */
char *pprof_copy_text(const char *text);

/* Returns the index of `text` in the string table; 0 for "" and NULL. */
uint32_t pprof_string(struct pprof_builder *builder, const char *text);

/* Returns the id of the mapping; mappings with all members equal are one. */
uint32_t pprof_mapping(struct pprof_builder *builder, const struct pprof_mapping *mapping);

/*
 * Returns the id of the function that begins at `start_line` (0: unknown) of `file` (NULL:
 * ""); functions with all members equal are one.
 */
uint32_t pprof_function(struct pprof_builder *builder, const char *name, const char *system_name,
			const char *file, int64_t start_line);

/*
 * Returns the id of the location at `address` of `mapping` (an id, 0: none). Its
 * `count` lines are what was inlined there, innermost first; none: not resolved.
 * Locations with all of that equal are one: two programs may have the same path and
 * tell no build id, and what each makes while it runs is all called "[anon]".
 */
uint32_t pprof_location(struct pprof_builder *builder, uint32_t mapping, uint64_t address,
			const struct pprof_line *lines, size_t count);

/*
 * Adds a stack: `depth` ids of locations, leaf first; `samples` of it; `cpu_ns` of CPU time.
 * Stacks with the same locations and labels (in the same order) become one.
 */
void pprof_sample(struct pprof_builder *builder, const uint32_t *locations, size_t depth,
		  int64_t samples, int64_t cpu_ns, const struct pprof_label *labels, size_t count);

/* Adds a line of text for those who look at the profile. */
void pprof_comment(struct pprof_builder *builder, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Start in ns since 1970, duration in ns, and ns between two samples. */
void pprof_set_time(struct pprof_builder *builder, int64_t time_ns, int64_t duration_ns,
		    int64_t period_ns);

/*
 * Writes the profile, gzipped, to `path` ("-": the standard output) and its size in
 * bytes to *size (may be NULL). The builder stays as it is. Returns 0 or a negative
 * errno value, -ENOMEM also for memory that ran out before.
 */
int pprof_write(struct pprof_builder *builder, const char *path, uint64_t *size,
		struct error *error);

/* Writes a profile that was read, and perhaps changed, as pprof_write() does. */
int pprof_write_profile(const struct pprof_profile *profile, const char *path, uint64_t *size,
			struct error *error);

#endif
