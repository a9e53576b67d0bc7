// SPDX-License-Identifier: GPL-2.0
#include <linux/file.h>
#include <linux/hash.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pid.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "access.h"
#include "compat/compat.h"
#include "limits.h"
#include "space.h"

/* How long what is told may wait in the ring before the reader is woken for it. */
#define SB_NEWS_JIFFIES (HZ / 4)

/* How often the worker goes on for a reader that says that there is room again, at most. */
#define SB_RESUME_JIFFIES (msecs_to_jiffies(10) ?: 1)

static struct workqueue_struct *sb_space_workqueue;
static struct workqueue_struct *sb_memory_workqueue; /* takes down what others have left */

/* Those of open sessions. */
static LIST_HEAD(sb_spaces_followed);
static DEFINE_SPINLOCK(sb_spaces_lock); /* serializes changes of the list */

void sb_spaces_kick(struct sb_spaces *spaces, unsigned long delay)
{
	/* The latter also where it is to run later. */
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

/* Whether the entry, which may be in the making, is that of the current task. */
static __always_inline bool sb_space_matches(const struct sb_space *space)
{
	return READ_ONCE(space->mm) == current->mm &&
	       READ_ONCE(space->exec_id) == current->self_exec_id &&
	       READ_ONCE(space->start_time) == current->group_leader->start_boottime &&
	       READ_ONCE(space->pid) == current->tgid;
}

/* The same, for sure. It gets id and generation then. */
static __always_inline bool sb_space_is_current(struct sb_space *space, u64 *id,
						u32 *generation)
{
	/* Pairs with the releases of sb_space_note() and sb_space_claim(). */
	u32 seq = smp_load_acquire(&space->seq);

	if ((seq & 1) || !sb_space_matches(space))
		return false;
	*id = READ_ONCE(space->id);
	*generation = atomic_read(&space->generation);
	/* Pairs with the release in sb_space_note(). */
	smp_rmb();
	return READ_ONCE(space->seq) == seq;
}

static __always_inline struct sb_space *sb_spaces_set(const struct sb_spaces *spaces,
						      const struct mm_struct *mm)
{
	return spaces->table + hash_ptr(mm, SB_SETS_BITS) * SB_WAYS;
}

/*
 * Keeps whoever is there in its place, until sb_space_release(). Waits for a beat of
 * another CPU that claims the place, and that has interrupts off and waits for nobody.
 * One that claims it later sees that it is held, and gives it back as it was.
 */
static void sb_space_hold(struct sb_space *space)
{
	atomic_inc(&space->holds);
	smp_mb__after_atomic(); /* pairs with that of cmpxchg() in sb_space_claim() */
	while (smp_load_acquire(&space->seq) & 1)
		cpu_relax();
}
NOKPROBE_SYMBOL(sb_space_hold);

void sb_space_release(struct sb_space *space)
{
	smp_mb__before_atomic(); /* what was done while it was held is done */
	atomic_dec(&space->holds);
}
NOKPROBE_SYMBOL(sb_space_release);

/* Holds a space, unless it has lost its place. */
static bool sb_space_hold_id(struct sb_space *space, u64 id)
{
	sb_space_hold(space);
	if (READ_ONCE(space->id) == id)
		return true;
	sb_space_release(space);
	return false;
}

/* Takes a place for a new space, which is to be filled then. False: it is held. */
static bool sb_space_claim(struct sb_space *space)
{
	u32 seq = READ_ONCE(space->seq);

	if ((seq & 1) || atomic_read(&space->holds) || cmpxchg(&space->seq, seq, seq + 1) != seq)
		return false;
	if (!atomic_read(&space->holds))
		return true;
	/* Pairs with the acquire in sb_space_is_current(). */
	smp_store_release(&space->seq, seq + 2);
	return false;
}

/* A claimed place, rather a free one; NULL: there is none now. */
static struct sb_space *sb_space_find_place(struct sb_space *set, u64 id)
{
	struct sb_space *space;
	u32 way;

	for (way = 0; way < SB_WAYS; way++) {
		if (!READ_ONCE(set[way].id) && sb_space_claim(set + way))
			return set + way;
	}
	for (way = 0; way < SB_WAYS; way++) {
		space = set + (id + way) % SB_WAYS;
		if (sb_space_claim(space))
			return space;
	}
	return NULL;
}

/*
 * Notes the current task's space, and holds it. NULL: there is no place for it now, as
 * all are held by those that are still to be read. What such a one changes could not be
 * told if it lost its place.
 */
static struct sb_space *sb_space_note(struct sb_spaces *spaces, u64 id, u64 now)
{
	struct sb_space *space = sb_space_find_place(sb_spaces_set(spaces, current->mm), id);

	if (!space)
		return NULL;
	atomic_inc(&space->holds);
	WRITE_ONCE(space->id, id);
	smp_wmb(); /* pairs with the barrier in sb_sampler_space() */
	WRITE_ONCE(space->mm, current->mm);
	WRITE_ONCE(space->pid, current->tgid);
	WRITE_ONCE(space->start_time, current->group_leader->start_boottime);
	WRITE_ONCE(space->exec_id, current->self_exec_id);
	WRITE_ONCE(space->gap, 0);
	WRITE_ONCE(space->next_read, now + SB_REREAD_NS);
	space->rereads = 0;
	atomic_set(&space->generation, 1);
	/* Pairs with the acquire in sb_space_is_current(). */
	smp_store_release(&space->seq, READ_ONCE(space->seq) + 1);
	return space;
}

/*
 * Queues the current task's space to be read, for the first time or, after what was
 * lost from the generation `gap` on, again. It is held until then, where it has a place.
 * False: there is no room.
 */
static bool sb_space_queue(struct sb_space_cursor *cursor, u64 id, struct sb_space *space,
			   u32 gap)
{
	struct sb_seen_queue *queue = cursor->queue;
	struct sb_spaces *spaces = cursor->spaces;
	struct task_struct *leader = current->group_leader;
	const struct pid *pid = task_tgid(current);
	struct sb_seen *seen;

	/* Pairs with the release in sb_spaces_take_seen(). */
	if (queue->head - smp_load_acquire(&queue->tail) == SB_PENDING_MAX)
		return false;
	if (!mmget_not_zero(current->mm))
		return false;
	get_task_struct(leader);
	/* Before a sample can be of the generation. */
	atomic_inc(spaces->pending);

	seen = &queue->items[queue->head % SB_PENDING_MAX];
	seen->mm = current->mm;
	seen->leader = leader;
	seen->space = space;
	seen->id = id;
	seen->start_time = leader->start_boottime;
	/* No two readings are of the same generation, also if nothing has changed since. */
	if (gap)
		atomic_inc(&space->generation);
	seen->gap = gap;
	seen->pid = sb_session_tgid(spaces->session, current);
	seen->ns_pid = pid ? pid->numbers[pid->level].nr : 0;
	seen->parent = sb_session_tgid(spaces->session,
				       rcu_dereference_sched(leader->real_parent));
	/* Its lock can't be taken here; a name that is changed meanwhile is of both, and ends. */
	data_race(memcpy(seen->comm, leader->comm, sizeof(seen->comm)));
	seen->comm[sizeof(seen->comm) - 1] = '\0';

	/* Pairs with the acquire in sb_spaces_take_seen(). */
	smp_store_release(&queue->head, queue->head + 1);
	sb_spaces_kick(spaces, 0);
	return true;
}

static void sb_space_remember(struct sb_space_cursor *cursor, const struct sb_space *space,
			      u64 id)
{
	cursor->last = (struct sb_last_space){
		.mm = space ? current->mm : NULL,
		.start_time = current->group_leader->start_boottime,
		.exec_id = current->self_exec_id,
		.pid = current->tgid,
		.id = id,
		.space = space,
	};
}

/* Notes that the reader is not told of what changed at this generation. */
static void sb_space_note_gap(struct sb_space *space, u32 generation)
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
NOKPROBE_SYMBOL(sb_space_note_gap);

static noinline u64 sb_space_first_sight(struct sb_space_cursor *cursor, u64 now,
					 u32 *generation)
{
	struct sb_spaces *spaces = cursor->spaces;
	struct sb_seen_queue *queue = cursor->queue;
	struct sb_space *space;
	u64 id;

	*generation = 0;
	if (queue->head - READ_ONCE(queue->tail) == SB_PENDING_MAX) {
		queue->lost++;
		return 0;
	}
	id = atomic64_inc_return(&spaces->last_id);
	space = sb_space_note(spaces, id, now);
	if (!sb_space_queue(cursor, id, space, 0)) {
		if (space) {
			/* One of its next samples has it read. */
			sb_space_note_gap(space, 1);
			sb_space_release(space);
		}
		queue->lost++;
		return 0;
	}
	sb_space_remember(cursor, space, id);
	*generation = 1;
	return id;
}

/* Whether the current task's process ends: what it loses needs no reading, which would hold it. */
static bool sb_space_is_ending(void)
{
	return (current->flags & PF_EXITING) ||
	       (READ_ONCE(current->signal->flags) & SIGNAL_GROUP_EXIT);
}

/*
 * Puts the next reading off: twice as far each time, until it was not needed for long. Who
 * loses changes all the time, maybe on purpose, is read seldom.
 */
static void sb_space_put_off(struct sb_space *space, u64 now)
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

static bool sb_space_queue_again(struct sb_space_cursor *cursor, struct sb_space *space, u64 id,
				 u64 now)
{
	u32 gap;

	sb_space_put_off(space, now);
	gap = xchg(&space->gap, 0);
	if (gap && sb_space_queue(cursor, id, space, gap))
		return true;
	if (gap)
		sb_space_note_gap(space, gap);
	return false;
}

/* Has the mappings read again, as changes of theirs were lost. */
static noinline void sb_space_reread(struct sb_space_cursor *cursor, struct sb_space *space,
				     u64 id, u64 now)
{
	struct sb_spaces *spaces = cursor->spaces;

	if (now < READ_ONCE(space->next_read) || now < READ_ONCE(spaces->next_reread) ||
	    sb_space_is_ending() || atomic_cmpxchg(&spaces->rereading, 0, 1))
		return;
	/* The worker ends both, where it is queued. */
	if (sb_space_hold_id(space, id)) {
		if (sb_space_queue_again(cursor, space, id, now))
			return;
		sb_space_release(space);
	}
	atomic_set(&spaces->rereading, 0);
}

u64 sb_space_see(struct sb_space_cursor *cursor, u64 now, u32 *generation)
{
	struct sb_space *set = sb_spaces_set(cursor->spaces, current->mm);
	struct sb_space *space;
	u32 way;
	u64 id;

	for (way = 0; way < SB_WAYS; way++) {
		space = set + way;
		if (!sb_space_is_current(space, &id, generation))
			continue;
		sb_space_remember(cursor, space, id);
		if (unlikely(READ_ONCE(space->gap)))
			sb_space_reread(cursor, space, id, now);
		return id;
	}
	return sb_space_first_sight(cursor, now, generation);
}

/* Does so for a space that may have lost its place: then nobody will read it again. */
static void sb_space_note_gap_of(struct sb_space *space, u64 id, u32 generation)
{
	if (!sb_space_hold_id(space, id))
		return;
	sb_space_note_gap(space, generation);
	sb_space_release(space);
}

void sb_seen_lose(struct sb_seen *seen)
{
	if (seen->space)
		sb_space_note_gap_of(seen->space, seen->id, seen->gap ?: 1);
}

void sb_spaces_lose_change(struct sb_spaces *spaces, const struct sb_change *change)
{
	atomic64_inc(&spaces->changes_lost);
	sb_space_note_gap_of(change->space, change->id, change->generation);
}

/* What is mapped anew, of a mapping that may be elsewhere still. */
struct sb_area {
	const struct vm_area_struct *vma;
	unsigned long start, end;
	unsigned long page;	/* of the file */
};

/* A place for a change, to be completed; NULL: there is none. */
static struct sb_change *sb_spaces_reserve_change(struct sb_spaces *spaces)
{
	u32 head = atomic_read(&spaces->changes_head);
	u32 seen;

	/* The acquire pairs with the release in sb_spaces_next_change(). */
	while (head - smp_load_acquire(&spaces->changes_tail) < SB_CHANGES_MAX) {
		seen = atomic_cmpxchg(&spaces->changes_head, head, head + 1);
		if (seen == head) {
			atomic_inc(spaces->pending);
			return &spaces->changes[head % SB_CHANGES_MAX];
		}
		head = seen;
	}
	return NULL;
}
NOKPROBE_SYMBOL(sb_spaces_reserve_change);

/*
 * Queues a change of a space, which is held, or notes that it is missing. It is
 * pending before a sample can be of its generation.
 */
static void sb_spaces_add_change(struct sb_spaces *spaces, struct sb_space *space,
				 const struct sb_area *area, bool tell)
{
	const struct vm_area_struct *vma = area->vma;
	struct sb_change *change = tell ? sb_spaces_reserve_change(spaces) : NULL;
	u32 generation = atomic_inc_return(&space->generation);

	if (!change) {
		atomic64_inc(&spaces->changes_lost);
		sb_space_note_gap(space, generation);
	} else {
		change->space = space;
		change->id = READ_ONCE(space->id);
		change->generation = generation;
		change->vdso = vma->vm_start == (unsigned long)vma->vm_mm->context.vdso;
		change->start = area->start;
		change->end = area->end;
		change->offset = vma->vm_file ? (u64)area->page << PAGE_SHIFT : 0;
		change->file = vma->vm_file ? get_file(vma->vm_file) : NULL;
		/* Pairs with the acquire in sb_spaces_next_change(). */
		smp_store_release(&change->complete, true);
	}
	/* Pairs with that in sb_spaces_work(), which sees the change, or is waited for no more. */
	smp_mb();
	if (!READ_ONCE(spaces->changes_put_off))
		irq_work_queue(&spaces->changes_kick);
}
NOKPROBE_SYMBOL(sb_spaces_add_change);

static void sb_spaces_on_change(struct irq_work *work)
{
	sb_spaces_kick(container_of(work, struct sb_spaces, changes_kick), 0);
}

/*
 * Whether an entry, which is held, is that of the memory that the current task changes.
 * The address of memory that is gone is soon that of another process: it must be this
 * one, unless others share its memory (vfork), who may be meant.
 */
static bool sb_space_is_changed(const struct sb_space *space)
{
	return sb_space_matches(space) ||
	       (READ_ONCE(space->mm) == current->mm &&
		atomic_read(&current->mm->mm_users) > get_nr_threads(current));
}
NOKPROBE_SYMBOL(sb_space_is_changed);

/* Queues a change of the current task's memory for each session that has noted it. */
static void sb_space_tell_change(const struct sb_area *area)
{
	const struct sb_session *session;
	struct sb_spaces *spaces;
	struct sb_space *space;
	bool tell;
	u64 began;
	u32 way;

	rcu_read_lock();
	list_for_each_entry_rcu(spaces, &sb_spaces_followed, list) {
		session = spaces->session;
		space = sb_spaces_set(spaces, current->mm);
		began = 0;
		for (way = 0; way < SB_WAYS; way++, space++) {
			if (READ_ONCE(space->mm) != current->mm)
				continue;
			if (!began)
				began = ktime_get_mono_fast_ns();
			sb_space_hold(space);
			if (sb_space_is_changed(space)) {
				tell = !session->restricted ||
				       sb_owner_may_see(session, current, current->mm);
				sb_spaces_add_change(spaces, space, area, tell);
			}
			sb_space_release(space);
		}
		if (began)
			atomic64_add(ktime_get_mono_fast_ns() - began, &spaces->probe_cost);
	}
	rcu_read_unlock();
}
NOKPROBE_SYMBOL(sb_space_tell_change);

/* Those who want to see the probe at work, and how often it ran meanwhile, for any process. */
static atomic_t sb_space_provers;
static atomic_t sb_space_proofs;

/*
 * The kernel tells perf of each mapping here, in the task that makes it and under
 * its mmap_lock: for mmap(), mprotect(), and what exec maps. A mapping that takes
 * the place of another one, at the same address and of the same size, can be seen
 * in no counter of the address space.
 */
static int sb_space_on_mapping(struct kprobe *probe, struct pt_regs *regs)
{
	const struct vm_area_struct *vma = (void *)regs_get_kernel_argument(regs, 0);
	struct sb_area area;

	if (!(vma->vm_flags & VM_EXEC) || vma->vm_mm != current->mm)
		return 0;
	if (unlikely(atomic_read(&sb_space_provers)))
		atomic_inc(&sb_space_proofs);
	area = (struct sb_area){
		.vma = vma,
		.start = vma->vm_start,
		.end = vma->vm_end,
		.page = vma->vm_pgoff,
	};
	sb_space_tell_change(&area);
	return 0;
}
NOKPROBE_SYMBOL(sb_space_on_mapping);

/*
 * mremap() moves a mapping so, and perf is not informed: *vma is the old one. Where it can't
 * go on then, nothing is mapped at the new place, so that nothing of it is ever sampled.
 */
static int sb_space_on_move(struct kprobe *probe, struct pt_regs *regs)
{
	struct vm_area_struct *const *vma = (void *)regs_get_kernel_argument(regs, 0);
	unsigned long start = regs_get_kernel_argument(regs, 1);
	struct sb_area area;

	if (!((*vma)->vm_flags & VM_EXEC) || (*vma)->vm_mm != current->mm)
		return 0;
	area = (struct sb_area){
		.vma = *vma,
		.start = start,
		.end = start + regs_get_kernel_argument(regs, 2),
		.page = regs_get_kernel_argument(regs, 3),
	};
	sb_space_tell_change(&area);
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
static bool sb_space_follows;	/* under sb_space_probe_lock: the probes are registered */
static bool sb_space_follows_moves; /* under sb_space_probe_lock */

/* Registering, also when it fails, sets what must not be there the next time. */
static int sb_space_register(struct kprobe *probe)
{
	probe->addr = NULL;
	probe->flags = 0;
	return register_kprobe(probe);
}

/*
 * From the first session on the probes stay, as they cost little: who unregisters one waits for a
 * grace period, and so does the next open(). A kernel whose moves can't be
 * followed is followed all the same.
 */
static int sb_space_probes_register(void)
{
	int err = 0;

	mutex_lock(&sb_space_probe_lock);
	if (!sb_space_follows) {
		err = sb_space_register(&sb_space_probe) ? -EOPNOTSUPP : 0;
		if (!err)
			sb_space_follows_moves = !sb_space_register(&sb_space_move_probe);
		sb_space_follows = !err;
	}
	mutex_unlock(&sb_space_probe_lock);
	return err;
}

static void sb_space_probes_unregister(void)
{
	if (sb_space_follows_moves)
		unregister_kprobe(&sb_space_move_probe);
	if (sb_space_follows)
		unregister_kprobe(&sb_space_probe);
}

/* What the probes did not see since they are there. */
static u64 sb_space_missed(void)
{
	return READ_ONCE(sb_space_probe.nmissed) + READ_ONCE(sb_space_move_probe.nmissed);
}

int sb_spaces_prove(void)
{
	unsigned long address;
	int err = 0, proofs;

	if (!current->mm)
		return 0;
	atomic_inc(&sb_space_provers);
	proofs = atomic_read(&sb_space_proofs);
	address = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
			  0);
	if (!IS_ERR_VALUE(address)) {
		if (atomic_read(&sb_space_proofs) == proofs)
			err = -EOPNOTSUPP;
		vm_munmap(address, PAGE_SIZE);
	}
	atomic_dec(&sb_space_provers);
	return err;
}

/* Memory of a process that has ended meanwhile. */
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
 * The last one to let go takes the whole space down, which can take long, and until then
 * its program's file can't be written to. The other spaces do not wait for that, nor is
 * it left to a queue (that of mmput_async()) where it would wait for other work.
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

void sb_seen_put(struct sb_seen *seen)
{
	if (!seen->mm)
		return;
	sb_memory_put(seen->mm);
	put_task_struct(seen->leader);
	seen->mm = NULL;
}

bool sb_spaces_next_change(struct sb_spaces *spaces, struct sb_change *change)
{
	u32 tail = spaces->changes_tail;
	struct sb_change *next = &spaces->changes[tail % SB_CHANGES_MAX];

	/* Pairs with the release in sb_spaces_add_change(), which has us called again. */
	if (!smp_load_acquire(&next->complete))
		return false;
	*change = *next;
	next->complete = false;
	/* Pairs with the acquire in sb_spaces_reserve_change(). */
	smp_store_release(&spaces->changes_tail, tail + 1);
	return true;
}

bool sb_spaces_have_news(const struct sb_spaces *spaces)
{
	u32 unread = sb_ring_unread(&spaces->ring);

	if (unread >= spaces->ring.size / 2)
		return true;
	/* Whoever does not map the ring wants none of it. */
	return unread && READ_ONCE(spaces->news_due) &&
	       atomic_read(&spaces->ring_mapping.count);
}

static void sb_spaces_wake(struct work_struct *work)
{
	struct sb_spaces *spaces = container_of(to_delayed_work(work), struct sb_spaces, news);

	WRITE_ONCE(spaces->news_due, true);
	wake_up_interruptible(&spaces->session->wait);
}

void sb_spaces_announce(struct sb_spaces *spaces)
{
	queue_delayed_work(sb_space_workqueue, &spaces->news, SB_NEWS_JIFFIES);
}

int sb_spaces_open_file(struct sb_spaces *spaces, u64 id)
{
	struct sb_mapped_file *object;
	struct path path;
	int fd;

	mutex_lock(&spaces->lock);
	object = sb_mapped_files_find(&spaces->objects, id);
	if (object) {
		path = object->path;
		path_get(&path);
	}
	mutex_unlock(&spaces->lock);
	if (!object)
		return -ENOENT;
	fd = sb_path_open(&path, spaces->session->cred, spaces->objects.root);
	path_put(&path);
	return fd;
}

int sb_spaces_release_file(struct sb_spaces *spaces, u64 id)
{
	struct sb_mapped_file *object;

	mutex_lock(&spaces->lock);
	object = sb_mapped_files_find(&spaces->objects, id);
	if (object)
		sb_mapped_files_remove(&spaces->objects, object);
	mutex_unlock(&spaces->lock);
	if (!object)
		return -ENOENT;
	/* Its file may go with it, which can take long, or wait for a server. */
	sb_mapped_file_free(object);
	return 0;
}

void sb_spaces_count(const struct sb_spaces *spaces, u64 *counts)
{
	const struct sb_seen_queue *queue;
	u64 without_space = 0;
	u32 cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		queue = sb_spaces_find_queue(spaces, cpu);
		if (queue)
			without_space += READ_ONCE(queue->lost);
	}
	counts[STACKBEAT_S_ADDRESS_SPACES] = READ_ONCE(spaces->told);
	counts[STACKBEAT_S_SAMPLES_WITHOUT_SPACE] = without_space;
	counts[STACKBEAT_S_SPACES_UNREAD] = READ_ONCE(spaces->lost);
	counts[STACKBEAT_S_MMAP_EVENTS] = READ_ONCE(spaces->changes_told);
	counts[STACKBEAT_S_MMAP_EVENTS_LOST] = atomic64_read(&spaces->changes_lost) +
					   sb_space_missed() - spaces->missed;
	counts[STACKBEAT_S_MAPPINGS_DROPPED] = READ_ONCE(spaces->left_out);
	counts[STACKBEAT_S_FILES] = READ_ONCE(spaces->objects.count);
	counts[STACKBEAT_S_MAPPINGS_WITHOUT_FILE] = READ_ONCE(spaces->objects_left_out);
	counts[STACKBEAT_S_WORKER_OVERHEAD_NS] = READ_ONCE(spaces->worker_cost);
	counts[STACKBEAT_S_PROBE_OVERHEAD_NS] = atomic64_read(&spaces->probe_cost);
}

struct sb_seen_queue *sb_spaces_find_queue(const struct sb_spaces *spaces, u32 cpu)
{
	/* Pairs with the release in sb_space_cursor_init(). */
	return smp_load_acquire(&spaces->queues[cpu]);
}

int sb_space_cursor_init(struct sb_space_cursor *cursor, struct sb_spaces *spaces, u32 cpu)
{
	struct sb_seen_queue *queue = spaces->queues[cpu];

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

static void sb_seen_queue_free(struct sb_seen_queue *queue)
{
	if (!queue)
		return;
	for (; queue->tail != queue->head; queue->tail++)
		sb_seen_put(&queue->items[queue->tail % SB_PENDING_MAX]);
	kvfree(queue);
}

struct sb_spaces *sb_spaces_alloc(struct sb_session *session, work_func_t worker)
{
	struct sb_spaces *spaces = kvzalloc(sizeof(*spaces), GFP_KERNEL_ACCOUNT);
	int err = -ENOMEM;

	if (!spaces)
		return ERR_PTR(-ENOMEM);
	spaces->session = session;
	spaces->pending = (atomic_t *)&session->page->metadata_pending;
	sb_init_hard_irq_work(&spaces->changes_kick, sb_spaces_on_change);
	mutex_init(&spaces->lock);
	INIT_LIST_HEAD(&spaces->unread);
	INIT_LIST_HEAD(&spaces->big);
	INIT_LIST_HEAD(&spaces->waiting);
	INIT_DELAYED_WORK(&spaces->work, worker);
	INIT_DELAYED_WORK(&spaces->news, sb_spaces_wake);
	spaces->path = kmalloc(STACKBEAT_PATH_MAX, GFP_KERNEL_ACCOUNT);
	spaces->table = kvcalloc(SB_SPACES_MAX, sizeof(*spaces->table), GFP_KERNEL_ACCOUNT);
	spaces->queues = kvcalloc(nr_cpu_ids, sizeof(*spaces->queues), GFP_KERNEL_ACCOUNT);
	if (!spaces->path || !spaces->table || !spaces->queues)
		goto err_memory;
	err = sb_mapped_files_init(&spaces->objects);
	if (err)
		goto err_memory;
	err = sb_ring_alloc(&spaces->ring, STACKBEAT_META_RING_SIZE, U32_MAX);
	if (err)
		goto err_objects;
	err = sb_space_probes_register();
	if (err)
		goto err_ring;
	spaces->missed = sb_space_missed();
	sb_mapping_init_ring(&spaces->consumer_mapping, &spaces->ring_mapping, &spaces->ring);
	return spaces;

err_ring:
	sb_ring_free(&spaces->ring);
err_objects:
	sb_mapped_files_free(&spaces->objects);
err_memory:
	kvfree(spaces->queues);
	kvfree(spaces->table);
	kfree(spaces->path);
	kvfree(spaces);
	return ERR_PTR(err);
}

void sb_spaces_follow(struct sb_spaces *spaces)
{
	spin_lock(&sb_spaces_lock);
	list_add_tail_rcu(&spaces->list, &sb_spaces_followed);
	spin_unlock(&sb_spaces_lock);
}

void sb_spaces_unfollow(struct sb_spaces *spaces)
{
	spin_lock(&sb_spaces_lock);
	list_del_rcu(&spaces->list);
	spin_unlock(&sb_spaces_lock);
}

void sb_spaces_stop(struct sb_spaces *spaces)
{
	irq_work_sync(&spaces->changes_kick);
	cancel_delayed_work_sync(&spaces->work);
	cancel_delayed_work_sync(&spaces->news);
}

void sb_spaces_free(struct sb_spaces *spaces)
{
	struct sb_change change;
	u32 cpu;

	if (!spaces)
		return;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		sb_seen_queue_free(spaces->queues[cpu]);
	while (sb_spaces_next_change(spaces, &change)) {
		if (change.file)
			fput(change.file);
	}
	sb_mapped_files_free(&spaces->objects);
	sb_ring_free(&spaces->ring);
	mutex_destroy(&spaces->lock);
	kvfree(spaces->found);
	kvfree(spaces->queues);
	kvfree(spaces->table);
	kfree(spaces->path);
	kvfree(spaces);
}

int sb_space_init(void)
{
	/* What waits for it has little time: a process that ends is held meanwhile. */
	sb_space_workqueue = alloc_workqueue("stackbeat-spaces", WQ_UNBOUND | WQ_HIGHPRI, 0);
	sb_memory_workqueue = alloc_workqueue("stackbeat-memory", WQ_UNBOUND | WQ_HIGHPRI, 0);
	if (sb_space_workqueue && sb_memory_workqueue)
		return 0;
	sb_space_exit();
	return -ENOMEM;
}

void sb_space_exit(void)
{
	sb_space_probes_unregister();
	if (sb_space_workqueue)
		destroy_workqueue(sb_space_workqueue);
	/* The other one may still have filled it. */
	if (sb_memory_workqueue)
		destroy_workqueue(sb_memory_workqueue);
}
