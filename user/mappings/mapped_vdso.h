/* SPDX-License-Identifier: GPL-2.0 */
/* The vdso, which each 64-bit process maps, as one of the mapped files. */
#ifndef STACKBEAT_MAPPINGS_MAPPED_VDSO_H
#define STACKBEAT_MAPPINGS_MAPPED_VDSO_H

#include <stdint.h>

struct mapped_file;
struct mapped_files;

/*
 * Returns the 64-bit vdso, a copy of this process's. NULL if there is none, or out of
 * memory.
 */
struct mapped_file *mapped_files_vdso(struct mapped_files *files);

/* Returns the index of the 64-bit vdso if mapped_files_vdso() has returned it; else UINT32_MAX. */
uint32_t mapped_files_vdso_index(const struct mapped_files *files);

#endif
