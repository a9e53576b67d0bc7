// SPDX-License-Identifier: GPL-2.0
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/topology.h>
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
 * up to SB_CFA_MAX above its base, by whole words.
 */
enum sb_rule_kind {
	SB_RULE_RSP_SAVED,	/* CFA from rsp, rbp at CFA + `rbp` */
	SB_RULE_RSP,		/* CFA from rsp, rbp unchanged */
	SB_RULE_RBP_SAVED,	/* CFA from rbp, rbp at CFA + `rbp` */
	SB_RULE_END,		/* the outermost frame */
	SB_RULE_OTHER,		/* not cached */
};

#define SB_CFA_MAX (1 << 20)

/* One load finds the key and the kind, and the rest is in the same cache line. */
struct sb_cached_rule {
	u64 key;	/* of the address, and the kind from bit SB_KIND_SHIFT on; 0: free */
	s32 cfa;	/* bytes from its base */
	s32 rbp;	/* bytes from the CFA */
};

#define SB_KIND_SHIFT 62

/* The cache has sets of two rules: the rule that was found last comes first. */
#define SB_CACHE_WAYS 2
#define SB_CACHE_SETS 1024u
/* The index of a set, in words of the cache: bits of the offset in the range. */
#define SB_CACHE_WORDS (SB_CACHE_WAYS * sizeof(struct sb_cached_rule) / sizeof(u64))
#define SB_CACHE_MASK ((SB_CACHE_SETS - 1) * SB_CACHE_WORDS)

/* Calls go back and forth between files: a program and two libraries in one stack are normal. */
#define SB_RANGES 4u

/* What the fast loops need of a range; `rip` is a return address, or the address of a first frame + 1. */
struct sb_fast_range {
	unsigned long minus_low;	/* -(low + 1): `rip` + this is an offset in the range */
	unsigned long size;		/* of the return addresses that the fast loops enter */
	unsigned long add;		/* key - 1: `rip` + this is a key */
};

/*
 * The part of a mapping for which one table is valid, and in it a run of code with frame pointers, or
 * the code between two runs.
 */
struct sb_walk_range {
	u64 low, size;
	struct sb_fast_range fast;
	u64 key;	/* address + key = id of the table << 32 | offset in its code */
	u64 bias;	/* address - ELF virtual address */
	const struct sb_unwind_table *table;	/* NULL: frame pointers */
	const struct stackbeat_unwind_go *go;	/* of the table in this process; NULL: no goroutines */
	struct sb_walk_range *next;	/* a walk went on there from here: looked at first */
	bool is_run;	/* frame pointers lead to the callers of callers */
};

/* The words of a root, and the largest distance of a word from rsp, in words. */
#define SB_ROOT_WORDS 5u
#define SB_ROOT_SPAN (1u << 16)

/*
 * The root of a stack: its outermost frames, from a return address on at which a walk has left a range. main()
 * and the first functions of threads have the same callers each time. Their rules read words of the stack at
 * places that follow from rsp and rbp alone. So if these words are the same in another stack, relative to
 * its rsp where they are values of rbp, its rules lead to the same callers.
 */
struct sb_walk_root {
	u64 rip;	/* the return address */
	u64 rbp, rbp_mask;	/* rbp - rsp, of the bits of the mask: 0 if no rule uses this rbp */
	u32 frames;	/* with the one of `rip`; 0: there is no root */
	u32 words;	/* the return addresses behind `rip`, then saved values of rbp - rsp that rules use */
	u64 limit;	/* of rsp - PAGE_SIZE, for words in the user half; 0: there is no root */
	u32 span;	/* bytes above rsp, to the end of the last word */
	u16 places[SB_ROOT_WORDS];	/* of the words, in words above rsp */
	u64 values[SB_ROOT_WORDS];
};

/*
 * A walk notes where it leaves a range, if it has noted no such place for this number of frames. Roots are
 * looked for from a noted place on that is at most these frames and the words of a root before the end.
 */
#define SB_ROOT_REACH 12

#define SB_ROOTS 2u
/* One walk in this number, of the walks that could have taken a root and have not, replaces one. */
#define SB_ROOT_MISSES 16u
/* A walk looks for its root at most this number of times: a hostile stack could leave a range at each frame. */
#define SB_ROOT_TRIES 64u

/* What walks have found in a state of an array of mappings, which keeps the tables alive. */
struct sb_walk_space {
	u64 serial;	/* of the state; others may have been freed. 0: none */
	const struct sb_unwind_maps *maps;
	struct sb_walk_range ranges[SB_RANGES];
	struct sb_walk_range *first;	/* the range of the first frame of a walk: looked at first */
	u32 next_range;	/* a new range replaces this one, modulo SB_RANGES */
	u32 root_misses;	/* walks that could have taken a root, and have not */
	const struct stackbeat_unwind_go *go;	/* of a table that has been in `ranges`; NULL: none */
	/* Without `go` only: what a thread has of goroutines follows from the range of the last frame. */
	struct sb_walk_root roots[SB_ROOTS];
} ____cacheline_aligned;

/* Processes and sessions take turns on a CPU. */
#define SB_WALK_SPACES 8u

/*
 * The variables of a fast loop: registers of the frame, and the output. A loop takes only steps that
 * need no further checks, and leaves each other step, including errors, to the careful path. `rip` is
 * the address by which the rule is found, plus 1: a return address, or rip of the first frame + 1.
 */
struct sb_fast {
	unsigned long rsp, rbp, rip;
	u64 *to, hash;
};

/*
 * The walk of a CPU. Ticks do not interrupt each other, so a CPU has one, with parts that are used
 * again by the next walk.
 */
struct sb_walk {
	struct sb_cached_rule rules[SB_CACHE_SETS * SB_CACHE_WAYS];	/* at offset 0 */
	struct sb_walk_space spaces[SB_WALK_SPACES];	/* by serial */
	/* In each space, of each range with a library, and of the space: see sb_walk_find_library(). */
	struct stackbeat_unwind_go libraries[SB_WALK_SPACES][SB_RANGES + 1];

	/* Constant. Of words of user memory: the last rsp or CFA, the bits that addresses have, and all others. */
	unsigned long limit, word_mask, no_word_mask;
	u64 kind_step;	/* constant: between the keys of two kinds; an operand of the fast loop */

	struct sb_walk_space *space;	/* of the last walk, at first of none */
	struct sb_walk_range *range;	/* of the frame */
	struct sb_fast fast;	/* where sb_follow() has ended */
	/* Where it has left a range: see SB_ROOT_REACH. to = NULL: nowhere. */
	struct sb_fast left;

	struct stackbeat_unwind_frame frame;
	const struct pt_regs *regs;	/* registers of the first frame, until they are in `frame` */
	u64 *to, *to_end;
	u64 hash;
	u64 table_frames;
	u64 *misses;
	u64 *careful_to;	/* up to here in `to`, the fast loops are not used; NULL: they are */
	bool skipped;	/* the fast loops have not followed rbx */
	/* The last step was by rbp where the thread was interrupted in code that may not use it for frames. */
	bool is_guess;
	s32 faults_left;	/* unreadable words until the walk ends */
	s32 root_tries;	/* how often the walk still looks for its root */
	s32 changes_left;	/* changes of range until only the careful path goes on */
	s32 misses_left;	/* rules that are still cached without the careful path */
	u64 *work_end;	/* of `to`: `to_end` after the work of the careful path */
};

/*
 * Bounds of a walk, whatever table and stack it meets: below 100,000 instructions. A frame of a fast loop
 * takes 12 to 86; up to 8 more where it changes the range, and 32 where that is searched for, which counts
 * as further changes; a turn of the careful path 370, so it counts as further frames; an unreadable word some
 * 1,000, twice if a fast loop meets it first. A walk that fills the caches takes a turn for each new address,
 * and later ones take few: a stack of 1,023 frames may take 19, one of 200 frames 200.
 */
#define SB_FAULTS_MAX 4
#define SB_CHANGES_MAX 512
#define SB_SEARCH_CHANGES 5
#define SB_WORK_FRAMES_MAX 1100
#define SB_TURN_FRAMES 4
/* Rules that a walk caches without the careful path, which takes three times as long. */
#define SB_FAST_MISSES_MAX 8
/* A walk is begun again, to follow rbx, up to this number of frames. */
#define SB_FRAMES_AGAIN_MAX 32

static DEFINE_PER_CPU(struct sb_walk *, sb_walks);

/* Stands for an unknown rbp in the fast loops. It is not aligned, so no rule can use it. */
#define SB_UNKNOWN_RBP (~0ul)

/* The set of the rules of an address at an offset in its range. */
static __always_inline u32 sb_cache_set(u64 offset)
{
	return ((u32)offset & SB_CACHE_MASK) / (SB_CACHE_WORDS / SB_CACHE_WAYS);
}

static __always_inline bool sb_rule_has_key(const struct sb_cached_rule *rule, u64 key)
{
	return !((rule->key ^ key) << (64 - SB_KIND_SHIFT));
}

/* Exchanges a rule and the next one, without a register: the fast loop has none to spare. */
static __always_inline void sb_cache_exchange(struct sb_cached_rule *rule)
{
	asm volatile("pushq (%0)\n"
		     "pushq 8(%0)\n"
		     "pushq 16(%0)\n"
		     "pushq 24(%0)\n"
		     "popq 8(%0)\n"
		     "popq (%0)\n"
		     "popq 24(%0)\n"
		     "popq 16(%0)\n"
		     : : "r" (rule) : "memory");
}

/*
 * Sets *found to the cached rule of an address, if there is one. It becomes the first rule of its
 * set: otherwise, what other processes have done would decide whether it is, and what this walk costs.
 */
static __always_inline bool sb_cache_find(struct sb_walk *walk, u64 offset, u64 key,
					  const struct sb_cached_rule **found)
{
	struct sb_cached_rule *rule = &walk->rules[sb_cache_set(offset)];

	*found = rule;
	if (likely(sb_rule_has_key(rule, key)))
		return true;
	if (!sb_rule_has_key(rule + 1, key))
		return false;
	sb_cache_exchange(rule);
	return true;
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
	if (rule->cfa > SB_CFA_MAX || rule->cfa < (int)sizeof(u64))
		kind = SB_RULE_OTHER;
	return kind;
}

/* Caches a rule, unless it is of another kind. Returns its kind. */
static enum sb_rule_kind sb_cache_rule(struct sb_walk *walk, u64 offset, u64 key,
				       const struct stackbeat_unwind_rule *rule)
{
	struct sb_cached_rule *set = &walk->rules[sb_cache_set(offset)];
	enum sb_rule_kind kind = sb_rule_kind(rule);
	const struct sb_cached_rule *found;

	if (kind == SB_RULE_OTHER || sb_cache_find(walk, offset, key, &found))
		return kind;
	set[1] = set[0];
	set[0] = (struct sb_cached_rule){
		.key = key | (u64)kind << SB_KIND_SHIFT,
		/* The fast loop may follow any rule speculatively. */
		.cfa = kind == SB_RULE_END ? 0 : rule->cfa,
		.rbp = rule->rbp * (int)sizeof(u64),
	};
	return kind;
}

/* Reads a word of user memory for a walk; a stackbeat_unwind_read. */
static __always_inline int sb_walk_read(void *arg, u64 address, u64 *word)
{
	const unsigned long user_size = TASK_SIZE_MAX;
	struct sb_walk *walk = arg;
	u64 value;

	__uaccess_begin_nospec();
	sb_read_user(value, u64, address, user_size - sizeof(u64), user_size | (PAGE_SIZE - 1),
		     unreadable);
	__uaccess_end();
	*word = value;
	return 1;
unreadable:
	__uaccess_end();
	walk->faults_left--;
	return 0;
}

/* Takes one of what is left. Returns false if nothing was. */
static __always_inline bool sb_walk_spend(s32 *left)
{
	/* Without a sign: UBSAN would check it, by a call with user access enabled. */
	*left = (u32)*left - 1;
	return likely(*left >= 0);
}

/* How a fast loop ended. */
enum sb_walk_end {
	SB_WALK_LEFT,	/* the frame is outside of the range */
	SB_WALK_STEPPED,	/* at a frame whose return address was not checked and stored */
	SB_WALK_MISS,	/* the rule of the frame is not cached */
	SB_WALK_STEP,	/* the frame needs a step of the careful path */
	SB_WALK_DONE,	/* the frame is the outermost one */
	SB_WALK_ROOT,	/* the same, and the outermost frames were taken from a root */
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

/* `stepped`: the frame is the caller of the last stored frame. */
static __always_inline void sb_fast_end(struct sb_walk *walk, const struct sb_fast *fast,
					bool stepped)
{
	struct stackbeat_unwind_frame *frame = &walk->frame;

	if (fast->to == walk->to && !stepped)
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

/* How a round of the fast loop ended. */
#define SB_ROUND_WHOLE 0u	/* after all of its frames */
#define SB_ROUND_LEFT 1u	/* at a frame of which nothing was done */
#define SB_ROUND_OUTSIDE 2u	/* at a step to a return address outside of the range */

/* rsp ascends in a round by up to this. */
#define SB_RULES_ROUND 16u
#define SB_RULES_CLIMB (SB_RULES_ROUND * (unsigned long)SB_CFA_MAX)

/*
 * One frame, the n-th of a round, by a rule of kind SB_RULE_RSP_SAVED (sb_saved: 14 instructions) or
 * SB_RULE_RSP (sb_unsaved: 12). A round begins with the first kind, and goes on with the kind of its last
 * frame, as most programs save rbp everywhere or nowhere: rip + `add` is a key of this kind. `offset` is
 * the offset of the frame's address in the range. Behind .Lother and .Lelse: the rule is of the other kind,
 * or the second one of its set. An unreadable rbp is unknown from then on; after too many of them, nothing
 * of the frame is done, whose own return address was stored last.
 */
#define SB_RULES_MACROS                                                                    \
	".macro sb_hash\n" SB_HASH "\n.endm\n"                                             \
	".macro sb_find n, other\n"                                                        \
	"leaq (%[ret], %[add]), %[word]\n"                                                 \
	"andl %[set_mask], %k[offset]\n"                                                   \
	"cmpq %[word], (%[rules], %[offset], 8)\n"                                         \
	"jne \\other\\()_%=_\\n\n"                                                         \
	".endm\n"                                                                          \
	".macro sb_store n\n"                                                              \
	"leaq (%[ret], %[minus_low]), %[offset]\n"                                         \
	"cmpq %[size], %[offset]\n"                                                        \
	"jae .Loutside_%=_\\n\n"                                                           \
	"movq %[ret], 8*\\n(%[to])\n"                                                      \
	"sb_hash\n"                                                                        \
	".endm\n"                                                                          \
	".macro sb_saved n\n"                                                              \
	"sb_find \\n, .Lother\n"                                                           \
	".Lsaved_%=_\\n:\n"                                                                \
	"movslq 8(%[rules], %[offset], 8), %[word]\n"                                      \
	"addq %[word], %[rsp]\n"                                                           \
	"1: movq -8(%[rsp]), %[ret]\n"                                                     \
	"movslq 12(%[rules], %[offset], 8), %[word]\n"                                     \
	"2: movq (%[rsp], %[word]), %[rbp]\n"                                              \
	".Lread_%=_\\n:\n"                                                                 \
	"sb_store \\n\n"                                                                   \
	_ASM_EXTABLE_UA(1b, .Lbad_%=_\\n)                                                  \
	_ASM_EXTABLE_UA(2b, .Lunknown_%=_\\n)                                              \
	".endm\n"                                                                          \
	".macro sb_unsaved n\n"                                                            \
	".if \\n\n"                                                                        \
	"sb_find \\n, .Lelse\n"                                                            \
	".endif\n"                                                                         \
	".Lunsaved_%=_\\n:\n"                                                              \
	"movslq 8(%[rules], %[offset], 8), %[word]\n"                                      \
	"addq %[word], %[rsp]\n"                                                           \
	"3: movq -8(%[rsp]), %[ret]\n"                                                     \
	"sb_store \\n\n"                                                                   \
	_ASM_EXTABLE_UA(3b, .Lbad_%=_\\n)                                                  \
	".endm\n"                                                                          \
	".macro sb_search n, same, change\n"                                               \
	"btcq %[kind_bit], %[word]\n"                                                      \
	"cmpq %[word], (%[rules], %[offset], 8)\n"                                         \
	"je \\change\\()_%=_\\n\n"                                                         \
	"cmpq %[word], 16(%[rules], %[offset], 8)\n"                                       \
	"leaq 2(%[offset]), %[offset]\n"                                                   \
	"je \\change\\()_%=_\\n\n"                                                         \
	"btcq %[kind_bit], %[word]\n"                                                      \
	"cmpq %[word], (%[rules], %[offset], 8)\n"                                         \
	"je \\same\\()_%=_\\n\n"                                                           \
	"jmp .Lleft_%=_\\n\n"                                                              \
	".endm\n"                                                                          \
	".macro sb_leave n\n"                                                              \
	".Lother_%=_\\n:\n"                                                                \
	"sb_search \\n, .Lsaved, .Lto_unsaved\n"                                           \
	".Lto_unsaved_%=_\\n:\n"                                                           \
	"addq %c[kind_step](%[rules]), %[add]\n"                                           \
	"jmp .Lunsaved_%=_\\n\n"                                                           \
	".if \\n\n"                                                                        \
	".Lelse_%=_\\n:\n"                                                                 \
	"sb_search \\n, .Lunsaved, .Lto_saved\n"                                           \
	".Lto_saved_%=_\\n:\n"                                                             \
	"subq %c[kind_step](%[rules]), %[add]\n"                                           \
	"jmp .Lsaved_%=_\\n\n"                                                             \
	".endif\n"                                                                         \
	".Lunknown_%=_\\n:\n"                                                              \
	"movq $-1, %[rbp]\n"                                                               \
	"decl %c[faults_left](%[rules])\n"                                                 \
	"jg .Lread_%=_\\n\n"                                                               \
	"movq 8*\\n-8(%[to]), %[ret]\n"                                                    \
	"movslq 8(%[rules], %[offset], 8), %[word]\n"                                      \
	".Lbad_%=_\\n:\n"                                                                  \
	"subq %[word], %[rsp]\n"                                                           \
	".Lleft_%=_\\n:\n"                                                                 \
	"leaq 8*\\n(%[to]), %[to]\n"                                                       \
	"jmp .Lleft_%=\n"                                                                  \
	".Loutside_%=_\\n:\n"                                                              \
	"leaq 8*\\n(%[to]), %[to]\n"                                                       \
	"jmp .Loutside_%=\n"                                                               \
	".endm\n"

#define SB_EACH_OF_15(macro)                                                                       \
	macro " 0\n" macro " 1\n" macro " 2\n" macro " 3\n" macro " 4\n" macro " 5\n"              \
	macro " 6\n" macro " 7\n" macro " 8\n" macro " 9\n" macro " 10\n" macro " 11\n"            \
	macro " 12\n" macro " 13\n" macro " 14\n"
#define SB_EACH_OF_16(macro) SB_EACH_OF_15(macro) macro " 15\n"

/*
 * Follows up to SB_RULES_ROUND frames by rules of the cache whose CFA is from rsp. fast->rsp is aligned,
 * and SB_RULES_CLIMB below the end of the user half, and masked against speculation: whatever is
 * predicted, rules of the cache lead SB_CFA_MAX further at most. Returns SB_ROUND_*; after
 * SB_ROUND_OUTSIDE, fast->rip is the return address that was not stored.
 */
static __always_inline u32 sb_rules_round(struct sb_walk *walk, struct sb_fast *fast,
					  const struct sb_fast_range *range)
{
	unsigned long offset = fast->rip + range->minus_low, add = range->add, word;
	u32 status;

	asm_inline volatile(SB_RULES_MACROS
			    SB_EACH_OF_16("sb_saved")
			    ".Lwhole_%=:\n"
			    "addq %[round_size], %[to]\n"
			    "movl %[whole], %k[word]\n"
			    "jmp .Lout_%=\n"
			    SB_EACH_OF_16("sb_unsaved")
			    "jmp .Lwhole_%=\n"
			    SB_EACH_OF_16("sb_leave")
			    ".Loutside_%=:\n"
			    "movl %[outside], %k[word]\n"
			    "jmp .Lout_%=\n"
			    ".Lleft_%=:\n"
			    "movl %[left], %k[word]\n"
			    ".Lout_%=:\n"
			    ".purgem sb_hash\n"
			    ".purgem sb_find\n"
			    ".purgem sb_store\n"
			    ".purgem sb_saved\n"
			    ".purgem sb_unsaved\n"
			    ".purgem sb_search\n"
			    ".purgem sb_leave\n"
			    : [rsp] "+&r" (fast->rsp), [rbp] "+&r" (fast->rbp),
			      [ret] "+&r" (fast->rip), [to] "+&r" (fast->to),
			      [hash] "+&r" (fast->hash), [offset] "+&r" (offset),
			      [add] "+&r" (add), [word] "=&r" (word)
			    : [rules] "r" (walk), [minus_low] "r" (range->minus_low),
			      [size] "r" (range->size),
			      [set_mask] "i" (SB_CACHE_MASK), [kind_bit] "i" (SB_KIND_SHIFT),
			      [faults_left] "i" (offsetof(struct sb_walk, faults_left)),
			      [kind_step] "i" (offsetof(struct sb_walk, kind_step)),
			      [round_size] "i" (SB_RULES_ROUND * sizeof(u64)),
			      [whole] "i" (SB_ROUND_WHOLE), [left] "i" (SB_ROUND_LEFT),
			      [outside] "i" (SB_ROUND_OUTSIDE)
			    : "cc", "memory");
	status = word;
	return status;
}

#define SB_RUN_ROUND 15u

/*
 * One frame of a run, the n-th of a round: 11 instructions. Frame pointers ascend. Whether they are
 * aligned and in the user half is tested after the round, for all of them, in `seen`; until then, the mask
 * keeps reads there. The page at its end is never mapped, so no read goes beyond it. `fp`, `next` and
 * `before` are in three registers that take turns.
 */
#define SB_RUN_MACROS                                                                              \
	".macro sb_hash\n" SB_HASH "\n.endm\n"                                                     \
	".macro sb_frame n, fp, next, before\n"                                                    \
	"1: movq (\\fp), \\next\n"                                                                 \
	"2: movq 8(\\fp), %[ret]\n"                                                                \
	"leaq (%[ret], %[minus_low]), %[offset]\n"                                                 \
	"cmpq %[size], %[offset]\n"                                                                \
	"jae .Loutside_%=_\\n\n"                                                                   \
	"cmpq \\fp, \\next\n"                                                                      \
	"jbe .Lleft_%=_\\n\n"                                                                      \
	"orq \\next, %[seen]\n"                                                                    \
	"movq %[ret], 8*\\n(%[to])\n"                                                              \
	"sb_hash\n"                                                                                \
	"andq %[mask], \\next\n"                                                                   \
	_ASM_EXTABLE_UA(1b, .Lleft_%=_\\n)                                                         \
	_ASM_EXTABLE_UA(2b, .Lleft_%=_\\n)                                                         \
	".endm\n"                                                                                  \
	".macro sb_leave n, fp, next, before\n"                                                    \
	".Loutside_%=_\\n:\n"                                                                      \
	"testq %[ret], %[ret]\n"                                                                   \
	"jz .Lleft_%=_\\n\n"                                                                       \
	"leaq 8*\\n(%[to]), %[to]\n"                                                               \
	"movq \\fp, %[offset]\n"                                                                   \
	"movq \\next, %[next]\n"                                                                   \
	"jmp .Loutside_%=\n"                                                                       \
	".Lleft_%=_\\n:\n"                                                                         \
	"leaq 8*\\n(%[to]), %[to]\n"                                                               \
	"movq \\before, %[offset]\n"                                                               \
	"movq \\fp, %[next]\n"                                                                     \
	"jmp .Lleft_%=\n"                                                                          \
	".endm\n"

#define SB_THREE_OF_RUN(macro, a, b, c)                                                            \
	macro " " #a ", %[fp], %[next], %[before]\n"                                               \
	macro " " #b ", %[next], %[before], %[fp]\n"                                               \
	macro " " #c ", %[before], %[fp], %[next]\n"

#define SB_EACH_OF_RUN_ROUND(macro)                                                                \
	SB_THREE_OF_RUN(macro, 0, 1, 2) SB_THREE_OF_RUN(macro, 3, 4, 5)                            \
	SB_THREE_OF_RUN(macro, 6, 7, 8) SB_THREE_OF_RUN(macro, 9, 10, 11)                          \
	SB_THREE_OF_RUN(macro, 12, 13, 14)

/*
 * Follows up to SB_RUN_ROUND frames of a run, by frame pointers. fast->rbp is aligned, at least
 * fast->rsp, and masked against speculation. *seen: all bits of the frame pointers that were taken.
 * Returns SB_ROUND_*; after SB_ROUND_OUTSIDE, fast->rip is the return address that was not stored, and
 * not 0: stacks end there, which the careful path knows. Otherwise it is not changed.
 */
static __always_inline u32 sb_run_round(struct sb_fast *fast, const struct sb_fast_range *range,
					unsigned long mask, unsigned long *seen)
{
	unsigned long fp = fast->rbp, before = fast->rsp - 2 * sizeof(u64), next, rip, offset;
	u64 *to = fast->to;

	asm_inline volatile(SB_RUN_MACROS
			    SB_EACH_OF_RUN_ROUND("sb_frame")
			    "addq %[round_size], %[to]\n"
			    "movq %[before], %[offset]\n"
			    "movq %[fp], %[next]\n"
			    "jmp .Lleft_%=\n"
			    SB_EACH_OF_RUN_ROUND("sb_leave")
			    ".Lleft_%=:\n"
			    "xorl %k[ret], %k[ret]\n"
			    ".Loutside_%=:\n"
			    ".purgem sb_hash\n"
			    ".purgem sb_frame\n"
			    ".purgem sb_leave\n"
			    : [fp] "+&r" (fp), [next] "=&r" (next), [before] "+&r" (before),
			      [ret] "=&r" (rip), [to] "+&r" (fast->to), [hash] "+&r" (fast->hash),
			      [seen] "+&r" (*seen), [offset] "=&r" (offset)
			    : [mask] "r" (mask), [minus_low] "r" (range->minus_low),
			      [size] "r" (range->size),
			      [round_size] "i" (SB_RUN_ROUND * sizeof(u64))
			    : "cc", "memory");
	fast->rsp = offset + 2 * sizeof(u64);
	fast->rbp = next;
	if (rip) {
		fast->rip = rip;
		return SB_ROUND_OUTSIDE;
	}
	return fast->to == to + SB_RUN_ROUND ? SB_ROUND_WHOLE : SB_ROUND_LEFT;
}

static __always_inline bool sb_range_has(const struct sb_walk_range *range, u64 address)
{
	return address - range->low < range->size;
}

/* Whether a fast loop may enter the range at a return address. */
static __always_inline bool sb_range_takes(const struct sb_walk_range *range, u64 rip)
{
	return rip + range->fast.minus_low < range->fast.size;
}

/*
 * The range of a return address, if a fast loop may enter it there from *from. The place of a range in
 * `ranges` follows from its first use, so that stacks of one program would cost more or less by chance.
 */
static __always_inline struct sb_walk_range *
sb_walk_next_range(struct sb_walk *walk, struct sb_walk_range *from, u64 rip)
{
	struct sb_walk_range *range = from->next;
	struct sb_walk_space *space = walk->space;

	if (likely(sb_range_takes(range, rip)))
		return range;
	if (unlikely(walk->changes_left < SB_SEARCH_CHANGES)) {
		walk->changes_left = 0;
		return NULL;
	}
	walk->changes_left = (u32)walk->changes_left - SB_SEARCH_CHANGES;
	/* No index: UBSAN would check it, by a call with user access enabled. */
	for (range = space->ranges; range < space->ranges + SB_RANGES; range++) {
		if (sb_range_takes(range, rip)) {
			from->next = range;
			return range;
		}
	}
	return NULL;
}

/* The range of an address, of those that are known; NULL: none. */
static __always_inline struct sb_walk_range *sb_walk_known_range(struct sb_walk_space *space,
								 u64 address)
{
	struct sb_walk_range *range;
	u32 i;

	for (i = 0; i < SB_RANGES; i++) {
		range = &space->ranges[i];
		if (likely(sb_range_has(range, address)))
			return range;
	}
	return NULL;
}

/* Stands for a range that is not known. */
static struct sb_walk_range sb_no_range;

/* The range of a first frame, which is not in the one of an earlier walk. */
static noinline struct sb_walk_range *sb_walk_first_range(struct sb_walk_space *space, u64 address)
{
	struct sb_walk_range *range = sb_walk_known_range(space, address);

	if (!range)
		return &sb_no_range;
	space->first = range;
	return range;
}

/*
 * Takes the frames of a root, if the stack has them. fast->rip is its return address, which was not stored
 * yet. In a user access section.
 */
static __always_inline bool sb_follow_root(struct sb_walk *walk, struct sb_fast *fast,
					   const struct sb_walk_root *root, const u64 *to_end)
{
	const u64 *value = root->values, *values_end = value + root->words;
	const u64 *callers_end = value + root->frames - 1;
	unsigned long rsp = fast->rsp, word;
	const u16 *place = root->places;
	u64 *to = fast->to, hash;

	if (unlikely(to + root->frames > to_end || rsp - PAGE_SIZE >= root->limit ||
		     ((fast->rbp - rsp) ^ root->rbp) & root->rbp_mask))
		return false;
	/* Against speculation: whatever is predicted, a place is SB_ROOT_SPAN words higher at most. */
	rsp &= walk->word_mask;
	*to++ = fast->rip;
	hash = sb_hash(fast->hash, fast->rip);
	for (; value < callers_end; value++, place++) {
		unsafe_get_user(word, (u64 __user *)(rsp + *place * sizeof(u64)), unreadable);
		if (unlikely(word != *value))
			return false;
		*to++ = word;
		hash = sb_hash(hash, word);
	}
	for (; value < values_end; value++, place++) {
		unsafe_get_user(word, (u64 __user *)(rsp + *place * sizeof(u64)), unreadable);
		if (unlikely(word - rsp != *value))
			return false;
	}
	fast->to = to;
	fast->hash = hash;
	return true;
unreadable:
	sb_walk_spend(&walk->faults_left);
	return false;
}

/*
 * Follows rules of the cache, and frame pointers in runs, from *from on in *in, which has a table. One user
 * access section, in which function calls are not allowed. Sets walk->left.
 */
static __always_inline enum sb_walk_end sb_follow(struct sb_walk *walk, struct sb_fast *from,
						  struct sb_walk_range **in, u64 *to_end,
						  bool is_return_address)
{
	struct sb_fast fast = *from, start;
	const struct sb_walk_root *root;
	struct sb_walk_range *range = *in, *other;
	unsigned long seen, cfa, rip, rbp;
	const struct sb_cached_rule *rule;
	/* Only return addresses are followed by the frame pointers of a run. */
	bool rounds = false, runs = range->is_run && is_return_address;
	enum sb_walk_end end = SB_WALK_STEP;
	enum sb_rule_kind kind;
	long saved;
	u32 status;

	/* CFAs ascend from here. */
	if (unlikely(fast.rsp - PAGE_SIZE >= walk->limit || (fast.rsp & 7)))
		return end;

	__uaccess_begin_nospec();
	if (!runs)
		goto by_rule;
	for (;;) {
		if (runs) {
			start = fast;
			seen = 0;
			status = SB_ROUND_LEFT;
			while (fast.rbp >= fast.rsp && !(fast.rbp & 7) &&
			       to_end - fast.to >= SB_RUN_ROUND) {
				seen |= fast.rbp;
				fast.rbp &= walk->word_mask;
				status = sb_run_round(&fast, &range->fast, walk->word_mask, &seen);
				if (status != SB_ROUND_WHOLE)
					break;
			}
			if (unlikely(seen & walk->no_word_mask)) {
				/* The careful path finds the exact end. */
				fast = start;
				walk->careful_to = to_end;
				break;
			}
			if (status == SB_ROUND_OUTSIDE) {
				rounds = false;
				goto outside;
			}
			if (fast.to != start.to)
				fast.rip = fast.to[-1];
			cfa = fast.rbp + 2 * sizeof(u64);
			saved = -2 * (long)sizeof(u64);
			goto by_rbp;
		}
		if (rounds) {
			while (fast.rsp - PAGE_SIZE < walk->limit - SB_RULES_CLIMB &&
			       to_end - fast.to >= SB_RULES_ROUND) {
				fast.rsp &= walk->word_mask;
				status = sb_rules_round(walk, &fast, &range->fast);
				if (status == SB_ROUND_OUTSIDE)
					goto outside;
				if (status == SB_ROUND_LEFT)
					break;
			}
		}
by_rule:
		if (unlikely(!sb_cache_find(walk, fast.rip + range->fast.minus_low,
					    fast.rip + range->fast.add, &rule))) {
			end = SB_WALK_MISS;
			break;
		}
		kind = rule->key >> SB_KIND_SHIFT;
		cfa = rule->cfa;
		saved = rule->rbp;
		if (kind == SB_RULE_RBP_SAVED) {
			cfa += fast.rbp;
by_rbp:
			kind = SB_RULE_RBP_SAVED;
			rounds = false;
			if (unlikely(cfa <= fast.rsp || (cfa & 7)))
				break;
		} else if (likely(kind != SB_RULE_END)) {
			cfa += fast.rsp;
			rounds = true;
		} else {
			end = SB_WALK_DONE;
			break;
		}
		if (unlikely(cfa > walk->limit))
			break;
		cfa &= walk->word_mask; /* changes nothing, except under speculation */
		unsafe_get_user(rip, (u64 __user *)(cfa - sizeof(u64)), out);
		if (kind != SB_RULE_RSP) {
			unsafe_get_user(rbp, (u64 __user *)(cfa + saved), out);
			fast.rbp = rbp;
		}
		fast.rsp = cfa;
		fast.rip = rip;
		if (unlikely(!sb_range_takes(range, rip))) {
outside:
			if (unlikely(!sb_walk_spend(&walk->changes_left))) {
				end = SB_WALK_STEPPED;
				break;
			}
			if (likely(walk->root_tries > 0)) {
				/* No index, see sb_walk_next_range(). */
				root = walk->space->roots;
				if (likely(root->rip == fast.rip) || (++root)->rip == fast.rip) {
					if (likely(sb_follow_root(walk, &fast, root, to_end))) {
						end = SB_WALK_ROOT;
						break;
					}
					/* Two comparisons a walk: they take time. */
					walk->root_tries = (u32)walk->root_tries -
							   SB_ROOT_TRIES / 2;
				}
				sb_walk_spend(&walk->root_tries);
				if ((size_t)(fast.to - walk->left.to) > SB_ROOT_REACH)
					walk->left = fast;
			}
			other = sb_walk_next_range(walk, range, fast.rip);
			if (!other) {
				end = SB_WALK_STEPPED;
				break;
			}
			range = other;
		}
		if (unlikely(fast.to == to_end)) {
			end = SB_WALK_STEPPED;
			break;
		}
		*fast.to++ = fast.rip;
		fast.hash = sb_hash(fast.hash, fast.rip);
		runs = range->is_run;
	}
out:
	__uaccess_end();
	*from = fast;
	*in = range;
	return end;
}

/* As sb_follow(), from the frame of the walk on. */
static noinline enum sb_walk_end sb_walk_rules(struct sb_walk *walk)
{
	struct sb_fast fast = sb_fast_begin(walk);
	enum sb_walk_end end;

	end = sb_follow(walk, &fast, &walk->range, walk->to_end, walk->frame.is_return_address);
	walk->table_frames += fast.to - walk->to;
	sb_fast_end(walk, &fast, end == SB_WALK_STEPPED);
	return end;
}

/* Follows frame pointers, in a range without a table. As sb_walk_rules(). */
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
	sb_fast_end(walk, &fast, false);
	return end;
}

static __always_inline struct stackbeat_unwind_go *sb_walk_library(struct sb_walk *walk,
								   const struct sb_walk_space *space,
								   const struct sb_walk_range *range)
{
	return &walk->libraries[space - walk->spaces][range - space->ranges];
}

/* SB_SHAPE_GO, if walks of the space may meet a runtime of Go. */
static __always_inline u64 sb_walk_has_go(const struct sb_walk_space *space)
{
	return space->go ? SB_SHAPE_GO : 0;
}

/* Says that walks of the space may meet a runtime of Go. */
static void sb_walk_set_go(struct sb_walk_space *space, const struct stackbeat_unwind_go *go)
{
	u32 i;

	space->go = go;
	for (i = 0; i < SB_ROOTS; i++)
		space->roots[i] = (struct sb_walk_root){};
}

/*
 * Reads where ld.so has put the g of threads in this process, for a range with the runtime of a library. This
 * is before the walks, which take no more instructions than in a program: no code of the library runs before
 * ld.so has written the word, and it does not change. If the program writes another one, memory of its own
 * is taken for g.
 */
static noinline void sb_walk_find_library(struct sb_walk *walk, struct sb_walk_space *space,
					  struct sb_walk_range *range)
{
	struct stackbeat_unwind_go *go = sb_walk_library(walk, space, range);
	struct stackbeat_unwind_go *last = &walk->libraries[space - walk->spaces][SB_RANGES];

	if (!stackbeat_unwind_go_in_process(go, range->table->view.go, range->bias, sb_walk_read,
					    walk))
		return;
	*last = *go;
	range->go = go;
	/* Another range may take the place of this one. */
	sb_walk_set_go(space, last);
}

/* Sets the range of the walk to the range of an address, which is in none of the known ranges. */
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
	struct sb_walk_space *space = walk->space;
	struct sb_walk_range *range;
	u64 base, end, low = 0, high;
	bool is_run;

	map = sb_unwind_maps_find(space->maps, address);
	if (!map)
		return SB_RANGE_UNMAPPED;
	if (map->object) {
		table = rcu_dereference_sched(map->object->table);
		/* Pairs with the release in sb_unwind_map_set_bias(). */
		if (!table || (table != &sb_unwind_no_table && !smp_load_acquire(&map->biased)))
			return SB_RANGE_MISSING;
	}
	range = &space->ranges[space->next_range++ % SB_RANGES];
	if (!table || table == &sb_unwind_no_table) {
		*range = (struct sb_walk_range){
			.low = map->start,
			.size = map->end - map->start,
			.next = space->ranges,
		};
		walk->range = range;
		return SB_RANGE_FOUND;
	}
	walk->work_end -= SB_TURN_FRAMES;
	base = READ_ONCE(map->bias) + table->view.start;
	end = base + table->view.size;
	if (end < base || address - base >= table->view.size)
		return SB_RANGE_NO_RULE;
	high = table->view.size;
	is_run = stackbeat_unwind_narrow(&table->view, address - base, &low, &high);
	end = min(base + high, map->end);
	*range = (struct sb_walk_range){
		.low = max(base + low, map->start),
		.key = ((u64)table->id << 32) - base,
		.bias = READ_ONCE(map->bias),
		.table = table,
		.next = space->ranges,
		.is_run = is_run,
	};
	range->size = end - range->low;
	range->fast = (struct sb_fast_range){
		.minus_low = -(range->low + 1),
		/* A return address at the end of the range may be a trampoline behind it. */
		.size = range->size - 1,
		.add = range->key - 1,
	};
	if (table->view.go->curg) {
		if (likely(!table->view.go->tls_in_memory)) {
			range->go = table->view.go;
			sb_walk_set_go(space, range->go);
		} else {
			sb_walk_find_library(walk, space, range);
		}
	}
	walk->range = range;
	return SB_RANGE_FOUND;
}

static const u8 sb_stops[] = {
	[STACKBEAT_UNWIND_OUTERMOST] = STACKBEAT_STOP_OUTERMOST,
	[STACKBEAT_UNWIND_NO_RULE] = STACKBEAT_STOP_NO_RULE,
	[STACKBEAT_UNWIND_UNREADABLE] = STACKBEAT_STOP_FAULT,
	[STACKBEAT_UNWIND_BAD_FRAME] = STACKBEAT_STOP_BAD_FRAME,
	[STACKBEAT_UNWIND_LOST_REGISTER] = STACKBEAT_STOP_BAD_FRAME,
};

/* The rule of an address, of the table of its range; NULL: none. Caches it if possible. */
static noinline const struct stackbeat_unwind_rule *
sb_walk_find_rule(struct sb_walk *walk, const struct sb_walk_range *range, u64 address,
		  enum sb_rule_kind *kind)
{
	const struct stackbeat_unwind_view *view = &range->table->view;
	u64 offset = address - range->bias - view->start;
	const struct stackbeat_unwind_rule *rule = NULL;

	/* The program chooses the offset: no read beyond the table, under speculation either. */
	if (offset < view->size)
		rule = stackbeat_unwind_find(view, view->start +
						   array_index_nospec(offset, view->size));
	*kind = rule ? sb_cache_rule(walk, address - range->low, address + range->key, rule) :
		       SB_RULE_OTHER;
	return rule;
}

/* Caches the rule of an address that is not cached. Returns whether it is cached now. */
static noinline bool sb_walk_cache_missed(struct sb_walk *walk, const struct sb_walk_range *range,
					  u64 address)
{
	enum sb_rule_kind kind;

	sb_walk_find_rule(walk, range, address, &kind);
	return kind != SB_RULE_OTHER;
}

/*
 * Returns the size of the walk's frame with its return address, at a return address in a range without a
 * table, if the code does nothing but return; 0: it may do more. After one unreadable word of a walk, no
 * code is read.
 */
static noinline u32 sb_walk_frame_size(struct sb_walk *walk)
{
	u64 rip = walk->frame.registers[STACKBEAT_REGISTER_RIP], code;
	u32 size;

	/* The word is in the page of the call. */
	if (offset_in_page(rip) - 1 >= PAGE_SIZE - sizeof(code) || walk->faults_left < SB_FAULTS_MAX ||
	    !sb_walk_read(walk, rip, &code))
		return 0;
	size = stackbeat_unwind_epilogue_size(code);
	return size ? size + sizeof(u64) : 0;
}

/* A step by a rule, or, in a range without table, by the code, or by the frame pointer. */
static noinline enum stackbeat_unwind_result
sb_walk_step(struct sb_walk *walk, const struct stackbeat_unwind_rule *rule)
{
	struct stackbeat_unwind_rule by_code = {
		.kind_base = STACKBEAT_UNWIND_CALLER | STACKBEAT_REGISTER_RSP << 4,
	};
	const struct stackbeat_unwind_go *go = NULL;

	if (walk->regs)
		sb_user_registers(walk->regs, walk->frame.registers);
	walk->regs = NULL;
	if (!walk->range->table) {
		if (!walk->frame.is_return_address)
			by_code.cfa = sb_unwind_leaf_size(walk->frame.registers[STACKBEAT_REGISTER_RIP]);
		else
			by_code.cfa = sb_walk_frame_size(walk);
		if (by_code.cfa)
			rule = &by_code;
	}
	walk->is_guess = !rule && !walk->range->table && !walk->frame.is_return_address;
	if (walk->range->table)
		go = walk->range->table->view.go;
	/* It reads 17 words. */
	if (rule && (rule->kind_base & 0xf) == STACKBEAT_UNWIND_SIGNAL)
		walk->work_end -= SB_TURN_FRAMES;
	/* The register of the thread: the kernel does not use it. */
	if (rule && (rule->kind_base & 0xf) >= STACKBEAT_UNWIND_GO_SWITCH) {
		walk->frame.fs_base = x86_fsbase_read_cpu();
		if (go && go->tls_in_memory) {
			/* Its word could not be read when the range was set up, and may be there now. */
			if (!walk->range->go)
				sb_walk_find_library(walk, walk->space, walk->range);
			go = walk->range->go;
			if (!go)
				return STACKBEAT_UNWIND_UNREADABLE;
		}
	}
	if (rule || walk->range->table)
		return stackbeat_unwind_step(&walk->frame, rule, go, sb_walk_read, walk);
	return stackbeat_unwind_step_frame_pointer(&walk->frame, sb_walk_read, walk);
}

/*
 * As sb_walk_fast(), in a range without a table. The first frame may lack its frame pointer, and so may a
 * frame between those with tables.
 */
static noinline enum sb_walk_end sb_walk_no_table(struct sb_walk *walk)
{
	return walk->frame.is_return_address && !sb_walk_frame_size(walk) ?
		       sb_walk_frame_pointers(walk) : SB_WALK_STEP;
}

/* Follows frames as far as the fast loops can. */
static __always_inline enum sb_walk_end sb_walk_fast(struct sb_walk *walk)
{
	const struct sb_walk_range *range = walk->range;

	if (unlikely(walk->to <= walk->careful_to))
		return SB_WALK_STEP;
	return likely(range->table) ? sb_walk_rules(walk) : sb_walk_no_table(walk);
}

/* The ends of a walk that are not the end of its stack. */
#define SB_STOP_MISSING (-1)	/* a table is missing */
#define SB_STOP_REGISTER (-2)	/* a rule needs a register that the fast loops do not follow */

/* Sets the range of the frame. Returns 0, or the stop of the walk + 1, or SB_STOP_MISSING. */
static __always_inline int sb_walk_enter_range(struct sb_walk *walk)
{
	u64 address = stackbeat_unwind_address(&walk->frame);
	struct sb_walk_range *range = sb_walk_known_range(walk->space, address);

	if (likely(range)) {
		walk->range = range;
		return 0;
	}
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

/* Counts a turn of the careful path as frames. Returns whether the walk may go on. */
static __always_inline bool sb_walk_may_turn(struct sb_walk *walk)
{
	walk->work_end -= SB_TURN_FRAMES;
	walk->to_end = min(walk->to_end, walk->work_end);
	return walk->to <= walk->to_end;
}

/*
 * Walks up to the end of the stack, from the frame at which a fast loop has ended; SB_WALK_LEFT: from any
 * frame. Returns why the stack ends there, or SB_STOP_*.
 */
static noinline int sb_walk_on(struct sb_walk *walk, enum sb_walk_end end)
{
	const unsigned long user_mask = TASK_SIZE_MAX | (PAGE_SIZE - 1);
	const struct stackbeat_unwind_rule *rule;
	enum stackbeat_unwind_result result;
	enum sb_rule_kind kind = SB_RULE_OTHER;
	int stop;
	u64 rip;

	for (;; end = SB_WALK_LEFT) {
		while (end == SB_WALK_LEFT) {
			if (unlikely(!sb_walk_may_turn(walk)))
				return STACKBEAT_STOP_MAX_DEPTH;
			stop = sb_walk_enter_range(walk);
			if (unlikely(stop))
				return stop > 0 ? stop - 1 : stop;
			end = sb_walk_fast(walk);
		}
		if (end == SB_WALK_DONE || end == SB_WALK_ROOT)
			return STACKBEAT_STOP_OUTERMOST;
		if (end != SB_WALK_STEPPED) {
			rule = NULL;
			if (walk->range->table)
				rule = sb_walk_find_rule(walk, walk->range,
							 stackbeat_unwind_address(&walk->frame),
							 &kind);
			*walk->misses += end == SB_WALK_MISS;
			if (end == SB_WALK_MISS && kind != SB_RULE_OTHER)
				continue;
			result = sb_walk_step(walk, rule);
			if (result == STACKBEAT_UNWIND_LOST_REGISTER && walk->skipped)
				return SB_STOP_REGISTER;
			if (result == STACKBEAT_UNWIND_BAD_FRAME && !walk->range->table)
				return STACKBEAT_STOP_NO_TABLE;
			if (result != STACKBEAT_UNWIND_STEPPED)
				return sb_stops[result];
			if (unlikely(walk->faults_left <= 0))
				return STACKBEAT_STOP_FAULT;
		}
		rip = walk->frame.registers[STACKBEAT_REGISTER_RIP];
		if (unlikely(!(rip & ~PAGE_MASK)))
			rip = sb_walk_restore(&walk->frame);
		if (!sb_is_user_code(rip, user_mask)) {
			if (!rip && end != SB_WALK_STEPPED && walk->is_guess)
				return STACKBEAT_STOP_NO_TABLE;
			return rip ? STACKBEAT_STOP_BAD_FRAME : STACKBEAT_STOP_OUTERMOST;
		}
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
static void sb_walk_space_begin(struct sb_walk_space *space, const struct sb_unwind_maps *maps,
				u64 serial)
{
	u32 i;

	*space = (struct sb_walk_space){
		.serial = serial,
		.maps = maps,
		.first = space->ranges,
	};
	for (i = 0; i < SB_RANGES; i++)
		space->ranges[i].next = space->ranges;
}

static noinline void sb_walk_change_space(struct sb_walk *walk, const struct sb_unwind_maps *maps,
					  u64 serial)
{
	struct sb_walk_space *space = &walk->spaces[serial % SB_WALK_SPACES];

	if (space->serial != serial)
		sb_walk_space_begin(space, maps, serial);
	walk->space = space;
}

static __always_inline void sb_walk_use_maps(struct sb_walk *walk,
					     const struct sb_unwind_maps *maps)
{
	/* Pairs with the release in sb_unwind_maps_set_serial(): the chunks are as new. */
	u64 serial = smp_load_acquire(&maps->serial);

	if (unlikely(walk->space->serial != serial))
		sb_walk_change_space(walk, maps, serial);
}

/* Sets the walk to its first frame. */
static void sb_walk_start(struct sb_walk *walk, const struct pt_regs *regs, u64 *frames,
			  u64 *frames_end, u64 hash)
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
	walk->to_end = frames_end;
	*walk->to++ = regs->ip;
	walk->hash = sb_hash(hash, regs->ip);
	walk->table_frames = 0;
	walk->skipped = false;
}

/* Walks a stack from the frame at which sb_follow() has ended, or from its first frame on. */
static noinline u64 sb_walk_rest(struct sb_walk *walk, const struct pt_regs *regs, u64 *frames,
				 u64 *frames_end, u64 *hash, enum sb_walk_end end)
{
	int stop;

	sb_walk_start(walk, regs, frames, frames_end, *hash);
	walk->work_end = frames + SB_WORK_FRAMES_MAX;
	if (end != SB_WALK_LEFT) {
		walk->table_frames = walk->fast.to - walk->to;
		sb_fast_end(walk, &walk->fast, end == SB_WALK_STEPPED);
	}
	stop = sb_walk_on(walk, end);
	/* ld.so has such rules, for lazy binding: near the first frame. */
	if (unlikely(stop == SB_STOP_REGISTER) && walk->to - frames <= SB_FRAMES_AGAIN_MAX) {
		walk->careful_to = walk->to;
		sb_walk_start(walk, regs, frames, frames_end, *hash);
		stop = sb_walk_on(walk, SB_WALK_LEFT);
	}
	if (unlikely(stop == SB_STOP_REGISTER))
		stop = STACKBEAT_STOP_BAD_FRAME;
	walk->careful_to = NULL;
	if (unlikely(stop < 0))
		return SB_UNWIND_TABLE_MISSING;
	*hash = walk->hash;
	return SB_SHAPE_USER(walk->to - frames, stop) |
	       SB_SHAPE_TABLE_FRAMES(walk->table_frames) | sb_walk_has_go(walk->space);
}

/* A frame, and what the root that is being read has of it. */
struct sb_root_frame {
	u64 rsp, rbp, rip;
	u64 base;	/* the first rsp of the root */
	u64 rbp_at;	/* where rbp was saved */
	bool is_first_rbp, has_rbp;	/* rbp is the first one of the root; the root has it */
	u32 callers;	/* of the root, so far */
};

/* Begins the root with a frame. */
static void sb_root_begin(struct sb_walk_root *root, struct sb_root_frame *frame, u32 callers)
{
	*root = (struct sb_walk_root){ .rip = frame->rip, .frames = callers + 1, .words = callers };
	frame->base = frame->rsp;
	frame->is_first_rbp = true;
	frame->has_rbp = false;
	frame->callers = 0;
}

/* Sets a word. Returns false if its address is too far from rsp. */
static bool sb_root_set(struct sb_walk_root *root, u32 number, u64 base, u64 address, u64 value)
{
	u64 place = (address - base) / sizeof(u64);

	if (place >= SB_ROOT_SPAN)
		return false;
	root->places[number] = place;
	root->values[number] = value;
	root->span = max_t(u32, root->span, (place + 1) * sizeof(u64));
	return true;
}

/* The CFA follows from rbp. Returns false if the root has no room for it. */
static bool sb_root_add_rbp(struct sb_walk_root *root, struct sb_root_frame *frame)
{
	if (frame->has_rbp)
		return true;
	frame->has_rbp = true;
	if (frame->is_first_rbp) {
		root->rbp = frame->rbp - frame->base;
		root->rbp_mask = U64_MAX;
		return true;
	}
	return root->words < SB_ROOT_WORDS &&
	       sb_root_set(root, root->words++, frame->base, frame->rbp_at, frame->rbp - frame->base);
}

/* In a run, each return address has this rule. */
static const struct sb_cached_rule sb_run_rule = {
	.key = (u64)SB_RULE_RBP_SAVED << SB_KIND_SHIFT,
	.cfa = 2 * sizeof(u64),
	.rbp = -2 * (int)sizeof(u64),
};

/* The rule of a return address and its range, if a fast loop has followed it lately; NULL: it has not. */
static const struct sb_cached_rule *sb_walk_known_rule(struct sb_walk *walk, u64 rip,
						       const struct sb_walk_range **range)
{
	const struct sb_cached_rule *rule;

	*range = sb_walk_known_range(walk->space, rip - 1);
	if (!*range || !(*range)->table)
		return NULL;
	if ((*range)->is_run)
		return &sb_run_rule;
	if (!sb_cache_find(walk, rip - ((*range)->low + 1), rip + (*range)->key - 1, &rule))
		return NULL;
	return rule;
}

/*
 * Steps to the caller of a frame, as sb_follow() does. Returns false if the root can't have it, or the
 * stack has changed.
 */
static bool sb_walk_step_root(struct sb_walk *walk, const struct sb_cached_rule *rule,
			      struct sb_root_frame *frame, struct sb_walk_root *root)
{
	enum sb_rule_kind kind = rule->key >> SB_KIND_SHIFT;
	u64 cfa = rule->cfa + (kind == SB_RULE_RBP_SAVED ? frame->rbp : frame->rsp);

	if (root->frames && kind == SB_RULE_RBP_SAVED && !sb_root_add_rbp(root, frame))
		return false;
	if (cfa <= frame->rsp || (cfa & 7) ||
	    !sb_walk_read(walk, cfa - sizeof(u64), &frame->rip))
		return false;
	if (root->frames && !sb_root_set(root, frame->callers++, frame->base, cfa - sizeof(u64),
					 frame->rip))
		return false;
	if (kind != SB_RULE_RSP) {
		frame->rbp_at = cfa + rule->rbp;
		frame->is_first_rbp = false;
		frame->has_rbp = false;
		if (!sb_walk_read(walk, frame->rbp_at, &frame->rbp))
			return false;
	}
	frame->rsp = cfa;
	return true;
}

/*
 * Sets *root to the outermost frames of a walk that has ended at `to`: takes the steps from walk->left on
 * once more, for the places of the words. Returns whether the frames are a root.
 */
static bool sb_walk_read_root(struct sb_walk *walk, const u64 *to, struct sb_walk_root *root)
{
	const u64 *stored = walk->left.to;
	struct sb_root_frame frame = {
		.rsp = walk->left.rsp,
		.rbp = walk->left.rbp,
		.rip = walk->left.rip,
	};
	const struct sb_walk_range *range, *last = NULL;
	const struct sb_cached_rule *rule;
	u32 callers;

	root->frames = 0;
	for (;; stored++) {
		callers = to - stored - 1;
		rule = sb_walk_known_rule(walk, frame.rip, &range);
		/* The frames are the same as before, unless another thread changes the stack. */
		if (!rule || frame.rip != *stored)
			return false;
		if (!root->frames && callers <= SB_ROOT_WORDS && range != last)
			sb_root_begin(root, &frame, callers);
		if (!callers)
			return root->frames && rule->key >> SB_KIND_SHIFT == SB_RULE_END;
		if (rule->key >> SB_KIND_SHIFT == SB_RULE_END ||
		    !sb_walk_step_root(walk, rule, &frame, root))
			return false;
		last = range;
	}
}

/* Keeps the outermost frames of a walk that has ended at `to`, for other walks of the space. */
static noinline void sb_walk_keep_root(struct sb_walk *walk, const u64 *to)
{
	struct sb_walk_space *space = walk->space;
	u32 misses = space->root_misses++, i;
	struct sb_walk_root root;

	/* Farther from the end, no root begins, or the walk would have left a range again. */
	if (misses % SB_ROOT_MISSES || space->go ||
	    to - walk->left.to > SB_ROOT_REACH + SB_ROOT_WORDS + 1 ||
	    !sb_walk_read_root(walk, to, &root))
		return;
	for (i = 0; i < SB_ROOTS; i++) {
		/* Otherwise the first one would be found, and not this. */
		if (space->roots[i].rip == root.rip)
			break;
	}
	if (i == SB_ROOTS)
		i = misses / SB_ROOT_MISSES % SB_ROOTS;
	root.limit = walk->limit - root.span;
	space->roots[i] = root;
}

u64 sb_unwind_user_tables(const struct pt_regs *regs, const struct sb_unwind_maps *maps,
			  u64 *frames, u64 *frames_end, u64 *hash, u64 *misses)
{
	struct sb_walk *walk = this_cpu_read(sb_walks);
	struct sb_fast fast = {
		.rsp = regs->sp,
		.rbp = regs->bp,
		.rip = regs->ip + 1,
		.to = frames + 1,
	};
	const unsigned long ip = regs->ip;
	enum sb_walk_end end = SB_WALK_LEFT;
	struct sb_walk_range *range;
	u64 count, shape;

	sb_walk_use_maps(walk, maps);
	walk->faults_left = SB_FAULTS_MAX;
	walk->root_tries = SB_ROOT_TRIES;
	walk->changes_left = SB_CHANGES_MAX;
	walk->misses_left = SB_FAST_MISSES_MAX;
	walk->left.to = NULL;
	range = walk->space->first;
	if (unlikely(!sb_range_has(range, ip)))
		range = sb_walk_first_range(walk->space, ip);
	/* Not in registers, which the loop needs. */
	walk->regs = regs;
	walk->misses = misses;
	if (likely(range->table)) {
		frames[0] = ip;
		fast.hash = sb_hash(*hash, ip);
		for (;;) {
			/* Return addresses in a run need no rule. */
			end = sb_follow(walk, &fast, &range, frames_end, false);
			if (likely(end == SB_WALK_ROOT))
				break;
			if (end != SB_WALK_MISS || !sb_walk_spend(&walk->misses_left))
				break;
			(*walk->misses)++;
			if (!sb_walk_cache_missed(walk, range, fast.rip - 1)) {
				end = SB_WALK_STEP;
				break;
			}
		}
		if (likely(end == SB_WALK_ROOT || end == SB_WALK_DONE)) {
			/* Most walks end here. */
			*hash = fast.hash;
			count = fast.to - frames;
			shape = SB_SHAPE_USER(count, STACKBEAT_STOP_OUTERMOST) |
				SB_SHAPE_TABLE_FRAMES(count - 1);
			if (end == SB_WALK_ROOT)
				return shape;
			if (unlikely(walk->left.to))
				sb_walk_keep_root(walk, fast.to);
			/* For sb_unwind_goroutine(). */
			walk->range = range;
			return shape | sb_walk_has_go(walk->space);
		}
	}
	/* An earlier walk's range may have a freed table, which sb_unwind_goroutine() would read. */
	walk->range = range;
	/* A copy: `fast` stays in registers. */
	walk->fast = fast;
	return sb_walk_rest(walk, walk->regs, frames, frames_end, hash, end);
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
	struct sb_walk *walk = this_cpu_read(sb_walks);
	/* A program may have several runtimes: the outermost frames show which of them runs the thread. */
	const struct stackbeat_unwind_go *go = walk->range->go ?: walk->space->go;

	if (unlikely(!cpu_feature_enabled(X86_FEATURE_FSGSBASE)))
		return sb_goroutine_read_slowly(wanted, words, go);
	return sb_goroutine_read(wanted, words, go, rdfsbase());
}

void sb_unwind_tables_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kvfree(per_cpu(sb_walks, cpu));
}

int __init sb_unwind_tables_init(void)
{
	struct sb_walk *walk;
	int cpu;

	for_each_possible_cpu(cpu) {
		walk = kvzalloc_node(sizeof(*walk), GFP_KERNEL, cpu_to_node(cpu));
		if (!walk) {
			sb_unwind_tables_exit();
			return -ENOMEM;
		}
		walk->limit = TASK_SIZE_MAX - 2 * PAGE_SIZE;
		walk->word_mask = (TASK_SIZE_MAX | (PAGE_SIZE - 1)) & ~(sizeof(u64) - 1);
		walk->no_word_mask = ~walk->word_mask;
		walk->kind_step = 1ull << SB_KIND_SHIFT;
		walk->space = walk->spaces;
		per_cpu(sb_walks, cpu) = walk;
	}
	return 0;
}
