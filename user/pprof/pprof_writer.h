/* SPDX-License-Identifier: GPL-2.0 */
/* Writes profiles as pprof files; profile.proto has the format. */
#ifndef STACKBEAT_PPROF_PPROF_WRITER_H
#define STACKBEAT_PPROF_PPROF_WRITER_H

#include <stdint.h>

struct error;
struct profile;

/*
 * Writes the gzipped profile to `path` ("-": the standard output), and sets *size (may be NULL) to
 * its size in bytes. Ids in the file are the numbers of the entries. Returns 0 or a negative errno
 * value: -ENOMEM also if memory ran out while the profile was built.
 */
int pprof_write(const struct profile *profile, const char *path, uint64_t *size,
		struct error *error);

/* As pprof_write(), to the open file `fd`; `name` is its name in messages. */
int pprof_write_fd(const struct profile *profile, int fd, const char *name, struct error *error);

/* As those, in less time, and about a tenth larger: for what is soon written again. */
int pprof_write_fast(const struct profile *profile, const char *path, uint64_t *size,
		     struct error *error);
int pprof_write_fd_fast(const struct profile *profile, int fd, const char *name,
			struct error *error);

/* As pprof_write_fd(), not gzipped: for a process that reads it at once. */
int pprof_write_fd_plain(const struct profile *profile, int fd, const char *name,
			 struct error *error);

#endif
