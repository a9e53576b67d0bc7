/* SPDX-License-Identifier: GPL-2.0 */
/* The module's generic netlink family, by libnl: settings and statistics. */
#ifndef STACKBEAT_SESSION_NETLINK_H
#define STACKBEAT_SESSION_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct netlink;
struct error;

/*
 * Connects to the module. Returns 0, to be closed with netlink_close() (which
 * takes NULL too), or a negative errno value: -ENOENT when the module is not
 * loaded.
 */
int netlink_open(struct netlink **control, struct error *error);
void netlink_close(struct netlink *control);

#define NETLINK_SET(attr) (UINT64_C(1) << (attr))

/* Ids of one kind, for a filter; none: every one. */
struct netlink_ids {
	const uint32_t *ids;
	size_t count;
};

/* What to change of a session; a field counts where its bit is set. */
struct netlink_settings {
	uint64_t set; /* NETLINK_SET() of each */
	uint32_t state;
	uint32_t rate; /* Hz */
	uint32_t parts; /* STACKBEAT_PART_* */
	uint32_t max_depth; /* user frames */
	uint32_t ring_size; /* bytes */
	uint32_t watermark; /* bytes */
	uint32_t budget; /* thousandths of a CPU */
	bool inherit;
	bool no_jitter;
	const char *cpus; /* list */
	struct netlink_ids pids;
	struct netlink_ids tids;
	const uint64_t *cgroups;
	size_t cgroup_count;
	char *const *excluded_comms;
	size_t excluded_comm_count;
};

/* Returns 0 or what STACKBEAT_CMD_SESSION_SET fails with, and the kernel's words for it. */
int netlink_set(struct netlink *control, uint32_t session, const struct netlink_settings *settings,
		struct error *error);

/* What a state (enum stackbeat_state) is called. */
const char *session_state_name(uint32_t state);

struct netlink_session {
	uint32_t id;
	uint32_t state;
	uint32_t rate; /* Hz */
	uint32_t parts;
	uint32_t max_depth;
	uint32_t ring_size;
	uint32_t watermark;
	uint32_t budget; /* thousandths of a CPU */
	uint32_t owner; /* process id */
	bool no_jitter;
	bool restricted;
	char owner_comm[16];
	char cpus[STACKBEAT_CPULIST_MAX];
	uint64_t stats[STACKBEAT_S_COUNT]; /* by enum stackbeat_stat */
};

/* One session. Returns 0 or a negative errno value; -ENODEV: there is none. */
int netlink_get(struct netlink *control, uint32_t id, struct netlink_session *session,
		struct error *error);

typedef int netlink_session_fn(const struct netlink_session *session, void *arg);

/* Calls `fn` for each open session until it returns other than 0. */
int netlink_list(struct netlink *control, netlink_session_fn *fn, void *arg, struct error *error);

/*
 * The session to act on: `id`, or, where it is 0, the only one that is open.
 * Returns 0; -ENODEV when none is open; -EINVAL when there are several.
 */
int netlink_select(struct netlink *control, uint32_t id, uint32_t *selected, struct error *error);

struct netlink_event {
	enum stackbeat_event event;
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	uint32_t session;
	uint32_t cpu;
	uint32_t rate; /* Hz */
	uint32_t state;
	uint64_t count;
	uint32_t owner;
	char owner_comm[16];
};

typedef int netlink_event_fn(const struct netlink_event *event, void *arg);

/*
 * Joins the multicast group of events and calls `fn` for each, until it returns
 * other than 0, which it returns then, or a signal comes (-EINTR). The control
 * is good for nothing else afterwards.
 */
int netlink_subscribe(struct netlink *control, netlink_event_fn *fn, void *arg,
		      struct error *error);

struct netlink_module {
	uint32_t abi;
	char version[64];
	uint32_t rate_max; /* Hz */
	uint32_t sessions;
};

int netlink_module(struct netlink *control, struct netlink_module *module, struct error *error);

#endif
