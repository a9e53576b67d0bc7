// SPDX-License-Identifier: GPL-2.0
#include "report/frame_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pprof/profile.h"

const char *function_name(const struct profile *profile, uint32_t function)
{
	const struct profile_function *entry = &profile->functions.items[function];

	return profile_text(profile, entry->name ? entry->name : entry->system_name);
}

const char *location_file(const struct profile *profile, const struct profile_location *location)
{
	return profile_text(profile, profile->mappings.items[location->mapping].file);
}

bool is_kernel_file(const char *path)
{
	/* The kernel and its modules have names in brackets; so does some user memory. */
	static const char *const user[] = {"[vdso]", "[vsyscall]", "[anon", "[heap]",
					   "[stack", "[merged]",   "[file]"};

	if (*path != '[')
		return false;
	for (size_t i = 0; i < sizeof(user) / sizeof(user[0]); i++) {
		if (!strncmp(path, user[i], strlen(user[i])))
			return false;
	}
	return true;
}

char *address_name(const struct profile *profile, const struct profile_location *location)
{
	const char *path = location_file(profile, location), *slash = strrchr(path, '/');
	const char *file = slash && slash[1] ? slash + 1 : path;
	char *name;

	if (asprintf(&name, "%s%s0x%" PRIx64, file, *file ? "+" : "", location->address) < 0)
		return NULL;
	return name;
}
