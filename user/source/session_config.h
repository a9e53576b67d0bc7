/* SPDX-License-Identifier: GPL-2.0 */
/* The settings of a session from the command line. */
#ifndef STACKBEAT_SOURCE_SESSION_CONFIG_H
#define STACKBEAT_SOURCE_SESSION_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "source/cpulist.h"
#include "source/netlink.h"

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

/* The struct does not own the strings. */
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
	SESSION_NUMBERS(NETLINK_MEMBER)
	enum unwind_method unwind;
	uint32_t stack_copy; /* bytes of the stack, see STACKBEAT_A_STACK_COPY; 0: none */
	bool stack_copy_given; /* else perf events take a size by the rate */
	uint32_t verify; /* see STACKBEAT_A_STACK_COPY_EVERY; 0: no sample is unwound again */
	uint8_t goroutines; /* STACKBEAT_GOROUTINE_*, see STACKBEAT_A_GOROUTINES */
	bool no_inherit;
	bool system_wide; /* -a, or -C without another target */
	/* For remedies in messages: */
	bool has_target_options; /* the subcommand has -p and -C */
	bool has_command; /* it runs a COMMAND */
};

#define STACK_COPY_DEFAULT (8u << 10) /* bytes */

/* Sets the defaults of `stackbeat record`. */
void session_config_init(struct session_config *config);

#endif
