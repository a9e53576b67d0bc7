// SPDX-License-Identifier: GPL-2.0
#include "cli/cache_option.h"
#include "debuginfo/file_cache.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/error.h"

#define ROOT_CACHE "/var/cache/stackbeat/files"
#define USER_CACHE "/stackbeat/files"

int option_cache(const struct cli_option *option, char *value, void *options, struct error *error)
{
	struct cache_options *cache = option_target(option, options);

	*cache = (struct cache_options){.directory = value};
	return *value ? 0 : error_set(error, EINVAL, "--cache: the directory is empty");
}

int option_no_cache(const struct cli_option *option, char *value, void *options,
		    struct error *error)
{
	struct cache_options *cache = option_target(option, options);

	(void)value;
	(void)error;
	*cache = (struct cache_options){.off = true};
	return 0;
}

/* Sets the path of the user's cache. */
static bool find_user_cache(char path[PATH_MAX])
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
	int length;

	/* A relative path is to be ignored, by the specification. */
	if (xdg && *xdg == '/')
		length = snprintf(path, PATH_MAX, "%s" USER_CACHE, xdg);
	else if (home && *home == '/')
		length = snprintf(path, PATH_MAX, "%s/.cache" USER_CACHE, home);
	else
		return false;
	return length < PATH_MAX;
}

static bool find_default(char path[PATH_MAX])
{
	/* The environment of root may come from the user who has called sudo. */
	if (geteuid())
		return find_user_cache(path);
	strcpy(path, ROOT_CACHE);
	return true;
}

int cache_option_open(const struct cache_options *options, struct file_cache **cache,
		      struct error *problem)
{
	struct file_cache_config config = {
		.directory = options->directory,
		.bytes_max = FILE_CACHE_BYTES_MAX,
	};
	char path[PATH_MAX];

	*cache = NULL;
	*problem = (struct error){""};
	if (options->off)
		return 0;
	if (!config.directory) {
		if (!find_default(path))
			return 0;
		config.directory = path;
	}
	*cache = file_cache_open(&config, problem);
	return *cache || !options->directory ? 0 : -EINVAL;
}
