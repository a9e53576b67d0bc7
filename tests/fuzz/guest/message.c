// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "message.h"

#define MESSAGE_SIZE 16384u

struct message {
	size_t length;
	_Alignas(8) uint8_t bytes[MESSAGE_SIZE];
};

static uint16_t family;
static uint32_t events_group;

/* --- building ------------------------------------------------------------- */

static void begin(struct message *message, uint16_t type, uint16_t flags, uint8_t command)
{
	struct nlmsghdr *header = (void *)message->bytes;
	struct genlmsghdr *generic = (void *)(message->bytes + NLMSG_HDRLEN);

	memset(message->bytes, 0, NLMSG_HDRLEN + GENL_HDRLEN);
	header->nlmsg_type = type;
	header->nlmsg_flags = NLM_F_REQUEST | flags;
	generic->cmd = command;
	generic->version = STACKBEAT_GENL_VERSION;
	message->length = NLMSG_HDRLEN + GENL_HDRLEN;
}

/* Adds an attribute of `length` bytes whose header claims `claimed` bytes. */
static void put_with_length(struct message *message, uint16_t type, const void *data, size_t length,
			    uint16_t claimed)
{
	struct nlattr *attr = (void *)(message->bytes + message->length);
	size_t size = NLA_ALIGN(NLA_HDRLEN + length);

	if (message->length + size > MESSAGE_SIZE)
		return;
	memset(attr, 0, size);
	attr->nla_len = (uint16_t)(NLA_HDRLEN + claimed);
	attr->nla_type = type;
	if (length)
		memcpy((uint8_t *)attr + NLA_HDRLEN, data, length);
	message->length += size;
}

static void put(struct message *message, uint16_t type, const void *data, size_t length)
{
	put_with_length(message, type, data, length, (uint16_t)length);
}

static void put_u32(struct message *message, uint16_t type, uint32_t value)
{
	put(message, type, &value, sizeof(value));
}

static size_t begin_nest(struct message *message, uint16_t type)
{
	size_t at = message->length;

	put(message, type | NLA_F_NESTED, NULL, 0);
	return at;
}

static void end_nest(struct message *message, size_t at)
{
	struct nlattr *attr = (void *)(message->bytes + at);

	if (at < message->length)
		attr->nla_len = (uint16_t)(message->length - at);
}

/* --- sending and receiving ------------------------------------------------ */

static void deliver(int fd, struct message *message)
{
	struct nlmsghdr *header = (void *)message->bytes;

	header->nlmsg_len = (uint32_t)message->length;
	send(fd, message->bytes, message->length, MSG_DONTWAIT);
}

void message_drain(int fd)
{
	uint8_t data[MESSAGE_SIZE];

	/* The kernel sends the next part of a dump when the previous part is received. */
	while (recv(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
}

static const struct nlattr *find(const void *data, size_t length, uint16_t type)
{
	const uint8_t *at = data, *end = at + length;

	while (end - at >= NLA_HDRLEN) {
		const struct nlattr *attr = (const void *)at;

		if (attr->nla_len < NLA_HDRLEN || attr->nla_len > end - at)
			return NULL;
		if ((attr->nla_type & NLA_TYPE_MASK) == type)
			return attr;
		at += NLA_ALIGN(attr->nla_len) < end - at ? NLA_ALIGN(attr->nla_len) : end - at;
	}
	return NULL;
}

static const void *payload(const struct nlattr *attr, size_t size)
{
	return attr && attr->nla_len >= NLA_HDRLEN + size ? (const uint8_t *)attr + NLA_HDRLEN
							  : NULL;
}

/* Sends a message and copies the attributes of the answer to `answer`; returns their length or 0.
 */
static size_t request(int fd, struct message *message, uint8_t *answer)
{
	const size_t skipped = NLMSG_HDRLEN + GENL_HDRLEN;
	const struct nlmsghdr *header = (const void *)answer;
	ssize_t length;

	message_drain(fd);
	deliver(fd, message);
	length = recv(fd, answer, MESSAGE_SIZE, MSG_DONTWAIT);
	if (length < (ssize_t)skipped || header->nlmsg_type == NLMSG_ERROR)
		return 0;
	memmove(answer, answer + skipped, (size_t)length - skipped);
	return (size_t)length - skipped;
}

int message_open(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
}

void message_join(int fd)
{
	setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &events_group, sizeof(events_group));
}

static void find_group(const struct nlattr *groups)
{
	const void *data = payload(groups, 0);
	const struct nlattr *first = find(data, groups->nla_len - NLA_HDRLEN, 1);
	const uint32_t *id =
		payload(find(payload(first, 0), first ? first->nla_len - NLA_HDRLEN : 0,
			     CTRL_ATTR_MCAST_GRP_ID),
			sizeof(*id));

	if (id)
		events_group = *id;
}

void message_init(void)
{
	struct message message = {.length = 0};
	const struct nlattr *groups;
	_Alignas(8) uint8_t answer[MESSAGE_SIZE];
	const uint16_t *id;
	size_t length;
	int fd = message_open();

	begin(&message, GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY);
	put(&message, CTRL_ATTR_FAMILY_NAME, STACKBEAT_GENL_NAME, sizeof(STACKBEAT_GENL_NAME));
	length = request(fd, &message, answer);
	id = payload(find(answer, length, CTRL_ATTR_FAMILY_ID), sizeof(*id));
	if (!id) {
		fprintf(stderr, "the module is not loaded\n");
		exit(1);
	}
	family = *id;
	groups = find(answer, length, CTRL_ATTR_MCAST_GROUPS);
	if (groups)
		find_group(groups);
	close(fd);
}

void message_set(int fd, uint32_t id, uint16_t attr, uint32_t value)
{
	struct message message = {.length = 0};

	begin(&message, family, NLM_F_ACK, STACKBEAT_CMD_SESSION_SET);
	put_u32(&message, STACKBEAT_A_SESSION, id);
	put_u32(&message, attr, value);
	deliver(fd, &message);
	message_drain(fd);
}

bool message_get(int fd, uint32_t id, uint32_t *state, uint64_t counts[STACKBEAT_S_COUNT])
{
	struct message message = {.length = 0};
	_Alignas(8) uint8_t answer[MESSAGE_SIZE];
	const struct nlattr *stats;
	const uint32_t *attr;
	size_t length;

	begin(&message, family, 0, STACKBEAT_CMD_SESSION_GET);
	put_u32(&message, STACKBEAT_A_SESSION, id);
	length = request(fd, &message, answer);
	attr = payload(find(answer, length, STACKBEAT_A_STATE), sizeof(*attr));
	stats = find(answer, length, STACKBEAT_A_STATS);
	if (!attr || !stats)
		return false;
	*state = *attr;
	for (uint16_t stat = STACKBEAT_S_TICKS; stat < STACKBEAT_S_COUNT; stat++) {
		const void *count =
			payload(find(payload(stats, 0), stats->nla_len - NLA_HDRLEN, stat),
				sizeof(counts[0]));

		if (!count)
			return false;
		memcpy(&counts[stat], count, sizeof(counts[0]));
	}
	return true;
}

/* --- drawing -------------------------------------------------------------- */

static uint32_t draw_u32(struct random *random)
{
	static const uint32_t edges[] = {
		0,        1,
		2,        3,
		4,        99,
		127,      128,
		255,      256,
		999,      1000,
		1022,     1023,
		1024,     4095,
		4096,     4997,
		20000,    20001,
		65535,    65536,
		131072,   1u << 19,
		1u << 26, (1u << 26) + 1,
		1u << 27, INT32_MAX,
		1u << 31, UINT32_MAX,
	};

	if (draw_once_in(random, 8))
		return (uint32_t)draw_bits(random);
	return edges[draw(random, sizeof(edges) / sizeof(edges[0]))];
}

/* The attributes that can be set, by the header. */
static const struct {
	uint16_t attr;
	enum { U8, U32, LIST, PIDS, CGROUPS, COMMS } type;
	uint32_t min, max;
} settings[] = {
	{STACKBEAT_A_STATE, U32, STACKBEAT_STATE_RUNNING, STACKBEAT_STATE_PAUSED},
	{STACKBEAT_A_STATE, U32, STACKBEAT_STATE_RUNNING, STACKBEAT_STATE_RUNNING},
	{STACKBEAT_A_RATE, U32, STACKBEAT_RATE_MIN, STACKBEAT_RATE_MAX},
	{STACKBEAT_A_PARTS, U32, 1, STACKBEAT_PARTS_ALL},
	{STACKBEAT_A_PIDS, PIDS, 0, 0},
	{STACKBEAT_A_INHERIT, U8, 0, 1},
	{STACKBEAT_A_CPUS, LIST, 0, 0},
	{STACKBEAT_A_MAX_DEPTH, U32, 1, STACKBEAT_USER_FRAMES_MAX},
	{STACKBEAT_A_RING_SIZE, U32, STACKBEAT_RING_SIZE_MIN, STACKBEAT_RING_SIZE_DEFAULT},
	{STACKBEAT_A_WATERMARK, U32, 0, STACKBEAT_RING_SIZE_MIN},
	{STACKBEAT_A_NO_JITTER, U8, 0, 1},
	{STACKBEAT_A_GOROUTINES, U8, 0, 3},
	{STACKBEAT_A_BUDGET, U32, STACKBEAT_BUDGET_MIN, STACKBEAT_BUDGET_MAX},
	{STACKBEAT_A_UNWIND_TABLES, U8, 0, 1},
	{STACKBEAT_A_STACK_COPY, U32, 0, STACKBEAT_STACK_COPY_MAX},
	{STACKBEAT_A_TIDS, PIDS, 0, 0},
	{STACKBEAT_A_CGROUPS, CGROUPS, 0, 0},
	{STACKBEAT_A_EXCLUDE_COMMS, COMMS, 0, 0},
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static void put_list(struct message *message, struct random *random, uint16_t attr)
{
	static const char *const lists[] = {
		"",     "0",  "1", "0-1", "0,1", "1-0", "0-3:1/2", "all",
		"4095", "-1", ",", "0-",  " 0",  "\n",  "0x1",     "99999999999999999999",
	};
	char text[STACKBEAT_CPULIST_MAX + 16];
	const char *list = lists[draw(random, sizeof(lists) / sizeof(lists[0]))];
	size_t length = strlen(list) + 1;

	if (draw_once_in(random, 8)) {
		length = draw(random, sizeof(text)) + 1;
		memset(text, '0' + (int)draw(random, 10), length);
		/* Also without a terminating NUL. */
		text[length - 1] = draw_once_in(random, 2) ? '\0' : ',';
		list = text;
	}
	put(message, attr, list, length);
}

static void put_pids(struct message *message, struct random *random, uint16_t attr)
{
	size_t nest = begin_nest(message, attr);
	uint32_t count =
		draw_once_in(random, 16) ? STACKBEAT_PIDS_MAX + draw(random, 2) : draw(random, 4);

	while (count--) {
		uint32_t pid = draw_once_in(random, 4)   ? draw_u32(random)
			       : draw_once_in(random, 2) ? (uint32_t)getppid()
							 : (uint32_t)getpid();

		put_u32(message, STACKBEAT_A_PID, pid);
	}
	end_nest(message, nest);
}

static void put_cgroups(struct message *message, struct random *random, uint16_t attr)
{
	size_t nest = begin_nest(message, attr);
	uint32_t count = draw(random, STACKBEAT_CGROUPS_MAX + 2);

	while (count--) {
		uint64_t id = draw_once_in(random, 2) ? 1 : draw_bits(random);

		put(message, STACKBEAT_A_CGROUP, &id, sizeof(id));
	}
	end_nest(message, nest);
}

static void put_comms(struct message *message, struct random *random, uint16_t attr)
{
	size_t nest = begin_nest(message, attr);
	uint32_t count = draw(random, STACKBEAT_COMMS_MAX + 2);
	char comm[STACKBEAT_COMM_SIZE + 4];

	while (count--) {
		size_t length = draw(random, sizeof(comm));

		memset(comm, 'a', sizeof(comm));
		comm[length] = '\0';
		put(message, STACKBEAT_A_COMM, comm, length + 1);
	}
	end_nest(message, nest);
}

/* Adds a setting of the header, with a value within its range or near it. */
static void put_setting(struct message *message, struct random *random)
{
	uint32_t which = draw(random, SETTINGS);
	uint16_t attr = settings[which].attr;
	uint32_t value =
		settings[which].min + draw(random, settings[which].max - settings[which].min + 1);
	uint8_t flag = (uint8_t)value;

	switch (settings[which].type) {
	case U8:
		if (draw_once_in(random, 16))
			flag = (uint8_t)draw_u32(random);
		put(message, attr, &flag, sizeof(flag));
		break;
	case U32:
		if (attr == STACKBEAT_A_RING_SIZE)
			value = STACKBEAT_RING_SIZE_MIN << draw(random, 4);
		if (draw_once_in(random, 8))
			value = draw_u32(random);
		put_u32(message, attr, value);
		break;
	case LIST:
		put_list(message, random, attr);
		break;
	case PIDS:
		put_pids(message, random, attr);
		break;
	case CGROUPS:
		put_cgroups(message, random, attr);
		break;
	case COMMS:
		put_comms(message, random, attr);
		break;
	}
}

/* Adds an invalid attribute. */
static void put_invalid(struct message *message, struct random *random)
{
	uint16_t type = (uint16_t)draw(random, STACKBEAT_A_COUNT + 4);
	uint8_t data[64];
	size_t length = draw(random, sizeof(data) + 1);

	for (size_t at = 0; at < sizeof(data); at++)
		data[at] = (uint8_t)draw_bits(random);
	switch (draw(random, 4)) {
	case 0: /* any bytes */
		put(message, type, data, length);
		break;
	case 1: /* a wrong length */
		put_with_length(message, type, data, length, (uint16_t)draw_u32(random));
		break;
	case 2: /* flags of the type */
		put(message, type | (draw_once_in(random, 2) ? NLA_F_NESTED : NLA_F_NET_BYTEORDER),
		    data, 4);
		break;
	default: { /* nests in nests */
		size_t outer = begin_nest(message, type);

		for (uint32_t depth = draw(random, 20); depth; depth--)
			begin_nest(message, (uint16_t)draw(random, STACKBEAT_A_COUNT));
		put(message, type, data, length);
		end_nest(message, outer);
	}
	}
}

static uint32_t draw_id(struct random *random, uint32_t id)
{
	switch (draw(random, 16)) {
	case 0:
		return draw_u32(random);
	case 1:
		return id + 1;
	case 2:
		return id - 1;
	default:
		return id;
	}
}

void message_send_any(int fd, struct random *random, uint32_t id)
{
	static const uint16_t flags[] = {
		0,          NLM_F_ACK,  NLM_F_DUMP,  NLM_F_DUMP | NLM_F_ACK,
		NLM_F_ECHO, NLM_F_ROOT, NLM_F_MATCH, NLM_F_CREATE | NLM_F_EXCL,
		UINT16_MAX,
	};
	uint8_t command = STACKBEAT_CMD_SESSION_SET;
	struct message message = {.length = 0};
	struct nlmsghdr *header = (void *)message.bytes;
	uint32_t count;

	if (draw_once_in(random, 4))
		command = (uint8_t)draw(random, STACKBEAT_CMD_COUNT + 2);
	begin(&message, family,
	      flags[draw_once_in(random, 4) ? draw(random, sizeof(flags) / 2) : 1], command);
	if (!draw_once_in(random, 16))
		put_u32(&message, STACKBEAT_A_SESSION, draw_id(random, id));
	if (command == STACKBEAT_CMD_SESSION_SET || draw_once_in(random, 8)) {
		for (count = draw(random, 5); count; count--)
			put_setting(&message, random);
	}
	while (draw_once_in(random, 6))
		put_invalid(&message, random);
	if (draw_once_in(random, 32))
		((struct genlmsghdr *)(message.bytes + NLMSG_HDRLEN))->version = 0;
	if (draw_once_in(random, 32) && message.length > NLMSG_HDRLEN)
		message.length -= draw(random, (uint32_t)(message.length - NLMSG_HDRLEN));
	if (draw_once_in(random, 64))
		header->nlmsg_type = (uint16_t)draw_bits(random) & 31;
	deliver(fd, &message);
	if (!draw_once_in(random, 8))
		message_drain(fd);
}
