/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The mapped files of a source of samples in which the kernel holds no file: they are found by path
 * and inode as soon as a sampled process maps them, and held open here, as the module does.
 */
#ifndef STACKBEAT_SOURCE_PERF_FILES_H
#define STACKBEAT_SOURCE_PERF_FILES_H

#include <stdbool.h>
#include <stdint.h>

struct perf_files;
struct record_buffer;

/* What the kernel reports of a mapped file. */
struct perf_file_key {
	uint32_t major, minor; /* device */
	uint64_t inode;
	uint64_t generation; /* 0: unknown */
};

/* A mapping of it, through which it can be opened while the process lives. */
struct perf_file_place {
	uint32_t pid;
	uint64_t start, end;
};

#define PERF_FILE_NONE UINT32_MAX

/* Returns NULL when out of memory. perf_files_free() accepts NULL. */
struct perf_files *perf_files_new(void);
void perf_files_free(struct perf_files *files);

/* Closes all files in a forked process, without the lock: see device_leave(). */
void perf_files_leave(struct perf_files *files);

/*
 * Returns the index of a file, or PERF_FILE_NONE: there are too many, or no memory. It is valid as
 * long as it is used, and has one use more than before, which the caller ends with
 * perf_files_drop(). `path`: in the process, perhaps with " (deleted)".
 */
uint32_t perf_files_index(struct perf_files *files, const struct perf_file_key *key,
			  const char *path);

/* One use more, or less, of an index; PERF_FILE_NONE has no uses. */
void perf_files_use(struct perf_files *files, uint32_t index);
void perf_files_drop(struct perf_files *files, uint32_t index);

/* Forgets files that are neither used nor announced. Call it about once a second. */
void perf_files_sweep(struct perf_files *files);

/*
 * Returns the id of a file for records. If it has none, or it was released, opens the file, gives
 * it a new id, and adds its record to `out`. A file that could not be opened, as the process has
 * ended, is opened again at the place of another process, and has another id then. Returns 0 when
 * out of memory, or when too many are held.
 */
uint64_t perf_files_announce(struct perf_files *files, uint32_t index,
			     const struct perf_file_place *place, struct record_buffer *out);

/* Sets the ELF virtual address of an offset in an announced file; false: it is unknown. */
bool perf_files_vaddr(const struct perf_files *files, uint32_t index, uint64_t offset,
		      uint64_t *vaddr);

/* As device_file_open() and device_file_release(): called from any thread. */
int perf_files_open(struct perf_files *files, uint64_t id);
int perf_files_release(struct perf_files *files, uint64_t id);

#endif
