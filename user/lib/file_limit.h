/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STACKBEAT_LIB_FILE_LIMIT_H
#define STACKBEAT_LIB_FILE_LIMIT_H

#include <stddef.h>
#include <stdint.h>

/* As many as the hard limit permits. */
#define FILE_LIMIT_MAX SIZE_MAX

/*
 * Raises the soft limit of open files of this process by `count`, within the hard limit. Children
 * that are forked later inherit it.
 */
void raise_file_limit(size_t count);

/* Returns the soft limit, FILE_LIMIT_MAX if there is none. */
size_t file_limit(void);

#endif
