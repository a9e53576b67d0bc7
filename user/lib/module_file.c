// SPDX-License-Identifier: GPL-2.0
#include "lib/module_file.h"

#include <stdio.h>
#include <unistd.h>

static bool module_file_exists(const char *root, const char *path)
{
	char whole[PATH_MAX];

	return snprintf(whole, sizeof(whole), "%s%s", root, path) < (int)sizeof(whole) &&
	       !access(whole, F_OK);
}

bool module_file_find(const char *root, const char *release, char path[PATH_MAX])
{
	static const char *const directories[] = {"updates/dkms", "extra"};
	/* As the kernel and kmod name compressed modules. */
	static const char *const suffixes[] = {"", ".xz", ".zst", ".gz"};

	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++)
		for (size_t k = 0; k < sizeof(suffixes) / sizeof(*suffixes); k++)
			if (snprintf(path, PATH_MAX, "/lib/modules/%s/%s/stackbeat.ko%s", release,
				     directories[i], suffixes[k]) < PATH_MAX &&
			    module_file_exists(root, path))
				return true;
	*path = '\0';
	return false;
}
