/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Profiles in the OpenTelemetry protocol (OTLP), version 1.11.0, whose messages for profiles are in
 * development: https://github.com/open-telemetry/opentelemetry-proto, profiles/v1development.
 */
#ifndef STACKBEAT_PUSH_OTLP_WRITER_H
#define STACKBEAT_PUSH_OTLP_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include "push/push_request.h"

struct error;
struct profile;

/*
 * Writes the body of a request to export a profile to `fd`, an empty file, gzipped. `labels`, up to
 * PUSH_SERIES_LABELS_MAX, become attributes of the resource. Each value type
 * becomes a profile, the default one first. Labels of samples become attributes of them with the
 * same key, and the build ID of a mapping one of it. Comments are left out. Returns 0, or a
 * negative errno value with a message in `error`.
 */
int otlp_write_fd(const struct profile *profile, const struct push_label *labels,
		  size_t label_count, int fd, struct error *error);

/*
 * Reads the answer to a request that was accepted, or not. Returns 0; or -EREMOTEIO with a message
 * in `error`: that the server has rejected profiles of an accepted request, that the answer can't
 * be read, or the reason why a request is not accepted.
 */
int otlp_read_answer(const void *answer, size_t size, bool is_accepted, struct error *error);

#endif
