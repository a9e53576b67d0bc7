// SPDX-License-Identifier: GPL-2.0
#include "unwind/table_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "debuginfo/elf_symbols.h"
#include "lib/array.h"
#include "lib/error.h"
#include "unwind/compile.h"

/* Another number for each format of the files. */
#define FORMAT UINT64_C(0x01746177626b7473)
#define NAME_SIZE 96u
#define TEMPORARY "new-"
#define TEMPORARY_DIGITS 16u
#define COMPILER_DIGITS 16u /* of the build ID of the command, in the name of a table */
#define TABLE_MODE 0600
/* Seconds after which the temporary file of a writer is what a crash has left. */
#define TEMPORARY_S 3600
/* The time of the last use is kept in steps: each is a write to the disk. */
#define USED_S 3600
/* What a file takes on the disk is a multiple of it. */
#define FILE_BLOCK 4096u
/* This part of the limit may be exceeded by each process that stores tables. */
#define UNCHECKED_PART 16u
/* What is left after a removal, in parts of 8 of the limit. */
#define KEPT_PARTS 7u

/* The start of a file; the table follows. */
struct entry_header {
	uint64_t format;
	uint64_t checksum[2]; /* of the rest and the table */
	char compiler[136]; /* build ID of the command */
	struct table_key key;
	struct unwind_summary summary;
};

struct table_cache {
	int directory;
	uint64_t bytes_max;
	uint64_t unchecked; /* bytes that were stored since the last look at all files */
	bool was_checked;
	char compiler[136];
};

/* Opening */

static int find_build_id(struct dl_phdr_info *info, size_t size, void *hex)
{
	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_NOTE &&
		    build_id_from_notes((const void *)(info->dlpi_addr + segment->p_vaddr),
					segment->p_filesz, segment->p_align, hex))
			break;
	}
	/* The first object is the program. */
	return 1;
}

static int set_compiler(struct table_cache *cache, const char *compiler, struct error *error)
{
	char build_id[BUILD_ID_SIZE] = "";

	if (!compiler)
		dl_iterate_phdr(find_build_id, build_id);
	else if (strlen(compiler) < BUILD_ID_SIZE)
		strcpy(build_id, compiler);
	if (!*build_id)
		return error_set(error, ENOTSUP,
				 "can't keep unwind tables: this command has no build ID");
	strcpy(cache->compiler, build_id);
	return 0;
}

/* Root's caches of other users, as that of debuginfod, have the same parent. */
static void create_parents(const char *path)
{
	const mode_t mode = geteuid() ? 0700 : 0755;
	char parent[PATH_MAX];

	if (snprintf(parent, sizeof(parent), "%s", path) >= PATH_MAX)
		return;
	for (char *slash = strchr(parent + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(parent, mode);
		*slash = '/';
	}
}

static int open_directory(const char *path, struct error *error)
{
	struct stat st;
	int fd;

	create_parents(path);
	if (mkdir(path, 0700) && errno != EEXIST)
		return error_errno(error, errno, "%s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(error, errno, "%s", path);
	if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return fd;
	close(fd);
	return error_set(error, EPERM, "%s: another user can write to it", path);
}

struct table_cache *table_cache_open(const struct table_cache_config *config, struct error *error)
{
	struct table_cache *cache = calloc(1, sizeof(*cache));

	if (!cache) {
		error_errno(error, ENOMEM, "%s", config->directory);
		return NULL;
	}
	cache->bytes_max = config->bytes_max;
	cache->directory = set_compiler(cache, config->compiler, error);
	if (!cache->directory)
		cache->directory = open_directory(config->directory, error);
	if (cache->directory >= 0)
		return cache;
	free(cache);
	return NULL;
}

void table_cache_close(struct table_cache *cache)
{
	if (!cache)
		return;
	close(cache->directory);
	free(cache);
}

/* Files */

/* Continues two sums: of all words, and of these sums (J. Fletcher, 1982). The size is even. */
static void add_words(uint64_t sums[2], const void *bytes, size_t size)
{
	const char *next = bytes;
	uint64_t word;

	for (; size >= sizeof(word); size -= sizeof(word), next += sizeof(word)) {
		memcpy(&word, next, sizeof(word));
		sums[0] += word;
		sums[1] += sums[0];
	}
}

static void sum_entry(const struct entry_header *header, const void *table, uint64_t sums[2])
{
	const size_t first = offsetof(struct entry_header, compiler);

	_Static_assert(sizeof(*header) % sizeof(uint64_t) == 0, "words");
	sums[0] = sums[1] = 1;
	add_words(sums, (const char *)header + first, sizeof(*header) - first);
	add_words(sums, table, header->summary.size);
}

/* The name has the owner, for the limit, and the command, for two that are in use. */
static void name_entry(const struct table_cache *cache, const struct table_key *key,
		       char name[NAME_SIZE])
{
	snprintf(name, NAME_SIZE, "%" PRIu64 "-%" PRIx64 "-%" PRIx64 "-%.16s", key->owner,
		 key->device, key->inode, cache->compiler);
}

static bool is_expected(const struct table_cache *cache, const struct table_key *key,
			const struct entry_header *header, uint64_t size)
{
	return header->format == FORMAT && !memcmp(&header->key, key, sizeof(*key)) &&
	       !memcmp(header->compiler, cache->compiler, sizeof(header->compiler)) &&
	       unwind_summary_is_valid(&header->summary) &&
	       size == sizeof(*header) + header->summary.size;
}

/* Reads the table behind the header. Returns false if the file is damaged, or without memory. */
static bool read_table(int fd, const struct entry_header *header,
		       struct stackbeat_unwind_table **table)
{
	const size_t size = header->summary.size;
	uint64_t sums[2];
	bool valid;

	*table = size ? malloc(size) : NULL;
	if (size && !*table)
		return false;
	valid = !size ||
		TEMP_FAILURE_RETRY(pread(fd, *table, size, sizeof(*header))) == (ssize_t)size;
	if (valid)
		sum_entry(header, *table, sums);
	if (valid && sums[0] == header->checksum[0] && sums[1] == header->checksum[1] &&
	    (!size || stackbeat_unwind_check(*table, size)))
		return true;
	free(*table);
	*table = NULL;
	return false;
}

static void note_use(int fd, const struct stat *st)
{
	if (time(NULL) - st->st_mtim.tv_sec >= USED_S)
		futimens(fd, NULL);
}

int table_cache_find(struct table_cache *cache, const struct table_key *key,
		     struct unwind_summary *summary, struct stackbeat_unwind_table **table)
{
	struct entry_header header;
	char name[NAME_SIZE];
	bool found = false;
	struct stat st;
	int fd;

	*table = NULL;
	*summary = (struct unwind_summary){0};
	name_entry(cache, key, name);
	fd = openat(cache->directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -ENOENT;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    TEMP_FAILURE_RETRY(pread(fd, &header, sizeof(header), 0)) == sizeof(header))
		found = is_expected(cache, key, &header, (uint64_t)st.st_size) &&
			read_table(fd, &header, table);
	if (found) {
		*summary = header.summary;
		note_use(fd, &st);
	}
	close(fd);
	return found ? 0 : -ENOENT;
}

/* The limit */

struct entry {
	char name[NAME_SIZE];
	uint64_t bytes;
	int64_t used_ns;
	bool is_roots;
};

struct entries {
	struct entry *list;
	size_t count, capacity;
	uint64_t bytes, others; /* of all; of those that are not root's */
};

static uint64_t bytes_on_disk(uint64_t size)
{
	return (size + FILE_BLOCK - 1) / FILE_BLOCK * FILE_BLOCK;
}

/* Returns whether a name continues with `count` hexadecimal digits; advances it past them. */
static bool skip_digits(const char **name, size_t count)
{
	if (strspn(*name, "0123456789abcdef") < count)
		return false;
	*name += count;
	return true;
}

/* Returns whether it is the name of a table, as name_entry() makes it; sets its owner. */
static bool parse_name(const char *name, uint64_t *owner)
{
	char *end;

	if (*name < '0' || *name > '9' || strlen(name) >= NAME_SIZE)
		return false;
	*owner = strtoull(name, &end, 10);
	for (int number = 0; number < 2; number++) {
		name = end + 1;
		if (*end != '-' || !skip_digits(&name, 1))
			return false;
		end = (char *)name + strspn(name, "0123456789abcdef");
	}
	name = end + 1;
	return *end == '-' && skip_digits(&name, COMPILER_DIGITS) && !*name;
}

static bool is_temporary(const char *name)
{
	if (strncmp(name, TEMPORARY, strlen(TEMPORARY)) != 0)
		return false;
	name += strlen(TEMPORARY);
	return skip_digits(&name, TEMPORARY_DIGITS) && !*name;
}

static int add_entry(struct table_cache *cache, struct entries *entries, const char *name)
{
	struct entry *entry;
	uint64_t owner;
	struct stat st;
	bool is_table = parse_name(name, &owner);

	/* The directory may have other files, which are none of ours. */
	if ((!is_table && !is_temporary(name)) ||
	    fstatat(cache->directory, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
	    (st.st_mode & 07777) != TABLE_MODE)
		return 0;
	if (!is_table) {
		if (time(NULL) - st.st_mtim.tv_sec >= TEMPORARY_S)
			unlinkat(cache->directory, name, 0);
		return 0;
	}
	if (array_reserve(&entries->list, &entries->capacity, entries->count, 1, sizeof(*entry)))
		return -ENOMEM;
	entry = &entries->list[entries->count++];
	strcpy(entry->name, name);
	entry->bytes = bytes_on_disk((uint64_t)st.st_size);
	entry->used_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
	entry->is_roots = !owner;
	entries->bytes += entry->bytes;
	entries->others += entry->is_roots ? 0 : entry->bytes;
	return 0;
}

static int list_entries(struct table_cache *cache, struct entries *entries)
{
	int fd = openat(cache->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *item;

	if (!directory) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && (item = readdir(directory)))
		err = add_entry(cache, entries, item->d_name);
	closedir(directory);
	return err;
}

static int compare_use(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return (a->used_ns > b->used_ns) - (a->used_ns < b->used_ns);
}

/* Removes the oldest entries, of all or of users, until at most these bytes are left. */
static void remove_oldest(struct table_cache *cache, struct entries *entries, bool of_users,
			  uint64_t left)
{
	uint64_t *bytes = of_users ? &entries->others : &entries->bytes;

	for (size_t i = 0; i < entries->count; i++) {
		struct entry *entry = &entries->list[i];

		if (*bytes <= left)
			return;
		if (!entry->bytes || (of_users && entry->is_roots))
			continue;
		/* Another process may have removed it. */
		unlinkat(cache->directory, entry->name, 0);
		entries->bytes -= entry->bytes;
		entries->others -= entry->is_roots ? 0 : entry->bytes;
		entry->bytes = 0;
	}
}

static void bound(struct table_cache *cache, struct entries *entries)
{
	const uint64_t max = cache->bytes_max, users_max = max / 2;

	qsort(entries->list, entries->count, sizeof(*entries->list), compare_use);
	if (entries->others > users_max)
		remove_oldest(cache, entries, true, users_max / 8 * KEPT_PARTS);
	if (entries->bytes > max)
		remove_oldest(cache, entries, false, max / 8 * KEPT_PARTS);
}

/* Looks at all files after the first one that was stored, and from time to time. */
static void check_limit(struct table_cache *cache, uint64_t stored)
{
	struct entries entries = {0};

	cache->unchecked += bytes_on_disk(stored);
	if (cache->was_checked && cache->unchecked < cache->bytes_max / UNCHECKED_PART)
		return;
	if (!list_entries(cache, &entries) && entries.count)
		bound(cache, &entries);
	cache->was_checked = true;
	cache->unchecked = 0;
	free(entries.list);
}

/* Storing */

/* What depends on the file alone. */
static bool is_of_use(const struct unwind_summary *summary)
{
	return summary->result == UNWIND_COMPILED || summary->result == UNWIND_NO_INFORMATION ||
	       summary->result == UNWIND_OTHER_MACHINE || summary->result == UNWIND_TOO_LARGE;
}

static int write_entry(int fd, const struct entry_header *header,
		       const struct stackbeat_unwind_table *table)
{
	const struct iovec parts[] = {
		{.iov_base = (void *)header, .iov_len = sizeof(*header)},
		{.iov_base = (void *)table, .iov_len = header->summary.size},
	};
	const ssize_t size = (ssize_t)(sizeof(*header) + header->summary.size);
	ssize_t written = TEMP_FAILURE_RETRY(writev(fd, parts, 2));

	if (written == size)
		return 0;
	return written < 0 ? -errno : -ENOSPC;
}

int table_cache_store(struct table_cache *cache, const struct table_key *key,
		      const struct unwind_summary *summary,
		      const struct stackbeat_unwind_table *table)
{
	struct entry_header header = {.format = FORMAT, .key = *key, .summary = *summary};
	char name[NAME_SIZE], temporary[NAME_SIZE];
	uint64_t number;
	int fd, err;

	if (!is_of_use(summary) || sizeof(header) + summary->size > cache->bytes_max / 4)
		return 0;
	memcpy(header.compiler, cache->compiler, sizeof(header.compiler));
	sum_entry(&header, table, header.checksum);
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	name_entry(cache, key, name);
	snprintf(temporary, sizeof(temporary), TEMPORARY "%016" PRIx64, number);
	fd = openat(cache->directory, temporary,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, TABLE_MODE);
	if (fd < 0)
		return -errno;
	/* It is not synchronized: what a crash of the machine damages is compiled again. */
	err = write_entry(fd, &header, table);
	close(fd);
	if (!err && renameat(cache->directory, temporary, cache->directory, name))
		err = -errno;
	if (err)
		unlinkat(cache->directory, temporary, 0);
	else
		check_limit(cache, sizeof(header) + summary->size);
	return err;
}
