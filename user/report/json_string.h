/* SPDX-License-Identifier: GPL-2.0 */
/* Strings in JSON documents that are printed piece by piece. */
#ifndef STACKBEAT_REPORT_JSON_STRING_H
#define STACKBEAT_REPORT_JSON_STRING_H

#include <stdio.h>

/*
 * Prints a JSON string with its quotes, without characters that have a meaning for terminals.
 * Returns 0 or -ENOMEM.
 */
int json_string_print(const char *text, FILE *out);

#endif
