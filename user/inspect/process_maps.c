// SPDX-License-Identifier: GPL-2.0
#include "inspect/process_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "debuginfo/elf_headers.h"
#include "inspect/process_memory.h"
#include "lib/array.h"
#include "lib/error.h"
#include "lib/regular_file.h"
#include "mappings/find_mapped_file.h"

/* Replaces \012, as which the kernel writes a newline. It writes backslashes as they are. */
static void process_maps_unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from; to++) {
		if (!strncmp(from, "\\012", 4)) {
			*to = '\n';
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* Reads a number that `end` follows, and moves *text behind that. */
static bool process_maps_read_number(char **text, int base, char end, uint64_t *number)
{
	char *rest;

	*number = strtoull(*text, &rest, base);
	if (rest == *text || *rest != end)
		return false;
	*text = rest + 1;
	return true;
}

/* START-END RIGHTS OFFSET MAJOR:MINOR INODE PATH */
static bool process_maps_parse_line(char *line, struct process_mapping *mapping)
{
	uint64_t device_major, device_minor;

	if (!process_maps_read_number(&line, 16, '-', &mapping->start) ||
	    !process_maps_read_number(&line, 16, ' ', &mapping->end) || strlen(line) < 5)
		return false;
	mapping->is_executable = line[2] == 'x';
	line += 5;
	if (!process_maps_read_number(&line, 16, ' ', &mapping->offset) ||
	    !process_maps_read_number(&line, 16, ':', &device_major) ||
	    !process_maps_read_number(&line, 16, ' ', &device_minor) ||
	    !process_maps_read_number(&line, 10, ' ', &mapping->inode))
		return false;
	mapping->device = makedev(device_major, device_minor);
	mapping->path = line + strspn(line, " ");
	mapping->path[strcspn(mapping->path, "\n")] = '\0';
	return mapping->start < mapping->end;
}

static int process_maps_add(struct process_maps *maps, char *line)
{
	struct process_mapping mapping = {0};

	if (!process_maps_parse_line(line, &mapping))
		return 0;
	if (array_reserve(&maps->items, &maps->capacity, maps->count, 1, sizeof(*maps->items)))
		return -ENOMEM;
	mapping.path = strdup(mapping.path);
	if (!mapping.path)
		return -ENOMEM;
	process_maps_unescape(mapping.path);
	maps->items[maps->count++] = mapping;
	return 0;
}

static int process_maps_read_lines(struct process_maps *maps, FILE *file)
{
	char *line = NULL;
	size_t size = 0;
	int err = 0;

	errno = 0;
	while (!err && maps->count < PROCESS_MAPPINGS_MAX && getline(&line, &size, file) > 0)
		err = process_maps_add(maps, line);
	if (!err && ferror(file))
		err = -errno;
	free(line);
	return err;
}

int process_maps_read(pid_t pid, struct process_maps *maps, struct error *error)
{
	char path[32];
	FILE *file;
	int err;

	*maps = (struct process_maps){.pid = pid};
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	if (!file)
		return process_memory_explain(pid, -errno, error);
	err = process_maps_read_lines(maps, file);
	fclose(file);
	if (err) {
		process_maps_clear(maps);
		return process_memory_explain(pid, err, error);
	}
	if (!maps->count) {
		process_maps_clear(maps);
		return error_set(error, ENODATA,
				 "process %d has no memory: it has exited, or is one of the kernel",
				 pid);
	}
	return 0;
}

void process_maps_clear(struct process_maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		free(maps->items[i].path);
	free(maps->items);
	*maps = (struct process_maps){0};
}

const struct process_mapping *process_maps_at(const struct process_maps *maps, uint64_t address)
{
	size_t low = 0, high = maps->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (maps->items[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < maps->items[low - 1].end ? &maps->items[low - 1] : NULL;
}

/* The device of /proc/PID/maps differs from that in stat() on file systems without one of their
 * own. */
static bool is_file_of(const struct process_mapping *mapping, int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_ino == mapping->inode &&
	       (st.st_dev == mapping->device || !major(st.st_dev) || !major(mapping->device));
}

/* Takes an fd, or closes it if it is another file. */
static int take_if_same(const struct process_mapping *mapping, int fd)
{
	if (fd < 0 || is_file_of(mapping, fd))
		return fd;
	close(fd);
	return -ESTALE;
}

int process_maps_open(const struct process_maps *maps, const struct process_mapping *mapping)
{
	const struct file_place place = {
		.path = mapping->path,
		.pid = (uint32_t)maps->pid,
		.start = mapping->start,
		.end = mapping->end,
	};
	char path[32];
	struct stat st;
	int fd = -ESTALE;

	if (!mapping->inode)
		return -ENOENT;
	for (unsigned int i = 0; i < FILE_PLACES && fd < 0; i++)
		fd = take_if_same(mapping, find_mapped_file_timed("", &place, i, NULL));
	if (fd >= 0)
		return fd;
	/* A deleted program is there for its own user, too. */
	snprintf(path, sizeof(path), "/proc/%d/exe", maps->pid);
	return take_if_same(mapping, open_regular_file(path, 0, &st));
}

/* Finds the segment that is mapped there. Returns false if there is none. */
static bool set_bias(const struct elf_headers *headers, const struct process_mapping *mapping,
		     struct process_file *file)
{
	const uint64_t end = mapping->offset + (mapping->end - mapping->start);

	for (size_t i = 0; i < headers->segment_count; i++) {
		const struct elf_segment *segment = &headers->segments[i];

		if (segment->offset >= end || segment->offset + segment->size <= mapping->offset)
			continue;
		file->bias = mapping->start - mapping->offset + segment->offset - segment->vaddr;
		return true;
	}
	return false;
}

int process_file_read(const struct sandbox_server *server, const struct process_mapping *mapping,
		      int fd, struct process_file *file, struct error *error)
{
	struct elf_headers *headers = calloc(1, sizeof(*headers));
	int err;

	if (!headers)
		return error_errno(error, ENOMEM, "its headers can't be read");
	err = worker_read_headers(server, fd, headers, error);
	if (!err && !set_bias(headers, mapping, file))
		err = error_set(error, ENODATA, "its code is not in the file");
	if (!err)
		memcpy(file->build_id, headers->build_id, sizeof(file->build_id));
	free(headers);
	return err;
}
