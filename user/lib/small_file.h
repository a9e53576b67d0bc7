/* SPDX-License-Identifier: GPL-2.0 */
/* Short files of /proc and /sys. */
#ifndef STACKBEAT_LIB_SMALL_FILE_H
#define STACKBEAT_LIB_SMALL_FILE_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Reads the beginning of the file `root``path`, at most `size` - 1 bytes, and adds a NUL. Opening
 * can't block, whatever the file is. Returns the number of bytes, or a negative errno value, with
 * an empty `text`.
 */
ssize_t small_file_read(const char *root, const char *path, char *text, size_t size);

#endif
