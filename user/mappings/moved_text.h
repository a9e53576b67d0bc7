/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Text that a program has moved from its file to anonymous memory at the same addresses, for huge
 * pages: as intel/iodlr and Node's --use-largepages do, and BOLT's --hugify. The kernel knows such
 * memory as anonymous, like generated code, which may lie where a library was unloaded. So only its
 * bytes say that it is the text of a file.
 */
#ifndef STACKBEAT_MAPPINGS_MOVED_TEXT_H
#define STACKBEAT_MAPPINGS_MOVED_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct mapped_file;
struct mapped_files;

#define MOVED_TEXT_PAGE UINT64_C(4096)
/* Pages that are compared with a file at most, on each side of an address. */
#define MOVED_TEXT_PAGES_MAX 1024u

/* Memory of a process that may be text of a file: whole pages. */
struct moved_text {
	uint64_t start, end, address; /* of the memory; and one within it */
	uint64_t offset; /* of `address` in the file */
	uint32_t pid;
	bool is_slow; /* set by a comparison that took long: it ends with what is equal by then */
};

/*
 * Reduces the memory to the pages around `address` that have the bytes of the file, if not all of
 * these bytes are the same. Returns 1; 0 if the page of `address` differs, or can't be read;
 * -ETIMEDOUT if the memory or the file hangs, as a process can make it; or -EAGAIN if nothing was
 * compared, as too many calls hang.
 */
int moved_text_compare(const struct mapped_files *files, const struct mapped_file *file,
		       struct moved_text *text);

#endif
