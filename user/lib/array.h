/* SPDX-License-Identifier: GPL-2.0 */
/* Arrays that grow. */
#ifndef STACKBEAT_LIB_ARRAY_H
#define STACKBEAT_LIB_ARRAY_H

#include <stddef.h>

/*
 * Makes room for `more` entries of `size` bytes behind the `count` that *items has.
 * *capacity is what *items has room for; both are 0 and NULL to begin with, and
 * the owner frees *items. Returns 0, or -ENOMEM with nothing changed.
 */
int array_reserve(void *items, size_t *capacity, size_t count, size_t more, size_t size);

/*
 * Puts a copy of `text` behind the *count texts of *texts, which grow as with
 * array_reserve(). The owner frees each of them. Returns 0, or -ENOMEM with nothing added.
 */
int array_add_string(char ***texts, size_t *capacity, size_t *count, const char *text);

#endif
