// SPDX-License-Identifier: GPL-2.0
#include "session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/error.h"
#include "session/cgroup.h"
#include "session/device.h"
#include "session/module.h"

int session_open(struct session *session, struct error *error)
{
	struct netlink_session *got;
	int err = device_open(&session->device, error);

	if (err == -ENOENT) {
		err = module_load(NULL, session->loaded, error);
		if (!err)
			err = device_open(&session->device, error);
	}
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

void session_close(struct session *session)
{
	netlink_close(session->control);
	device_close(session->device);
	session->control = NULL;
	session->device = NULL;
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
	if (!*config->cpus)
		return cpulist_default("", session->cpus, sizeof(session->cpus), &session->cpulist,
				       error);
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

static int send_settings(struct session *session, const struct session_config *config,
			 const struct netlink_settings *settings, struct error *error)
{
	int err = netlink_set(session->control, device_session(session->device), settings, error);

	if (err == -ESRCH && !explain_gone("-p", "process", config->pids, config->pid_count, error))
		explain_gone("-t", "thread", config->tids, config->tid_count, error);
	return err;
}

int session_configure(struct session *session, const struct session_config *config, pid_t child,
		      struct error *error)
{
	uint64_t cgroups[STACKBEAT_CGROUPS_MAX];
	uint32_t command = child;
	struct netlink_settings settings = {
		.set = NETLINK_SET(STACKBEAT_A_RATE) | NETLINK_SET(STACKBEAT_A_PARTS) |
		       NETLINK_SET(STACKBEAT_A_MAX_DEPTH) | NETLINK_SET(STACKBEAT_A_RING_SIZE) |
		       NETLINK_SET(STACKBEAT_A_CPUS) | NETLINK_SET(STACKBEAT_A_INHERIT) |
		       NETLINK_SET(STACKBEAT_A_NO_JITTER) | NETLINK_SET(STACKBEAT_A_BUDGET) |
		       NETLINK_SET(STACKBEAT_A_UNWIND_TABLES) |
		       NETLINK_SET(STACKBEAT_A_STACK_COPY) | NETLINK_SET(STACKBEAT_A_PIDS) |
		       NETLINK_SET(STACKBEAT_A_TIDS) | NETLINK_SET(STACKBEAT_A_CGROUPS) |
		       NETLINK_SET(STACKBEAT_A_EXCLUDE_COMMS),
		.parts = config->parts,
		.max_depth = config->max_depth,
		.ring_size = config->ring_size,
		.inherit = !config->no_inherit,
		.no_jitter = config->no_jitter,
		.budget = config->budget,
		.cpus = session->cpus,
		.pids = {config->pids, config->pid_count},
		.tids = {config->tids, config->tid_count},
		.cgroups = cgroups,
		.cgroup_count = config->cgroup_count,
		.excluded_comms = config->excluded_comms,
		.excluded_comm_count = config->excluded_comm_count,
	};
	int err = choose_rate(session, config, error);

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

	return netlink_set(session->control, device_session(session->device), &settings, error);
}

int session_get(struct session *session, struct netlink_session *got, struct error *error)
{
	return netlink_get(session->control, device_session(session->device), got, error);
}

int session_map(struct session *session, struct error *error)
{
	return device_map(session->device, &session->cpulist, error);
}
