/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A thread that opens and copies mapped files, as a file system may hang for ever.
 *
 * A job belongs to the opener from file_opener_add() until file_opener_take() returns it; in
 * between, nobody else uses it. A job that makes no progress for a while, or copies less than
 * FILE_OPENER_RATE_MIN, is given up: a substitute of it is returned, with the error -ETIMEDOUT, and
 * another thread goes on with the queue. The thread that hangs keeps the job, and frees it if it
 * ever resumes.
 *
 * Files of a device on which a file hangs are opened last, and are given up at once after
 * FILE_OPENER_STUCK_MAX_PER_DEVICE files of it.
 */
#ifndef STACKBEAT_MAPPINGS_FILE_OPENER_H
#define STACKBEAT_MAPPINGS_FILE_OPENER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/error.h"
#include "lib/regular_file.h"
#include "mappings/find_mapped_file.h"

struct binary_store;
struct file_opener;
struct sandbox_server;

/*
 * Seconds without progress after which a file is given up; FILE_OPENER_WAITS_MAX times as many if
 * the thread that opens it gets no CPU (thread_awaits_cpu()).
 */
#define FILE_OPENER_TIMEOUT_S 5u
#define FILE_OPENER_WAITS_MAX 10u
/*
 * Bytes a second that a copy must have on average, beyond these seconds: low, as the thread that
 * copies has idle priority, and the machine may be busy.
 */
#define FILE_OPENER_RATE_MIN (16u << 10)
/* file_opener_finish() waits for this many times these seconds. */
#define FILE_OPENER_FINISH_FACTOR 10u
/* The same of a thread at idle priority, which may have to wait for a CPU. */
#define FILE_OPENER_IDLE_TIMEOUT_S 30u
/* Threads that hang at a time, of one device and of all. */
#define FILE_OPENER_STUCK_MAX_PER_DEVICE 2u
#define FILE_OPENER_STUCK_MAX 32u

enum file_job_kind {
	FILE_JOB_OPEN, /* open it through the kernel, or at a place where it is identical */
	FILE_JOB_OPEN_FOR_TABLE, /* the same */
	FILE_JOB_COPY, /* replace `fd` by a copy in memory */
	FILE_JOB_SAVE, /* add `fd` to the store */
};

/* What changes with the contents of a file, where the kernel sets the time of change. */
struct file_stamp {
	uint64_t device, inode; /* as fstat() shows them, which an overlay changes */
	uint64_t size;
	int64_t changed_s, changed_ns; /* st_ctim */
	bool is_settled; /* a change from now on sets another time, however coarse times are */
};

struct file_job {
	struct file_job *next; /* the opener's; then, in the list of file_opener_take() */
	enum file_job_kind kind;
	uint32_t file; /* the caller's */
	struct file_identity identity;
	char *path; /* owned; NULL: unknown. Of files to be opened. */
	/* Owned; of FILE_JOB_SAVE. NULL: the file's; -ENODATA if it has none. */
	char *build_id;
	uint64_t id; /* the kernel's, that can be opened; 0: none */
	uint32_t pid; /* as in struct file_place */
	uint64_t start, end;
	/* Result; `fd` (owned; -1: none) and `owner` are arguments, unless the file is opened. */
	int fd;
	struct file_owner owner;
	struct file_stamp stamp; /* of a file that was opened */
	bool is_no_elf; /* a file that was opened does not begin as an ELF file */
	int err;
	struct error problem; /* if `err` */
};

/* All pointers must stay valid until file_opener_free(). */
struct file_opener_config {
	const char *root; /* see find_mapped_file(); copied */
	int (*open)(uint64_t id, void *arg); /* the kernel's files; called by the thread */
	void *arg;
	struct binary_store *store; /* of FILE_JOB_SAVE, or NULL; freed with the opener */
	const struct sandbox_server *sandbox; /* of `store`: reads build IDs */
	bool idle; /* the thread runs when no other thread wants to */
	int event; /* eventfd, written after each FILE_JOB_OPEN_FOR_TABLE; 0: none */
	unsigned int timeout_s; /* 0: the default */
};

/* Returns a job with `fd` -1, or NULL when out of memory. file_job_free() closes `fd`. */
struct file_job *file_job_new(enum file_job_kind kind, uint32_t file);
void file_job_free(struct file_job *job);

/*
 * Returns an opener without a thread, or NULL when out of memory: the store stays the caller's
 * then. file_opener_free() accepts NULL, drops the jobs in the queue, and waits for the current one
 * as file_opener_finish() does.
 */
struct file_opener *file_opener_new(const struct file_opener_config *config);
void file_opener_free(struct file_opener *opener);

/* Adds a job to the queue. Returns 0, or -ENOMEM with the job freed. */
int file_opener_add(struct file_opener *opener, struct file_job *job);

/* Gives up the current job if it hangs. Call this every second or so. */
void file_opener_watch(struct file_opener *opener);

/* Returns the list of the jobs done or given up, which the caller owns. NULL: none. */
struct file_job *file_opener_take(struct file_opener *opener);

/* Drops the jobs in the queue. */
void file_opener_cancel(struct file_opener *opener);

/* Waits until all jobs are done or given up. `open` is not called afterwards. */
void file_opener_finish(struct file_opener *opener);

#endif
