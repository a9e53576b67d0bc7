// SPDX-License-Identifier: GPL-2.0
#include "store/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/atomic_file.h"
#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/profile_select.h"
#include "pprof/service.h"
#include "store/merge.h"

#define MAGIC "stackbeat parts1"
#define NAME_MAX_SIZE 4096u
#define END_SIZE 8u /* of a window: the checksum and the size in the format of gzip */

/* The file: profiles, entries with their names, a foot. No service has the name "": all lack it. */
struct parts_entry {
	uint64_t offset, size; /* of the profile in the file */
	int64_t samples, cpu_ns;
	uint32_t name_size; /* bytes that follow */
	uint32_t padding;
};

struct foot {
	uint64_t entries; /* offset in the file */
	uint64_t window_size;
	unsigned char window_end[END_SIZE];
	uint32_t count;
	uint32_t padding;
	char magic[sizeof(MAGIC) - 1];
};

/* Writing */

static int describe_window(int window, struct foot *foot)
{
	struct stat status;

	if (fstat(window, &status))
		return -errno;
	if (status.st_size < (off_t)END_SIZE ||
	    pread(window, foot->window_end, END_SIZE, status.st_size - (off_t)END_SIZE) !=
		    (ssize_t)END_SIZE)
		return -EBADMSG;
	foot->window_size = (uint64_t)status.st_size;
	return 0;
}

static int parts_write_part(struct atomic_file *file, const struct profile *profile,
			    const struct service *service, struct parts_entry *entry,
			    struct error *error)
{
	const struct profile_selection selection = {.service = service->name, .labels = UINT32_MAX};
	struct profile *part = profile_new();
	off_t start = lseek(file->fd, 0, SEEK_CUR);
	int err = part ? profile_select(part, profile, &selection) : -ENOMEM;

	if (!err) {
		part->time_ns = profile->time_ns;
		part->duration_ns = profile->duration_ns;
		merge_copy_source(part, profile);
		profile_comment(part, "lost: %" PRIu64, merge_lost(profile));
		err = part->error;
	}
	if (err)
		error_errno(error, -err, "%s", file->path);
	else
		err = pprof_write_fd(part, file->fd, file->path, error);
	profile_free(part);
	*entry = (struct parts_entry){
		.offset = (uint64_t)start,
		.size = (uint64_t)(lseek(file->fd, 0, SEEK_CUR) - start),
		.samples = service->samples,
		.cpu_ns = service->cpu_ns,
		.name_size = (uint32_t)strlen(service->name),
	};
	return err;
}

static int write_foot(struct atomic_file *file, const struct services *services,
		      const struct parts_entry *entries, struct foot *foot, struct error *error)
{
	int err = 0;

	foot->entries = (uint64_t)lseek(file->fd, 0, SEEK_CUR);
	foot->count = (uint32_t)services->count;
	memcpy(foot->magic, MAGIC, sizeof(foot->magic));
	for (size_t i = 0; i < services->count && !err; i++) {
		err = atomic_file_write(file, &entries[i], sizeof(entries[i]), error);
		if (!err)
			err = atomic_file_write(file, services->items[i].name, entries[i].name_size,
						error);
	}
	return err ? err : atomic_file_write(file, foot, sizeof(*foot), error);
}

static int write_parts(struct atomic_file *file, const struct profile *profile,
		       const struct services *services, struct foot *foot, struct error *error)
{
	struct parts_entry *entries = calloc(services->count + 1, sizeof(*entries));
	int err = 0;

	if (!entries)
		return error_errno(error, ENOMEM, "%s", file->path);
	for (size_t i = 0; i < services->count && !err; i++)
		err = parts_write_part(file, profile, &services->items[i], &entries[i], error);
	if (!err)
		err = write_foot(file, services, entries, foot, error);
	free(entries);
	return err;
}

static int create_and_write(const struct profile *profile, const char *path,
			    const struct services *services, struct foot *foot, uint64_t *size,
			    struct error *error)
{
	char parts[PATH_MAX];
	struct atomic_file file;
	int err;

	if (snprintf(parts, sizeof(parts), "%s" PARTS_SUFFIX, path) >= (int)sizeof(parts))
		return error_errno(error, ENAMETOOLONG, "%s", path);
	err = atomic_file_create(&file, parts, error);
	if (err)
		return err;
	err = write_parts(&file, profile, services, foot, error);
	if (err) {
		atomic_file_discard(&file);
		return err;
	}
	*size = (uint64_t)lseek(file.fd, 0, SEEK_CUR);
	return atomic_file_commit(&file, error);
}

int parts_write(const struct profile *profile, const char *path, uint64_t *size,
		struct error *error)
{
	int window = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), err;
	struct services services = {0};
	struct foot foot = {0};

	if (window < 0)
		return error_errno(error, errno, "%s", path);
	err = describe_window(window, &foot);
	close(window);
	if (!err)
		err = services_add(&services, profile);
	/* For services that the window lacks. */
	if (!err)
		err = services_add_sum(&services, "", 0, 0);
	if (!err && services.count > PARTS_MAX)
		err = -E2BIG;
	err = err ? error_errno(error, -err, "%s", path)
		  : create_and_write(profile, path, &services, &foot, size, error);
	services_clear(&services);
	return err;
}

/* Reading */

struct parts {
	const unsigned char *bytes;
	size_t size;
	struct foot foot;
};

/* Maps the file if it is of the window. */
static bool open_parts(struct parts *parts, int file, int window)
{
	struct foot of_window = {0};
	struct stat status;
	void *bytes;

	if (fstat(file, &status) || !S_ISREG(status.st_mode) ||
	    status.st_size < (off_t)sizeof(parts->foot))
		return false;
	parts->size = (size_t)status.st_size;
	bytes = mmap(NULL, parts->size, PROT_READ, MAP_PRIVATE, file, 0);
	if (bytes == MAP_FAILED)
		return false;
	parts->bytes = bytes;
	memcpy(&parts->foot, parts->bytes + parts->size - sizeof(parts->foot), sizeof(parts->foot));
	if (!memcmp(parts->foot.magic, MAGIC, sizeof(parts->foot.magic)) &&
	    parts->foot.count <= PARTS_MAX && !describe_window(window, &of_window) &&
	    of_window.window_size == parts->foot.window_size &&
	    !memcmp(of_window.window_end, parts->foot.window_end, END_SIZE))
		return true;
	munmap(bytes, parts->size);
	return false;
}

static void close_parts(const struct parts *parts)
{
	munmap((void *)parts->bytes, parts->size);
}

/* Takes the entry at *offset, with its name, and moves *offset behind it. */
static bool parts_next_entry(const struct parts *parts, uint64_t *offset, struct parts_entry *entry,
			     char name[NAME_MAX_SIZE])
{
	if (*offset > parts->size || parts->size - *offset < sizeof(*entry))
		return false;
	memcpy(entry, parts->bytes + *offset, sizeof(*entry));
	*offset += sizeof(*entry);
	if (entry->name_size >= NAME_MAX_SIZE || parts->size - *offset < entry->name_size ||
	    entry->offset > parts->size || entry->size > parts->size - entry->offset)
		return false;
	memcpy(name, parts->bytes + *offset, entry->name_size);
	name[entry->name_size] = '\0';
	*offset += entry->name_size;
	return true;
}

struct profile *parts_read(int file, int window, const char *service)
{
	struct parts_entry entry, found = {0};
	char name[NAME_MAX_SIZE];
	struct profile *profile = NULL;
	struct parts parts;
	uint64_t offset;

	if (!open_parts(&parts, file, window))
		return NULL;
	offset = parts.foot.entries;
	for (uint32_t i = 0;
	     i < parts.foot.count && parts_next_entry(&parts, &offset, &entry, name); i++) {
		if (!*name || !strcmp(name, service))
			found = entry;
		if (!strcmp(name, service))
			break;
	}
	if (found.size)
		profile = pprof_decode(parts.bytes + found.offset, found.size, "a part", NULL);
	close_parts(&parts);
	return profile;
}

/* The entries are added after all were seen. */
static int add_entries(const struct parts *parts, struct services *services, bool adds)
{
	uint64_t offset = parts->foot.entries;
	char name[NAME_MAX_SIZE];
	struct parts_entry entry;
	int err = 0;

	for (uint32_t i = 0; i < parts->foot.count && !err; i++) {
		if (!parts_next_entry(parts, &offset, &entry, name))
			return -EBADMSG;
		if (adds && *name)
			err = services_add_sum(services, name, entry.samples, entry.cpu_ns);
	}
	return err;
}

int parts_add_services(int file, int window, struct services *services)
{
	struct parts parts;
	int err;

	if (!open_parts(&parts, file, window))
		return -EBADMSG;
	err = add_entries(&parts, services, false) ?: add_entries(&parts, services, true);
	close_parts(&parts);
	return err;
}
