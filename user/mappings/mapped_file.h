/* SPDX-License-Identifier: GPL-2.0 */
/* What the table of mapped files takes and gives: see mapped_files.h. */
#ifndef STACKBEAT_MAPPINGS_MAPPED_FILE_H
#define STACKBEAT_MAPPINGS_MAPPED_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Descriptors that are kept; fewer if the process may open less than twice as many. */
#define MAPPED_FILES_OPEN_MAX 8192u

/* Bytes of the copies: of one, and of all. A file that exceeds them stays open itself. */
#define MAPPED_FILES_COPY_MAX (UINT64_C(32) << 20)
#define MAPPED_FILES_COPIES_MAX (UINT64_C(128) << 20)

struct mapped_file {
	uint32_t index; /* see mapped_files_at() */
	const char *path; /* as the process sees it; "": unknown */
	const char *build_id; /* GNU build ID, hex; "": none, or unknown. A claim of the file. */
	const char *problem; /* why it can't be opened, one line; "": it can */
	/* ELF virtual address - offset, of the load segment that was mapped last. */
	uint64_t vaddr_bias;
};

/* Source of the files: the device, except in tests. */
struct file_source {
	int (*open)(uint64_t id, void *arg); /* as device_file_open(); called by any thread */
	int (*release)(uint64_t id, void *arg); /* as device_file_release() */
	void *arg;
	unsigned int timeout_s; /* of one file; 0: the defaults of file_opener.h */
	size_t open_max; /* 0: MAPPED_FILES_OPEN_MAX */
};

struct mapped_files_counts {
	uint64_t opened; /* files that were requested, and opened */
	uint64_t saved; /* opened files that mapped_files_save() has saved */
	uint64_t not_saved; /* opened files that could not be saved */
	uint64_t without_id; /* opened files that could not be saved without a build ID */
};

/* What the maker of unwind tables needs. */
struct table_hooks {
	/* The kernel has reported a file, and lacks its unwind table. */
	int (*missing)(struct mapped_file *file, void *arg); /* returns 0 or -ENOMEM */
	/* A file is forgotten: its index may belong to another file soon. */
	void (*forgotten)(uint32_t index, void *arg);
	void *arg;
};

#endif
