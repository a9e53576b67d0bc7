/* SPDX-License-Identifier: GPL-2.0 */
/* UTF-8 without a locale. Names in profiles come from untrusted files. */
#ifndef STACKBEAT_LIB_UTF8_H
#define STACKBEAT_LIB_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/*
 * Decodes the character at `text`, NUL-terminated, into *code_point (may be NULL). Returns its
 * length in bytes: 1 to 4; 0 at the end of the string and for invalid UTF-8 (overlong, surrogate
 * and out-of-range forms included).
 */
size_t utf8_decode(const char *text, uint32_t *code_point);

bool utf8_valid(const char *text);

/*
 * Prints an untrusted string without effects on a terminal: control characters, characters that
 * change the direction of writing, and invalid UTF-8 are printed as \x and \u escapes.
 */
void utf8_print(FILE *out, const char *text);

/*
 * Prints a JSON text, whose strings have escapes below U+0020: so have they for the other
 * characters of utf8_print(), which have a meaning for terminals. Invalid UTF-8 is printed as
 * U+FFFD.
 */
void utf8_print_json(FILE *out, const char *json);

/* Replaces the characters of utf8_print() by '?', in place: the string does not grow. */
void utf8_sanitize(char *text);

#endif
