/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lines of source files. Debug information names the files, and is untrusted: only regular files
 * are read, and as root only those that all users may read.
 */
#ifndef STACKBEAT_REPORT_SOURCE_TEXT_H
#define STACKBEAT_REPORT_SOURCE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"

struct source_file;

/* Files that were read. All zero: none. */
struct source_text {
	struct source_file *files;
	size_t count, capacity;
};

/*
 * Returns a line of a file, without its end, owned by `text`; or NULL with `error` set: there is no
 * such file or line, or no memory. An untrusted text, not always UTF-8.
 */
const char *source_text_line(struct source_text *text, const char *path, uint32_t line,
			     struct error *error);
void source_text_clear(struct source_text *text);

#endif
