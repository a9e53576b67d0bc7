/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What was read of files, in a directory, for later recordings, and for others at the same time.
 *
 * An entry is found by the identities of files, which the kernel vouches for: see struct file_key.
 * What is in a file, such as a build ID, does not choose the entry of another file.
 *
 * Each entry is one file. It appears as a whole, by a rename, and has the build ID of the command
 * that made it, its length, and a checksum: what another build has made, or what is damaged, is not
 * found, and is replaced. The entries that were not used for the longest time are removed when all
 * of them exceed a limit; entries of files that are not root's have half of it.
 */
#ifndef STACKBEAT_DEBUGINFO_FILE_CACHE_H
#define STACKBEAT_DEBUGINFO_FILE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "lib/build_id.h"

struct error;
struct file_cache;

/* Default limit. The tables of all programs and libraries of a desktop take about 100 MB. */
#define FILE_CACHE_BYTES_MAX (UINT64_C(256) << 20)

#define FILE_KEY_BOOT_SIZE 40

/*
 * The identity of a file's contents: of a file for which the kernel reports STACKBEAT_FILE_LASTING.
 * The time of change is the kernel's: users can't set it. All bytes count: clear them first.
 */
struct file_key {
	uint64_t device, inode, size;
	uint64_t generation;
	int64_t changed_s, changed_ns; /* st_ctim */
	uint64_t owner; /* uid */
	/* The ID of the boot, of devices whose number is another one after each; else "". */
	char boot[FILE_KEY_BOOT_SIZE];
	char build_id[136]; /* as text */
};

_Static_assert(sizeof(((struct file_key *)0)->build_id) >= BUILD_ID_SIZE, "a build ID fits");

/*
 * Sets the key of an open file, which was opened by its path in the mount namespace of this
 * process. Returns false if its identity does not prove its contents.
 */
bool file_key_of(int fd, struct file_key *key);

/*
 * Returns whether a time of change is so long ago that another change sets another one, however
 * coarse times are.
 */
bool file_key_is_settled(int64_t changed_s, int64_t changed_ns);

/* Reads the ID of this boot, below `root` ("" except in tests); "" if it is unknown. */
void file_key_read_boot(const char *root, char boot[FILE_KEY_BOOT_SIZE]);

/* What an entry is made of. */
enum cache_kind {
	CACHE_UNWIND_TABLE, /* unwind/table_cache.h */
	CACHE_KERNEL_SYMBOLS, /* debuginfo/kernel_symbols.h */
	CACHE_FILE_SYMBOLS,
	CACHE_KINDS,
};

#define CACHE_KEY_FILES_MAX 4u

/*
 * What an entry is found by: all files that its maker was given, in this order, so that none of
 * them decides what is kept of others. Entries that differ only in the files after the first one
 * replace each other.
 */
struct cache_key {
	enum cache_kind kind;
	const struct file_key *files;
	size_t file_count; /* from 1 to CACHE_KEY_FILES_MAX */
};

struct file_cache_config {
	const char *directory; /* created, with those above it, if it is missing */
	uint64_t bytes_max;
	const char *maker; /* NULL: the build ID of this command */
};

/*
 * Opens a cache. Returns NULL with `error` set if that fails: -EPERM if others than this user can
 * write to the directory. file_cache_close() accepts NULL. Both remove old entries beyond the limit
 * if file_cache_store_only() has left that for later, in any process.
 */
struct file_cache *file_cache_open(const struct file_cache_config *config, struct error *error);
void file_cache_close(struct file_cache *cache);

/*
 * Reads an entry: the first bytes into `head`, and the rest into memory that the caller frees (NULL
 * if there is none). Returns 0; or -ENOENT with *rest NULL if there is no entry, it is damaged or
 * shorter, or memory is short.
 */
int file_cache_read(struct file_cache *cache, const struct cache_key *key, void *head,
		    size_t head_size, void **rest, size_t *rest_size);

/*
 * Opens an entry for a process that maps it. Returns its fd, whose contents file_cache_check() is
 * to check, or -ENOENT.
 */
int file_cache_open_entry(struct file_cache *cache, const struct cache_key *key);

/*
 * Checks the bytes of a file of file_cache_open_entry(). Returns what it has, aligned as `bytes` to
 * 8 bytes, and sets *size; NULL if it is damaged.
 */
const void *file_cache_check(const void *bytes, size_t file_size, size_t *size);

#define CACHE_PARTS_MAX 5u

/*
 * Stores an entry of `count` parts, one after the other, each of a multiple of 8 bytes. An entry
 * that would take a quarter of the cache is not stored. Returns 0 or a negative errno value.
 */
int file_cache_store(struct file_cache *cache, const struct cache_key *key,
		     const struct iovec parts[], size_t count);

/*
 * Stores an entry as file_cache_store() does, for a process that must not wait: the look at all
 * files, by which the cache keeps its limit, is left to the next file_cache_open(),
 * file_cache_close() or file_cache_store(), or until this process has stored an eighth of the
 * limit.
 */
int file_cache_store_only(struct file_cache *cache, const struct cache_key *key,
			  const struct iovec parts[], size_t count);

#endif
