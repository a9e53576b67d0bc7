/* SPDX-License-Identifier: GPL-2.0 */
/* GNU build IDs as strings of lowercase hex digits; "" stands for none. */
#ifndef STACKBEAT_LIB_BUILD_ID_H
#define STACKBEAT_LIB_BUILD_ID_H

#include <stdbool.h>
#include <stddef.h>

#define BUILD_ID_BYTES_MAX 64u /* longer ones are ignored */
#define BUILD_ID_SIZE (2 * BUILD_ID_BYTES_MAX + 1) /* as a string, with its NUL */

/* Formats `size` bytes into `hex`, which has room for 2 * size + 1. */
void build_id_format(const void *bytes, size_t size, char *hex);

/*
 * Returns whether `text`, which may be untrusted, is a build ID that can be a part of a path: hex
 * digits, and more than the two that name a directory of .build-id.
 */
bool build_id_valid(const char *text);

/* Returns whether two build IDs are equal; "" equals "". */
bool build_id_equal(const char *a, const char *b);

#endif
