/* SPDX-License-Identifier: GPL-2.0 */
/* The generic netlink family of the module, with libnl: settings, statistics, events. */
#ifndef STACKBEAT_SOURCE_NETLINK_H
#define STACKBEAT_SOURCE_NETLINK_H

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

/*
 * The numbers and flags that `struct session_config` (session_config.h) sends as they are, and that
 * a session is listed with: attribute, type, member, and default of the configuration.
 */
/* clang-format off */
#define SESSION_NUMBERS(ROW)                                                                       \
	ROW(PARTS, uint32_t, parts, STACKBEAT_PARTS_ALL) /* STACKBEAT_PART_* */                    \
	ROW(MAX_DEPTH, uint32_t, max_depth, STACKBEAT_USER_FRAMES_DEFAULT) /* user frames */       \
	ROW(RING_SIZE, uint32_t, ring_size, STACKBEAT_RING_SIZE_DEFAULT) /* bytes per CPU */       \
	ROW(BUDGET, uint32_t, budget, STACKBEAT_BUDGET_DEFAULT) /* thousandths of a CPU */         \
	ROW(NO_JITTER, bool, no_jitter, false)

/* These, and the others, whose values session_configure() chooses. */
#define NETLINK_NUMBERS(ROW)                                                                       \
	SESSION_NUMBERS(ROW)                                                                       \
	ROW(STATE, uint32_t, state, 0)                                                             \
	ROW(RATE, uint32_t, rate, 0) /* Hz */                                                      \
	ROW(WATERMARK, uint32_t, watermark, 0) /* bytes */                                         \
	ROW(STACK_COPY, uint32_t, stack_copy, 0) /* bytes */                                       \
	ROW(STACK_COPY_EVERY, uint32_t, stack_copy_every, 0) /* samples */                         \
	ROW(INHERIT, bool, inherit, 0)                                                             \
	ROW(UNWIND_TABLES, bool, unwind_tables, 0)                                                 \
	ROW(GOROUTINES, uint8_t, goroutines, 0) /* STACKBEAT_GOROUTINE_* */

#define NETLINK_MEMBER(attr, type, member, initial) type member;
/* clang-format on */

/* Settings of a session to change: the fields with their bit in `set`. */
struct netlink_settings {
	uint64_t set; /* NETLINK_SET() of each */
	NETLINK_NUMBERS(NETLINK_MEMBER)
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

/* A session. `unwind_tables`: they are used; before the first change: they can be used. */
struct netlink_session {
	uint32_t id;
	uint32_t owner; /* process id */
	bool restricted;
	NETLINK_NUMBERS(NETLINK_MEMBER)
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
