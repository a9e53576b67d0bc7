/* SPDX-License-Identifier: GPL-2.0 */
/* The labels of samples in a profile: their keys, the chosen ones, and their values. */
#ifndef STACKBEAT_PPROF_LABELS_H
#define STACKBEAT_PPROF_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "pprof/container.h"

struct error;
struct profile;

enum label {
	LABEL_COMM, /* name of the process */
	LABEL_THREAD, /* name of the thread */
	LABEL_PID,
	LABEL_TID,
	LABEL_GOROUTINE, /* id of the goroutine of a Go program */
	LABEL_GO_CREATOR, /* function that has created it */
	LABEL_GO_LABELS, /* those that the program has given it; its key: whether they are cut */
	LABEL_CPU,
	LABEL_CGROUP, /* path of the control group */
	LABEL_CONTAINER, /* see container.h */
	LABEL_TRUNCATED, /* why the stack is truncated */
	LABEL_COUNT,
	LABEL_MERGED = LABEL_COUNT, /* what was lost for lack of memory; can't be chosen */
	LABEL_OTHER, /* not a label of stackbeat */
	LABEL_BLOCK, /* see blocks.h; not among those that --labels chooses */
	LABEL_MOMENT, /* when a sample was taken; likewise. No label set has it: see profile.h */
};

#define LABEL_TRUNCATED_KEY "truncated"
#define LABEL_GO_CREATOR_KEY "go-creator"
#define LABEL_GO_LABELS_KEY "go-labels"
#define GO_LABELS_CUT "cut" /* value of LABEL_GO_LABELS: some are missing, or not whole */
#define GO_LABEL_PREFIX "go." /* of a label of a program whose key has another meaning */
#define LABEL_MERGED_KEY "merged"
/* Values of LABEL_MERGED: labels alone, or frames, too. */
#define MERGED_LABELS "labels"
#define MERGED_CALLERS "callers"

#define LABEL_SET(label) (1u << (label))
#define LABELS_ALL (LABEL_SET(LABEL_COUNT) - 1)
/* The labels that distinguish programs. */
#define LABELS_DEFAULT                                                                             \
	(LABELS_ALL & ~(LABEL_SET(LABEL_TID) | LABEL_SET(LABEL_GOROUTINE) |                        \
			LABEL_SET(LABEL_GO_CREATOR) | LABEL_SET(LABEL_CPU)))

#define LABELS_ADDED_MAX 16
#define LABEL_KEY_SIZE 64 /* bytes of an added key, with its NUL */
/* Labels of a sample, at most: with LABEL_MERGED, and the process id in its namespace. */
#define LABELS_MAX (LABEL_COUNT + 3 + LABELS_ADDED_MAX + STACKBEAT_GO_LABELS_COUNT_MAX)
/* Bytes of the strings of a goroutine's labels, each with its NUL. */
#define GO_LABELS_TEXT_SIZE                                                                        \
	(STACKBEAT_GO_LABELS_SIZE_MAX + STACKBEAT_GO_LABELS_COUNT_MAX * sizeof(GO_LABEL_PREFIX))

/* The labels that a user has chosen. */
struct labels {
	uint32_t chosen; /* LABEL_SET()s */
	struct {
		char key[LABEL_KEY_SIZE];
		const char *value; /* in the string of labels_add() */
	} added[LABELS_ADDED_MAX]; /* to every sample */
	size_t added_count;
};

/*
 * Chooses the labels of a list like "comm,pid", "all", "none", or "" (none). Returns 0, or -EINVAL
 * with the choice unchanged.
 */
int labels_choose(struct labels *labels, const char *list, struct error *error);

/* Returns what a session is to read of goroutines for the chosen labels: STACKBEAT_GOROUTINE_*. */
uint8_t labels_of_goroutines(const struct labels *labels);

/*
 * Adds a label to every sample. `string` is KEY=VALUE, and must outlive `labels`. Key and value
 * must be UTF-8 and not empty; the key must be new, and not one of stackbeat or pprof. Returns 0 or
 * -EINVAL.
 */
int labels_add(struct labels *labels, const char *string, struct error *error);

/* Returns the label with a key, or LABEL_OTHER. LABEL_PID has two keys: "pid" and "nspid". */
enum label label_of_key(const char *key);

/*
 * Returns the label on whose choice a label with this key depends: LABEL_GO_LABELS for LABEL_OTHER,
 * as keys do not distinguish programs.
 */
enum label label_choice(const char *key);

/* Whether labels_add() has added a label with this key. */
bool labels_have_added(const struct labels *labels, const char *key);

/* The origin of a sample. Members that no chosen label needs are 0 and "". */
struct label_origin {
	uint32_t pid, tid, cpu;
	uint32_t first; /* 1: the first thread of its process */
	char thread[STACKBEAT_COMM_SIZE]; /* name of the thread, padded with NULs */
	uint64_t goroutine; /* 0: none, or unknown */
	uint64_t go_creator; /* return address of its go statement; 0: none, or unknown */
	uint64_t block; /* of time, see block_of_time() */
	uint64_t unused; /* fingerprints are of pairs of words */
};

/* The properties of the process and of the stack that are not in each sample. */
struct label_process {
	const char *comm; /* name; "": unknown */
	const char *cgroup_path; /* "": none or unknown */
	uint32_t ns_pid; /* in its own pid namespace; 0: unknown */
	const char *truncated; /* why the stack is truncated; "": it is complete */
	const struct stackbeat_go_labels *go_labels; /* of the goroutine; NULL: none */
};

/* Sets `origin` for a sample. `process_comm`: the `comm` of struct label_process. */
void label_origin(uint32_t chosen, const char *process_comm, const struct stackbeat_sample *sample,
		  struct label_origin *origin);

/* Returns the labels of the goroutine of a sample if they are chosen; NULL: none. */
const struct stackbeat_go_labels *label_go_labels(uint32_t chosen,
						  const struct stackbeat_sample *sample);

/* A label with a string, or with a number if `text` is NULL. */
struct label_value {
	const char *key;
	const char *text;
	int64_t number;
	const char *unit; /* of the number; NULL: "" */
};

struct label_values {
	struct label_value items[LABELS_MAX];
	size_t count;
	char container[CONTAINER_ID_SIZE]; /* a value of `items` */
	char go_labels[GO_LABELS_TEXT_SIZE]; /* keys and values of `items` */
};

/*
 * Sets `values` to the labels of a stack, without those with an unknown value. Their strings belong
 * to the arguments, and to `values` itself, which can't be copied therefore.
 */
void label_values(const struct labels *labels, const struct label_origin *origin,
		  const struct label_process *process, struct label_values *values);

/*
 * Sets a label to LABEL_GO_CREATOR, the number of whose location in the profile stands for its
 * function until that is known: see symbolize/go_creators.h.
 */
void label_set_go_creator(struct label_value *value, uint32_t location);

/* Whether a label of a profile was made from label_set_go_creator(), with a valid number. */
bool label_is_go_creator_location(const struct profile *profile, uint32_t label);

/* Returns the number in a profile of the set of these labels, which is added if it is missing. */
uint32_t labels_intern(struct profile *profile, const struct label_value *values, size_t count);

#endif
