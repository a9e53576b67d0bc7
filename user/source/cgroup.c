// SPDX-License-Identifier: GPL-2.0
#include "source/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/error.h"

static bool find_mount(char mount[PATH_MAX])
{
	FILE *stream = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;
	bool found = false;

	while (stream && !found && (entry = getmntent(stream))) {
		found = !strcmp(entry->mnt_type, "cgroup2");
		if (found)
			snprintf(mount, PATH_MAX, "%s", entry->mnt_dir);
	}
	if (stream)
		endmntent(stream);
	return found;
}

bool cgroup_path_is_below(const char *directory, const char *above)
{
	size_t length = strlen(above);

	return !strncmp(directory, above, length) &&
	       (!directory[length] || directory[length] == '/');
}

/* Sets the directory of a group. Returns 0 or a negative errno value. */
static int find_directory(const char *path, char directory[2 * PATH_MAX], struct error *error)
{
	char mount[PATH_MAX];
	struct stat status;

	if (!find_mount(mount))
		return error_set(error, ENOTSUP,
				 "-G %s: control groups of version 2 are not mounted", path);
	if (cgroup_path_is_below(path, mount))
		snprintf(directory, (size_t)2 * PATH_MAX, "%s", path);
	else
		snprintf(directory, (size_t)2 * PATH_MAX, "%s/%s", mount, path);
	if (stat(directory, &status) || !S_ISDIR(status.st_mode))
		return error_set(error, ENOENT, "-G %s: there is no such control group below %s",
				 path, mount);
	return 0;
}

int cgroup_id_of(const char *path, uint64_t *id, struct error *error)
{
	char directory[2 * PATH_MAX];
	struct stat status;
	int err = find_directory(path, directory, error);

	if (err)
		return err;
	if (stat(directory, &status))
		return error_errno(error, errno, "-G %s", path);
	/* On 64-bit systems, the kernel's id is the inode number. */
	*id = status.st_ino;
	return 0;
}

int cgroup_open(const char *path, struct error *error)
{
	char directory[2 * PATH_MAX];
	int err = find_directory(path, directory, error), fd;

	if (err)
		return err;
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? error_errno(error, errno, "-G %s", path) : fd;
}

int cgroup_resolve(const char *path, char directory[PATH_MAX], struct error *error)
{
	char found[2 * PATH_MAX];
	int err = find_directory(path, found, error);

	if (!err && !realpath(found, directory))
		return error_errno(error, errno, "-G %s", path);
	return err;
}
