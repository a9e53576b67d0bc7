/* SPDX-License-Identifier: GPL-2.0 */
/* Reads and verifies pprof files; profile.proto has the format. */
#ifndef STACKBEAT_PPROF_PPROF_READER_H
#define STACKBEAT_PPROF_PPROF_READER_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct profile;

#define PPROF_SIZE_MAX ((size_t)1 << 30) /* bytes of a file, compressed or not */
#define PPROF_MEMORY_MAX ((size_t)4 << 30) /* bytes in memory, with the tables of the reader */
#define PPROF_ENTRY_MEMORY_MAX ((size_t)256 << 20) /* bytes of an unpacked entry of a table */

/*
 * Reads and verifies the profile at `path` ("-": the standard input). Equal entries of the file
 * become one, but for mappings: they differ in their `place` at least. Memory is a small multiple
 * of the profile, and needs no unpacked copy of the file. Returns a profile, which the caller frees
 * with profile_free(), or NULL with a message in `error`. Samples that were kept apart by their
 * time are added up.
 */
struct profile *pprof_read(const char *path, struct error *error);

struct pprof_read_options {
	/* Also keep the times of samples: for what writes them again, or shows them in order. */
	bool keeps_moments;
	/* Gets the share of the work that is done, from 0 to 1, with each part of the file; or
	 * NULL. */
	void (*progress)(void *arg, double share);
	void *arg;
};

struct profile *pprof_read_with(const char *path, const struct pprof_read_options *options,
				struct error *error);

/* Like pprof_read(), from memory. `name` is the name of the profile in messages. */
struct profile *pprof_decode(const void *data, size_t size, const char *name, struct error *error);

#endif
