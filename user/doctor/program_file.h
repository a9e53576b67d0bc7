/* SPDX-License-Identifier: GPL-2.0 */
/* What an executable has for names of its functions. */
#ifndef STACKBEAT_DOCTOR_PROGRAM_FILE_H
#define STACKBEAT_DOCTOR_PROGRAM_FILE_H

#include <stdbool.h>

#include "lib/build_id.h"

struct program_file {
	bool has_symbols; /* .symtab, or the table of Go */
	bool has_mini; /* .gnu_debugdata: compressed symbols */
	bool has_dwarf; /* .debug_info: lines and inlined functions */
	char build_id[BUILD_ID_SIZE]; /* hex; "": none */
};

/*
 * Reads the section headers of an untrusted ELF file of 64 bits, a bounded number of bytes. It is
 * copied, never mapped, and no parser follows its pointers: so that no worker is needed. Returns 0,
 * -ENOEXEC for other files, or another negative errno value.
 */
int program_file_read(struct program_file *program, int fd);

#endif
