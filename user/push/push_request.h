/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Requests that give a profile to a server. The forms follow the definitions of the servers:
 * push.v1.PusherService/Push of Pyroscope (push.proto, as JSON of the Connect protocol),
 * ProfileStoreService/WriteRaw of Parca (profilestore.proto, as JSON of its gRPC gateway), and the
 * profile itself (pprofreceiver of the OpenTelemetry Collector). otlp_writer.h makes the bodies of
 * OTLP.
 */
#ifndef STACKBEAT_PUSH_PUSH_REQUEST_H
#define STACKBEAT_PUSH_PUSH_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "push/http_client.h"

struct error;

enum push_form {
	PUSH_PYROSCOPE,
	PUSH_PARCA,
	PUSH_PPROF,
	PUSH_OTLP,
};

#define PUSH_LABELS_MAX 16u /* of the user, in a series */
#define PUSH_SERIES_LABELS_MAX (PUSH_LABELS_MAX + 1) /* with the service's label */

/* A label of the series to which a profile belongs. */
struct push_label {
	const char *name, *value;
};

struct push_request {
	struct http_request http; /* with `body` */
	char *body;
};

/* Sets *form to the form called `name`. Returns 0 or -EINVAL with a message that lists them. */
int push_form_parse(const char *name, enum push_form *form, struct error *error);

/*
 * Returns whether servers accept `name` as the name of a label: [a-zA-Z_][a-zA-Z0-9_]*, in OTLP
 * with dots behind the first letter, without the names that begin with "__", which are theirs.
 */
bool push_label_is_valid(enum push_form form, const char *name);

/* Return the names of the labels of the service, and of the host. */
const char *push_service_label(enum push_form form);
const char *push_host_label(enum push_form form);

/*
 * Makes the request for a gzipped profile: for PUSH_OTLP what otlp_write_fd() has written, which
 * has the labels, and else one of pprof. Returns 0, and the caller frees request->body; or -ENOMEM
 * with a NULL body.
 */
int push_request_make(struct push_request *request, enum push_form form,
		      const struct push_label *labels, size_t label_count, const void *profile,
		      size_t size);

#endif
