/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel would tell of processes and files, and the files that it would keep. */
#ifndef STACKBEAT_TEST_FAKE_KERNEL_RECORDS_H
#define STACKBEAT_TEST_FAKE_KERNEL_RECORDS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <stackbeat.h>

#include "process/address_space.h"
#include "process/mapped_files.h"

#define TOLD_FILES_MAX 1024u

/* The kernel's files by object id, which is their index plus 1. */
struct told_files {
	int fds[TOLD_FILES_MAX]; /* kept open; -1: released */
	uint64_t count;
	bool refuse; /* EACCES instead */
	unsigned int opened, released; /* how often */
};

union any_space {
	struct stackbeat_address_space space;
	uint8_t bytes[sizeof(struct stackbeat_address_space) + 64];
};

union any_object {
	struct stackbeat_file object;
	uint8_t bytes[sizeof(struct stackbeat_file) + STACKBEAT_PATH_MAX];
};

/* For struct file_source. Called by another thread. */
static inline int told_open(uint64_t id, void *arg)
{
	struct told_files *files = arg;

	if (!id || id > files->count || files->fds[id - 1] < 0)
		return -ENOENT;
	if (files->refuse)
		return -EACCES;
	__atomic_add_fetch(&files->opened, 1, __ATOMIC_RELAXED);
	return fcntl(files->fds[id - 1], F_DUPFD_CLOEXEC, 0);
}

static inline int told_release(uint64_t id, void *arg)
{
	struct told_files *files = arg;

	if (!id || id > files->count || files->fds[id - 1] < 0)
		return -ENOENT;
	close(files->fds[id - 1]);
	files->fds[id - 1] = -1;
	files->released++;
	return 0;
}

static inline struct file_source told_source(struct told_files *files)
{
	return (struct file_source){
		.open = told_open,
		.release = told_release,
		.arg = files,
	};
}

static inline void told_clear(struct told_files *files)
{
	for (uint64_t i = 0; i < files->count; i++) {
		if (files->fds[i] >= 0)
			close(files->fds[i]);
	}
}

/* The record of a file, with the next id; the kernel has not read the file itself. */
static inline const struct stackbeat_file *told_record(struct told_files *files, const char *path,
						       union any_object *any)
{
	struct stackbeat_file *object = &any->object;
	size_t length = strlen(path) + 1;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	memset(any, 0, sizeof(*any));
	if (fd < 0 || fstat(fd, &st) || files->count == TOLD_FILES_MAX)
		abort();
	files->fds[files->count++] = fd;
	object->record.type = STACKBEAT_RECORD_FILE;
	object->record.flags = STACKBEAT_FILE_HEADERS_NOT_READ;
	object->record.size = (sizeof(*object) + length + 7) / 8 * 8;
	object->file = files->count;
	object->inode = st.st_ino;
	object->size = (uint64_t)st.st_size;
	object->device_major = major(st.st_dev);
	object->device_minor = minor(st.st_dev);
	memcpy(object->path, path, length);
	return object;
}

/* Tells of a file, and returns the id of its object. */
static inline uint64_t told_file(struct mapped_files *objects, struct told_files *files,
				 const char *path)
{
	union any_object any;

	if (mapped_files_add(objects, told_record(files, path, &any)))
		abort();
	return any.object.file;
}

static inline void told_space(struct address_spaces *spaces, uint64_t id, uint32_t pid,
			      uint32_t generation, const char *comm)
{
	union any_space any = {
		.space = {
			.record = {.type = STACKBEAT_RECORD_ADDRESS_SPACE,
				   .size = sizeof(struct stackbeat_address_space) + 8},
			.address_space = id,
			.pid = pid,
			.generation = generation,
		}};

	snprintf(any.space.comm, sizeof(any.space.comm), "%s", comm);
	if (address_spaces_add(spaces, &any.space))
		abort();
}

/* `flags` say also whether it is a change. Of a file, `offset` is that of `start`. */
static inline void told_mapping(struct address_spaces *spaces, uint64_t id, uint32_t generation,
				uint16_t flags, uint64_t start, uint64_t end, uint64_t object,
				uint64_t offset)
{
	const struct stackbeat_mapping mapping = {
		.record = {.type = STACKBEAT_RECORD_MAPPING,
			   .flags = flags,
			   .size = sizeof(mapping)},
		.address_space = id,
		.start = start,
		.end = end,
		.offset = offset,
		.vaddr = flags & STACKBEAT_MAPPING_VADDR ? offset : 0,
		.file = object,
		.generation = generation,
	};

	if (address_spaces_add_mapping(spaces, &mapping))
		abort();
}

/* Tells of a process that is as this one, as space `id`, in generation 1, and goes there. */
static inline void told_self(struct address_spaces *spaces, struct told_files *files, uint64_t id,
			     uint32_t pid)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, offset;
	char line[4096], path[4096];

	if (!maps)
		abort();
	told_space(spaces, id, pid, 1, "self");
	while (fgets(line, sizeof(line), maps)) {
		*path = '\0';
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095s", &start, &end, &offset, path) < 3)
			continue;
		if (line[strcspn(line, " ") + 3] != 'x' || !strcmp(path, "[vsyscall]"))
			continue;
		if (*path == '/')
			told_mapping(spaces, id, 1, 0, start, end,
				     told_file(address_spaces_files(spaces), files, path), offset);
		else
			told_mapping(spaces, id, 1,
				     strcmp(path, "[vdso]") ? 0 : STACKBEAT_MAPPING_VDSO, start,
				     end, 0, 0);
	}
	fclose(maps);
	if (address_space_advance(address_spaces_get(spaces, id, 0), 1))
		abort();
}

#endif
