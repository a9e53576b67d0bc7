/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A session of a source of samples, the module or perf events: opens it, and configures it for
 * `stackbeat record`. What reads its samples does not know the source.
 */
#ifndef STACKBEAT_SESSION_SESSION_H
#define STACKBEAT_SESSION_SESSION_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <stackbeat.h>

#include "lib/error.h"
#include "session/cpulist.h"
#include "session/netlink.h"
#include "session/perf_device.h"

struct device;

/* How the user part of stacks is unwound. */
enum unwind_method {
	UNWIND_AUTO, /* by unwind tables if the module supports them, else by frame pointers */
	UNWIND_TABLES,
	UNWIND_FRAME_POINTERS,
};

/* Where samples come from. */
enum session_source {
	SOURCE_AUTO, /* the module if it can be used, else perf events */
	SOURCE_MODULE,
	SOURCE_PERF, /* perf_event_open(2) */
};

/* The settings of a session from the command line. The struct does not own the strings. */
struct session_config {
	enum session_source source;
	uint32_t rate; /* Hz; 0: the highest that the module allows */
	bool rate_given;
	uint32_t pids[STACKBEAT_PIDS_MAX];
	size_t pid_count;
	uint32_t tids[STACKBEAT_PIDS_MAX];
	size_t tid_count;
	const char *cgroups[STACKBEAT_CGROUPS_MAX]; /* paths as in cgroup_id_of() */
	size_t cgroup_count;
	char *excluded_comms[STACKBEAT_COMMS_MAX];
	size_t excluded_comm_count;
	const char *cpus; /* `cpulist` as a string, "": all */
	struct cpulist cpulist;
	uint32_t parts; /* STACKBEAT_PART_* */
	uint32_t max_depth; /* user frames */
	uint32_t ring_size; /* bytes per CPU */
	uint32_t budget; /* thousandths of a CPU */
	enum unwind_method unwind;
	uint32_t stack_copy; /* bytes of the stack, see STACKBEAT_A_STACK_COPY; 0: none */
	bool stack_copy_given; /* else perf events take a size by the rate */
	uint32_t verify; /* see STACKBEAT_A_STACK_COPY_EVERY; 0: no sample is unwound again */
	uint8_t goroutines; /* STACKBEAT_GOROUTINE_*, see STACKBEAT_A_GOROUTINES */
	bool no_jitter;
	bool no_inherit;
	bool system_wide; /* -a */
};

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
