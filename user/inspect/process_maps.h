/* SPDX-License-Identifier: GPL-2.0 */
/* The mappings of a running process, by /proc/PID/maps, and the files that are mapped. */
#ifndef STACKBEAT_INSPECT_PROCESS_MAPS_H
#define STACKBEAT_INSPECT_PROCESS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/build_id.h"

struct error;
struct sandbox_server;

struct process_mapping {
	uint64_t start, end, offset;
	uint64_t device, inode; /* inode 0: no file */
	bool is_executable;
	char *path; /* as in the file, or "[vdso]", "[stack]"; "": none */
};

struct process_maps {
	pid_t pid;
	struct process_mapping *items; /* in ascending order */
	size_t count, capacity;
};

/* Lines of /proc/PID/maps that are read; the rest is dropped. */
#define PROCESS_MAPPINGS_MAX (1u << 17)

/*
 * Reads the mappings. Returns 0, to be followed by process_maps_clear(); or a negative errno value
 * with `error` set: -ESRCH if there is no such process, -ENODATA if it has no memory, -EACCES if
 * its memory may not be read.
 */
int process_maps_read(pid_t pid, struct process_maps *maps, struct error *error);
void process_maps_clear(struct process_maps *maps);

/* Returns the mapping of an address, or NULL. */
const struct process_mapping *process_maps_at(const struct process_maps *maps, uint64_t address);

/*
 * Opens the file of a mapping, also if it was deleted, as far as the rights of this process
 * suffice. Returns the fd, which the caller closes, or a negative errno value.
 */
int process_maps_open(const struct process_maps *maps, const struct process_mapping *mapping);

/* A file that is mapped. */
struct process_file {
	uint64_t bias; /* address - ELF virtual address */
	char build_id[BUILD_ID_SIZE]; /* hex; "": none */
};

/*
 * Reads the headers of the file `fd` of a mapping with code, in a worker. Returns 0 or a negative
 * errno value.
 */
int process_file_read(const struct sandbox_server *server, const struct process_mapping *mapping,
		      int fd, struct process_file *file, struct error *error);

#endif
