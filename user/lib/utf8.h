/* SPDX-License-Identifier: GPL-2.0 */
/* UTF-8, without a locale: names in profiles come from files that anybody wrote. */
#ifndef STACKBEAT_LIB_UTF8_H
#define STACKBEAT_LIB_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/*
 * Decodes the character at `text`, NUL-terminated, into *code_point (may be NULL).
 * Returns its length in bytes: 1 to 4; 0 at the end of the text and where the
 * bytes are not UTF-8 (overlong, surrogate and out-of-range forms included).
 */
size_t utf8_decode(const char *text, uint32_t *code_point);

bool utf8_valid(const char *text);

/*
 * Prints text that may come from anybody, so that it can't command a terminal: characters
 * that control or turn the direction of writing, and what is not UTF-8, as \x and \u.
 */
void utf8_print(FILE *out, const char *text);

/* Replaces these by '?', in place: where the text must have its length at most. */
void utf8_sanitize(char *text);

#endif
