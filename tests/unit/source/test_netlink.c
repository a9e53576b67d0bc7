// SPDX-License-Identifier: GPL-2.0
/* Messages to and from the module. Functions in the place of libnl's play the kernel's side. */
#include "unit.h"

#include <errno.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"
#include "source/netlink.h"

#define FAMILY 77
#define GROUP 5
#define ANSWERS_MAX 4
#define ATTRS_MAX 64

/* What the kernel has received, and what it answers. */
static struct {
	int connect_err, family, group, send_err;
	struct nl_msg *received;
	struct nl_msg *answers[ANSWERS_MAX]; /* one for each nl_recvmsgs() */
	size_t answer_count, answered;
	int receive_err; /* after the answers */
	const void *error; /* an error message, after the answers */
	nl_recvmsg_msg_cb_t callbacks[NL_CB_TYPE_MAX + 1];
	void *args[NL_CB_TYPE_MAX + 1];
	nl_recvmsg_err_cb_t on_error;
	void *error_arg;
	int membership;
} kernel;

static struct netlink *netlink;
static struct error error;

int genl_connect(struct nl_sock *socket)
{
	(void)socket;
	return kernel.connect_err;
}

int genl_ctrl_resolve(struct nl_sock *socket, const char *name)
{
	(void)socket;
	assert_string_equal(name, STACKBEAT_GENL_NAME);
	return kernel.family;
}

int genl_ctrl_resolve_grp(struct nl_sock *socket, const char *family, const char *group)
{
	(void)socket;
	assert_string_equal(family, STACKBEAT_GENL_NAME);
	assert_string_equal(group, STACKBEAT_GENL_EVENTS);
	return kernel.group;
}

int nl_socket_add_membership(struct nl_sock *socket, int group)
{
	(void)socket;
	kernel.membership = group;
	return 0;
}

int nl_send_auto(struct nl_sock *socket, struct nl_msg *message)
{
	(void)socket;
	if (kernel.received)
		nlmsg_free(kernel.received);
	kernel.received = nlmsg_convert(nlmsg_hdr(message));
	return kernel.send_err ? kernel.send_err : (int)nlmsg_hdr(message)->nlmsg_len;
}

int nl_cb_set(struct nl_cb *callbacks, enum nl_cb_type type, enum nl_cb_kind kind,
	      nl_recvmsg_msg_cb_t callback, void *arg)
{
	(void)callbacks;
	/* libnl itself sets the default ones. */
	if (kind != NL_CB_CUSTOM)
		return 0;
	kernel.callbacks[type] = callback;
	kernel.args[type] = arg;
	return 0;
}

int nl_cb_err(struct nl_cb *callbacks, enum nl_cb_kind kind, nl_recvmsg_err_cb_t callback,
	      void *arg)
{
	(void)callbacks;
	if (kind != NL_CB_CUSTOM)
		return 0;
	kernel.on_error = callback;
	kernel.error_arg = arg;
	return 0;
}

int nl_socket_modify_cb(struct nl_sock *socket, enum nl_cb_type type, enum nl_cb_kind kind,
			nl_recvmsg_msg_cb_t callback, void *arg)
{
	(void)socket;
	return nl_cb_set(NULL, type, kind, callback, arg);
}

int nl_recvmsgs(struct nl_sock *socket, struct nl_cb *callbacks)
{
	struct sockaddr_nl peer = {0};

	(void)socket, (void)callbacks;
	if (kernel.answered < kernel.answer_count) {
		struct nl_msg *answer = kernel.answers[kernel.answered++];

		kernel.callbacks[NL_CB_VALID](answer, kernel.args[NL_CB_VALID]);
		return 0;
	}
	if (kernel.error) {
		struct nlmsghdr *header = (void *)kernel.error;

		kernel.on_error(&peer, NLMSG_DATA(header), kernel.error_arg);
		return 0;
	}
	if (kernel.receive_err)
		return kernel.receive_err;
	/* An event stream does not end by itself. */
	assert_non_null(kernel.callbacks[NL_CB_ACK]);
	kernel.callbacks[NL_CB_ACK](NULL, kernel.args[NL_CB_ACK]);
	return 0;
}

int nl_recvmsgs_default(struct nl_sock *socket)
{
	return nl_recvmsgs(socket, NULL);
}

static int setup(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	kernel.family = FAMILY;
	kernel.group = GROUP;
	*error.text = '\0';
	return netlink_open(&netlink, &error);
}

static int teardown(void **state)
{
	(void)state;
	if (kernel.received)
		nlmsg_free(kernel.received);
	for (size_t i = 0; i < kernel.answer_count; i++)
		nlmsg_free(kernel.answers[i]);
	netlink_close(netlink);
	return 0;
}

static struct nl_msg *add_answer(int family, int command)
{
	struct nl_msg *message = nlmsg_alloc();

	assert_non_null(message);
	assert_non_null(genlmsg_put(message, 0, 0, family, 0, 0, (uint8_t)command, 1));
	assert_true(kernel.answer_count < ANSWERS_MAX);
	kernel.answers[kernel.answer_count++] = message;
	return message;
}

/* Parses the received request. */
static void read_request(int command, int flags, struct nlattr **attrs)
{
	struct nlmsghdr *header = nlmsg_hdr(kernel.received);

	assert_int_equal(header->nlmsg_type, FAMILY);
	assert_int_equal(header->nlmsg_flags & (NLM_F_ACK | NLM_F_DUMP), flags);
	assert_int_equal(genlmsg_hdr(header)->cmd, command);
	assert_int_equal(genlmsg_hdr(header)->version, STACKBEAT_GENL_VERSION);
	assert_int_equal(genlmsg_parse(header, 0, attrs, ATTRS_MAX - 1, NULL), 0);
}

static size_t attr_count(struct nlattr **attrs)
{
	size_t count = 0;

	for (size_t i = 0; i < ATTRS_MAX; i++)
		count += !!attrs[i];
	return count;
}

static void failure_to_open_is_explained(void **state)
{
	struct netlink *other = NULL;

	(void)state;
	kernel.connect_err = -NLE_NOACCESS;
	assert_int_equal(netlink_open(&other, &error), -EIO);
	assert_non_null(strstr(error.text, "can't open a netlink socket: "));
	kernel.connect_err = 0;
	kernel.family = -NLE_OBJ_NOTFOUND;
	assert_int_equal(netlink_open(&other, &error), -ENOENT);
	assert_string_equal(error.text, "the module is not loaded; 'stackbeat load' loads it; "
					"recordings by perf events have no sessions to show or "
					"change");
	assert_null(other);
	kernel.family = 0;
	assert_int_equal(netlink_open(&other, &error), 0);
	netlink_close(other);
	netlink_close(NULL);
}

static void all_settings_are_sent(void **state)
{
	static const uint32_t pids[] = {1, 2, 3}, tids[] = {4};
	static const uint64_t cgroups[] = {0x100000005, 6};
	static char *const comms[] = {"a", "b"};
	const struct netlink_settings settings = {
		.set = UINT64_MAX,
		.state = STACKBEAT_STATE_RUNNING,
		.rate = 101,
		.parts = 3,
		.max_depth = 103,
		.ring_size = 104,
		.watermark = 105,
		.budget = 106,
		.stack_copy = 4096,
		.stack_copy_every = 107,
		.inherit = true,
		.no_jitter = false,
		.unwind_tables = true,
		.goroutines = STACKBEAT_GOROUTINE_ALL,
		.cpus = "0-3",
		.pids = {pids, 3},
		.tids = {tids, 1},
		.cgroups = cgroups,
		.cgroup_count = 2,
		.excluded_comms = comms,
		.excluded_comm_count = 2,
	};
	struct nlattr *attrs[ATTRS_MAX], *attr;
	int left;
	uint32_t i = 0;

	(void)state;
	assert_int_equal(netlink_set(netlink, 9, &settings, &error), 0);
	read_request(STACKBEAT_CMD_SESSION_SET, NLM_F_ACK, attrs);
	assert_int_equal(attr_count(attrs), 19);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_SESSION]), 9);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_STATE]), STACKBEAT_STATE_RUNNING);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_RATE]), 101);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_PARTS]), 3);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_MAX_DEPTH]), 103);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_RING_SIZE]), 104);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_WATERMARK]), 105);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_BUDGET]), 106);
	assert_int_equal(nla_get_u8(attrs[STACKBEAT_A_INHERIT]), 1);
	assert_int_equal(nla_get_u8(attrs[STACKBEAT_A_NO_JITTER]), 0);
	assert_int_equal(nla_get_u8(attrs[STACKBEAT_A_UNWIND_TABLES]), 1);
	assert_int_equal(nla_get_u8(attrs[STACKBEAT_A_GOROUTINES]), STACKBEAT_GOROUTINE_ALL);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_STACK_COPY]), 4096);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_STACK_COPY_EVERY]), 107);
	assert_string_equal(nla_get_string(attrs[STACKBEAT_A_CPUS]), "0-3");
	for (attr = nla_data(attrs[STACKBEAT_A_PIDS]), left = nla_len(attrs[STACKBEAT_A_PIDS]);
	     nla_ok(attr, left); attr = nla_next(attr, &left))
		assert_int_equal(nla_get_u32(attr), pids[i++]);
	assert_int_equal(i, 3);
	for (attr = nla_data(attrs[STACKBEAT_A_TIDS]), left = nla_len(attrs[STACKBEAT_A_TIDS]);
	     nla_ok(attr, left); attr = nla_next(attr, &left))
		assert_int_equal(nla_get_u32(attr), tids[i++ - 3]);
	assert_int_equal(i, 4);
	for (attr = nla_data(attrs[STACKBEAT_A_CGROUPS]),
	    left = nla_len(attrs[STACKBEAT_A_CGROUPS]);
	     nla_ok(attr, left); attr = nla_next(attr, &left))
		assert_int_equal(nla_get_u64(attr), cgroups[i++ - 4]);
	assert_int_equal(i, 6);
	for (attr = nla_data(attrs[STACKBEAT_A_EXCLUDE_COMMS]),
	    left = nla_len(attrs[STACKBEAT_A_EXCLUDE_COMMS]);
	     nla_ok(attr, left); attr = nla_next(attr, &left))
		assert_string_equal(nla_get_string(attr), comms[i++ - 6]);
	assert_int_equal(i, 8);
}

static void only_selected_settings_are_sent(void **state)
{
	static const enum stackbeat_attr attrs_of_settings[] = {
		STACKBEAT_A_STATE,     STACKBEAT_A_RATE,          STACKBEAT_A_PARTS,
		STACKBEAT_A_MAX_DEPTH, STACKBEAT_A_RING_SIZE,     STACKBEAT_A_WATERMARK,
		STACKBEAT_A_BUDGET,    STACKBEAT_A_INHERIT,       STACKBEAT_A_NO_JITTER,
		STACKBEAT_A_CPUS,      STACKBEAT_A_PIDS,          STACKBEAT_A_TIDS,
		STACKBEAT_A_CGROUPS,   STACKBEAT_A_EXCLUDE_COMMS,
	};
	struct netlink_settings settings = {.cpus = ""};
	struct nlattr *attrs[ATTRS_MAX];

	(void)state;
	assert_int_equal(netlink_set(netlink, 9, &settings, &error), 0);
	read_request(STACKBEAT_CMD_SESSION_SET, NLM_F_ACK, attrs);
	assert_int_equal(attr_count(attrs), 1);
	/* A filter without entries is sent, too. */
	for (size_t i = 0; i < sizeof(attrs_of_settings) / sizeof(attrs_of_settings[0]); i++) {
		settings.set = NETLINK_SET(attrs_of_settings[i]);
		assert_int_equal(netlink_set(netlink, 9, &settings, &error), 0);
		read_request(STACKBEAT_CMD_SESSION_SET, NLM_F_ACK, attrs);
		assert_int_equal(attr_count(attrs), 2);
		assert_non_null(attrs[attrs_of_settings[i]]);
	}
}

/* Settings that do not fit into a message. */
static void too_many_settings_are_refused(void **state)
{
	enum { COUNT = 20000 };
	uint32_t *ids = calloc(COUNT, sizeof(*ids));
	uint64_t *cgroups = calloc(COUNT, sizeof(*cgroups));
	char **comms = calloc(COUNT, sizeof(*comms));
	char *cpus = calloc(1, 70000);
	struct netlink_settings settings = {
		.cpus = cpus,
		.pids = {ids, COUNT},
		.tids = {ids, COUNT},
		.cgroups = cgroups,
		.cgroup_count = COUNT,
		.excluded_comms = comms,
		.excluded_comm_count = COUNT,
	};
	static const enum stackbeat_attr attrs[] = {STACKBEAT_A_PIDS, STACKBEAT_A_TIDS,
						    STACKBEAT_A_CGROUPS, STACKBEAT_A_EXCLUDE_COMMS,
						    STACKBEAT_A_CPUS};

	(void)state;
	assert_true(ids && cgroups && comms && cpus);
	memset(cpus, '1', 69999);
	for (size_t i = 0; i < COUNT; i++)
		comms[i] = "name";
	for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		settings.set = NETLINK_SET(attrs[i]);
		assert_int_equal(netlink_set(netlink, 9, &settings, &error), -ENOMEM);
		assert_null(kernel.received);
	}
	free(ids);
	free(cgroups);
	free(comms);
	free(cpus);
}

/* The kernel's answer with an error: the request follows if it is not capped, then attributes. */
struct answer {
	struct nlmsghdr header;
	struct nlmsgerr error;
	char rest[256];
};

static void make_error(struct answer *answer, int flags, size_t request_size, const char *text)
{
	size_t used = flags & NLM_F_CAPPED ? 0 : NLMSG_ALIGN(request_size);
	struct nlattr *attr = (void *)(answer->rest + used);

	memset(answer, 0, sizeof(*answer));
	answer->header.nlmsg_flags = (uint16_t)flags;
	answer->error.error = -EBUSY;
	answer->error.msg.nlmsg_len = (uint32_t)(NLMSG_HDRLEN + request_size);
	if (text) {
		attr->nla_type = NLMSGERR_ATTR_MSG;
		attr->nla_len = (uint16_t)(NLA_HDRLEN + strlen(text) + 1);
		strcpy((char *)attr + NLA_HDRLEN, text);
		used += NLA_ALIGN(attr->nla_len);
	}
	answer->header.nlmsg_len = (uint32_t)(NLMSG_HDRLEN + sizeof(answer->error) + used);
	kernel.error = answer;
}

static void assert_refused(const char *text)
{
	const struct netlink_settings settings = {0};

	assert_int_equal(netlink_set(netlink, 9, &settings, &error), -EBUSY);
	assert_string_equal(error.text, text);
}

static void message_of_the_kernel_is_shown(void **state)
{
	static const char plain[] = "can't configure the session: Device or resource busy";
	struct answer answer = {0};

	(void)state;
	make_error(&answer, NLM_F_ACK_TLVS | NLM_F_CAPPED, 16, "no room");
	assert_refused("can't configure the session: no room");
	make_error(&answer, NLM_F_ACK_TLVS, 16, "no room");
	assert_refused("can't configure the session: no room");
	make_error(&answer, NLM_F_ACK_TLVS, 24, "longer");
	assert_refused("can't configure the session: longer");
	make_error(&answer, NLM_F_ACK_TLVS, 13, "odd");
	assert_refused("can't configure the session: odd");
	make_error(&answer, NLM_F_ACK_TLVS, 16, "");
	assert_refused(plain);
	make_error(&answer, NLM_F_ACK_TLVS | NLM_F_CAPPED, 16, NULL);
	assert_refused(plain);
	make_error(&answer, NLM_F_CAPPED, 16, "no room");
	assert_refused(plain);
	/* The attributes are beyond the end. */
	make_error(&answer, NLM_F_ACK_TLVS, 16, "no room");
	answer.error.msg.nlmsg_len = 4096;
	assert_refused(plain);
}

static void errors_of_the_socket_are_shown(void **state)
{
	const struct netlink_settings settings = {0};

	(void)state;
	kernel.send_err = -NLE_BAD_SOCK;
	assert_int_equal(netlink_set(netlink, 9, &settings, &error), -EIO);
	assert_non_null(strstr(error.text, "can't configure the session: "));
	kernel.send_err = 0;
	kernel.receive_err = -NLE_NOMEM;
	assert_int_equal(netlink_set(netlink, 9, &settings, &error), -EIO);
	assert_non_null(strstr(error.text, "can't configure the session: "));
}

static void add_session(uint32_t id)
{
	struct nl_msg *message = add_answer(FAMILY, STACKBEAT_CMD_SESSION_GET);
	struct nlattr *nest;

	nla_put_u32(message, STACKBEAT_A_SESSION, id);
	nla_put_u32(message, STACKBEAT_A_STATE, STACKBEAT_STATE_PAUSED);
	nla_put_u32(message, STACKBEAT_A_RATE, 201);
	nla_put_u32(message, STACKBEAT_A_PARTS, 202);
	nla_put_u32(message, STACKBEAT_A_MAX_DEPTH, 203);
	nla_put_u32(message, STACKBEAT_A_RING_SIZE, 204);
	nla_put_u32(message, STACKBEAT_A_WATERMARK, 205);
	nla_put_u32(message, STACKBEAT_A_BUDGET, 206);
	nla_put_u8(message, STACKBEAT_A_NO_JITTER, 1);
	nla_put_u8(message, STACKBEAT_A_RESTRICTED, 0);
	nla_put_u8(message, STACKBEAT_A_UNWIND_TABLES, 1);
	nla_put_u32(message, STACKBEAT_A_STACK_COPY, 208);
	nla_put_u32(message, STACKBEAT_A_STACK_COPY_EVERY, 209);
	nla_put_u32(message, STACKBEAT_A_OWNER, 207);
	nla_put_string(message, STACKBEAT_A_OWNER_COMM, "a\033b");
	nla_put_string(message, STACKBEAT_A_CPUS, "1-2");
	nest = nla_nest_start(message, STACKBEAT_A_STATS);
	nla_put_u64(message, STACKBEAT_S_TICKS, 301);
	nla_put_u64(message, STACKBEAT_S_COUNT - 1, UINT64_MAX);
	nla_put_u32(message, STACKBEAT_S_TICKS + 1, 302);
	nla_nest_end(message, nest);
}

static void all_of_a_session_is_read(void **state)
{
	struct netlink_session session;
	struct nlattr *attrs[ATTRS_MAX];

	(void)state;
	memset(&session, 0xff, sizeof(session));
	add_session(8);
	assert_int_equal(netlink_get(netlink, 8, &session, &error), 0);
	read_request(STACKBEAT_CMD_SESSION_GET, NLM_F_ACK, attrs);
	assert_int_equal(attr_count(attrs), 1);
	assert_int_equal(nla_get_u32(attrs[STACKBEAT_A_SESSION]), 8);
	assert_int_equal(session.id, 8);
	assert_int_equal(session.state, STACKBEAT_STATE_PAUSED);
	assert_int_equal(session.rate, 201);
	assert_int_equal(session.parts, 202);
	assert_int_equal(session.max_depth, 203);
	assert_int_equal(session.ring_size, 204);
	assert_int_equal(session.watermark, 205);
	assert_int_equal(session.budget, 206);
	assert_true(session.no_jitter);
	assert_false(session.restricted);
	assert_true(session.unwind_tables);
	assert_int_equal(session.stack_copy, 208);
	assert_int_equal(session.stack_copy_every, 209);
	assert_int_equal(session.owner, 207);
	assert_string_equal(session.owner_comm, "a?b");
	assert_string_equal(session.cpus, "1-2");
	assert_int_equal(session.stats[STACKBEAT_S_TICKS], 301);
	assert_int_equal(session.stats[STACKBEAT_S_COUNT - 1], UINT64_MAX);
	/* Too short for its type. */
	assert_int_equal(session.stats[STACKBEAT_S_TICKS + 1], 0);
}

static void missing_and_short_attributes_are_zero(void **state)
{
	struct netlink_session session;
	struct nl_msg *message;

	(void)state;
	add_answer(FAMILY, STACKBEAT_CMD_SESSION_GET);
	assert_int_equal(netlink_get(netlink, 8, &session, &error), 0);
	assert_int_equal(session.id, 0);
	assert_false(session.no_jitter);
	assert_false(session.unwind_tables);
	assert_string_equal(session.owner_comm, "");
	assert_string_equal(session.cpus, "?");
	message = add_answer(FAMILY, STACKBEAT_CMD_SESSION_GET);
	nla_put_u16(message, STACKBEAT_A_RATE, 7);
	nla_put_u8(message, STACKBEAT_A_NO_JITTER, 0);
	nla_put(message, STACKBEAT_A_RESTRICTED, 0, NULL);
	assert_int_equal(netlink_get(netlink, 8, &session, &error), 0);
	assert_int_equal(session.rate, 0);
	assert_false(session.no_jitter);
	assert_false(session.restricted);
	/* No answer at all. */
	memset(&session, 0xff, sizeof(session));
	assert_int_equal(netlink_get(netlink, 8, &session, &error), 0);
	assert_int_equal(session.id, 0);
}

static int note_id(const struct netlink_session *session, void *arg)
{
	uint32_t *ids = arg;

	*ids = *ids * 10 + session->id;
	return session->id == 3 ? -ECANCELED : 0;
}

static void sessions_are_listed(void **state)
{
	struct nlattr *attrs[ATTRS_MAX];
	uint32_t ids = 0;

	(void)state;
	add_session(1);
	add_session(2);
	assert_int_equal(netlink_list(netlink, note_id, &ids, &error), 0);
	read_request(STACKBEAT_CMD_SESSION_GET, NLM_F_DUMP, attrs);
	assert_int_equal(attr_count(attrs), 0);
	assert_int_equal(ids, 12);
	add_session(3);
	add_session(4);
	ids = 0;
	assert_int_equal(netlink_list(netlink, note_id, &ids, &error), -ECANCELED);
	assert_int_equal(ids, 3);
	kernel.receive_err = -NLE_NOMEM;
	assert_int_equal(netlink_list(netlink, note_id, &ids, &error), -EIO);
}

static void only_session_is_selected(void **state)
{
	uint32_t selected = 0;

	(void)state;
	assert_int_equal(netlink_select(netlink, 7, &selected, &error), 0);
	assert_int_equal(selected, 7);
	assert_null(kernel.received);
	assert_int_equal(netlink_select(netlink, 0, &selected, &error), -ENODEV);
	add_session(6);
	assert_int_equal(netlink_select(netlink, 0, &selected, &error), 0);
	assert_int_equal(selected, 6);
	add_session(1);
	add_session(2);
	assert_int_equal(netlink_select(netlink, 0, &selected, &error), -EINVAL);
	assert_non_null(strstr(error.text, "2 sessions are open"));
	kernel.receive_err = -NLE_NOMEM;
	assert_int_equal(netlink_select(netlink, 0, &selected, &error), -EIO);
}

struct events {
	struct netlink_event last;
	size_t count, wanted;
};

static int note_event(const struct netlink_event *event, void *arg)
{
	struct events *events = arg;

	events->last = *event;
	return ++events->count == events->wanted ? -ECANCELED : 0;
}

static void events_are_followed(void **state)
{
	struct events events = {.wanted = 2};
	struct nl_msg *message;

	(void)state;
	add_answer(FAMILY + 1, STACKBEAT_CMD_EVENT);
	add_answer(FAMILY, STACKBEAT_CMD_SESSION_GET);
	add_answer(FAMILY, STACKBEAT_CMD_EVENT);
	message = add_answer(FAMILY, STACKBEAT_CMD_EVENT);
	nla_put_u32(message, STACKBEAT_A_EVENT, 1);
	nla_put_u64(message, STACKBEAT_A_TIME, 0x200000001);
	nla_put_u32(message, STACKBEAT_A_SESSION, 11);
	nla_put_u32(message, STACKBEAT_A_CPU, 12);
	nla_put_u32(message, STACKBEAT_A_RATE, 13);
	nla_put_u32(message, STACKBEAT_A_STATE, 14);
	nla_put_u64(message, STACKBEAT_A_LOST_SAMPLES, 0x300000001);
	nla_put_u32(message, STACKBEAT_A_OWNER, 15);
	nla_put_string(message, STACKBEAT_A_OWNER_COMM, "x\x7f");
	assert_int_equal(netlink_subscribe(netlink, note_event, &events, &error), -ECANCELED);
	assert_int_equal(kernel.membership, GROUP);
	assert_int_equal(kernel.answered, 4);
	assert_int_equal(events.count, 2);
	assert_int_equal(events.last.event, 1);
	assert_int_equal(events.last.time, 0x200000001);
	assert_int_equal(events.last.session, 11);
	assert_int_equal(events.last.cpu, 12);
	assert_int_equal(events.last.rate, 13);
	assert_int_equal(events.last.state, 14);
	assert_int_equal(events.last.count, 0x300000001);
	assert_int_equal(events.last.owner, 15);
	assert_string_equal(events.last.owner_comm, "x?");
}

static void end_of_events_is_explained(void **state)
{
	struct events events = {0};

	(void)state;
	kernel.receive_err = -NLE_INTR;
	assert_int_equal(netlink_subscribe(netlink, note_event, &events, &error), -EINTR);
	kernel.receive_err = -NLE_NOMEM;
	assert_int_equal(netlink_subscribe(netlink, note_event, &events, &error), -ENOBUFS);
	kernel.receive_err = -NLE_BAD_SOCK;
	assert_int_equal(netlink_subscribe(netlink, note_event, &events, &error), -EIO);
	kernel.group = -NLE_OBJ_NOTFOUND;
	assert_int_equal(netlink_subscribe(netlink, note_event, &events, &error), -EIO);
	assert_int_equal(events.count, 0);
	/* Group 0 is as good as others. */
	kernel.group = 0;
	kernel.receive_err = -NLE_INTR;
	assert_int_equal(netlink_subscribe(netlink, note_event, &events, &error), -EINTR);
}

static void properties_of_the_module_are_read(void **state)
{
	struct nl_msg *message = add_answer(FAMILY, STACKBEAT_CMD_MODULE_GET);
	struct netlink_module module;
	struct nlattr *attrs[ATTRS_MAX];

	(void)state;
	memset(&module, 0xff, sizeof(module));
	nla_put_u32(message, STACKBEAT_A_ABI, 21);
	nla_put_u32(message, STACKBEAT_A_RATE_MAX, 22);
	nla_put_u32(message, STACKBEAT_A_SESSIONS, 23);
	nla_put_string(message, STACKBEAT_A_VERSION, "1.2\n");
	assert_int_equal(netlink_module(netlink, &module, &error), 0);
	read_request(STACKBEAT_CMD_MODULE_GET, NLM_F_ACK, attrs);
	assert_int_equal(module.abi, 21);
	assert_int_equal(module.rate_max, 22);
	assert_int_equal(module.sessions, 23);
	assert_string_equal(module.version, "1.2?");
	kernel.receive_err = -NLE_NOMEM;
	assert_int_equal(netlink_module(netlink, &module, &error), -EIO);
	assert_int_equal(module.abi, 0);
}

static void states_have_names(void **state)
{
	(void)state;
	assert_string_equal(session_state_name(STACKBEAT_STATE_NEW), "new");
	assert_string_equal(session_state_name(STACKBEAT_STATE_COUNT - 1), "paused");
	assert_string_equal(session_state_name(STACKBEAT_STATE_COUNT), "?");
	assert_string_equal(session_state_name(UINT32_MAX), "?");
}

#define KERNEL_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		KERNEL_TEST(failure_to_open_is_explained),
		KERNEL_TEST(all_settings_are_sent),
		KERNEL_TEST(only_selected_settings_are_sent),
		KERNEL_TEST(too_many_settings_are_refused),
		KERNEL_TEST(message_of_the_kernel_is_shown),
		KERNEL_TEST(errors_of_the_socket_are_shown),
		KERNEL_TEST(all_of_a_session_is_read),
		KERNEL_TEST(missing_and_short_attributes_are_zero),
		KERNEL_TEST(sessions_are_listed),
		KERNEL_TEST(only_session_is_selected),
		KERNEL_TEST(events_are_followed),
		KERNEL_TEST(end_of_events_is_explained),
		KERNEL_TEST(properties_of_the_module_are_read),
		cmocka_unit_test(states_have_names),
	};

	return cmocka_run_group_tests_name("netlink", tests, NULL, NULL);
}
