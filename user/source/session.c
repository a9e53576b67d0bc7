// SPDX-License-Identifier: GPL-2.0
#include "source/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "lib/error.h"
#include "source/cgroup.h"
#include "source/copy_size.h"
#include "source/device.h"
#include "source/module.h"

/* Bytes that perf events copy of each stack, unless a size is given; and a limit for that. */
#define PERF_COPY_MIN (8u << 10)
#define PERF_COPY_MAX (32u << 10)
#define PERF_COPY_LIMIT (60u << 10) /* a record has less than 64 KiB */
#define PERF_COPY_BYTES_PER_SECOND (UINT64_C(8) << 20) /* of a CPU */
/* Of a CPU whose stacks need them. */
#define PERF_COPY_BYTES_PER_SECOND_MAX (UINT64_C(32) << 20)
#define PERF_RING_MAX (8u << 20) /* bytes, unless more are asked for */

/*
 * *is_absent: there is no module for this kernel, or not for this user. An error of a module that
 * is there has a remedy of its own.
 */
static int open_device(struct session *session, bool *is_absent, struct error *error)
{
	int err = device_open(&session->device, error);

	*is_absent = err == -EACCES || err == -EPERM;
	if (err != -ENOENT)
		return err;
	err = module_load(NULL, session->loaded, error);
	*is_absent = err && err != -ENOMEM;
	return err ? err : device_open(&session->device, error);
}

static int open_module(struct session *session, bool *is_absent, struct error *error)
{
	struct netlink_session *got;
	int err = open_device(session, is_absent, error);

	if (!err)
		err = netlink_open(&session->control, error);
	if (err)
		return err;
	got = malloc(sizeof(*got));
	if (!got)
		return error_errno(error, ENOMEM, "can't open a session");
	err = session_get(session, got, error);
	session->restricted = !err && got->restricted;
	session->parts = err ? STACKBEAT_PARTS_ALL : got->parts;
	session->unwind_tables = !err && got->unwind_tables;
	session->same_pid_ns = !err && got->owner == (uint32_t)getpid();
	free(got);
	return err;
}

static int open_perf(struct session *session, struct error *error)
{
	session->device = perf_device_new();
	if (!session->device)
		return error_errno(error, ENOMEM, "can't open a session");
	session->is_perf = true;
	session->parts = STACKBEAT_PARTS_ALL;
	session->unwind_tables = true;
	session->same_pid_ns = true;
	return 0;
}

int session_open(struct session *session, enum session_source source, struct error *error)
{
	bool is_absent;
	int err;

	if (source == SOURCE_PERF)
		return open_perf(session, error);
	snprintf(session->source, sizeof(session->source), "kernel module");
	err = open_module(session, &is_absent, &session->module_problem);
	if (!err)
		return 0;
	if (source == SOURCE_AUTO && is_absent) {
		session_close(session);
		return open_perf(session, error);
	}
	*error = session->module_problem;
	return err;
}

static void session_end(struct session *session, void (*end)(struct device *device))
{
	netlink_close(session->control);
	end(session->device);
	session->control = NULL;
	session->device = NULL;
}

void session_close(struct session *session)
{
	session_end(session, device_close);
}

void session_leave(struct session *session)
{
	session_end(session, device_leave);
}

static uint32_t highest_rate(const struct session *session, const struct netlink_module *module)
{
	if (session->restricted && module->rate_max > STACKBEAT_RESTRICTED_RATE_MAX)
		return STACKBEAT_RESTRICTED_RATE_MAX;
	return module->rate_max;
}

static int choose_rate(struct session *session, const struct session_config *config,
		       struct error *error)
{
	struct netlink_module module;
	int err = netlink_module(session->control, &module, error);

	if (err)
		return err;
	session->rate = config->rate;
	if (!session->rate || (!config->rate_given && session->rate > module.rate_max))
		session->rate = highest_rate(session, &module);
	if (session->rate > module.rate_max)
		return error_set(error, ERANGE,
				 "-F %u: the module was loaded with rate_max=%u; try 'stackbeat "
				 "unload', then 'stackbeat load rate_max=%u'",
				 session->rate, module.rate_max, session->rate);
	return 0;
}

static int choose_cpus(struct session *session, const struct session_config *config,
		       struct error *error)
{
	if (!*config->cpus) {
		int err = cpulist_default("", session->cpus, sizeof(session->cpus),
					  &session->cpulist);

		return err ? error_set(error, -err, "all CPUs are isolated or nohz_full%s",
				       config->has_target_options ? "; select some with -C" : "")
			   : 0;
	}
	snprintf(session->cpus, sizeof(session->cpus), "%s", config->cpus);
	session->cpulist = config->cpulist;
	return 0;
}

/* Chooses how the user part is unwound: `parts` are the configured ones. */
static int choose_unwinding(struct session *session, const struct session_config *config,
			    struct netlink_settings *settings, struct error *error)
{
	if (config->unwind == UNWIND_TABLES && !session->unwind_tables)
		return error_set(error, EOPNOTSUPP,
				 "--unwind=tables: the module does not support unwind tables");
	if (config->unwind == UNWIND_FRAME_POINTERS || !(settings->parts & STACKBEAT_PART_USER))
		session->unwind_tables = false;
	if (config->verify && !session->unwind_tables)
		return error_set(error, EOPNOTSUPP,
				 "--verify: user stacks are not unwound by unwind tables");
	if (config->verify)
		settings->set |= NETLINK_SET(STACKBEAT_A_STACK_COPY_EVERY);
	settings->stack_copy_every = config->verify;
	if (config->goroutines && session->unwind_tables)
		settings->set |= NETLINK_SET(STACKBEAT_A_GOROUTINES);
	settings->goroutines = config->goroutines;
	settings->unwind_tables = session->unwind_tables;
	settings->stack_copy = session->unwind_tables ? config->stack_copy : 0;
	return 0;
}

static int find_cgroups(const struct session_config *config, uint64_t *cgroups, struct error *error)
{
	int err = 0;

	for (size_t i = 0; i < config->cgroup_count && !err; i++)
		err = cgroup_id_of(config->cgroups[i], &cgroups[i], error);
	return err;
}

/* Sets the message for the first of the ids that is missing. Returns 0 if none is. */
static int explain_gone(const char *option, const char *what, const uint32_t *ids, size_t count,
			struct error *error)
{
	char path[32];

	for (size_t i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "/proc/%u", ids[i]);
		if (access(path, F_OK))
			return error_set(error, ESRCH, "%s %u: there is no such %s", option, ids[i],
					 what);
	}
	return 0;
}

/* Perf events */

/* Returns the number in a file of /proc/sys/kernel, or `missing`. */
static long read_sysctl(const char *name, long missing)
{
	char path[64];
	FILE *file;
	char text[32];
	long value;

	snprintf(path, sizeof(path), "/proc/sys/kernel/%s", name);
	file = fopen(path, "re");
	if (!file)
		return missing;
	value = fgets(text, sizeof(text), file) ? strtol(text, NULL, 10) : missing;
	fclose(file);
	return value;
}

static int choose_perf_rate(struct session *session, const struct session_config *config,
			    struct error *error)
{
	const long limit = read_sysctl("perf_event_max_sample_rate", STACKBEAT_RATE_MAX);
	const uint32_t highest = (uint32_t)MAX(MIN(limit, (long)STACKBEAT_RATE_MAX), 1);

	session->rate = config->rate;
	if (!session->rate || (!config->rate_given && session->rate > highest))
		session->rate = highest;
	if (session->rate > highest)
		return error_set(error, ERANGE,
				 "-F %u: perf events are limited to %u: raise "
				 "kernel.perf_event_max_sample_rate",
				 session->rate, highest);
	return 0;
}

/*
 * Bytes that are copied of each stack: what a CPU may copy in a second, by the rate. A copy is the
 * most expensive part of a sample, and a stack that is deeper is cut.
 */
static uint32_t copy_size_by_rate(const struct session *session, uint64_t bytes_per_second)
{
	uint32_t size = PERF_COPY_MAX;

	while (size > PERF_COPY_MIN && (uint64_t)size * session->rate > bytes_per_second)
		size /= 2;
	return size;
}

static uint32_t choose_copy_size(const struct session *session, const struct session_config *config)
{
	if (config->unwind == UNWIND_FRAME_POINTERS || !(session->parts & STACKBEAT_PART_USER))
		return 0;
	if (config->stack_copy_given)
		return MIN(config->stack_copy, PERF_COPY_LIMIT);
	return copy_size_by_rate(session, PERF_COPY_BYTES_PER_SECOND);
}

/*
 * A ring has room for two seconds, in which the reader may wait for a CPU, or read the symbols of
 * the kernel.
 */
static uint32_t choose_ring_size(const struct session *session, const struct session_config *config)
{
	uint32_t size = config->ring_size;

	while (size < PERF_RING_MAX && size < UINT64_C(2) * session->stack_copy * session->rate)
		size *= 2;
	return size;
}

/* Sets the line about the source, and what the module has, but not this one. */
static void describe_perf(struct session *session)
{
	const bool no_kernel =
		session->perf.events.parts & STACKBEAT_PART_KERNEL && session->restricted;
	const int length = (int)strcspn(session->module_problem.text, ",;");
	char stacks[64] = "no user stacks", reason[200] = "";

	if (session->stack_copy && perf_events_are_adapted(perf_device_events(session->device)))
		snprintf(stacks, sizeof(stacks), "user stacks by copies of %u to %u KiB",
			 COPY_SIZE_MIN >> 10, session->stack_copy >> 10);
	else if (session->stack_copy)
		snprintf(stacks, sizeof(stacks), "user stacks by copies of %.4g KiB",
			 session->stack_copy / 1024.0);
	else if (session->parts & STACKBEAT_PART_USER)
		snprintf(stacks, sizeof(stacks), "user stacks by frame pointers");
	/* The first part of the message, without the remedy. */
	if (length)
		snprintf(reason, sizeof(reason), " (%.*s)", length, session->module_problem.text);
	snprintf(session->source, sizeof(session->source),
		 "perf events%s: %s, samples at equal intervals; no labels of goroutines, no "
		 "budget, "
		 "the kernel's cost is not measured%s",
		 reason, stacks,
		 no_kernel ? "; no samples of kernel mode, which needs root, CAP_PERFMON or "
			     "kernel.perf_event_paranoid below 2"
			   : "");
}

static int configure_perf(struct session *session, const struct session_config *config, pid_t child,
			  struct error *error)
{
	struct perf_events_config *events = &session->perf.events;
	int err = choose_perf_rate(session, config, error);

	if (!err && config->verify)
		err = error_set(error, EOPNOTSUPP, "--verify needs the module (--source=module)");
	if (!err)
		err = choose_cpus(session, config, error);
	if (err)
		return err;
	session->parts = config->parts;
	session->stack_copy = choose_copy_size(session, config);
	session->command = (uint32_t)child;
	session->perf = (struct perf_device_config){
		.events = {.pids = config->pids,
			   .pid_count = config->pid_count,
			   .tids = config->tids,
			   .tid_count = config->tid_count,
			   .cgroups = config->cgroups,
			   .cgroup_count = config->cgroup_count,
			   .cpus = &session->cpulist,
			   .period_ns = UINT64_C(1000000000) / session->rate,
			   .ring_size = choose_ring_size(session, config),
			   .stack_copy = session->stack_copy,
			   .stack_copy_given = config->stack_copy_given,
			   .stack_copy_max =
				   copy_size_by_rate(session, PERF_COPY_BYTES_PER_SECOND_MAX),
			   .parts = config->parts,
			   .has_target_options = config->has_target_options,
			   .has_command = config->has_command},
		.excluded_comms = config->excluded_comms,
		.excluded_comm_count = config->excluded_comm_count,
		.no_inherit = config->no_inherit,
		.max_depth = config->max_depth,
	};
	if (child && !config->system_wide && !events->pid_count && !events->tid_count &&
	    !events->cgroup_count) {
		events->pids = &session->command;
		events->pid_count = 1;
	}
	err = perf_device_configure(session->device, &session->perf, error);
	if (err)
		return err;
	session->restricted = perf_events_exclude_kernel(perf_device_events(session->device));
	if (session->restricted)
		session->parts &= ~STACKBEAT_PART_KERNEL;
	session->stack_copy = perf_events_stack_copy(perf_device_events(session->device));
	session->unwind_tables = session->stack_copy;
	describe_perf(session);
	return 0;
}

/* Adds to the message of perf events why the module is not the source. */
static int explain_no_source(const struct session *session, int err, struct error *error)
{
	const struct error problem = *error;

	if (!*session->module_problem.text || (err != -EPERM && err != -EACCES && err != -ENOSYS))
		return err;
	return error_set(error, -err, "%s; nor can the module be used: %s", problem.text,
			 session->module_problem.text);
}

/* The module */

static int send_settings(struct session *session, const struct session_config *config,
			 const struct netlink_settings *settings, struct error *error)
{
	int err = netlink_set(session->control, device_session(session->device), settings, error);

	if (err == -ESRCH && !explain_gone("-p", "process", config->pids, config->pid_count, error))
		explain_gone("-t", "thread", config->tids, config->tid_count, error);
	return err;
}

/* The bit of a number of the configuration, and its member in struct netlink_settings. */
#define SESSION_SET(attr, type, member, initial) | NETLINK_SET(STACKBEAT_A_##attr)
#define SESSION_VALUE(attr, type, member, initial) .member = config->member,

int session_configure(struct session *session, const struct session_config *config, pid_t child,
		      struct error *error)
{
	uint64_t cgroups[STACKBEAT_CGROUPS_MAX];
	uint32_t command = child;
	struct netlink_settings settings = {
		.set = NETLINK_SET(STACKBEAT_A_RATE) | NETLINK_SET(STACKBEAT_A_CPUS) |
		       NETLINK_SET(STACKBEAT_A_INHERIT) | NETLINK_SET(STACKBEAT_A_UNWIND_TABLES) |
		       NETLINK_SET(STACKBEAT_A_STACK_COPY) | NETLINK_SET(STACKBEAT_A_PIDS) |
		       NETLINK_SET(STACKBEAT_A_TIDS) | NETLINK_SET(STACKBEAT_A_CGROUPS) |
		       NETLINK_SET(STACKBEAT_A_EXCLUDE_COMMS) SESSION_NUMBERS(SESSION_SET),
		.inherit = !config->no_inherit,
		.cpus = session->cpus,
		.pids = {config->pids, config->pid_count},
		.tids = {config->tids, config->tid_count},
		.cgroups = cgroups,
		.cgroup_count = config->cgroup_count,
		.excluded_comms = config->excluded_comms,
		.excluded_comm_count = config->excluded_comm_count,
		SESSION_NUMBERS(SESSION_VALUE)};
	int err;

	if (session->is_perf) {
		err = configure_perf(session, config, child, error);
		return err ? explain_no_source(session, err, error) : 0;
	}
	err = choose_rate(session, config, error);
	if (!err)
		err = choose_cpus(session, config, error);
	if (!err)
		err = find_cgroups(config, cgroups, error);
	if (err)
		return err;
	settings.rate = session->rate;
	/* The default is all parts that are available. */
	if (settings.parts == STACKBEAT_PARTS_ALL)
		settings.parts = session->parts;
	if (settings.parts != config->parts && !session->restricted)
		fputs("stackbeat: the kernel is locked down: the user part alone is recorded\n",
		      stderr);
	session->parts = settings.parts;
	session->stack_copy = config->stack_copy;
	err = choose_unwinding(session, config, &settings, error);
	if (err)
		return err;
	if (child && !config->system_wide && !settings.pids.count && !settings.tids.count &&
	    !settings.cgroup_count)
		settings.pids = (struct netlink_ids){&command, 1};
	err = send_settings(session, config, &settings, error);
	return err ? err : session_map(session, error);
}

int session_set_state(struct session *session, uint32_t state, struct error *error)
{
	const struct netlink_settings settings = {
		.set = NETLINK_SET(STACKBEAT_A_STATE),
		.state = state,
	};

	if (session->is_perf)
		return perf_device_set_state(session->device, state, error);
	return netlink_set(session->control, device_session(session->device), &settings, error);
}

int session_get(struct session *session, struct netlink_session *got, struct error *error)
{
	if (session->is_perf) {
		perf_device_get(session->device, got);
		return 0;
	}
	return netlink_get(session->control, device_session(session->device), got, error);
}

int session_map(struct session *session, struct error *error)
{
	return device_map(session->device, &session->cpulist, error);
}
