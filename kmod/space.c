// SPDX-License-Identifier: GPL-2.0
#include <linux/atomic.h>
#include <linux/cgroup.h>
#include <linux/file.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "beat.h"
#include "object.h"
#include "session.h"
#include "space.h"

#define SB_WAYS 8u
#define SB_SETS_BITS 10
static_assert((SB_WAYS << SB_SETS_BITS) == STACKBEAT_SPACES_MAX);

/* Changes that wait for the worker. */
#define SB_CHANGES_MAX 1024u

/* How long the mappings of a space are not read again after changes were lost. */
#define SB_REREAD_NS (100 * NSEC_PER_MSEC)

/* How long after each other the worker tries what it has to wait for. */
#define SB_TRY_JIFFIES (msecs_to_jiffies(10) ?: 1)

/* How long, and how many, spaces are held that are locked by others. */
#define SB_LOCKED_JIFFIES HZ
#define SB_LOCKED_MAX 1024u

/*
 * What a session remembers of an address space. `seq` is odd while another CPU
 * writes; `generation` and `gap` may move at any time. Written by beats, whose
 * CPU has interrupts off, and by probes of the space's own tasks.
 */
struct sb_space {
	u32 seq;
	u32 pid;
	u64 id;			/* 0: free */
	struct mm_struct *mm;	/* to compare, never followed */
	u64 start_time;
	u64 exec_id;
	atomic_t generation;
	u32 gap;		/* first generation that was not queued; 0: none */
	u64 next_read;		/* ns: not read again before */
} ____cacheline_aligned;

/* A space that is to be read, with its references. */
struct sb_seen {
	struct mm_struct *mm;
	struct task_struct *leader;
	struct sb_space *space;	/* where it was noted */
	u64 id;
	u64 start_time;
	u32 gap;
	u32 pid, inner_pid, parent;
	char comm[TASK_COMM_LEN];
};

/* One producer, a beat with interrupts off; one consumer, the worker. */
struct sb_seen_queue {
	u32 head;
	u32 tail;
	u64 lost;		/* samples that had to do without a space */
	struct sb_seen items[STACKBEAT_SPACES_PENDING_MAX];
};

struct sb_change {
	u64 id;
	u32 generation;
	bool vdso;
	unsigned long start, end;
	u64 offset;
	struct file *file;	/* a reference, or NULL */
};

/* A mapping that is to be told. */
struct sb_told_mapping {
	u64 start, end, offset, vaddr, object;
	u32 flags;		/* STACKBEAT_MAPPING_* */
};

/* What is read, or is still to be, and waits for room in the ring. */
struct sb_capture {
	struct list_head list;
	struct sb_seen seen;	/* mm: NULL once it is read */
	unsigned long give_up;	/* jiffies: not to be tried any more */
	u32 generation;
	bool change;		/* one mapping that changed, and no space record */
	bool began;		/* the space record is written */
	u32 count, next;	/* mappings, and those that are written */
	u32 left_out;
	u64 cgroup;
	char *cgroup_path;	/* NULL: none */
	struct sb_told_mapping *mappings;
	struct sb_told_mapping one;	/* that of a change */
};

struct sb_spaces {
	struct sb_session *session;
	atomic_t *pending;	/* on the session page */
	atomic64_t last_id;
	struct sb_space *table;

	/* Taken by probes and the worker, never by a beat. */
	raw_spinlock_t changes_lock;
	u32 changes_head, changes_tail;
	u64 changes_lost;
	struct sb_change changes[SB_CHANGES_MAX];

	/* Of the worker, and of what the reader asks for. */
	struct mutex lock;
	struct sb_objects objects;
	struct sb_ring ring;
	struct list_head unread;	/* captures whose space is locked by others */
	u32 unread_count;
	struct list_head waiting;	/* captures that are to be written, oldest first */
	u32 waiting_count;		/* mappings and spaces in it */
	char *path;			/* STACKBEAT_PATH_MAX bytes */
	u64 told, lost, changes_told, left_out, objects_left_out;
	struct delayed_work work;
	struct sb_mapping consumer_mapping;
	struct sb_mapping ring_mapping;
};

static struct workqueue_struct *sb_space_workqueue;

/* --- beats ---------------------------------------------------------------- */

/* Whether the entry is that of the current task, which then gets id and generation. */
static __always_inline bool sb_space_is_current(struct sb_space *space, u64 *id,
						u32 *generation)
{
	u32 seq = smp_load_acquire(&space->seq);

	if ((seq & 1) || READ_ONCE(space->mm) != current->mm ||
	    READ_ONCE(space->exec_id) != current->self_exec_id ||
	    READ_ONCE(space->start_time) != current->group_leader->start_boottime ||
	    READ_ONCE(space->pid) != current->tgid)
		return false;
	*id = READ_ONCE(space->id);
	*generation = atomic_read(&space->generation);
	/* Pairs with the release in sb_space_note(). */
	smp_rmb();
	return READ_ONCE(space->seq) == seq;
}

static struct sb_space *sb_spaces_set(const struct sb_spaces *spaces,
				      const struct mm_struct *mm)
{
	return spaces->table + hash_ptr(mm, SB_SETS_BITS) * SB_WAYS;
}

/* Notes the current task's space; NULL: another CPU is writing in its place. */
static struct sb_space *sb_space_note(struct sb_spaces *spaces, u64 id, u64 now)
{
	struct sb_space *set = sb_spaces_set(spaces, current->mm);
	struct sb_space *space = set + id % SB_WAYS;
	u32 way, seq;

	for (way = 0; way < SB_WAYS; way++) {
		if (!READ_ONCE(set[way].id)) {
			space = set + way;
			break;
		}
	}
	seq = READ_ONCE(space->seq);
	if ((seq & 1) || cmpxchg(&space->seq, seq, seq + 1) != seq)
		return NULL;
	WRITE_ONCE(space->id, id);
	WRITE_ONCE(space->mm, current->mm);
	WRITE_ONCE(space->pid, current->tgid);
	WRITE_ONCE(space->start_time, current->group_leader->start_boottime);
	WRITE_ONCE(space->exec_id, current->self_exec_id);
	WRITE_ONCE(space->gap, 0);
	WRITE_ONCE(space->next_read, now + SB_REREAD_NS);
	atomic_set(&space->generation, 1);
	smp_store_release(&space->seq, seq + 2);
	return space;
}

/* Queues the current task's space to be read. False: there is no room. */
static bool sb_space_queue(struct sb_beat *beat, u64 id, struct sb_space *space, u32 gap)
{
	struct sb_seen_queue *queue = beat->seen;
	struct sb_spaces *spaces = beat->session->spaces;
	struct task_struct *leader = current->group_leader;
	const struct pid *pid = task_tgid(current);
	struct sb_seen *seen;

	/* Pairs with the release in sb_spaces_take_seen(). */
	if (queue->head - smp_load_acquire(&queue->tail) == STACKBEAT_SPACES_PENDING_MAX)
		return false;
	if (!mmget_not_zero(current->mm))
		return false;
	get_task_struct(leader);

	seen = &queue->items[queue->head % STACKBEAT_SPACES_PENDING_MAX];
	seen->mm = current->mm;
	seen->leader = leader;
	seen->space = space;
	seen->id = id;
	seen->start_time = leader->start_boottime;
	seen->gap = gap;
	seen->pid = current->tgid;
	seen->inner_pid = pid ? pid->numbers[pid->level].nr : 0;
	seen->parent = rcu_dereference_sched(leader->real_parent)->tgid;
	memcpy(seen->comm, leader->comm, sizeof(seen->comm));
	seen->comm[sizeof(seen->comm) - 1] = '\0';

	atomic_inc(spaces->pending);
	smp_store_release(&queue->head, queue->head + 1);
	queue_delayed_work(sb_space_workqueue, &spaces->work, 0);
	return true;
}

static noinline u64 sb_space_first_sight(struct sb_beat *beat, u64 now, u32 *generation)
{
	struct sb_spaces *spaces = beat->session->spaces;
	struct sb_seen_queue *queue = beat->seen;
	struct sb_space *space;
	u64 id;

	*generation = 0;
	if (queue->head - READ_ONCE(queue->tail) == STACKBEAT_SPACES_PENDING_MAX) {
		queue->lost++;
		return 0;
	}
	id = atomic64_inc_return(&spaces->last_id);
	space = sb_space_note(spaces, id, now);
	if (!sb_space_queue(beat, id, space, 0)) {
		queue->lost++;
		return 0;
	}
	beat->space = space;
	*generation = 1;
	return id;
}

/* Has the mappings read again, as changes of theirs were lost. */
static noinline void sb_space_reread(struct sb_beat *beat, struct sb_space *space, u64 id,
				     u64 now)
{
	u32 gap;

	if (now < READ_ONCE(space->next_read))
		return;
	WRITE_ONCE(space->next_read, now + SB_REREAD_NS);
	gap = xchg(&space->gap, 0);
	if (gap && !sb_space_queue(beat, id, space, gap))
		cmpxchg(&space->gap, 0, gap);
}

u64 sb_space_see(struct sb_beat *beat, u64 now, u32 *generation)
{
	struct sb_space *space = beat->space;
	struct sb_space *set;
	u32 way;
	u64 id;

	if (likely(space && sb_space_is_current(space, &id, generation)))
		goto found;

	set = sb_spaces_set(beat->session->spaces, current->mm);
	for (way = 0; way < SB_WAYS; way++) {
		space = set + way;
		if (sb_space_is_current(space, &id, generation)) {
			beat->space = space;
			goto found;
		}
	}
	return sb_space_first_sight(beat, now, generation);

found:
	if (unlikely(READ_ONCE(space->gap)))
		sb_space_reread(beat, space, id, now);
	return id;
}

/* --- the probe ------------------------------------------------------------ */

/* Queues a change, or notes that it is missing. */
static void sb_spaces_add_change(struct sb_spaces *spaces, struct sb_space *space,
				 const struct vm_area_struct *vma)
{
	struct sb_change *change;
	unsigned long flags;
	u32 generation;

	raw_spin_lock_irqsave(&spaces->changes_lock, flags);
	generation = atomic_inc_return(&space->generation);
	if (spaces->changes_head - spaces->changes_tail == SB_CHANGES_MAX) {
		spaces->changes_lost++;
		cmpxchg(&space->gap, 0, generation);
	} else {
		change = &spaces->changes[spaces->changes_head++ % SB_CHANGES_MAX];
		change->id = READ_ONCE(space->id);
		change->generation = generation;
		change->vdso = vma->vm_start == (unsigned long)vma->vm_mm->context.vdso;
		change->start = vma->vm_start;
		change->end = vma->vm_end;
		change->offset = vma->vm_file ? (u64)vma->vm_pgoff << PAGE_SHIFT : 0;
		change->file = vma->vm_file ? get_file(vma->vm_file) : NULL;
		atomic_inc(spaces->pending);
	}
	raw_spin_unlock_irqrestore(&spaces->changes_lock, flags);
	queue_delayed_work(sb_space_workqueue, &spaces->work, 0);
}

/*
 * The kernel tells perf of each mapping here, in the task that makes it and under
 * its mmap_lock: for mmap(), mprotect(), and what exec maps. A mapping that takes
 * the place of another one, at the same address and of the same size, can be seen
 * in no counter of the address space.
 */
static int sb_space_on_mapping(struct kprobe *probe, struct pt_regs *regs)
{
	const struct vm_area_struct *vma = (void *)regs_get_kernel_argument(regs, 0);
	struct sb_session *session;
	struct sb_spaces *spaces;
	struct sb_space *set;
	u32 way;

	if (!(vma->vm_flags & VM_EXEC) || vma->vm_mm != current->mm)
		return 0;
	rcu_read_lock();
	sb_session_for_each_rcu(session) {
		spaces = session->spaces;
		set = sb_spaces_set(spaces, vma->vm_mm);
		for (way = 0; way < SB_WAYS; way++) {
			if (READ_ONCE(set[way].mm) == vma->vm_mm)
				sb_spaces_add_change(spaces, set + way, vma);
		}
	}
	rcu_read_unlock();
	return 0;
}

static struct kprobe sb_space_probe = {
	.symbol_name = "perf_event_mmap",
	.pre_handler = sb_space_on_mapping,
};

static DEFINE_MUTEX(sb_space_probe_lock);
static u32 sb_space_probe_users; /* under sb_space_probe_lock */

static int sb_space_follow(void)
{
	int err = 0;

	mutex_lock(&sb_space_probe_lock);
	if (!sb_space_probe_users)
		err = register_kprobe(&sb_space_probe);
	if (!err)
		sb_space_probe_users++;
	mutex_unlock(&sb_space_probe_lock);
	return err;
}

static void sb_space_unfollow(void)
{
	mutex_lock(&sb_space_probe_lock);
	if (!--sb_space_probe_users) {
		unregister_kprobe(&sb_space_probe);
		/* What registering has set must not be there the next time. */
		sb_space_probe.addr = NULL;
		sb_space_probe.flags = 0;
	}
	mutex_unlock(&sb_space_probe_lock);
}

/* --- the worker: reading -------------------------------------------------- */

static void sb_seen_put(struct sb_seen *seen)
{
	if (!seen->mm)
		return;
	/* The last one to let go would have to take the whole space down. */
	mmput_async(seen->mm);
	put_task_struct(seen->leader);
	seen->mm = NULL;
}

static void sb_capture_free(struct sb_spaces *spaces, struct sb_capture *capture)
{
	sb_seen_put(&capture->seen);
	if (capture->mappings != &capture->one)
		kvfree(capture->mappings);
	kfree(capture->cgroup_path);
	kfree(capture);
	atomic_dec(spaces->pending);
}

/*
 * The object of a mapping's file, by its id, and where the file says that the
 * mapping's code is to be.
 */
static void sb_mapping_find_object(struct sb_spaces *spaces, struct sb_told_mapping *mapping,
				   struct file *file)
{
	struct sb_object *object;

	if (!file || !S_ISREG(file_inode(file)->i_mode))
		return;
	object = sb_objects_get(&spaces->objects, file);
	if (!object) {
		spaces->objects_left_out++;
		return;
	}
	mapping->object = object->id;
	if (sb_elf_vaddr(&object->elf, mapping->offset, &mapping->vaddr))
		mapping->flags |= STACKBEAT_MAPPING_VADDR;
}

static void sb_capture_add(struct sb_spaces *spaces, struct sb_capture *capture,
			   const struct vm_area_struct *vma)
{
	const struct mm_struct *mm = vma->vm_mm;
	struct sb_told_mapping *mapping = &capture->mappings[capture->count++];

	*mapping = (struct sb_told_mapping){
		.start = vma->vm_start,
		.end = vma->vm_end,
		.offset = vma->vm_file ? (u64)vma->vm_pgoff << PAGE_SHIFT : 0,
	};
	if (vma->vm_start == (unsigned long)mm->context.vdso)
		mapping->flags |= STACKBEAT_MAPPING_VDSO;
	if (vma->vm_start <= mm->start_code && mm->start_code < vma->vm_end)
		mapping->flags |= STACKBEAT_MAPPING_EXECUTABLE;
	sb_mapping_find_object(spaces, mapping, vma->vm_file);
}

static u32 sb_count_executable(struct mm_struct *mm)
{
	struct vm_area_struct *vma;
	unsigned long at = 0;
	u32 count = 0;

	while ((vma = find_vma(mm, at))) {
		count += !!(vma->vm_flags & VM_EXEC);
		at = vma->vm_end;
		cond_resched();
	}
	return count;
}

/* The generation now; that of the first sight where the table has forgotten the space. */
static u32 sb_seen_generation(const struct sb_seen *seen)
{
	u32 generation;

	if (!seen->space)
		return 1;
	generation = atomic_read(&seen->space->generation);
	smp_rmb(); /* it is that of this space if the id is still there afterwards */
	return READ_ONCE(seen->space->id) == seen->id ? generation : 1;
}

/* Reads the mappings, under mmap_lock: no change comes in between. */
static void sb_capture_read_mappings(struct sb_spaces *spaces, struct sb_capture *capture)
{
	struct mm_struct *mm = capture->seen.mm;
	u32 count = sb_count_executable(mm);
	u32 room = min(count, STACKBEAT_MAPPINGS_MAX);
	struct vm_area_struct *vma;
	unsigned long at = 0;

	capture->generation = sb_seen_generation(&capture->seen);
	if (room > STACKBEAT_MAPPINGS_WAITING_MAX - min(spaces->waiting_count,
							STACKBEAT_MAPPINGS_WAITING_MAX))
		room = 0;
	capture->mappings = kvmalloc_array(room, sizeof(*capture->mappings), GFP_KERNEL);
	if (!capture->mappings)
		room = 0;
	while (capture->count < room && (vma = find_vma(mm, at))) {
		if (vma->vm_flags & VM_EXEC)
			sb_capture_add(spaces, capture, vma);
		at = vma->vm_end;
		cond_resched();
	}
	capture->left_out = count - capture->count;
}

static void sb_capture_read_cgroup(struct sb_spaces *spaces, struct sb_capture *capture)
{
	struct cgroup *cgroup;
	int length;

	rcu_read_lock();
	cgroup = task_dfl_cgroup(capture->seen.leader);
	capture->cgroup = cgroup_id(cgroup);
	length = cgroup_path(cgroup, spaces->path, STACKBEAT_PATH_MAX);
	rcu_read_unlock();
	if (length > 0 && length < STACKBEAT_PATH_MAX)
		capture->cgroup_path = kstrdup(spaces->path, GFP_KERNEL);
}

/*
 * Reads a space, and lets go of it. False: it is locked, try again. Whoever has
 * locked it may wait for a file system that does not answer, so this doesn't wait
 * for him.
 */
static bool sb_capture_read(struct sb_spaces *spaces, struct sb_capture *capture)
{
	struct mm_struct *mm = capture->seen.mm;

	if (mmap_read_trylock(mm)) {
		sb_capture_read_mappings(spaces, capture);
		mmap_read_unlock(mm);
	} else if (time_before(jiffies, capture->give_up)) {
		return false;
	} else {
		capture->generation = 1;
		capture->left_out = mm->map_count;
	}
	sb_capture_read_cgroup(spaces, capture);
	sb_seen_put(&capture->seen);
	spaces->left_out += capture->left_out;
	return true;
}

static void sb_capture_wait(struct sb_spaces *spaces, struct sb_capture *capture)
{
	list_move_tail(&capture->list, &spaces->waiting);
	spaces->waiting_count += 1 + capture->count;
}

/* There is room for a space without its mappings when there is none for mappings. */
static bool sb_spaces_have_room(const struct sb_spaces *spaces)
{
	return spaces->waiting_count < 2 * STACKBEAT_MAPPINGS_WAITING_MAX &&
	       spaces->unread_count < SB_LOCKED_MAX;
}

static struct sb_capture *sb_capture_alloc(const struct sb_spaces *spaces)
{
	struct sb_capture *capture;

	if (!sb_spaces_have_room(spaces))
		return NULL;
	capture = kzalloc(sizeof(*capture), GFP_KERNEL);
	if (capture)
		INIT_LIST_HEAD(&capture->list);
	return capture;
}

static void sb_spaces_take_seen(struct sb_spaces *spaces, struct sb_seen_queue *queue)
{
	struct sb_capture *capture;
	struct sb_seen *seen;

	/* Pairs with the release in sb_space_queue(). */
	while (queue->tail != smp_load_acquire(&queue->head)) {
		seen = &queue->items[queue->tail % STACKBEAT_SPACES_PENDING_MAX];
		capture = sb_capture_alloc(spaces);
		if (capture) {
			capture->seen = *seen;
			capture->give_up = jiffies + SB_LOCKED_JIFFIES;
		} else {
			sb_seen_put(seen);
			spaces->lost++;
			atomic_dec(spaces->pending);
		}
		smp_store_release(&queue->tail, queue->tail + 1);
		if (!capture)
			continue;
		if (sb_capture_read(spaces, capture)) {
			sb_capture_wait(spaces, capture);
		} else {
			list_add_tail(&capture->list, &spaces->unread);
			spaces->unread_count++;
		}
	}
}

static void sb_spaces_take_all_seen(struct sb_spaces *spaces)
{
	struct sb_capture *capture, *next;
	struct sb_beat *beat;
	u32 cpu;

	list_for_each_entry_safe(capture, next, &spaces->unread, list) {
		if (!sb_capture_read(spaces, capture))
			continue;
		sb_capture_wait(spaces, capture);
		spaces->unread_count--;
	}
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		beat = sb_session_find_beat(spaces->session, cpu);
		if (beat)
			sb_spaces_take_seen(spaces, beat->seen);
	}
}

/* Takes the oldest change. False: there is none. */
static bool sb_spaces_next_change(struct sb_spaces *spaces, struct sb_change *change)
{
	unsigned long flags;
	bool found;

	raw_spin_lock_irqsave(&spaces->changes_lock, flags);
	found = spaces->changes_tail != spaces->changes_head;
	if (found)
		*change = spaces->changes[spaces->changes_tail++ % SB_CHANGES_MAX];
	raw_spin_unlock_irqrestore(&spaces->changes_lock, flags);
	return found;
}

static void sb_spaces_take_changes(struct sb_spaces *spaces)
{
	struct sb_capture *capture;
	struct sb_change change;
	u32 limit = SB_CHANGES_MAX;

	while (limit-- && sb_spaces_next_change(spaces, &change)) {
		capture = sb_capture_alloc(spaces);
		if (capture) {
			capture->change = true;
			capture->seen.id = change.id;
			capture->generation = change.generation;
			capture->mappings = &capture->one;
			capture->count = 1;
			capture->one.start = change.start;
			capture->one.end = change.end;
			capture->one.offset = change.offset;
			capture->one.flags = STACKBEAT_MAPPING_CHANGE |
					     (change.vdso ? STACKBEAT_MAPPING_VDSO : 0);
			sb_mapping_find_object(spaces, &capture->one, change.file);
			sb_capture_wait(spaces, capture);
		} else {
			spaces->left_out++;
			atomic_dec(spaces->pending);
		}
		if (change.file)
			fput(change.file);
	}
}

/* --- the worker: telling -------------------------------------------------- */

static bool sb_tell_space(struct sb_spaces *spaces, const struct sb_capture *capture)
{
	size_t length = capture->cgroup_path ? strlen(capture->cgroup_path) : 0;
	u32 size = ALIGN(sizeof(struct stackbeat_space) + length + 1, sizeof(u64));
	struct stackbeat_space *record;

	if (!sb_ring_has_room(&spaces->ring, size))
		return false;
	record = sb_ring_reserve(&spaces->ring, size);
	memset(record, 0, size);
	record->record.type = STACKBEAT_RECORD_SPACE;
	record->record.size = size;
	record->space = capture->seen.id;
	record->start_time = capture->seen.start_time;
	record->cgroup = capture->cgroup;
	record->generation = capture->generation;
	record->gap = capture->seen.gap;
	record->pid = capture->seen.pid;
	record->inner_pid = capture->seen.inner_pid;
	record->parent = capture->seen.parent;
	record->mappings = capture->count;
	record->left_out = capture->left_out;
	memcpy(record->comm, capture->seen.comm, sizeof(record->comm));
	memcpy(record->cgroup_path, capture->cgroup_path, length);
	sb_ring_commit(&spaces->ring, size);
	return true;
}

static bool sb_tell_mapping(struct sb_spaces *spaces, const struct sb_capture *capture,
			    const struct sb_told_mapping *mapping)
{
	struct stackbeat_mapping *record;

	if (!sb_ring_has_room(&spaces->ring, sizeof(*record)))
		return false;
	record = sb_ring_reserve(&spaces->ring, sizeof(*record));
	*record = (struct stackbeat_mapping){
		.record.type = STACKBEAT_RECORD_MAPPING,
		.record.flags = mapping->flags,
		.record.size = sizeof(*record),
		.space = capture->seen.id,
		.start = mapping->start,
		.end = mapping->end,
		.offset = mapping->offset,
		.vaddr = mapping->vaddr,
		.object = mapping->object,
		.generation = capture->generation,
	};
	sb_ring_commit(&spaces->ring, sizeof(*record));
	return true;
}

/* Writes what there is room for, and goes on there the next time. */
static bool sb_tell_capture(struct sb_spaces *spaces, struct sb_capture *capture)
{
	if (!capture->change && !capture->began) {
		if (!sb_tell_space(spaces, capture))
			return false;
		capture->began = true;
		spaces->told++;
	}
	for (; capture->next < capture->count; capture->next++) {
		if (!sb_tell_mapping(spaces, capture, &capture->mappings[capture->next]))
			return false;
	}
	spaces->changes_told += capture->change;
	return true;
}

/* False: there is more, and the ring is full. */
static bool sb_spaces_tell(struct sb_spaces *spaces)
{
	struct sb_capture *capture;

	if (!sb_objects_tell(&spaces->objects, &spaces->ring))
		return false;
	while (!list_empty(&spaces->waiting)) {
		capture = list_first_entry(&spaces->waiting, struct sb_capture, list);
		if (!sb_tell_capture(spaces, capture))
			return false;
		list_del(&capture->list);
		spaces->waiting_count -= 1 + capture->count;
		sb_capture_free(spaces, capture);
	}
	return true;
}

static void sb_spaces_work(struct work_struct *work)
{
	struct sb_spaces *spaces = container_of(to_delayed_work(work), struct sb_spaces, work);
	bool more;

	mutex_lock(&spaces->lock);
	sb_spaces_take_all_seen(spaces);
	sb_spaces_take_changes(spaces);
	more = !sb_spaces_tell(spaces) || !list_empty(&spaces->unread);
	mutex_unlock(&spaces->lock);

	if (sb_spaces_have_news(spaces))
		wake_up_interruptible(&spaces->session->wait);
	if (more)
		queue_delayed_work(sb_space_workqueue, &spaces->work, SB_TRY_JIFFIES);
}

/* --- the rest ------------------------------------------------------------- */

bool sb_spaces_have_news(const struct sb_spaces *spaces)
{
	return sb_ring_unread(&spaces->ring) >= spaces->ring.size / 2;
}

struct sb_mapping *sb_spaces_consumer_mapping(struct sb_spaces *spaces)
{
	return &spaces->consumer_mapping;
}

struct sb_mapping *sb_spaces_ring_mapping(struct sb_spaces *spaces)
{
	return &spaces->ring_mapping;
}

int sb_spaces_open_object(struct sb_spaces *spaces, u64 id)
{
	struct sb_object *object;
	struct file *file = NULL;
	int fd;

	mutex_lock(&spaces->lock);
	object = sb_objects_find(&spaces->objects, id);
	if (object)
		file = get_file(object->file);
	mutex_unlock(&spaces->lock);
	if (!file)
		return -ENOENT;
	fd = sb_file_open(file, spaces->session->cred);
	fput(file);
	return fd;
}

int sb_spaces_release_object(struct sb_spaces *spaces, u64 id)
{
	struct sb_object *object;

	mutex_lock(&spaces->lock);
	object = sb_objects_find(&spaces->objects, id);
	if (object)
		sb_objects_release(&spaces->objects, object);
	mutex_unlock(&spaces->lock);
	return object ? 0 : -ENOENT;
}

void sb_spaces_count(const struct sb_spaces *spaces, u64 *counts)
{
	const struct sb_beat *beat;
	u64 lost = READ_ONCE(spaces->lost);
	u32 cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		beat = sb_session_find_beat(spaces->session, cpu);
		if (beat)
			lost += READ_ONCE(beat->seen->lost);
	}
	counts[STACKBEAT_S_SPACES] = READ_ONCE(spaces->told);
	counts[STACKBEAT_S_SPACES_LOST] = lost;
	counts[STACKBEAT_S_CHANGES] = READ_ONCE(spaces->changes_told);
	counts[STACKBEAT_S_CHANGES_LOST] = READ_ONCE(spaces->changes_lost);
	counts[STACKBEAT_S_MAPPINGS_LEFT_OUT] = READ_ONCE(spaces->left_out);
	counts[STACKBEAT_S_OBJECTS] = READ_ONCE(spaces->objects.count);
	counts[STACKBEAT_S_OBJECTS_LEFT_OUT] = READ_ONCE(spaces->objects_left_out);
}

struct sb_seen_queue *sb_seen_queue_alloc(u32 cpu)
{
	return kvzalloc_node(sizeof(struct sb_seen_queue), GFP_KERNEL, cpu_to_node(cpu));
}

void sb_seen_queue_free(struct sb_seen_queue *queue)
{
	if (!queue)
		return;
	for (; queue->tail != queue->head; queue->tail++)
		sb_seen_put(&queue->items[queue->tail % STACKBEAT_SPACES_PENDING_MAX]);
	kvfree(queue);
}

struct sb_spaces *sb_spaces_alloc(struct sb_session *session)
{
	struct sb_spaces *spaces = kvzalloc(sizeof(*spaces), GFP_KERNEL);
	int err = -ENOMEM;

	if (!spaces)
		return ERR_PTR(-ENOMEM);
	spaces->session = session;
	spaces->pending = (atomic_t *)&session->page->pending;
	raw_spin_lock_init(&spaces->changes_lock);
	mutex_init(&spaces->lock);
	INIT_LIST_HEAD(&spaces->unread);
	INIT_LIST_HEAD(&spaces->waiting);
	INIT_DELAYED_WORK(&spaces->work, sb_spaces_work);
	spaces->path = kmalloc(STACKBEAT_PATH_MAX, GFP_KERNEL);
	spaces->table = kvcalloc(STACKBEAT_SPACES_MAX, sizeof(*spaces->table), GFP_KERNEL);
	if (!spaces->path || !spaces->table)
		goto err_memory;
	err = sb_objects_init(&spaces->objects);
	if (err)
		goto err_memory;
	err = sb_ring_alloc(&spaces->ring, STACKBEAT_META_RING_SIZE, U32_MAX);
	if (err)
		goto err_objects;
	err = sb_space_follow();
	if (err)
		goto err_ring;
	sb_mapping_init_ring(&spaces->consumer_mapping, &spaces->ring_mapping, &spaces->ring);
	return spaces;

err_ring:
	sb_ring_free(&spaces->ring);
err_objects:
	sb_objects_free(&spaces->objects);
err_memory:
	kvfree(spaces->table);
	kfree(spaces->path);
	kvfree(spaces);
	return ERR_PTR(err);
}

void sb_spaces_free(struct sb_spaces *spaces)
{
	struct sb_capture *capture, *next;
	struct sb_change change;

	if (!spaces)
		return;
	sb_space_unfollow();
	cancel_delayed_work_sync(&spaces->work);
	list_splice_init(&spaces->unread, &spaces->waiting);
	list_for_each_entry_safe(capture, next, &spaces->waiting, list)
		sb_capture_free(spaces, capture);
	while (sb_spaces_next_change(spaces, &change)) {
		if (change.file)
			fput(change.file);
	}
	sb_objects_free(&spaces->objects);
	sb_ring_free(&spaces->ring);
	mutex_destroy(&spaces->lock);
	kvfree(spaces->table);
	kfree(spaces->path);
	kvfree(spaces);
}

int sb_space_init(void)
{
	/* What waits for it has little time: a process that ends is held meanwhile. */
	sb_space_workqueue = alloc_workqueue("stackbeat-spaces", WQ_UNBOUND | WQ_HIGHPRI, 0);
	return sb_space_workqueue ? 0 : -ENOMEM;
}

void sb_space_exit(void)
{
	destroy_workqueue(sb_space_workqueue);
}
