// SPDX-License-Identifier: GPL-2.0
#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <asm/cpufeature.h>
#include <asm/fsgsbase.h>

#include "compat/compat.h"
#include "goroutine.h"
#include "stackbeat_unwind_step.h"
#include "unwind.h"
#include "unwind_maps.h"
#include "unwind_tables.h"
#include "unwind_user.h"
#include "uretprobe.h"

/*
 * The kind of a cached rule. The first three have their return address at CFA - 8, and a CFA that is
 * up to SB_CFA_MAX from its base; above rsp, by whole words, if that is the base.
 */
enum sb_rule_kind {
	SB_RULE_RSP_SAVED,	/* CFA from rsp, rbp at CFA + `rbp` */
	SB_RULE_RSP,		/* CFA from rsp, rbp unchanged */
	SB_RULE_RBP_SAVED,	/* CFA from rbp, rbp at CFA + `rbp` */
	SB_RULE_END,		/* the outermost frame */
	SB_RULE_OTHER,		/* not cached */
};

#define SB_CFA_MAX (1 << 20)

struct sb_cached_rule {
	s32 cfa;	/* bytes */
	s16 rbp;	/* bytes from the CFA */
	u16 kind;	/* enum sb_rule_kind */
};

#define SB_CACHE_BITS 10
#define SB_CACHE_SIZE (1u << SB_CACHE_BITS)

/* The part of a mapping for which one table is valid. */
struct sb_walk_range {
	u64 low, size;
	u64 key;	/* address + key = id of the table << 32 | offset in its code */
	u64 bias;	/* address - ELF virtual address */
	const struct sb_unwind_table *table;	/* NULL: frame pointers */
	bool by_rules;	/* its callers are found by rules, not by frame pointers */
};

/*
 * The walk of a CPU. Ticks do not interrupt each other, so a CPU has one, with parts that are used
 * again by the next walk.
 */
struct sb_walk {
	/* A direct-mapped cache of rules, by the key of an address; 0: free. */
	u64 keys[SB_CACHE_SIZE];
	struct sb_cached_rule rules[SB_CACHE_SIZE];

	const struct sb_unwind_maps *maps;
	u64 serial;	/* of the mappings: an array of an earlier walk may have been freed */
	/*
	 * The range of the frame, and the one before it: calls go back and forth between files. The
	 * mappings keep their tables.
	 */
	struct sb_walk_range *range, *other;
	struct sb_walk_range ranges[2];

	struct stackbeat_unwind_frame frame;
	const struct pt_regs *regs;	/* registers of the first frame, until they are in `frame` */
	u64 *to, *to_end;
	u64 hash;
	u64 table_frames;
	bool careful;	/* the fast loops are not used */
	bool skipped;	/* the fast loops have not followed rbx */
};

static struct sb_walk __percpu *sb_walks;

/* Stands for an unknown rbp in the fast loops. It is not aligned, so no rule can use it. */
#define SB_UNKNOWN_RBP (~0ul)

static __always_inline u32 sb_cache_slot(u64 key)
{
	return (u32)key * 0x9e3779b1u >> (32 - SB_CACHE_BITS);
}

static enum sb_rule_kind sb_rule_kind(const struct stackbeat_unwind_rule *rule)
{
	u8 places = rule->flags & ~STACKBEAT_UNWIND_RBX_SAVED;
	enum sb_rule_kind kind = SB_RULE_OTHER;

	if ((rule->kind_base & 0xf) == STACKBEAT_UNWIND_END)
		return SB_RULE_END;
	if (rule->kind_base == (STACKBEAT_UNWIND_CALLER | STACKBEAT_REGISTER_RSP << 4))
		kind = places == STACKBEAT_UNWIND_RBP_SAVED ? SB_RULE_RSP_SAVED :
		       !places ? SB_RULE_RSP : SB_RULE_OTHER;
	else if (rule->kind_base == (STACKBEAT_UNWIND_CALLER | STACKBEAT_REGISTER_RBP << 4) &&
		 places == STACKBEAT_UNWIND_RBP_SAVED)
		kind = SB_RULE_RBP_SAVED;
	if (rule->cfa > SB_CFA_MAX || rule->cfa < (kind == SB_RULE_RBP_SAVED ? -SB_CFA_MAX : 8))
		kind = SB_RULE_OTHER;
	return kind;
}

/* Caches a rule, unless it is of another kind. Returns its kind. */
static enum sb_rule_kind sb_cache_rule(struct sb_walk *walk, u64 key,
				       const struct stackbeat_unwind_rule *rule)
{
	enum sb_rule_kind kind = sb_rule_kind(rule);
	u32 slot = sb_cache_slot(key);

	if (kind == SB_RULE_OTHER)
		return kind;
	walk->keys[slot] = key;
	walk->rules[slot] = (struct sb_cached_rule){
		.cfa = rule->cfa,
		.rbp = rule->rbp * (s16)sizeof(u64),
		.kind = kind,
	};
	return kind;
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
	SB_WALK_MISS,	/* the rule of the frame is not cached */
	SB_WALK_STEP,	/* the frame needs a step of the careful path */
	SB_WALK_DONE,	/* the frame is the outermost one */
};

/*
 * The variables of a fast loop: registers of the frame, and the output. A loop takes only steps that
 * need no further checks, and leaves each other step, including errors, to the careful path. `rip` is
 * the address by which the rule is found, plus 1: a return address, or that of the first frame + 1.
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
		.rip = stackbeat_unwind_address(frame) + 1,
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
	frame->is_return_address = 1;
	walk->regs = NULL;
	walk->skipped = true;
	walk->to = fast->to;
	walk->hash = fast->hash;
}

/*
 * Follows rules of the cache, with some 32 instructions a frame. One user access section, in which
 * function calls are not allowed.
 */
static noinline enum sb_walk_end sb_walk_rules(struct sb_walk *walk)
{
	struct sb_fast fast = sb_fast_begin(walk);
	unsigned long user_size = TASK_SIZE_MAX;
	/* rip - low and rip + add are relative to the range, and the key of the rule. */
	struct sb_walk_range *range = walk->range;
	/* A return address at the end of the range may be a trampoline behind it. */
	unsigned long low = range->low + 1, size = range->size - 1, add = range->key - 1;
	unsigned long user_mask, limit, key, cfa, rip, rbp;
	const struct sb_cached_rule *rule;
	enum sb_walk_end end = SB_WALK_STEP;
	u32 slot;

	OPTIMIZER_HIDE_VAR(user_size);
	user_mask = user_size | (PAGE_SIZE - 1);
	limit = user_size - 2 * PAGE_SIZE;
	/* CFAs ascend from here. */
	if (unlikely(fast.rsp - PAGE_SIZE >= limit || (fast.rsp & 7)))
		return end;

	__uaccess_begin_nospec();
	for (;;) {
		key = fast.rip + add;
		slot = sb_cache_slot(key);
		if (unlikely(walk->keys[slot] != key)) {
			end = SB_WALK_MISS;
			break;
		}
		rule = &walk->rules[slot];
		cfa = rule->cfa;
		if (likely(rule->kind == SB_RULE_RSP_SAVED)) {
			cfa += fast.rsp;
		} else if (rule->kind == SB_RULE_RSP) {
			cfa += fast.rsp;
			if (unlikely(cfa > limit))
				break;
			cfa &= user_mask; /* changes nothing, except under speculation */
			unsafe_get_user(rip, (u64 __user *)(cfa - sizeof(u64)), out);
			rbp = fast.rbp;
			goto found;
		} else if (rule->kind == SB_RULE_RBP_SAVED) {
			cfa += fast.rbp;
			if (unlikely(cfa <= fast.rsp || (cfa & 7)))
				break;
		} else {
			end = SB_WALK_DONE;
			break;
		}
		if (unlikely(cfa > limit))
			break;
		cfa &= user_mask;
		unsafe_get_user(rip, (u64 __user *)(cfa - sizeof(u64)), out);
		unsafe_get_user(rbp, (u64 __user *)(cfa + rule->rbp), out);
found:
		if (unlikely(fast.to == walk->to_end))
			break;
		if (unlikely(rip - low >= size)) {
			range = walk->other;
			if (rip - range->low < range->size && rip != range->low &&
			    range->by_rules) {
				walk->other = walk->range;
				walk->range = range;
				low = range->low + 1;
				size = range->size - 1;
				add = range->key - 1;
			} else if (rip & ~PAGE_MASK && sb_is_user_code(rip, user_mask)) {
				end = SB_WALK_LEFT;
			} else {
				break;
			}
		}
		fast.rsp = cfa;
		fast.rbp = rbp;
		fast.rip = rip;
		*fast.to++ = rip;
		fast.hash = sb_hash(fast.hash, rip);
		if (unlikely(end == SB_WALK_LEFT))
			break;
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
	unsigned long low = walk->range->low, size = walk->range->size;
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
		if (unlikely(!sb_is_user_code(rip, user_mask) || !(rip & ~PAGE_MASK)))
			break;
		fast.rsp = fast.rbp + 2 * sizeof(u64);
		fast.rbp = rbp;
		fast.rip = rip;
		*fast.to++ = rip;
		fast.hash = sb_hash(fast.hash, rip);
	}
out:
	__uaccess_end();
	if (walk->range->table)
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

	if (address - walk->other->low < walk->other->size) {
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
	if (!table || table == &sb_unwind_no_table) {
		swap(walk->range, walk->other);
		*walk->range = (struct sb_walk_range){
			.low = map->start,
			.size = map->end - map->start,
		};
		return SB_RANGE_FOUND;
	}
	base = READ_ONCE(map->bias) + table->view.start;
	end = base + table->view.size;
	if (end < base || address - base >= table->view.size)
		return SB_RANGE_NO_RULE;
	swap(walk->range, walk->other);
	*walk->range = (struct sb_walk_range){
		.low = max(base, map->start),
		.size = min(end, map->end) - max(base, map->start),
		.key = ((u64)table->id << 32) - base,
		.bias = READ_ONCE(map->bias),
		.table = table,
		.by_rules = !table->frame_pointers,
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

/* The rule of the walk's frame, of its range's table; NULL: none. Caches it if possible. */
static noinline const struct stackbeat_unwind_rule *sb_walk_find_rule(struct sb_walk *walk,
								      enum sb_rule_kind *kind)
{
	u64 address = stackbeat_unwind_address(&walk->frame);
	const struct stackbeat_unwind_rule *rule;

	rule = stackbeat_unwind_find(&walk->range->table->view, address - walk->range->bias);
	*kind = rule ? sb_cache_rule(walk, address + walk->range->key, rule) : SB_RULE_OTHER;
	return rule;
}

/* A step by a rule, or, in a range without table, by the frame pointer. */
static noinline enum stackbeat_unwind_result
sb_walk_step(struct sb_walk *walk, const struct stackbeat_unwind_rule *rule)
{
	struct stackbeat_unwind_rule leaf = {
		.kind_base = STACKBEAT_UNWIND_CALLER | STACKBEAT_REGISTER_RSP << 4,
	};
	const struct stackbeat_unwind_go *go = NULL;

	if (walk->regs)
		sb_user_registers(walk->regs, walk->frame.registers);
	walk->regs = NULL;
	if (!walk->range->table && !walk->frame.is_return_address) {
		leaf.cfa = sb_unwind_leaf_size(walk->frame.registers[STACKBEAT_REGISTER_RIP]);
		if (leaf.cfa)
			rule = &leaf;
	}
	if (walk->range->table)
		go = walk->range->table->view.go;
	/* The register of the thread: the kernel does not use it. */
	if (rule && (rule->kind_base & 0xf) >= STACKBEAT_UNWIND_GO_SWITCH)
		walk->frame.fs_base = x86_fsbase_read_cpu();
	if (rule || walk->range->table)
		return stackbeat_unwind_step(&walk->frame, rule, go, sb_walk_read, NULL);
	return stackbeat_unwind_step_frame_pointer(&walk->frame, sb_walk_read, NULL);
}

/* Follows frames as far as the fast loops can. */
static __always_inline enum sb_walk_end sb_walk_fast(struct sb_walk *walk)
{
	const struct sb_walk_range *range = walk->range;

	if (unlikely(walk->careful))
		return SB_WALK_STEP;
	if (likely(range->by_rules))
		return sb_walk_rules(walk);
	/* The table of code with frame pointers is needed for the first frame only. */
	return walk->frame.is_return_address ? sb_walk_frame_pointers(walk) : SB_WALK_STEP;
}

/* The ends of a walk that are not the end of its stack. */
#define SB_STOP_MISSING (-1)	/* a table is missing */
#define SB_STOP_REGISTER (-2)	/* a rule needs a register that the fast loops do not follow */

/* Sets the range of the frame. Returns 0, or the stop of the walk + 1, or SB_STOP_MISSING. */
static __always_inline int sb_walk_enter_range(struct sb_walk *walk)
{
	u64 address = stackbeat_unwind_address(&walk->frame);

	if (likely(address - walk->range->low < walk->range->size))
		return 0;
	switch (sb_walk_find_range(walk, address)) {
	case SB_RANGE_FOUND:
		return 0;
	case SB_RANGE_NO_RULE:
		return STACKBEAT_STOP_NO_RULE + 1;
	case SB_RANGE_UNMAPPED:
		if (walk->frame.is_return_address)
			return STACKBEAT_STOP_BAD_FRAME + 1;
		fallthrough;
	default:
		return SB_STOP_MISSING;
	}
}

/* Replaces the trampoline of a uretprobe, if the frame's return address is one. Returns rip. */
static noinline u64 sb_walk_restore(struct stackbeat_unwind_frame *frame)
{
	u64 *rip = &frame->registers[STACKBEAT_REGISTER_RIP];
	u64 place = frame->registers[STACKBEAT_REGISTER_RSP] - sizeof(u64);

	if (frame->is_return_address)
		*rip = sb_uretprobe_original(sb_uretprobes(), place, *rip);
	return *rip;
}

/* Walks up to the end of the stack. Returns why it ended there, or SB_STOP_*. */
static int sb_walk_on(struct sb_walk *walk)
{
	const unsigned long user_mask = TASK_SIZE_MAX | (PAGE_SIZE - 1);
	const struct stackbeat_unwind_rule *rule;
	enum stackbeat_unwind_result result;
	enum sb_rule_kind kind = SB_RULE_OTHER;
	enum sb_walk_end end;
	int stop;
	u64 rip;

	for (;;) {
		stop = sb_walk_enter_range(walk);
		if (unlikely(stop))
			return stop > 0 ? stop - 1 : stop;
		end = sb_walk_fast(walk);
		if (end == SB_WALK_LEFT)
			continue;
		if (end == SB_WALK_DONE)
			return STACKBEAT_STOP_OUTERMOST;
		rule = walk->range->table ? sb_walk_find_rule(walk, &kind) : NULL;
		if (end == SB_WALK_MISS && kind != SB_RULE_OTHER)
			continue;
		result = sb_walk_step(walk, rule);
		if (result == STACKBEAT_UNWIND_LOST_REGISTER && walk->skipped)
			return SB_STOP_REGISTER;
		if (result == STACKBEAT_UNWIND_BAD_FRAME && !walk->range->table)
			return STACKBEAT_STOP_NO_TABLE;
		if (result != STACKBEAT_UNWIND_STEPPED)
			return sb_stops[result];
		rip = walk->frame.registers[STACKBEAT_REGISTER_RIP];
		if (unlikely(!(rip & ~PAGE_MASK)))
			rip = sb_walk_restore(&walk->frame);
		if (!sb_is_user_code(rip, user_mask))
			return rip ? STACKBEAT_STOP_BAD_FRAME : STACKBEAT_STOP_OUTERMOST;
		if (walk->to == walk->to_end)
			return STACKBEAT_STOP_MAX_DEPTH;
		/* As if behind a call, see struct stackbeat_sample. */
		rip += !walk->frame.is_return_address;
		*walk->to++ = rip;
		walk->hash = sb_hash(walk->hash, rip);
		walk->table_frames += !!walk->range->table;
	}
}

void sb_user_registers(const struct pt_regs *regs, u64 *registers)
{
	*registers++ = regs->ax;
	*registers++ = regs->dx;
	*registers++ = regs->cx;
	*registers++ = regs->bx;
	*registers++ = regs->si;
	*registers++ = regs->di;
	*registers++ = regs->bp;
	*registers++ = regs->sp;
	*registers++ = regs->r8;
	*registers++ = regs->r9;
	*registers++ = regs->r10;
	*registers++ = regs->r11;
	*registers++ = regs->r12;
	*registers++ = regs->r13;
	*registers++ = regs->r14;
	*registers++ = regs->r15;
	*registers++ = regs->ip;
}

/* Ranges of other mappings, or of earlier ones, are not used again. */
static __always_inline void sb_walk_use_maps(struct sb_walk *walk,
					     const struct sb_unwind_maps *maps)
{
	if (likely(walk->serial == maps->serial))
		return;
	walk->maps = maps;
	walk->serial = maps->serial;
	walk->range = &walk->ranges[0];
	walk->other = &walk->ranges[1];
	walk->range->size = 0;
	walk->other->size = 0;
}

static int sb_walk_stack(struct sb_walk *walk, const struct pt_regs *regs, u64 *frames, u64 hash,
			 bool careful)
{
	struct stackbeat_unwind_frame *frame = &walk->frame;

	frame->registers[STACKBEAT_REGISTER_RSP] = regs->sp;
	frame->registers[STACKBEAT_REGISTER_RBP] = regs->bp;
	frame->registers[STACKBEAT_REGISTER_RIP] = regs->ip;
	frame->known = STACKBEAT_UNWIND_ALL_KNOWN;
	frame->is_return_address = 0;
	frame->descents = 0;
	walk->regs = regs;
	walk->to = frames;
	*walk->to++ = regs->ip;
	walk->hash = sb_hash(hash, regs->ip);
	walk->table_frames = 0;
	walk->careful = careful;
	walk->skipped = false;
	return sb_walk_on(walk);
}

u64 sb_unwind_user_tables(const struct pt_regs *regs, const struct sb_unwind_maps *maps,
			  u64 *frames, u64 *frames_end, u64 *hash)
{
	struct sb_walk *walk = this_cpu_ptr(sb_walks);
	int stop;

	sb_walk_use_maps(walk, maps);
	walk->to_end = frames_end;
	stop = sb_walk_stack(walk, regs, frames, *hash, false);
	/* ld.so has such rules, for lazy binding. */
	if (unlikely(stop == SB_STOP_REGISTER))
		stop = sb_walk_stack(walk, regs, frames, *hash, true);
	if (unlikely(stop < 0))
		return SB_UNWIND_TABLE_MISSING;
	*hash = walk->hash;
	return SB_SHAPE_USER(walk->to - frames, stop) | SB_SHAPE_TABLE_FRAMES(walk->table_frames);
}

/* The table of a Go program in a range of the last walk; NULL: none. */
static const struct sb_unwind_table *sb_range_go_table(const struct sb_walk_range *range)
{
	const struct sb_unwind_table *table = range->size ? range->table : NULL;

	return table && table->view.go->curg ? table : NULL;
}

/*
 * For CPUs without rdfsbase. This is a separate function, because sb_unwind_goroutine() would save
 * registers for a call that is not the last one.
 */
static noinline u32 sb_goroutine_read_slowly(u32 wanted, u64 *words,
					     const struct stackbeat_unwind_go *go)
{
	return sb_goroutine_read(wanted, words, go, x86_fsbase_read_cpu());
}

u32 sb_unwind_goroutine(u32 wanted, u64 *words)
{
	struct sb_walk *walk = this_cpu_ptr(sb_walks);
	const struct sb_unwind_table *table = sb_range_go_table(walk->range);

	/* The stack of a goroutine ends in Go. */
	if (!table)
		table = sb_range_go_table(walk->other);
	if (!table)
		return 0;
	if (unlikely(!static_cpu_has(X86_FEATURE_FSGSBASE)))
		return sb_goroutine_read_slowly(wanted, words, table->view.go);
	return sb_goroutine_read(wanted, words, table->view.go, rdfsbase());
}

int __init sb_unwind_tables_init(void)
{
	sb_walks = __alloc_percpu(sizeof(struct sb_walk), SMP_CACHE_BYTES);
	return sb_walks ? 0 : -ENOMEM;
}

void sb_unwind_tables_exit(void)
{
	free_percpu(sb_walks);
}
