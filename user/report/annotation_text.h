/* SPDX-License-Identifier: GPL-2.0 */
/* Annotated functions as text. */
#ifndef STACKBEAT_REPORT_ANNOTATION_TEXT_H
#define STACKBEAT_REPORT_ANNOTATION_TEXT_H

#include <stdbool.h>
#include <stdio.h>

struct annotation;
struct error;
struct profile;

struct annotation_text_options {
	bool cum; /* a column of what was called, too */
	bool places; /* file and line before each source line, and all lines in the summary */
	bool bytes; /* of the instructions */
	bool no_source; /* instructions only */
	bool colors; /* escape sequences for the colors of a terminal */
};

/*
 * Prints each function: a line about it, its source lines with the largest values, and its
 * instructions, in the order of their addresses, below their source lines; inlined functions have a
 * line where they begin. Percentages are shares of the function. A line says why there is no
 * source. The caller checks `out` for write errors. Returns 0 or -ENOMEM.
 */
int annotation_print(const struct annotation *annotation, const struct profile *profile,
		     const struct annotation_text_options *options, FILE *out);

#endif
