/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files that processes map: executables, shared libraries, and any other mapped code.
 *
 * The table has the identity of each file, and open descriptors; nothing of a file is parsed here,
 * but in workers. The kernel holds each file open for its session, up to a limit. A file in which a
 * frame lies is opened through the kernel once, by another thread (see file_opener.h), and is
 * released there immediately: from then on, the table keeps its descriptor. A file that no frame
 * can need any more is released without.
 *
 * A descriptor keeps the file system of the file busy. When no live process maps the file any more,
 * and it still has a name, the descriptor is replaced by a copy in memory. If there are too
 * many descriptors, files that have a name are closed first, then files of the owners with
 * the most. Such a file is opened again when it is symbolized, see mapped_file_open_candidate().
 *
 * An entry, and its index, lasts until no address space maps the file (mapped_files_mark()), no
 * stack has a frame in it (mapped_file_hold()), and no record that is still in a ring can mention
 * it.
 */
#ifndef STACKBEAT_PROCESS_MAPPED_FILES_H
#define STACKBEAT_PROCESS_MAPPED_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct error;
struct file_identity;
struct mapped_files;
struct sandbox_server;
struct file_key;

/* Descriptors that are kept; fewer if the process may open less than twice as many. */
#define MAPPED_FILES_OPEN_MAX 8192u

/* Bytes of the copies: of one, and of all. A file that exceeds them stays open itself. */
#define MAPPED_FILES_COPY_MAX (UINT64_C(32) << 20)
#define MAPPED_FILES_COPIES_MAX (UINT64_C(128) << 20)

struct mapped_file {
	uint32_t index; /* see mapped_files_at() */
	const char *path; /* as the process sees it; "": unknown */
	const char *build_id; /* GNU build ID, hex; "": none, or unknown. A claim of the file. */
	const char *problem; /* why it can't be opened, one line; "": it can */
};

/* Source of the files: the device, except in tests. */
struct file_source {
	int (*open)(uint64_t id, void *arg); /* as device_file_open(); called by any thread */
	int (*release)(uint64_t id, void *arg); /* as device_file_release() */
	void *arg;
	unsigned int timeout_s; /* of one file; 0: the defaults of file_opener.h */
	size_t open_max; /* 0: MAPPED_FILES_OPEN_MAX */
};

struct mapped_files_counts {
	uint64_t opened; /* files that were requested, and opened */
	uint64_t saved; /* opened files that mapped_files_save() has saved */
	uint64_t not_saved; /* opened files that could not be saved */
	uint64_t without_id; /* opened files that could not be saved without a build ID */
};

/*
 * Returns an empty table, or NULL with `error` set when out of memory. `root` is prepended to
 * /proc and to paths ("", except in tests). `source` is copied. mapped_files_free() accepts NULL,
 * waits for the file that is being opened, and frees all files.
 */
struct mapped_files *mapped_files_new(const char *root, const struct file_source *source,
				      struct error *error);
void mapped_files_free(struct mapped_files *files);

/*
 * From now on, saves a copy of each file that is opened in `directory` by its build ID, unless it
 * is there (see binary_store.h). If the kernel could not read the headers of a file, a worker of
 * `sandbox`, which must outlive `files`, reads its build ID. Returns 0, or a negative errno value
 * if the directory can't be made.
 */
int mapped_files_save(struct mapped_files *files, const char *directory,
		      const struct sandbox_server *sandbox, struct error *error);

/*
 * From now on, opens no file for its symbols: only those to be saved, and those whose headers the
 * kernel could not read. Call before the first request.
 */
void mapped_files_skip_symbols(struct mapped_files *files);
bool mapped_files_have_symbols(const struct mapped_files *files);

/* Returns the bytes of memory of the table, without copies of files. */
size_t mapped_files_bytes(const struct mapped_files *files);

/* Adds the record of a file. Returns 0 or -ENOMEM. */
int mapped_files_add(struct mapped_files *files, const struct stackbeat_file *record);

/*
 * Returns the file of a kernel's id, whether its record has arrived or not. Owned by the table;
 * NULL when out of memory.
 */
struct mapped_file *mapped_files_get(struct mapped_files *files, uint64_t id);

/*
 * Returns the file that a live process maps in a range, for files that the kernel does not hold.
 * NULL if it can't be found within a second, or when out of memory.
 */
struct mapped_file *mapped_files_find_mapped(struct mapped_files *files, uint32_t pid,
					     uint64_t start, uint64_t end);

/*
 * Returns the 64-bit vdso, a copy of this process's. NULL if there is none, or out of
 * memory.
 */
struct mapped_file *mapped_files_vdso(struct mapped_files *files);

/* Returns the index of the 64-bit vdso if mapped_files_vdso() has returned it; else UINT32_MAX. */
uint32_t mapped_files_vdso_index(const struct mapped_files *files);

/* Returns the file with an index, which must belong to one of these files. */
struct mapped_file *mapped_files_at(const struct mapped_files *files, uint32_t index);

/* Notes a process that maps the file, through which the file can be opened. */
void mapped_file_note_mapping(struct mapped_files *files, struct mapped_file *file, uint32_t pid,
			      uint64_t start, uint64_t end);

/*
 * A stack has a frame in the file: requests that it is opened, and holds its entry until
 * mapped_file_release(). Returns 0, or -ENOMEM with the entry not held.
 */
int mapped_file_hold(struct mapped_files *files, struct mapped_file *file);
void mapped_file_release(struct mapped_files *files, struct mapped_file *file);

/*
 * Unwind tables. From mapped_file_pin_for_table() to mapped_file_unpin_for_table(), a file is not
 * forgotten, and the kernel's id of it, if it has one, is not released: the kernel finds the file
 * of a table by it.
 */

/* What the maker of unwind tables needs. */
struct table_hooks {
	/* The kernel has reported a file, and lacks its unwind table. */
	int (*missing)(struct mapped_file *file, void *arg); /* returns 0 or -ENOMEM */
	/* A file is forgotten: its index may belong to another file soon. */
	void (*forgotten)(uint32_t index, void *arg);
	void *arg;
};

/*
 * Sets the hooks; NULL: none. Returns 0 or a negative errno value. Afterwards, mapped_files_event()
 * returns a descriptor that is readable if mapped_file_table_fd() may be ready (-1: none).
 */
int mapped_files_set_table_hooks(struct mapped_files *files, const struct table_hooks *hooks);
int mapped_files_event(const struct mapped_files *files);

/* A file may be pinned once. */
void mapped_file_pin_for_table(struct mapped_files *files, struct mapped_file *file);
void mapped_file_unpin_for_table(struct mapped_files *files, struct mapped_file *file);

/* Requests that a pinned file is opened. Returns 0 or -ENOMEM. */
int mapped_file_open_for_table(struct mapped_files *files, struct mapped_file *file);

/*
 * Returns a descriptor of a pinned file, which the caller closes, when it was opened; -EAGAIN
 * before; or another negative errno value with the reason in `error`.
 */
int mapped_file_table_fd(struct mapped_files *files, struct mapped_file *file, struct error *error);

/*
 * Returns the uid of the owner of a file for which mapped_file_table_fd() has returned a
 * descriptor; FILE_UID_ANY if its file system can report any owner.
 */
uint32_t mapped_file_table_owner(const struct mapped_file *file);

/*
 * Sets the key of a file for which mapped_file_table_fd() has returned a descriptor. Returns false
 * if its identity does not prove its contents: the kernel does not vouch for it, or it was opened
 * in another way, or has just been changed. What is found by the key is of this file if the kernel
 * takes it for mapped_file_kernel_id(): if the file of this id is still the mapped one.
 */
bool mapped_file_table_key(const struct mapped_files *files, const struct mapped_file *file,
			   struct file_key *key);

/*
 * The kernel has found that the file of a valid mapped_file_table_key() is the mapped one.
 * Afterwards, mapped_file_symbols_key() sets the same key, and returns true, for descriptors of
 * this file as it was then: another file, a copy, or the file after a change has no key.
 */
void mapped_file_prove(struct mapped_files *files, struct mapped_file *file);
bool mapped_file_symbols_key(const struct mapped_files *files, const struct mapped_file *file,
			     int fd, struct file_key *key);

/* Returns the kernel's id of a pinned file; 0: it has none. */
uint64_t mapped_file_kernel_id(const struct mapped_files *files, const struct mapped_file *file);

/* Releases the kernel's id of a file that is not pinned: its next record has another one. */
void mapped_file_drop_id(struct mapped_files *files, struct mapped_file *file);

/* Returns whether a stack has a frame in the file. */
bool mapped_file_is_held(const struct mapped_file *file);

/* Takes over the files that were opened, so that the kernel closes them. Call this often. */
void mapped_files_collect(struct mapped_files *files);

/* Gives up files that hang. Call this each second. */
void mapped_files_watch(struct mapped_files *files);

/*
 * Call mapped_files_sweep() each second, where no sample is pending, after mapped_files_mark() for
 * each file that an address space maps. Does mapped_files_watch(), releases unused files (those
 * neither held nor marked since the last sweep but two), and forgets entries: pointers to files
 * that are not held are invalid afterwards.
 */
void mapped_files_mark(struct mapped_files *files, uint32_t index);
void mapped_files_sweep(struct mapped_files *files);

/*
 * Waits until all requested files were opened and saved, and releases all files; the source is not
 * used afterwards, and requests do nothing. A file that hangs is given up after a timeout; files of
 * the same device are opened last then.
 */
void mapped_files_finish(struct mapped_files *files);

/*
 * Call it in a process that was forked, which has no threads but its own: no file is opened or
 * saved from now on, but for mapped_file_open_candidate().
 */
void mapped_files_forked(struct mapped_files *files);

/* Stops using the source, whatever is requested, and releases nothing. Accepts NULL. */
void mapped_files_abandon(struct mapped_files *files);

/* Call these two after mapped_files_finish() or mapped_files_abandon(). */
void mapped_files_counts(const struct mapped_files *files, struct mapped_files_counts *counts);

/* Returns the first error of saving a file: one line, or "". */
const char *mapped_files_save_problem(const struct mapped_files *files);

/* Sets the build ID of a file whose headers the kernel could not read, from the file itself. */
void mapped_file_set_build_id(struct mapped_files *files, struct mapped_file *file,
			      const char *build_id);

/*
 * Gets what the kernel knows a file by. Returns false if that is unknown, or if the table has no
 * descriptor of it: what mapped_file_open_candidate() opens may be another one with its build ID.
 */
bool mapped_file_identity(const struct mapped_file *file, struct file_identity *identity);

/* Returns the uid of the owner of a file, FILE_UID_ANY if it is unknown. */
uint32_t mapped_file_owner(const struct mapped_file *file);

/*
 * Opens the candidate with a number from 0: first the descriptor that was kept, then the file at
 * each place where it may be found (see find_mapped_file()). A candidate has the inode of the
 * mapped file, or, if the kernel has read a build ID, the caller must check that the candidate has
 * it, too.
 *
 * Returns a read-only descriptor of a regular file, which the caller closes; another negative errno
 * value if this candidate can't be opened; or -ENOENT if there are no more candidates, with
 * file->problem in `error` if it has one. A file system that hangs blocks the call for 5 s at most.
 */
int mapped_file_open_candidate(const struct mapped_files *files, const struct mapped_file *file,
			       unsigned int candidate, struct error *error);

#endif
