/* SPDX-License-Identifier: GPL-2.0 */
/* The generic netlink family of the module, with libnl: settings, statistics, events. */
#ifndef STACKBEAT_SESSION_NETLINK_H
#define STACKBEAT_SESSION_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct netlink;
struct error;

/*
 * Connects to the module. Returns 0 and sets *netlink, which the caller closes with netlink_close()
 * (it accepts NULL); or a negative errno value: -ENOENT when the module is not loaded.
 */
int netlink_open(struct netlink **netlink, struct error *error);
void netlink_close(struct netlink *netlink);

/* The bit of an attribute in the `set` of struct netlink_settings. */
#define NETLINK_SET(attr) (UINT64_C(1) << (attr))

/* Process or thread ids of a filter; none: no filter. */
struct netlink_ids {
	const uint32_t *ids;
	size_t count;
};

/* Settings of a session to change: the fields with their bit in `set`. */
struct netlink_settings {
	uint64_t set; /* NETLINK_SET() of each */
	uint32_t state;
	uint32_t rate; /* Hz */
	uint32_t parts; /* STACKBEAT_PART_* */
	uint32_t max_depth; /* user frames */
	uint32_t ring_size; /* bytes */
	uint32_t watermark; /* bytes */
	uint32_t budget; /* thousandths of a CPU */
	uint32_t stack_copy; /* bytes */
	uint32_t stack_copy_every; /* samples */
	bool inherit;
	bool no_jitter;
	bool unwind_tables;
	uint8_t goroutines; /* STACKBEAT_GOROUTINE_* */
	const char *cpus; /* list */
	struct netlink_ids pids;
	struct netlink_ids tids;
	const uint64_t *cgroups;
	size_t cgroup_count;
	char *const *excluded_comms;
	size_t excluded_comm_count;
};

/*
 * Changes the settings of a session. Returns 0 or the negative errno value of
 * STACKBEAT_CMD_SESSION_SET, with the kernel's message.
 */
int netlink_set(struct netlink *netlink, uint32_t session, const struct netlink_settings *settings,
		struct error *error);

/* Returns the name of a state (enum stackbeat_state); "?" if it is unknown. */
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
	uint32_t stack_copy; /* bytes */
	uint32_t stack_copy_every; /* samples */
	uint32_t owner; /* process id */
	bool no_jitter;
	uint8_t goroutines; /* STACKBEAT_GOROUTINE_* */
	bool unwind_tables; /* they are used; before the first change: they can be used */
	bool restricted;
	char owner_comm[16];
	char cpus[STACKBEAT_CPULIST_MAX];
	uint64_t stats[STACKBEAT_S_COUNT]; /* by enum stackbeat_stat */
};

/* Gets a session by its id. Returns 0 or a negative errno value: -ENODEV when there is none. */
int netlink_get(struct netlink *netlink, uint32_t id, struct netlink_session *session,
		struct error *error);

typedef int netlink_session_fn(const struct netlink_session *session, void *arg);

/*
 * Calls `fn` for each open session until it returns a value other than 0. Returns that value, 0, or
 * a negative errno value.
 */
int netlink_list(struct netlink *netlink, netlink_session_fn *fn, void *arg, struct error *error);

/*
 * Selects a session: `id`, or the only open session if `id` is 0. Returns 0; -ENODEV when no
 * session is open; -EINVAL when several are; or another negative errno value.
 */
int netlink_select(struct netlink *netlink, uint32_t id, uint32_t *selected, struct error *error);

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
 * Joins the multicast group of events and calls `fn` for each event until it returns a value other
 * than 0. Returns that value, -EINTR after a signal, or another negative errno value: -ENOBUFS when
 * events were lost. The connection can't be used for anything else afterwards.
 */
int netlink_subscribe(struct netlink *netlink, netlink_event_fn *fn, void *arg,
		      struct error *error);

struct netlink_module {
	uint32_t abi;
	char version[64];
	uint32_t rate_max; /* Hz */
	uint32_t sessions;
};

/* Gets the properties of the module. Returns 0 or a negative errno value. */
int netlink_module(struct netlink *netlink, struct netlink_module *module, struct error *error);

#endif
