/* SPDX-License-Identifier: GPL-2.0 */
/* Function names that fit into little room. */
#ifndef STACKBEAT_REPORT_SHORT_NAME_H
#define STACKBEAT_REPORT_SHORT_NAME_H

#include <stddef.h>

/*
 * Returns `name` in at most `columns` columns, to be freed: without its arguments, then without
 * the arguments of templates and generic types, then without packages and namespaces from the left,
 * and at last without its end: "github.com/very/long/pkg.(*T).Method" becomes "…pkg.(*T).Method",
 * "…(*T).Method" and "Metho…". Characters of
 * wide scripts take two columns. "" if the name does not fit into less than five columns. NULL when
 * out of memory. flamegraph.js shortens names in the same way.
 */
char *short_name(const char *name, size_t columns);

/* Returns the columns of a text, by the same rules. */
size_t short_name_columns(const char *text);

#endif
