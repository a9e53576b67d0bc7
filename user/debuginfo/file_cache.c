// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/file_cache.h"

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
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "debuginfo/elf_symbols.h"
#include "lib/array.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/fixed_disk.h"
#include "lib/invariant.h"
#include "lib/regular_file.h"

/* Another number for each format of the files. */
#define FORMAT UINT64_C(0x02746177626b7473)
#define NAME_SIZE 96u
#define TEMPORARY "new-"
#define TEMPORARY_DIGITS 16u
#define MAKER_DIGITS 16u /* of the build ID of the command, in the name of an entry */
#define ENTRY_MODE 0600
/* Seconds after which the temporary file of a writer is what a crash has left. */
#define TEMPORARY_S 3600
/* The time of the last use is kept in steps: each is a write to the disk. */
#define USED_S 3600
/* What a file takes on the disk is a multiple of it. */
#define FILE_BLOCK 4096u
/* By this part of the limit, each of the many processes that store entries may exceed it. */
#define UNCHECKED_PART 256u
/* By this part, each of the few processes that leave the look for later may exceed it. */
#define LATER_PART 8u
/* An empty file, while a look at all files is left for later: the process may be killed. */
#define LATER_MARK "unchecked"
/* What is left after a removal, in parts of 8 of the limit. */
#define KEPT_PARTS 7u

/* The start of a file; what is kept follows. */
struct entry_header {
	uint64_t format;
	uint64_t checksum[2]; /* of the rest and what follows */
	uint64_t size; /* of what follows */
	uint64_t kind, file_count;
	char maker[136]; /* build ID of the command */
	struct file_key files[CACHE_KEY_FILES_MAX]; /* unused ones are zero */
};

_Static_assert(sizeof(struct entry_header) % sizeof(uint64_t) == 0, "words");

/* What follows the name of an entry of tables, by kind. */
static const char *const suffixes[CACHE_KINDS] = {
	[CACHE_UNWIND_TABLE] = "",
	[CACHE_KERNEL_SYMBOLS] = "-kernel",
	[CACHE_FILE_SYMBOLS] = "-symbols",
};

struct file_cache {
	int directory;
	uint64_t bytes_max;
	uint64_t unchecked; /* bytes that were stored since the last look at all files */
	bool was_checked;
	char maker[136];
};

/* Keys */

/* Seconds after which a change sets another time: some file systems count in steps of 2 s. */
#define SETTLED_NS (3 * NS_PER_SECOND)

bool file_key_is_settled(int64_t changed_s, int64_t changed_ns)
{
	return now_ns(CLOCK_REALTIME) - (changed_s * NS_PER_SECOND + changed_ns) > SETTLED_NS;
}

/*
 * Users can make what FUSE and file systems without set-user-ID bits have (lib/regular_file.h).
 * Images that can't be written may have the same times in each version. File systems that are
 * mounted in user namespaces are not in the mount namespace of this process.
 */
bool file_key_of(int fd, struct file_key *key)
{
	struct file_owner owner;
	struct statvfs system;
	struct stat st;

	memset(key, 0, sizeof(*key));
	file_owner_read(&owner, fd);
	if (owner.uid == FILE_UID_ANY || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    fstatvfs(fd, &system) || (system.f_flag & ST_RDONLY) ||
	    !file_key_is_settled(st.st_ctim.tv_sec, st.st_ctim.tv_nsec))
		return false;
	key->device = st.st_dev;
	key->inode = st.st_ino;
	key->size = (uint64_t)st.st_size;
	key->changed_s = st.st_ctim.tv_sec;
	key->changed_ns = st.st_ctim.tv_nsec;
	key->owner = owner.uid;
	/* Another file system may have a number without a block device after the next boot. */
	if (!major(st.st_dev))
		file_key_read_boot("", key->boot);
	return major(st.st_dev) ? device_is_fixed_disk("", st.st_dev) : *key->boot;
}

void file_key_read_boot(const char *root, char boot[FILE_KEY_BOOT_SIZE])
{
	char path[PATH_MAX];
	ssize_t got = 0;
	int fd;

	memset(boot, 0, FILE_KEY_BOOT_SIZE);
	snprintf(path, sizeof(path), "%s/proc/sys/kernel/random/boot_id", root);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, boot, FILE_KEY_BOOT_SIZE - 1);
		close(fd);
	}
	boot[got > 0 ? strcspn(boot, "\n") : 0] = '\0';
}

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

static int set_maker(struct file_cache *cache, const char *maker, struct error *error)
{
	char build_id[BUILD_ID_SIZE] = "";

	if (!maker)
		dl_iterate_phdr(find_build_id, build_id);
	else if (strlen(maker) < BUILD_ID_SIZE)
		strcpy(build_id, maker);
	if (!*build_id)
		return error_set(error, ENOTSUP,
				 "can't keep what was read of files: this command has no build ID");
	strcpy(cache->maker, build_id);
	return 0;
}

/* Other caches of root, such as debuginfod's, have the same parent. */
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

static int file_cache_open_directory(const char *path, struct error *error)
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

/* Files */

/* Continues two sums: of all words, and of these sums (J. Fletcher, 1982). */
static void file_cache_add_words(uint64_t sums[2], const void *bytes, size_t size)
{
	const char *next = bytes;
	uint64_t word;

	invariant(size % sizeof(word) == 0);
	for (; size >= sizeof(word); size -= sizeof(word), next += sizeof(word)) {
		memcpy(&word, next, sizeof(word));
		sums[0] += word;
		sums[1] += sums[0];
	}
}

static void sum_header(const struct entry_header *header, uint64_t sums[2])
{
	const size_t first = offsetof(struct entry_header, size);

	sums[0] = sums[1] = 1;
	file_cache_add_words(sums, (const char *)header + first, sizeof(*header) - first);
}

static bool has_sums(const struct entry_header *header, const uint64_t sums[2])
{
	return header->checksum[0] == sums[0] && header->checksum[1] == sums[1];
}

/* The first owner that is not root; root if there is none. */
static uint64_t file_cache_owner(const struct cache_key *key)
{
	for (size_t i = 0; i < key->file_count; i++) {
		if (key->files[i].owner)
			return key->files[i].owner;
	}
	return 0;
}

/* The name has the owner, for the limit, and the command, for two that are in use. */
static void name_entry(const struct file_cache *cache, const struct cache_key *key,
		       char name[NAME_SIZE])
{
	snprintf(name, NAME_SIZE, "%" PRIu64 "-%" PRIx64 "-%" PRIx64 "-%.16s%s",
		 file_cache_owner(key), key->files[0].device, key->files[0].inode, cache->maker,
		 suffixes[key->kind]);
}

/* Sets all but the checksum. */
static void make_header(const struct file_cache *cache, const struct cache_key *key, uint64_t size,
			struct entry_header *header)
{
	invariant(key->file_count && key->file_count <= CACHE_KEY_FILES_MAX);
	memset(header, 0, sizeof(*header));
	header->format = FORMAT;
	header->size = size;
	header->kind = key->kind;
	header->file_count = key->file_count;
	memcpy(header->maker, cache->maker, sizeof(header->maker));
	memcpy(header->files, key->files, key->file_count * sizeof(*key->files));
}

static bool file_cache_is_expected(const struct file_cache *cache, const struct cache_key *key,
				   const struct entry_header *header, uint64_t size)
{
	struct entry_header expected;

	make_header(cache, key, header->size, &expected);
	memcpy(expected.checksum, header->checksum, sizeof(expected.checksum));
	return !memcmp(header, &expected, sizeof(expected)) &&
	       header->size % sizeof(uint64_t) == 0 && size >= sizeof(*header) &&
	       size - sizeof(*header) == header->size;
}

static void note_use(int fd, const struct stat *st)
{
	if (time(NULL) - st->st_mtim.tv_sec >= USED_S)
		futimens(fd, NULL);
}

/* Returns the fd of an entry with this key, of which the checksum is not compared; or -ENOENT. */
static int open_entry(struct file_cache *cache, const struct cache_key *key,
		      struct entry_header *header, struct stat *st)
{
	char name[NAME_SIZE];
	int fd;

	name_entry(cache, key, name);
	fd = openat(cache->directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -ENOENT;
	if (!fstat(fd, st) && S_ISREG(st->st_mode) &&
	    TEMP_FAILURE_RETRY(pread(fd, header, sizeof(*header), 0)) == sizeof(*header) &&
	    file_cache_is_expected(cache, key, header, (uint64_t)st->st_size))
		return fd;
	close(fd);
	return -ENOENT;
}

/* Reads what follows the header. Returns false if the file is damaged, or without memory. */
static bool read_contents(int fd, const struct entry_header *header, void *head, size_t head_size,
			  void **rest)
{
	const size_t size = header->size - head_size;
	uint64_t sums[2];
	bool valid;

	*rest = size ? malloc(size) : NULL;
	if (size && !*rest)
		return false;
	valid = TEMP_FAILURE_RETRY(pread(fd, head, head_size, sizeof(*header))) ==
			(ssize_t)head_size &&
		(!size ||
		 TEMP_FAILURE_RETRY(pread(fd, *rest, size, (off_t)(sizeof(*header) + head_size))) ==
			 (ssize_t)size);
	if (valid) {
		sum_header(header, sums);
		file_cache_add_words(sums, head, head_size);
		file_cache_add_words(sums, *rest, size);
	}
	if (valid && has_sums(header, sums))
		return true;
	free(*rest);
	*rest = NULL;
	return false;
}

int file_cache_read(struct file_cache *cache, const struct cache_key *key, void *head,
		    size_t head_size, void **rest, size_t *rest_size)
{
	struct entry_header header;
	bool found = false;
	struct stat st;
	int fd = open_entry(cache, key, &header, &st);

	*rest = NULL;
	*rest_size = 0;
	if (fd < 0)
		return fd;
	if (header.size >= head_size)
		found = read_contents(fd, &header, head, head_size, rest);
	if (found) {
		*rest_size = header.size - head_size;
		note_use(fd, &st);
	}
	close(fd);
	return found ? 0 : -ENOENT;
}

int file_cache_open_entry(struct file_cache *cache, const struct cache_key *key)
{
	struct entry_header header;
	struct stat st;
	int fd = open_entry(cache, key, &header, &st);

	if (fd >= 0)
		note_use(fd, &st);
	return fd;
}

const void *file_cache_check(const void *bytes, size_t file_size, size_t *size)
{
	const struct entry_header *header = bytes;
	uint64_t sums[2];

	if (file_size < sizeof(*header) || header->format != FORMAT ||
	    header->size != file_size - sizeof(*header) || header->size % sizeof(uint64_t))
		return NULL;
	sum_header(header, sums);
	file_cache_add_words(sums, header + 1, header->size);
	*size = header->size;
	return has_sums(header, sums) ? header + 1 : NULL;
}

/* The limit */

struct cached_file {
	char name[NAME_SIZE];
	uint64_t bytes;
	int64_t used_ns;
	bool is_roots;
};

struct entries {
	struct cached_file *list;
	size_t count, capacity;
	/* Of all, with those that are being written; of those that are not root's. */
	uint64_t bytes, others;
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

static bool is_suffix(const char *text)
{
	for (size_t kind = 0; kind < CACHE_KINDS; kind++) {
		if (!strcmp(text, suffixes[kind]))
			return true;
	}
	return false;
}

/* Returns whether it is the name of an entry, as name_entry() makes it; sets its owner. */
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
	return *end == '-' && skip_digits(&name, MAKER_DIGITS) && is_suffix(name);
}

static bool file_cache_is_temporary(const char *name)
{
	if (strncmp(name, TEMPORARY, strlen(TEMPORARY)) != 0)
		return false;
	name += strlen(TEMPORARY);
	return skip_digits(&name, TEMPORARY_DIGITS) && !*name;
}

static int file_cache_add_entry(struct file_cache *cache, struct entries *entries, const char *name)
{
	struct cached_file *entry;
	uint64_t owner;
	struct stat st;
	bool is_entry = parse_name(name, &owner);

	/* The directory may have other files, which are none of ours. */
	if ((!is_entry && !file_cache_is_temporary(name)) ||
	    fstatat(cache->directory, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
	    (st.st_mode & 07777) != ENTRY_MODE)
		return 0;
	if (!is_entry) {
		if (time(NULL) - st.st_mtim.tv_sec >= TEMPORARY_S)
			unlinkat(cache->directory, name, 0);
		else
			entries->bytes += bytes_on_disk((uint64_t)st.st_size);
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

static int list_entries(struct file_cache *cache, struct entries *entries)
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
		err = file_cache_add_entry(cache, entries, item->d_name);
	closedir(directory);
	return err;
}

static int compare_use(const void *left, const void *right)
{
	const struct cached_file *a = left, *b = right;

	return (a->used_ns > b->used_ns) - (a->used_ns < b->used_ns);
}

/* Removes the oldest entries, of all or of users, until at most these bytes are left. */
static void remove_oldest(struct file_cache *cache, struct entries *entries, bool of_users,
			  uint64_t left)
{
	uint64_t *bytes = of_users ? &entries->others : &entries->bytes;

	for (size_t i = 0; i < entries->count; i++) {
		struct cached_file *entry = &entries->list[i];

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

static void file_cache_bound(struct file_cache *cache, struct entries *entries)
{
	const uint64_t max = cache->bytes_max, users_max = max / 2;

	qsort(entries->list, entries->count, sizeof(*entries->list), compare_use);
	if (entries->others > users_max)
		remove_oldest(cache, entries, true, users_max / 8 * KEPT_PARTS);
	if (entries->bytes > max)
		remove_oldest(cache, entries, false, max / 8 * KEPT_PARTS);
}

static void check_limit(struct file_cache *cache)
{
	struct entries entries = {0};

	/* First: what others store from now on may not be in the list. */
	unlinkat(cache->directory, LATER_MARK, 0);
	if (!list_entries(cache, &entries) && entries.count)
		file_cache_bound(cache, &entries);
	cache->was_checked = true;
	cache->unchecked = 0;
	free(entries.list);
}

/* Leaves the look at all files for later, unless this process has left too much of it. */
static void leave_limit_for_later(struct file_cache *cache)
{
	int fd;

	if (cache->unchecked >= cache->bytes_max / LATER_PART) {
		check_limit(cache);
		return;
	}
	fd = openat(cache->directory, LATER_MARK,
		    O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, ENTRY_MODE);
	if (fd >= 0)
		close(fd);
}

/* This process may have left it, or a child, or a process that was killed. */
static void check_what_was_left(struct file_cache *cache)
{
	if (!faccessat(cache->directory, LATER_MARK, F_OK, 0))
		check_limit(cache);
}

/* Storing */

static int write_entry(int fd, const struct entry_header *header, const struct iovec parts[],
		       size_t count)
{
	struct iovec all[CACHE_PARTS_MAX + 1] = {
		{.iov_base = (void *)header, .iov_len = sizeof(*header)},
	};
	const ssize_t size = (ssize_t)(sizeof(*header) + header->size);
	ssize_t written;

	memcpy(all + 1, parts, count * sizeof(*parts));
	written = TEMP_FAILURE_RETRY(writev(fd, all, (int)count + 1));
	if (written == size)
		return 0;
	return written < 0 ? -errno : -ENOSPC;
}

static int write_new_entry(struct file_cache *cache, const struct cache_key *key,
			   const struct iovec parts[], size_t count)
{
	char name[NAME_SIZE], temporary[NAME_SIZE];
	struct entry_header header;
	uint64_t number, size = 0;
	int fd, err;

	invariant(count <= CACHE_PARTS_MAX);
	for (size_t i = 0; i < count; i++)
		size += parts[i].iov_len;
	if (sizeof(header) + size > cache->bytes_max / 4)
		return 0;
	make_header(cache, key, size, &header);
	sum_header(&header, header.checksum);
	for (size_t i = 0; i < count; i++)
		file_cache_add_words(header.checksum, parts[i].iov_base, parts[i].iov_len);
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	name_entry(cache, key, name);
	snprintf(temporary, sizeof(temporary), TEMPORARY "%016" PRIx64, number);
	fd = openat(cache->directory, temporary,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, ENTRY_MODE);
	if (fd < 0)
		return -errno;
	/* It is not synchronized: what a crash of the machine damages is made again. */
	err = write_entry(fd, &header, parts, count);
	close(fd);
	if (!err && renameat(cache->directory, temporary, cache->directory, name))
		err = -errno;
	if (err) {
		unlinkat(cache->directory, temporary, 0);
		return err;
	}
	cache->unchecked += bytes_on_disk(sizeof(header) + size);
	return 0;
}

int file_cache_store_only(struct file_cache *cache, const struct cache_key *key,
			  const struct iovec parts[], size_t count)
{
	int err = write_new_entry(cache, key, parts, count);

	if (!err)
		leave_limit_for_later(cache);
	return err;
}

/* Looks at all files after the first store, and from time to time. */
int file_cache_store(struct file_cache *cache, const struct cache_key *key,
		     const struct iovec parts[], size_t count)
{
	int err = write_new_entry(cache, key, parts, count);

	if (!err && (!cache->was_checked || cache->unchecked >= cache->bytes_max / UNCHECKED_PART))
		check_limit(cache);
	return err;
}

/* The cache */

struct file_cache *file_cache_open(const struct file_cache_config *config, struct error *error)
{
	struct file_cache *cache = calloc(1, sizeof(*cache));

	if (!cache) {
		error_errno(error, ENOMEM, "%s", config->directory);
		return NULL;
	}
	cache->bytes_max = config->bytes_max;
	cache->directory = set_maker(cache, config->maker, error);
	if (!cache->directory)
		cache->directory = file_cache_open_directory(config->directory, error);
	if (cache->directory < 0) {
		free(cache);
		return NULL;
	}
	check_what_was_left(cache);
	return cache;
}

void file_cache_close(struct file_cache *cache)
{
	if (!cache)
		return;
	check_what_was_left(cache);
	close(cache->directory);
	free(cache);
}
