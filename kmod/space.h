/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address spaces: which one a sample was taken in, and what it maps.
 *
 *	beat	at the first sample of a space: takes a reference, queues it, and
 *		notes it in a table, so that the next samples find its id there
 *	probe	(in the process that maps something executable) queues the change
 *		for each session that has noted the space, and moves its generation
 *	worker	(capture.c) reads the mappings of queued spaces, lets go of them, and
 *		writes records into the metadata ring as it has room
 *
 * The table is a cache: an entry holds no reference, is told from a later process
 * by start time and count of execs, and may be lost whenever nobody holds it. Then the
 * space is read once more, under another id.
 */
#ifndef STACKBEAT_SPACE_H
#define STACKBEAT_SPACE_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "limits.h"
#include "mmap.h"
#include "mapped_file.h"
#include "ring.h"
#include "session_types.h"

/*
 * What a session remembers of an address space. `seq` is odd while another CPU
 * writes; `generation` and `gap` move while it is held. Written by beats, whose CPU
 * has interrupts off, by probes of the space's own tasks, and by the worker.
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
	u32 rereads;		/* how often that was put off further; by who has the turn */
	atomic_t holds;		/* it keeps its place meanwhile */
} ____cacheline_aligned;

/*
 * The space of a beat's last sample: the next sample is mostly of the same space. `space` is its
 * entry in the table as long as the id is the same.
 */
struct sb_last_space {
	struct mm_struct *mm;	/* to compare, never followed; NULL: none */
	u64 start_time;
	u64 exec_id;
	u32 pid;
	u64 id;
	const struct sb_space *space;
};

/* A space that is to be read, with its references. */
struct sb_space_request {
	struct mm_struct *mm;
	struct task_struct *leader;
	struct sb_space *space;	/* where it was noted, held until it is read; or NULL */
	u64 id;
	u64 start_time;
	u32 gap;		/* of what was lost, for which it is read again; 0: first sight */
	u32 pid, ns_pid, parent;
	char comm[TASK_COMM_LEN];
};

/* Of one CPU. One producer, a beat with interrupts off; one consumer, the worker. */
struct sb_request_queue {
	u32 head;
	u32 tail;
	u64 samples_without_space;	/* too many were pending */
	atomic64_t charged;	/* cycles that the worker spent for the sampler, for its budget */
	struct sb_space_request items[SB_PENDING_MAX];
};

/* The state of a beat for sb_space_lookup(). */
struct sb_space_cursor {
	struct sb_spaces *spaces;	/* of its session */
	struct sb_request_queue *queue;	/* of its CPU */
	struct sb_last_space last;
};

/* An executable mapping that was made in a space that is noted. */
struct sb_mmap_event {
	struct sb_space *space;	/* where it is noted */
	u64 id;
	u32 generation;
	bool vdso;
	unsigned long start, end;
	u64 offset;
	struct file *file;	/* a reference, or NULL */
	bool complete;		/* it may be taken */
};

/* An executable mapping as it was found while the space was locked. */
struct sb_found_mapping {
	u64 start, end, offset;
	struct path path;	/* with a reference, where there is an inode */
	struct inode *inode;	/* a reference, or NULL: the last one of a file may wait for a server */
	u32 flags;		/* STACKBEAT_MAPPING_* */
};

struct sb_spaces {
	struct list_head list;	/* under sb_spaces_lock, read by the probes under RCU */
	struct sb_session *session;
	atomic_t *pending;	/* on the session page */
	atomic64_t last_id;
	struct sb_space *table;
	struct sb_request_queue **queues;	/* by CPU, nr_cpu_ids of them; set once */

	/*
	 * A ring: many producers, the probes, which take no lock, since a breakpoint
	 * may be their way in; one consumer, the worker.
	 */
	atomic_t mmap_events_head;
	u32 mmap_events_tail;
	atomic64_t mmap_events_lost;
	u64 probes_missed;		/* by the probes, before this session */
	atomic64_t probe_overhead;	/* ns */
	struct sb_mmap_event mmap_events[SB_MMAP_EVENTS_MAX];
	struct irq_work kick_irq_work;	/* for those who can't queue work */

	/*
	 * One space is read again at a time, and none before a time (ns), as no changes are
	 * taken before another one: processes may cause as many of both as they like.
	 */
	atomic_t rereading;
	u64 next_reread, next_mmap_events;
	bool mmap_events_deferred;		/* the worker comes for them by itself */

	/* Of the worker, and of what the reader asks for. */
	struct mutex lock;
	struct sb_mapped_files files;
	struct sb_ring ring;
	struct list_head locked;	/* captures whose space is locked by others */
	struct list_head big;		/* captures whose space takes long to be read */
	u32 to_read_count;		/* of both */
	struct list_head waiting;	/* captures that are to be written, oldest first */
	u32 waiting_count;		/* what they weigh, in mappings */
	char *path;			/* STACKBEAT_PATH_MAX bytes */
	struct sb_found_mapping *found;	/* of the space that is read */
	u32 found_count, found_room;
	unsigned long delay;		/* jiffies until a ring that is full is tried again */
	u64 full_tail;			/* the reader's tail when it was full */
	unsigned long resumed;		/* jiffies: the reader had it go on then */
	bool full;
	u64 worker_overhead;		/* ns */
	u64 charged;			/* ns of this run that are accounted for */
	u64 spaces_written, spaces_unread, mmap_events_written;
	u64 mappings_dropped, mappings_without_file;
	struct delayed_work work;
	struct delayed_work wake_work;	/* wakes the reader for what waits in the ring */
	bool wake_due;			/* it has waited long enough */
	struct sb_mapping consumer_mapping;
	struct sb_mapping ring_mapping;
};

/*
 * Of one session, with the function of its worker, which works on sb_spaces.work. ENOMEM;
 * ENOENT, EOPNOTSUPP when the kernel can't be probed for changes.
 */
struct sb_spaces *sb_spaces_alloc(struct sb_session *session, work_func_t worker);

/* From follow to unfollow the probes queue changes. Neither waits. */
void sb_spaces_follow(struct sb_spaces *spaces);
void sb_spaces_unfollow(struct sb_spaces *spaces);

/* Waits for the worker, which does not run any more then. No beat and no probe runs. */
void sb_spaces_stop(struct sb_spaces *spaces);

/* Frees it, stopped, with all references that it holds. NULL is allowed. */
void sb_spaces_free(struct sb_spaces *spaces);

/*
 * Prepares the cursor of the beat of a CPU, with a queue that lives as long as the spaces.
 * One call at a time. ENOMEM.
 */
int sb_space_cursor_init(struct sb_space_cursor *cursor, struct sb_spaces *spaces, u32 cpu);
/* The queue of a CPU, or NULL. */
struct sb_request_queue *sb_spaces_find_queue(const struct sb_spaces *spaces, u32 cpu);
/* Lets go of the references of one; again, it does nothing. */
void sb_space_request_put(struct sb_space_request *request);
/* Ends a hold: another space may have its place from then on. */
void sb_space_release(struct sb_space *space);
/* Has the space read again at one of its next samples: this time it could not be. */
void sb_space_request_fail(struct sb_space_request *request);

/*
 * The id and the generation of the current task's address space, which is user
 * memory; 0 when too many are pending. Called by a sampler, before it publishes the
 * sample, at `now` (ns). Remembers it in cursor->last.
 */
u64 sb_space_lookup(struct sb_space_cursor *cursor, u64 now, u32 *generation);

/* Takes the oldest change, with the reference to its file. False: there is none. */
bool sb_spaces_next_mmap_event(struct sb_spaces *spaces, struct sb_mmap_event *event);
/* Counts a change that can't be told, and has its space read again. */
void sb_spaces_lose_mmap_event(struct sb_spaces *spaces, const struct sb_mmap_event *event);

/* Goes on at once where the ring was full and the reader has read. */
void sb_spaces_resume(struct sb_spaces *spaces);

/* Has the worker run, after so many jiffies at most; 0: from any context. */
void sb_spaces_kick(struct sb_spaces *spaces, unsigned long delay);

/* Has the reader woken for what was told, if it does not read that by itself soon. */
void sb_spaces_announce(struct sb_spaces *spaces);

/* Whether the reader should look at the metadata ring. */
bool sb_spaces_readable(const struct sb_spaces *spaces);

/* As STACKBEAT_IOC_FILE_OPEN and _RELEASE. */
int sb_spaces_open_file(struct sb_spaces *spaces, u64 id);
int sb_spaces_release_file(struct sb_spaces *spaces, u64 id);

/*
 * Whether new mappings are seen: the probe can be there and be switched off. Makes one in
 * the current process; where it may not, there is no saying, and it is taken for yes.
 * EOPNOTSUPP: they are not seen. Takes mmap_lock.
 */
int sb_spaces_test_probe(void);

/* Sets the counters of STACKBEAT_S_ADDRESS_SPACES and what follows it, by their number. */
void sb_spaces_count(const struct sb_spaces *spaces, u64 *counts);

int sb_space_init(void);
void sb_space_exit(void);

#endif
