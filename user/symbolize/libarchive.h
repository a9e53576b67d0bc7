/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libarchive, loaded on demand: its libraries, for XML and Unicode among others, would be mapped by
 * every command.
 */
#ifndef STACKBEAT_SYMBOLIZE_LIBARCHIVE_H
#define STACKBEAT_SYMBOLIZE_LIBARCHIVE_H

#include <archive.h>
#include <archive_entry.h>

struct error;

/* The functions that are used, without their prefix. */
#define LIBARCHIVE_FUNCTIONS(FUNCTION)                                                             \
	FUNCTION(entry_filetype)                                                                   \
	FUNCTION(entry_free)                                                                       \
	FUNCTION(entry_hardlink)                                                                   \
	FUNCTION(entry_mtime)                                                                      \
	FUNCTION(entry_mtime_nsec)                                                                 \
	FUNCTION(entry_new)                                                                        \
	FUNCTION(entry_pathname)                                                                   \
	FUNCTION(entry_set_filetype)                                                               \
	FUNCTION(entry_set_mtime)                                                                  \
	FUNCTION(entry_set_pathname)                                                               \
	FUNCTION(entry_set_perm)                                                                   \
	FUNCTION(entry_set_size)                                                                   \
	FUNCTION(entry_size)                                                                       \
	FUNCTION(entry_size_is_set)                                                                \
	FUNCTION(entry_symlink)                                                                    \
	FUNCTION(error_string)                                                                     \
	FUNCTION(read_data_block)                                                                  \
	FUNCTION(read_free)                                                                        \
	FUNCTION(read_new)                                                                         \
	FUNCTION(read_next_header)                                                                 \
	FUNCTION(read_open_fd)                                                                     \
	FUNCTION(read_support_filter_gzip)                                                         \
	FUNCTION(read_support_filter_zstd)                                                         \
	FUNCTION(read_support_format_tar)                                                          \
	FUNCTION(write_add_filter_zstd)                                                            \
	FUNCTION(write_close)                                                                      \
	FUNCTION(write_data)                                                                       \
	FUNCTION(write_free)                                                                       \
	FUNCTION(write_header)                                                                     \
	FUNCTION(write_new)                                                                        \
	FUNCTION(write_open)                                                                       \
	FUNCTION(write_set_bytes_in_last_block)                                                    \
	FUNCTION(write_set_format_pax_restricted)

#define LIBARCHIVE_POINTER(name) __typeof__(archive_##name) *(name);

struct libarchive {
	LIBARCHIVE_FUNCTIONS(LIBARCHIVE_POINTER)
};

#undef LIBARCHIVE_POINTER

/* All NULL before libarchive_load(). */
extern struct libarchive libarchive;

/*
 * Loads the library, once, for this process and those that are forked from it: workers can't open
 * it. Returns 0, or -EOPNOTSUPP if it is missing or too old.
 */
int libarchive_load(struct error *error);

#endif
