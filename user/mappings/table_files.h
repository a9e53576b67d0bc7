/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The mapped files of which unwind tables are made. From mapped_file_pin_for_table() to
 * mapped_file_unpin_for_table(), a file is not forgotten, and the kernel's id of it, if it has one,
 * is not released: the kernel finds the file of a table by it.
 */
#ifndef STACKBEAT_MAPPINGS_TABLE_FILES_H
#define STACKBEAT_MAPPINGS_TABLE_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "mappings/mapped_file.h"

struct error;
struct file_key;
struct mapped_files;

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

/*
 * The kernel has found that the file of mapped_file_kernel_id() is not the mapped one: remembers it
 * if it is the last file of mapped_file_table_fd(). Afterwards, mapped_file_is_stale_again()
 * returns whether mapped_file_table_fd() has returned it again, unchanged.
 */
void mapped_file_note_stale(struct mapped_files *files, struct mapped_file *file);
bool mapped_file_is_stale_again(const struct mapped_files *files, const struct mapped_file *file);

/* Returns the kernel's id of a pinned file; 0: it has none. */
uint64_t mapped_file_kernel_id(const struct mapped_files *files, const struct mapped_file *file);

/* Releases the kernel's id of a file that is not pinned: its next record has another one. */
void mapped_file_drop_id(struct mapped_files *files, struct mapped_file *file);

#endif
