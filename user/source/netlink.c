// SPDX-License-Identifier: GPL-2.0
#include "source/netlink.h"

#include <errno.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/error.h"
#include "lib/utf8.h"

struct netlink {
	struct nl_sock *socket;
	int family;
};

/* A request, and the results of its handlers. */
struct netlink_request {
	nl_recvmsg_msg_cb_t on_answer;
	void *arg;
	int err; /* negative errno value of the kernel's answer */
	char message[256]; /* extended error message of the kernel */
	bool done;
};

int netlink_open(struct netlink **opened, struct error *error)
{
	struct netlink *netlink = calloc(1, sizeof(*netlink));
	int on = 1, err;

	if (!netlink)
		return error_errno(error, ENOMEM, "can't open a netlink socket");
	netlink->socket = nl_socket_alloc();
	if (!netlink->socket) {
		err = error_errno(error, ENOMEM, "can't open a netlink socket");
		goto failed;
	}
	err = genl_connect(netlink->socket);
	if (err) {
		err = error_set(error, EIO, "can't open a netlink socket: %s", nl_geterror(err));
		goto failed;
	}
	/* Ask for the kernel's error messages. */
	setsockopt(nl_socket_get_fd(netlink->socket), SOL_NETLINK, NETLINK_EXT_ACK, &on,
		   sizeof(on));
	nl_socket_disable_auto_ack(netlink->socket);

	netlink->family = genl_ctrl_resolve(netlink->socket, STACKBEAT_GENL_NAME);
	if (netlink->family < 0) {
		err = error_set(error, ENOENT,
				"the module is not loaded; 'stackbeat load' loads it; recordings "
				"by perf events have no sessions to show or change");
		goto failed;
	}
	*opened = netlink;
	return 0;

failed:
	netlink_close(netlink);
	return err;
}

void netlink_close(struct netlink *netlink)
{
	if (!netlink)
		return;
	nl_socket_free(netlink->socket);
	free(netlink);
}

static int on_valid(struct nl_msg *message, void *arg)
{
	struct netlink_request *request = arg;

	return request->on_answer ? request->on_answer(message, request->arg) : NL_OK;
}

static int on_finish(struct nl_msg *message, void *arg)
{
	struct netlink_request *request = arg;

	(void)message;
	request->done = true;
	return NL_STOP;
}

/*
 * Reads the error message from the attributes of an answer. They follow the header of the request,
 * or the whole request if it was not capped.
 */
static void read_error_message(const struct nlmsghdr *header, const struct nlmsgerr *answer,
			       struct netlink_request *request)
{
	size_t offset = sizeof(*answer);
	struct nlattr *attrs[NLMSGERR_ATTR_MAX + 1];
	const struct nlattr *text;
	size_t length = header->nlmsg_len - NLMSG_HDRLEN;

	if (!(header->nlmsg_flags & NLM_F_ACK_TLVS))
		return;
	if (!(header->nlmsg_flags & NLM_F_CAPPED))
		offset += NLMSG_ALIGN(answer->msg.nlmsg_len) - NLMSG_HDRLEN;
	if (offset >= length)
		return;
	if (nla_parse(attrs, NLMSGERR_ATTR_MAX,
		      (struct nlattr *)((char *)NLMSG_DATA(header) + offset),
		      (int)(length - offset), NULL))
		return;
	text = attrs[NLMSGERR_ATTR_MSG];
	if (text)
		nla_strlcpy(request->message, text, sizeof(request->message));
}

static int on_error(struct sockaddr_nl *peer, struct nlmsgerr *answer, void *arg)
{
	struct netlink_request *request = arg;
	const struct nlmsghdr *header =
		(const struct nlmsghdr *)((const char *)answer - NLMSG_HDRLEN);

	(void)peer;
	request->err = answer->error;
	request->done = true;
	read_error_message(header, answer, request);
	return NL_STOP;
}

static struct nl_msg *new_message(const struct netlink *netlink, int command, int flags)
{
	struct nl_msg *message = nlmsg_alloc_size(NLMSG_ALIGN(64 << 10));

	if (message && !genlmsg_put(message, NL_AUTO_PORT, NL_AUTO_SEQ, netlink->family, 0, flags,
				    command, STACKBEAT_GENL_VERSION)) {
		nlmsg_free(message);
		return NULL;
	}
	return message;
}

/*
 * Sends `message`, frees it, and handles the answers. `what` begins the error message. Returns 0 or
 * a negative errno value.
 */
static int send_request(struct netlink *netlink, struct nl_msg *message,
			struct netlink_request *request, const char *what, struct error *error)
{
	struct nl_cb *callbacks = nl_cb_alloc(NL_CB_DEFAULT);
	int err = callbacks ? nl_send_auto(netlink->socket, message) : -NLE_NOMEM;

	nlmsg_free(message);
	if (err >= 0) {
		nl_cb_set(callbacks, NL_CB_VALID, NL_CB_CUSTOM, on_valid, request);
		nl_cb_set(callbacks, NL_CB_FINISH, NL_CB_CUSTOM, on_finish, request);
		nl_cb_set(callbacks, NL_CB_ACK, NL_CB_CUSTOM, on_finish, request);
		nl_cb_err(callbacks, NL_CB_CUSTOM, on_error, request);
		err = 0;
		while (!request->done && err >= 0)
			err = nl_recvmsgs(netlink->socket, callbacks);
	}
	nl_cb_put(callbacks);
	if (request->err && *request->message)
		return error_set(error, -request->err, "%s: %s", what, request->message);
	if (request->err)
		return error_errno(error, -request->err, "%s", what);
	if (err < 0)
		return error_set(error, EIO, "%s: %s", what, nl_geterror(err));
	return 0;
}

const char *session_state_name(uint32_t state)
{
	static const char *const names[STACKBEAT_STATE_COUNT] = {
		[STACKBEAT_STATE_NEW] = "new",
		[STACKBEAT_STATE_RUNNING] = "running",
		[STACKBEAT_STATE_STOPPED] = "stopped",
		[STACKBEAT_STATE_PAUSED] = "paused",
	};

	return state < STACKBEAT_STATE_COUNT ? names[state] : "?";
}

/* clang-format off */
#define NETLINK_ROW(attr, type, member, initial)                                                   \
	{STACKBEAT_A_##attr, sizeof(type), offsetof(struct netlink_settings, member),              \
	 offsetof(struct netlink_session, member), _Generic((type)0, bool: true, default: false)},

/* The numbers of settings and sessions: attributes, and members with their sizes. */
static const struct {
	enum stackbeat_attr attr;
	size_t size;
	size_t in_settings, in_session;
	bool is_flag;
} numbers[] = {NETLINK_NUMBERS(NETLINK_ROW)};
/* clang-format on */

static bool settings_have(const struct netlink_settings *settings, enum stackbeat_attr attr)
{
	return settings->set & NETLINK_SET(attr);
}

/* An empty nest is sent, too: it removes the filter. */
static struct nlattr *begin_nest(struct nl_msg *message, enum stackbeat_attr attr)
{
	return nla_nest_start(message, (int)attr | NLA_F_NESTED);
}

static void end_nest(struct nl_msg *message, struct nlattr *nest)
{
	nla_nest_end_keep_empty(message, nest);
}

static bool put_ids(struct nl_msg *message, enum stackbeat_attr attr, const struct netlink_ids *ids)
{
	struct nlattr *nest = begin_nest(message, attr);

	if (!nest)
		return false;
	for (size_t i = 0; i < ids->count; i++) {
		if (nla_put_u32(message, STACKBEAT_A_PID, ids->ids[i]))
			return false;
	}
	end_nest(message, nest);
	return true;
}

static bool put_cgroups(struct nl_msg *message, const struct netlink_settings *settings)
{
	struct nlattr *nest = begin_nest(message, STACKBEAT_A_CGROUPS);

	if (!nest)
		return false;
	for (size_t i = 0; i < settings->cgroup_count; i++) {
		if (nla_put_u64(message, STACKBEAT_A_CGROUP, settings->cgroups[i]))
			return false;
	}
	end_nest(message, nest);
	return true;
}

static bool put_comms(struct nl_msg *message, const struct netlink_settings *settings)
{
	struct nlattr *nest = begin_nest(message, STACKBEAT_A_EXCLUDE_COMMS);

	if (!nest)
		return false;
	for (size_t i = 0; i < settings->excluded_comm_count; i++) {
		if (nla_put_string(message, STACKBEAT_A_COMM, settings->excluded_comms[i]))
			return false;
	}
	end_nest(message, nest);
	return true;
}

static bool put_filter(struct nl_msg *message, const struct netlink_settings *settings)
{
	return (!settings_have(settings, STACKBEAT_A_PIDS) ||
		put_ids(message, STACKBEAT_A_PIDS, &settings->pids)) &&
	       (!settings_have(settings, STACKBEAT_A_TIDS) ||
		put_ids(message, STACKBEAT_A_TIDS, &settings->tids)) &&
	       (!settings_have(settings, STACKBEAT_A_CGROUPS) || put_cgroups(message, settings)) &&
	       (!settings_have(settings, STACKBEAT_A_EXCLUDE_COMMS) ||
		put_comms(message, settings));
}

static bool put_settings(struct nl_msg *message, const struct netlink_settings *settings)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (settings_have(settings, numbers[i].attr) &&
		    nla_put(message, (int)numbers[i].attr, (int)numbers[i].size,
			    (const char *)settings + numbers[i].in_settings))
			return false;
	}
	if (settings_have(settings, STACKBEAT_A_CPUS) &&
	    nla_put_string(message, STACKBEAT_A_CPUS, settings->cpus))
		return false;
	return put_filter(message, settings);
}

int netlink_set(struct netlink *netlink, uint32_t session, const struct netlink_settings *settings,
		struct error *error)
{
	struct nl_msg *message = new_message(netlink, STACKBEAT_CMD_SESSION_SET, NLM_F_ACK);
	struct netlink_request request = {0};

	if (!message || nla_put_u32(message, STACKBEAT_A_SESSION, session) ||
	    !put_settings(message, settings)) {
		nlmsg_free(message);
		return error_errno(error, ENOMEM, "can't configure the session");
	}
	return send_request(netlink, message, &request, "can't configure the session", error);
}

static void netlink_read_stats(struct nlattr *nest, uint64_t stats[STACKBEAT_S_COUNT])
{
	struct nlattr *attrs[STACKBEAT_S_COUNT];

	if (nla_parse_nested(attrs, STACKBEAT_S_COUNT - 1, nest, NULL))
		return;
	for (int i = STACKBEAT_S_TICKS; i < STACKBEAT_S_COUNT; i++) {
		if (attrs[i] && nla_len(attrs[i]) >= (int)sizeof(uint64_t))
			stats[i] = nla_get_u64(attrs[i]);
	}
}

static uint32_t netlink_read_u32(struct nlattr *attr)
{
	return attr && nla_len(attr) >= (int)sizeof(uint32_t) ? nla_get_u32(attr) : 0;
}

static bool read_flag(struct nlattr *attr)
{
	return attr && nla_len(attr) >= 1 && nla_get_u8(attr);
}

static uint64_t netlink_read_u64(struct nlattr *attr)
{
	return attr && nla_len(attr) >= (int)sizeof(uint64_t) ? nla_get_u64(attr) : 0;
}

/* Names of threads are untrusted. */
static void read_string(struct nlattr *attr, char *text, size_t size)
{
	if (!attr)
		return;
	nla_strlcpy(text, attr, size);
	utf8_sanitize(text);
}

static void read_numbers(struct nlattr *const *attrs, struct netlink_session *session)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct nlattr *attr = attrs[numbers[i].attr];
		char *member = (char *)session + numbers[i].in_session;

		if (numbers[i].is_flag)
			*(bool *)member = read_flag(attr);
		else if (attr && nla_len(attr) >= (int)numbers[i].size)
			memcpy(member, nla_data(attr), numbers[i].size);
	}
}

static int read_session(struct nl_msg *message, struct netlink_session *session)
{
	struct nlattr *attrs[STACKBEAT_A_COUNT];

	memset(session, 0, sizeof(*session));
	if (genlmsg_parse(nlmsg_hdr(message), 0, attrs, STACKBEAT_A_COUNT - 1, NULL))
		return -EPROTO;
	session->id = netlink_read_u32(attrs[STACKBEAT_A_SESSION]);
	read_numbers(attrs, session);
	session->restricted = read_flag(attrs[STACKBEAT_A_RESTRICTED]);
	session->owner = netlink_read_u32(attrs[STACKBEAT_A_OWNER]);
	read_string(attrs[STACKBEAT_A_OWNER_COMM], session->owner_comm,
		    sizeof(session->owner_comm));
	/* The kernel omits a list that is too long for the message. */
	snprintf(session->cpus, sizeof(session->cpus), "?");
	read_string(attrs[STACKBEAT_A_CPUS], session->cpus, sizeof(session->cpus));
	if (attrs[STACKBEAT_A_STATS])
		netlink_read_stats(attrs[STACKBEAT_A_STATS], session->stats);
	return 0;
}

static int on_session(struct nl_msg *message, void *arg)
{
	return read_session(message, arg) ? NL_SKIP : NL_OK;
}

int netlink_get(struct netlink *netlink, uint32_t id, struct netlink_session *session,
		struct error *error)
{
	struct nl_msg *message = new_message(netlink, STACKBEAT_CMD_SESSION_GET, NLM_F_ACK);
	struct netlink_request request = {.on_answer = on_session, .arg = session};

	memset(session, 0, sizeof(*session));
	if (!message || nla_put_u32(message, STACKBEAT_A_SESSION, id)) {
		nlmsg_free(message);
		return error_errno(error, ENOMEM, "can't ask for session %u", id);
	}
	return send_request(netlink, message, &request, "can't ask for the session", error);
}

struct listing {
	netlink_session_fn *fn;
	void *arg;
	int err;
	struct netlink_session session;
};

static int on_listed(struct nl_msg *message, void *arg)
{
	struct listing *listing = arg;

	if (!listing->err && !read_session(message, &listing->session))
		listing->err = listing->fn(&listing->session, listing->arg);
	return NL_OK;
}

int netlink_list(struct netlink *netlink, netlink_session_fn *fn, void *arg, struct error *error)
{
	struct nl_msg *message = new_message(netlink, STACKBEAT_CMD_SESSION_GET, NLM_F_DUMP);
	struct listing *listing = calloc(1, sizeof(*listing));
	struct netlink_request request = {.on_answer = on_listed, .arg = listing};
	int err;

	if (!message || !listing) {
		nlmsg_free(message);
		free(listing);
		return error_errno(error, ENOMEM, "can't list the sessions");
	}
	listing->fn = fn;
	listing->arg = arg;
	err = send_request(netlink, message, &request, "can't list the sessions", error);
	if (!err)
		err = listing->err;
	free(listing);
	return err;
}

struct session_counter {
	uint32_t count;
	uint32_t session;
};

static int count_session(const struct netlink_session *session, void *arg)
{
	struct session_counter *counter = arg;

	counter->count++;
	counter->session = session->id;
	return 0;
}

int netlink_select(struct netlink *netlink, uint32_t id, uint32_t *selected, struct error *error)
{
	struct session_counter counter = {0};
	int err;

	*selected = id;
	if (id)
		return 0;
	err = netlink_list(netlink, count_session, &counter, error);
	if (err)
		return err;
	if (!counter.count)
		return error_set(error, ENODEV, "no session is open");
	if (counter.count > 1)
		return error_set(error, EINVAL,
				 "%u sessions are open; name one with --session ('stackbeat "
				 "status' lists them)",
				 counter.count);
	*selected = counter.session;
	return 0;
}

struct event_stream {
	int family;
	netlink_event_fn *fn;
	void *arg;
	int err;
};

static int on_event(struct nl_msg *message, void *arg)
{
	struct event_stream *stream = arg;
	struct nlattr *attrs[STACKBEAT_A_COUNT];
	struct netlink_event event = {0};
	const struct genlmsghdr *header = genlmsg_hdr(nlmsg_hdr(message));

	if (nlmsg_hdr(message)->nlmsg_type != stream->family ||
	    header->cmd != STACKBEAT_CMD_EVENT ||
	    genlmsg_parse(nlmsg_hdr(message), 0, attrs, STACKBEAT_A_COUNT - 1, NULL))
		return NL_SKIP;
	event.event = netlink_read_u32(attrs[STACKBEAT_A_EVENT]);
	event.time = netlink_read_u64(attrs[STACKBEAT_A_TIME]);
	event.session = netlink_read_u32(attrs[STACKBEAT_A_SESSION]);
	event.cpu = netlink_read_u32(attrs[STACKBEAT_A_CPU]);
	event.rate = netlink_read_u32(attrs[STACKBEAT_A_RATE]);
	event.state = netlink_read_u32(attrs[STACKBEAT_A_STATE]);
	event.count = netlink_read_u64(attrs[STACKBEAT_A_LOST_SAMPLES]);
	event.owner = netlink_read_u32(attrs[STACKBEAT_A_OWNER]);
	read_string(attrs[STACKBEAT_A_OWNER_COMM], event.owner_comm, sizeof(event.owner_comm));
	stream->err = stream->fn(&event, stream->arg);
	return stream->err ? NL_STOP : NL_OK;
}

int netlink_subscribe(struct netlink *netlink, netlink_event_fn *fn, void *arg, struct error *error)
{
	struct event_stream stream = {.family = netlink->family, .fn = fn, .arg = arg};
	int group =
		genl_ctrl_resolve_grp(netlink->socket, STACKBEAT_GENL_NAME, STACKBEAT_GENL_EVENTS);
	int err = group;

	if (group >= 0)
		err = nl_socket_add_membership(netlink->socket, group);
	if (err < 0)
		return error_set(error, EIO, "can't follow the events: %s", nl_geterror(err));
	/* Events are not answers: they have no sequence number to check. */
	nl_socket_disable_seq_check(netlink->socket);
	nl_socket_modify_cb(netlink->socket, NL_CB_VALID, NL_CB_CUSTOM, on_event, &stream);
	while (!stream.err) {
		err = nl_recvmsgs_default(netlink->socket);
		if (err == -NLE_INTR)
			return -EINTR;
		if (err == -NLE_NOMEM)
			return error_set(error, ENOBUFS, "events were lost: too many came at once");
		if (err < 0)
			return error_set(error, EIO, "can't follow the events: %s",
					 nl_geterror(err));
	}
	return stream.err;
}

static int on_module(struct nl_msg *message, void *arg)
{
	struct netlink_module *module = arg;
	struct nlattr *attrs[STACKBEAT_A_COUNT];

	if (genlmsg_parse(nlmsg_hdr(message), 0, attrs, STACKBEAT_A_COUNT - 1, NULL))
		return NL_SKIP;
	module->abi = netlink_read_u32(attrs[STACKBEAT_A_ABI]);
	module->rate_max = netlink_read_u32(attrs[STACKBEAT_A_RATE_MAX]);
	module->sessions = netlink_read_u32(attrs[STACKBEAT_A_SESSIONS]);
	read_string(attrs[STACKBEAT_A_VERSION], module->version, sizeof(module->version));
	return NL_OK;
}

int netlink_module(struct netlink *netlink, struct netlink_module *module, struct error *error)
{
	struct nl_msg *message = new_message(netlink, STACKBEAT_CMD_MODULE_GET, NLM_F_ACK);
	struct netlink_request request = {.on_answer = on_module, .arg = module};

	memset(module, 0, sizeof(*module));
	if (!message)
		return error_errno(error, ENOMEM, "can't ask the module");
	return send_request(netlink, message, &request, "can't ask the module", error);
}
