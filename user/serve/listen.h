/* SPDX-License-Identifier: GPL-2.0 */
/* The sockets on which HTTP requests arrive. */
#ifndef STACKBEAT_SERVE_LISTEN_H
#define STACKBEAT_SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "serve/http_config.h"

struct error;

/*
 * Listens at an address: "unix:PATH", whose socket has mode 0660 and the group `group` (-1: the
 * group of the process), or ADDRESS:PORT with a numeric address, in brackets if it is of IPv6.
 * Port 0 is any free port; the listener has its number.
 * `address` is to stay until listen_remove(). Unless `any` is set, addresses outside the loopback
 * are refused (-EPERM). A Unix socket that nobody listens at is replaced. Returns 0, or a negative
 * errno value.
 */
int listen_at(const char *address, bool any, gid_t group, struct http_listener *listener,
	      struct error *error);

/*
 * Removes the file of a Unix socket that listen_at() has made, unless another file has taken its
 * place. To be called while a process still listens, as nobody replaces the file then.
 */
void listen_remove(const struct http_listener *listener);

/*
 * Adds the sockets that systemd has passed (LISTEN_FDS) to the *count listeners. Unless `any` is
 * set, refuses those that are neither Unix sockets nor at the loopback. Returns 0 or a negative
 * errno value.
 */
int listen_inherit(struct http_listener *listeners, size_t *count, bool any, struct error *error);

#endif
