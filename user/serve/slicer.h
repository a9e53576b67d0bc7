/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The process of `stackbeat serve` that samples: one session, always on. On request it ends a
 * slice, which another process symbolizes while sampling goes on. It parses nothing of HTTP.
 */
#ifndef STACKBEAT_SERVE_SLICER_H
#define STACKBEAT_SERVE_SLICER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct labels;
struct sandbox_server;
struct session;
struct session_config;
struct symbolize_options;
struct file_cache;

struct sampler_config {
	const struct session_config *session;
	const struct labels *labels;
	const struct sandbox_server *sandbox;
	const struct symbolize_options *symbolize;
	struct file_cache *cache; /* of unwind tables; NULL: none */
	const char *command_line; /* for the comments of profiles */
	size_t memory; /* bytes for what is not yet in a slice */
	int socket; /* SOCK_SEQPACKET, of protocol.h */
	bool has_store; /* slices are kept until they are stored */
	uint32_t store_labels; /* LABEL_SET()s of stored samples */
	/* Called with the session when sampling begins. */
	void (*started)(const struct session *session);
	void (*warning)(const char *text, void *arg);
};

/*
 * Samples until SIGINT, SIGTERM or SIGHUP, the end of the peer, or an error, which is also the end
 * of the session by others (-ECANCELED). Then all samples were sent. Returns 0 or a negative errno
 * value.
 */
int sampler_run(const struct sampler_config *config, struct error *error);

#endif
