// SPDX-License-Identifier: GPL-2.0
#include "pprof/origin.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "pprof/profile.h"

#define PREFIX "stackbeat "

/* stackbeat VERSION on Linux RELEASE MACHINE */
void origin_add(struct profile *profile, const struct utsname *kernel)
{
	profile_comment(profile, PREFIX "%s on %s %s %s", STACKBEAT_VERSION, kernel->sysname,
			kernel->release, kernel->machine);
}

bool origin_release(const struct profile *profile, char release[ORIGIN_RELEASE_SIZE])
{
	/* The release becomes a part of a path. */
	if (origin_is_own(profile) && sscanf(profile_text(profile, profile->comments.items[0]),
					     PREFIX "%*s on %*s %127[^/ ]", release) == 1)
		return true;
	*release = '\0';
	return false;
}

bool origin_is_own(const struct profile *profile)
{
	return profile->comments.count &&
	       !strncmp(profile_text(profile, profile->comments.items[0]), PREFIX, strlen(PREFIX));
}
