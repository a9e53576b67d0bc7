// SPDX-License-Identifier: GPL-2.0
#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/cpumask.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/string.h>
#include <asm/pgtable.h>
#include <asm/unwind.h>

#include "compat/compat.h"
#include "kernel_rules.h"
#include "params.h"
#include "stackbeat.h"
#include "unwind.h"
#include "unwind_user.h"

/* A direct-mapped cache: the lower bits of a return address select the rule. */
#define SB_KERNEL_RULES 4096u

/*
 * The rule of an address, eight bytes. The key holds the lower bits of the address, and whether the
 * rule is a usual one: from the stack pointer. All code is in the last 2 GiB, where bit 31 is set.
 */
struct sb_kernel_rule {
	u32 key;
	u16 cfa;	/* bytes from the base to the stack pointer of the caller */
	s16 bp;		/* bytes from that to the saved frame pointer; 0: not saved */
};

#define SB_KEY_ADDRESS GENMASK(30, 0)
/*
 * Set: the base is the stack pointer. Clear: it is the frame pointer, and `cfa` is signed; but if
 * `bp` is 0, there is no rule.
 */
#define SB_KEY_USUAL BIT(31)

/* The stack of known words, longer than any frame whose rule is learnt. */
#define SB_KNOWN_WORDS 512u
#define SB_KNOWN_SIZE (SB_KNOWN_WORDS * sizeof(u64))
/* Word i is SB_KNOWN + i. */
#define SB_KNOWN 0x5b00000000000000ul
/* A value of the register that is not the base: on no stack. */
#define SB_NOWHERE 0x5a00000000000000ul

struct sb_kernel_rules {
	struct sb_kernel_rule rules[SB_KERNEL_RULES];
	u32 generation;		/* sb_generation when the rules were last cleared */
	u32 turn;		/* stacks by rules since the last that was compared */
	unsigned long witness;	/* an address of the kernel with a usual rule; 0: none yet */
	u32 witness_cfa;	/* of this rule */
	u64 known[SB_KNOWN_WORDS];
	u64 unwound[STACKBEAT_KERNEL_FRAMES_MAX];
};

/* On its own CPU, in ticks, which don't nest. NULL: none yet. */
static DEFINE_PER_CPU(struct sb_kernel_rules *, sb_kernel_rules);

/*
 * Incremented when the rules of modules are no longer valid, or all rules. A module that goes is in
 * the state GOING first; then the generation changes; and its memory is freed after a grace period.
 * So a tick that sees the old generation has ended by then, and a tick that sees the new one
 * learns no rule of the module.
 */
static atomic_t sb_generation = ATOMIC_INIT(1);

/* A stack differed from the unwinder's: rules are used no more. */
static bool sb_rules_failed;

/* Bytes from the lowest word of a task's stack to the registers at the kernel's entry. */
#define SB_STACK_SIZE (THREAD_SIZE - TOP_OF_KERNEL_STACK_PADDING - sizeof(struct pt_regs))

/* In the range that holds the kernel's image. Nothing else is ever mapped there. */
static bool sb_is_kernel_image(unsigned long address)
{
	return address - __START_KERNEL_map < KERNEL_IMAGE_SIZE;
}

/*
 * In a module that was initialized and is not about to go, but not in its init sections. The list
 * of modules is reached from this module, as its head is not exported.
 */
static bool sb_is_live_module(unsigned long address)
{
	const struct list_head *own = &THIS_MODULE->list, *place = own;
	const struct module *module;
	bool found = false;

	if (address < MODULES_VADDR || address >= MODULES_END)
		return false;
	rcu_read_lock();
	do {
		/* The head is in no module. */
		if (!sb_is_kernel_image((unsigned long)place)) {
			module = list_entry(place, struct module, list);
			found = READ_ONCE(module->state) == MODULE_STATE_LIVE &&
				within_module_core(address, module);
		}
		place = rcu_dereference(list_next_rcu(place));
	} while (!found && place != own);
	rcu_read_unlock();
	return found;
}

/*
 * Lets the unwinder take one step on the stack of known words. False: the code has no unwind
 * information, or it is an entry of an exception. The unwinder warns of registers that it misses
 * if `task` is the current task.
 */
static bool sb_known_step(struct unwind_state *state, struct sb_kernel_rules *here,
			  struct task_struct *task, unsigned long address, unsigned long sp,
			  unsigned long bp)
{
	*state = (struct unwind_state){
		.stack_info = {
			.type = STACK_TYPE_TASK,
			.begin = (unsigned long *)here->known,
			.end = (unsigned long *)here->known + SB_KNOWN_WORDS,
		},
		.task = task,
		.ip = address,
		.sp = sp,
		.bp = bp,
	};
	return unwind_next_frame(state) && !state->error && !state->regs && !state->signal;
}

/*
 * Reads the rule out of the words that a step returns. One of `sp` and `bp` is `base`, in the stack
 * of known words, and the other is SB_NOWHERE: a step that uses that one fails.
 */
static bool sb_learn_from(struct sb_kernel_rules *here, struct sb_kernel_rule *rule,
			  unsigned long find, unsigned long sp, unsigned long bp,
			  unsigned long base)
{
	const unsigned long begin = (unsigned long)here->known;
	struct unwind_state state;
	unsigned long offset, saved;

	if (!sb_known_step(&state, here, &init_task, find, sp, bp))
		return false;
	offset = state.sp - begin;
	if (!offset || offset > SB_KNOWN_SIZE || offset % sizeof(u64) ||
	    state.ip != SB_KNOWN + offset / sizeof(u64) - 1)
		return false;
	rule->cfa = state.sp - base;
	rule->bp = 0;
	if (state.bp != bp) {
		saved = (state.bp - SB_KNOWN) * sizeof(u64);
		/* Below the return address. */
		if (saved >= offset - sizeof(u64))
			return false;
		rule->bp = saved - offset;
	}
	return true;
}

/*
 * Whether the unwinder returns an address unchanged when it reads it as a return address: a kretprobe's
 * trampoline stands for another address. The unwinder reads it from the stack of known words, at an
 * address with a known rule.
 */
static bool sb_is_return_address(struct sb_kernel_rules *here, unsigned long address)
{
	const u32 place = here->witness_cfa / sizeof(u64) - 1;
	struct unwind_state state;
	bool same;

	here->known[place] = address;
	same = sb_known_step(&state, here, current, here->witness, (unsigned long)here->known,
			     SB_NOWHERE) &&
	       state.ip == address;
	here->known[place] = SB_KNOWN + place;
	return same;
}

/*
 * Learns the rule of `find`: a return address, or the address of the interrupted instruction plus 1. The
 * unwinder looks up the byte before it. False: nothing may be cached for the address, not even that it
 * has no rule.
 */
static noinline bool sb_learn(struct sb_kernel_rules *here, unsigned long find)
{
	const unsigned long begin = (unsigned long)here->known;
	const unsigned long middle = begin + SB_KNOWN_SIZE / 2;
	struct sb_kernel_rule rule = { .key = find & SB_KEY_ADDRESS };
	const bool in_kernel = sb_is_kernel_image(find - 1);

	/* A step with init_task must not look like a walk of the current task. */
	if (current == &init_task || !(in_kernel || sb_is_live_module(find - 1)))
		return false;
	if (sb_learn_from(here, &rule, find, begin, SB_NOWHERE, begin)) {
		rule.key |= SB_KEY_USUAL;
		if (!here->witness && in_kernel) {
			here->witness = find;
			here->witness_cfa = rule.cfa;
		}
	} else if (!sb_learn_from(here, &rule, find, SB_NOWHERE, middle, middle)) {
		rule.bp = 0;
	}
	if (!here->witness || !sb_is_return_address(here, find))
		return false;
	here->rules[find % SB_KERNEL_RULES] = rule;
	return true;
}

/* Brings the rules of a CPU up to date. False: no rules are to be used. */
static noinline bool sb_refresh(struct sb_kernel_rules *here)
{
	u32 generation = atomic_read_acquire(&sb_generation);
	struct sb_kernel_rule *rule;

	if (!here || READ_ONCE(sb_rules_failed))
		return false;
	for (rule = here->rules; rule < here->rules + SB_KERNEL_RULES; rule++) {
		if ((rule->key | SB_KEY_USUAL) >= (u32)MODULES_VADDR)
			*rule = (struct sb_kernel_rule){};
	}
	here->generation = generation;
	return true;
}

/* The stack of a walk that gave up at `to`. */
static noinline u64 sb_give_up(struct pt_regs *regs, u64 *frames, u64 *to, u64 *hash,
			       struct sb_kernel_walks *walks)
{
	/* Words that are no code addresses must not leak: the ring is mapped. */
	memset(frames, 0, (u8 *)to - (u8 *)frames);
	walks->unwound++;
	return sb_unwind_kernel(regs, frames, STACKBEAT_KERNEL_FRAMES_MAX, hash);
}

/*
 * Compares a stack, with its shape, with the unwinder's, and replaces it if it differs. `*hash` is
 * the hash before the stack, `sum` that after it.
 */
static noinline u64 sb_compare(struct sb_kernel_rules *here, struct pt_regs *regs, u64 *frames,
			       u64 shape, u64 *hash, u64 sum, struct sb_kernel_walks *walks)
{
	u32 size = SB_SHAPE_KERNEL_FRAMES(shape) * sizeof(u64);
	u64 unwound;

	here->turn = 0;
	if (!READ_ONCE(sb_kernel_stack_check))
		return sb_give_up(regs, frames, frames, hash, walks);
	unwound = sb_unwind_kernel(regs, here->unwound, STACKBEAT_KERNEL_FRAMES_MAX, hash);
	walks->compared++;
	if (likely(unwound == shape && *hash == sum && !memcmp(here->unwound, frames, size)))
		return shape;
	memcpy(frames, here->unwound, SB_SHAPE_KERNEL_FRAMES(unwound) * sizeof(u64));
	/* The unwinder no longer knows a module that went meanwhile. */
	if (here->generation != atomic_read(&sb_generation))
		return unwound;
	walks->different++;
	WRITE_ONCE(sb_rules_failed, true);
	atomic_inc(&sb_generation);
	walks->differs(walks);
	return unwound;
}

/* If the frame pointer is saved at `offset` from `sp`, reads it: without a jump, as half of them are. */
static __always_inline void sb_restore_bp(unsigned long *bp, unsigned long sp, long offset)
{
	/* volatile: it reads memory, so it must not move above the check of `sp`. */
	asm volatile("testq %[offset], %[offset]\n\t"
		     "cmovneq (%[sp],%[offset]), %[bp]"
		     : [bp] "+r" (*bp)
		     : [sp] "r" (sp), [offset] "r" (offset)
		     : "cc");
}

/*
 * The steps of a frame, 18 instructions: find its rule, compute the stack pointer of the caller,
 * which must not be beyond the registers at the kernel's entry, and read the caller's frame pointer
 * and the return address. An address with the lower bits of another would get the rule of that one,
 * but its upper bits are missing in `seen`. All reads are on the stack of the task: stack pointers
 * only grow.
 */
u64 sb_kernel_walk(struct pt_regs *regs, u64 *frames, u64 *hash, struct sb_kernel_walks *walks)
{
	const struct task_struct *task = current;
	const unsigned long entry = (unsigned long)task_pt_regs(task);
	struct sb_kernel_rules *here = this_cpu_read(sb_kernel_rules);
	unsigned long sp = regs->sp, bp = regs->bp, find = regs->ip, seen = find, saved;
	u64 *const end = frames + STACKBEAT_KERNEL_FRAMES_MAX;
	u64 sum = sb_hash(*hash, find), shape;
	const struct sb_kernel_rule *rule;
	/* Minus the number of frames for which there is room. */
	long room = -(long)STACKBEAT_KERNEL_FRAMES_MAX;
	u32 turn;

	if (unlikely(!here || here->generation != (u32)atomic_read(&sb_generation)) &&
	    !sb_refresh(here))
		goto give_up;
	/* Another stack, or replaced return addresses. */
	if (unlikely(entry - sp - 1 >= SB_STACK_SIZE || sb_is_graph_traced(task)))
		goto give_up;
	end[room] = find;
	find++;
	room++;
	for (;;) {
		rule = &here->rules[find % SB_KERNEL_RULES];
		if (likely(rule->key == (u32)find)) {
			sp += rule->cfa;
		} else if (likely(rule->key == (find & SB_KEY_ADDRESS))) {
			/* The saved frame pointer is not below the frame. */
			saved = bp + (s16)rule->cfa + rule->bp;
			if (unlikely(!rule->bp || saved - sp > SB_STACK_SIZE))
				goto give_up;
			sp = saved - rule->bp;
		} else if (sb_learn(here, find)) {
			continue;
		} else {
			goto give_up;
		}
		if (unlikely(sp >= entry))
			goto outermost;
		sb_restore_bp(&bp, sp, rule->bp);
		find = READ_ONCE_NOCHECK(*(unsigned long *)(sp - sizeof(u64)));
		seen &= find;
		sum = sb_hash(sum, find);
		end[room] = find;
		if (unlikely(!++room))
			goto give_up;
		/* One register for the place and the count. */
		OPTIMIZER_HIDE_VAR(room);
	}

give_up:
	return sb_give_up(regs, frames, end + room, hash, walks);

outermost:
	find = READ_ONCE_NOCHECK(*(unsigned long *)(entry - sizeof(u64)));
	seen &= find;
	rule = &here->rules[find % SB_KERNEL_RULES];
	/* The last return address needs no rule, but it must be one. */
	if (unlikely(sp != entry || seen < __START_KERNEL_map ||
		     ((rule->key ^ find) & SB_KEY_ADDRESS && !sb_learn(here, find))))
		goto give_up;
	end[room] = find;
	sum = sb_hash(sum, find);
	shape = SB_SHAPE_KERNEL(room + 1 + STACKBEAT_KERNEL_FRAMES_MAX, STACKBEAT_STOP_OUTERMOST);
	turn = here->turn + 1;
	if (unlikely(turn >= READ_ONCE(sb_kernel_stack_check)))
		return sb_compare(here, regs, frames, shape, hash, sum, walks);
	here->turn = turn;
	*hash = sum;
	return shape;
}

void sb_kernel_rules_alloc(u32 cpu)
{
	struct sb_kernel_rules **place = per_cpu_ptr(&sb_kernel_rules, cpu), *rules;
	u32 i;

	if (READ_ONCE(*place))
		return;
	rules = kvzalloc_node(sizeof(*rules), GFP_KERNEL, cpu_to_node(cpu));
	if (!rules)
		return;
	for (i = 0; i < SB_KNOWN_WORDS; i++)
		rules->known[i] = SB_KNOWN + i;
	/* Another session may have been faster. */
	if (cmpxchg(place, NULL, rules))
		kvfree(rules);
}

static int sb_module_changes(struct notifier_block *block, unsigned long state, void *module)
{
	if (state == MODULE_STATE_GOING)
		atomic_inc(&sb_generation);
	return NOTIFY_DONE;
}

static struct notifier_block sb_module_notifier = { .notifier_call = sb_module_changes };

int __init sb_kernel_rules_init(void)
{
	return register_module_notifier(&sb_module_notifier);
}

void sb_kernel_rules_exit(void)
{
	u32 cpu;

	unregister_module_notifier(&sb_module_notifier);
	for_each_possible_cpu(cpu)
		kvfree(per_cpu(sb_kernel_rules, cpu));
}
