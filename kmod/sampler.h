/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The sampler of one session on one CPU: a pinned timer in hard interrupt context that
 * writes a sample of the interrupted context into the ring of that CPU. Each interrupt of
 * the timer is a tick.
 */
#ifndef STACKBEAT_SAMPLER_H
#define STACKBEAT_SAMPLER_H

#include <linux/hrtimer.h>
#include <linux/workqueue.h>

#include "kernel_rules.h"
#include "mmap.h"
#include "ring.h"
#include "session_types.h"
#include "space.h"
#include "stackbeat_go_labels.h"

/*
 * Words behind the frames of a sample: the id of its goroutine, its creator, its labels, and
 * STACKBEAT_GO_SLACK.
 */
#define SB_SAMPLE_EXTRA                                                        \
	(2u + (STACKBEAT_GO_LABELS_SIZE_MAX + STACKBEAT_GO_SLACK) / sizeof(u64))

struct sb_sampler {
	/* Used on this CPU only, with interrupts off. The ring comes first, at offset 0. */
	struct sb_ring ring;
	struct hrtimer timer;
	struct sb_session *session;
	struct sb_cpu *here;	/* the state of its CPU */
	u64 period;		/* ns, mean; of the next tick */
	u32 missed;		/* ticks missed before the next tick */
	u32 cpu;
	u64 ticks;
	u64 samples;
	u64 idle;
	u64 filtered;
	u64 missed_sum;
	u64 long_ticks;		/* that took longer than the budget counts */
	u64 stack_copies, stack_copies_lost;
	struct sb_kernel_walks kernel_walks;
	u64 table_frames, rule_misses;
	u32 copy_turn;		/* counts samples for stack_copy_every */
	bool copy_is_extra;	/* of the current sample, if it has a copy */
	u64 overhead;		/* cycles */
	u64 tick_time;		/* ns represented by the ticks */
	u64 limit;		/* here->overhead at which the budget is checked */
	u64 window_end;		/* ns, end of the budget's window */
	u64 window_overhead;	/* overhead at its start */
	u64 window_here;	/* here->overhead at its start */
	u64 window_stopped;	/* here->stopped_overhead at its start */
	u64 window_ticks;	/* sb_cpu_ticks() when it was opened */
	u64 window_own_ticks;	/* ticks, and tick_time, then */
	u64 window_tick_time;
	u64 floor;		/* ns: the shortest period that throttling allows; 0: any */
	u64 synced;		/* cycles when the clock was read last */
	u64 synced_ns;		/* the clock's time then */
	u64 sync_cycles;	/* cycles until the clock is read again */
	u64 throttled;		/* number of times the rate was halved */
	u64 random;		/* state of the random number generator */
	u32 shift;		/* number of times the rate is halved now */
	/* Of ticks at the rate in effect; ns. */
	u64 mean_period;
	u64 interval_min;	/* the shortest interval */
	u64 interval_range;	/* the longest one is longer by less than this; 0: all are equal */
	bool running;		/* also read by the code that starts and stops samplers */
	bool parked;		/* running, but the CPU is idle: the timer is cancelled */
	struct hlist_node node;	/* of here->samplers, while it runs */
	u64 next_loss_report;	/* ns: earliest time of the next report of losses */
	struct work_struct wake;
	struct sb_space_cursor space_cursor;

	/* Sends events about ticks; queued by ticks. */
	struct work_struct report;
	int went_offline;	/* stopped because its CPU went offline; not sent yet */
	u32 reported_shift;	/* of the work only */
	u64 reported_lost;	/* of the work only */
	u64 reported_different;	/* of the work only */

	/* For device.c. */
	struct sb_mapping consumer_mapping;
	struct sb_mapping ring_mapping;
};

/* Allocates a sampler with its ring. `cpu` need not be online. ENOMEM. */
struct sb_sampler *sb_sampler_alloc(struct sb_session *session, u32 cpu, u32 ring_size);
/* Frees a sampler that is not running. NULL is allowed. */
void sb_sampler_free(struct sb_sampler *sampler);

/* Maximum number of cycles that the budget counts for one tick, with `max_depth` user frames. */
u64 sb_sampler_overhead_max(u32 max_depth);

/* Returns the ns spent in its timer interrupts, and parking it while the CPU is idle. */
u64 sb_sampler_overhead(const struct sb_sampler *sampler);

/* Returns the rate in effect now, in Hz, including throttling; 0: not running. */
u32 sb_sampler_rate(const struct sb_sampler *sampler);

/* Sends the event CPU_OFFLINE, if the sampler's CPU went offline and it was not sent yet. */
void sb_sampler_report_offline(struct sb_sampler *sampler);

/*
 * Called on the sampler's CPU. Starting a running sampler or stopping a stopped one does nothing.
 */
void sb_sampler_start(struct sb_sampler *sampler);
void sb_sampler_stop(struct sb_sampler *sampler);
/* Called on the sampler's CPU after the session's rate or jitter was changed. */
void sb_sampler_retime(struct sb_sampler *sampler);

/* Cancel and arm the timer of a running sampler of an idle CPU. On its CPU, interrupts off. */
void sb_sampler_park(struct sb_sampler *sampler);
void sb_sampler_unpark(struct sb_sampler *sampler);
/* Adds the cycles of parking and unparking to the overhead. */
void sb_sampler_add_parking(struct sb_sampler *sampler, u64 cycles);

/* ENOMEM. */
int sb_sampler_init(void);
/* Waits for work queued by ticks. */
void sb_sampler_flush(void);
void sb_sampler_exit(void);

#endif
