// SPDX-License-Identifier: GPL-2.0
#include <linux/init.h>
#include <linux/pid.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <asm/irq_regs.h>
#include <asm/tsc.h>

#include "access.h"
#include "compat/compat.h"
#include "cpu.h"
#include "cycles.h"
#include "events.h"
#include "filter.h"
#include "kernel_rules.h"
#include "limits.h"
#include "mmap.h"
#include "sampler.h"
#include "space.h"
#include "unwind.h"
#include "unwind_tables.h"
#include "uretprobe.h"

#define SB_FRAMES_OFFSET offsetof(struct stackbeat_sample, frames)

/*
 * Time for which the time-stamp counter replaces reading the clock. The kernel adjusts the
 * clock by at most 500 ppm, which is 10 us in this time.
 */
#define SB_SYNC_NS (20 * NSEC_PER_MSEC)
/* Maximum time between reading the clock and the counter. */
#define SB_PAIR_NS (10 * NSEC_PER_USEC)

/* Calibration of the timer interrupt: number of tries, and delay of the timer. */
#define SB_CALIBRATION_TRIES 16
#define SB_CALIBRATION_NS (20 * NSEC_PER_USEC)

/* Maximum number of intervals drawn one by one after idle time. */
#define SB_STEPS_MAX 8

static struct workqueue_struct *sb_sampler_workqueue;

/* Cycles of SB_SYNC_NS and SB_PAIR_NS. */
static u64 sb_sync_cycles __ro_after_init;
static u64 sb_pair_cycles __ro_after_init;

/* Cycles of STACKBEAT_BUDGET_WINDOW_NS. */
static u64 sb_window_cycles __ro_after_init;

/* Cycles of a timer interrupt without the callback. */
static u64 sb_interrupt_cycles __ro_after_init;

u64 sb_sampler_overhead_max(u32 max_depth)
{
	return sb_ns_to_cycles(SB_OVERHEAD_MAX + max_depth * SB_FRAME_OVERHEAD_MAX);
}

u64 sb_sampler_overhead(const struct sb_sampler *sampler)
{
	return sb_long_cycles_to_ns(READ_ONCE(sampler->overhead));
}

/*
 * The counter is read after the clock, so that no computed time is ahead of the clock. If a host
 * has preempted the CPU in between, the two values do not match: the next tick reads them again.
 */
static noinline u64 sb_sampler_sync(struct sb_sampler *sampler)
{
	u64 before = rdtsc_ordered();

	sampler->synced_ns = ktime_get_mono_fast_ns();
	sampler->synced = rdtsc_ordered();
	sampler->sync_cycles = sb_sync_cycles;
	if (check_tsc_unstable() || sampler->synced - before > sb_pair_cycles)
		sampler->sync_cycles = 0;
	return sampler->synced_ns;
}

/*
 * Returns CLOCK_MONOTONIC for `cycles`, the current time-stamp counter of the sampler's CPU, in a
 * tenth of the instructions that reading the clock takes.
 */
static __always_inline u64 sb_sampler_now(struct sb_sampler *sampler, u64 cycles)
{
	u64 passed = cycles - sampler->synced;

	if (unlikely(passed >= sampler->sync_cycles))
		return sb_sampler_sync(sampler);
	return sampler->synced_ns + sb_cycles_to_ns(passed);
}

/*
 * The upper half of a linear congruential generator (Knuth's MMIX) with a random seed, so that
 * no program is in step with it. Nothing depends on its secrecy.
 */
static __always_inline u32 sb_random(struct sb_sampler *sampler)
{
	sampler->random = sampler->random * 6364136223846793005ull + 1;
	return sampler->random >> 32;
}

/* Returns a uniformly distributed number below `ns` (less than 2^32). */
static __always_inline u64 sb_draw_part(struct sb_sampler *sampler, u64 ns)
{
	return ns * sb_random(sampler) >> 32;
}

/* Draws the interval to the next tick: uniform between half a period and one and a half. */
static __always_inline u64 sb_draw_interval(struct sb_sampler *sampler)
{
	return sampler->interval_min + sb_draw_part(sampler, sampler->interval_range);
}

/*
 * Draws the time to the next tick from a moment that is independent of the ticks: the residual
 * life of such intervals. Its density is constant up to half a period, and then falls linearly
 * to 0 at one and a half, as for the smaller of two uniform numbers.
 */
static u64 sb_draw_residual(struct sb_sampler *sampler, u64 period)
{
	if (!sampler->interval_range)
		return period;
	if (sb_random(sampler) >> 31)
		return sb_draw_part(sampler, period / 2);
	return period / 2 + min(sb_draw_part(sampler, period), sb_draw_part(sampler, period));
}

/*
 * Sets the timer to `due`; or, if that is not later than `after`, to the first later time that is
 * a whole number of periods after `due`. The ticks skipped are missed; their periods are in the
 * weight of the next tick.
 */
static void sb_sampler_set(struct sb_sampler *sampler, u64 period, u64 due, u64 after)
{
	sampler->period = period;
	sampler->missed = 0;
	if (unlikely(due <= after)) {
		sampler->missed = div64_u64(after - due, period) + 1;
		due += sampler->missed * period;
	}
	hrtimer_set_expires(&sampler->timer, ns_to_ktime(due));
}

static u64 sb_sampler_due(const struct sb_sampler *sampler)
{
	return ktime_to_ns(hrtimer_get_expires(&sampler->timer));
}

/*
 * Halves the session's rate as often as needed for a period of at least `floor` (ns), and takes over the
 * session's settings of intervals.
 */
static void sb_sampler_set_floor(struct sb_sampler *sampler, u64 floor)
{
	u64 period = READ_ONCE(sampler->session->period);
	u32 shift = 0;

	while (period << shift < floor && period << shift <= NSEC_PER_SEC / 2)
		shift++;
	/* A floor below the shortest possible period has no effect. */
	sampler->floor = floor < NSEC_PER_SEC / STACKBEAT_RATE_MAX ? 0 : floor;
	if (shift != sampler->shift) {
		WRITE_ONCE(sampler->shift, shift);
		queue_work(sb_sampler_workqueue, &sampler->report);
	}
	period <<= shift;
	sampler->mean_period = period;
	sampler->interval_range = READ_ONCE(sampler->session->no_jitter) ? 0 : period;
	sampler->interval_min = period - sampler->interval_range + sampler->interval_range / 2;
}

static void sb_sampler_open_window(struct sb_sampler *sampler, u64 now)
{
	const struct sb_cpu *here = sampler->here;

	sampler->window_end = now + STACKBEAT_BUDGET_WINDOW_NS;
	sampler->window_overhead = sampler->overhead;
	sampler->window_here = here->overhead;
	sampler->window_stopped = here->stopped_overhead;
	sampler->window_ticks = sb_cpu_ticks(here);
	sampler->window_own_ticks = sampler->ticks;
	sampler->window_tick_time = sampler->tick_time;
	sampler->limit = here->overhead + READ_ONCE(sampler->session->budget);
}

/* The time since the window was opened; it wraps to a huge one if the clock was read before. */
static u64 sb_sampler_elapsed(const struct sb_sampler *sampler, u64 now)
{
	return STACKBEAT_BUDGET_WINDOW_NS + now - sampler->window_end;
}

/*
 * Returns the mean time between the sampler's ticks in this window, without idle time. It includes missed
 * ticks, and follows changes of the rate. The sampler must have ticked in the window. The result is not 0.
 */
static u64 sb_sampler_interval(const struct sb_sampler *sampler, u64 now)
{
	u64 busy = min(sampler->tick_time - sampler->window_tick_time,
		       sb_sampler_elapsed(sampler, now));

	return max_t(u64, div64_u64(busy, sampler->ticks - sampler->window_own_ticks),
		     NSEC_PER_SEC / STACKBEAT_RATE_MAX);
}

/*
 * What all ticks of the CPU would take of a window if the sampler ticked with `period` instead of
 * `interval`: several samplers would otherwise take a budget each for each halving of a rate. Ticks that
 * fill the CPU miss what a halved rate leaves out. The first sixteenth of a window is too short to
 * measure a rate. No division overflows: the overhead is less than some windows.
 */
static u64 sb_sampler_expect(const struct sb_sampler *sampler, u64 now, u64 interval, u64 period)
{
	u64 ticks = sb_cpu_ticks(sampler->here) - sampler->window_ticks;
	u64 elapsed = max_t(u64, sb_sampler_elapsed(sampler, now), STACKBEAT_BUDGET_WINDOW_NS / 16);

	ticks = div64_u64(ticks << 10, div64_u64(elapsed << 10, STACKBEAT_BUDGET_WINDOW_NS));
	return mul_u64_u64_div_u64(ticks, interval, period);
}

/*
 * Compares the overhead of all samplers of the CPU with the budget of this sampler's session:
 * called when the window ends or the limit is reached. If the budget is exceeded, samplers with
 * at least the average overhead are throttled, so that light sessions are not throttled because
 * of heavy ones. Halving the rate halves the overhead, and doubling the rate doubles it: the
 * threshold of a quarter prevents oscillation.
 */
static noinline void sb_sampler_account(struct sb_sampler *sampler, u64 now)
{
	struct sb_cpu *here = sampler->here;
	u64 budget = READ_ONCE(sampler->session->budget);
	u64 charged = atomic64_xchg(&sampler->space_cursor.queue->charged, 0);
	bool over = now >= sampler->window_end;
	u64 period, interval, age, own, all, stopped = 0, expected = 0;
	u32 shift = sampler->shift;

	/* At a low rate the window is longer. */
	if (over)
		budget *= 1 + div_u64(now - sampler->window_end, STACKBEAT_BUDGET_WINDOW_NS);
	here->overhead += charged;
	here->charged += charged;
	own = sampler->overhead + charged - sampler->window_overhead;
	all = here->overhead - sampler->window_here;
	/* Include stopped samplers: a series of sessions must not evade the budget. */
	if (sampler->session->restricted)
		stopped = here->stopped_overhead - sampler->window_stopped;
	if (all > budget && own * here->running + stopped >= all) {
		interval = sb_sampler_interval(sampler, now);
		period = sampler->mean_period;
		/* Its rate may have been lowered when its ticks had nearly taken the budget. */
		if (period > NSEC_PER_SEC / 2)
			period = interval;
		if (period <= NSEC_PER_SEC / 2) {
			if (!over)
				expected = sb_sampler_expect(sampler, now, interval, period);
			/* Repeatedly: reading mappings may take many times the budget. */
			while ((all > 4 * budget || expected > 2 * budget) &&
			       period <= NSEC_PER_SEC / 4) {
				all /= 2;
				expected /= 2;
				period *= 2;
			}
			sb_sampler_set_floor(sampler, 2 * period);
			/* The period may have been changed meanwhile. */
			if (sampler->shift > shift)
				sampler->throttled += sampler->shift - shift;
		}
	} else if (!over) {
		/* Other samplers have used the budget. */
		sampler->window_overhead -= charged;
		sampler->limit = here->overhead + budget / 8;
		return;
	} else if (sampler->floor && (own * here->running < budget / 4 || all + own < budget / 2)) {
		age = STACKBEAT_BUDGET_WINDOW_NS + now - sampler->window_end;
		sb_sampler_set_floor(sampler, sb_floor_after(sampler->floor, age));
	}
	sb_cpu_open_window(here, now);
	sb_sampler_open_window(sampler, now);
}

/*
 * Limits the overhead of a tick or of parking to the maximum that the budget counts; the rest is
 * left out of the window.
 */
static noinline u64 sb_sampler_clamp(struct sb_sampler *sampler, u64 overhead)
{
	u64 max = min(overhead, READ_ONCE(sampler->session->overhead_max));

	sampler->window_overhead += overhead - max;
	return max;
}

void sb_sampler_add_parking(struct sb_sampler *sampler, u64 cycles)
{
	sampler->overhead += cycles;
	cycles = sb_sampler_clamp(sampler, cycles);
	sampler->here->overhead += cycles;
	sampler->here->parking += cycles;
}

static u64 sb_sampler_lost(const struct sb_sampler *sampler)
{
	return READ_ONCE(sampler->ring.lost_full) + READ_ONCE(sampler->ring.lost_bad_tail);
}

/* Queues a report of lost samples, once a second at most. */
static noinline void sb_sampler_report_loss(struct sb_sampler *sampler, u64 now)
{
	if (now < sampler->next_loss_report)
		return;
	sampler->next_loss_report = now + NSEC_PER_SEC;
	queue_work(sb_sampler_workqueue, &sampler->report);
}

/* A softirq that interrupts the idle task is work: the CPU is not idle. */
static __always_inline bool sb_cpu_is_idle(u32 task_flags)
{
	return unlikely(task_flags & PF_IDLE) && !in_serving_softirq();
}

static __always_inline bool sb_has_user_memory(const struct mm_struct *mm, u32 task_flags)
{
	return mm && !(task_flags & (PF_KTHREAD | SB_PF_USER_WORKER));
}

#define SB_CODE_SYSCALL 0x050fu
#define SB_CODE_INT80 0x80cdu

/*
 * Whether execve() has replaced the memory of the current task while its registers are still those
 * of the old program. In new memory end_code is 0 until the program is mapped; shortly afterwards
 * the registers are set, first sp to start_stack. In between, ip is after a system call
 * instruction of the old program, and the new program has no such instruction there.
 */
static noinline bool sb_exec_is_under_way(struct task_struct *task, const struct mm_struct *mm)
{
	const struct pt_regs *regs = task_pt_regs(task);
	u16 code;

	if (!READ_ONCE(mm->end_code))
		return true;
	if (regs->sp == READ_ONCE(mm->start_stack))
		return false;
	if (copy_from_user_nmi(&code, (void __user *)(regs->ip - sizeof(code)), sizeof(code)))
		return true;
	/* sysenter returns to the address after the int 0x80 that follows it. */
	return code != SB_CODE_SYSCALL && code != SB_CODE_INT80;
}

/* As sb_space_lookup(), with a fast path for the space of the last sample. */
static __always_inline u64 sb_sampler_space(struct sb_sampler *sampler, struct task_struct *task,
					    const struct mm_struct *mm, u64 now, u32 *generation)
{
	const struct sb_last_space *last = &sampler->space_cursor.last;

	if (likely(last->mm == mm && last->exec_id == task->self_exec_id &&
		   last->start_time == task->group_leader->start_boottime &&
		   last->pid == task->tgid)) {
		const struct sb_space *space = last->space;

		*generation = atomic_read(&space->generation);
		smp_rmb(); /* valid if the id, read after the generation, is the same */
		if (likely(READ_ONCE(space->id) == last->id && !READ_ONCE(space->gap)))
			return last->id;
	}
	return sb_space_lookup(&sampler->space_cursor, now, generation);
}

/* Whether the user part of a sample of the last space needs no unwind tables. */
static __always_inline bool sb_frame_pointers_suffice(const struct sb_last_space *last,
						      const struct pt_regs *regs, u32 generation)
{
	return last->frame_pointers == generation &&
	       regs->ip - last->vdso_start >= last->vdso_size;
}

/* From this bit of the size of a copy on: what the sample has of its goroutine behind its frames. */
#define SB_COPY_GOROUTINE_SHIFT 24

/*
 * Where the user part of a sample ends at the latest: the largest sample has as many user frames, and behind
 * them room for the other kernel frames and for the extra words.
 */
static __always_inline u64 *sb_sample_user_end(u64 *user_frames, u32 record_max)
{
	return (u64 *)((u8 *)user_frames + record_max - SB_FRAMES_OFFSET) -
	       (STACKBEAT_KERNEL_FRAMES_MAX + SB_SAMPLE_EXTRA);
}

/* Out of line, and by values that the caller keeps in registers anyway. */
static noinline u64 sb_sampler_follow_frame_pointers(const struct pt_regs *regs,
						     struct stackbeat_sample *sample,
						     u32 kernel_frames, u32 record_max)
{
	u64 *frames = sample->frames + kernel_frames;

	return sb_unwind_user_restored(regs, frames, sb_sample_user_end(frames, record_max),
				       &sample->hash);
}

/*
 * Unwinds the user part of a 64-bit program by unwind tables; by frame pointers if the mappings of the
 * space or their tables are not known: then *copy is the size of the copy of the stack, if the session
 * wants one; or if it is one of the 1-in-N samples with a copy.
 */
static __always_inline u64 sb_sampler_unwind_user(struct sb_sampler *sampler,
						  struct sb_session *session,
						  const struct pt_regs *regs,
						  struct stackbeat_sample *sample,
						  u32 kernel_frames, u32 record_max, u32 *copy)
{
	struct sb_space_cursor *cursor = &sampler->space_cursor;
	u32 every = READ_ONCE(session->stack_copy_every);
	u64 *frames = sample->frames + kernel_frames, user;
	const struct sb_unwind_maps *maps;
	u32 wanted;

	if (unlikely(every)) {
		sampler->copy_is_extra = !(sampler->copy_turn++ % every);
		if (sampler->copy_is_extra)
			*copy = READ_ONCE(session->stack_copy);
	}
	maps = sb_space_maps(cursor, sample->address_space, sample->generation);
	if (unlikely(!maps))
		goto unknown;
	if (unlikely(READ_ONCE(maps->frame_pointers))) {
		/* Samples whose turn it may be don't take the fast path. */
		if (!every) {
			cursor->last.frame_pointers = sample->generation;
			cursor->last.vdso_start = maps->vdso_start;
			cursor->last.vdso_size = maps->vdso_size;
			if (sb_frame_pointers_suffice(&cursor->last, regs, sample->generation))
				return sb_unwind_user_restored(regs, frames,
							       sb_sample_user_end(frames, record_max),
							       &sample->hash);
		}
	}
	user = sb_unwind_user_tables(regs, maps, frames, sb_sample_user_end(frames, record_max),
				     &sample->hash, &sampler->rule_misses);
	if (unlikely(user == SB_UNWIND_TABLE_MISSING))
		goto unknown;
	sampler->table_frames += SB_SHAPE_COUNT_TABLE_FRAMES(user);
	if (likely(!(user & SB_SHAPE_GO)))
		return user;
	user &= ~SB_SHAPE_GO;
	wanted = READ_ONCE(session->goroutines);
	/* The end of a sample has room for it. */
	if (wanted)
		*copy |= sb_unwind_goroutine(wanted, frames + SB_SHAPE_USER_FRAMES(user))
			 << SB_COPY_GOROUTINE_SHIFT;
	return user;
unknown:
	*copy = READ_ONCE(session->stack_copy);
	sampler->copy_is_extra = false;
	return sb_sampler_follow_frame_pointers(regs, sample, kernel_frames, record_max);
}

/*
 * Writes the record of a copy of the user stack after a sample of `size` bytes, which is not published
 * yet. Copies leave half of the ring to samples: beyond, the sample loses the flag. If they left a
 * quarter, which holds the samples of 90 ms at 10,000 Hz, a late reader would lose samples. Returns the
 * bytes to publish after the sample.
 */
static noinline u32 sb_sampler_copy_stack(struct sb_sampler *sampler, const struct pt_regs *regs,
					  struct stackbeat_sample *sample, u32 size, u32 copy)
{
	struct sb_ring *ring = &sampler->ring;
	u32 bytes = sizeof(struct stackbeat_stack) + copy;
	struct stackbeat_stack *stack;

	sb_ring_advance(ring, size);
	if (sb_ring_unread(ring) + size + bytes > ring->size / 2 ||
	    !sb_ring_has_room(ring, bytes)) {
		sampler->stack_copies_lost++;
		sample->record.flags &= ~STACKBEAT_SAMPLE_STACK;
		return 0;
	}
	stack = sb_ring_reserve(ring, bytes);
	sb_user_registers(regs, stack->registers);
	copy -= copy_from_user_nmi(stack->bytes, (const void __user *)regs->sp, copy);
	stack->size = round_down(copy, sizeof(u64));
	sb_uretprobes_restore(sb_uretprobes(), regs->sp, (u64 *)stack->bytes, stack->size);
	bytes = sizeof(*stack) + stack->size;
	stack->record = (struct stackbeat_record){
		.type = STACKBEAT_RECORD_STACK,
		.flags = sampler->copy_is_extra ? STACKBEAT_STACK_EXTRA : 0,
		.size = bytes,
	};
	sampler->stack_copies++;
	return bytes;
}

/* Completes a sample of `size` bytes that has more than its frames. Returns the bytes to publish. */
static noinline u32 sb_sampler_extend(struct sb_sampler *sampler, const struct pt_regs *regs,
				      struct stackbeat_sample *sample, u32 size, u32 copy)
{
	u32 found = copy >> SB_COPY_GOROUTINE_SHIFT;

	if (found & STACKBEAT_GOROUTINE_ID) {
		size += sizeof(u64);
		sample->record.flags |= STACKBEAT_SAMPLE_GOROUTINE;
	}
	if (found & STACKBEAT_GOROUTINE_CREATOR) {
		size += sizeof(u64);
		sample->record.flags |= STACKBEAT_SAMPLE_GO_CREATOR;
	}
	if (found & STACKBEAT_GOROUTINE_LABELS) {
		size += ((struct stackbeat_go_labels *)((u8 *)sample + size))->size;
		sample->record.flags |= STACKBEAT_SAMPLE_GO_LABELS;
	}
	sample->record.size = size;
	copy &= (1u << SB_COPY_GOROUTINE_SHIFT) - 1;
	if (!copy)
		return size;
	sample->record.flags |= STACKBEAT_SAMPLE_STACK;
	return sb_sampler_copy_stack(sampler, regs, sample, size, copy);
}

/*
 * Writes a sample of the interrupted context. The steps: select the parts, reserve room
 * for the largest sample, write header, kernel frames, address space and user frames,
 * publish.
 */
static __always_inline void sb_sampler_sample(struct sb_sampler *sampler,
					      struct sb_session *session, struct task_struct *task,
					      u32 task_flags, u64 now, u64 weight, u32 missed,
					      const bool restricted)
{
	struct pt_regs *regs = get_irq_regs();
	u32 parts = READ_ONCE(session->parts);
	u32 record_max = READ_ONCE(session->record_max);
	struct mm_struct *mm = task->mm;
	u64 kernel = SB_SHAPE_KERNEL(0, STACKBEAT_STOP_USER_MODE);
	u64 user = SB_SHAPE_USER(0, STACKBEAT_STOP_NO_USER_MEMORY);
	u32 kernel_frames, size, copy = 0;
	u16 flags = 0;
	struct stackbeat_sample *sample;
	bool in_kernel, has_user;
	u64 *frames, *end;

	if (unlikely(!regs)) {
		sampler->filtered++;
		return;
	}
	in_kernel = !user_mode(regs);
	has_user = likely(sb_has_user_memory(mm, task_flags));
	if (in_kernel && unlikely(task->in_execve) && has_user && sb_exec_is_under_way(task, mm)) {
		has_user = false;
		user = SB_SHAPE_USER(0, STACKBEAT_STOP_EXEC);
	}
	if (!(has_user && (parts & STACKBEAT_PART_USER)) &&
	    !(in_kernel && (parts & STACKBEAT_PART_KERNEL))) {
		sampler->filtered++;
		return;
	}

	sample = sb_ring_reserve(&sampler->ring, record_max);
	if (unlikely(!sample)) {
		sb_sampler_report_loss(sampler, now);
		return;
	}

	sample->time = now;
	sample->weight = weight;
	sample->cpu = sampler->cpu;
	sample->pid = restricted ? task_tgid_nr_ns(task, session->pid_ns) : task->tgid;
	sample->tid = restricted ? task_pid_nr_ns(task, session->pid_ns) : task->pid;
	sample->lost = sampler->ring.lost;
	sample->missed = missed;
	/* Another thread may be about to change the name. */
	data_race(memcpy(sample->comm, task->comm, sizeof(sample->comm)));
	sample->comm[sizeof(sample->comm) - 1] = '\0';

	sample->hash = 0;
	if (in_kernel) {
		flags = STACKBEAT_SAMPLE_KERNEL;
		kernel = SB_SHAPE_KERNEL(0, STACKBEAT_STOP_EXCLUDED);
		if (parts & STACKBEAT_PART_KERNEL)
			kernel = sb_kernel_walk(regs, sample->frames, &sample->hash,
						&sampler->kernel_walks);
		regs = task_pt_regs(task);
	}

	kernel_frames = SB_SHAPE_KERNEL_FRAMES(kernel);
	if (has_user) {
		sample->address_space =
			sb_sampler_space(sampler, task, mm, now, &sample->generation);
		user = SB_SHAPE_USER(0, STACKBEAT_STOP_EXCLUDED);
		if (!likely(user_64bit_mode(regs)))
			flags |= STACKBEAT_SAMPLE_COMPAT;
	} else {
		sample->address_space = 0;
		sample->generation = 0;
	}
	if (has_user && likely(parts & STACKBEAT_PART_USER)) {
		frames = sample->frames + kernel_frames;
		end = sb_sample_user_end(frames, record_max);
		if (unlikely(flags & STACKBEAT_SAMPLE_COMPAT))
			user = sb_unwind_user32(regs, frames, end, &sample->hash);
		else if (sb_frame_pointers_suffice(&sampler->space_cursor.last, regs,
						   sample->generation))
			user = sb_unwind_user(regs, frames, end, &sample->hash);
		else if (unlikely(!READ_ONCE(session->unwind_tables)))
			user = sb_unwind_user_restored(regs, frames, end, &sample->hash);
		else
			user = sb_sampler_unwind_user(sampler, session, regs, sample, kernel_frames,
						      record_max, &copy);
	}

	*(u64 *)&sample->kernel_frames = kernel | user;
	size = SB_FRAMES_OFFSET + (kernel_frames + SB_SHAPE_USER_FRAMES(user)) * sizeof(u64);
	sample->record = (struct stackbeat_record){
		.type = STACKBEAT_RECORD_SAMPLE,
		.flags = flags,
		.size = size,
	};
	if (unlikely(copy))
		size = sb_sampler_extend(sampler, regs, sample, size, copy);
	sb_ring_commit(&sampler->ring, size);
	sampler->samples++;

	if (sb_ring_should_wake(&sampler->ring, &session->watermark))
		queue_work(sb_sampler_workqueue, &sampler->wake);
}

/* Out of line, so that its checks are no overhead for other sessions. */
static noinline void sb_sampler_sample_restricted(struct sb_sampler *sampler,
						  struct sb_session *session,
						  struct task_struct *task, u32 task_flags, u64 now,
						  u64 weight, u32 missed)
{
	if (task->mm && sb_owner_may_see(session, task, task->mm))
		sb_sampler_sample(sampler, session, task, task_flags, now, weight, missed, true);
	else
		sampler->filtered++;
}

/*
 * The timer callback, in hard interrupt context on the sampler's CPU, with interrupts off: an
 * RCU read side with exclusive access to the ring. It leaves the CPU at least as much time as
 * it took, at any rate.
 *
 * The instructions of a sample (6.1, gcc 12, user code with ten callers):
 *
 *	 15	entry, registers
 *	 11	time-stamp counter, and the time from it
 *	 12	due time, lateness, CPU, counters
 *	  8	idle? filter? restricted?
 *	 23	available and wanted parts
 *	 11	room in the ring
 *	 18	header, name of the thread
 *	  9	(no kernel part)
 *	 28	address space: as in the last sample?
 *	 17	arguments of the stack walk
 *	205	the stack walk: 11 a frame, 16 a round of sixteen frames, 35 for the last
 *		round, 70 for its beginning and end
 *	 20	shape, size, publish, whether to wake the reader
 *	 17	overhead, budget
 *	 24	the next tick
 *	 11	exit
 *
 * The timer interrupt adds some 890. The kernel part of a read of /dev/zero, seven frames, adds
 * some 200. Optimizations of the stack walk that paid: frames in assembler (saves two each:
 * compilers spill variables that are used only at the end), one test for all addresses of a round
 * (saves one or two), and a hash of one instruction. Those that did not: inlining the walk into the
 * callback (too few registers: two more a frame), and a copy of the callback for user code only
 * (saves 8, adds 60 for kernel code).
 */
static enum hrtimer_restart sb_sampler_callback(struct hrtimer *timer)
{
	struct sb_sampler *sampler = container_of(timer, struct sb_sampler, timer);
	struct sb_session *session = sampler->session;
	struct sb_cpu *here = sampler->here;
	struct task_struct *task = current;
	u32 task_flags = READ_ONCE(task->flags);
	u64 start = rdtsc();
	u64 now = sb_sampler_now(sampler, start);
	u64 due = sb_sampler_due(sampler);
	u64 period = sampler->period;
	u64 weight = period, overhead, counted;
	u32 missed = sampler->missed;
	const struct sb_filter *filter;

	if (unlikely((s64)(now - due) >= (s64)period)) {
		u64 late = div64_u64(now - due, period);

		missed += late;
		due += late * period;
	}
	if (unlikely(missed)) {
		weight += missed * period;
		sampler->missed_sum += missed;
	}
	sampler->ticks++;
	sampler->tick_time += weight;

	filter = rcu_dereference_sched(session->filter);
	if (sb_cpu_is_idle(task_flags)) {
		/* Idle without a switch (power clamping), or parking had taken too much. */
		sampler->idle++;
		sampler->parked = true;
		here->parked = PF_IDLE;
	} else if (unlikely(filter) && !sb_filter_wants(filter, task)) {
		sampler->filtered++;
	} else if (unlikely(session->restricted)) {
		sb_sampler_sample_restricted(sampler, session, task, task_flags, now, weight,
					     missed);
	} else {
		sb_sampler_sample(sampler, session, task, task_flags, now, weight, missed, false);
	}

	overhead = rdtsc() - start + sb_interrupt_cycles;
	sampler->overhead += overhead;
	counted = overhead;
	if (unlikely(overhead > READ_ONCE(session->overhead_max))) {
		counted = sb_sampler_clamp(sampler, overhead);
		sampler->long_ticks++;
		/* The next tick comes later by the time that this one took, but not by more than a window. */
		overhead = min(overhead, sb_window_cycles);
	}
	here->overhead += counted;
	if (unlikely(here->overhead > sampler->limit || now >= sampler->window_end))
		sb_sampler_account(sampler, now);

	period = sampler->mean_period;
	sb_sampler_set(sampler, period, due + sb_draw_interval(sampler),
		       now + sb_cycles_to_ns(2 * overhead));
	return unlikely(sampler->parked) ? HRTIMER_NORESTART : HRTIMER_RESTART;
}

/*
 * Wakes the reader, which takes locks that a timer callback must not take. This is not an irq_work,
 * because with PREEMPT_RT a thread of the CPU would run it, which has to wait for real-time tasks.
 */
static void sb_sampler_wake_work(struct work_struct *work)
{
	wake_up_interruptible(&container_of(work, struct sb_sampler, wake)->session->wait);
}

/* The session's rate after throttling, in Hz. */
static u32 sb_sampler_throttled_rate(const struct sb_sampler *sampler, u32 shift)
{
	return max(READ_ONCE(sampler->session->rate) >> shift, 1u);
}

void sb_sampler_report_offline(struct sb_sampler *sampler)
{
	if (xchg(&sampler->went_offline, 0))
		sb_event_send(sampler->session, STACKBEAT_EVENT_CPU_OFFLINE, sampler->cpu, 0);
}

/* Sends events about ticks, in process context. */
static void sb_sampler_report_work(struct work_struct *work)
{
	struct sb_sampler *sampler = container_of(work, struct sb_sampler, report);
	u32 shift = READ_ONCE(sampler->shift);
	u64 lost = sb_sampler_lost(sampler);
	u64 different = READ_ONCE(sampler->kernel_walks.different);

	sb_sampler_report_offline(sampler);
	if (shift != sampler->reported_shift)
		sb_event_send(sampler->session,
			      shift > sampler->reported_shift ? STACKBEAT_EVENT_THROTTLED :
							     STACKBEAT_EVENT_RECOVERED,
			      sampler->cpu, sb_sampler_throttled_rate(sampler, shift));
	if (lost != sampler->reported_lost)
		sb_event_send(sampler->session, STACKBEAT_EVENT_LOST, sampler->cpu,
			      lost - sampler->reported_lost);
	if (different != sampler->reported_different)
		sb_event_send(sampler->session, STACKBEAT_EVENT_KERNEL_RULES_OFF, sampler->cpu, 0);
	sampler->reported_different = different;
	sampler->reported_shift = shift;
	sampler->reported_lost = lost;
}

static void sb_sampler_report_different(struct sb_kernel_walks *walks)
{
	queue_work(sb_sampler_workqueue,
		   &container_of(walks, struct sb_sampler, kernel_walks)->report);
}

struct sb_sampler *sb_sampler_alloc(struct sb_session *session, u32 cpu, u32 ring_size)
{
	struct sb_sampler *sampler = kzalloc_node(sizeof(*sampler), GFP_KERNEL, cpu_to_node(cpu));
	int err;

	if (!sampler)
		return ERR_PTR(-ENOMEM);
	err = sb_space_cursor_init(&sampler->space_cursor, session->spaces, cpu);
	if (!err)
		err = sb_ring_alloc(&sampler->ring, ring_size, cpu);
	if (err) {
		kfree(sampler);
		return ERR_PTR(err);
	}
	sampler->session = session;
	sampler->here = per_cpu_ptr(&sb_cpus, cpu);
	sampler->cpu = cpu;
	sampler->random = get_random_u64();
	sampler->kernel_walks.differs = sb_sampler_report_different;
	sb_kernel_rules_alloc(cpu);
	INIT_WORK(&sampler->wake, sb_sampler_wake_work);
	INIT_WORK(&sampler->report, sb_sampler_report_work);
	sb_hrtimer_setup(&sampler->timer, sb_sampler_callback, CLOCK_MONOTONIC,
			 HRTIMER_MODE_ABS_PINNED_HARD);

	sb_mapping_init_ring(&sampler->consumer_mapping, &sampler->ring_mapping, &sampler->ring);
	return sampler;
}

void sb_sampler_free(struct sb_sampler *sampler)
{
	if (!sampler)
		return;
	cancel_work_sync(&sampler->wake);
	cancel_work_sync(&sampler->report);
	sb_ring_free(&sampler->ring);
	kfree(sampler);
}

u32 sb_sampler_rate(const struct sb_sampler *sampler)
{
	if (!READ_ONCE(sampler->running))
		return 0;
	return sb_sampler_throttled_rate(sampler, READ_ONCE(sampler->shift));
}

static void sb_sampler_arm(struct sb_sampler *sampler)
{
	hrtimer_start(&sampler->timer, hrtimer_get_expires(&sampler->timer),
		      HRTIMER_MODE_ABS_PINNED_HARD);
}

void sb_sampler_start(struct sb_sampler *sampler)
{
	struct sb_cpu *here = sampler->here;
	unsigned long flags;
	u64 now, period;

	local_irq_save(flags);
	if (!sampler->running && here->online) {
		now = ktime_get_mono_fast_ns();
		WRITE_ONCE(sampler->running, true);
		hlist_add_head(&sampler->node, &here->samplers);
		here->running++;
		sb_cpu_open_window(here, now);
		sampler->floor = sb_floor_after(sampler->floor,
						now - min(now, sampler->window_end));
		if (sampler->session->restricted)
			sampler->floor = max(sampler->floor, sb_cpu_floor(here, now));
		sb_sampler_set_floor(sampler, sampler->floor);
		/* Stopping and starting do not end a window. */
		if (now >= sampler->window_end) {
			sb_sampler_open_window(sampler, now);
			/* The overhead of samplers stopped in this window counts. */
			sampler->window_here = here->window_overhead;
			sampler->window_stopped = here->window_stopped;
			sampler->limit = here->window_overhead +
					 READ_ONCE(sampler->session->budget);
		}
		period = sampler->mean_period;
		sb_sampler_set(sampler, period, now + sb_draw_residual(sampler, period), now);
		sampler->parked = sb_cpu_is_idle(current->flags);
		if (sampler->parked)
			here->parked = PF_IDLE;
		else
			sb_sampler_arm(sampler);
	}
	local_irq_restore(flags);
}

void sb_sampler_stop(struct sb_sampler *sampler)
{
	struct sb_cpu *here = sampler->here;
	unsigned long flags;
	u64 charged;

	local_irq_save(flags);
	if (sampler->running) {
		WRITE_ONCE(sampler->running, false);
		sampler->parked = false;
		hrtimer_cancel(&sampler->timer);
		hlist_del(&sampler->node);
		here->running--;
		charged = atomic64_xchg(&sampler->space_cursor.queue->charged, 0);
		here->overhead += charged;
		here->charged += charged;
		here->stopped_overhead += sampler->overhead + charged - sampler->window_overhead;
		if (sampler->session->restricted && sampler->floor)
			sb_cpu_raise_floor(here, sampler->floor, ktime_get_mono_fast_ns());
		queue_work(sb_sampler_workqueue, &sampler->report);
	}
	local_irq_restore(flags);
}

/*
 * Changes the period of the next tick: the rest of its interval is scaled by the same factor as
 * the period. Measured in periods nothing changes, so the new weight is right. If ticks were
 * missed before the next one, it keeps its time, since the missed ones keep their weight.
 */
static void sb_sampler_stretch(struct sb_sampler *sampler, u64 period)
{
	u64 now = ktime_get_mono_fast_ns();
	u64 due = sb_sampler_due(sampler);

	if (due > now) {
		if (sampler->missed)
			return;
		hrtimer_cancel(&sampler->timer);
		due = now + div64_u64((due - now) * period, sampler->period);
		hrtimer_set_expires(&sampler->timer, ns_to_ktime(due));
		if (!sampler->parked)
			sb_sampler_arm(sampler);
	} else if (!sampler->parked) {
		return; /* the interrupt of the tick is pending */
	}
	sampler->period = period;
}

void sb_sampler_retime(struct sb_sampler *sampler)
{
	unsigned long flags;
	u64 period;

	local_irq_save(flags);
	if (sampler->running) {
		sb_sampler_set_floor(sampler, sampler->floor);
		period = sampler->mean_period;
		if (period != sampler->period)
			sb_sampler_stretch(sampler, period);
	}
	local_irq_restore(flags);
}

void sb_sampler_park(struct sb_sampler *sampler)
{
	if (sampler->parked)
		return;
	/* A tick that is pending at the end of a softirq belongs to the softirq. */
	if (in_serving_softirq() && sb_sampler_due(sampler) <= ktime_get_mono_fast_ns())
		return;
	hrtimer_cancel(&sampler->timer);
	sampler->parked = true;
}

/*
 * The next tick comes when it would have come without parking. A new interval would never
 * sample work in short bursts; a tick at once would always sample it. Intervals in the idle
 * time are drawn one by one, or, after a long idle time, the residual of one is drawn.
 */
void sb_sampler_unpark(struct sb_sampler *sampler)
{
	u64 now, due, period = sampler->period;
	u32 steps;

	if (!sampler->parked)
		return;
	sampler->parked = false;
	now = ktime_get_mono_fast_ns();
	due = sb_sampler_due(sampler);
	sb_cpu_open_window(sampler->here, now);
	/* New intervals are of the rate in effect. */
	if (due <= now)
		period = sampler->mean_period;
	if (due <= now && !sampler->interval_range) {
		due += (div64_u64(now - due, period) + 1) * period;
	} else if (due <= now) {
		for (steps = 0; due <= now && steps < SB_STEPS_MAX; steps++)
			due += sb_draw_interval(sampler);
		if (due <= now)
			due = now + sb_draw_residual(sampler, period);
	}
	if (due != sb_sampler_due(sampler))
		sb_sampler_set(sampler, period, due, 0);
	sb_sampler_arm(sampler);
}

static struct hrtimer sb_calibration_timer;
/* Not a bool: with the checks of UBSAN it would be read only once (gcc 12). */
static u32 sb_calibration_fired;

static enum hrtimer_restart sb_calibration_callback(struct hrtimer *timer)
{
	WRITE_ONCE(sb_calibration_fired, 1);
	return HRTIMER_NORESTART;
}

/*
 * Measures the cycles that a timer interrupt takes from the interrupted code: the longest time
 * between two readings of the counter while the timer is pending. Takes the minimum of several
 * tries, since a host or another interrupt can only add to it.
 */
static u64 __init sb_measure_interrupt(void)
{
	u64 last, now, longest, best = U64_MAX;
	u32 tries = 0, wasted = 0;

	sb_hrtimer_setup(&sb_calibration_timer, sb_calibration_callback, CLOCK_MONOTONIC,
			 HRTIMER_MODE_REL_PINNED_HARD);
	while (tries < SB_CALIBRATION_TRIES && wasted < 100 * SB_CALIBRATION_TRIES) {
		longest = 0;
		WRITE_ONCE(sb_calibration_fired, 0);
		preempt_disable();
		hrtimer_start(&sb_calibration_timer, ns_to_ktime(SB_CALIBRATION_NS),
			      HRTIMER_MODE_REL_PINNED_HARD);
		last = rdtsc_ordered();
		/* The interrupt came before the first reading: it can't be measured. */
		if (READ_ONCE(sb_calibration_fired)) {
			preempt_enable();
			wasted++;
			continue;
		}
		do {
			now = rdtsc_ordered();
			longest = max(longest, now - last);
			last = now;
		} while (!READ_ONCE(sb_calibration_fired));
		longest = max(longest, rdtsc_ordered() - last);
		preempt_enable();
		best = min(best, longest);
		tries++;
	}
	hrtimer_cancel(&sb_calibration_timer);
	return tries ? best : 0;
}

int __init sb_sampler_init(void)
{
	sb_sync_cycles = sb_ns_to_cycles(SB_SYNC_NS);
	sb_pair_cycles = sb_ns_to_cycles(SB_PAIR_NS);
	sb_window_cycles = sb_ns_to_cycles(STACKBEAT_BUDGET_WINDOW_NS);
	sb_interrupt_cycles = sb_measure_interrupt();
	sb_sampler_workqueue = alloc_workqueue("stackbeat", WQ_UNBOUND, 0);
	return sb_sampler_workqueue ? 0 : -ENOMEM;
}

void sb_sampler_flush(void)
{
	flush_workqueue(sb_sampler_workqueue);
}

void sb_sampler_exit(void)
{
	destroy_workqueue(sb_sampler_workqueue);
}
