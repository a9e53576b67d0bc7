/* SPDX-License-Identifier: GPL-2.0 */
/* The contents of answers, made from slices and from the store. Each function writes to a file. */
#ifndef STACKBEAT_SERVE_ANSWER_H
#define STACKBEAT_SERVE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/child.h"
#include "store/store.h"

struct annotation_server;
struct error;
struct request;

/* A profile in a file of its own. */
struct slice_file {
	int file; /* -1: it has no samples */
	int64_t start_ns, duration_ns;
	bool is_window; /* see protocol.h */
};

/* What store_slices() has done. */
struct store_result {
	struct store_counts counts;
	uint64_t windows, window_bytes; /* in the store */
	int64_t newest_us; /* the end of the newest window, since 1970; 0: there is none */
	struct store_damaged damaged;
};

/* In memory that a job shares with the server. */
struct job_result {
	struct child_result child;
	struct store_result store; /* also if the job was killed */
};

/* Where windows are stored, and how. */
struct store_config {
	const char *path; /* NULL: no store */
	struct store_limits limits;
	uint32_t window_s; /* seconds of a new window */
	uint32_t labels; /* LABEL_SET()s of stored samples */
	const struct store_damaged *damaged; /* by jobs before; NULL: none is known */
};

/*
 * All return 0 or a negative errno value; -ENODATA for a flame graph without samples, and
 * for a function without any. The files of
 * slices are read from their beginning.
 */

/* The selected samples of slices, in the format of the request; there is no base. */
int answer_slices(const struct slice_file *slices, size_t count, const struct request *request,
		  int out, struct error *error);

/* The selected samples of the time range of the request, from the store. */
int answer_range(const char *store, const struct request *request, int out, struct error *error);

/* The windows of the time range, and the services with their CPU time: JSON. */
int answer_windows(const char *store, const struct request *request, int out, struct error *error);
/* The CPU time by service over the steps of the time range: JSON. */
int answer_timeline(const char *store, const struct request *request, int out, struct error *error);
int answer_services(const char *store, const struct request *request, int out, struct error *error);

/*
 * The instructions and lines of the function of the request, in the time range: JSON of
 * report/annotation_json.h. `server` reads the code; NULL: none does.
 */
int answer_annotation(const char *store, const struct request *request,
		      const struct annotation_server *server, int out, struct error *error);

/*
 * A target for each of the 256 largest services of the time range, in the form of http_sd_configs
 * of Prometheus. `host` is where this server was reached.
 */
int answer_targets(const char *store, const struct request *request, const char *host, int out,
		   struct error *error);

/*
 * Stores slices as one window, then merges and removes old windows. Sets *result:
 * `counts.written` as soon as the window is there, whatever comes later. Until the
 * caller has noted that, the window is not merged. `again`: a process that was killed, or a call
 * that has failed, may have stored the first ones of these slices; they are stored once.
 */
int store_slices(const struct store_config *config, const struct slice_file *slices, size_t count,
		 bool again, struct store_result *result, struct error *error);

#endif
