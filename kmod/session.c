// SPDX-License-Identifier: GPL-2.0
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/fs_struct.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/netlink.h>
#include <linux/nsproxy.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "access.h"
#include "capture.h"
#include "cycles.h"
#include "events.h"
#include "filter.h"
#include "memlock.h"
#include "module_symbols.h"
#include "params.h"
#include "probes.h"
#include "ring.h"
#include "sampler.h"
#include "samplers.h"
#include "session.h"
#include "space.h"
#include "space_files.h"

static LIST_HEAD(sb_sessions);	/* open sessions, under sb_sessions_lock */
static DEFINE_MUTEX(sb_sessions_lock);
static LIST_HEAD(sb_slots);	/* sessions that are not freed, under sb_sessions_lock */
static u32 sb_sessions_count;	/* sessions not closed yet, under sb_sessions_lock */
static u32 sb_sessions_last_id;	/* under sb_sessions_lock */

static struct workqueue_struct *sb_session_workqueue;

#define SB_NO_MEMORY "no memory for the rings, or RLIMIT_MEMLOCK (ulimit -l) is too small for them"

/* Takes references to the opener's namespaces and root: they limit a restricted session. */
static void sb_session_get_namespaces(struct sb_session *session)
{
	session->pid_ns = get_pid_ns(task_active_pid_ns(current));
	session->cgroup_ns = current->nsproxy->cgroup_ns;
	get_cgroup_ns(session->cgroup_ns);
	get_fs_root(current->fs, &session->root);
}

static void sb_session_put_namespaces(struct sb_session *session)
{
	if (!session->restricted)
		return;
	path_put(&session->root);
	put_cgroup_ns(session->cgroup_ns);
	put_pid_ns(session->pid_ns);
}

/* Does nothing for a session without a slot. */
static void sb_session_leave_slot(struct sb_session *session)
{
	if (list_empty(&session->slot))
		return;
	mutex_lock(&sb_sessions_lock);
	if (!session->closing)
		sb_sessions_count--;
	list_del(&session->slot);
	mutex_unlock(&sb_sessions_lock);
}

static void sb_session_free(struct sb_session *session)
{
	u32 cpu;

	/* In this order: captures point to queues of the spaces. Samplers do too, but none runs. */
	sb_captures_stop(session->spaces);
	sb_spaces_free(session->spaces);
	for (cpu = 0; session->samplers && cpu < nr_cpu_ids; cpu++)
		sb_sampler_free(session->samplers[cpu]);
	sb_session_uncharge(session, session->locked);
	/* Not before its memory is freed: the slots limit the memory of all sessions. */
	sb_session_leave_slot(session);
	sb_filter_free(rcu_dereference_protected(session->filter, true));
	sb_session_put_namespaces(session);
	sb_filter_account_put(session->filters);
	put_cred(session->cred);
	mem_cgroup_put(session->memcg);
	kfree(session->samplers);
	sb_free_mapped(session->page, session->page_pages, PAGE_SIZE);
	free_cpumask_var(session->cpus);
	mutex_destroy(&session->samplers_lock);
	mutex_destroy(&session->lock);
	kfree(session);
}

static void sb_session_set_max_depth(struct sb_session *session, u32 max_depth)
{
	session->max_depth = max_depth;
	WRITE_ONCE(session->overhead_max, sb_sampler_overhead_max(max_depth));
	WRITE_ONCE(session->record_max,
		   sizeof(struct stackbeat_sample) +
		   (STACKBEAT_KERNEL_FRAMES_MAX + max_depth + SB_SAMPLE_EXTRA) * sizeof(u64));
}

static u64 sb_budget_cycles(u32 permille)
{
	return sb_ns_to_cycles(STACKBEAT_BUDGET_WINDOW_NS / 1000 * permille);
}

static struct sb_session *sb_session_alloc(bool restricted)
{
	struct sb_session *session = kzalloc(sizeof(*session), GFP_KERNEL_ACCOUNT);

	if (!session)
		return NULL;
	mutex_init(&session->lock);
	mutex_init(&session->samplers_lock);
	init_waitqueue_head(&session->wait);
	INIT_LIST_HEAD(&session->list);
	INIT_LIST_HEAD(&session->slot);
	kref_init(&session->refs);

	session->rate = sb_default_rate();
	session->period = NSEC_PER_SEC / session->rate;
	session->budget_permille = STACKBEAT_BUDGET_DEFAULT;
	session->budget = sb_budget_cycles(STACKBEAT_BUDGET_DEFAULT);
	session->restricted = restricted;
	session->parts = restricted || security_locked_down(LOCKDOWN_PERF) ?
				 STACKBEAT_PART_USER : STACKBEAT_PARTS_ALL;
	sb_session_set_max_depth(session, STACKBEAT_USER_FRAMES_DEFAULT);
	session->inherit = true;
	session->unwind_tables = true;
	session->state = STACKBEAT_STATE_NEW;
	session->cred = get_current_cred();
	session->memcg = get_mem_cgroup_from_mm(current->mm);
	if (restricted)
		sb_session_get_namespaces(session);
	rcu_read_lock();
	session->owner = sb_session_tgid(session, current);
	rcu_read_unlock();
	get_task_comm(session->owner_comm, current->group_leader);
	session->locked_max = ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK) ?
				      ULONG_MAX : rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	return session;
}

/* Allocates the memory of a session that has a slot. */
static int sb_session_prepare(struct sb_session *session)
{
	struct sb_spaces *spaces;
	int err;

	if (!zalloc_cpumask_var(&session->cpus, GFP_KERNEL_ACCOUNT))
		return -ENOMEM;
	cpumask_setall(session->cpus);
	session->samplers = kcalloc(nr_cpu_ids, sizeof(*session->samplers), GFP_KERNEL_ACCOUNT);
	session->page = sb_alloc_mapped(PAGE_SIZE, NUMA_NO_NODE, &session->page_pages);
	session->filters = sb_filter_account_alloc();
	if (!session->samplers || !session->page || !session->filters)
		return -ENOMEM;
	session->page->magic = STACKBEAT_MAGIC;
	session->page->abi = STACKBEAT_ABI;
	session->page->cpus = nr_cpu_ids;
	session->page->ring_size = STACKBEAT_RING_SIZE_DEFAULT;
	session->watermark = session->page->ring_size / 2;
	session->page_mapping.memory = session->page;
	session->page_mapping.pages = 1;

	err = sb_session_charge(session, SB_META_BYTES);
	if (err)
		return err;
	spaces = sb_spaces_alloc(session, sb_capture_work);
	if (IS_ERR(spaces))
		return PTR_ERR(spaces);
	session->spaces = spaces;
	if (session->restricted)
		spaces->files.root = &session->root;
	/* Called without any lock: it waits for the opener's own mmap_lock. */
	err = sb_spaces_test_probe();
	return err ?: sb_probes_get();
}

/* Whether one more session is within the limits: in total, of all users, of its user. */
static bool sb_session_fits(const struct sb_session *session)
{
	const struct sb_session *other;
	u32 restricted = 0, same = 0, closing = 0, same_closing = 0;
	bool mine;

	lockdep_assert_held(&sb_sessions_lock);

	if (sb_sessions_count == STACKBEAT_SESSIONS_MAX)
		return false;
	if (!session->restricted)
		return true;
	list_for_each_entry(other, &sb_slots, slot) {
		mine = other->restricted && uid_eq(other->cred->uid, session->cred->uid);
		closing += other->restricted && other->closing;
		same_closing += mine && other->closing;
		restricted += other->restricted && !other->closing;
		same += mine && !other->closing;
	}
	/* One person may have many user ids, in a user namespace of their own. */
	return restricted < STACKBEAT_RESTRICTED_SESSIONS_MAX &&
	       same < STACKBEAT_RESTRICTED_USER_SESSIONS_MAX &&
	       closing < 2 * STACKBEAT_RESTRICTED_SESSIONS_MAX &&
	       same_closing < 2 * STACKBEAT_RESTRICTED_USER_SESSIONS_MAX;
}

/* Takes a slot before memory is allocated for the session. EUSERS. */
static int sb_session_take_slot(struct sb_session *session)
{
	bool fits;

	mutex_lock(&sb_sessions_lock);
	/* Ids are never used twice. */
	fits = sb_session_fits(session) && sb_sessions_last_id < U32_MAX - STACKBEAT_SESSIONS_MAX;
	if (fits) {
		sb_sessions_count++;
		list_add_tail(&session->slot, &sb_slots);
	}
	mutex_unlock(&sb_sessions_lock);
	return fits ? 0 : -EUSERS;
}

struct sb_session *sb_session_open(bool restricted)
{
	struct sb_session *session = sb_session_alloc(restricted);
	int err;

	if (!session)
		return ERR_PTR(-ENOMEM);
	err = sb_session_take_slot(session);
	if (!err)
		err = sb_session_prepare(session);
	if (err) {
		sb_session_free(session);
		return ERR_PTR(err);
	}

	if (!session->restricted)
		sb_module_symbols_follow();
	mutex_lock(&sb_sessions_lock);
	session->id = ++sb_sessions_last_id;
	session->page->session = session->id;
	list_add_tail(&session->list, &sb_sessions);
	mutex_unlock(&sb_sessions_lock);
	sb_event_send(session, STACKBEAT_EVENT_OPENED, 0, 0);
	return session;
}

static void sb_session_free_work(struct work_struct *work)
{
	struct sb_session *session = container_of(to_rcu_work(work), struct sb_session, free);

	sb_probes_put();
	sb_session_free(session);
}

/* Probes of mappings use session->spaces without a lock, until the grace period ends. */
static void sb_session_release(struct kref *refs)
{
	struct sb_session *session = container_of(refs, struct sb_session, refs);

	INIT_RCU_WORK(&session->free, sb_session_free_work);
	queue_rcu_work(sb_session_workqueue, &session->free);
}

void sb_session_put(struct sb_session *session)
{
	kref_put(&session->refs, sb_session_release);
}

/* Stops the samplers of a running session, and sets its state: paused or stopped. */
static void sb_session_stop(struct sb_session *session, u32 state)
{
	bool running = session->state == STACKBEAT_STATE_RUNNING;

	lockdep_assert_held(&session->lock);

	WRITE_ONCE(session->state, state);
	if (running)
		sb_samplers_stop(session);
	wake_up_interruptible(&session->wait);
}

/* Replaces the session's filter. Ticks may use the old one until a grace period has passed. */
static struct sb_filter *sb_session_swap_filter(struct sb_session *session,
						struct sb_filter *filter)
{
	lockdep_assert_held(&session->lock);

	return rcu_replace_pointer(session->filter, filter, lockdep_is_held(&session->lock));
}

void sb_session_close(struct sb_session *session)
{
	mutex_lock(&sb_sessions_lock);
	list_del(&session->list);
	session->closing = true;
	sb_sessions_count--;
	mutex_unlock(&sb_sessions_lock);
	if (!session->restricted)
		sb_module_symbols_unfollow();

	mutex_lock(&session->lock);
	WRITE_ONCE(session->closed, true);
	sb_session_stop(session, STACKBEAT_STATE_STOPPED);
	sb_spaces_unfollow(session->spaces);
	mutex_unlock(&session->lock);
	sb_event_send(session, STACKBEAT_EVENT_CLOSED, 0, 0);
	/* Now: the user may open another session at once. (Its cgroup is charged until freed.) */
	sb_session_uncharge(session, session->locked);
	sb_session_put(session);
}

struct sb_session *sb_session_next(u32 id)
{
	struct sb_session *session, *found = NULL;

	mutex_lock(&sb_sessions_lock);
	list_for_each_entry(session, &sb_sessions, list) {
		/* New ones are added at the end: ids ascend. */
		if (session->id >= id) {
			kref_get(&session->refs);
			found = session;
			break;
		}
	}
	mutex_unlock(&sb_sessions_lock);
	return found;
}

struct sb_session *sb_session_get(u32 id)
{
	struct sb_session *session = sb_session_next(id);

	if (session && session->id != id) {
		sb_session_put(session);
		return NULL;
	}
	return session;
}

/*
 * Returns the session after `last` (NULL: the first one) that shares its unwind tables with `session`,
 * which is among them, or NULL. Puts `last`.
 */
static struct sb_session *sb_session_next_sharing(const struct sb_session *session,
						  struct sb_session *last)
{
	struct sb_session *next;
	u32 id = 0;

	if (last) {
		id = last->id + 1;
		sb_session_put(last);
	}
	while ((next = sb_session_next(id))) {
		if (next == session || (!session->restricted && !next->restricted))
			break;
		id = next->id + 1;
		sb_session_put(next);
	}
	return next;
}

int sb_session_set_table(struct sb_session *session, const struct stackbeat_unwind_push *push)
{
	struct sb_session *other = NULL;
	struct sb_unwind_object *object;
	int err;

	err = sb_spaces_set_table(session->spaces, push, &object);
	if (err == -ENOSPC) {
		/* Processes that have ended keep tables. */
		while ((other = sb_session_next_sharing(session, other)))
			sb_spaces_sweep(other->spaces);
		err = sb_spaces_set_table(session->spaces, push, &object);
	}
	if (err == -ENOSPC)
		atomic64_inc(&session->spaces->tables_refused);
	if (err)
		return err;
	/* Their readers, which see that the file has a table, do not set it. */
	while ((other = sb_session_next_sharing(session, other)))
		sb_spaces_update_table(other->spaces, object);
	sb_unwind_object_put(object);
	return 0;
}

u32 sb_session_count(void)
{
	u32 count;

	mutex_lock(&sb_sessions_lock);
	count = sb_sessions_count;
	mutex_unlock(&sb_sessions_lock);
	return count;
}

static bool sb_session_has_samplers(const struct sb_session *session)
{
	return session->page->rings;
}

/* Allocates the samplers of online CPUs here, where an error can be reported. */
static int sb_session_start(struct sb_session *session,
			    struct netlink_ext_ack *extack)
{
	struct sb_sampler *sampler = NULL;
	u32 cpu;

	lockdep_assert_held(&session->lock);

	if (session->state == STACKBEAT_STATE_RUNNING)
		return 0;

	for_each_cpu_and(cpu, session->cpus, cpu_online_mask) {
		sampler = sb_session_ensure_sampler(session, cpu);
		if (IS_ERR(sampler))
			break;
	}
	if (!sampler) {
		NL_SET_ERR_MSG(extack, "no CPU of the filter is online");
		return -EINVAL;
	}
	if (IS_ERR(sampler)) {
		NL_SET_ERR_MSG(extack, SB_NO_MEMORY);
		return PTR_ERR(sampler);
	}

	sb_spaces_follow(session->spaces);
	WRITE_ONCE(session->state, STACKBEAT_STATE_RUNNING);
	sb_samplers_start(session);
	return 0;
}

void sb_session_add_online_cpus(struct sb_session *session)
{
	struct sb_sampler *sampler;
	u32 cpu;

	mutex_lock(&session->lock);
	if (session->state == STACKBEAT_STATE_RUNNING) {
		for_each_cpu_and(cpu, session->cpus, cpu_online_mask) {
			sampler = sb_session_ensure_sampler(session, cpu);
			/* Without memory the session does not sample the CPU. */
			if (IS_ERR(sampler) || READ_ONCE(sampler->running))
				continue;
			if (!sb_samplers_start_on(session, cpu))
				continue;
			sb_sampler_report_offline(sampler);
			sb_event_send(session, STACKBEAT_EVENT_CPU_ONLINE, cpu, 0);
		}
	}
	mutex_unlock(&session->lock);
}

static bool sb_settings_have(const struct sb_settings *settings,
			     enum stackbeat_attr attr)
{
	return settings->set & BIT_ULL(attr);
}

/* These settings need a privileged opener, not sender: the opener reads the session's data. */
static int sb_session_check_restricted(const struct sb_session *session,
				       const struct sb_settings *settings,
				       struct netlink_ext_ack *extack)
{
	if (sb_settings_have(settings, STACKBEAT_A_PARTS) &&
	    settings->parts != STACKBEAT_PART_USER) {
		NL_SET_ERR_MSG(extack, "the kernel part needs CAP_PERFMON");
		return -EPERM;
	}
	if (sb_settings_have(settings, STACKBEAT_A_RATE) &&
	    settings->rate > STACKBEAT_RESTRICTED_RATE_MAX) {
		NL_SET_ERR_MSG(extack, "a higher rate needs CAP_PERFMON");
		return -EPERM;
	}
	if (sb_settings_have(settings, STACKBEAT_A_BUDGET) &&
	    settings->budget_permille > STACKBEAT_BUDGET_DEFAULT) {
		NL_SET_ERR_MSG(extack, "a larger budget needs CAP_PERFMON");
		return -EPERM;
	}
	if (sb_settings_have(settings, STACKBEAT_A_RING_SIZE) &&
	    settings->ring_size > STACKBEAT_RING_SIZE_DEFAULT) {
		NL_SET_ERR_MSG(extack, "larger rings need CAP_PERFMON");
		return -EPERM;
	}
	return 0;
}

/* Checks the settings against the session's state. */
static int sb_session_check(const struct sb_session *session,
			    const struct sb_settings *settings,
			    struct netlink_ext_ack *extack)
{
	u32 watermark = session->watermark_set ? session->watermark : 0;
	u32 ring_size = session->page->ring_size;

	if (session->closed) {
		NL_SET_ERR_MSG(extack, "the session was closed");
		return -ENODEV;
	}
	if (session->restricted) {
		int err = sb_session_check_restricted(session, settings, extack);

		if (err)
			return err;
	}
	if (sb_settings_have(settings, STACKBEAT_A_STACK_COPY_EVERY) &&
	    session->state != STACKBEAT_STATE_NEW) {
		NL_SET_ERR_MSG(extack, "extra stack copies can't be set once the session was started");
		return -EBUSY;
	}
	if (sb_settings_have(settings, STACKBEAT_A_RING_SIZE)) {
		if (sb_session_has_samplers(session)) {
			NL_SET_ERR_MSG(extack, "the ring size can't be changed once a ring was allocated");
			return -EBUSY;
		}
		ring_size = settings->ring_size;
	}
	if (sb_settings_have(settings, STACKBEAT_A_WATERMARK))
		watermark = settings->watermark;
	if (watermark > ring_size) {
		NL_SET_ERR_MSG(extack, "the watermark must not be larger than the ring size");
		return -ERANGE;
	}
	return 0;
}

static void sb_session_set_rings(struct sb_session *session,
				 const struct sb_settings *settings)
{
	u32 copy = sb_settings_have(settings, STACKBEAT_A_STACK_COPY) ? settings->stack_copy :
									 session->stack_copy;

	if (sb_settings_have(settings, STACKBEAT_A_RING_SIZE))
		WRITE_ONCE(session->page->ring_size, settings->ring_size);
	if (sb_settings_have(settings, STACKBEAT_A_WATERMARK)) {
		session->watermark_set = settings->watermark;
		WRITE_ONCE(session->watermark, settings->watermark);
	}
	/* Copies of stacks fill half of a ring: the reader wakes before that half is full. */
	if (!session->watermark_set)
		WRITE_ONCE(session->watermark, session->page->ring_size / (copy ? 4 : 2));
}

#define SB_FILTER_ATTRS                                                        \
	(BIT_ULL(STACKBEAT_A_PIDS) | BIT_ULL(STACKBEAT_A_TIDS) |               \
	 BIT_ULL(STACKBEAT_A_CGROUPS) | BIT_ULL(STACKBEAT_A_EXCLUDE_COMMS))

static struct sb_id_set *sb_id_set_share(struct sb_id_set *set)
{
	if (set)
		kref_get(&set->refs);
	return set;
}

/* Copies members that the settings do not set from the session's filter to the new one. */
static void sb_session_complete_filter(const struct sb_session *session,
				       struct sb_settings *settings)
{
	static const struct sb_filter none;
	const struct sb_filter *old = rcu_dereference_protected(session->filter,
						lockdep_is_held(&session->lock));
	struct sb_filter *filter = settings->filter;

	if (!old)
		old = &none;
	if (!sb_settings_have(settings, STACKBEAT_A_PIDS))
		filter->processes = sb_id_set_share(old->processes);
	if (!sb_settings_have(settings, STACKBEAT_A_TIDS))
		filter->threads = sb_id_set_share(old->threads);
	if (!sb_settings_have(settings, STACKBEAT_A_CGROUPS)) {
		filter->cgroup_count = old->cgroup_count;
		memcpy(filter->cgroups, old->cgroups, sizeof(filter->cgroups));
	}
	if (!sb_settings_have(settings, STACKBEAT_A_EXCLUDE_COMMS)) {
		filter->comm_count = old->comm_count;
		memcpy(filter->excluded_comms, old->excluded_comms,
		       sizeof(filter->excluded_comms));
	}
}

static bool sb_filter_is_empty(const struct sb_filter *filter)
{
	return !filter->processes && !filter->threads && !filter->cgroup_count &&
	       !filter->comm_count;
}

/* Sets the session's filter. The old one is left in the settings, to be freed. */
static void sb_session_set_filter(struct sb_session *session, struct sb_settings *settings)
{
	struct sb_filter *filter = NULL;

	sb_session_complete_filter(session, settings);
	if (!sb_filter_is_empty(settings->filter)) {
		swap(filter, settings->filter);
		filter->published = true;
	}
	sb_filter_free(settings->filter);
	settings->filter = sb_session_swap_filter(session, filter);
}

/*
 * Also updates the session's filter: another message may have set it meanwhile, with the old flag.
 */
static void sb_session_set_inherit(struct sb_session *session,
				   const struct sb_settings *settings)
{
	const struct sb_filter *filter = rcu_dereference_protected(session->filter,
						lockdep_is_held(&session->lock));

	if (sb_settings_have(settings, STACKBEAT_A_INHERIT))
		WRITE_ONCE(session->inherit, settings->inherit);
	if (filter && filter->processes)
		WRITE_ONCE(filter->processes->inherit, session->inherit);
}

static int sb_session_apply(struct sb_session *session,
			    struct sb_settings *settings,
			    struct netlink_ext_ack *extack)
{
	bool cpus_or_rate = false;
	int err;

	mutex_lock(&session->samplers_lock);
	err = sb_session_check(session, settings, extack);
	if (!err)
		sb_session_set_rings(session, settings);
	mutex_unlock(&session->samplers_lock);
	if (err)
		return err;

	if (settings->set & SB_FILTER_ATTRS)
		sb_session_set_filter(session, settings);
	if (sb_settings_have(settings, STACKBEAT_A_PARTS))
		WRITE_ONCE(session->parts, settings->parts);
	if (sb_settings_have(settings, STACKBEAT_A_MAX_DEPTH))
		sb_session_set_max_depth(session, settings->max_depth);
	sb_session_set_inherit(session, settings);
	if (sb_settings_have(settings, STACKBEAT_A_NO_JITTER) &&
	    settings->no_jitter != session->no_jitter) {
		WRITE_ONCE(session->no_jitter, settings->no_jitter);
		sb_samplers_retime(session);
	}
	if (sb_settings_have(settings, STACKBEAT_A_UNWIND_TABLES))
		WRITE_ONCE(session->unwind_tables, settings->unwind_tables);
	if (sb_settings_have(settings, STACKBEAT_A_GOROUTINES))
		WRITE_ONCE(session->goroutines, settings->goroutines);
	if (sb_settings_have(settings, STACKBEAT_A_STACK_COPY))
		WRITE_ONCE(session->stack_copy, settings->stack_copy);
	if (sb_settings_have(settings, STACKBEAT_A_STACK_COPY_EVERY))
		WRITE_ONCE(session->stack_copy_every, settings->stack_copy_every);
	if (sb_settings_have(settings, STACKBEAT_A_BUDGET)) {
		session->budget_permille = settings->budget_permille;
		WRITE_ONCE(session->budget, sb_budget_cycles(settings->budget_permille));
	}
	if (sb_settings_have(settings, STACKBEAT_A_CPUS)) {
		cpus_or_rate = !cpumask_equal(session->cpus, settings->cpus);
		cpumask_copy(session->cpus, settings->cpus);
	}
	if (sb_settings_have(settings, STACKBEAT_A_RATE) && settings->rate != session->rate) {
		WRITE_ONCE(session->rate, settings->rate);
		WRITE_ONCE(session->period, NSEC_PER_SEC / settings->rate);
		cpus_or_rate = true;
	}
	if (cpus_or_rate && session->state == STACKBEAT_STATE_RUNNING)
		err = sb_samplers_update(session);
	if (err)
		NL_SET_ERR_MSG(extack, SB_NO_MEMORY);
	return err;
}

int sb_session_set(struct sb_session *session, struct sb_settings *settings,
		   struct netlink_ext_ack *extack)
{
	int err;

	mutex_lock(&session->lock);
	err = sb_session_apply(session, settings, extack);
	if (!err && sb_settings_have(settings, STACKBEAT_A_STATE)) {
		if (settings->state == STACKBEAT_STATE_RUNNING)
			err = sb_session_start(session, extack);
		else
			sb_session_stop(session, settings->state);
	}
	mutex_unlock(&session->lock);
	if (!err)
		sb_event_send(session, STACKBEAT_EVENT_CHANGED, 0, 0);
	return err;
}

int sb_session_init(void)
{
	sb_session_workqueue = alloc_workqueue("stackbeat-sessions", WQ_UNBOUND, 0);
	return sb_session_workqueue ? 0 : -ENOMEM;
}

void sb_session_exit(void)
{
	rcu_barrier();
	destroy_workqueue(sb_session_workqueue);
	/* The last session may have left callbacks. */
	rcu_barrier();
}
