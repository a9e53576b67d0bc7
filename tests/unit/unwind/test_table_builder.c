// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"
#include "unwind/cfi.h"
#include "unwind/table_builder.h"

#define TEXT UINT64_C(0x401000)

static struct cfi_row rsp_row(int64_t cfa)
{
	return (struct cfi_row){
		.kind = CFI_CALLER,
		.base = CFI_RSP,
		.offset = cfa,
		.return_address = {.place = CFI_AT_CFA, .offset = -8},
	};
}

static struct table_builder *new_builder(void)
{
	struct table_builder *builder = table_builder_new();

	assert_non_null(builder);
	return builder;
}

static void add_row(struct table_builder *builder, uint64_t start, uint64_t end, struct cfi_row row)
{
	assert_int_equal(table_builder_add(builder, start, end, &row), 0);
}

static void add(struct table_builder *builder, uint64_t start, uint64_t end, int64_t cfa)
{
	add_row(builder, TEXT + start, TEXT + end, rsp_row(cfa));
}

/* Finishes and frees the builder. */
static struct stackbeat_unwind_table *finish(struct table_builder *builder,
					     struct table_counts *counts)
{
	struct stackbeat_unwind_table *table;

	assert_int_equal(table_builder_finish(builder, NULL, &table, counts), 0);
	assert_true(stackbeat_unwind_check(table, table->size));
	table_builder_free(builder);
	return table;
}

static const struct stackbeat_unwind_rule *find(const struct stackbeat_unwind_table *table,
						uint64_t address)
{
	struct stackbeat_unwind_view view;

	stackbeat_unwind_open(table, &view);
	return stackbeat_unwind_find(&view, address);
}

/* Returns the CFA of an address, 0 for a known gap, -1 outside the table. */
static int64_t cfa_at(const struct stackbeat_unwind_table *table, uint64_t offset)
{
	const struct stackbeat_unwind_rule *rule = find(table, TEXT + offset);

	if (!rule)
		return -1;
	return (rule->kind_base & 0xf) == STACKBEAT_UNWIND_CALLER ? rule->cfa : 0;
}

/* Makes a table of one row, and returns its rule. */
static struct stackbeat_unwind_rule rule_of(struct cfi_row row, uint64_t *unsupported)
{
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct stackbeat_unwind_rule rule;
	struct table_counts counts;

	add_row(builder, TEXT, TEXT + 16, row);
	table = finish(builder, &counts);
	rule = *find(table, TEXT + 3);
	*unsupported = counts.unsupported;
	free(table);
	return rule;
}

static void expect_rule(struct cfi_row row, unsigned int base, int32_t cfa, unsigned int flags,
			int rbp, int extra)
{
	uint64_t unsupported;
	struct stackbeat_unwind_rule rule = rule_of(row, &unsupported);

	assert_int_equal(unsupported, 0);
	assert_int_equal(rule.kind_base, STACKBEAT_UNWIND_CALLER | base << 4);
	assert_int_equal(rule.cfa, cfa);
	assert_int_equal(rule.flags, flags);
	assert_int_equal(rule.rbp, rbp);
	assert_int_equal(rule.extra, extra);
}

static void expect_unsupported(struct cfi_row row)
{
	uint64_t unsupported;
	struct stackbeat_unwind_rule rule = rule_of(row, &unsupported);

	assert_int_equal(unsupported, 1);
	assert_int_equal(rule.kind_base, STACKBEAT_UNWIND_NONE);
}

static void each_place_of_rbp(void **state)
{
	struct cfi_row row = rsp_row(32);

	(void)state;
	expect_rule(row, CFI_RSP, 32, 0, 0, 0);
	row.rbp = (struct cfi_value){.place = CFI_AT_CFA, .offset = -16};
	expect_rule(row, CFI_RSP, 32, STACKBEAT_UNWIND_RBP_SAVED, -2, 0);
	row.rbp.offset = 120; /* longjmp */
	expect_rule(row, CFI_RSP, 32, STACKBEAT_UNWIND_RBP_SAVED, 15, 0);
	row.rbp = (struct cfi_value){.place = CFI_AT_BASE, .reg = CFI_RBP, .offset = -8};
	expect_rule(row, CFI_RSP, 32, STACKBEAT_UNWIND_RBP_AT_RBP, -1, 0);
	row.rbp = (struct cfi_value){.place = CFI_IN_REGISTER, .reg = 10};
	expect_rule(row, CFI_RSP, 32, STACKBEAT_UNWIND_RBP_IN_REGISTER, 10, 0);
	row.rbp = (struct cfi_value){.place = CFI_UNKNOWN};
	expect_rule(row, CFI_RSP, 32, 0, 0, 0);
	row.rbp = (struct cfi_value){.place = CFI_AT_CFA, .offset = -12};
	expect_unsupported(row);
	row.rbp = (struct cfi_value){.place = CFI_AT_CFA, .offset = 128 * 8};
	expect_unsupported(row);
	row.rbp = (struct cfi_value){.place = CFI_AT_BASE, .reg = CFI_RSP, .offset = 8};
	expect_unsupported(row);
	row.rbp = (struct cfi_value){.place = CFI_IN_REGISTER, .reg = 16};
	expect_unsupported(row);
}

/* The slot of an epilogue behind `pop %rbp`. */
static void a_popped_rbp_is_unchanged(void **state)
{
	struct cfi_row row = rsp_row(8);

	(void)state;
	row.rbp = (struct cfi_value){.place = CFI_AT_CFA, .offset = -16};
	row.rbx = row.rbp;
	expect_rule(row, CFI_RSP, 8, 0, 0, 0);
	row.offset = 16; /* at rsp itself */
	row.rbx.place = CFI_SAME;
	expect_rule(row, CFI_RSP, 16, STACKBEAT_UNWIND_RBP_SAVED, -2, 0);
	row = rsp_row(8);
	row.base = CFI_RBP;
	row.rbp = (struct cfi_value){.place = CFI_AT_CFA, .offset = -16};
	expect_rule(row, CFI_RBP, 8, STACKBEAT_UNWIND_RBP_SAVED, -2, 0);
}

/* _dl_runtime_resolve of ld.so. */
static void rbx_is_kept_where_it_fits(void **state)
{
	struct cfi_row row = rsp_row(40);

	(void)state;
	row.rbx = (struct cfi_value){.place = CFI_AT_CFA, .offset = -24};
	expect_rule(row, CFI_RSP, 40, STACKBEAT_UNWIND_RBX_SAVED, 0, -3);
	row.base = CFI_RBX;
	expect_rule(row, CFI_RBX, 40, STACKBEAT_UNWIND_RBX_SAVED, 0, -3);
	row.rbx.offset = -2048;
	expect_rule(row, CFI_RBX, 40, 0, 0, 0);
	row.rbx.offset = -24;
	row.is_indirect = true;
	row.addend = 8;
	expect_rule(row, CFI_RBX, 40, STACKBEAT_UNWIND_INDIRECT, 0, 1);
}

static void each_form_of_the_cfa(void **state)
{
	struct cfi_row row = rsp_row(33360);

	(void)state;
	expect_rule(row, CFI_RSP, 33360, 0, 0, 0);
	row = rsp_row(STACKBEAT_UNWIND_CFA_MAX - 8);
	expect_rule(row, CFI_RSP, STACKBEAT_UNWIND_CFA_MAX - 8, 0, 0, 0);
	expect_unsupported(rsp_row(STACKBEAT_UNWIND_CFA_MAX));
	expect_unsupported(rsp_row(-STACKBEAT_UNWIND_CFA_MAX));
	expect_unsupported(rsp_row(12));
	row = rsp_row(-40);
	row.base = CFI_RBP;
	row.is_indirect = true;
	expect_rule(row, CFI_RBP, -40, STACKBEAT_UNWIND_INDIRECT, 0, 0);
	row.addend = 56;
	expect_rule(row, CFI_RBP, -40, STACKBEAT_UNWIND_INDIRECT, 0, 7);
	row.addend = 4;
	expect_unsupported(row);
}

static void each_return_address(void **state)
{
	struct cfi_row row = rsp_row(8);

	(void)state;
	row.return_address = (struct cfi_value){.place = CFI_IN_REGISTER, .reg = 5};
	expect_rule(row, CFI_RSP, 8, STACKBEAT_UNWIND_RIP_IN_REGISTER, 0, 5);
	row.is_indirect = true;
	expect_unsupported(row);
	row = rsp_row(8);
	row.return_address.offset = -16;
	expect_unsupported(row);
	row.return_address = (struct cfi_value){.place = CFI_UNKNOWN};
	expect_unsupported(row);
	expect_unsupported((struct cfi_row){.kind = CFI_UNSUPPORTED});
}

static void functions_in_any_order(void **state)
{
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;

	(void)state;
	add(builder, 0x300, 0x320, 24);
	add(builder, 0x100, 0x101, 8);
	add(builder, 0x101, 0x140, 16);
	add(builder, 0x0, 0x10, 8);
	table = finish(builder, &counts);
	assert_int_equal(table->start, TEXT);
	assert_int_equal(cfa_at(table, -1), -1);
	assert_int_equal(cfa_at(table, 0), 8);
	assert_int_equal(cfa_at(table, 0xf), 8);
	assert_int_equal(cfa_at(table, 0x10), 0);
	assert_int_equal(cfa_at(table, 0xff), 0);
	assert_int_equal(cfa_at(table, 0x100), 8);
	assert_int_equal(cfa_at(table, 0x101), 16);
	assert_int_equal(cfa_at(table, 0x13f), 16);
	assert_int_equal(cfa_at(table, 0x140), 0);
	assert_int_equal(cfa_at(table, 0x300), 24);
	assert_int_equal(cfa_at(table, 0x320), 0);
	assert_int_equal(cfa_at(table, 0x400), -1);
	assert_int_equal(counts.overlapping, 0);
	free(table);
}

/* As in cc1, whose cold code has a section of its own: each function is far from the one before. */
static void steps_for_functions_in_any_order(void **state)
{
	enum { FUNCTIONS = 5000, ROWS = 10, SPACE = 4096, STEPS_EACH = 45 };
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;
	uint64_t before = steps;

	(void)state;
	for (uint64_t i = 0; i < FUNCTIONS; i++) {
		uint64_t start = i * 997 % FUNCTIONS * SPACE;

		for (uint64_t row = 0; row < ROWS; row++)
			add(builder, start + row * 4, start + row * 4 + 4, 8 + 8 * (int64_t)row);
	}
	table = finish(builder, &counts);
	printf("# steps for each row: %.1f\n", (double)(steps - before) / FUNCTIONS / ROWS);
	assert_in_range(steps - before, FUNCTIONS * ROWS, FUNCTIONS * ROWS * STEPS_EACH);
	assert_int_equal(counts.overlapping, 0);
	for (uint64_t i = 0; i < FUNCTIONS; i++) {
		for (uint64_t row = 0; row < ROWS; row++)
			assert_int_equal(cfa_at(table, i * SPACE + row * 4), 8 + 8 * row);
		assert_int_equal(cfa_at(table, i * SPACE + ROWS * 4), 0);
	}
	free(table);
}

/* A source of few rows, as the PLT, does not read all others again. */
static void steps_for_a_small_source(void **state)
{
	enum { FUNCTIONS = 20000, STEPS = 2000 };
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;
	uint64_t before;

	(void)state;
	for (uint64_t i = 0; i < FUNCTIONS; i++)
		add(builder, i * 64, i * 64 + 32, 8 + 8 * (int64_t)(i % 2));
	assert_int_equal(table_builder_end_source(builder), 0);
	before = steps;
	/* A range in a gap, a range over three functions, and a range behind all functions. */
	add(builder, 640 + 40, 640 + 50, 800);
	add(builder, 64000, 64000 + 192, 808);
	add(builder, FUNCTIONS * 64, FUNCTIONS * 64 + 8, 816);
	assert_int_equal(table_builder_end_source(builder), 0);
	printf("# steps for a small source: %llu\n", (unsigned long long)(steps - before));
	assert_in_range(steps - before, 1, STEPS);
	table = finish(builder, &counts);
	assert_int_equal(cfa_at(table, 640 + 45), 800);
	for (uint64_t i = 0; i < FUNCTIONS; i++) {
		assert_int_equal(cfa_at(table, i * 64), 8 + 8 * (i % 2));
		if (i != 10)
			assert_int_equal(cfa_at(table, i * 64 + 60),
					 i >= 1000 && i < 1003 ? 808 : 0);
	}
	assert_int_equal(cfa_at(table, FUNCTIONS * 64), 816);
	free(table);
}

/* Rows that differ in one thing, each twice, so that the rows of the first time are remembered. */
static void similar_rows_have_rules_of_their_own(void **state)
{
	static const int64_t offsets[] = {
		8,  16,         8 << 16,       (1 << 19) - 8, 1 << 19, (1 << 19) + 8,
		-8, -(1 << 19), -(1 << 19) - 8};
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_rule expected[64];
	struct stackbeat_unwind_table *table;
	struct table_counts counts;
	struct cfi_row rows[64];
	unsigned int count = 0;
	uint64_t unsupported;

	(void)state;
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		rows[count++] = rsp_row(offsets[i]);
	for (uint8_t base = 0; base < CFI_REGISTERS; base++) {
		rows[count] = rsp_row(24);
		rows[count++].base = base;
	}
	for (int64_t word = -6; word < -1; word++) {
		rows[count] = rsp_row(64);
		rows[count++].rbp = (struct cfi_value){.place = CFI_AT_CFA, .offset = 8 * word};
		rows[count] = rsp_row(64);
		rows[count++].rbx = (struct cfi_value){.place = CFI_AT_CFA, .offset = 8 * word};
	}
	rows[count] = rsp_row(64);
	rows[count++].rbp = (struct cfi_value){.place = CFI_UNKNOWN};
	rows[count] = rsp_row(64);
	rows[count++].is_exact = true;
	rows[count] = rsp_row(12); /* not supported */
	rows[count++].rbp = (struct cfi_value){.place = CFI_AT_CFA, .offset = -16};
	for (unsigned int i = 0; i < count; i++)
		expected[i] = rule_of(rows[i], &unsupported);
	for (unsigned int i = 0; i < 2 * count; i++)
		add_row(builder, TEXT + i * 64, TEXT + i * 64 + 64, rows[i % count]);
	table = finish(builder, &counts);
	assert_int_equal(counts.unsupported, 2);
	for (unsigned int i = 0; i < 2 * count; i++)
		assert_memory_equal(find(table, TEXT + i * 64), &expected[i % count],
				    sizeof(*expected));
	free(table);
}

static void padding_has_the_rule_before_it(void **state)
{
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;

	(void)state;
	add(builder, 0, 0x11, 8);
	add(builder, 0x20, 0x30, 8); /* 15 bytes of padding */
	add(builder, 0x40, 0x50, 16); /* 16 bytes */
	table = finish(builder, &counts);
	assert_int_equal(cfa_at(table, 0x11), 8);
	assert_int_equal(cfa_at(table, 0x1f), 8);
	assert_int_equal(cfa_at(table, 0x30), 0);
	assert_int_equal(cfa_at(table, 0x3f), 0);
	assert_int_equal(cfa_at(table, 0x40), 16);
	/* Equal rules are merged: 8, none, 16, none. */
	assert_int_equal(counts.rows, 4);
	free(table);
}

static void overlapping_functions_are_dropped(void **state)
{
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;

	(void)state;
	add(builder, 0x10, 0x30, 16);
	add(builder, 0, 0x20, 8);
	add(builder, 0, 0x10, 24);
	table = finish(builder, &counts);
	assert_int_equal(cfa_at(table, 0), 8);
	assert_int_equal(cfa_at(table, 0x1f), 8);
	assert_int_equal(cfa_at(table, 0x20), 0);
	assert_int_equal(counts.overlapping, 2);
	free(table);
}

static void later_sources_fill_gaps(void **state)
{
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;

	(void)state;
	add(builder, 0x100, 0x120, 8);
	add(builder, 0x140, 0x160, 8);
	add(builder, 0x180, 0x1a0, 8);
	assert_int_equal(table_builder_end_source(builder), 0);
	add(builder, 0xf0, 0x110, 16); /* its second half is known */
	add(builder, 0x110, 0x118, 24); /* all of it is known */
	add(builder, 0x118, 0x190, 32); /* around a whole range */
	add(builder, 0x1a0, 0x1b0, 40);
	assert_int_equal(table_builder_end_source(builder), 0);
	assert_int_equal(table_builder_end_source(builder), 0);
	add(builder, 0, 0x10, 48);
	add(builder, 0xff, 0x1ff, 56);
	table = finish(builder, &counts);
	for (uint64_t at = 0; at < 0x1ff; at++) {
		int64_t expected = at < 0x10    ? 48
				   : at < 0xf0  ? 0
				   : at < 0x100 ? 16
				   : at < 0x120 ? 8
				   : at < 0x140 ? 32
				   : at < 0x160 ? 8
				   : at < 0x180 ? 32
				   : at < 0x1a0 ? 8
				   : at < 0x1b0 ? 40
						: 56;

		assert_int_equal(cfa_at(table, at), expected);
	}
	assert_int_equal(counts.overlapping, 0);
	free(table);
}

/* The ranges that were passed: how many, and the end of the last one. */
struct seen {
	unsigned int count;
	uint64_t end;
};

static int see_range(void *arg, uint64_t start, uint64_t end,
		     const struct stackbeat_unwind_rule *rule)
{
	struct seen *seen = arg;

	assert_true(start < end);
	assert_true(start >= seen->end);
	assert_int_equal(rule->kind_base & 0xf, STACKBEAT_UNWIND_CALLER);
	seen->end = end;
	return ++seen->count == 7 ? 5 : 0;
}

/* None is empty, however two sources overlap; and ranges of one rule that meet are one. */
static void ranges_are_sorted_and_merged(void **state)
{
	struct table_builder *builder = new_builder();
	struct seen seen = {0};

	(void)state;
	add(builder, 0x100, 0x200, 8);
	add(builder, 0x200, 0x280, 8);
	assert_int_equal(table_builder_end_source(builder), 0);
	add(builder, 0x80, 0x280, 16);
	assert_int_equal(table_builder_end_source(builder), 0);
	assert_int_equal(table_builder_each_range(builder, see_range, &seen), 0);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.end, TEXT + 0x280);
	for (uint64_t i = 0; i < 10; i++)
		add(builder, 0x1000 + 0x100 * i, 0x1080 + 0x100 * i, 8);
	assert_int_equal(table_builder_end_source(builder), 0);
	seen = (struct seen){0};
	assert_int_equal(table_builder_each_range(builder, see_range, &seen), 5);
	assert_int_equal(seen.count, 7);
	table_builder_free(builder);
}

static void signal_frames_replace_others(void **state)
{
	const struct cfi_row signal = {.kind = CFI_SIGNAL};
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;

	(void)state;
	add_row(builder, TEXT + 0xff, TEXT + 0x109, signal);
	add(builder, 0, 0x100, 8);
	add(builder, 0x100, 0x109, 16);
	add(builder, 0x109, 0x140, 24);
	table = finish(builder, &counts);
	assert_int_equal(cfa_at(table, 0xfe), 8);
	for (uint64_t at = 0xff; at < 0x109; at++)
		assert_int_equal(find(table, TEXT + at)->kind_base, STACKBEAT_UNWIND_SIGNAL);
	assert_int_equal(cfa_at(table, 0x109), 24);
	free(table);
}

static void the_outermost_frame(void **state)
{
	uint64_t unsupported;
	struct stackbeat_unwind_rule rule =
		rule_of((struct cfi_row){.kind = CFI_END}, &unsupported);

	(void)state;
	assert_int_equal(rule.kind_base, STACKBEAT_UNWIND_END);
	assert_int_equal(unsupported, 0);
}

struct gaps {
	uint64_t list[16];
	size_t count;
};

static int take_gap(void *arg, uint64_t start, uint64_t end)
{
	struct gaps *gaps = arg;

	gaps->list[gaps->count++] = start - TEXT;
	gaps->list[gaps->count++] = end - TEXT;
	return gaps->count == 16 ? -ECANCELED : 0;
}

static void expect_gaps(const struct table_builder *builder, uint64_t start, uint64_t end,
			const uint64_t *expected, size_t count)
{
	struct gaps gaps = {0};

	assert_int_equal(table_builder_each_gap(builder, TEXT + start, TEXT + end, take_gap, &gaps),
			 0);
	assert_int_equal(gaps.count, count);
	assert_memory_equal(gaps.list, expected, count * sizeof(*expected));
}

static void gaps_are_found(void **state)
{
	struct table_builder *builder = new_builder();
	struct gaps gaps = {.count = 14};

	(void)state;
	expect_gaps(builder, 0, 0x100, (uint64_t[]){0, 0x100}, 2);
	add(builder, 0x10, 0x20, 8);
	add(builder, 0x20, 0x30, 16);
	add(builder, 0x40, 0x50, 8);
	/* The source has not ended. */
	expect_gaps(builder, 0, 0x100, (uint64_t[]){0, 0x100}, 2);
	assert_int_equal(table_builder_end_source(builder), 0);
	expect_gaps(builder, 0, 0x60, (uint64_t[]){0, 0x10, 0x30, 0x40, 0x50, 0x60}, 6);
	expect_gaps(builder, 0x18, 0x38, (uint64_t[]){0x30, 0x38}, 2);
	expect_gaps(builder, 0x10, 0x30, NULL, 0);
	expect_gaps(builder, 0x50, 0x50, NULL, 0);
	assert_int_equal(table_builder_each_gap(builder, TEXT, TEXT + 0x100, take_gap, &gaps),
			 -ECANCELED);
	assert_int_equal(gaps.count, 16);
	table_builder_free(builder);
}

/* A row for each address, with random rules. */
static void find_equals_the_rows_at_each_address(void **state)
{
	enum { SIZE = 20000 };
	static uint16_t expected[SIZE];
	struct stackbeat_unwind_table *table;
	struct table_counts counts;

	(void)state;
	for (unsigned int seed = 0; seed < 20; seed++) {
		struct table_builder *builder = new_builder();
		uint64_t at = 0;

		srand(seed);
		while (at < SIZE) {
			uint64_t size = 1 + (uint64_t)rand() % (seed % 2 ? 2000 : 4);
			uint16_t cfa = (uint16_t)(8 + 8 * (rand() % 50));

			if (size > SIZE - at)
				size = SIZE - at;
			add(builder, at, at + size, cfa);
			for (uint64_t end = at + size; at < end; at++)
				expected[at] = cfa;
		}
		table = finish(builder, &counts);
		for (at = 0; at < SIZE; at++)
			assert_int_equal(cfa_at(table, at), expected[at]);
		free(table);
	}
}

static void rules_are_limited(void **state)
{
	struct table_builder *builder = new_builder();
	struct cfi_row row;
	int err = 0;
	size_t count;

	(void)state;
	for (count = 0; count <= STACKBEAT_UNWIND_RULES_MAX && !err; count++) {
		row = rsp_row((int64_t)count * 8);
		err = table_builder_add(builder, TEXT + count, TEXT + count + 1, &row);
	}
	assert_int_equal(err, -E2BIG);
	/* One rule is for unknown code. */
	assert_int_equal(count, STACKBEAT_UNWIND_RULES_MAX);
	table_builder_free(builder);
}

static void code_is_limited(void **state)
{
	const uint64_t size = (uint64_t)STACKBEAT_UNWIND_BLOCKS_MAX * STACKBEAT_UNWIND_BLOCK;
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;

	(void)state;
	add(builder, 0, 1, 8);
	add(builder, size, size + 1, 8);
	assert_int_equal(table_builder_finish(builder, NULL, &table, &counts), -E2BIG);
	assert_null(table);
	table_builder_free(builder);
}

/* A table whose last block ends beyond the address space would be refused as damaged. */
static void code_ends_before_the_address_space(void **state)
{
	const uint64_t last = -(uint64_t)STACKBEAT_UNWIND_BLOCK;
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;

	(void)state;
	add_row(builder, last, last + 16, rsp_row(8));
	assert_int_equal(table_builder_finish(builder, NULL, &table, &counts), -E2BIG);
	table_builder_free(builder);
	builder = new_builder();
	add_row(builder, last - 16, last - 1, rsp_row(8));
	table = finish(builder, &counts);
	assert_true(stackbeat_unwind_check(table, table->size));
	free(table);
}

static void nothing_makes_no_table(void **state)
{
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;

	(void)state;
	add(builder, 5, 5, 8);
	assert_int_equal(table_builder_finish(builder, NULL, &table, &counts), -ENOENT);
	assert_null(table);
	table_builder_free(builder);
	table_builder_free(NULL);
}

/* Runs of code with frame pointers */

#define FRAMED_SIZE 512u
/* What follows push %rbp; mov %rsp,%rbp, and the ret of a function. */
#define FRAMED_BODY 4u
#define FRAMED_RET (FRAMED_SIZE - 1)

/* Adds a function with a frame pointer, at a multiple of FRAMED_SIZE. */
static void add_framed(struct table_builder *builder, uint64_t number)
{
	struct cfi_row pushed = rsp_row(16), framed;
	uint64_t start = TEXT + number * FRAMED_SIZE;

	pushed.rbp = (struct cfi_value){.place = CFI_AT_CFA, .offset = -16};
	framed = pushed;
	framed.base = CFI_RBP;
	add_row(builder, start, start + 1, rsp_row(8));
	add_row(builder, start + 1, start + FRAMED_BODY, pushed);
	add_row(builder, start + FRAMED_BODY, start + FRAMED_RET, framed);
	add_row(builder, start + FRAMED_RET, start + FRAMED_SIZE, rsp_row(8));
}

/* A table_code with one call, at an address. */
static bool may_call(void *arg, uint64_t start, uint64_t end)
{
	return *(uint64_t *)arg - start < end - start;
}

/* Checks the runs of the table of a builder, which is freed; `ends`: start and end of each. */
static void check_runs(struct table_builder *builder, uint64_t call, const uint32_t ends[][2],
		       size_t count)
{
	const struct table_code code = {may_call, &call};
	struct stackbeat_unwind_table *table;
	struct stackbeat_unwind_view view;
	struct table_counts counts;

	assert_int_equal(table_builder_finish(builder, &code, &table, &counts), 0);
	assert_true(stackbeat_unwind_check(table, table->size));
	stackbeat_unwind_open(table, &view);
	assert_int_equal(view.run_count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(view.runs[i].start, ends[i][0]);
		assert_int_equal(view.runs[i].end, ends[i][1]);
	}
	table_builder_free(builder);
	free(table);
}

static void functions_with_frame_pointers_are_a_run(void **state)
{
	static const uint32_t all[][2] = {{FRAMED_BODY, 3 * FRAMED_SIZE - 1}},
			      cut[][2] = {{FRAMED_BODY, FRAMED_RET},
					  {FRAMED_SIZE + FRAMED_BODY, 3 * FRAMED_SIZE - 1}};
	/* In a body, in a prologue, at a ret. */
	static const uint64_t calls[] = {100, FRAMED_SIZE, FRAMED_RET};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct table_builder *builder = new_builder();

		for (uint64_t number = 0; number < 3; number++)
			add_framed(builder, number);
		check_runs(builder, TEXT + calls[i], i ? cut : all, i ? 2 : 1);
	}
}

/* Nothing has called these: what leads to them is on the stack without a call. */
static void rows_without_caller_end_a_run(void **state)
{
	static const uint32_t cut[][2] = {{FRAMED_BODY, FRAMED_RET},
					  {2 * FRAMED_SIZE + FRAMED_BODY, 3 * FRAMED_SIZE - 1}};
	static const enum cfi_kind kinds[] = {CFI_SIGNAL, CFI_END, CFI_GO_SWITCH};

	(void)state;
	for (size_t i = 0; i <= sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct table_builder *builder = new_builder();

		add_framed(builder, 0);
		/* The last one of all is a gap. */
		if (i < sizeof(kinds) / sizeof(kinds[0]))
			add_row(builder, TEXT + FRAMED_SIZE, TEXT + 2 * FRAMED_SIZE,
				(struct cfi_row){.kind = kinds[i], .base = CFI_RSP});
		add_framed(builder, 2);
		check_runs(builder, 0, cut, 2);
	}
}

/* A rule of runs says that rbp is at CFA - 16, and the CFA at rbp + 16. */
static void other_frames_are_no_run(void **state)
{
	struct cfi_row row = rsp_row(16);

	(void)state;
	row.base = CFI_RBP;
	row.rbp = (struct cfi_value){.place = CFI_AT_CFA, .offset = -16};
	for (int i = 0; i < 4; i++) {
		struct table_builder *builder = new_builder();
		struct cfi_row other = row;
		uint32_t run[][2] = {{0, 2 * FRAMED_SIZE}};

		if (i == 1)
			other.base = CFI_RSP;
		else if (i == 2)
			other.offset = 24;
		else if (i == 3)
			other.rbp.offset = -24;
		add_row(builder, TEXT, TEXT + 2 * FRAMED_SIZE, other);
		check_runs(builder, TEXT + FRAMED_SIZE, run, !i);
	}
}

static void the_longest_runs_are_kept(void **state)
{
	const uint32_t count = STACKBEAT_UNWIND_RUNS_MAX + 2;
	struct table_builder *builder = new_builder();
	uint32_t ends[STACKBEAT_UNWIND_RUNS_MAX][2], kept = 0;

	(void)state;
	/* The third and the last but one are of one function, the others of two. */
	for (uint32_t i = 0; i < count; i++) {
		bool is_short = i == 2 || i == count - 2;

		add_framed(builder, (uint64_t)4 * i);
		if (is_short)
			continue;
		add_framed(builder, (uint64_t)4 * i + 1);
		ends[kept][0] = 4 * i * FRAMED_SIZE + FRAMED_BODY;
		ends[kept++][1] = (4 * i + 2) * FRAMED_SIZE - 1;
	}
	check_runs(builder, 0, ends, STACKBEAT_UNWIND_RUNS_MAX);
}

/* Functions with a frame pointer among others would be runs that a walk enters for one frame. */
static void few_functions_with_frame_pointers_are_no_runs(void **state)
{
	static const uint32_t run[][2] = {{FRAMED_BODY, FRAMED_RET}};
	const uint64_t twice = (uint64_t)2 * (FRAMED_RET - FRAMED_BODY);

	(void)state;
	for (uint64_t code = twice; code <= twice + 2; code += 2) {
		struct table_builder *builder = new_builder();

		add_framed(builder, 0);
		add_row(builder, TEXT + FRAMED_SIZE, TEXT + code, rsp_row(32));
		check_runs(builder, TEXT + FRAMED_SIZE, run, code == twice);
	}
}

/* A run, or the code between two, around each offset. */
static void code_is_narrowed_to_a_run(void **state)
{
	static const struct stackbeat_unwind_run runs[] = {{10, 20}, {30, 40}};
	const struct stackbeat_unwind_view view = {.runs = runs, .run_count = 2};
	static const uint64_t expected[][4] = {{0, 0, 10, 0},   {9, 0, 10, 0},   {10, 10, 20, 1},
					       {19, 10, 20, 1}, {20, 20, 30, 0}, {29, 20, 30, 0},
					       {30, 30, 40, 1}, {40, 40, 100, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		__u64 low = 0, high = 100;

		assert_int_equal(stackbeat_unwind_narrow(&view, expected[i][0], &low, &high),
				 expected[i][3]);
		assert_int_equal(low, expected[i][1]);
		assert_int_equal(high, expected[i][2]);
	}
}

/* Each byte of a small table is changed to each value: what the check accepts is safe to use. */
static void a_changed_table_is_refused_or_safe(void **state)
{
	struct table_builder *builder = new_builder();
	struct stackbeat_unwind_table *table;
	struct table_counts counts;

	(void)state;
	add(builder, 0, 1, 8);
	add(builder, 1, 0x120, 16);
	add(builder, 0x120, 0x150, 8);
	table = finish(builder, &counts);
	for (size_t at = 0; at < table->size; at++) {
		size_t size = table->size;
		unsigned char *bytes = (unsigned char *)table, old = bytes[at];

		for (unsigned int value = 0; value < 256; value++) {
			bytes[at] = (unsigned char)value;
			if (!stackbeat_unwind_check(table, size))
				continue;
			for (uint64_t address = 0; address < 0x300; address++)
				find(table, table->start + address);
		}
		bytes[at] = old;
	}
	assert_true(stackbeat_unwind_check(table, table->size));
	assert_false(stackbeat_unwind_check(table, table->size - 1));
	assert_false(stackbeat_unwind_check(table, sizeof(*table) - 1));
	free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_place_of_rbp),
		cmocka_unit_test(a_popped_rbp_is_unchanged),
		cmocka_unit_test(rbx_is_kept_where_it_fits),
		cmocka_unit_test(each_form_of_the_cfa),
		cmocka_unit_test(each_return_address),
		cmocka_unit_test(functions_in_any_order),
		cmocka_unit_test(steps_for_functions_in_any_order),
		cmocka_unit_test(steps_for_a_small_source),
		cmocka_unit_test(similar_rows_have_rules_of_their_own),
		cmocka_unit_test(padding_has_the_rule_before_it),
		cmocka_unit_test(overlapping_functions_are_dropped),
		cmocka_unit_test(later_sources_fill_gaps),
		cmocka_unit_test(ranges_are_sorted_and_merged),
		cmocka_unit_test(signal_frames_replace_others),
		cmocka_unit_test(the_outermost_frame),
		cmocka_unit_test(gaps_are_found),
		cmocka_unit_test(find_equals_the_rows_at_each_address),
		cmocka_unit_test(rules_are_limited),
		cmocka_unit_test(code_is_limited),
		cmocka_unit_test(code_ends_before_the_address_space),
		cmocka_unit_test(nothing_makes_no_table),
		cmocka_unit_test(functions_with_frame_pointers_are_a_run),
		cmocka_unit_test(rows_without_caller_end_a_run),
		cmocka_unit_test(other_frames_are_no_run),
		cmocka_unit_test(the_longest_runs_are_kept),
		cmocka_unit_test(few_functions_with_frame_pointers_are_no_runs),
		cmocka_unit_test(code_is_narrowed_to_a_run),
		cmocka_unit_test(a_changed_table_is_refused_or_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
