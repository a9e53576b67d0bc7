// SPDX-License-Identifier: GPL-2.0
#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>

#include "compat/compat.h"
#include "stackbeat_unwind_step.h"
#include "unwind.h"
#include "unwind_maps.h"
#include "unwind_tables.h"
#include "unwind_user.h"

/*
 * The kind of a cached rule. All have their return address at CFA - 8, and a CFA that is up to
 * SB_CFA_MAX from its base; above rsp, by whole words, if that is the base.
 */
enum sb_rule_kind {
	SB_RULE_RSP_SAVED = 1,	/* CFA from rsp, rbp at CFA + `rbp` */
	SB_RULE_RSP,		/* CFA from rsp, rbp unchanged */
	SB_RULE_RBP_SAVED,	/* CFA from rbp, rbp at CFA + `rbp` */
};

#define SB_CFA_MAX (1 << 20)

/*
 * A rule of the cache: of the address with this offset in the table with this id. Each CPU has a
 * direct-mapped cache of the rules that the fast loop can apply.
 */
struct sb_cached_rule {
	u64 key;	/* id of the table << 32 | offset of the address; 0: free */
	s32 cfa;	/* bytes */
	s16 rbp;	/* bytes from the CFA */
	u16 kind;	/* enum sb_rule_kind */
};

#define SB_CACHE_BITS 10
#define SB_CACHE_BYTES (sizeof(struct sb_cached_rule) << SB_CACHE_BITS)

static struct sb_cached_rule __percpu *sb_rule_cache;

/* Stands for an unknown rbp in the fast loop. It is not aligned, so no rule can use it. */
#define SB_UNKNOWN_RBP (~0ul)

/* The part of a mapping for which one table is valid. */
struct sb_walk_range {
	u64 low, size;
	u64 key;	/* address + key = key of the cached rule */
	u64 bias;	/* address - ELF virtual address */
	const struct sb_unwind_table *table;	/* NULL: frame pointers */
};

struct sb_walk {
	struct stackbeat_unwind_frame frame;
	const struct sb_unwind_maps *maps;
	/* The range of the frame, and the one before it: calls go back and forth between files. */
	struct sb_walk_range range, other;
	u64 *to, *to_end;
	u64 hash;
	u64 table_frames;
	bool careful;	/* the fast loops are not used */
	bool skipped;	/* fast loops have not followed rbx */
};

static __always_inline u64 sb_rule_slot(u64 key)
{
	return key * 0x9e3779b97f4a7c15ull >> (64 - SB_CACHE_BITS);
}

/* Caches a rule if the fast loop can apply it. */
static void sb_cache_rule(u64 key, const struct stackbeat_unwind_rule *rule)
{
	struct sb_cached_rule *cached = this_cpu_ptr(sb_rule_cache) + sb_rule_slot(key);
	u8 places = rule->flags & ~STACKBEAT_UNWIND_RBX_SAVED;
	u16 kind;

	if (rule->kind_base == (STACKBEAT_UNWIND_CALLER | STACKBEAT_REGISTER_RSP << 4) &&
	    places == STACKBEAT_UNWIND_RBP_SAVED)
		kind = SB_RULE_RSP_SAVED;
	else if (rule->kind_base == (STACKBEAT_UNWIND_CALLER | STACKBEAT_REGISTER_RSP << 4) &&
		 !places)
		kind = SB_RULE_RSP;
	else if (rule->kind_base == (STACKBEAT_UNWIND_CALLER | STACKBEAT_REGISTER_RBP << 4) &&
		 places == STACKBEAT_UNWIND_RBP_SAVED)
		kind = SB_RULE_RBP_SAVED;
	else
		return;
	if (rule->cfa > SB_CFA_MAX || rule->cfa < (kind == SB_RULE_RBP_SAVED ? -SB_CFA_MAX : 8))
		return;
	cached->key = key;
	cached->cfa = rule->cfa;
	cached->rbp = rule->rbp * (s16)sizeof(u64);
	cached->kind = kind;
}

/* Reads a word of user memory; a stackbeat_unwind_read. */
static __always_inline int sb_walk_read(void *arg, u64 address, u64 *word)
{
	const unsigned long user_size = TASK_SIZE_MAX;
	u64 value;

	__uaccess_begin_nospec();
	sb_read_user(value, u64, address, user_size - sizeof(u64), user_size | (PAGE_SIZE - 1),
		     unreadable);
	__uaccess_end();
	*word = value;
	return 1;
unreadable:
	__uaccess_end();
	return 0;
}

/* How a fast loop ended. */
enum sb_walk_end {
	SB_WALK_LEFT,	/* the frame is outside of the range */
	SB_WALK_STEP,	/* the frame needs a step of the careful path */
};

/*
 * The variables of a fast loop: registers of the frame, all of return addresses in the range, and
 * the output. A loop takes only steps that need no further checks, and leaves each other step,
 * including errors, to the careful path.
 */
struct sb_fast {
	unsigned long rsp, rbp, rip;
	u64 *to, hash;
};

static __always_inline struct sb_fast sb_fast_begin(const struct sb_walk *walk)
{
	const struct stackbeat_unwind_frame *frame = &walk->frame;

	return (struct sb_fast){
		.rsp = frame->registers[STACKBEAT_REGISTER_RSP],
		.rbp = frame->known >> STACKBEAT_REGISTER_RBP & 1 ?
			       frame->registers[STACKBEAT_REGISTER_RBP] : SB_UNKNOWN_RBP,
		.rip = frame->registers[STACKBEAT_REGISTER_RIP],
		.to = walk->to,
		.hash = walk->hash,
	};
}

static __always_inline void sb_fast_end(struct sb_walk *walk, const struct sb_fast *fast)
{
	struct stackbeat_unwind_frame *frame = &walk->frame;

	if (fast->to == walk->to)
		return;
	frame->registers[STACKBEAT_REGISTER_RSP] = fast->rsp;
	frame->registers[STACKBEAT_REGISTER_RBP] = fast->rbp;
	frame->registers[STACKBEAT_REGISTER_RIP] = fast->rip;
	frame->known = 1u << STACKBEAT_REGISTER_RSP | 1u << STACKBEAT_REGISTER_RIP |
		       (fast->rbp != SB_UNKNOWN_RBP) << STACKBEAT_REGISTER_RBP;
	walk->skipped = true;
	walk->to = fast->to;
	walk->hash = fast->hash;
}

/* Follows rules of the cache. One user access section, in which function calls are not allowed. */
static noinline enum sb_walk_end sb_walk_rules(struct sb_walk *walk)
{
	const struct sb_cached_rule *cache = this_cpu_ptr(sb_rule_cache), *rule;
	struct sb_fast fast = sb_fast_begin(walk);
	unsigned long user_size = TASK_SIZE_MAX;
	unsigned long low = walk->range.low, size = walk->range.size, add = walk->range.key;
	unsigned long user_mask, limit, address, cfa, at, rip, rbp;
	enum sb_walk_end end = SB_WALK_STEP;
	u64 *to_end = walk->to_end;

	OPTIMIZER_HIDE_VAR(user_size);
	user_mask = user_size | (PAGE_SIZE - 1);
	limit = user_size - 2 * PAGE_SIZE;

	__uaccess_begin_nospec();
	for (;;) {
		address = fast.rip - 1;
		if (unlikely(address - low >= size)) {
			end = SB_WALK_LEFT;
			break;
		}
		address += add;
		rule = cache + sb_rule_slot(address);
		if (unlikely(rule->key != address))
			break;
		cfa = fast.rsp + rule->cfa;
		if (unlikely(rule->kind == SB_RULE_RBP_SAVED)) {
			cfa = fast.rbp + rule->cfa;
			if (unlikely(cfa <= fast.rsp || (cfa & 7)))
				break;
		}
		if (unlikely(cfa - PAGE_SIZE >= limit || fast.to == to_end))
			break;
		at = cfa & user_mask; /* changes nothing, except under speculation */
		unsafe_get_user(rip, (u64 __user *)(at - sizeof(u64)), out);
		rbp = fast.rbp;
		if (likely(rule->kind != SB_RULE_RSP))
			unsafe_get_user(rbp, (u64 __user *)(at + rule->rbp), out);
		if (unlikely(!sb_is_user_code(rip, user_mask)))
			break;
		fast.rsp = cfa;
		fast.rbp = rbp;
		fast.rip = rip;
		*fast.to++ = rip;
		fast.hash = sb_hash(fast.hash, rip);
	}
out:
	__uaccess_end();
	walk->table_frames += fast.to - walk->to;
	sb_fast_end(walk, &fast);
	return end;
}

/* Follows frame pointers. As sb_walk_rules(). */
static noinline enum sb_walk_end sb_walk_frame_pointers(struct sb_walk *walk)
{
	struct sb_fast fast = sb_fast_begin(walk);
	unsigned long user_size = TASK_SIZE_MAX;
	unsigned long low = walk->range.low, size = walk->range.size;
	unsigned long user_mask, limit, rbp, rip;
	enum sb_walk_end end = SB_WALK_STEP;
	u64 *to_end = walk->to_end;

	OPTIMIZER_HIDE_VAR(user_size);
	user_mask = user_size | (PAGE_SIZE - 1);
	limit = user_size - 2 * PAGE_SIZE;

	__uaccess_begin_nospec();
	for (;;) {
		if (unlikely(fast.rip - 1 - low >= size)) {
			end = SB_WALK_LEFT;
			break;
		}
		if (unlikely(fast.rbp - PAGE_SIZE >= limit || fast.rbp < fast.rsp ||
			     (fast.rbp & 7) || fast.to == to_end))
			break;
		fast.rbp &= user_mask; /* changes nothing, except under speculation */
		unsafe_get_user(rbp, (u64 __user *)fast.rbp, out);
		unsafe_get_user(rip, (u64 __user *)(fast.rbp + sizeof(u64)), out);
		if (unlikely(!sb_is_user_code(rip, user_mask)))
			break;
		fast.rsp = fast.rbp + 2 * sizeof(u64);
		fast.rbp = rbp;
		fast.rip = rip;
		*fast.to++ = rip;
		fast.hash = sb_hash(fast.hash, rip);
	}
out:
	__uaccess_end();
	if (walk->range.table)
		walk->table_frames += fast.to - walk->to;
	sb_fast_end(walk, &fast);
	return end;
}

static const struct sb_unwind_map *sb_unwind_maps_find(const struct sb_unwind_maps *maps,
						       u64 address)
{
	const struct sb_unwind_map *map = maps->items;
	u32 count = maps->count, half;

	/* The last mapping that starts at or before the address is map - 1. */
	while (count) {
		half = count / 2;
		if (map[half].start <= address) {
			map += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	if (map == maps->items || address >= map[-1].end)
		return NULL;
	return map - 1;
}

/* Sets the range of the walk to that of an address. */
enum sb_range_state {
	SB_RANGE_FOUND,
	SB_RANGE_MISSING,	/* its table is not known */
	SB_RANGE_UNMAPPED,	/* the address is in no mapping */
	SB_RANGE_NO_RULE,	/* its table does not cover it */
};

static noinline enum sb_range_state sb_walk_find_range(struct sb_walk *walk, u64 address)
{
	const struct sb_unwind_map *map;
	const struct sb_unwind_table *table = NULL;
	u64 base, end;

	if (address - walk->other.low < walk->other.size) {
		swap(walk->range, walk->other);
		return SB_RANGE_FOUND;
	}
	map = sb_unwind_maps_find(walk->maps, address);
	if (!map)
		return SB_RANGE_UNMAPPED;
	if (map->object) {
		table = rcu_dereference_sched(map->object->table);
		/* Pairs with the release in sb_unwind_map_set_bias(). */
		if (!table || (table != &sb_unwind_no_table && !smp_load_acquire(&map->biased)))
			return SB_RANGE_MISSING;
	}
	walk->other = walk->range;
	if (!table || table == &sb_unwind_no_table) {
		walk->range = (struct sb_walk_range){
			.low = map->start,
			.size = map->end - map->start,
		};
		return SB_RANGE_FOUND;
	}
	base = READ_ONCE(map->bias) + table->view.start;
	end = base + table->view.size;
	if (end < base || address - base >= table->view.size)
		return SB_RANGE_NO_RULE;
	walk->range = (struct sb_walk_range){
		.low = max(base, map->start),
		.size = min(end, map->end) - max(base, map->start),
		.key = ((u64)table->id << 32) - base,
		.bias = READ_ONCE(map->bias),
		.table = table,
	};
	return SB_RANGE_FOUND;
}

static const u8 sb_stops[] = {
	[STACKBEAT_UNWIND_OUTERMOST] = STACKBEAT_STOP_OUTERMOST,
	[STACKBEAT_UNWIND_NO_RULE] = STACKBEAT_STOP_NO_RULE,
	[STACKBEAT_UNWIND_UNREADABLE] = STACKBEAT_STOP_FAULT,
	[STACKBEAT_UNWIND_BAD_FRAME] = STACKBEAT_STOP_BAD_FRAME,
	[STACKBEAT_UNWIND_LOST_REGISTER] = STACKBEAT_STOP_BAD_FRAME,
};

/* One step of any kind. */
static noinline enum stackbeat_unwind_result sb_walk_step(struct sb_walk *walk)
{
	u64 address = stackbeat_unwind_address(&walk->frame);
	const struct stackbeat_unwind_rule *rule;

	if (!walk->range.table)
		return stackbeat_unwind_step_frame_pointer(&walk->frame, sb_walk_read, NULL);
	rule = stackbeat_unwind_find(&walk->range.table->view, address - walk->range.bias);
	if (rule)
		sb_cache_rule(address + walk->range.key, rule);
	return stackbeat_unwind_step(&walk->frame, rule, sb_walk_read, NULL);
}

/* Follows frames as far as the fast loops can. */
static __always_inline enum sb_walk_end sb_walk_fast(struct sb_walk *walk)
{
	const struct sb_unwind_table *table = walk->range.table;

	/* Tables of code with frame pointers are needed for the interrupted address only. */
	return table && !table->frame_pointers ? sb_walk_rules(walk) :
						 sb_walk_frame_pointers(walk);
}

/* Walks up to the end of the stack. Returns why it ended there; -1: a table is missing. */
static int sb_walk_on(struct sb_walk *walk)
{
	const unsigned long user_mask = TASK_SIZE_MAX | (PAGE_SIZE - 1);
	enum stackbeat_unwind_result result;
	u64 address, rip;

	for (;;) {
		address = stackbeat_unwind_address(&walk->frame);
		if (address - walk->range.low >= walk->range.size) {
			switch (sb_walk_find_range(walk, address)) {
			case SB_RANGE_FOUND:
				break;
			case SB_RANGE_MISSING:
				return -1;
			case SB_RANGE_NO_RULE:
				return STACKBEAT_STOP_NO_RULE;
			case SB_RANGE_UNMAPPED:
				return walk->frame.is_return_address ? STACKBEAT_STOP_BAD_FRAME : -1;
			}
		}
		if (walk->frame.is_return_address && !walk->careful &&
		    sb_walk_fast(walk) == SB_WALK_LEFT)
			continue;
		result = sb_walk_step(walk);
		if (result == STACKBEAT_UNWIND_LOST_REGISTER && walk->skipped)
			return -2;
		if (result == STACKBEAT_UNWIND_BAD_FRAME && !walk->range.table)
			return STACKBEAT_STOP_NO_TABLE;
		if (result != STACKBEAT_UNWIND_STEPPED)
			return sb_stops[result];
		rip = walk->frame.registers[STACKBEAT_REGISTER_RIP];
		if (!sb_is_user_code(rip, user_mask))
			return rip ? STACKBEAT_STOP_BAD_FRAME : STACKBEAT_STOP_OUTERMOST;
		if (walk->to == walk->to_end)
			return STACKBEAT_STOP_MAX_DEPTH;
		*walk->to++ = rip;
		walk->hash = sb_hash(walk->hash, rip);
		walk->table_frames += !!walk->range.table;
	}
}

void sb_user_registers(const struct pt_regs *regs, u64 *registers)
{
	const u64 values[] = {
		regs->ax, regs->dx, regs->cx, regs->bx, regs->si, regs->di, regs->bp, regs->sp,
		regs->r8, regs->r9, regs->r10, regs->r11, regs->r12, regs->r13, regs->r14, regs->r15,
		regs->ip,
	};

	static_assert(ARRAY_SIZE(values) == STACKBEAT_REGISTERS);
	memcpy(registers, values, sizeof(values));
}

static int sb_walk_stack(struct sb_walk *walk, const struct pt_regs *regs, u64 *frames,
			 u64 *frames_end, u64 hash, bool careful)
{
	sb_user_registers(regs, walk->frame.registers);
	walk->frame.known = STACKBEAT_UNWIND_ALL_KNOWN;
	walk->frame.is_return_address = 0;
	walk->frame.descents = 0;
	walk->range.size = 0;
	walk->range.low = 0;
	walk->other.size = 0;
	walk->other.low = 0;
	walk->to = frames;
	walk->to_end = frames_end;
	walk->table_frames = 0;
	walk->careful = careful;
	walk->skipped = false;
	*walk->to++ = regs->ip;
	walk->hash = sb_hash(hash, regs->ip);
	return sb_walk_on(walk);
}

u64 sb_unwind_user_tables(const struct pt_regs *regs, const struct sb_unwind_maps *maps,
			  u64 *frames, u64 *frames_end, u64 *hash)
{
	struct sb_walk walk __uninitialized;
	int stop;

	walk.maps = maps;
	stop = sb_walk_stack(&walk, regs, frames, frames_end, *hash, false);
	/* A rule needs a register that the fast loops do not follow: ld.so has such rules. */
	if (stop == -2)
		stop = sb_walk_stack(&walk, regs, frames, frames_end, *hash, true);
	if (stop < 0)
		return SB_UNWIND_TABLE_MISSING;
	*hash = walk.hash;
	return SB_SHAPE_USER(walk.to - frames, stop) | SB_SHAPE_TABLE_FRAMES(walk.table_frames);
}

int __init sb_unwind_tables_init(void)
{
	sb_rule_cache = __alloc_percpu(SB_CACHE_BYTES, SMP_CACHE_BYTES);
	return sb_rule_cache ? 0 : -ENOMEM;
}

void sb_unwind_tables_exit(void)
{
	free_percpu(sb_rule_cache);
}
