/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A session of a source of samples, the module or perf events: opens it, and configures it for
 * `stackbeat record`. What reads its samples does not know the source.
 */
#ifndef STACKBEAT_SOURCE_SESSION_H
#define STACKBEAT_SOURCE_SESSION_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <stackbeat.h>

#include "lib/error.h"
#include "source/cpulist.h"
#include "source/netlink.h"
#include "source/perf_device.h"
#include "source/session_config.h"

struct device;

#define SESSION_SOURCE_SIZE 512

struct session {
	struct device *device;
	struct netlink *control; /* NULL: of perf events */
	bool restricted; /* the kernel samples only processes of this user */
	bool same_pid_ns; /* this process is in the initial pid namespace */
	/* The module can use unwind tables; then, after session_configure(): it does. */
	bool unwind_tables;
	uint32_t rate; /* Hz, as configured */
	uint32_t parts; /* STACKBEAT_PART_*: available ones, then the configured ones */
	struct cpulist cpulist;
	char cpus[STACKBEAT_CPULIST_MAX]; /* `cpulist` as a string, "": all */
	uint32_t stack_copy; /* bytes, as configured */
	bool is_perf; /* the source is perf events */
	struct error
		module_problem; /* why the source is not the module; "": it is, or was not tried */
	char source[SESSION_SOURCE_SIZE]; /* one line: the source, and what it lacks */
	char loaded[PATH_MAX]; /* path of the module that session_open() loaded, or "" */
	/* Private, of perf events. */
	struct perf_device_config perf;
	uint32_t command;
};

/*
 * Opens a session of a source, and loads the module if it is missing; `session` is all zero.
 * Returns 0 or a negative errno value of device_open(), module_load() or netlink_open(). The caller
 * calls session_close() in both cases.
 */
int session_open(struct session *session, enum session_source source, struct error *error);
void session_close(struct session *session);

/* Leaves the session in a forked process: see device_leave(). */
void session_leave(struct session *session);

/*
 * Configures the session and maps its rings. `child` is the process of COMMAND, which is sampled if
 * `config` has no other target; 0: none. Returns 0 or a negative errno value: -ESRCH when a process
 * or thread of `config` has exited, -EOPNOTSUPP when `config` needs unwind tables, and the module
 * does not support them. `config` must stay valid until session_close().
 */
int session_configure(struct session *session, const struct session_config *config, pid_t child,
		      struct error *error);

/* Sets an enum stackbeat_state. Returns 0 or a negative errno value. */
int session_set_state(struct session *session, uint32_t state, struct error *error);

/* Like netlink_get() and device_map(). */
int session_get(struct session *session, struct netlink_session *got, struct error *error);
int session_map(struct session *session, struct error *error);

#endif
