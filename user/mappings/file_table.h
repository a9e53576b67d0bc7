/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The entries of the table of mapped files, by index, identity and kernel's id; only for the files
 * that make up mapped_files.h, table_files.h and opened_files.h.
 */
#ifndef STACKBEAT_MAPPINGS_FILE_TABLE_H
#define STACKBEAT_MAPPINGS_FILE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debuginfo/file_cache.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "mappings/file_ids.h"
#include "mappings/file_opener.h"
#include "mappings/mapped_file.h"

/* Sweeps without a mark after which an entry is forgotten. */
#define SWEEPS_FORGOTTEN 16u

enum state {
	FILE_UNTOUCHED, /* not requested, or not known yet */
	FILE_REQUESTED, /* the opener has a job of it */
	FILE_OPENED, /* the opener is done: `fd`, or a problem */
	FILE_HUNG, /* it was given up; after SWEEPS_HUNG, it is tried again */
};

/*
 * Only the main thread uses an entry: jobs have copies of what they need. Invariants: a file is
 * in `identities` if it is `announced`; `fd` is a kept descriptor, counted in
 * files->kept_count, only if it is FILE_OPENED.
 */
struct file_entry {
	struct mapped_file file; /* first, for file_entry() */
	struct file_identity identity; /* if `announced` */
	char *text; /* owned: file.path and file.build_id point into it */
	char *own_problem; /* owned: file.problem, or NULL */
	uint64_t id; /* the kernel's, that can be opened; 0: none */
	uint64_t table_id; /* by which `table_fd` was opened; 0: by none */
	struct file_stamp table_stamp;
	struct file_stamp stale_stamp; /* see mapped_file_note_stale(); inode 0: none */
	struct file_key *proven; /* owned: see mapped_file_prove(); or NULL */
	struct file_stamp proven_stamp; /* with it */
	uint64_t start, end; /* a mapping of `pid` */
	uint32_t pid; /* 0: none is known */
	uint32_t holds; /* see mapped_file_hold() */
	uint32_t id_count; /* of the file in files->ids */
	int fd; /* kept; -1: none */
	int table_fd; /* opened for its unwind table; -1: none; or a negative errno value */
	uint32_t owner; /* uid, see struct file_owner; of an opened file */
	uint32_t table_owner; /* likewise, of a file that was opened for its table */
	uint8_t state; /* enum state */
	uint8_t unmarked_sweeps; /* at most SWEEPS_FORGOTTEN */
	uint8_t hung_sweeps; /* since it is FILE_HUNG */
	bool announced : 1; /* its record has arrived */
	bool headers_not_read : 1; /* by the kernel: nothing proves its build ID */
	bool has_kernel_id : 1; /* the kernel has read its build ID */
	bool requested_early : 1; /* before it was announced */
	bool is_untrusted : 1;
	bool is_copy : 1; /* of `fd` */
	bool copying : 1; /* the copier has a job of it */
	bool saving : 1; /* a job saves it, or has saved it */
	bool stays : 1; /* it can't be copied: `fd` stays the file itself */
	bool pinned : 1; /* for its unwind table */
	bool opening_for_table : 1; /* the opener has a job of it */
	bool is_lasting : 1; /* the file of `id`: STACKBEAT_FILE_LASTING */
	bool is_no_elf : 1; /* the opened file does not begin as an ELF file */
};

struct mapped_files {
	char *root;
	struct file_source source;
	struct file_entry **list; /* by index; NULL: free */
	size_t count, capacity;
	size_t entries_bytes; /* of the entries, with what they own */
	uint32_t *free_list; /* free indices */
	size_t free_count, free_capacity;
	struct hash identities; /* indices of `list` */
	struct file_ids ids;
	struct file_entry *vdso;
	struct file_opener *opener;
	struct file_opener *copier; /* at idle priority: saves and copies */
	struct binary_store *store; /* the copier's, or NULL */
	struct table_hooks table_hooks; /* all zero: none */
	int event; /* -1: none */
	char boot[FILE_KEY_BOOT_SIZE]; /* with table_hooks: the ID of this boot; "": unknown */
	size_t kept_count; /* descriptors */
	uint64_t copies_bytes; /* of those kept and requested */
	struct mapped_files_counts counts;
	struct error save_problem;
	bool finished;
	bool skip_symbols;
};

static inline struct file_entry *file_entry(struct mapped_file *file)
{
	return (struct file_entry *)file;
}

/* Closes the kept descriptor, or replaces it. */
void file_entry_close(struct mapped_files *files, struct file_entry *entry);
void file_entry_keep(struct mapped_files *files, struct file_entry *entry, int fd);
void file_entry_close_table_fd(struct file_entry *entry);

/* Closes the descriptors of an entry, and frees it. */
void file_entry_free(struct mapped_files *files, struct file_entry *entry);

/* Sets path and build ID. Returns 0 or -ENOMEM. */
int file_entry_set_text(struct mapped_files *files, struct file_entry *entry, const char *path,
			const char *build_id);

/* Sets why the file can't be opened; without memory, the old reason stays. */
void file_entry_set_problem(struct mapped_files *files, struct file_entry *entry, const char *text);
void file_entry_clear_problem(struct file_entry *entry);

/* Adds an entry without an identity. Returns NULL when out of memory. */
struct file_entry *file_table_add(struct mapped_files *files);

/* Returns the entry with the same identity, which the kernel announced by another id, or NULL. */
struct file_entry *file_table_find(struct mapped_files *files, const struct file_entry *key);

/* Sets the identity of an entry, with path and build ID, from `key`. Returns 0 or -ENOMEM. */
int file_table_announce(struct mapped_files *files, struct file_entry *entry,
			const struct file_entry *key);

/* Frees an entry and its index. No id refers to it. */
void file_table_forget(struct mapped_files *files, struct file_entry *entry);

/* Adds a kernel's id of an entry. Returns 0 or -ENOMEM. */
int file_table_add_id(struct mapped_files *files, uint64_t id, struct file_entry *entry);

/* Returns NULL if the id is unknown. */
struct file_entry *file_table_find_id(const struct mapped_files *files, uint64_t id);

/* Releases an id, so that the kernel closes its file. */
void file_table_release_id(struct mapped_files *files, uint64_t id);

/* Releases the id by which the kernel holds a file, unless it is pinned. */
void file_entry_release_id(struct mapped_files *files, struct file_entry *entry);

/* As file_entry_release_id(), if the id is not needed to open the file. A sweep releases it else.
 */
void file_entry_release_if_opened(struct mapped_files *files, struct file_entry *entry);

/* Notes that the table forgets an id of the file, for file_ids_sweep(); `arg` is the table. */
void file_table_forget_id(uint32_t file, void *arg);

#endif
