/* SPDX-License-Identifier: GPL-2.0 */
/* Reads and verifies pprof files; profile.proto has the format. */
#ifndef STACKBEAT_PPROF_PPROF_READER_H
#define STACKBEAT_PPROF_PPROF_READER_H

#include <stddef.h>
#include <stdint.h>

#include "profile.pb-c.h"

struct error;

/*
 * A verified profile: string indices are in the string table, and ids refer to existing entries.
 * The reader renumbers ids from 1 in the order of the tables: the entry with id N is at index N
 * - 1.
 */
struct pprof_profile {
	Perftools__Profiles__Profile *message;
	size_t sample_type; /* index of the default sample type */
};

#define PPROF_SIZE_MAX ((size_t)1 << 30) /* bytes of a file, compressed or not */
#define PPROF_MEMORY_MAX ((size_t)4 << 30) /* bytes of an unpacked profile */

/*
 * Reads and verifies the profile at `path` ("-": the standard input). Returns a profile, which the
 * caller frees with pprof_profile_free(), or NULL with a message in `error`.
 */
struct pprof_profile *pprof_read(const char *path, struct error *error);

/* Like pprof_read(), from memory. `name` is the name of the profile in messages. */
struct pprof_profile *pprof_decode(const void *data, size_t size, const char *name,
				   struct error *error);

/* Frees a profile; it may be NULL. */
void pprof_profile_free(struct pprof_profile *profile);

/* Returns the string at `index`, an index in a verified profile. The profile owns it. */
const char *pprof_string_at(const struct pprof_profile *profile, int64_t index);

/*
 * Sets *index to the index of the sample type `name`, or of the default one for NULL. Returns 0, or
 * -EINVAL with a message that lists the sample types.
 */
int pprof_sample_type(const struct pprof_profile *profile, const char *name, size_t *index,
		      struct error *error);

#endif
