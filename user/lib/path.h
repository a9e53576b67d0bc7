/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STACKBEAT_LIB_PATH_H
#define STACKBEAT_LIB_PATH_H

#include <string.h>

/* Returns what follows the last slash of a path, if that is not empty, or else the path. */
static inline const char *path_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

#endif
