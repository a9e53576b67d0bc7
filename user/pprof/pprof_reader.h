/* SPDX-License-Identifier: GPL-2.0 */
/* Reads and verifies pprof files; profile.proto has the format. */
#ifndef STACKBEAT_PPROF_PPROF_READER_H
#define STACKBEAT_PPROF_PPROF_READER_H

#include <stddef.h>
#include <stdint.h>

#include "profile.pb-c.h"

struct error;

/*
 * The reader. What it returns is sound: indices of strings are in the table and
 * ids name something. Ids are numbered anew, from 1 in the order of the tables, so
 * that object N is at index N - 1 of its table.
 */
struct pprof_profile {
	Perftools__Profiles__Profile *message;
	size_t sample_type; /* index of the value that the profile wants to be shown */
};

#define PPROF_SIZE_MAX ((size_t)1 << 30) /* bytes of a file, compressed or not */
#define PPROF_MEMORY_MAX ((size_t)4 << 30) /* bytes that one may take when unpacked */

/*
 * Reads `path` ("-": the standard input). Returns NULL and sets `error` when it can't be
 * read or is no sound profile. The caller frees it with pprof_profile_free().
 */
struct pprof_profile *pprof_read(const char *path, struct error *error);

/* As pprof_read(), from memory. `name` is what errors call it. */
struct pprof_profile *pprof_decode(const void *data, size_t size, const char *name,
				   struct error *error);

void pprof_profile_free(struct pprof_profile *profile);

/* The text at `index` of the string table, an index from the profile itself. */
const char *pprof_text(const struct pprof_profile *profile, int64_t index);

/*
 * Puts the index of the sample type `name` into *index; NULL is the one that the profile
 * wants to be shown. Returns 0, or -EINVAL with an error that lists the types there are.
 */
int pprof_sample_type(const struct pprof_profile *profile, const char *name, size_t *index,
		      struct error *error);

#endif
