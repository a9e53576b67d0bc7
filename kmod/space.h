/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address spaces: the space of each sample, and its executable mappings.
 *
 *	sampler	at the first sample of a space: takes references, queues a request to read
 *		its mappings, and adds it to a table, where the next samples find its id
 *	probe	(in the process that makes an executable mapping) queues an mmap event for
 *		each session with the space in its table, and increments the generation
 *	worker	(capture.c) reads the mappings of requested spaces, drops the references,
 *		and writes records into the metadata ring when it has room
 *
 * The table is a cache, which grows with the number of processes that are sampled: an entry holds no
 * reference to its space. Start time and count of
 * execs distinguish it from a later process. An entry that is not held may be replaced at
 * any time. Then the space is read again, under another id.
 */
#ifndef STACKBEAT_SPACE_H
#define STACKBEAT_SPACE_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "limits.h"
#include "mapped_file.h"
#include "mmap.h"
#include "ring.h"
#include "session_types.h"
#include "unwind_maps.h"

/*
 * An entry of a session's table of address spaces. `seq` is odd while another CPU
 * writes; `generation` and `gap` change only while the entry is held. Written by samplers,
 * with interrupts off, by probes in tasks of the space, and by the worker.
 */
struct sb_space {
	u32 seq;
	u32 pid;
	u64 id;			/* 0: free */
	u64 start_time;
	u64 exec_id;
	atomic_t generation;
	u32 gap;		/* first generation with a lost mmap event; 0: none */
	u64 next_read;		/* ns: earliest time of the next reread */
	/* Number of backoffs; written with spaces->rereading set, or by the claimer. */
	u8 rereads;
	u8 way;			/* its place in its set; constant */
	/*
	 * A request is pending. There is no second one, which might be read before it. Set by the
	 * claimer or with spaces->rereading set, reset by the worker while it holds the entry.
	 */
	bool requested;
	atomic_t holds;		/* the entry is not replaced while it is not 0 */
} ____cacheline_aligned;

/* The entries of spaces whose memory has the same hash value. */
struct sb_space_set {
	/*
	 * The memory of each entry, a part of it that changes with it; for comparison, never
	 * dereferenced. Together: the probe compares them all, in every session, at each mapping of
	 * any program.
	 */
	struct mm_struct *mms[SB_WAYS] ____cacheline_aligned;
	struct sb_space ways[SB_WAYS];
	struct sb_unwind_slot slots[SB_WAYS];	/* for the mappings of each */
};

static __always_inline struct sb_space_set *sb_space_set(const struct sb_space *space)
{
	const struct sb_space *first = space - space->way;

	return container_of(first, struct sb_space_set, ways[0]);
}

/* The place for the mappings of an entry. */
static __always_inline struct sb_unwind_slot *sb_space_slot(const struct sb_space *space)
{
	return &sb_space_set(space)->slots[space->way];
}

/*
 * The space of a sampler's last sample: the next sample is mostly of the same space. `space` is
 * its entry in the table as long as the id is the same.
 */
struct sb_last_space {
	struct mm_struct *mm;	/* for comparison, never dereferenced; NULL: none */
	u64 start_time;
	u64 exec_id;
	u32 pid;
	u64 id;
	const struct sb_space *space;
	const struct sb_unwind_slot *slot;	/* of `space`, for its mappings; NULL: none */
	/*
	 * Generation at which no mapping of the space has an unwind table, except the vDSO, and no
	 * return address is replaced: stacks are unwound by frame pointers, except in the vDSO.
	 * 0: not known.
	 */
	u32 frame_pointers;
	u64 vdso_start, vdso_size;
};

/* A request to read the mappings of a space, with references. */
struct sb_space_request {
	struct mm_struct *mm;
	struct task_struct *leader;
	struct sb_space *space;	/* its entry, held until the mappings are read; or NULL */
	u64 id;
	u64 start_time;
	u32 gap;		/* of the lost mmap events, for a reread; 0: first sample */
	u32 pid, ns_pid, parent;
	char comm[TASK_COMM_LEN];
};

/* Requests of one CPU. Producer: the sampler, with interrupts off; consumer: the worker. */
struct sb_request_queue {
	u32 head;
	u32 tail;
	u64 samples_without_space;	/* too many requests were pending */
	atomic64_t charged;	/* cycles of the worker to add to the CPU's overhead */
	struct sb_space_request items[SB_PENDING_MAX];
};

/* A sampler's state for sb_space_lookup(). */
struct sb_space_cursor {
	struct sb_spaces *spaces;	/* of its session */
	struct sb_request_queue *queue;	/* of its CPU */
	struct sb_last_space last;
};

/* An mmap event: a new executable mapping in a space that is in the table. */
struct sb_mmap_event {
	struct sb_space *space;	/* its entry in the table */
	u64 id;
	u32 generation;
	bool vdso, uprobes;	/* see sb_vma_is_uprobes() */
	unsigned long start, end;
	u64 offset;
	struct file *file;	/* a reference, or NULL */
	bool complete;		/* the worker may take it */
};

/* An executable mapping, copied under mmap_lock. */
struct sb_found_mapping {
	u64 start, end, offset;
	struct path path;	/* with a reference, if there is an inode */
	/* A reference, or NULL. Not to the struct file: its last fput() may wait for a server. */
	struct inode *inode;
	u32 flags;		/* STACKBEAT_MAPPING_* */
	bool uprobes;
};

/* Whether a mapping may be [uprobes], the page with the trampoline of uretprobes. */
static inline bool sb_vma_is_uprobes(const struct vm_area_struct *vma)
{
	return !vma->vm_file && vma->vm_flags & VM_IO;
}

/* Address spaces of a session. The members are grouped by who may change them. */
struct sb_spaces {
	/* Follow and unfollow, under sb_spaces_lock; the probes read it under RCU. */
	struct list_head list;

	/* Set once, before the session is followed; read by all. */
	struct sb_session *session;
	atomic_t *pending;	/* metadata_pending in the session page */
	u32 level_max;
	struct sb_request_queue **queues;	/* by CPU, nr_cpu_ids of them */
	u64 probes_missed;	/* missed runs of the probes before this session */
	u32 probe_off_count;	/* tests before this session that have found the probes off */
	struct sb_unwind_object *vdso;
	char *path;		/* STACKBEAT_PATH_MAX bytes, of the worker */

	/*
	 * The table: the sets of each level, of which the first level_count exist. Level 0 has
	 * 2^SB_SETS_BITS sets, and each other one as many as those before it together. A space is in one
	 * level, in its set there. The worker adds levels, with the lock, and they are freed with the
	 * session: neither sets nor entries move, and pointers to them stay valid. Samplers, probes and
	 * the worker change entries by the rules of struct sb_space.
	 */
	struct sb_space_set *levels[SB_LEVELS_MAX];
	u32 level_count;

	/*
	 * The probes: the ring of mmap events. Producers: the probes, which take no lock, because
	 * they may be entered by a breakpoint; consumer: the worker, which has the tail.
	 */
	atomic_t mmap_events_head;
	u32 mmap_events_tail;
	atomic64_t mmap_events_lost;
	atomic64_t probe_overhead;	/* ns */
	struct sb_mmap_event mmap_events[SB_MMAP_EVENTS_MAX];
	struct irq_work kick_irq_work;	/* queues the work for the probes, which can't */

	/* Samplers, with interrupts off, and no lock. */
	atomic64_t last_id;
	/*
	 * One space is reread at a time, not before next_reread (ns), which the worker sets, since
	 * processes can cause any number of losses. The worker ends a reread.
	 */
	atomic_t rereading;
	u64 next_reread;

	/* The worker, and requests of the reader in its process, under lock. */
	struct mutex lock;
	struct sb_unwind_user unwind;
	struct sb_unwind_spaces unwind_spaces;
	struct sb_mapped_files files;

	/* Requests of the reader, without the lock. */
	atomic64_t tables_refused;	/* for lack of memory */
	unsigned long resumed;		/* jiffies of the last resume by the reader */
	struct sb_mapping consumer_mapping;
	struct sb_mapping ring_mapping;

	/* The worker, under lock. */
	struct sb_ring ring;
	struct list_head locked;	/* captures to be retried: mmap_lock is held by others */
	struct list_head big;		/* captures with many mappings */
	u32 to_read_count;		/* number of captures in both */
	struct list_head waiting;	/* captures to be written, oldest first */
	u32 waiting_count;		/* sum of their weights, in mappings */
	struct sb_found_mapping *found;	/* mappings of the space that is being read */
	u32 found_count, found_room;
	unsigned long delay;		/* jiffies until the next try to write to a full ring */
	u64 next_mmap_events;		/* ns: none are taken before */
	u32 probe_gaps_seen;		/* see sb_spaces_note_probe() */
	bool probe_seen_off;
	u64 charged;			/* ns of this run that are charged already */
	bool urgent;			/* the reader is woken for what the worker writes now */
	bool soon;			/* the reader is woken for it within SB_SOON_JIFFIES */
	unsigned long urgent_next;	/* jiffies: not before, as processes can cause it */
	unsigned long soon_next;	/* jiffies: no event is tested for `soon` before */
	unsigned int soon_tests;	/* events that were tested since then */
	unsigned long wake_at;		/* jiffies: when wake_work runs, if it is queued */

	/* The worker; others read it without the lock. */
	bool mmap_events_deferred;	/* the worker has queued itself for them; read by the probes */
	bool full;			/* the ring; read by poll(), as the next two */
	u64 full_tail;			/* the reader's tail when the ring was full */
	bool wake_due;			/* wake_work has run for unread records, or they are urgent */
	u64 worker_overhead;		/* ns; this and the next ones are read as statistics */
	u64 spaces_written, spaces_unread, mmap_events_written;
	u64 mappings_dropped, mappings_without_file;

	/* Workqueues. */
	struct delayed_work work;
	struct delayed_work wake_work;	/* wakes the reader for unread records */
};

/*
 * Allocates the address spaces of a session. `worker` is the function of sb_spaces.work.
 * ENOMEM; EOPNOTSUPP: the kernel can't be probed for new mappings.
 */
struct sb_spaces *sb_spaces_alloc(struct sb_session *session, work_func_t worker);

/*
 * From follow on the probes queue mmap events; after unfollow they may still use the spaces until
 * a grace period has passed. Neither function waits for one. Under the session's lock: a session is
 * followed from its first start to its end. To follow again does nothing; unfollow is the last call.
 */
void sb_spaces_follow(struct sb_spaces *spaces);
void sb_spaces_unfollow(struct sb_spaces *spaces);

/* Stops the worker, and waits for it. No sampler and no probe runs any more. */
void sb_spaces_stop(struct sb_spaces *spaces);

/*
 * Frees spaces after sb_captures_stop(), with the references of queued requests, mmap events and
 * files. NULL is allowed.
 */
void sb_spaces_free(struct sb_spaces *spaces);

/*
 * Initializes the cursor of a CPU's sampler. The queue lives as long as the spaces. Calls are
 * serialized by the caller. ENOMEM.
 */
int sb_space_cursor_init(struct sb_space_cursor *cursor, struct sb_spaces *spaces, u32 cpu);
/* Returns the request queue of a CPU, or NULL. */
struct sb_request_queue *sb_spaces_find_queue(const struct sb_spaces *spaces, u32 cpu);
/* Drops the references of a request. A second call does nothing. */
void sb_space_request_put(struct sb_space_request *request);
/* Ends a hold: the entry may be replaced from then on. */
void sb_space_release(struct sb_space *space);
/* The mappings could not be read: one of the next samples requests them again. */
void sb_space_request_fail(struct sb_space_request *request);

/*
 * Returns the id and the generation of the current task's address space, which must be user
 * memory; 0 if too many requests are pending. Called by a sampler, before it publishes the
 * sample, at time `now` (ns). Stores the space in cursor->last.
 */
u64 sb_space_lookup(struct sb_space_cursor *cursor, u64 now, u32 *generation);

/* Takes the oldest mmap event, with the reference to its file. False: there is none. */
bool sb_spaces_next_mmap_event(struct sb_spaces *spaces, struct sb_mmap_event *event);
/* Counts a lost mmap event, and requests a reread of its space. */
void sb_spaces_lose_mmap_event(struct sb_spaces *spaces, const struct sb_mmap_event *event);

/*
 * Called by the worker. If the probes of mappings did not run at a test, or at the test before, all
 * spaces of the table get a gap. An event says when they end, and when they run again.
 */
void sb_spaces_note_probe(struct sb_spaces *spaces);

/* Runs the worker at once if the ring was full and the reader has made room. */
void sb_spaces_resume(struct sb_spaces *spaces);

/* Queues the worker to run within `delay` jiffies. 0: may be called in any context. */
void sb_spaces_kick(struct sb_spaces *spaces, unsigned long delay);

/* Time that records may wait unread in the ring before the reader is woken. */
#define SB_WAKE_JIFFIES (HZ / 4)
/* The same for records on which callers depend: 20 times a second at most, as processes can cause it. */
#define SB_SOON_JIFFIES (HZ / 20)

/* Mapping events that are tested for `soon` before the tests pause for a second. */
#define SB_SOON_TESTS 4

/* Schedules a wake-up of the reader for the records written, unless it reads them within `delay`. */
void sb_spaces_announce(struct sb_spaces *spaces, unsigned long delay);

/* Whether poll() should report the metadata ring as readable. */
bool sb_spaces_readable(const struct sb_spaces *spaces);

/* Frees the mappings for walks of processes that have ended: they keep unwind tables. */
void sb_spaces_sweep(struct sb_spaces *spaces);

/* A sb_unwind_lost_fn. One of the next samples of the space requests a reread. */
void sb_spaces_lose_maps(void *arg, void *owner, u64 id);

/*
 * Makes room in the table for one more space whose memory has the same hash value as `mm`, if there is
 * none: frees the entries of processes that have ended, or else adds a level, within the limit. Called by
 * the worker, under lock.
 */
void sb_spaces_make_room(struct sb_spaces *spaces, const struct mm_struct *mm);

/*
 * Returns the mappings of the space of the last sb_space_lookup(), which has returned `id` and
 * `generation`, if they are known at this generation. NULL: they are not. Called by a sampler.
 */
static inline const struct sb_unwind_maps *sb_space_maps(const struct sb_space_cursor *cursor,
							 u64 id, u32 generation)
{
	const struct sb_unwind_slot *slot = cursor->last.slot;
	struct sb_unwind_maps *maps;

	if (!slot)
		return NULL;
	maps = rcu_dereference_sched(slot->maps);
	/* Pairs with the release in sb_unwind_maps_set_generation(). */
	if (!maps || maps->id != id || smp_load_acquire(&maps->generation) != generation)
		return NULL;
	if (!READ_ONCE(maps->used))
		WRITE_ONCE(maps->used, true);
	return maps;
}

/*
 * Tests whether the probe runs for new mappings: it can be registered, but disabled. Maps
 * memory in the current process; if that is not allowed, the probe is assumed to run.
 * EOPNOTSUPP: the probe does not run. Takes mmap_lock.
 */
int sb_spaces_test_probe(void);

/* Sets counts[STACKBEAT_S_ADDRESS_SPACES] and the following counters. */
void sb_spaces_count(const struct sb_spaces *spaces, u64 *counts);

int sb_space_init(void);
/* Waits for the workers of all sessions; they do nothing once their session is closed. */
void sb_space_flush(void);
void sb_space_exit(void);

#endif
