/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STACKBEAT_LIB_FILE_LIMIT_H
#define STACKBEAT_LIB_FILE_LIMIT_H

#include <stddef.h>

/*
 * Raises the soft limit of open files of this process by `count`, within the hard limit. Children
 * that are forked later inherit it.
 */
void raise_file_limit(size_t count);

#endif
