/* SPDX-License-Identifier: GPL-2.0 */
/* Words that someone may have meant. */
#ifndef STACKBEAT_LIB_SUGGEST_H
#define STACKBEAT_LIB_SUGGEST_H

#include <stddef.h>

/* Returns word `index` of a list, or NULL behind the last one. */
typedef const char *suggest_word_fn(const void *context, size_t index);

/*
 * Returns the word of a list that differs least from `typed`: by at most a third of its
 * characters, where a character is missing, added, another one, or exchanged with the next (the
 * optimal string alignment distance, which git uses too). NULL if there is none.
 */
const char *suggest_word(const char *typed, suggest_word_fn *word, const void *context);

#endif
