// SPDX-License-Identifier: GPL-2.0
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/log2.h>
#include <linux/netlink.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/genetlink.h>

#include "compat/compat.h"
#include "events.h"
#include "filter.h"
#include "netlink.h"
#include "params.h"
#include "sampler.h"
#include "samplers.h"
#include "session.h"
#include "space.h"

static const struct nla_policy sb_pid_policy[] = {
	[STACKBEAT_A_PID] = { .type = NLA_U32 },
};

static const struct nla_policy sb_cgroup_policy[] = {
	[STACKBEAT_A_CGROUP] = { .type = NLA_U64 },
};

static const struct nla_policy sb_comm_policy[] = {
	[STACKBEAT_A_COMM] = { .type = NLA_NUL_STRING, .len = STACKBEAT_COMM_SIZE - 1 },
};

/* A command without a policy would silently accept any attribute. */
static const struct nla_policy sb_no_policy[] = {
	[STACKBEAT_A_PAD] = { .type = NLA_REJECT },
};

static const struct nla_policy sb_get_policy[] = {
	[STACKBEAT_A_SESSION] = { .type = NLA_U32 },
};

/* Without the numbers, which sb_netlink_init() adds. */
static struct nla_policy sb_set_policy[STACKBEAT_A_COUNT] __ro_after_init = {
	[STACKBEAT_A_SESSION] = { .type = NLA_U32 },
	[STACKBEAT_A_PIDS] = NLA_POLICY_NESTED(sb_pid_policy),
	[STACKBEAT_A_CPUS] = { .type = NLA_NUL_STRING, .len = STACKBEAT_CPULIST_MAX - 1 },
	[STACKBEAT_A_PID] = { .type = NLA_REJECT },
	[STACKBEAT_A_TIDS] = NLA_POLICY_NESTED(sb_pid_policy),
	[STACKBEAT_A_CGROUPS] = NLA_POLICY_NESTED(sb_cgroup_policy),
	[STACKBEAT_A_EXCLUDE_COMMS] = NLA_POLICY_NESTED(sb_comm_policy),
};

/*
 * The numbers among the settings: their members, and their ranges, which are checked by code, for
 * error messages with the range. sb_check_number() has the rules that are no range.
 */
static const struct sb_number {
	enum stackbeat_attr attr;
	u16 offset, size;	/* in struct sb_settings */
	u32 min, max;
	const char *message;
} sb_numbers[] = {
#define SB_NUMBER(attr, member, min, max, message) \
	{ attr, offsetof(struct sb_settings, member), sizeof_field(struct sb_settings, member), \
	  min, max, message }
	SB_NUMBER(STACKBEAT_A_STATE, state, STACKBEAT_STATE_RUNNING, STACKBEAT_STATE_PAUSED,
		  "the state must be running, stopped or paused"),
	SB_NUMBER(STACKBEAT_A_RATE, rate, STACKBEAT_RATE_MIN, U32_MAX,
		  "the rate must be 1 Hz to the module's rate_max"),
	SB_NUMBER(STACKBEAT_A_PARTS, parts, 1, STACKBEAT_PARTS_ALL,
		  "the parts must be kernel (1), user (2) or both (3)"),
	SB_NUMBER(STACKBEAT_A_INHERIT, inherit, 0, 1, "inherit must be 0 or 1"),
	SB_NUMBER(STACKBEAT_A_MAX_DEPTH, max_depth, 1, STACKBEAT_USER_FRAMES_MAX,
		  "the maximum depth must be 1 to 1023 frames"),
	SB_NUMBER(STACKBEAT_A_RING_SIZE, ring_size, STACKBEAT_RING_SIZE_MIN, STACKBEAT_RING_SIZE_MAX,
		  "the ring size must be a power of two, 64 KiB to 64 MiB"),
	SB_NUMBER(STACKBEAT_A_WATERMARK, watermark, 0, STACKBEAT_RING_SIZE_MAX,
		  "the watermark must not be larger than the ring size"),
	SB_NUMBER(STACKBEAT_A_NO_JITTER, no_jitter, 0, 1, "no_jitter must be 0 or 1"),
	SB_NUMBER(STACKBEAT_A_BUDGET, budget_permille, STACKBEAT_BUDGET_MIN, STACKBEAT_BUDGET_MAX,
		  "the budget must be 1 to 500 thousandths of a CPU"),
	SB_NUMBER(STACKBEAT_A_UNWIND_TABLES, unwind_tables, 0, 1, "unwind_tables must be 0 or 1"),
	SB_NUMBER(STACKBEAT_A_STACK_COPY, stack_copy, 0, STACKBEAT_STACK_COPY_MAX,
		  "the stack copy must be a multiple of 8 bytes, up to 64 KiB"),
	SB_NUMBER(STACKBEAT_A_STACK_COPY_EVERY, stack_copy_every, 0, U32_MAX, NULL),
	SB_NUMBER(STACKBEAT_A_GOROUTINES, goroutines, 0, STACKBEAT_GOROUTINE_ALL,
		  "goroutines must be 0 to 7"),
#undef SB_NUMBER
};

static struct genl_family sb_family;

/* As NL_SET_ERR_MSG_ATTR(), but `message` may be any string of static lifetime. */
static void sb_set_error(struct genl_info *info, enum stackbeat_attr attr,
			 const char *message)
{
	if (!info->extack)
		return;
	NL_SET_BAD_ATTR(info->extack, info->attrs[attr]);
	info->extack->_msg = message;
}

/* Checks the range of a number, and what is more than a range. */
static int sb_check_number(struct genl_info *info, const struct sb_number *number, u32 value)
{
	u32 max = number->attr == STACKBEAT_A_RATE ? sb_rate_max : number->max;
	int err = 0;

	if (value < number->min || value > max)
		err = -ERANGE;
	else if (number->attr == STACKBEAT_A_RING_SIZE && !is_power_of_2(value))
		err = -EINVAL;
	else if (number->attr == STACKBEAT_A_STACK_COPY && value % sizeof(u64))
		err = -EINVAL;
	if (err)
		sb_set_error(info, number->attr, number->message);
	if (err || number->attr != STACKBEAT_A_PARTS || !(value & STACKBEAT_PART_KERNEL) ||
	    !security_locked_down(LOCKDOWN_PERF))
		return err;
	sb_set_error(info, STACKBEAT_A_PARTS, "the kernel is locked down: no kernel part");
	return -EPERM;
}

static int sb_read_number(struct genl_info *info, const struct sb_number *number,
			  struct sb_settings *settings)
{
	const struct nlattr *attr = info->attrs[number->attr];
	u32 value = number->size == sizeof(u8) ? nla_get_u8(attr) : nla_get_u32(attr);
	void *member = (u8 *)settings + number->offset;
	int err = sb_check_number(info, number, value);

	if (err)
		return err;
	if (number->size == sizeof(u8))
		*(u8 *)member = value;
	else
		*(u32 *)member = value;
	settings->set |= BIT_ULL(number->attr);
	return 0;
}

static int sb_read_cpus(struct genl_info *info, struct sb_settings *settings)
{
	const char *list = nla_data(info->attrs[STACKBEAT_A_CPUS]);
	int err;

	if (!*list) {
		cpumask_setall(settings->cpus);
		return 0;
	}
	err = cpulist_parse(list, settings->cpus);
	if (!err && cpumask_empty(settings->cpus))
		err = -EINVAL;
	if (err)
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[STACKBEAT_A_CPUS],
				    "the CPUs must be a list like 0,2-3 of CPUs that exist");
	return err;
}

/* Counts the members of a nest. ERANGE: more than `max`. */
static int sb_count_nested(struct genl_info *info, enum stackbeat_attr attr, u32 max,
			   const char *message, u32 *count)
{
	struct nlattr *member;
	int left;

	*count = 0;
	nla_for_each_nested(member, info->attrs[attr], left)
		++*count;
	if (*count <= max)
		return 0;
	sb_set_error(info, attr, message);
	return -ERANGE;
}

/* Reads a nest of ids into a new set. An empty nest gives no set. */
static int sb_read_ids(struct genl_info *info, enum stackbeat_attr attr, const char *missing,
		       bool inherit, struct sb_id_set **read)
{
	struct sb_id_set *set;
	struct nlattr *member;
	u32 count;
	int left;
	int err = sb_count_nested(info, attr, STACKBEAT_PIDS_MAX,
				  "a filter can't have more than 1024 ids", &count);

	if (err || !count)
		return err;
	set = sb_id_set_alloc(count, attr == STACKBEAT_A_PIDS, inherit);
	if (IS_ERR(set))
		return PTR_ERR(set);
	*read = set;
	nla_for_each_nested(member, info->attrs[attr], left) {
		err = sb_id_set_add(set, nla_get_u32(member));
		if (err) {
			sb_set_error(info, attr, missing);
			return err;
		}
	}
	return 0;
}

static int sb_read_pids(struct genl_info *info, struct sb_settings *settings)
{
	return sb_read_ids(info, STACKBEAT_A_PIDS, "no such process", settings->inherit,
			   &settings->filter->processes);
}

static int sb_read_tids(struct genl_info *info, struct sb_settings *settings)
{
	return sb_read_ids(info, STACKBEAT_A_TIDS, "no such thread", false,
			   &settings->filter->threads);
}

static int sb_read_cgroups(struct genl_info *info, struct sb_settings *settings)
{
	struct sb_filter *filter = settings->filter;
	struct nlattr *member;
	u32 count;
	int left;
	int err = sb_count_nested(info, STACKBEAT_A_CGROUPS, STACKBEAT_CGROUPS_MAX,
				  "a filter can't have more than 16 control groups", &count);

	if (err)
		return err;
	nla_for_each_nested(member, info->attrs[STACKBEAT_A_CGROUPS], left)
		filter->cgroups[filter->cgroup_count++] = nla_get_u64(member);
	return 0;
}

static int sb_read_comms(struct genl_info *info, struct sb_settings *settings)
{
	struct sb_filter *filter = settings->filter;
	struct nlattr *member;
	u32 count;
	int left;
	int err = sb_count_nested(info, STACKBEAT_A_EXCLUDE_COMMS, STACKBEAT_COMMS_MAX,
				  "a filter can't have more than 16 thread names", &count);

	if (err)
		return err;
	nla_for_each_nested(member, info->attrs[STACKBEAT_A_EXCLUDE_COMMS], left)
		strscpy(filter->excluded_comms[filter->comm_count++], nla_data(member),
			STACKBEAT_COMM_SIZE);
	return 0;
}

static const struct {
	enum stackbeat_attr attr;
	int (*read)(struct genl_info *info, struct sb_settings *settings);
} sb_readers[] = {
	{ STACKBEAT_A_PIDS, sb_read_pids },
	{ STACKBEAT_A_CPUS, sb_read_cpus },
	{ STACKBEAT_A_TIDS, sb_read_tids },
	{ STACKBEAT_A_CGROUPS, sb_read_cgroups },
	{ STACKBEAT_A_EXCLUDE_COMMS, sb_read_comms },
};

static int sb_read_settings(struct genl_info *info, struct sb_settings *settings)
{
	size_t i;
	int err;

	/* `inherit` before the ids: sets follow forks at once. */
	for (i = 0; i < ARRAY_SIZE(sb_numbers); i++) {
		if (!info->attrs[sb_numbers[i].attr])
			continue;
		err = sb_read_number(info, &sb_numbers[i], settings);
		if (err)
			return err;
	}
	for (i = 0; i < ARRAY_SIZE(sb_readers); i++) {
		if (!info->attrs[sb_readers[i].attr])
			continue;
		err = sb_readers[i].read(info, settings);
		if (err)
			return err;
		settings->set |= BIT_ULL(sb_readers[i].attr);
	}
	if (!settings->set) {
		NL_SET_ERR_MSG(info->extack, "nothing to set");
		return -EINVAL;
	}
	return 0;
}

/* Returns the session with the id in a message. The caller must put it. */
static struct sb_session *sb_netlink_session(struct genl_info *info)
{
	struct sb_session *session;

	if (!info->attrs[STACKBEAT_A_SESSION]) {
		NL_SET_ERR_MSG(info->extack, "the session id is missing");
		return ERR_PTR(-EINVAL);
	}
	session = sb_session_get(nla_get_u32(info->attrs[STACKBEAT_A_SESSION]));
	if (!session) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[STACKBEAT_A_SESSION],
				    "no such session");
		return ERR_PTR(-ENODEV);
	}
	return session;
}

/*
 * Whether the sender owns a restricted session: the same user, in the opener's pid namespace or an
 * outer one (a container may use the same user id).
 */
static bool sb_netlink_owns(struct sk_buff *skb, const struct sb_session *session)
{
	const struct pid_namespace *ns = session->pid_ns, *own = task_active_pid_ns(current);

	if (!session->restricted || !uid_eq(NETLINK_CREDS(skb)->uid, session->cred->uid))
		return false;
	while (ns && ns != own)
		ns = ns->parent;
	return ns;
}

/* A denial may be written to the audit log. */
static bool sb_netlink_is_capable(struct sk_buff *skb)
{
	return netlink_capable(skb, CAP_PERFMON) || netlink_capable(skb, CAP_SYS_ADMIN);
}

/*
 * Whether the sender of a message may configure and list a session: CAP_PERFMON, or the owner
 * of a restricted session.
 */
static bool sb_netlink_allowed(struct sk_buff *skb, const struct sb_session *session)
{
	return sb_netlink_owns(skb, session) || sb_netlink_is_capable(skb);
}

/* Whether a message sets a filter, which replaces another one. */
static bool sb_has_filter(struct genl_info *info)
{
	return info->attrs[STACKBEAT_A_PIDS] || info->attrs[STACKBEAT_A_TIDS] ||
	       info->attrs[STACKBEAT_A_CGROUPS] || info->attrs[STACKBEAT_A_EXCLUDE_COMMS];
}

static int sb_netlink_change(struct sb_session *session, struct genl_info *info)
{
	struct sb_settings settings = { .inherit = READ_ONCE(session->inherit) };
	int err = -ENOMEM;

	if (sb_has_filter(info) && sb_filter_account_is_full(session->filters)) {
		NL_SET_ERR_MSG(info->extack, "too many replaced filters are not freed yet; retry in a moment");
		return -EBUSY;
	}
	settings.filter = sb_filter_alloc(session->filters);
	if (settings.filter && zalloc_cpumask_var(&settings.cpus, GFP_KERNEL)) {
		err = sb_read_settings(info, &settings);
		if (!err)
			err = sb_session_set(session, &settings, info->extack);
		free_cpumask_var(settings.cpus);
	}
	sb_filter_free(settings.filter);
	return err;
}

static int sb_netlink_set(struct sk_buff *skb, struct genl_info *info)
{
	struct sb_session *session = sb_netlink_session(info);
	int err = -EPERM;

	if (IS_ERR(session))
		return PTR_ERR(session);
	if (sb_netlink_allowed(skb, session))
		err = sb_netlink_change(session, info);
	else
		NL_SET_ERR_MSG(info->extack, "CAP_PERFMON is needed");
	sb_session_put(session);
	return err;
}

struct sb_stats {
	u64 count[STACKBEAT_S_COUNT];
};

/* Adds the counters of a sampler. They are exact once it is stopped. */
static void sb_stats_add(struct sb_stats *stats, const struct sb_sampler *sampler)
{
	u32 rate = sb_sampler_rate(sampler);

	stats->count[STACKBEAT_S_TICKS] += READ_ONCE(sampler->ticks);
	stats->count[STACKBEAT_S_SAMPLES] += READ_ONCE(sampler->samples);
	stats->count[STACKBEAT_S_LOST_FULL] += READ_ONCE(sampler->ring.lost_full);
	stats->count[STACKBEAT_S_LOST_BAD_TAIL] += READ_ONCE(sampler->ring.lost_bad_tail);
	stats->count[STACKBEAT_S_IDLE] += READ_ONCE(sampler->idle);
	stats->count[STACKBEAT_S_FILTERED] += READ_ONCE(sampler->filtered);
	stats->count[STACKBEAT_S_MISSED_TICKS] += READ_ONCE(sampler->missed_sum);
	stats->count[STACKBEAT_S_LONG_TICKS] += READ_ONCE(sampler->long_ticks);
	stats->count[STACKBEAT_S_OVERHEAD_NS] += sb_sampler_overhead(sampler);
	stats->count[STACKBEAT_S_STACK_COPIES] += READ_ONCE(sampler->stack_copies);
	stats->count[STACKBEAT_S_STACK_COPIES_LOST] += READ_ONCE(sampler->stack_copies_lost);
	stats->count[STACKBEAT_S_KERNEL_STACKS_UNWOUND] +=
		READ_ONCE(sampler->kernel_walks.unwound);
	stats->count[STACKBEAT_S_KERNEL_STACKS_COMPARED] +=
		READ_ONCE(sampler->kernel_walks.compared);
	stats->count[STACKBEAT_S_KERNEL_STACKS_DIFFERENT] +=
		READ_ONCE(sampler->kernel_walks.different);
	stats->count[STACKBEAT_S_FRAMES_BY_TABLES] += READ_ONCE(sampler->table_frames);
	/* All programs of the CPU share the cache: misses show which of its rules others use. */
	if (!sampler->session->restricted)
		stats->count[STACKBEAT_S_UNWIND_RULE_MISSES] += READ_ONCE(sampler->rule_misses);
	stats->count[STACKBEAT_S_TICK_TIME_NS] += READ_ONCE(sampler->tick_time);
	stats->count[STACKBEAT_S_THROTTLED] += READ_ONCE(sampler->throttled);
	if (rate && (!stats->count[STACKBEAT_S_RATE] || rate < stats->count[STACKBEAT_S_RATE]))
		stats->count[STACKBEAT_S_RATE] = rate;
}

/* Puts the counters from `stat` on, before `end`. */
static int sb_put_stats(struct sk_buff *skb, const struct sb_stats *stats,
			enum stackbeat_stat stat, enum stackbeat_stat end)
{
	for (; stat < end; stat++) {
		if (nla_put_u64_64bit(skb, stat, stats->count[stat], STACKBEAT_S_PAD))
			return -EMSGSIZE;
	}
	return 0;
}

static int sb_put_sums(struct sk_buff *skb, const struct sb_session *session)
{
	struct nlattr *nest = nla_nest_start(skb, STACKBEAT_A_STATS);
	struct sb_stats stats = {};
	struct sb_sampler *sampler;
	u32 cpu;

	if (!nest)
		return -EMSGSIZE;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		sampler = sb_session_find_sampler(session, cpu);
		if (sampler)
			sb_stats_add(&stats, sampler);
	}
	sb_spaces_count(session->spaces, stats.count);
	if (sb_put_stats(skb, &stats, STACKBEAT_S_TICKS, STACKBEAT_S_COUNT))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

static int sb_put_cpus(struct sk_buff *skb, const struct sb_session *session)
{
	struct nlattr *nest;
	struct sb_sampler *sampler;
	u32 cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		struct sb_stats stats = {};

		sampler = sb_session_find_sampler(session, cpu);
		if (!sampler)
			continue;
		sb_stats_add(&stats, sampler);
		nest = nla_nest_start(skb, STACKBEAT_A_CPU_STATS);
		if (!nest || nla_put_u32(skb, STACKBEAT_S_CPU, cpu) ||
		    sb_put_stats(skb, &stats, STACKBEAT_S_TICKS, STACKBEAT_S_ADDRESS_SPACES) ||
		    sb_put_stats(skb, &stats, STACKBEAT_S_STACK_COPIES,
				 STACKBEAT_S_ADDRESS_SPACES_ROOM) ||
		    sb_put_stats(skb, &stats, STACKBEAT_S_LONG_TICKS, STACKBEAT_S_COUNT))
			return -EMSGSIZE;
		nla_nest_end(skb, nest);
	}
	return 0;
}

/* Translates an id of the initial namespace to the session's opener; 0: no id there. */
static pid_t sb_id_for_opener(const struct sb_session *session, pid_t id)
{
	if (!session->restricted)
		return id;
	rcu_read_lock();
	id = pid_nr_ns(find_pid_ns(id, &init_pid_ns), session->pid_ns);
	rcu_read_unlock();
	return id;
}

static int sb_put_ids(struct sk_buff *skb, const struct sb_session *session,
		      enum stackbeat_attr attr, const struct sb_id_set *set)
{
	struct nlattr *nest = nla_nest_start(skb, attr);
	u32 i;

	if (!nest)
		return -EMSGSIZE;
	for (i = 0; set && i < set->count; i++) {
		if (nla_put_u32(skb, STACKBEAT_A_PID, sb_id_for_opener(session, set->ids[i])))
			return -EMSGSIZE;
	}
	nla_nest_end(skb, nest);
	return 0;
}

static int sb_put_cgroups(struct sk_buff *skb, const struct sb_filter *filter)
{
	struct nlattr *nest = nla_nest_start(skb, STACKBEAT_A_CGROUPS);
	u32 i;

	if (!nest)
		return -EMSGSIZE;
	for (i = 0; i < filter->cgroup_count; i++) {
		if (nla_put_u64_64bit(skb, STACKBEAT_A_CGROUP, filter->cgroups[i],
				      STACKBEAT_A_PAD))
			return -EMSGSIZE;
	}
	nla_nest_end(skb, nest);
	return 0;
}

static int sb_put_comms(struct sk_buff *skb, const struct sb_filter *filter)
{
	struct nlattr *nest = nla_nest_start(skb, STACKBEAT_A_EXCLUDE_COMMS);
	u32 i;

	if (!nest)
		return -EMSGSIZE;
	for (i = 0; i < filter->comm_count; i++) {
		if (nla_put_string(skb, STACKBEAT_A_COMM, filter->excluded_comms[i]))
			return -EMSGSIZE;
	}
	nla_nest_end(skb, nest);
	return 0;
}

static int sb_put_filter(struct sk_buff *skb, const struct sb_session *session)
{
	static const struct sb_filter none;
	const struct sb_filter *filter = rcu_dereference_protected(session->filter,
						lockdep_is_held(&session->lock));

	if (!filter)
		filter = &none;
	if (sb_put_ids(skb, session, STACKBEAT_A_PIDS, filter->processes) ||
	    sb_put_ids(skb, session, STACKBEAT_A_TIDS, filter->threads) ||
	    sb_put_cgroups(skb, filter) || sb_put_comms(skb, filter))
		return -EMSGSIZE;
	return 0;
}

static int sb_put_cpulist(struct sk_buff *skb, const struct sb_session *session)
{
	char *list;
	int err;

	if (cpumask_full(session->cpus))
		return nla_put_string(skb, STACKBEAT_A_CPUS, "");
	list = kasprintf(GFP_KERNEL, "%*pbl", cpumask_pr_args(session->cpus));
	if (!list)
		return -ENOMEM;
	err = nla_put_string(skb, STACKBEAT_A_CPUS, list);
	kfree(list);
	return err;
}

static int sb_put_settings(struct sk_buff *skb, const struct sb_session *session)
{
	if (nla_put_u32(skb, STACKBEAT_A_SESSION, session->id) ||
	    nla_put_u32(skb, STACKBEAT_A_STATE, session->state) ||
	    nla_put_u32(skb, STACKBEAT_A_RATE, session->rate) ||
	    nla_put_u32(skb, STACKBEAT_A_PARTS, session->parts) ||
	    nla_put_u8(skb, STACKBEAT_A_INHERIT, session->inherit) ||
	    nla_put_u8(skb, STACKBEAT_A_NO_JITTER, session->no_jitter) ||
	    nla_put_u8(skb, STACKBEAT_A_UNWIND_TABLES, session->unwind_tables) ||
	    nla_put_u32(skb, STACKBEAT_A_STACK_COPY, session->stack_copy) ||
	    nla_put_u32(skb, STACKBEAT_A_STACK_COPY_EVERY, session->stack_copy_every) ||
	    nla_put_u8(skb, STACKBEAT_A_GOROUTINES, session->goroutines) ||
	    nla_put_u8(skb, STACKBEAT_A_RESTRICTED, session->restricted) ||
	    nla_put_u32(skb, STACKBEAT_A_BUDGET, session->budget_permille) ||
	    nla_put_u32(skb, STACKBEAT_A_MAX_DEPTH, session->max_depth) ||
	    nla_put_u32(skb, STACKBEAT_A_RING_SIZE, session->page->ring_size) ||
	    nla_put_u32(skb, STACKBEAT_A_WATERMARK, session->watermark) ||
	    nla_put_u32(skb, STACKBEAT_A_OWNER, session->owner) ||
	    nla_put_string(skb, STACKBEAT_A_OWNER_COMM, session->owner_comm))
		return -EMSGSIZE;
	return 0;
}

/*
 * Puts the message of a session: `full`: with the attributes that a dump has no room for;
 * `cpulist`: with the list of its CPUs, which may not fit either.
 */
static int sb_put_session(struct sk_buff *skb, struct sb_session *session, u32 portid,
			  u32 seq, int flags, bool full, bool cpulist)
{
	void *header = genlmsg_put(skb, portid, seq, &sb_family, flags,
				   STACKBEAT_CMD_SESSION_GET);
	int err;

	if (!header)
		return -EMSGSIZE;
	mutex_lock(&session->lock);
	err = sb_put_settings(skb, session);
	if (!err && cpulist)
		err = sb_put_cpulist(skb, session);
	if (!err)
		err = sb_put_sums(skb, session);
	if (!err && full)
		err = sb_put_filter(skb, session);
	if (!err && full)
		err = sb_put_cpus(skb, session);
	mutex_unlock(&session->lock);
	if (err) {
		genlmsg_cancel(skb, header);
		return err;
	}
	genlmsg_end(skb, header);
	return 0;
}

/* An upper bound for the size of the message of sb_put_session(). */
static size_t sb_session_message_size(void)
{
	size_t stats = nla_total_size(0) +
		       STACKBEAT_S_COUNT * nla_total_size_64bit(sizeof(u64));

	return STACKBEAT_A_COUNT * nla_total_size(sizeof(u64)) +
	       nla_total_size(TASK_COMM_LEN) + nla_total_size(STACKBEAT_CPULIST_MAX) +
	       2 * STACKBEAT_PIDS_MAX * nla_total_size(sizeof(u32)) +
	       STACKBEAT_CGROUPS_MAX * nla_total_size_64bit(sizeof(u64)) +
	       STACKBEAT_COMMS_MAX * nla_total_size(STACKBEAT_COMM_SIZE) +
	       (nr_cpu_ids + 1) * stats;
}

static int sb_netlink_get(struct sk_buff *skb, struct genl_info *info)
{
	struct sb_session *session = sb_netlink_session(info);
	struct sk_buff *answer;
	int err = -ENOMEM;

	if (IS_ERR(session))
		return PTR_ERR(session);
	if (!sb_netlink_allowed(skb, session)) {
		sb_session_put(session);
		NL_SET_ERR_MSG(info->extack, "CAP_PERFMON is needed");
		return -EPERM;
	}
	answer = genlmsg_new(sb_session_message_size(), GFP_KERNEL);
	if (answer)
		err = sb_put_session(answer, session, info->snd_portid, info->snd_seq, 0, true,
				     true);
	if (err == -EMSGSIZE)
		err = sb_put_session(answer, session, info->snd_portid, info->snd_seq, 0, true,
				     false);
	sb_session_put(session);
	if (err) {
		nlmsg_free(answer);
		return err;
	}
	return genlmsg_reply(answer, info);
}

/* As sb_netlink_allowed(); args[1] of a dump caches whether the sender is capable. */
static bool sb_dump_allowed(struct netlink_callback *cb, const struct sb_session *session)
{
	enum { UNKNOWN, NO, YES };

	if (sb_netlink_owns(cb->skb, session))
		return true;
	if (cb->args[1] == UNKNOWN)
		cb->args[1] = sb_netlink_is_capable(cb->skb) ? YES : NO;
	return cb->args[1] == YES;
}

static int sb_dump_session(struct sk_buff *skb, struct netlink_callback *cb,
			   struct sb_session *session, bool cpulist)
{
	return sb_put_session(skb, session, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
			      NLM_F_MULTI, false, cpulist);
}

static int sb_netlink_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct sb_session *session;
	int err;

	/* args[0] is the next session id. */
	while ((session = sb_session_next(cb->args[0]))) {
		err = 0;
		if (sb_dump_allowed(cb, session))
			err = sb_dump_session(skb, cb, session, true);
		/* Too large for an empty message: omit the list, so that the dump can go on. */
		if (err == -EMSGSIZE && !skb->len)
			err = sb_dump_session(skb, cb, session, false);
		if (!err)
			cb->args[0] = session->id + 1;
		sb_session_put(session);
		if (err)
			return skb->len ? skb->len : err;
	}
	return skb->len;
}

static int sb_netlink_module(struct sk_buff *skb, struct genl_info *info)
{
	struct sk_buff *answer = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);
	void *header;

	if (!answer)
		return -ENOMEM;
	header = genlmsg_put_reply(answer, info, &sb_family, 0, STACKBEAT_CMD_MODULE_GET);
	if (!header || nla_put_u32(answer, STACKBEAT_A_ABI, STACKBEAT_ABI) ||
	    nla_put_string(answer, STACKBEAT_A_VERSION, STACKBEAT_VERSION) ||
	    nla_put_u32(answer, STACKBEAT_A_RATE_MAX, sb_rate_max) ||
	    nla_put_u32(answer, STACKBEAT_A_SESSIONS, sb_session_count())) {
		nlmsg_free(answer);
		return -EMSGSIZE;
	}
	genlmsg_end(answer, header);
	return genlmsg_reply(answer, info);
}

static const struct genl_ops sb_netlink_ops[] = {
	{
		.cmd = STACKBEAT_CMD_MODULE_GET,
		.policy = sb_no_policy,
		.maxattr = ARRAY_SIZE(sb_no_policy) - 1,
		.doit = sb_netlink_module,
	},
	{
		.cmd = STACKBEAT_CMD_SESSION_GET,
		.policy = sb_get_policy,
		.maxattr = ARRAY_SIZE(sb_get_policy) - 1,
		.doit = sb_netlink_get,
		.dumpit = sb_netlink_dump,
	},
	{
		.cmd = STACKBEAT_CMD_SESSION_SET,
		.policy = sb_set_policy,
		.maxattr = ARRAY_SIZE(sb_set_policy) - 1,
		.doit = sb_netlink_set,
	},
};

static const struct genl_multicast_group sb_netlink_groups[] = {
	{ .name = STACKBEAT_GENL_EVENTS },
};

static struct genl_family sb_family __ro_after_init = {
	.name = STACKBEAT_GENL_NAME,
	.version = STACKBEAT_GENL_VERSION,
	.module = THIS_MODULE,
	.netnsok = true,
	/* Sessions have their own locks, and starting one may take long. */
	.parallel_ops = true,
	.mcgrps = sb_netlink_groups,
	.n_mcgrps = ARRAY_SIZE(sb_netlink_groups),
	.ops = sb_netlink_ops,
	.n_ops = ARRAY_SIZE(sb_netlink_ops),
	SB_GENL_RESV_START_OP(STACKBEAT_CMD_COUNT)
};

int __init sb_netlink_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sb_numbers); i++)
		sb_set_policy[sb_numbers[i].attr].type =
			sb_numbers[i].size == sizeof(u8) ? NLA_U8 : NLA_U32;
	sb_events_init(&sb_family);
	return genl_register_family(&sb_family);
}

void sb_netlink_exit(void)
{
	genl_unregister_family(&sb_family);
}
