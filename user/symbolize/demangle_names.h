/* SPDX-License-Identifier: GPL-2.0 */
/* Demangles names in a worker (sandbox/fork_server.h), as demanglers are large and hard to trust.
 */
#ifndef STACKBEAT_SYMBOLIZE_DEMANGLE_NAMES_H
#define STACKBEAT_SYMBOLIZE_DEMANGLE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sandbox_server;
struct string_table;

/* Returns whether a name may be mangled, by its first characters. */
bool is_mangled(const char *name);

/*
 * Demangles `count` names. demangled[i] becomes a string that `strings` owns, or NULL if names[i]
 * is not mangled, or on failure. Waits for at most 10 s. Returns 0, -ENOMEM, or another negative
 * errno value if no worker could do it.
 */
int demangle_names(const struct sandbox_server *server, const char *const names[], size_t count,
		   struct string_table *strings, const char *demangled[]);

/* The work of the worker (WORKER_DEMANGLE): a file of names, and the pipe for the result. */
void run_demangle_worker(const int fds[], size_t count);

#endif
