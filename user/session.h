/* SPDX-License-Identifier: GPL-2.0 */
/* A session of the module, opened and configured as `stackbeat record` was told. */
#ifndef STACKBEAT_SESSION_USER_H
#define STACKBEAT_SESSION_USER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "control.h"
#include "cpulist.h"

struct device;
struct error;
struct record_options;

struct session {
	struct device *device;
	struct control *control;
	bool restricted; /* the kernel lets this user see his own processes only */
	bool own_pids; /* process ids in the initial namespace are those of this process */
	uint32_t rate; /* Hz, as configured */
	uint32_t parts; /* STACKBEAT_PART_*: those that there are; as configured */
	struct cpulist cpulist;
	char cpus[STACKBEAT_CPULIST_MAX]; /* list, "": all */
	char loaded[PATH_MAX]; /* the module that was loaded for it, or "" */
};

/*
 * Opens a session; loads the module first where it is missing. Returns 0 or a
 * negative errno value as device_open(), module_load() and control_open() do.
 * session_close() is to be called in both cases.
 */
int session_open(struct session *session, struct error *error);
void session_close(struct session *session);

/*
 * Configures it, and maps its rings. `child` is the process of COMMAND, sampled
 * where the options name nothing else; 0: none. Returns 0 or a negative errno
 * value, -ESRCH when a process or thread of the options is gone.
 */
int session_configure(struct session *session, const struct record_options *options, pid_t child,
		      struct error *error);

/* Sets an enum stackbeat_state. Returns 0 or a negative errno value. */
int session_set_state(struct session *session, uint32_t state, struct error *error);

/* As control_get() and device_map(). */
int session_get(struct session *session, struct control_session *got, struct error *error);
int session_map(struct session *session, struct error *error);

#endif
