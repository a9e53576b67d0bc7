/* SPDX-License-Identifier: GPL-2.0 */
/* Files that are given in place of a pprof profile, by their first bytes. */
#ifndef STACKBEAT_PPROF_FOREIGN_FORMAT_H
#define STACKBEAT_PPROF_FOREIGN_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#define FOREIGN_HEAD_SIZE 32u /* bytes that suffice */

/*
 * Sets *what to the kind of file that begins with `size` bytes, and *remedy to the command that
 * makes a profile of it, or to what to give instead. Returns false if it is unknown. Formats: the
 * legacy ones of pprof (github.com/google/pprof, profile/legacy_profile.go), perf.data, ELF, SVG.
 */
bool foreign_format(const void *head, size_t size, const char **what, const char **remedy);

#endif
