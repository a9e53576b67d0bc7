/* SPDX-License-Identifier: GPL-2.0 */
/* Demangles names in a worker (sandbox/fork_server.h), as demanglers are large and hard to trust.
 */
#ifndef STACKBEAT_SYMBOLIZE_DEMANGLE_NAMES_H
#define STACKBEAT_SYMBOLIZE_DEMANGLE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sandbox_server;
struct source_line;
struct string_table;

/* Returns whether a name may be mangled, by its first characters. */
bool is_mangled(const char *name);

/*
 * Demangles the functions of `count` lines that come from a symbol table: their `system_name`
 * becomes a `function` that `strings` owns, if it is mangled. Waits for at most 10 s, and leaves
 * the names mangled if no worker can do it. Returns 0 or -ENOMEM.
 */
int demangle_lines(const struct sandbox_server *server, struct source_line *lines, size_t count,
		   struct string_table *strings);

/* The work of the worker (WORKER_DEMANGLE): a file of names, and the pipe for the result. */
void run_demangle_worker(const int fds[], size_t count);

#endif
