/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lines of source files. Debug information names the files, and is untrusted: only regular files
 * are read, and as root only those that all users may read. A file is read once, whatever names it
 * has, and those beyond SOURCE_TEXT_BYTES_MAX are not. A file system that hangs delays a name by
 * some seconds.
 */
#ifndef STACKBEAT_REPORT_SOURCE_TEXT_H
#define STACKBEAT_REPORT_SOURCE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"

struct source_file;
struct source_name;

/* Of all files together. */
#define SOURCE_TEXT_BYTES_MAX ((size_t)64 << 20)

/* Files that were read. All zero: none. */
struct source_text {
	struct source_file *files;
	size_t file_count, file_capacity;
	struct source_name *names;
	size_t name_count, name_capacity;
	size_t bytes; /* of the files */
};

/*
 * Returns a line of a file, without its end, owned by `text`; or NULL with `error` set: there is no
 * such file or line, or no memory. An untrusted text, not always UTF-8.
 */
const char *source_text_line(struct source_text *text, const char *path, uint32_t line,
			     struct error *error);
void source_text_clear(struct source_text *text);

#endif
