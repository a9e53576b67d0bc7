// SPDX-License-Identifier: GPL-2.0
#include <linux/cgroup.h>
#include <linux/file.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "access.h"
#include "capture.h"
#include "compat/compat.h"
#include "cycles.h"
#include "limits.h"
#include "space.h"
#include "worker_memory.h"

/* Interval of the worker's retries: of locked spaces, and of a full ring at first. */
#define SB_TRY_JIFFIES (msecs_to_jiffies(10) ?: 1)

/* Spare room for mappings made between the allocation and taking mmap_lock. */
#define SB_FOUND_SPARE 64u

/* Mmap events are taken if they are due within this time: bursts may run ahead of the budget. */
#define SB_MMAP_EVENTS_AHEAD_NS (100 * NSEC_PER_MSEC)

/* A mapping to be written. */
struct sb_captured_mapping {
	u64 start, end, offset, vaddr, file;
	u32 flags;		/* STACKBEAT_MAPPING_* */
	bool uprobes;		/* see sb_vma_is_uprobes() */
};

/* A space to be read, or mappings or an mmap event to be written. */
struct sb_capture {
	struct list_head list;
	struct sb_request_queue *queue;	/* of the sample's CPU; NULL: an mmap event */
	struct sb_space_request request;	/* mm: NULL once it is read */
	unsigned long retry_until;	/* jiffies: no retries of mmap_lock afterwards */
	u32 generation;
	bool is_mmap_event;	/* one mapping, and no space record */
	bool space_written;	/* the space record is written */
	bool dropped;		/* its record is not written */
	bool rereading;		/* spaces->rereading is set for it */
	u32 count, written;	/* number of mappings, and of those written */
	u32 mappings_dropped;
	u32 weight;		/* size of its memory, in mappings, while it waits */
	u64 cgroup;
	char *cgroup_path;	/* NULL: none */
	struct sb_captured_mapping *mappings;
	struct sb_captured_mapping event_mapping;	/* the mapping of an mmap event */
};

/*
 * Measures the worker's overhead: elapsed time without the time in which the worker was runnable
 * and did not run. (sum_exec_runtime is updated at scheduler ticks and switches only.) The worker
 * sleeps only for memory; this time is included.
 */
struct sb_stopwatch {
	u64 began;		/* ns */
	u64 waited;		/* ns */
};

static u64 sb_stopwatch_waited(void)
{
#ifdef CONFIG_SCHED_INFO
	return current->sched_info.run_delay;
#else
	return 0;
#endif
}

static void sb_stopwatch_start(struct sb_stopwatch *watch)
{
	watch->waited = sb_stopwatch_waited();
	watch->began = ktime_get_ns();
}

static u64 sb_stopwatch_ns(const struct sb_stopwatch *watch)
{
	u64 passed = ktime_get_ns() - watch->began;
	u64 waited = sb_stopwatch_waited() - watch->waited;

	return passed > waited ? passed - waited : 0;
}

/*
 * Defers work that may take half of the session's budget, of one CPU, in proportion to the `ns`
 * that it has taken. Mmap events and rereads have half of the budget each, so that neither
 * delays the other.
 */
static void sb_spaces_defer(const struct sb_spaces *spaces, u64 *next, u64 ns)
{
	u64 now = ktime_get_ns();
	u32 permille = READ_ONCE(spaces->session->budget_permille);

	WRITE_ONCE(*next, max(*next, now) + div_u64(2 * 1000 * ns, permille));
}

/*
 * Charges the time for a space: a first reading to the CPU of its sample, which may throttle the
 * sampler; a reread delays the next one.
 */
static void sb_request_charge(struct sb_spaces *spaces, const struct sb_space_request *request,
			      struct sb_request_queue *queue, u64 ns)
{
	spaces->charged += ns;
	if (request->gap)
		sb_spaces_defer(spaces, &spaces->next_reread, ns);
	else
		atomic64_add(sb_ns_to_cycles(ns), &queue->charged);
}

static void sb_capture_charge(struct sb_spaces *spaces, const struct sb_capture *capture, u64 ns)
{
	if (!capture->is_mmap_event)
		sb_request_charge(spaces, &capture->request, capture->queue, ns);
}

static void sb_capture_free(struct sb_spaces *spaces, struct sb_capture *capture)
{
	sb_space_request_put(&capture->request);
	if (capture->mappings != &capture->event_mapping)
		kvfree(capture->mappings);
	kfree(capture->cgroup_path);
	kfree(capture);
	atomic_dec(spaces->pending);
}

/*
 * Sets the file id of a mapping, and the ELF virtual address of its start. Returns the file, or NULL.
 */
static const struct sb_mapped_file *sb_mapping_find_file(struct sb_spaces *spaces,
							 struct sb_captured_mapping *mapping,
							 const struct path *path,
							 struct inode *inode)
{
	struct sb_mapped_file *file;

	if (!S_ISREG(inode->i_mode))
		return NULL;
	file = sb_mapped_files_find_or_add(&spaces->files, path, inode);
	if (!file) {
		spaces->mappings_without_file++;
		return NULL;
	}
	mapping->file = file->id;
	if (sb_elf_vaddr(&file->elf, mapping->offset, &mapping->vaddr))
		mapping->flags |= STACKBEAT_MAPPING_VADDR;
	return file;
}

/* Returns a mapping for walks by unwind tables. The lock keeps its object until it is added. */
static struct sb_unwind_map sb_mapping_for_unwind(const struct sb_spaces *spaces,
						  const struct sb_captured_mapping *mapping,
						  const struct sb_mapped_file *file)
{
	struct sb_unwind_map map = {
		.start = mapping->start,
		.end = mapping->end,
		.offset = mapping->offset,
		.object = file ? file->object : NULL,
		.uprobes = mapping->uprobes,
	};
	const struct sb_unwind_table *table;

	if (mapping->flags & STACKBEAT_MAPPING_VDSO) {
		map.object = spaces->vdso;
		map.vdso = true;
		map.bias = mapping->start;
		map.biased = true;
	} else if (file) {
		sb_unwind_map_set_bias(&map, &file->elf);
	}
	if (map.object && !map.biased) {
		/* The headers were read for the table, or by another session. */
		table = sb_unwind_object_table(map.object);
		if (table)
			sb_unwind_map_set_bias(&map, &table->elf);
	}
	return map;
}

/* Makes room for `count` mappings in spaces->found, if there is memory. */
static void sb_spaces_grow_found(struct sb_spaces *spaces, u32 count)
{
	struct sb_found_mapping *found;

	if (count <= spaces->found_room)
		return;
	found = sb_worker_alloc(array_size(count, sizeof(*found)));
	if (!found)
		return;
	kvfree(spaces->found);
	spaces->found = found;
	spaces->found_room = count;
}

/* Number of further mappings that may wait for room in the ring. */
static u32 sb_spaces_room(const struct sb_spaces *spaces)
{
	return SB_MAPPINGS_WAITING_MAX - min(spaces->waiting_count, SB_MAPPINGS_WAITING_MAX);
}

static void sb_found_mapping_set(struct sb_found_mapping *found, const struct vm_area_struct *vma)
{
	const struct mm_struct *mm = vma->vm_mm;
	/* prctl() changes it without this lock. */
	unsigned long start_code = READ_ONCE(mm->start_code);

	*found = (struct sb_found_mapping){
		.start = vma->vm_start,
		.end = vma->vm_end,
		.offset = vma->vm_file ? (u64)vma->vm_pgoff << PAGE_SHIFT : 0,
		.uprobes = sb_vma_is_uprobes(vma),
	};
	if (vma->vm_file) {
		found->path = *sb_file_user_path(vma->vm_file);
		path_get(&found->path);
		found->inode = file_inode(vma->vm_file);
		ihold(found->inode);
	}
	if (vma->vm_start == (unsigned long)mm->context.vdso)
		found->flags |= STACKBEAT_MAPPING_VDSO;
	if (vma->vm_start <= start_code && start_code < vma->vm_end)
		found->flags |= STACKBEAT_MAPPING_MAIN_BINARY;
}

/*
 * Copies the executable mappings under mmap_lock. The process and its page faults may wait for
 * this lock: nothing is allocated or read from files here. No mmap event comes in between; except
 * on 5.10, where an executable stack grows under mmap_lock for reading, and the mapping of its
 * mmap event may be copied already. Returns the number of executable mappings.
 */
static u32 sb_spaces_find_mappings(struct sb_spaces *spaces, struct mm_struct *mm)
{
	SB_VMA_ITERATOR(iterator, mm);
	struct vm_area_struct *vma;
	u32 count = 0;

	spaces->found_count = 0;
	SB_FOR_EACH_VMA(iterator, vma) {
		if (vma->vm_flags & VM_EXEC) {
			count++;
			if (spaces->found_count < spaces->found_room)
				sb_found_mapping_set(&spaces->found[spaces->found_count++], vma);
		}
		cond_resched();
	}
	return count;
}

/* Whether anonymous memory may be text that was moved: it touches a mapping of a file. */
static bool sb_found_mapping_touches_file(const struct sb_spaces *spaces, u32 index)
{
	const struct sb_found_mapping *found = &spaces->found[index];

	if (found->inode || found->flags & STACKBEAT_MAPPING_VDSO || found->uprobes)
		return false;
	return (index && found[-1].inode && found[-1].end == found->start) ||
	       (index + 1 < spaces->found_count && found[1].inode && found[1].start == found->end);
}

/* Takes over the mappings found, if there is room for all, and drops their references. */
static void sb_capture_take_mappings(struct sb_spaces *spaces, struct sb_capture *capture)
{
	const struct sb_space_request *request = &capture->request;
	const struct sb_mapped_file *file;
	struct sb_captured_mapping *mapping;
	struct sb_found_mapping *found;
	struct sb_unwind_maps *maps = NULL;
	struct sb_unwind_map map;
	u32 room = spaces->found_count;
	u32 i;

	if (room > sb_spaces_room(spaces))
		room = 0;
	capture->mappings = sb_worker_alloc(array_size(room, sizeof(*capture->mappings)));
	if (!capture->mappings)
		room = 0;
	if (room)
		maps = sb_unwind_maps_alloc(&spaces->unwind_spaces, sb_space_slot(request->space),
					    request->space, room, sb_spaces_lose_maps, spaces);
	/* The reader finds out by the bytes, and until then such code has no callers. */
	for (i = 0; i < room && !spaces->urgent; i++)
		spaces->urgent = sb_found_mapping_touches_file(spaces, i);
	for (i = 0; i < spaces->found_count; i++) {
		found = &spaces->found[i];
		if (i < room) {
			mapping = &capture->mappings[capture->count++];
			*mapping = (struct sb_captured_mapping){
				.start = found->start,
				.end = found->end,
				.offset = found->offset,
				.flags = found->flags,
				.uprobes = found->uprobes,
			};
			file = found->inode ? sb_mapping_find_file(spaces, mapping, &found->path,
								   found->inode) : NULL;
			map = sb_mapping_for_unwind(spaces, mapping, file);
			if (maps && sb_unwind_maps_add(maps, &map)) {
				sb_unwind_maps_discard(maps);
				maps = NULL;
			}
		}
		if (found->inode) {
			iput(found->inode);
			path_put(&found->path);
		}
		cond_resched();
	}
	spaces->found_count = 0;
	if (maps)
		sb_unwind_maps_publish(maps, request->id, capture->generation);
	else if (room)
		sb_spaces_lose_maps(spaces, request->space, request->id);
}

static void sb_capture_read_cgroup(struct sb_spaces *spaces, struct sb_capture *capture)
{
	const struct cgroup_namespace *from = spaces->session->cgroup_ns;
	struct cgroup *cgroup;
	int length;

	rcu_read_lock();
	cgroup = task_dfl_cgroup(capture->request.leader);
	capture->cgroup = cgroup_id(cgroup);
	/* The same path as cgroup_path_ns(), which would wait for changes of control groups. */
	length = kernfs_path_from_node(cgroup->kn, from ? from->root_cset->dfl_cgrp->kn : NULL,
				       spaces->path, STACKBEAT_PATH_MAX);
	rcu_read_unlock();
	if (length > 0 && length < STACKBEAT_PATH_MAX)
		capture->cgroup_path = kstrdup(spaces->path, SB_GFP_WORKER);
}

/*
 * Whether a space may no longer be reported. A program that gains rights at exec runs in its new
 * memory before it has them, and can be sampled then. But it is mapped there only when it has the
 * rights, under the mmap_lock that readers of the mappings take.
 */
static bool sb_capture_is_hidden(const struct sb_spaces *spaces,
				 const struct sb_space_request *request)
{
	return spaces->session->restricted &&
	       !sb_owner_may_still_see(spaces->session, request->leader, request->mm);
}

/* Ends a request: the mappings are read, or can't be. */
static void sb_space_request_done(struct sb_space_request *request)
{
	if (request->space) {
		WRITE_ONCE(request->space->requested, false);
		sb_space_release(request->space);
	}
	sb_space_request_put(request);
}

/*
 * Reads the mappings of a space, and drops the references to it. False: its mmap_lock is held,
 * retry. The holder may wait for a file system that does not answer, so the worker does not
 * wait for the holder.
 */
static bool sb_capture_read(struct sb_spaces *spaces, struct sb_capture *capture)
{
	struct mm_struct *mm = capture->request.mm;
	/* For a space without an entry, mmap events since its sample are unknown. */
	bool has_entry = capture->request.space;
	bool locked;
	u32 count = 0;

	/* Mappings beyond this, made before the lock is taken, are dropped. */
	if (has_entry)
		sb_spaces_grow_found(spaces, min_t(u32, READ_ONCE(mm->map_count) + SB_FOUND_SPARE,
						   STACKBEAT_MAPPINGS_MAX));
	locked = has_entry && mmap_read_trylock(mm);
	if (has_entry && !locked && time_before(jiffies, capture->retry_until))
		return false;
	/* The earlier records of a space are better than a new one without mappings. */
	capture->dropped = sb_capture_is_hidden(spaces, &capture->request) ||
			(!locked && capture->request.gap);
	if (!capture->dropped && locked) {
		capture->generation = atomic_read(&capture->request.space->generation);
		count = sb_spaces_find_mappings(spaces, mm);
	} else if (!capture->dropped) {
		capture->generation = 1;
		count = READ_ONCE(mm->map_count);
	}
	if (locked)
		mmap_read_unlock(mm);
	if (!capture->dropped && locked) {
		sb_capture_take_mappings(spaces, capture);
		/* The same if there is no room for the mappings now. */
		capture->dropped = capture->request.gap && !capture->count && count;
	}
	capture->mappings_dropped = count - capture->count;
	if (capture->dropped) {
		capture->mappings_dropped = 0;
		sb_space_request_fail(&capture->request);
	} else {
		sb_capture_read_cgroup(spaces, capture);
	}
	sb_space_request_done(&capture->request);
	spaces->mappings_dropped += capture->mappings_dropped;
	return true;
}

static void sb_capture_queue(struct sb_spaces *spaces, struct sb_capture *capture)
{
	size_t length = capture->cgroup_path ? strlen(capture->cgroup_path) : 0;

	capture->weight = DIV_ROUND_UP(sizeof(*capture), sizeof(struct sb_captured_mapping)) +
			  capture->count +
			  DIV_ROUND_UP(length, sizeof(struct sb_captured_mapping));
	list_move_tail(&capture->list, &spaces->waiting);
	spaces->waiting_count += capture->weight;
}

/* Queues a capture that was read to be written, or frees it if it is dropped. */
static void sb_capture_finish(struct sb_spaces *spaces, struct sb_capture *capture)
{
	if (!capture->dropped) {
		sb_capture_queue(spaces, capture);
		return;
	}
	spaces->spaces_unread++;
	list_del(&capture->list);
	sb_capture_free(spaces, capture);
}

/* There may be room for a space without mappings when there is no room for mappings. */
static bool sb_spaces_have_room(const struct sb_spaces *spaces)
{
	return spaces->waiting_count < 2 * SB_MAPPINGS_WAITING_MAX &&
	       spaces->to_read_count < SB_LOCKED_MAX;
}

static struct sb_capture *sb_capture_alloc(const struct sb_spaces *spaces)
{
	struct sb_capture *capture;

	if (!sb_spaces_have_room(spaces))
		return NULL;
	capture = kzalloc(sizeof(*capture), SB_GFP_WORKER);
	if (capture)
		INIT_LIST_HEAD(&capture->list);
	return capture;
}

/* Reads the mappings of a space, or queues it for a retry if it is locked. */
static void sb_capture_try(struct sb_spaces *spaces, struct sb_capture *capture)
{
	struct sb_stopwatch watch;
	bool done;

	sb_stopwatch_start(&watch);
	done = sb_capture_read(spaces, capture);
	sb_capture_charge(spaces, capture, sb_stopwatch_ns(&watch));
	/* Other rereads do not wait for a locked space. */
	if (capture->rereading)
		atomic_set(&spaces->rereading, 0);
	capture->rereading = false;
	if (done) {
		spaces->to_read_count--;
		sb_capture_finish(spaces, capture);
	} else {
		list_move_tail(&capture->list, &spaces->locked);
	}
	cond_resched();
}

/*
 * The time to read a space depends on its number of mappings. Small ones are read at once, so
 * that they are not held for as long as the big ones take.
 */
static void sb_capture_try_small(struct sb_spaces *spaces, struct sb_capture *capture)
{
	if (READ_ONCE(capture->request.mm->map_count) > SB_BIG_MAPPINGS)
		list_move_tail(&capture->list, &spaces->big);
	else
		sb_capture_try(spaces, capture);
}

static void sb_spaces_read_queue(struct sb_spaces *spaces, struct sb_request_queue *queue)
{
	struct sb_capture *capture;
	struct sb_space_request *request;
	struct sb_stopwatch watch;

	/* Pairs with the release in sb_space_queue_request(). */
	while (queue->tail != smp_load_acquire(&queue->head)) {
		request = &queue->items[queue->tail % SB_PENDING_MAX];
		/* Also if there is no memory: to find that out takes time. */
		sb_stopwatch_start(&watch);
		if (!request->gap)
			sb_spaces_make_room(spaces, request->mm);
		capture = sb_capture_alloc(spaces);
		sb_request_charge(spaces, request, queue, sb_stopwatch_ns(&watch));
		if (capture) {
			capture->request = *request;
			capture->queue = queue;
			capture->rereading = request->gap;
			capture->retry_until = jiffies + SB_LOCKED_JIFFIES;
		} else {
			spaces->spaces_unread++;
			sb_space_request_fail(request);
			if (request->gap)
				atomic_set(&spaces->rereading, 0);
			sb_space_request_done(request);
			atomic_dec(spaces->pending);
		}
		/* Pairs with the acquire in sb_space_queue_request(): the sampler writes here. */
		smp_store_release(&queue->tail, queue->tail + 1);
		if (capture) {
			spaces->to_read_count++;
			sb_capture_try_small(spaces, capture);
		}
	}
}

/* Reads all spaces except the big ones. */
static void sb_spaces_read_all(struct sb_spaces *spaces)
{
	struct sb_capture *capture, *next;
	struct sb_request_queue *queue;
	LIST_HEAD(locked);
	u32 cpu;

	list_splice_init(&spaces->locked, &locked);
	list_for_each_entry_safe(capture, next, &locked, list)
		sb_capture_try_small(spaces, capture);
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		queue = sb_spaces_find_queue(spaces, cpu);
		if (queue)
			sb_spaces_read_queue(spaces, queue);
	}
}

/* Reads one of the big spaces. */
static void sb_spaces_read_big(struct sb_spaces *spaces)
{
	struct sb_capture *capture;

	capture = list_first_entry_or_null(&spaces->big, struct sb_capture, list);
	if (capture)
		sb_capture_try(spaces, capture);
}

/*
 * As in sb_capture_take_mappings(), but not at once: a program that moves its text has not copied it
 * yet, and the reader compares the pages of samples. The text may have been executable elsewhere before,
 * which is an event of its own. Programs that generate code all the time have many events: most of them
 * wait for the usual wake-up.
 */
static void sb_spaces_test_soon(struct sb_spaces *spaces, const struct sb_mmap_event *event,
				const struct sb_unwind_map *map)
{
	if (sb_unwind_maps_touch_object(sb_space_slot(event->space), event->id, map->start,
					map->end))
		spaces->soon = true;
	if (++spaces->soon_tests < SB_SOON_TESTS)
		return;
	spaces->soon_tests = 0;
	spaces->soon_next = jiffies + HZ;
}

/* Applies an mmap event to the mappings by which stacks of its space are walked. */
static void sb_spaces_apply_mmap_event(struct sb_spaces *spaces, const struct sb_mmap_event *event,
				       const struct sb_captured_mapping *mapping,
				       const struct sb_mapped_file *file)
{
	struct sb_unwind_map map = sb_mapping_for_unwind(spaces, mapping, file);

	if (sb_unwind_maps_apply(sb_space_slot(event->space), event->id, event->generation, &map,
				 sb_spaces_lose_maps, spaces))
		sb_spaces_lose_maps(spaces, event->space, event->id);
	if (!file && !map.vdso && !map.uprobes && time_after_eq(jiffies, spaces->soon_next))
		sb_spaces_test_soon(spaces, event, &map);
}

/* Takes the queued mmap events. Returns whether there were any. */
static bool sb_spaces_take_mmap_events(struct sb_spaces *spaces)
{
	struct sb_capture *capture;
	const struct sb_mapped_file *file;
	struct sb_mmap_event event;
	u32 limit = SB_MMAP_EVENTS_MAX;

	while (limit-- && sb_spaces_next_mmap_event(spaces, &event)) {
		capture = sb_capture_alloc(spaces);
		if (capture) {
			capture->is_mmap_event = true;
			capture->request.id = event.id;
			capture->generation = event.generation;
			capture->mappings = &capture->event_mapping;
			capture->count = 1;
			capture->event_mapping.start = event.start;
			capture->event_mapping.end = event.end;
			capture->event_mapping.offset = event.offset;
			capture->event_mapping.uprobes = event.uprobes;
			capture->event_mapping.flags = STACKBEAT_MAPPING_EVENT |
					     (event.vdso ? STACKBEAT_MAPPING_VDSO : 0);
			file = event.file ? sb_mapping_find_file(spaces, &capture->event_mapping,
								 sb_file_user_path(event.file),
								 file_inode(event.file)) :
					    NULL;
			sb_spaces_apply_mmap_event(spaces, &event, &capture->event_mapping, file);
			sb_capture_queue(spaces, capture);
		} else {
			sb_spaces_lose_mmap_event(spaces, &event);
			atomic_dec(spaces->pending);
		}
		if (event.file)
			fput(event.file);
		cond_resched();
	}
	return limit != SB_MMAP_EVENTS_MAX;
}

/* Returns the jiffies until mmap events may be taken; 0: now. */
static unsigned long sb_spaces_mmap_events_delay(const struct sb_spaces *spaces)
{
	u64 ahead = ktime_get_ns() + SB_MMAP_EVENTS_AHEAD_NS;

	return spaces->next_mmap_events > ahead ?
	       nsecs_to_jiffies(spaces->next_mmap_events - ahead) + 1 : 0;
}

static bool sb_write_space(struct sb_spaces *spaces, const struct sb_capture *capture)
{
	size_t length = capture->cgroup_path ? strlen(capture->cgroup_path) : 0;
	u32 size = ALIGN(sizeof(struct stackbeat_address_space) + length + 1, sizeof(u64));
	struct stackbeat_address_space *record;

	if (!sb_ring_has_room(&spaces->ring, size))
		return false;
	record = sb_ring_reserve(&spaces->ring, size);
	memset(record, 0, size);
	record->record.type = STACKBEAT_RECORD_ADDRESS_SPACE;
	record->record.size = size;
	record->address_space = capture->request.id;
	record->start_time = capture->request.start_time;
	record->cgroup = capture->cgroup;
	record->generation = capture->generation;
	record->gap = capture->request.gap;
	record->pid = capture->request.pid;
	record->ns_pid = capture->request.ns_pid;
	record->parent = capture->request.parent;
	record->mappings = capture->count;
	record->mappings_dropped = capture->mappings_dropped;
	memcpy(record->comm, capture->request.comm, sizeof(record->comm));
	memcpy(record->cgroup_path, capture->cgroup_path, length);
	sb_ring_commit(&spaces->ring, size);
	return true;
}

static bool sb_write_mapping(struct sb_spaces *spaces, const struct sb_capture *capture,
			     const struct sb_captured_mapping *mapping)
{
	struct stackbeat_mapping *record;

	if (!sb_ring_has_room(&spaces->ring, sizeof(*record)))
		return false;
	record = sb_ring_reserve(&spaces->ring, sizeof(*record));
	*record = (struct stackbeat_mapping){
		.record.type = STACKBEAT_RECORD_MAPPING,
		.record.flags = mapping->flags,
		.record.size = sizeof(*record),
		.address_space = capture->request.id,
		.start = mapping->start,
		.end = mapping->end,
		.offset = mapping->offset,
		.vaddr = mapping->vaddr,
		.file = mapping->file,
		.generation = capture->generation,
	};
	sb_ring_commit(&spaces->ring, sizeof(*record));
	return true;
}

/* Writes records as far as there is room. Called again, it continues. False: the ring is full. */
static bool sb_write_capture(struct sb_spaces *spaces, struct sb_capture *capture)
{
	if (!capture->is_mmap_event && !capture->space_written) {
		if (!sb_write_space(spaces, capture))
			return false;
		capture->space_written = true;
		spaces->spaces_written++;
	}
	for (; capture->written < capture->count; capture->written++) {
		if (!sb_write_mapping(spaces, capture, &capture->mappings[capture->written]))
			return false;
	}
	spaces->mmap_events_written += capture->is_mmap_event;
	return true;
}

/* Writes all waiting records. False: the ring is full, and some are left. */
static bool sb_spaces_write(struct sb_spaces *spaces)
{
	struct sb_stopwatch watch;
	struct sb_capture *capture;
	bool done;

	if (!sb_mapped_files_write(&spaces->files, &spaces->ring))
		return false;
	while (!list_empty(&spaces->waiting)) {
		capture = list_first_entry(&spaces->waiting, struct sb_capture, list);
		sb_stopwatch_start(&watch);
		done = sb_write_capture(spaces, capture);
		sb_capture_charge(spaces, capture, sb_stopwatch_ns(&watch));
		if (!done)
			return false;
		list_del(&capture->list);
		spaces->waiting_count -= capture->weight;
		sb_capture_free(spaces, capture);
	}
	return true;
}

/*
 * Writes waiting records. Returns the jiffies until the next try to write the rest, with
 * exponential backoff while the reader reads nothing; 0: there is no rest.
 */
static unsigned long sb_spaces_write_some(struct sb_spaces *spaces)
{
	u64 tail = READ_ONCE(spaces->ring.consumer->tail);
	bool full = !sb_spaces_write(spaces);

	if (!spaces->full || tail != spaces->full_tail)
		spaces->delay = SB_TRY_JIFFIES;
	else
		spaces->delay = min_t(unsigned long, 2 * spaces->delay, HZ);
	WRITE_ONCE(spaces->full_tail, tail);
	WRITE_ONCE(spaces->full, full);
	return full ? spaces->delay : 0;
}

/* The earlier of two delays; 0 stands for no retry. */
static unsigned long sb_earlier(unsigned long delay, unsigned long other)
{
	return delay && other ? min(delay, other) : delay ?: other;
}

/*
 * Does all due work. Returns the jiffies until the next retry; 0: no retry, the worker runs
 * again when it is queued.
 */
static unsigned long sb_spaces_do_work(struct sb_spaces *spaces)
{
	struct sb_stopwatch watch;
	unsigned long delay;
	bool mmap_events = false;
	u64 overhead;

	sb_stopwatch_start(&watch);
	spaces->charged = 0;
	sb_spaces_note_probe(spaces);
	sb_spaces_read_all(spaces);
	if (!sb_spaces_mmap_events_delay(spaces)) {
		WRITE_ONCE(spaces->mmap_events_deferred, false);
		smp_mb(); /* pairs with smp_mb() in sb_spaces_queue_mmap_event() */
		mmap_events = sb_spaces_take_mmap_events(spaces);
	}
	sb_spaces_read_big(spaces);
	delay = sb_spaces_write_some(spaces);
	if (!list_empty(&spaces->locked))
		delay = sb_earlier(delay, SB_TRY_JIFFIES);
	overhead = sb_stopwatch_ns(&watch);
	WRITE_ONCE(spaces->worker_overhead, spaces->worker_overhead + overhead);
	/* Mmap events are charged with all uncharged time of this run. */
	if (mmap_events && overhead > spaces->charged)
		sb_spaces_defer(spaces, &spaces->next_mmap_events, overhead - spaces->charged);
	return delay;
}

void sb_capture_work(struct work_struct *work)
{
	struct sb_spaces *spaces = container_of(to_delayed_work(work), struct sb_spaces, work);
	unsigned long delay, mmap_events_delay;
	struct mem_cgroup *charged;
	bool bigger;
	u64 head;

	/* Queued requests and mmap events are freed with the session. */
	if (READ_ONCE(spaces->session->closed))
		return;
	charged = sb_set_active_memcg(spaces->session->memcg);
	mutex_lock(&spaces->lock);
	head = spaces->ring.head;
	if (!sb_ring_unread(&spaces->ring))
		WRITE_ONCE(spaces->wake_due, false);
	delay = sb_spaces_do_work(spaces);
	bigger = !list_empty(&spaces->big);
	if (spaces->urgent && time_after_eq(jiffies, spaces->urgent_next)) {
		spaces->urgent_next = jiffies + SB_SOON_JIFFIES;
		WRITE_ONCE(spaces->wake_due, true);
	} else if (spaces->ring.head != head) {
		sb_spaces_announce(spaces, spaces->urgent || spaces->soon ? SB_SOON_JIFFIES :
									    SB_WAKE_JIFFIES);
	}
	spaces->urgent = false;
	spaces->soon = false;
	mmap_events_delay = sb_spaces_mmap_events_delay(spaces);
	WRITE_ONCE(spaces->mmap_events_deferred, mmap_events_delay);
	mutex_unlock(&spaces->lock);
	sb_set_active_memcg(charged);

	if (sb_spaces_readable(spaces))
		wake_up_interruptible(&spaces->session->wait);
	/* Big spaces are read one per run: the queues may have new requests by now. */
	delay = sb_earlier(delay, mmap_events_delay);
	if (bigger)
		sb_spaces_kick(spaces, 0);
	else if (delay)
		sb_spaces_kick(spaces, delay);
}

void sb_captures_stop(struct sb_spaces *spaces)
{
	struct sb_capture *capture, *next;

	if (!spaces)
		return;
	sb_spaces_stop(spaces);
	list_splice_init(&spaces->locked, &spaces->waiting);
	list_splice_init(&spaces->big, &spaces->waiting);
	list_for_each_entry_safe(capture, next, &spaces->waiting, list)
		sb_capture_free(spaces, capture);
}
