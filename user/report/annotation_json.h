/* SPDX-License-Identifier: GPL-2.0 */
/* Annotated functions as JSON, for programs. */
#ifndef STACKBEAT_REPORT_ANNOTATION_JSON_H
#define STACKBEAT_REPORT_ANNOTATION_JSON_H

#include <stdio.h>

struct annotation;
struct profile;

/*
 * Prints an object: "type", "unit" and "total" of the values, and "functions", each with
 * "function", "file", "build_id", "start", "size", "flat", "cum" and "instructions". An instruction
 * has "address", "bytes" in hex, "text", "flat", "cum" and "lines", innermost first, each with
 * "function", "file" and "line". "inlined" is true if the name is of inlined code, which the
 * functions have; "problem" says what is missing, if anything is. The caller checks `out` for write
 * errors. Returns 0 or -ENOMEM.
 */
int annotation_print_json(const struct annotation *annotation, const struct profile *profile,
			  FILE *out);

#endif
