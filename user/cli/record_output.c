// SPDX-License-Identifier: GPL-2.0
#include "cli/record_output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/pprof_writer.h"

#define SUFFIX ".pb.gz"

int output_hold_room(struct output_room *room, const char *path, bool rotates, struct error *error)
{
	char rotated[PATH_MAX];
	struct stat status;
	int err;

	*room = (struct output_room){.held = false};
	if (rotates && !stat(path, &status) && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
		return error_set(error, EINVAL, "--rotate needs a file, and %s is none", path);
	if (rotates) {
		output_rotated_path(path, 0, rotated);
		path = rotated;
	}
	/* Pipes and devices have no room that could be held. */
	if (!strcmp(path, "-") || (!stat(path, &status) && !S_ISREG(status.st_mode)))
		return atomic_file_check(path, error);
	err = atomic_file_create(&room->file, path, error);
	if (err)
		return err;
	err = atomic_file_reserve(&room->file, OUTPUT_ROOM, error);
	if (err || !room->file.nameless)
		atomic_file_discard(&room->file);
	else
		room->held = true;
	return err;
}

void output_release_room(struct output_room *room)
{
	if (room->held)
		atomic_file_discard(&room->file);
	room->held = false;
}

bool output_is_stdout(const char *path)
{
	struct stat output, standard;

	if (!strcmp(path, "-"))
		return true;
	/* Devices such as /dev/null and terminals are no place where a profile is read. */
	return !stat(path, &output) && !fstat(STDOUT_FILENO, &standard) &&
	       !S_ISCHR(output.st_mode) && output.st_dev == standard.st_dev &&
	       output.st_ino == standard.st_ino;
}

/* Returns the length of a path without the suffix of the file's name. */
static int stem_length(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *dot = strrchr(name, '.');
	size_t length = strlen(path);

	if (strlen(name) > strlen(SUFFIX) && !strcmp(path + length - strlen(SUFFIX), SUFFIX))
		return (int)(length - strlen(SUFFIX));
	return dot && dot > name ? (int)(dot - path) : (int)length;
}

void output_rotated_path(const char *path, int64_t start_ns, char rotated[PATH_MAX])
{
	const time_t seconds = start_ns / NS_PER_SECOND;
	const int stem = stem_length(path);
	char when[32], number[16] = "";
	struct tm utc;

	gmtime_r(&seconds, &utc);
	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &utc);
	for (unsigned int i = 2; i; i++) {
		/* A path that is too long can't be written, which is the caller's error. */
		if (snprintf(rotated, PATH_MAX, "%.*s.%s%s%s", stem, path, when, number,
			     path + stem) >= PATH_MAX ||
		    faccessat(AT_FDCWD, rotated, F_OK, AT_SYMLINK_NOFOLLOW))
			return;
		snprintf(number, sizeof(number), ".%u", i);
	}
}

static int output_write_to(const struct profile *profile, const char *directory,
			   char path[PATH_MAX], uint64_t *size, struct error *error)
{
	uint64_t number;
	mode_t mask;
	int err;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return error_errno(error, errno, "can't name another file");
	if (snprintf(path, PATH_MAX, "%s/stackbeat-%016" PRIx64 SUFFIX, directory, number) >=
	    PATH_MAX)
		return error_errno(error, ENAMETOOLONG, "%s", directory);
	mask = umask(077);
	err = pprof_write(profile, path, size, error);
	umask(mask);
	return err;
}

int output_write_elsewhere(const struct profile *profile, char path[PATH_MAX], uint64_t *size,
			   struct error *error)
{
	const char *directory = getenv("TMPDIR");

	/* It may be what is full, or the directory of a session that has ended. */
	if (directory && *directory && !output_write_to(profile, directory, path, size, error))
		return 0;
	return output_write_to(profile, "/var/tmp", path, size, error);
}
