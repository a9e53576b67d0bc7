// SPDX-License-Identifier: GPL-2.0
#include "unwind/table_builder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "lib/hash.h"
#include "unwind/cfi.h"

/* Bytes between two functions that are taken as padding. */
#define PADDING_MAX 15u
/* A stack has few frames in code of fewer bytes: they are walked by rules. */
#define RUN_MIN 256u

/* The rule at index 0 of each table. */
#define RULE_NONE 0u

/* Rules that are found without a hash; a power of 2. */
#define RECENT_RULES 256u
/* Rows whose rule is found without making it; a power of 2. */
#define RECENT_ROWS 512u

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

struct builder_range {
	uint64_t start, end;
	uint32_t rule;
};

struct ranges {
	struct builder_range *list;
	size_t count, capacity;
};

struct recent_row {
	uint64_t packed; /* 0: none */
	uint32_t rule;
	bool is_unsupported;
};

struct table_builder {
	struct stackbeat_unwind_rule *rules;
	size_t rule_count, rule_capacity;
	struct hash rule_index;
	uint16_t recent[RECENT_RULES]; /* indices of rules, by their bytes */
	struct recent_row recent_rows[RECENT_ROWS]; /* by pack_row() */
	struct ranges added; /* of the source that has not ended, as added */
	struct ranges signals; /* of signal frames, as added */
	struct ranges done; /* of the sources that have ended: sorted, without overlaps */
	uint64_t unsupported, overlapping;
};

/* Rules */

static bool is_rule(const void *context, uint32_t index, const void *key)
{
	return !memcmp(&((const struct stackbeat_unwind_rule *)context)[index], key,
		       sizeof(struct stackbeat_unwind_rule));
}

static int find_or_add_rule(struct table_builder *builder, const struct stackbeat_unwind_rule *rule,
			    uint32_t *index)
{
	uint32_t hash = hash_bytes(HASH_START, rule, sizeof(*rule));

	*index = hash_find(&builder->rule_index, hash, is_rule, builder->rules, rule);
	if (*index != HASH_NONE)
		return 0;
	if (builder->rule_count == STACKBEAT_UNWIND_RULES_MAX)
		return -E2BIG;
	if (array_reserve(&builder->rules, &builder->rule_capacity, builder->rule_count, 1,
			  sizeof(*rule)) ||
	    hash_add(&builder->rule_index, hash, (uint32_t)builder->rule_count))
		return -ENOMEM;
	*index = (uint32_t)builder->rule_count;
	builder->rules[builder->rule_count++] = *rule;
	return 0;
}

/* Most rows have one of few rules. */
static int intern_rule(struct table_builder *builder, const struct stackbeat_unwind_rule *rule,
		       uint32_t *index)
{
	uint16_t *recent;
	uint64_t bytes;
	int err;

	_Static_assert(sizeof(bytes) == sizeof(*rule), "all bytes of a rule");
	memcpy(&bytes, rule, sizeof(bytes));
	recent = &builder->recent[bytes * UINT64_C(0x9e3779b97f4a7c15) /
				  (UINT64_MAX / RECENT_RULES + 1)];
	*index = *recent;
	if (*index < builder->rule_count && is_rule(builder->rules, *index, rule))
		return 0;
	err = find_or_add_rule(builder, rule, index);
	*recent = (uint16_t)*index;
	return err;
}

/* Converts bytes to words that fit a rule. Returns false if they don't. */
static bool to_words(int64_t bytes, int8_t *words)
{
	if (bytes % 8 || bytes / 8 < INT8_MIN || bytes / 8 > INT8_MAX)
		return false;
	*words = (int8_t)(bytes / 8);
	return true;
}

/* The kinds of rules that have a CFA. */
static uint8_t rule_kind(enum cfi_kind kind)
{
	switch (kind) {
	case CFI_GO_SWITCH:
		return STACKBEAT_UNWIND_GO_SWITCH;
	case CFI_GO_CALL:
		return STACKBEAT_UNWIND_GO_CALL;
	default:
		return STACKBEAT_UNWIND_CALLER;
	}
}

static bool rule_set_cfa(const struct cfi_row *row, struct stackbeat_unwind_rule *rule)
{
	if (row->offset % 8 || row->offset <= -STACKBEAT_UNWIND_CFA_MAX ||
	    row->offset >= STACKBEAT_UNWIND_CFA_MAX)
		return false;
	rule->cfa = (int32_t)row->offset;
	rule->kind_base = (uint8_t)(rule_kind(row->kind) | row->base << 4);
	if (row->is_exact)
		rule->flags |= STACKBEAT_UNWIND_RIP_EXACT;
	if (row->kind == CFI_GO_CALL)
		return to_words(row->addend, &rule->extra);
	if (!row->is_indirect)
		return true;
	rule->flags |= STACKBEAT_UNWIND_INDIRECT;
	return to_words(row->addend, &rule->extra);
}

static bool set_return_address(const struct cfi_row *row, struct stackbeat_unwind_rule *rule)
{
	const struct cfi_value *value = &row->return_address;

	if (value->place == CFI_AT_CFA)
		return value->offset == -8;
	if (value->place != CFI_IN_REGISTER || value->reg >= CFI_REGISTERS || row->is_indirect)
		return false;
	rule->flags |= STACKBEAT_UNWIND_RIP_IN_REGISTER;
	rule->extra = (int8_t)value->reg;
	return true;
}

/*
 * A slot below rsp was popped already: compilers leave the rule of rbp unchanged in an epilogue,
 * although the register has its value back.
 */
static bool is_popped(const struct cfi_row *row, const struct cfi_value *value)
{
	return row->base == CFI_RSP && !row->is_indirect && value->place == CFI_AT_CFA &&
	       row->offset + value->offset < 0;
}

static bool set_rbp(const struct cfi_row *row, struct stackbeat_unwind_rule *rule)
{
	const struct cfi_value *value = &row->rbp;

	if (value->place == CFI_SAME || is_popped(row, value))
		return true;
	switch (value->place) {
	case CFI_AT_CFA:
		rule->flags |= STACKBEAT_UNWIND_RBP_SAVED;
		return to_words(value->offset, &rule->rbp);
	case CFI_AT_BASE:
		rule->flags |= STACKBEAT_UNWIND_RBP_AT_RBP;
		return value->reg == CFI_RBP && to_words(value->offset, &rule->rbp);
	case CFI_IN_REGISTER:
		rule->flags |= STACKBEAT_UNWIND_RBP_IN_REGISTER;
		rule->rbp = (int8_t)value->reg;
		return value->reg < CFI_REGISTERS;
	default: /* a lost register costs only the frames that need it */
		return true;
	}
}

/* rbx is only needed where ld.so aligns the stack: rules with other needs go without. */
static void set_rbx(const struct cfi_row *row, struct stackbeat_unwind_rule *rule)
{
	const uint8_t uses_extra = STACKBEAT_UNWIND_INDIRECT | STACKBEAT_UNWIND_RIP_IN_REGISTER;

	if (rule->flags & uses_extra || row->kind != CFI_CALLER || row->rbx.place != CFI_AT_CFA ||
	    is_popped(row, &row->rbx) || !to_words(row->rbx.offset, &rule->extra))
		return;
	rule->flags |= STACKBEAT_UNWIND_RBX_SAVED;
}

/* Returns false if a table can't express the row; the rule then says that the code is unknown. */
static bool rule_from_row(const struct cfi_row *row, struct stackbeat_unwind_rule *rule)
{
	*rule = (struct stackbeat_unwind_rule){.kind_base = STACKBEAT_UNWIND_NONE};
	if (row->kind == CFI_END)
		rule->kind_base = STACKBEAT_UNWIND_END;
	if (row->kind == CFI_SIGNAL)
		rule->kind_base = STACKBEAT_UNWIND_SIGNAL;
	if (row->kind == CFI_GO_RESUME)
		rule->kind_base = STACKBEAT_UNWIND_GO_RESUME;
	if (row->kind == CFI_END || row->kind == CFI_SIGNAL || row->kind == CFI_GO_RESUME)
		return true;
	if (row->kind != CFI_UNSUPPORTED && rule_set_cfa(row, rule) &&
	    set_return_address(row, rule) && set_rbp(row, rule)) {
		set_rbx(row, rule);
		return true;
	}
	*rule = (struct stackbeat_unwind_rule){.kind_base = STACKBEAT_UNWIND_NONE};
	return false;
}

/* Packs what a rule depends on. Returns 0 for a row that is not of the usual kinds. */
static uint64_t pack_row(const struct cfi_row *row)
{
	const uint64_t cfa = (uint64_t)row->offset + (1u << 19),
		       rbp = (uint64_t)row->rbp.offset + (1u << 15),
		       rbx = (uint64_t)row->rbx.offset + (1u << 15);

	_Static_assert(CFI_SAME == 0 && CFI_AT_CFA == 1, "a bit for each place");
	if (row->kind != CFI_CALLER || row->is_indirect || row->is_exact ||
	    row->return_address.place != CFI_AT_CFA || row->return_address.offset != -8 ||
	    row->rbp.place > CFI_AT_CFA || row->rbx.place > CFI_AT_CFA ||
	    cfa >> 20 | rbp >> 16 | rbx >> 16)
		return 0;
	return UINT64_C(1) << 63 | (uint64_t)row->rbx.place << 57 | (uint64_t)row->rbp.place << 56 |
	       (uint64_t)row->base << 52 | cfa << 32 | rbp << 16 | rbx;
}

/* Finds or adds the rule of a row. Most rows are one of a few. */
static int table_builder_find_rule(struct table_builder *builder, const struct cfi_row *row,
				   uint32_t *index)
{
	const uint64_t packed = pack_row(row);
	struct recent_row *recent = &builder->recent_rows[packed * UINT64_C(0x9e3779b97f4a7c15) /
							  (UINT64_MAX / RECENT_ROWS + 1)];
	struct stackbeat_unwind_rule rule;
	bool is_unsupported;
	int err;

	if (packed && recent->packed == packed) {
		builder->unsupported += recent->is_unsupported;
		*index = recent->rule;
		return 0;
	}
	is_unsupported = !rule_from_row(row, &rule);
	builder->unsupported += is_unsupported;
	err = intern_rule(builder, &rule, index);
	if (!err && packed)
		*recent = (struct recent_row){packed, *index, is_unsupported};
	return err;
}

struct table_builder *table_builder_new(void)
{
	const struct stackbeat_unwind_rule none = {.kind_base = STACKBEAT_UNWIND_NONE};
	struct table_builder *builder = calloc(1, sizeof(*builder));
	uint32_t index;

	if (builder && intern_rule(builder, &none, &index)) {
		table_builder_free(builder);
		return NULL;
	}
	return builder;
}

void table_builder_free(struct table_builder *builder)
{
	if (!builder)
		return;
	free(builder->rules);
	free(builder->added.list);
	free(builder->signals.list);
	free(builder->done.list);
	hash_clear(&builder->rule_index);
	free(builder);
}

/* Ranges */

/* Extends the last range where possible. */
static int add_range(struct ranges *ranges, uint64_t start, uint64_t end, uint32_t rule)
{
	struct builder_range *last = ranges->count ? &ranges->list[ranges->count - 1] : NULL;

	if (last && last->end == start && last->rule == rule) {
		last->end = end;
		return 0;
	}
	if (ranges->count == ranges->capacity &&
	    array_reserve(&ranges->list, &ranges->capacity, ranges->count, 1, sizeof(*last)))
		return -ENOMEM;
	ranges->list[ranges->count++] = (struct builder_range){start, end, rule};
	return 0;
}

int table_builder_add(struct table_builder *builder, uint64_t start, uint64_t end,
		      const struct cfi_row *row)
{
	bool is_signal = row->kind == CFI_SIGNAL;
	uint32_t index;
	int err;

	if (builder->added.count + builder->signals.count + builder->done.count >=
	    STACKBEAT_UNWIND_ROWS_MAX)
		return -E2BIG;
	err = table_builder_find_rule(builder, row, &index);
	if (err || start >= end)
		return err;
	return add_range(is_signal ? &builder->signals : &builder->added, start, end, index);
}

/* At the same start, the longer range comes first. */
static int ranges_compare(const void *left, const void *right)
{
	const struct builder_range *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (a->end < b->end) - (a->end > b->end);
}

/* Ranges of a list that follow each other without a gap, as the ranges of a function do. */
struct builder_run {
	uint64_t start, end;
	size_t first, count;
};

static int compare_runs(const void *left, const void *right)
{
	const struct builder_run *a = left, *b = right;

	return (a->start > b->start) - (a->start < b->start);
}

static size_t split_runs(const struct ranges *ranges, struct builder_run *runs)
{
	size_t count = 0;

	for (size_t i = 0; i < ranges->count; i++) {
		const struct builder_range *range = &ranges->list[i];

		if (!count || runs[count - 1].end != range->start)
			runs[count++] = (struct builder_run){.start = range->start, .first = i};
		runs[count - 1].end = range->end;
		runs[count - 1].count++;
	}
	return count;
}

/* Sorts many runs by the digits of their distance from the first address. `other` has equal room.
 */
static void sort_by_digits(struct builder_run *runs, struct builder_run *other, size_t count)
{
	uint64_t least = UINT64_MAX, most = 0;
	struct builder_run *from = runs, *to = other, *last;
	size_t ends[DIGITS];

	for (size_t i = 0; i < count; i++) {
		least = MIN(least, runs[i].start);
		most = MAX(most, runs[i].start);
	}
	for (unsigned int shift = 0; shift < 64 && (most - least) >> shift; shift += DIGIT_BITS) {
		memset(ends, 0, sizeof(ends));
		for (size_t i = 0; i < count; i++)
			ends[(from[i].start - least) >> shift & (DIGITS - 1)]++;
		for (size_t i = 1; i < DIGITS; i++)
			ends[i] += ends[i - 1];
		for (size_t i = count; i; i--)
			to[--ends[(from[i - 1].start - least) >> shift & (DIGITS - 1)]] =
				from[i - 1];
		last = from;
		from = to;
		to = last;
	}
	if (from != runs)
		memcpy(runs, from, count * sizeof(*runs));
}

/* Sorts the first `count` of runs, of which there is room for twice as many. */
static void order_runs(struct builder_run *runs, size_t count)
{
	if (count < DIGITS)
		qsort(runs, count, sizeof(*runs), compare_runs);
	else
		sort_by_digits(runs, runs + count, count);
}

/*
 * Sorts runs, of which there are far fewer than ranges. Returns false if they overlap, or without
 * memory: the list is as before.
 */
static bool sort_runs(struct ranges *ranges)
{
	struct builder_run *runs = malloc(2 * ranges->count * sizeof(*runs));
	struct builder_range *sorted = malloc(ranges->count * sizeof(*sorted));
	bool done = runs && sorted;
	size_t count = done ? split_runs(ranges, runs) : 0, at = 0;

	if (count)
		order_runs(runs, count);
	for (size_t i = 0; i < count && done; i++) {
		done = !i || runs[i].start >= runs[i - 1].end;
		memcpy(sorted + at, ranges->list + runs[i].first, runs[i].count * sizeof(*sorted));
		at += runs[i].count;
	}
	free(runs);
	if (done) {
		free(ranges->list);
		ranges->list = sorted;
		ranges->capacity = ranges->count;
	} else {
		free(sorted);
	}
	return done;
}

/* Sorts the ranges of a source, and drops those that start in another one. */
static void sort_ranges(struct table_builder *builder, struct ranges *ranges)
{
	size_t count = 0, sorted = 1;

	/* Linkers keep the order of object files, so often there is nothing to sort. */
	while (sorted < ranges->count &&
	       ranges_compare(&ranges->list[sorted - 1], &ranges->list[sorted]) <= 0)
		sorted++;
	/* Runs that do not overlap have no ranges that do. */
	if (sorted < ranges->count && sort_runs(ranges))
		return;
	if (sorted < ranges->count)
		qsort(ranges->list, ranges->count, sizeof(*ranges->list), ranges_compare);
	for (size_t i = 0; i < ranges->count; i++) {
		if (count && ranges->list[i].start < ranges->list[count - 1].end)
			builder->overlapping++;
		else
			ranges->list[count++] = ranges->list[i];
	}
	ranges->count = count;
}

/* Adds the parts of a range that are outside of the ranges from *next on, which it advances. */
static int ranges_add_parts(struct ranges *out, const struct builder_range *range,
			    const struct ranges *others, size_t *next)
{
	uint64_t start = range->start;
	int err = 0;

	while (!err && start < range->end) {
		const struct builder_range *other =
			*next < others->count ? &others->list[*next] : NULL;

		if (!other || other->start >= range->end)
			return add_range(out, start, range->end, range->rule);
		if (start < other->start)
			err = add_range(out, start, other->start, range->rule);
		if (!err && other->end > start)
			start = other->end;
		if (other->end > range->end)
			return err;
		if (!err)
			err = add_range(out, other->start, other->end, other->rule);
		++*next;
	}
	return err;
}

/* Returns the index of the first range, from `low` on, that ends after an address. */
static size_t ranges_find(const struct ranges *ranges, size_t low, uint64_t address)
{
	size_t high = ranges->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges->list[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Adds the ranges from `next` up to, and without, `end`. */
static int ranges_add(struct ranges *out, const struct ranges *ranges, size_t next, size_t end)
{
	if (next >= end)
		return 0;
	if (array_reserve(&out->list, &out->capacity, out->count, end - next, sizeof(*out->list)))
		return -ENOMEM;
	memcpy(out->list + out->count, ranges->list + next, (end - next) * sizeof(*out->list));
	out->count += end - next;
	return 0;
}

/*
 * Makes *ranges the union of both, and where they overlap, the range of `first`. Both are sorted.
 * One of them mostly has few ranges: what is between those is copied.
 */
static int merge_ranges(const struct ranges *first, struct ranges *ranges)
{
	struct ranges merged = {0};
	size_t next = 0, end;
	int err = 0;

	if (!first->count)
		return 0;
	for (size_t i = 0; i < ranges->count && !err; i++) {
		const struct builder_range *range = &ranges->list[i];

		end = next;
		if (next < first->count && first->list[next].end <= range->start)
			end = ranges_find(first, next, range->start);
		err = ranges_add(&merged, first, next, end);
		next = end;
		if (!err)
			err = ranges_add_parts(&merged, range, first, &next);
	}
	if (!err)
		err = ranges_add(&merged, first, next, first->count);
	if (err) {
		free(merged.list);
		return err;
	}
	free(ranges->list);
	*ranges = merged;
	return 0;
}

/* Makes *ranges, which is emptied, part of `done`, before or after what is there. */
static int merge_done(struct table_builder *builder, struct ranges *ranges, bool first)
{
	struct ranges *done = &builder->done;
	int err;

	if (!ranges->count)
		return 0;
	sort_ranges(builder, ranges);
	err = first ? merge_ranges(ranges, done) : merge_ranges(done, ranges);
	if (!first && !err) {
		free(done->list);
		*done = *ranges;
	} else {
		free(ranges->list);
	}
	*ranges = (struct ranges){0};
	return err;
}

int table_builder_end_source(struct table_builder *builder)
{
	int err = merge_done(builder, &builder->added, false);

	return err ? err : merge_done(builder, &builder->signals, true);
}

int table_builder_each_gap(const struct table_builder *builder, uint64_t start, uint64_t end,
			   int (*fn)(void *arg, uint64_t start, uint64_t end), void *arg)
{
	const struct ranges *done = &builder->done;
	int err = 0;

	for (size_t i = ranges_find(done, 0, start); i < done->count && start < end && !err; i++) {
		const struct builder_range *range = &done->list[i];

		if (start < range->start)
			err = fn(arg, start, range->start < end ? range->start : end);
		start = range->end;
	}
	return !err && start < end ? fn(arg, start, end) : err;
}

int table_builder_each_range(const struct table_builder *builder,
			     int (*fn)(void *arg, uint64_t start, uint64_t end,
				       const struct stackbeat_unwind_rule *rule),
			     void *arg)
{
	int err = 0;

	for (size_t i = 0; i < builder->done.count && !err; i++) {
		const struct builder_range *range = &builder->done.list[i];

		err = fn(arg, range->start, range->end, &builder->rules[range->rule]);
	}
	return err;
}

/* Tables */

/* A row of the table that is being written. */
struct rows {
	uint32_t *starts; /* from the start of the table */
	uint16_t *rules;
	size_t count;
};

/* The longest runs, in ascending order. */
struct runs {
	struct stackbeat_unwind_run list[STACKBEAT_UNWIND_RUNS_MAX];
	uint32_t count;
};

static uint32_t run_size(const struct stackbeat_unwind_run *run)
{
	return run->end - run->start;
}

static void rows_add(struct rows *rows, uint32_t start, uint16_t rule)
{
	if (rows->count && rows->rules[rows->count - 1] == rule)
		return;
	if (rows->count && rows->starts[rows->count - 1] == start)
		rows->count--;
	rows->starts[rows->count] = start;
	rows->rules[rows->count++] = rule;
}

/* Makes rows of the ranges, which are within the limit of blocks. */
static void make_rows(const struct ranges *ranges, struct rows *rows)
{
	const uint64_t start = ranges->list[0].start;
	uint64_t end = start;

	_Static_assert(STACKBEAT_UNWIND_RULES_MAX - 1 <= UINT16_MAX &&
			       STACKBEAT_UNWIND_BLOCKS_MAX - 1 <=
				       UINT32_MAX / STACKBEAT_UNWIND_BLOCK,
		       "rules and starts fit");

	for (size_t i = 0; i < ranges->count; i++) {
		const struct builder_range *range = &ranges->list[i];

		if (range->start - end > PADDING_MAX)
			rows_add(rows, (uint32_t)(end - start), RULE_NONE);
		rows_add(rows, (uint32_t)(range->start - start), (uint16_t)range->rule);
		end = range->end;
	}
	rows_add(rows, (uint32_t)(end - start), RULE_NONE);
}

/* Whether a rule is the one of runs. */
static bool is_frame_pointer(const struct stackbeat_unwind_rule *rule)
{
	return rule->kind_base == (STACKBEAT_UNWIND_CALLER | CFI_RBP << 4) && rule->cfa == 16 &&
	       (rule->flags & ~STACKBEAT_UNWIND_RBX_SAVED) == STACKBEAT_UNWIND_RBP_SAVED &&
	       rule->rbp == -2;
}

/* Adds a run, unless it is shorter than all of a full list. */
static void keep_run(struct runs *runs, struct stackbeat_unwind_run run)
{
	uint32_t shortest = 0;

	if (run_size(&run) < RUN_MIN)
		return;
	if (runs->count == STACKBEAT_UNWIND_RUNS_MAX) {
		for (uint32_t i = 1; i < runs->count; i++) {
			if (run_size(&runs->list[i]) < run_size(&runs->list[shortest]))
				shortest = i;
		}
		if (run_size(&run) <= run_size(&runs->list[shortest]))
			return;
		runs->count--;
		memmove(&runs->list[shortest], &runs->list[shortest + 1],
			(runs->count - shortest) * sizeof(run));
	}
	runs->list[runs->count++] = run;
}

static uint64_t runs_bytes(const struct runs *runs)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < runs->count; i++)
		bytes += run_size(&runs->list[i]);
	return bytes;
}

/* The bytes of the rows that have a rule. */
static uint64_t code_bytes(const struct rows *rows)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i + 1 < rows->count; i++) {
		if (rows->rules[i] != RULE_NONE)
			bytes += rows->starts[i + 1] - rows->starts[i];
	}
	return bytes;
}

/*
 * Finds the longest runs, if they have half of the code or more. In other files, single functions
 * have a frame pointer: a walk would enter and leave a run at each of them, which takes longer than
 * their rules, and meet more parts of a file than it remembers.
 *
 * Rows of other rules are part of a run if no call ends in them: no address before a return address
 * is there. Other kinds of rows are found by addresses that no call has pushed, such as a signal's
 * return trampoline, and what is between functions is not known to be code.
 */
static void find_runs(const struct table_builder *builder, const struct rows *rows, uint64_t start,
		      const struct table_code *code, struct runs *runs)
{
	struct stackbeat_unwind_run run = {0};

	/* The last row has no rule, and no end. */
	for (size_t i = 0; i + 1 < rows->count; i++) {
		const struct stackbeat_unwind_rule *rule = &builder->rules[rows->rules[i]];

		if (is_frame_pointer(rule)) {
			if (!run.end)
				run.start = rows->starts[i];
			run.end = rows->starts[i + 1];
		} else if (run.end && ((rule->kind_base & 0xf) != STACKBEAT_UNWIND_CALLER ||
				       code->may_call(code->arg, start + rows->starts[i],
						      start + rows->starts[i + 1]))) {
			keep_run(runs, run);
			run.end = 0;
		}
	}
	if (run.end)
		keep_run(runs, run);
	if (runs_bytes(runs) < code_bytes(rows) / 2)
		runs->count = 0;
}

static size_t align_size(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

static struct stackbeat_unwind_table *write_table(const struct table_builder *builder,
						  const struct rows *rows, const struct runs *runs,
						  uint64_t start, uint32_t block_count)
{
	size_t rules_size = builder->rule_count * sizeof(*builder->rules);
	size_t runs_size = runs->count * sizeof(*runs->list);
	size_t blocks_size = ((size_t)block_count + 1) * sizeof(uint32_t);
	size_t size = align_size(sizeof(struct stackbeat_unwind_table) + rules_size + runs_size +
				 blocks_size + rows->count * (sizeof(uint16_t) + sizeof(uint8_t)));
	struct stackbeat_unwind_table *table;
	uint32_t *blocks, block = 0;
	uint16_t *row_rules;
	uint8_t *row_starts;

	table = size > UINT32_MAX ? NULL : calloc(1, size);
	if (!table)
		return NULL;
	*table = (struct stackbeat_unwind_table){
		.magic = STACKBEAT_UNWIND_MAGIC,
		.size = (uint32_t)size,
		.start = start,
		.block_count = block_count,
		.row_count = (uint32_t)rows->count,
		.rule_count = (uint32_t)builder->rule_count,
		.run_count = runs->count,
	};
	memcpy(table + 1, builder->rules, rules_size);
	memcpy((char *)(table + 1) + rules_size, runs->list, runs_size);
	blocks = (uint32_t *)((char *)(table + 1) + rules_size + runs_size);
	row_rules = (uint16_t *)(blocks + block_count + 1);
	row_starts = (uint8_t *)(row_rules + rows->count);
	for (size_t i = 0; i < rows->count; i++) {
		const uint32_t at = rows->starts[i];

		while (block <= at / STACKBEAT_UNWIND_BLOCK)
			blocks[block++] = (uint32_t)i;
		row_rules[i] = rows->rules[i];
		row_starts[i] = (uint8_t)at;
	}
	while (block <= block_count)
		blocks[block++] = (uint32_t)rows->count;
	return table;
}

static int make_table(const struct table_builder *builder, const struct table_code *code,
		      struct stackbeat_unwind_table **table, struct table_counts *counts)
{
	const struct ranges *ranges = &builder->done;
	uint64_t start = ranges->list[0].start,
		 blocks =
			 (ranges->list[ranges->count - 1].end - start) / STACKBEAT_UNWIND_BLOCK + 1;
	struct rows rows = {0};
	struct runs runs = {0};
	int err = -ENOMEM;

	/* The last block must end within the address space, as stackbeat_unwind_check() asks. */
	if (blocks > STACKBEAT_UNWIND_BLOCKS_MAX || start + blocks * STACKBEAT_UNWIND_BLOCK < start)
		return -E2BIG;
	/* Each range makes at most two rows, and the end one more. */
	rows.starts = malloc((2 * ranges->count + 1) * sizeof(*rows.starts));
	rows.rules = malloc((2 * ranges->count + 1) * sizeof(*rows.rules));
	if (!rows.starts || !rows.rules)
		goto out;
	make_rows(ranges, &rows);
	counts->rows = rows.count;
	err = -E2BIG;
	if (rows.count > STACKBEAT_UNWIND_ROWS_MAX)
		goto out;
	if (code)
		find_runs(builder, &rows, start, code, &runs);
	*table = write_table(builder, &rows, &runs, start, (uint32_t)blocks);
	err = *table ? 0 : -ENOMEM;
out:
	free(rows.starts);
	free(rows.rules);
	return err;
}

int table_builder_finish(struct table_builder *builder, const struct table_code *code,
			 struct stackbeat_unwind_table **table, struct table_counts *counts)
{
	int err = table_builder_end_source(builder);

	*table = NULL;
	*counts = (struct table_counts){
		.unsupported = builder->unsupported,
		.overlapping = builder->overlapping,
	};
	if (!err && !builder->done.count)
		err = -ENOENT;
	return err ? err : make_table(builder, code, table, counts);
}
