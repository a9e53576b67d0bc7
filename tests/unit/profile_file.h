/* SPDX-License-Identifier: GPL-2.0 */
/* Profiles in files. */
#ifndef STACKBEAT_TEST_PROFILE_FILE_H
#define STACKBEAT_TEST_PROFILE_FILE_H

#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "unit.h"

static inline void write_profile(const struct profile *profile, const char *path)
{
	struct error error = {""};

	if (pprof_write(profile, path, NULL, &error))
		fail_msg("%s", error.text);
}

/* Frees the profile. */
static inline void move_profile(struct profile *profile, const char *path)
{
	write_profile(profile, path);
	profile_free(profile);
}

/* Returns the profile with the times of its samples, which the caller frees. */
static inline struct profile *read_timed_profile(const char *path)
{
	struct error error = {""};
	struct profile *profile =
		pprof_read_with(path, &(struct pprof_read_options){.keeps_moments = true}, &error);

	if (!profile)
		fail_msg("%s", error.text);
	return profile;
}

#endif
