// SPDX-License-Identifier: GPL-2.0
#include <linux/dcache.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/path.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "access.h"
#include "compat/compat.h"
#include "events.h"
#include "kprobe_test.h"
#include "limits.h"
#include "memlock.h"
#include "params.h"
#include "space.h"
#include "worker_memory.h"

/* Interval of the tests whether the probes of mappings run. */
#define SB_PROBE_TEST_JIFFIES (STACKBEAT_MMAP_PROBE_TEST_SECONDS * HZ)

/* Minimum interval of worker runs that poll() causes when the reader has made room. */
#define SB_RESUME_JIFFIES (msecs_to_jiffies(10) ?: 1)

static struct workqueue_struct *sb_space_workqueue;
static struct workqueue_struct *sb_memory_workqueue; /* frees memory of processes that have ended */

/* Spaces of sessions that have been started; the tables of others are empty. */
static LIST_HEAD(sb_spaces_followed);
static DEFINE_SPINLOCK(sb_spaces_lock); /* serializes changes of the list */

void sb_spaces_kick(struct sb_spaces *spaces, unsigned long delay)
{
	/* mod_delayed_work() also runs work at once that is queued for later. */
	if (delay)
		queue_delayed_work(sb_space_workqueue, &spaces->work, delay);
	else
		mod_delayed_work(sb_space_workqueue, &spaces->work, 0);
}

void sb_spaces_resume(struct sb_spaces *spaces)
{
	unsigned long next = READ_ONCE(spaces->resumed) + SB_RESUME_JIFFIES, now = jiffies;

	if (!READ_ONCE(spaces->full) ||
	    READ_ONCE(spaces->ring.consumer->tail) == READ_ONCE(spaces->full_tail))
		return;
	if (time_before(now, next)) {
		sb_spaces_kick(spaces, next - now);
		return;
	}
	WRITE_ONCE(spaces->resumed, now);
	sb_spaces_kick(spaces, 0);
}

/* Whether an entry, which may be incomplete, is of the current task's memory. */
static __always_inline bool sb_space_has_memory(const struct sb_space *space)
{
	return READ_ONCE(sb_space_set(space)->mms[space->way]) == current->mm;
}

/* Whether an entry, which may be incomplete, is of the current task's space. */
static __always_inline bool sb_space_matches(const struct sb_space *space)
{
	return sb_space_has_memory(space) &&
	       READ_ONCE(space->exec_id) == current->self_exec_id &&
	       READ_ONCE(space->start_time) == current->group_leader->start_boottime &&
	       READ_ONCE(space->pid) == current->tgid;
}

/* As sb_space_matches(), but reliably. If so, sets id and generation. */
static __always_inline bool sb_space_is_current(struct sb_space *space, u64 *id,
						u32 *generation)
{
	/* Pairs with the releases in sb_space_insert() and sb_space_claim(). */
	u32 seq = smp_load_acquire(&space->seq);

	if ((seq & 1) || !sb_space_matches(space))
		return false;
	*id = READ_ONCE(space->id);
	*generation = atomic_read(&space->generation);
	/* Pairs with the release in sb_space_insert(). */
	smp_rmb();
	return READ_ONCE(space->seq) == seq;
}

/* Number of levels of the table, whose sets are then visible. */
static __always_inline u32 sb_spaces_level_count(const struct sb_spaces *spaces)
{
	/* Pairs with the release in sb_spaces_add_level(). */
	return smp_load_acquire(&spaces->level_count);
}

/* log2 of the number of sets of a level. */
static __always_inline u32 sb_level_bits(u32 level)
{
	return SB_SETS_BITS + (level ? level - 1 : 0);
}

/* The set in which a space may be in a level. */
static __always_inline struct sb_space_set *
sb_spaces_set(const struct sb_spaces *spaces, u32 level, const struct mm_struct *mm)
{
	return &spaces->levels[level][hash_ptr(mm, sb_level_bits(level))];
}

/*
 * Prevents replacement of the entry, until sb_space_release(). Waits for a sampler of
 * another CPU that has claimed the entry; it has interrupts off and waits for nothing. A
 * sampler that claims the entry later sees the hold, and restores the entry.
 */
static void sb_space_hold(struct sb_space *space)
{
	atomic_inc(&space->holds);
	smp_mb__after_atomic(); /* pairs with the barrier of cmpxchg() in sb_space_claim() */
	while (smp_load_acquire(&space->seq) & 1)
		cpu_relax();
}
NOKPROBE_SYMBOL(sb_space_hold);

void sb_space_release(struct sb_space *space)
{
	smp_mb__before_atomic(); /* accesses during the hold come before its end */
	atomic_dec(&space->holds);
}
NOKPROBE_SYMBOL(sb_space_release);

/* Holds an entry if it still has this id. */
static bool sb_space_hold_id(struct sb_space *space, u64 id)
{
	sb_space_hold(space);
	if (READ_ONCE(space->id) == id)
		return true;
	sb_space_release(space);
	return false;
}

/*
 * Claims an entry, unless it has changed since its `seq` was read, to be filled by the caller. False:
 * it has, or it is held.
 */
static bool sb_space_claim(struct sb_space *space, u32 seq)
{
	if ((seq & 1) || atomic_read(&space->holds) || cmpxchg(&space->seq, seq, seq + 1) != seq)
		return false;
	if (!atomic_read(&space->holds))
		return true;
	/* Pairs with the acquire in sb_space_is_current(). */
	smp_store_release(&space->seq, seq + 2);
	return false;
}

/* Claims an entry for memory, preferably a free one. NULL: all are held. */
static struct sb_space *sb_space_claim_slot(struct sb_spaces *spaces, const struct mm_struct *mm,
					    u64 id)
{
	u32 levels = sb_spaces_level_count(spaces), level, way, i;
	struct sb_space *space;

	for (level = 0; level < levels; level++) {
		space = sb_spaces_set(spaces, level, mm)->ways;
		for (way = 0; way < SB_WAYS; way++, space++) {
			if (!READ_ONCE(space->id) && sb_space_claim(space, READ_ONCE(space->seq)))
				return space;
		}
	}
	for (i = 0; i < levels * SB_WAYS; i++) {
		way = (id + i) % (levels * SB_WAYS);
		space = &sb_spaces_set(spaces, way / SB_WAYS, mm)->ways[way % SB_WAYS];
		if (sb_space_claim(space, READ_ONCE(space->seq)))
			return space;
	}
	return NULL;
}

/*
 * Inserts the current task's space into the table, and holds its entry. NULL: all entries of
 * its set are held by requests. (Mmap events of a requested space need its entry.)
 */
static struct sb_space *sb_space_insert(struct sb_spaces *spaces, u64 id, u64 now)
{
	struct sb_space *space = sb_space_claim_slot(spaces, current->mm, id);

	if (!space)
		return NULL;
	atomic_inc(&space->holds);
	WRITE_ONCE(space->id, id);
	smp_wmb(); /* pairs with smp_rmb() in sb_sampler_space() */
	WRITE_ONCE(sb_space_set(space)->mms[space->way], current->mm);
	WRITE_ONCE(space->pid, current->tgid);
	WRITE_ONCE(space->start_time, current->group_leader->start_boottime);
	WRITE_ONCE(space->exec_id, current->self_exec_id);
	WRITE_ONCE(space->gap, 0);
	WRITE_ONCE(space->next_read, now + SB_REREAD_NS);
	WRITE_ONCE(space->requested, true);
	space->rereads = 0;
	atomic_set(&space->generation, 1);
	/* Pairs with the acquire in sb_space_is_current(). */
	smp_store_release(&space->seq, READ_ONCE(space->seq) + 1);
	return space;
}

/*
 * Queues a request to read the mappings of the current task's space: for the first time
 * (gap 0), or again after mmap events were lost from the generation `gap` on. Its entry, if
 * there is one, is held until the mappings are read. False: the queue is full, or the memory
 * is being freed.
 */
static bool sb_space_queue_request(struct sb_space_cursor *cursor, u64 id, struct sb_space *space,
				   u32 gap)
{
	struct sb_request_queue *queue = cursor->queue;
	struct sb_spaces *spaces = cursor->spaces;
	struct task_struct *leader = current->group_leader;
	const struct pid *pid = task_tgid(current);
	struct sb_space_request *request;

	/* Pairs with the release in sb_spaces_read_queue(). */
	if (queue->head - smp_load_acquire(&queue->tail) == SB_PENDING_MAX)
		return false;
	if (!mmget_not_zero(current->mm))
		return false;
	get_task_struct(leader);
	/* Incremented before a sample with the new generation is published. */
	atomic_inc(spaces->pending);

	request = &queue->items[queue->head % SB_PENDING_MAX];
	request->mm = current->mm;
	request->leader = leader;
	request->space = space;
	request->id = id;
	request->start_time = leader->start_boottime;
	/* Each reading has its own generation, even if nothing has changed since the last one. */
	if (gap) {
		atomic_inc(&space->generation);
		WRITE_ONCE(space->requested, true);
	}
	request->gap = gap;
	request->pid = sb_session_tgid(spaces->session, current);
	request->ns_pid = pid ? pid->numbers[pid->level].nr : 0;
	request->parent = sb_session_tgid(spaces->session,
					  rcu_dereference_sched(leader->real_parent));
	/* Its lock can't be taken here: a concurrent change may mix two names; still terminated. */
	data_race(memcpy(request->comm, leader->comm, sizeof(request->comm)));
	request->comm[sizeof(request->comm) - 1] = '\0';

	/* Pairs with the acquire in sb_spaces_read_queue(). */
	smp_store_release(&queue->head, queue->head + 1);
	sb_spaces_kick(spaces, 0);
	return true;
}

static void sb_space_cursor_update(struct sb_space_cursor *cursor, const struct sb_space *space,
				   u64 id)
{
	cursor->last = (struct sb_last_space){
		.mm = space ? current->mm : NULL,
		.start_time = current->group_leader->start_boottime,
		.exec_id = current->self_exec_id,
		.pid = current->tgid,
		.id = id,
		.space = space,
		.slot = space ? sb_space_slot(space) : NULL,
	};
}

/* Records that the mmap event of this generation is lost. */
static void sb_space_record_gap(struct sb_space *space, u32 generation)
{
	u32 gap = READ_ONCE(space->gap);
	u32 seen;

	while (!gap || generation < gap) {
		seen = cmpxchg(&space->gap, gap, generation);
		if (seen == gap)
			return;
		gap = seen;
	}
}
NOKPROBE_SYMBOL(sb_space_record_gap);

static noinline u64 sb_space_add(struct sb_space_cursor *cursor, u64 now, u32 *generation)
{
	struct sb_spaces *spaces = cursor->spaces;
	struct sb_request_queue *queue = cursor->queue;
	struct sb_space *space;
	u64 id;

	*generation = 0;
	if (queue->head - READ_ONCE(queue->tail) == SB_PENDING_MAX) {
		queue->samples_without_space++;
		return 0;
	}
	id = atomic64_inc_return(&spaces->last_id);
	space = sb_space_insert(spaces, id, now);
	if (!sb_space_queue_request(cursor, id, space, 0)) {
		if (space) {
			/* One of its next samples requests a reread. */
			sb_space_record_gap(space, 1);
			WRITE_ONCE(space->requested, false);
			sb_space_release(space);
		}
		queue->samples_without_space++;
		return 0;
	}
	sb_space_cursor_update(cursor, space, id);
	*generation = 1;
	return id;
}

/* Whether the current process is exiting: a reread is useless, and would delay the exit. */
static bool sb_space_is_ending(void)
{
	return (current->flags & PF_EXITING) ||
	       (READ_ONCE(current->signal->flags) & SIGNAL_GROUP_EXIT);
}

/*
 * Delays the next reread, with exponential backoff that is reset after a long time without loss:
 * a process that causes losses all the time, maybe on purpose, is reread rarely.
 */
static void sb_space_back_off(struct sb_space *space, u64 now)
{
	u64 distance = SB_REREAD_NS;

	if (now - space->next_read > SB_REREAD_MAX_NS)
		space->rereads = 0;
	distance <<= ++space->rereads;
	if (distance >= SB_REREAD_MAX_NS) {
		distance = SB_REREAD_MAX_NS;
		space->rereads--;
	}
	WRITE_ONCE(space->next_read, now + distance);
}

static bool sb_space_queue_reread(struct sb_space_cursor *cursor, struct sb_space *space, u64 id,
				  u64 now)
{
	u32 gap;

	sb_space_back_off(space, now);
	gap = xchg(&space->gap, 0);
	if (gap && sb_space_queue_request(cursor, id, space, gap))
		return true;
	if (gap)
		sb_space_record_gap(space, gap);
	return false;
}

/* Requests a reread of the mappings after mmap events were lost. */
static noinline void sb_space_reread(struct sb_space_cursor *cursor, struct sb_space *space,
				     u64 id, u64 now)
{
	struct sb_spaces *spaces = cursor->spaces;

	if (READ_ONCE(space->requested) || now < READ_ONCE(space->next_read) ||
	    now < READ_ONCE(spaces->next_reread) || sb_space_is_ending() ||
	    atomic_cmpxchg(&spaces->rereading, 0, 1))
		return;
	/* If the request is queued, the worker ends the hold and resets spaces->rereading. */
	if (sb_space_hold_id(space, id)) {
		/* Again, as only now no other request can be queued. */
		if (!READ_ONCE(space->requested) && sb_space_queue_reread(cursor, space, id, now))
			return;
		sb_space_release(space);
	}
	atomic_set(&spaces->rereading, 0);
}

u64 sb_space_lookup(struct sb_space_cursor *cursor, u64 now, u32 *generation)
{
	u32 levels = sb_spaces_level_count(cursor->spaces), level, way;
	struct sb_space *space;
	u64 id;

	for (level = 0; level < levels; level++) {
		space = sb_spaces_set(cursor->spaces, level, current->mm)->ways;
		for (way = 0; way < SB_WAYS; way++, space++) {
			if (!sb_space_is_current(space, &id, generation))
				continue;
			sb_space_cursor_update(cursor, space, id);
			if (unlikely(READ_ONCE(space->gap)))
				sb_space_reread(cursor, space, id, now);
			return id;
		}
	}
	return sb_space_add(cursor, now, generation);
}

/* As sb_space_record_gap(), unless the entry was replaced: then nothing is recorded. */
static void sb_space_record_gap_of(struct sb_space *space, u64 id, u32 generation)
{
	if (!sb_space_hold_id(space, id))
		return;
	sb_space_record_gap(space, generation);
	sb_space_release(space);
}

void sb_space_request_fail(struct sb_space_request *request)
{
	if (request->space)
		sb_space_record_gap_of(request->space, request->id, request->gap ?: 1);
}

void sb_spaces_lose_mmap_event(struct sb_spaces *spaces, const struct sb_mmap_event *event)
{
	atomic64_inc(&spaces->mmap_events_lost);
	sb_space_record_gap_of(event->space, event->id, event->generation);
}

void sb_spaces_lose_maps(void *arg, void *owner, u64 id)
{
	struct sb_space *space = owner;

	/* The reread has the next generation: no event is missing before it. */
	sb_space_record_gap_of(space, id, atomic_read(&space->generation) + 1);
}

/* The new range of a mapping; `vma` may still have its old range. */
struct sb_mapped_range {
	const struct vm_area_struct *vma;
	unsigned long start, end;
	unsigned long page;	/* offset in the file, in pages */
};

/* Reserves an mmap event in the ring, to be completed; NULL: the ring is full. */
static struct sb_mmap_event *sb_spaces_reserve_mmap_event(struct sb_spaces *spaces)
{
	u32 head = atomic_read(&spaces->mmap_events_head);
	u32 seen;

	/* The acquire pairs with the release in sb_spaces_next_mmap_event(). */
	while (head - smp_load_acquire(&spaces->mmap_events_tail) < SB_MMAP_EVENTS_MAX) {
		seen = atomic_cmpxchg(&spaces->mmap_events_head, head, head + 1);
		if (seen == head) {
			atomic_inc(spaces->pending);
			return &spaces->mmap_events[head % SB_MMAP_EVENTS_MAX];
		}
		head = seen;
	}
	return NULL;
}
NOKPROBE_SYMBOL(sb_spaces_reserve_mmap_event);

/*
 * Queues an mmap event of a space (its entry is held); or records the gap, if the ring is
 * full or `report` is false. metadata_pending is incremented before the generation, so before a
 * sample can have this generation.
 */
static void sb_spaces_queue_mmap_event(struct sb_spaces *spaces, struct sb_space *space,
				       const struct sb_mapped_range *range, bool report)
{
	const struct vm_area_struct *vma = range->vma;
	struct sb_mmap_event *event = report ? sb_spaces_reserve_mmap_event(spaces) : NULL;
	u32 generation = atomic_inc_return(&space->generation);

	if (!event) {
		atomic64_inc(&spaces->mmap_events_lost);
		sb_space_record_gap(space, generation);
	} else {
		event->space = space;
		event->id = READ_ONCE(space->id);
		event->generation = generation;
		event->vdso = vma->vm_start == (unsigned long)vma->vm_mm->context.vdso;
		event->uprobes = sb_vma_is_uprobes(vma);
		event->start = range->start;
		event->end = range->end;
		event->offset = vma->vm_file ? (u64)range->page << PAGE_SHIFT : 0;
		event->file = vma->vm_file ? get_file(vma->vm_file) : NULL;
		/* Pairs with the acquire in sb_spaces_next_mmap_event(). */
		smp_store_release(&event->complete, true);
	}
	/* Pairs with smp_mb() in sb_spaces_do_work(): it sees the event, or deferral has ended. */
	smp_mb();
	if (!READ_ONCE(spaces->mmap_events_deferred))
		irq_work_queue(&spaces->kick_irq_work);
}
NOKPROBE_SYMBOL(sb_spaces_queue_mmap_event);

static void sb_spaces_kick_irq_work(struct irq_work *work)
{
	sb_spaces_kick(container_of(work, struct sb_spaces, kick_irq_work), 0);
}

/*
 * Whether an entry, which is held, is of the memory that the current task changes. Since the
 * address of a freed mm_struct is soon reused, the process must be the same, too, unless
 * another process shares its memory (vfork): the entry may be of that process.
 */
static bool sb_space_is_affected(const struct sb_space *space)
{
	return sb_space_matches(space) ||
	       (sb_space_has_memory(space) &&
		atomic_read(&current->mm->mm_users) > get_nr_threads(current));
}
NOKPROBE_SYMBOL(sb_space_is_affected);

/*
 * Queues an mmap event of the current task for the spaces with its memory. A function of its own: few
 * sessions have them, and all the others are passed with few registers.
 */
static noinline void sb_spaces_record_mmap_event(struct sb_spaces *spaces,
						 const struct sb_mapped_range *range)
{
	const struct sb_session *session = spaces->session;
	u32 levels = sb_spaces_level_count(spaces), level, way;
	u64 began = ktime_get_mono_fast_ns();
	struct sb_space_set *set;
	struct sb_space *space;
	bool report;

	for (level = 0; level < levels; level++) {
		set = sb_spaces_set(spaces, level, current->mm);
		for (way = 0; way < SB_WAYS; way++) {
			space = &set->ways[way];
			if (!sb_space_has_memory(space))
				continue;
			sb_space_hold(space);
			if (sb_space_is_affected(space)) {
				report = !session->restricted ||
				       sb_owner_may_see(session, current, current->mm);
				sb_spaces_queue_mmap_event(spaces, space, range, report);
			}
			sb_space_release(space);
		}
	}
	atomic64_add(ktime_get_mono_fast_ns() - began, &spaces->probe_overhead);
}
NOKPROBE_SYMBOL(sb_spaces_record_mmap_event);

/* Whether a session has an entry of this memory, which may be replaced meanwhile. */
static __always_inline bool sb_spaces_have_memory(const struct sb_spaces *spaces,
						  const struct mm_struct *mm)
{
	u32 levels = sb_spaces_level_count(spaces), level, way;
	const struct sb_space_set *set;

	for (level = 0; level < levels; level++) {
		set = sb_spaces_set(spaces, level, mm);
#pragma GCC unroll 8
		for (way = 0; way < SB_WAYS; way++) {
			if (unlikely(READ_ONCE(set->mms[way]) == mm))
				return true;
		}
	}
	return false;
}

static void sb_space_record_mmap_events(const struct sb_mapped_range *range)
{
	const struct mm_struct *mm = current->mm;
	struct sb_spaces *spaces;

	rcu_read_lock();
	list_for_each_entry_rcu(spaces, &sb_spaces_followed, list) {
		if (unlikely(sb_spaces_have_memory(spaces, mm)))
			sb_spaces_record_mmap_event(spaces, range);
	}
	rcu_read_unlock();
}
NOKPROBE_SYMBOL(sb_space_record_mmap_events);

/* Number of running tests of the probe, and of its runs during tests, in any process. */
static atomic_t sb_space_probe_tests;
static atomic_t sb_space_probe_hits;

/*
 * The kernel reports each mapping to perf here, in the task that makes it and under its
 * mmap_lock: for mmap(), mprotect(), and mappings made by exec. (A mapping that replaces
 * another one of the same address and size changes no counter of the address space.)
 */
static int sb_space_on_mapping(struct kprobe *probe, struct pt_regs *regs)
{
	const struct vm_area_struct *vma = (void *)regs_get_kernel_argument(regs, 0);
	struct sb_mapped_range range;

	if (!(vma->vm_flags & VM_EXEC) || vma->vm_mm != current->mm)
		return 0;
	if (unlikely(atomic_read(&sb_space_probe_tests)))
		atomic_inc(&sb_space_probe_hits);
	range = (struct sb_mapped_range){
		.vma = vma,
		.start = vma->vm_start,
		.end = vma->vm_end,
		.page = vma->vm_pgoff,
	};
	sb_space_record_mmap_events(&range);
	return 0;
}
NOKPROBE_SYMBOL(sb_space_on_mapping);

/*
 * mremap() moves mappings by copy_vma(), and perf is not informed. *vma is the old mapping. If
 * mremap() fails afterwards, nothing is mapped at the new address, and nothing is sampled there.
 */
static int sb_space_on_move(struct kprobe *probe, struct pt_regs *regs)
{
	struct vm_area_struct *const *vma = (void *)regs_get_kernel_argument(regs, 0);
	unsigned long start = regs_get_kernel_argument(regs, 1);
	struct sb_mapped_range range;

	if (!((*vma)->vm_flags & VM_EXEC) || (*vma)->vm_mm != current->mm)
		return 0;
	range = (struct sb_mapped_range){
		.vma = *vma,
		.start = start,
		.end = start + regs_get_kernel_argument(regs, 2),
		.page = regs_get_kernel_argument(regs, 3),
	};
	sb_space_record_mmap_events(&range);
	return 0;
}
NOKPROBE_SYMBOL(sb_space_on_move);

static struct kprobe sb_space_probe = {
	.symbol_name = "perf_event_mmap",
	.pre_handler = sb_space_on_mapping,
};

static struct kprobe sb_space_move_probe = {
	.symbol_name = "copy_vma",
	.pre_handler = sb_space_on_move,
};

static DEFINE_MUTEX(sb_space_probe_lock);
static bool sb_space_probe_registered;	/* under sb_space_probe_lock */
static bool sb_space_move_probe_registered; /* under sb_space_probe_lock */

/* Resets the fields that a former registration has set, even if it failed. */
static int sb_space_register(struct kprobe *probe)
{
	probe->addr = NULL;
	probe->flags = 0;
	return register_kprobe(probe);
}

/*
 * The probes stay registered from the first session on: their overhead is low, whereas
 * unregistering waits for a grace period, for which the next open() would wait, too. The
 * probe of moves is optional.
 */
static int sb_space_probes_register(void)
{
	int err = 0;

	mutex_lock(&sb_space_probe_lock);
	if (!sb_space_probe_registered) {
		err = sb_space_register(&sb_space_probe) ? -EOPNOTSUPP : 0;
		if (!err)
			sb_space_move_probe_registered = !sb_space_register(&sb_space_move_probe);
		if (!err)
			sb_kprobe_test_register(kprobe_ftrace(&sb_space_probe));
		sb_space_probe_registered = !err;
	}
	mutex_unlock(&sb_space_probe_lock);
	return err;
}

static void sb_space_probes_unregister(void)
{
	if (sb_space_move_probe_registered)
		unregister_kprobe(&sb_space_move_probe);
	if (sb_space_probe_registered)
		unregister_kprobe(&sb_space_probe);
	sb_kprobe_test_unregister();
}

/* Number of missed runs of the probes since their registration. */
static u64 sb_space_probes_missed(void)
{
	return READ_ONCE(sb_space_probe.nmissed) + READ_ONCE(sb_space_move_probe.nmissed);
}

/* Serializes tests of the probes, and the first start of a session with them. */
static DEFINE_MUTEX(sb_space_probe_test_lock);

/* Written under sb_space_probe_test_lock. */
static struct {
	bool off;	/* the last test has found that the probes do not run */
	u32 off_count;	/* tests with this result */
	u32 gap_count;	/* tests before which mapping events may be missing */
} sb_space_probe_state;

/* Tests the probes, under sb_space_probe_test_lock. */
static bool sb_space_probes_are_off(void)
{
	bool off = !sb_kprobe_test();

	WRITE_ONCE(sb_space_probe_state.off_count, sb_space_probe_state.off_count + off);
	WRITE_ONCE(sb_space_probe_state.off, off);
	return off;
}

static void sb_space_probe_test(struct work_struct *work);
static DECLARE_DELAYED_WORK(sb_space_probe_test_work, sb_space_probe_test);

/* Tests the probes while sessions are followed. Their workers note what it has found. */
static void sb_space_probe_test(struct work_struct *work)
{
	struct sb_spaces *spaces;
	bool off, was_off;

	mutex_lock(&sb_space_probe_test_lock);
	/* Otherwise the next session that is started tests them, and queues this. */
	if (!list_empty(&sb_spaces_followed)) {
		was_off = sb_space_probe_state.off;
		off = sb_space_probes_are_off();
		if (off || was_off)
			WRITE_ONCE(sb_space_probe_state.gap_count,
				   sb_space_probe_state.gap_count + 1);
		rcu_read_lock();
		list_for_each_entry_rcu(spaces, &sb_spaces_followed, list) {
			if (off || was_off)
				sb_spaces_kick(spaces, 0);
		}
		rcu_read_unlock();
		queue_delayed_work(sb_space_workqueue, &sb_space_probe_test_work,
				   SB_PROBE_TEST_JIFFIES);
	}
	mutex_unlock(&sb_space_probe_test_lock);
}

/* As if one event of each space of a set were lost: nobody knows how many. */
static void sb_space_set_record_gaps(struct sb_space_set *set)
{
	struct sb_space *space;
	u32 way;

	for (way = 0; way < SB_WAYS; way++) {
		space = &set->ways[way];
		if (!READ_ONCE(space->id))
			continue;
		sb_space_hold(space);
		sb_space_record_gap(space, atomic_inc_return(&space->generation));
		sb_space_release(space);
	}
}

void sb_spaces_note_probe(struct sb_spaces *spaces)
{
	u32 gap_count = READ_ONCE(sb_space_probe_state.gap_count), level, set;
	bool off = READ_ONCE(sb_space_probe_state.off);

	for (level = 0; gap_count != spaces->probe_gaps_seen && level < spaces->level_count; level++) {
		for (set = 0; set < 1u << sb_level_bits(level); set++) {
			sb_space_set_record_gaps(&spaces->levels[level][set]);
			cond_resched();
		}
	}
	spaces->probe_gaps_seen = gap_count;
	if (off != spaces->probe_seen_off) {
		spaces->probe_seen_off = off;
		sb_event_send(spaces->session, off ? STACKBEAT_EVENT_MMAP_EVENTS_OFF :
						     STACKBEAT_EVENT_MMAP_EVENTS_ON, 0, 0);
	}
}

int sb_spaces_test_probe(void)
{
	unsigned long address;
	int err = 0, hits;

	if (!current->mm)
		return 0;
	atomic_inc(&sb_space_probe_tests);
	hits = atomic_read(&sb_space_probe_hits);
	address = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
			  0);
	if (!IS_ERR_VALUE(address)) {
		if (atomic_read(&sb_space_probe_hits) == hits)
			err = -EOPNOTSUPP;
		vm_munmap(address, PAGE_SIZE);
	}
	atomic_dec(&sb_space_probe_tests);
	return err;
}

/* Memory of a process that has ended, to be freed by a work item. */
struct sb_memory {
	struct work_struct work;
	struct mm_struct *mm;
};

static void sb_memory_work(struct work_struct *work)
{
	struct sb_memory *memory = container_of(work, struct sb_memory, work);
	struct mm_struct *mm = memory->mm;

	kfree(memory);
	mmput(mm);
}

/*
 * Drops a reference. Dropping the last one frees the whole address space, which can take long,
 * and until then the program's file can't be written to. A work item does so, in order not to
 * delay other address spaces; in a workqueue of its own, since work in the workqueue of mmput_async()
 * waits for other work.
 */
static void sb_memory_put(struct mm_struct *mm)
{
	struct sb_memory *memory;

	if (atomic_add_unless(&mm->mm_users, -1, 1))
		return;
	memory = kmalloc(sizeof(*memory), GFP_KERNEL);
	if (!memory) {
		mmput(mm);
		return;
	}
	INIT_WORK(&memory->work, sb_memory_work);
	memory->mm = mm;
	queue_work(sb_memory_workqueue, &memory->work);
}

void sb_space_request_put(struct sb_space_request *request)
{
	if (!request->mm)
		return;
	sb_memory_put(request->mm);
	put_task_struct(request->leader);
	request->mm = NULL;
}

bool sb_spaces_next_mmap_event(struct sb_spaces *spaces, struct sb_mmap_event *event)
{
	u32 tail = spaces->mmap_events_tail;
	struct sb_mmap_event *next = &spaces->mmap_events[tail % SB_MMAP_EVENTS_MAX];

	/* Pairs with the release in sb_spaces_queue_mmap_event(), which queues the worker again. */
	if (!smp_load_acquire(&next->complete))
		return false;
	*event = *next;
	next->complete = false;
	/* Pairs with the acquire in sb_spaces_reserve_mmap_event(). */
	smp_store_release(&spaces->mmap_events_tail, tail + 1);
	return true;
}

bool sb_spaces_readable(const struct sb_spaces *spaces)
{
	u32 unread = sb_ring_unread(&spaces->ring);

	if (unread >= spaces->ring.size / 2)
		return true;
	/* A reader that does not map the ring does not read it. */
	return unread && READ_ONCE(spaces->wake_due) &&
	       atomic_read(&spaces->ring_mapping.count);
}

static void sb_spaces_wake_work(struct work_struct *work)
{
	struct sb_spaces *spaces = container_of(to_delayed_work(work), struct sb_spaces, wake_work);

	WRITE_ONCE(spaces->wake_due, true);
	wake_up_interruptible(&spaces->session->wait);
}

void sb_spaces_announce(struct sb_spaces *spaces, unsigned long delay)
{
	unsigned long at = jiffies + delay;

	/* Later records do not postpone the wake-up for earlier ones. */
	if (delayed_work_pending(&spaces->wake_work) && !time_before(at, spaces->wake_at))
		return;
	spaces->wake_at = at;
	mod_delayed_work(sb_space_workqueue, &spaces->wake_work, delay);
}

/* Whether the process of an entry of the table still runs the same program. */
static bool sb_space_is_alive(const struct sb_space *space, u64 id)
{
	struct task_struct *leader;
	bool alive;

	rcu_read_lock();
	leader = pid_task(find_pid_ns(READ_ONCE(space->pid), &init_pid_ns), PIDTYPE_TGID);
	alive = leader && leader->start_boottime == READ_ONCE(space->start_time) &&
		READ_ONCE(leader->self_exec_id) == READ_ONCE(space->exec_id) &&
		/* The first thread may have ended before the others. */
		(!READ_ONCE(leader->exit_state) || !thread_group_empty(leader));
	rcu_read_unlock();
	return alive && READ_ONCE(space->id) == id;
}

static bool sb_spaces_is_alive(void *arg, void *space, u64 id)
{
	return sb_space_is_alive(space, id);
}

/* Frees an entry if its process has ended, or runs another program. */
static bool sb_space_vacate(struct sb_space *space)
{
	/* Pairs with the releases in sb_space_insert() and sb_space_claim(). */
	u32 seq = smp_load_acquire(&space->seq);
	u64 id = READ_ONCE(space->id);
	unsigned long flags;
	bool claimed;

	if (!id || sb_space_is_alive(space, id))
		return false;
	/* A sampler that claims the entry first has a new space for it. */
	local_irq_save(flags);
	claimed = sb_space_claim(space, seq);
	if (claimed) {
		WRITE_ONCE(space->id, 0);
		WRITE_ONCE(sb_space_set(space)->mms[space->way], NULL);
		/* Pairs with the acquire in sb_space_is_current(). */
		smp_store_release(&space->seq, seq + 2);
	}
	local_irq_restore(flags);
	/* What is in the slot is of this space, or of an earlier one: a new one is read later. */
	if (claimed)
		sb_unwind_slot_clear(sb_space_slot(space));
	return claimed;
}

/* Doubles the table, if the limits and the memory allow it. */
static void sb_spaces_add_level(struct sb_spaces *spaces)
{
	u32 level = spaces->level_count, set_count = 1u << sb_level_bits(level), set, way;
	u64 memory = ((u64)SB_WAYS << (SB_SETS_BITS + level)) * SB_SPACE_MEMORY;
	struct sb_space_set *sets;

	if (level == spaces->level_max || (level && PFN_UP(memory) > totalram_pages()))
		return;
	sets = sb_worker_alloc(array_size(set_count, sizeof(*sets)));
	if (!sets)
		return;
	for (set = 0; set < set_count; set++) {
		memset(&sets[set], 0, sizeof(*sets));
		for (way = 0; way < SB_WAYS; way++)
			sets[set].ways[way].way = way;
		cond_resched();
	}
	spaces->levels[level] = sets;
	/* Pairs with the acquire in sb_spaces_level_count(). */
	smp_store_release(&spaces->level_count, level + 1);
}

void sb_spaces_make_room(struct sb_spaces *spaces, const struct mm_struct *mm)
{
	struct sb_space *space;
	bool vacated = false;
	u32 level, way;

	for (level = 0; level < spaces->level_count; level++) {
		space = sb_spaces_set(spaces, level, mm)->ways;
		for (way = 0; way < SB_WAYS; way++) {
			if (!READ_ONCE(space[way].id))
				return;
		}
	}
	for (level = 0; level < spaces->level_count; level++) {
		space = sb_spaces_set(spaces, level, mm)->ways;
		for (way = 0; way < SB_WAYS; way++)
			vacated |= sb_space_vacate(space + way);
	}
	if (!vacated)
		sb_spaces_add_level(spaces);
}

void sb_spaces_sweep(struct sb_spaces *spaces)
{
	mutex_lock(&spaces->lock);
	sb_unwind_spaces_sweep(&spaces->unwind_spaces, sb_spaces_is_alive, spaces);
	mutex_unlock(&spaces->lock);
}

void sb_spaces_count(const struct sb_spaces *spaces, u64 *counts)
{
	const struct sb_request_queue *queue;
	u64 without_space = 0;
	u32 cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		queue = sb_spaces_find_queue(spaces, cpu);
		if (queue)
			without_space += READ_ONCE(queue->samples_without_space);
	}
	counts[STACKBEAT_S_ADDRESS_SPACES] = READ_ONCE(spaces->spaces_written);
	counts[STACKBEAT_S_SAMPLES_WITHOUT_ADDRESS_SPACE] = without_space;
	counts[STACKBEAT_S_ADDRESS_SPACES_UNREAD] = READ_ONCE(spaces->spaces_unread);
	counts[STACKBEAT_S_MMAP_EVENTS] = READ_ONCE(spaces->mmap_events_written);
	counts[STACKBEAT_S_MMAP_EVENTS_LOST] = atomic64_read(&spaces->mmap_events_lost) +
					   sb_space_probes_missed() - spaces->probes_missed;
	counts[STACKBEAT_S_MAPPINGS_DROPPED] = READ_ONCE(spaces->mappings_dropped);
	counts[STACKBEAT_S_FILES] = READ_ONCE(spaces->files.count);
	counts[STACKBEAT_S_MAPPINGS_WITHOUT_FILE] = READ_ONCE(spaces->mappings_without_file);
	counts[STACKBEAT_S_WORKER_OVERHEAD_NS] = READ_ONCE(spaces->worker_overhead);
	counts[STACKBEAT_S_PROBE_OVERHEAD_NS] = atomic64_read(&spaces->probe_overhead);
	sb_unwind_user_count(&spaces->unwind, &counts[STACKBEAT_S_UNWIND_TABLES],
			     &counts[STACKBEAT_S_UNWIND_TABLE_BYTES]);
	counts[STACKBEAT_S_ADDRESS_SPACES_ROOM] =
		SB_WAYS << (SB_SETS_BITS + sb_spaces_level_count(spaces) - 1);
	counts[STACKBEAT_S_UNWIND_TABLES_REFUSED] = atomic64_read(&spaces->tables_refused);
	counts[STACKBEAT_S_MMAP_EVENTS_OFF] = READ_ONCE(sb_space_probe_state.off_count) -
					      spaces->probe_off_count;
}

struct sb_request_queue *sb_spaces_find_queue(const struct sb_spaces *spaces, u32 cpu)
{
	/* Pairs with the release in sb_space_cursor_init(). */
	return smp_load_acquire(&spaces->queues[cpu]);
}

int sb_space_cursor_init(struct sb_space_cursor *cursor, struct sb_spaces *spaces, u32 cpu)
{
	struct sb_request_queue *queue = spaces->queues[cpu];

	if (!queue) {
		queue = kvzalloc_node(sizeof(*queue), GFP_KERNEL_ACCOUNT, cpu_to_node(cpu));
		if (!queue)
			return -ENOMEM;
		/* Pairs with the acquire in sb_spaces_find_queue(). */
		smp_store_release(&spaces->queues[cpu], queue);
	}
	cursor->spaces = spaces;
	cursor->queue = queue;
	return 0;
}

static void sb_request_queue_free(struct sb_request_queue *queue)
{
	if (!queue)
		return;
	for (; queue->tail != queue->head; queue->tail++)
		sb_space_request_put(&queue->items[queue->tail % SB_PENDING_MAX]);
	kvfree(queue);
}

static void sb_spaces_free_levels(struct sb_spaces *spaces)
{
	u32 level;

	for (level = 0; level < spaces->level_count; level++)
		kvfree(spaces->levels[level]);
}

static void sb_spaces_free_unwind(struct sb_spaces *spaces)
{
	sb_unwind_spaces_free(&spaces->unwind_spaces);
	sb_unwind_object_release(spaces->vdso);
	sb_unwind_user_exit(&spaces->unwind);
}

struct sb_spaces *sb_spaces_alloc(struct sb_session *session, work_func_t worker)
{
	struct sb_spaces *spaces = kvzalloc(sizeof(*spaces), GFP_KERNEL_ACCOUNT);
	int err = -ENOMEM;

	if (!spaces)
		return ERR_PTR(-ENOMEM);
	spaces->session = session;
	spaces->pending = (atomic_t *)&session->page->metadata_pending;
	sb_init_hard_irq_work(&spaces->kick_irq_work, sb_spaces_kick_irq_work);
	mutex_init(&spaces->lock);
	INIT_LIST_HEAD(&spaces->list);
	INIT_LIST_HEAD(&spaces->locked);
	INIT_LIST_HEAD(&spaces->big);
	INIT_LIST_HEAD(&spaces->waiting);
	spaces->urgent_next = jiffies;
	spaces->soon_next = jiffies;
	INIT_DELAYED_WORK(&spaces->work, worker);
	INIT_DELAYED_WORK(&spaces->wake_work, sb_spaces_wake_work);
	spaces->path = kmalloc(STACKBEAT_PATH_MAX, GFP_KERNEL_ACCOUNT);
	spaces->level_max = session->restricted ? 1 : SB_LEVELS_MAX;
	sb_spaces_add_level(spaces);
	spaces->queues = kvcalloc(nr_cpu_ids, sizeof(*spaces->queues), GFP_KERNEL_ACCOUNT);
	if (!spaces->path || !spaces->level_count || !spaces->queues)
		goto err_memory;
	sb_unwind_spaces_init(&spaces->unwind_spaces);
	err = sb_unwind_user_init(&spaces->unwind, session->restricted);
	if (err)
		goto err_unwind;
	spaces->vdso = sb_unwind_object_get(&spaces->unwind, NULL);
	err = spaces->vdso ? sb_mapped_files_init(&spaces->files, &spaces->unwind) : -ENOMEM;
	if (err)
		goto err_unwind;
	err = sb_ring_alloc(&spaces->ring, STACKBEAT_META_RING_SIZE, U32_MAX);
	if (err)
		goto err_files;
	err = sb_space_probes_register();
	if (err)
		goto err_ring;
	spaces->probes_missed = sb_space_probes_missed();
	spaces->probe_off_count = READ_ONCE(sb_space_probe_state.off_count);
	spaces->probe_gaps_seen = READ_ONCE(sb_space_probe_state.gap_count);
	spaces->probe_seen_off = READ_ONCE(sb_space_probe_state.off);
	sb_mapping_init_ring(&spaces->consumer_mapping, &spaces->ring_mapping, &spaces->ring);
	return spaces;

err_ring:
	sb_ring_free(&spaces->ring);
err_files:
	sb_mapped_files_free(&spaces->files);
err_unwind:
	sb_spaces_free_unwind(spaces);
err_memory:
	kvfree(spaces->queues);
	sb_spaces_free_levels(spaces);
	kfree(spaces->path);
	kvfree(spaces);
	return ERR_PTR(err);
}

void sb_spaces_follow(struct sb_spaces *spaces)
{
	if (!list_empty(&spaces->list))
		return;
	mutex_lock(&sb_space_probe_test_lock);
	/* There were no tests while no session was followed. */
	if (list_empty(&sb_spaces_followed))
		sb_space_probes_are_off();
	spaces->probe_gaps_seen = sb_space_probe_state.gap_count;
	spaces->probe_seen_off = false;
	spin_lock(&sb_spaces_lock);
	list_add_tail_rcu(&spaces->list, &sb_spaces_followed);
	spin_unlock(&sb_spaces_lock);
	mutex_unlock(&sb_space_probe_test_lock);
	queue_delayed_work(sb_space_workqueue, &sb_space_probe_test_work, SB_PROBE_TEST_JIFFIES);
}

void sb_spaces_unfollow(struct sb_spaces *spaces)
{
	if (list_empty(&spaces->list))
		return;
	spin_lock(&sb_spaces_lock);
	list_del_rcu(&spaces->list);
	spin_unlock(&sb_spaces_lock);
}

void sb_spaces_stop(struct sb_spaces *spaces)
{
	irq_work_sync(&spaces->kick_irq_work);
	cancel_delayed_work_sync(&spaces->work);
	cancel_delayed_work_sync(&spaces->wake_work);
}

void sb_spaces_free(struct sb_spaces *spaces)
{
	struct sb_mmap_event event;
	u32 cpu;

	if (!spaces)
		return;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		sb_request_queue_free(spaces->queues[cpu]);
	while (sb_spaces_next_mmap_event(spaces, &event)) {
		if (event.file)
			fput(event.file);
	}
	sb_mapped_files_free(&spaces->files);
	sb_spaces_free_unwind(spaces);
	sb_ring_free(&spaces->ring);
	mutex_destroy(&spaces->lock);
	kvfree(spaces->found);
	kvfree(spaces->queues);
	sb_spaces_free_levels(spaces);
	kfree(spaces->path);
	kvfree(spaces);
}

void sb_space_flush(void)
{
	flush_workqueue(sb_space_workqueue);
}

int sb_space_init(void)
{
	/* High priority: an ending process is held until its mappings are read. */
	sb_space_workqueue = alloc_workqueue("stackbeat-spaces", WQ_UNBOUND | WQ_HIGHPRI, 0);
	sb_memory_workqueue = alloc_workqueue("stackbeat-memory", WQ_UNBOUND | WQ_HIGHPRI, 0);
	if (sb_space_workqueue && sb_memory_workqueue)
		return 0;
	sb_space_exit();
	return -ENOMEM;
}

void sb_space_exit(void)
{
	cancel_delayed_work_sync(&sb_space_probe_test_work);
	sb_space_probes_unregister();
	if (sb_space_workqueue)
		destroy_workqueue(sb_space_workqueue);
	/* Second: work of the other queue may still have queued work here. */
	if (sb_memory_workqueue)
		destroy_workqueue(sb_memory_workqueue);
}
