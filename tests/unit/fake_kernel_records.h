/* SPDX-License-Identifier: GPL-2.0 */
/* Records of processes and files as the kernel would send them, and the files it would hold. */
#ifndef STACKBEAT_TEST_FAKE_KERNEL_RECORDS_H
#define STACKBEAT_TEST_FAKE_KERNEL_RECORDS_H

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <stackbeat.h>

#include "mappings/address_space.h"
#include "mappings/mapped_files.h"
#include "patience.h"

#define FAKE_FILES_MAX 1024u

/* The kernel's files by file id, which is their index plus 1. */
struct fake_files {
	int fds[FAKE_FILES_MAX]; /* held open; -1: released */
	uint64_t count;
	bool refuse; /* EACCES instead */
	unsigned int opened, released; /* number of calls */
};

union any_space {
	struct stackbeat_address_space space;
	uint8_t bytes[sizeof(struct stackbeat_address_space) + 64];
};

union any_file {
	struct stackbeat_file file;
	uint8_t bytes[sizeof(struct stackbeat_file) + STACKBEAT_PATH_MAX];
};

/* For struct file_source. Called by another thread. */
static inline int fake_open(uint64_t id, void *arg)
{
	struct fake_files *files = arg;

	if (!id || id > files->count || files->fds[id - 1] < 0)
		return -ENOENT;
	if (files->refuse)
		return -EACCES;
	__atomic_add_fetch(&files->opened, 1, __ATOMIC_RELAXED);
	return fcntl(files->fds[id - 1], F_DUPFD_CLOEXEC, 0);
}

static inline int fake_release(uint64_t id, void *arg)
{
	struct fake_files *files = arg;

	if (!id || id > files->count || files->fds[id - 1] < 0)
		return -ENOENT;
	close(files->fds[id - 1]);
	files->fds[id - 1] = -1;
	files->released++;
	return 0;
}

static inline struct file_source fake_source(struct fake_files *files)
{
	return (struct file_source){
		.open = fake_open,
		.release = fake_release,
		.arg = files,
		.timeout_s = (unsigned int)hang_s(),
	};
}

static inline void fake_clear(struct fake_files *files)
{
	for (uint64_t i = 0; i < files->count; i++) {
		if (files->fds[i] >= 0)
			close(files->fds[i]);
	}
}

/* Makes the record of a file with the next id, as if the kernel had not read its headers. */
static inline const struct stackbeat_file *fake_file_record(struct fake_files *files,
							    const char *path, union any_file *any)
{
	struct stackbeat_file *record = &any->file;
	size_t length = strlen(path) + 1;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	memset(any, 0, sizeof(*any));
	if (fd < 0 || fstat(fd, &st) || files->count == FAKE_FILES_MAX)
		abort();
	files->fds[files->count++] = fd;
	record->record.type = STACKBEAT_RECORD_FILE;
	record->record.flags = STACKBEAT_FILE_HEADERS_NOT_READ;
	record->record.size = (sizeof(*record) + length + 7) / 8 * 8;
	record->file = files->count;
	record->inode = st.st_ino;
	record->size = (uint64_t)st.st_size;
	record->device_major = major(st.st_dev);
	record->device_minor = minor(st.st_dev);
	memcpy(record->path, path, length);
	return record;
}

/* Announces a file, and returns its id. */
static inline uint64_t fake_file(struct mapped_files *table, struct fake_files *files,
				 const char *path)
{
	union any_file any;

	if (mapped_files_add(table, fake_file_record(files, path, &any)))
		abort();
	return any.file.file;
}

/* Announces a file of which the kernel has found that it is no ELF file, and returns its id. */
static inline uint64_t fake_other_file(struct mapped_files *table, struct fake_files *files,
				       const char *path)
{
	union any_file any;

	fake_file_record(files, path, &any);
	any.file.record.flags &= (uint16_t)~STACKBEAT_FILE_HEADERS_NOT_READ;
	any.file.build_id_size = 0;
	if (mapped_files_add(table, &any.file))
		abort();
	return any.file.file;
}

static inline void fake_space(struct address_spaces *spaces, uint64_t id, uint32_t pid,
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

/*
 * Adds a mapping, or a mapping event, depending on `flags`. `offset` is the place of `start` in the
 * file, or its virtual address.
 */
static inline void fake_mapping(struct address_spaces *spaces, uint64_t id, uint32_t generation,
				uint16_t flags, uint64_t start, uint64_t end, uint64_t file,
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
		.file = file,
		.generation = generation,
	};

	if (address_spaces_add_mapping(spaces, &mapping))
		abort();
}

struct fake_object {
	uint64_t address; /* in its memory */
	uint64_t vaddr; /* of `address` */
	bool found;
};

static inline int fake_find_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct fake_object *object = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + header->p_vaddr;

		if (header->p_type == PT_LOAD && (header->p_flags & PF_X) &&
		    start < object->address + 4096 && object->address < start + header->p_memsz) {
			object->vaddr = object->address - info->dlpi_addr;
			object->found = true;
		}
	}
	return object->found;
}

/* Adds a mapping of a file that this process has loaded, with its virtual address. */
static inline void fake_loaded_file(struct address_spaces *spaces, uint64_t id, uint64_t start,
				    uint64_t end, uint64_t file, uint64_t offset)
{
	struct fake_object object = {.address = start};

	dl_iterate_phdr(fake_find_object, &object);
	fake_mapping(spaces, id, 1, object.found ? STACKBEAT_MAPPING_VADDR : 0, start, end, file,
		     object.found ? object.vaddr : offset);
}

/* Adds a copy of this process as address space `id` at generation 1, and advances to that. */
static inline void fake_self(struct address_spaces *spaces, struct fake_files *files, uint64_t id,
			     uint32_t pid)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, offset;
	char line[4096], path[4096];

	if (!maps)
		abort();
	fake_space(spaces, id, pid, 1, "self");
	while (fgets(line, sizeof(line), maps)) {
		*path = '\0';
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095s", &start, &end, &offset, path) < 3)
			continue;
		if (line[strcspn(line, " ") + 3] != 'x' || !strcmp(path, "[vsyscall]"))
			continue;
		if (*path == '/')
			fake_loaded_file(spaces, id, start, end,
					 fake_file(address_spaces_files(spaces), files, path),
					 offset);
		else
			fake_mapping(spaces, id, 1,
				     strcmp(path, "[vdso]") ? 0 : STACKBEAT_MAPPING_VDSO, start,
				     end, 0, 0);
	}
	fclose(maps);
	if (address_space_advance(address_spaces_get(spaces, id, 0), 1))
		abort();
}

#endif
