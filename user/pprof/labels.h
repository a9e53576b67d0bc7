/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The labels of a profile's samples: which ones there are, which of them are wanted,
 * and what they say of a stack.
 */
#ifndef STACKBEAT_PPROF_LABELS_H
#define STACKBEAT_PPROF_LABELS_H

#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "pprof/container.h"
#include "pprof/pprof_writer.h"

struct error;

enum label {
	LABEL_COMM, /* name of the process */
	LABEL_THREAD, /* name of the thread */
	LABEL_PID,
	LABEL_TID,
	LABEL_CPU,
	LABEL_CGROUP, /* path of the control group */
	LABEL_CONTAINER, /* see container.h */
	LABEL_TRUNCATED, /* why the stack is truncated */
	LABEL_COUNT
};

#define LABEL_TRUNCATED_KEY "truncated"

#define LABEL_SET(label) (1u << (label))
#define LABELS_ALL (LABEL_SET(LABEL_COUNT) - 1)
/* Those that tell apart what is not the same program for a user. */
#define LABELS_DEFAULT (LABELS_ALL & ~(LABEL_SET(LABEL_TID) | LABEL_SET(LABEL_CPU)))

#define LABELS_ADDED_MAX 16
#define LABEL_KEY_SIZE 64 /* bytes of a key that is added, with its NUL */
/* All labels of a sample: one more than there are, for a second process id. */
#define LABELS_MAX (LABEL_COUNT + 1 + LABELS_ADDED_MAX)

/* What a user wants. */
struct labels {
	uint32_t chosen; /* LABEL_SET()s */
	struct {
		char key[LABEL_KEY_SIZE];
		const char *value; /* where labels_add() got it */
	} added[LABELS_ADDED_MAX]; /* to every sample */
	size_t added_count;
};

/*
 * Chooses the labels of a list like "comm,pid", "all", "none", or "" (none). Returns 0,
 * or -EINVAL with nothing chosen otherwise than before.
 */
int labels_choose(struct labels *labels, const char *list, struct error *error);

/*
 * Adds a label to every sample: `text` is KEY=VALUE, and must stay. Both are UTF-8 and not
 * empty; the key is none of ours and not there yet. Returns 0 or -EINVAL.
 */
int labels_add(struct labels *labels, const char *text, struct error *error);

/* Whose a sample is, as far as the chosen labels ask; the rest is 0 and "". */
struct label_origin {
	uint32_t pid, tid, cpu;
	uint32_t first; /* 1: of the first thread of a process */
	char thread[STACKBEAT_COMM_SIZE]; /* its name; the rest is 0 too */
};

/* What is known of the process and of the stack, apart from the samples. */
struct label_process {
	const char *comm; /* name; "": not known */
	const char *cgroup_path; /* "": none, or not known */
	uint32_t ns_pid; /* in its own pid namespace; 0: not known */
	const char *truncated; /* why the stack is truncated; "": it is complete */
};

/* `process_comm` is as in struct label_process. */
void label_origin(uint32_t chosen, const char *process_comm, const struct stackbeat_sample *sample,
		  struct label_origin *origin);

struct label_values {
	struct pprof_label items[LABELS_MAX];
	size_t count;
	char container[CONTAINER_ID_SIZE]; /* a text of the above */
};

/*
 * The labels of a stack. Where there is nothing to tell, a label is left out. The texts are
 * those of the arguments, and of `values`: it can't be copied.
 */
void label_values(const struct labels *labels, const struct label_origin *origin,
		  const struct label_process *process, struct label_values *values);

#endif
