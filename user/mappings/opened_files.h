/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The descriptors of mapped files: requests to the threads that open, save and copy files, their
 * results, and the descriptors that are kept.
 */
#ifndef STACKBEAT_MAPPINGS_OPENED_FILES_H
#define STACKBEAT_MAPPINGS_OPENED_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "mappings/file_opener.h"
#include "mappings/mapped_file.h"

struct binary_store;
struct error;
struct file_entry;
struct file_identity;
struct mapped_files;
struct sandbox_server;

/*
 * From now on, saves a copy of each file that is opened in `directory` by its build ID, unless it
 * is there (see binary_store.h). If the kernel could not read the headers of a file, a worker of
 * `sandbox`, which must outlive `files`, reads its build ID. Returns 0, or a negative errno value
 * if the directory can't be made.
 */
int mapped_files_save(struct mapped_files *files, const char *directory,
		      const struct sandbox_server *sandbox, struct error *error);

/* Takes over the files that were opened, so that the kernel closes them. Call this often. */
void mapped_files_collect(struct mapped_files *files);

/* Gives up files that hang. Call this each second. */
void mapped_files_watch(struct mapped_files *files);

/* Call these two after mapped_files_finish() or mapped_files_abandon(). */
void mapped_files_counts(const struct mapped_files *files, struct mapped_files_counts *counts);

/* Returns the first error of saving a file: one line, or "". */
const char *mapped_files_save_problem(const struct mapped_files *files);

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
 * file->problem in `error` if it has one. A file system that hangs blocks the call for 5 s at most
 * (see timed_call()).
 */
int mapped_file_open_candidate(const struct mapped_files *files, const struct mapped_file *file,
			       unsigned int candidate, struct error *error);

/* The rest is for mapped_files.c and table_files.c. */

/* Return the thread that opens files, or the thread that saves and copies; NULL: out of memory. */
struct file_opener *opened_files_opener(const struct mapped_files *files);
struct file_opener *opened_files_copier(const struct mapped_files *files,
					struct binary_store *store,
					const struct sandbox_server *sandbox);

/* Returns a job that opens a file, or NULL. */
struct file_job *opened_file_job(const struct file_entry *entry, enum file_job_kind kind);

/* Requests that a file is opened for its symbols or to be saved, once. Returns 0 or -ENOMEM. */
int opened_file_request(struct mapped_files *files, struct file_entry *entry);

/* Saves a file that is open, once. */
void opened_file_save(struct mapped_files *files, struct file_entry *entry);

/* Takes over what a thread has done. */
void opened_files_collect(struct mapped_files *files, struct file_opener *opener);

/*
 * Replaces the descriptor by a copy's, if the file has a name: without one, only a process
 * that has it open keeps its file system from being unmounted.
 */
void opened_file_copy(struct mapped_files *files, struct file_entry *entry);

#endif
