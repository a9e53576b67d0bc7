/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages between the process that samples and the process that serves HTTP, on a SOCK_SEQPACKET
 * socket.
 *
 * The samples are cut into slices, numbered from 1: each sample is in one slice. A slice is sent as
 * a symbolized profile in a file, some time after it was cut.
 *
 * If the server has a store, the sampler keeps each slice until the server has stored it: a server
 * that replaces a crashed one gets them again. The messages for the one before are still in
 * the socket then, and the new one ignores them: all before its REPLY_READY, and those with the ID
 * of an ask that is not its own.
 */
#ifndef STACKBEAT_SERVE_PROTOCOL_H
#define STACKBEAT_SERVE_PROTOCOL_H

#include <stdint.h>

#include "pprof/truncation.h"
#include "record/counters.h"

/* To the sampler. */
enum ask_type {
	ASK_CUT, /* end the current slice */
	ASK_COUNTERS,
	ASK_RECORD, /* make a session of its own with another rate */
	ASK_BEGIN, /* of a server that replaces another one */
	ASK_STORED, /* all slices up to `slice` are stored, or given up */
};

struct ask {
	uint32_t type; /* enum ask_type */
	uint32_t id; /* of the answer */
	uint32_t rate, seconds; /* of ASK_RECORD */
	uint32_t slice; /* of ASK_STORED */
	uint32_t for_store; /* of ASK_CUT: no request needs the slice that ends there */
};

/* From the sampler. */
enum reply_type {
	REPLY_READY, /* sampling has begun; slices up to `slice` are not sent again */
	REPLY_CUT, /* `slice` ends here */
	REPLY_SLICE, /* with a file, if it has samples and no error */
	REPLY_COUNTERS,
	REPLY_RECORDED, /* with a file, unless `err` */
	REPLY_END, /* all slices were sent */
};

/* Since the start. */
struct sampler_counters {
	uint64_t samples, truncated[TRUNCATED_COUNT]; /* in slices that were sent */
	uint64_t session[COUNTER_COUNT]; /* of the session, see record/counters.h */
	uint64_t lost_export; /* samples of slices that could not be exported or sent */
	uint64_t slices;
	uint64_t resident_bytes;
	uint64_t clock_steps; /* see record/recorder.h */
	uint32_t rate, cpus;
	uint32_t is_perf; /* the source is perf events */
	uint32_t stack_copy; /* bytes of the user stack that a sample of perf events has; 0: none */
};

struct reply {
	uint32_t type; /* enum reply_type */
	uint32_t id; /* of the ask; 0: the first REPLY_READY */
	uint32_t slice;
	int32_t err; /* 0 or a negative errno value */
	int64_t start_ns, duration_ns; /* of the slice or the recording; since 1970 */
	uint64_t samples;
	/*
	 * The file of the slice has the labels that are stored, and the comments of a window: all
	 * asks that have cut the slice were for_store.
	 */
	uint32_t is_window;
	struct sampler_counters counters; /* of REPLY_COUNTERS */
	char error[160]; /* message of `err` */
};

#endif
