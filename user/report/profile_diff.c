// SPDX-License-Identifier: GPL-2.0
#include "report/profile_diff.h"

#include <errno.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/utf8.h"
#include "pprof/blocks.h"
#include "pprof/profile.h"

/* The sums of both profiles in each block; SIDES arrays for each function, then for all. */
enum { NOW_FLAT, NOW_CUM, BASE_FLAT, BASE_CUM, SIDES };

struct block_sums {
	size_t blocks[2]; /* of the profile and of the base; at least 1 */
	size_t first[SIDES]; /* of the values of a function */
	size_t stride; /* values of a function */
	int64_t *values; /* by name of the tree */
	int64_t *totals; /* as of a function */
	struct calltree_function *functions; /* by name of the tree: sums */
};

static double count_samples(const struct profile *profile)
{
	double sum = 0;
	size_t type = 0;

	while (type < profile->types.count &&
	       strcmp(profile_text(profile, profile->types.items[type].type), "samples"))
		type++;
	if (type == profile->types.count)
		return (double)profile->samples.count;
	for (size_t i = 0; i < profile->samples.count; i++)
		sum += (double)magnitude(profile_values(profile, i)[type]);
	return sum;
}

static int64_t *side_of(const struct block_sums *sums, int64_t *values, int side)
{
	return values + sums->first[side];
}

/* Adds to the sum of a block, if the block exists. */
static void add_to_block(const struct block_sums *sums, int64_t *values, int side, size_t block,
			 int64_t value)
{
	int64_t *sum;

	if (block >= sums->blocks[side >= BASE_FLAT])
		return;
	sum = &side_of(sums, values, side)[block];
	*sum = add_saturated(*sum, value);
}

/* The block of a group of the tree, "block N"; 0 if the profile has none. */
static size_t block_of(const struct calltree *tree, uint32_t group)
{
	const char *name = tree->names[tree->nodes[group].name];
	const size_t length = strlen(LABEL_BLOCK_KEY " ");

	return strncmp(name, LABEL_BLOCK_KEY " ", length) ? 0 : strtoul(name + length, NULL, 10);
}

static int sum_block(const struct calltree *tree, uint32_t group, struct block_sums *sums)
{
	const struct calltree_node *node = &tree->nodes[group];
	const size_t block = block_of(tree, group);
	struct calltree_function *functions = calltree_sums(tree, group), *sum;

	if (!functions)
		return -ENOMEM;
	for (size_t name = 0; name < tree->name_count; name++) {
		const struct calltree_function *function = &functions[name];
		int64_t *values = sums->values + name * sums->stride;

		if (!function->cum && !function->base_cum)
			continue;
		add_to_block(sums, values, NOW_FLAT, block, function->flat);
		add_to_block(sums, values, NOW_CUM, block, function->cum);
		add_to_block(sums, values, BASE_FLAT, block, function->base_flat);
		add_to_block(sums, values, BASE_CUM, block, function->base_cum);
		sum = &sums->functions[name];
		sum->flat = add_saturated(sum->flat, function->flat);
		sum->cum = add_saturated(sum->cum, function->cum);
		sum->base_flat = add_saturated(sum->base_flat, function->base_flat);
		sum->base_cum = add_saturated(sum->base_cum, function->base_cum);
	}
	add_to_block(sums, sums->totals, NOW_CUM, block, node->total);
	add_to_block(sums, sums->totals, BASE_CUM, block, node->base_total);
	free(functions);
	return 0;
}

static int make_sums(const struct calltree *tree, size_t now_blocks, size_t base_blocks,
		     struct block_sums *sums)
{
	int err = 0;

	sums->blocks[0] = MAX(now_blocks, 1);
	sums->blocks[1] = MAX(base_blocks, 1);
	sums->first[NOW_CUM] = sums->blocks[0];
	sums->first[BASE_FLAT] = 2 * sums->blocks[0];
	sums->first[BASE_CUM] = sums->first[BASE_FLAT] + sums->blocks[1];
	sums->stride = sums->first[BASE_CUM] + sums->blocks[1];
	sums->values = calloc(tree->name_count, sums->stride * sizeof(*sums->values));
	sums->totals = calloc(sums->stride, sizeof(*sums->totals));
	sums->functions = calloc(tree->name_count, sizeof(*sums->functions));
	if (!sums->values || !sums->totals || !sums->functions)
		return -ENOMEM;
	for (uint32_t group = tree->nodes[0].first_child; group != CALLTREE_NONE && !err;
	     group = tree->nodes[group].next_sibling)
		err = sum_block(tree, group, sums);
	return err;
}

/* What all shares refer to. */
struct wholes {
	double now, base;
	bool is_chosen; /* not what is in the tree */
};

/*
 * Parts of another total, or differences of absolute values, are compared as if each block had the
 * same part of the total: that not all blocks are equal counts as noise, too.
 */
static void level_totals(const struct block_sums *sums, const struct wholes *wholes)
{
	if (!wholes->is_chosen)
		return;
	for (size_t i = 0; i < sums->blocks[0]; i++)
		side_of(sums, sums->totals, NOW_CUM)[i] =
			(int64_t)(wholes->now / (double)sums->blocks[0]);
	for (size_t i = 0; i < sums->blocks[1]; i++)
		side_of(sums, sums->totals, BASE_CUM)[i] =
			(int64_t)(wholes->base / (double)sums->blocks[1]);
}

static void compare_function(const struct profile_diff *diff, const struct block_sums *sums,
			     const struct wholes *wholes, bool is_cum,
			     const struct calltree_function *function,
			     struct noise_difference *difference)
{
	int64_t *values = sums->values + function->name * sums->stride;
	const struct noise_share now = {
		.values = side_of(sums, values, is_cum ? NOW_CUM : NOW_FLAT),
		.totals = side_of(sums, sums->totals, NOW_CUM),
		.blocks = diff->now.blocks,
		.value = (double)(is_cum ? function->cum : function->flat),
		.total = wholes->now,
		.samples = diff->now.samples,
	};
	const struct noise_share base = {
		.values = side_of(sums, values, is_cum ? BASE_CUM : BASE_FLAT),
		.totals = side_of(sums, sums->totals, BASE_CUM),
		.blocks = diff->base.blocks,
		.value = (double)(is_cum ? function->base_cum : function->base_flat),
		.total = wholes->base,
		.samples = diff->base.samples,
	};

	noise_compare(&base, &now, difference);
}

static int64_t change_of(int64_t now, int64_t base)
{
	return magnitude(subtract_saturated(now, base));
}

static int compare_rows(const void *left, const void *right, void *context)
{
	const struct calltree_function *a = &((const struct profile_diff_row *)left)->function;
	const struct calltree_function *b = &((const struct profile_diff_row *)right)->function;
	const struct calltree *tree = context;
	int64_t flat_a = change_of(a->flat, a->base_flat), cum_a = change_of(a->cum, a->base_cum);
	int64_t flat_b = change_of(b->flat, b->base_flat), cum_b = change_of(b->cum, b->base_cum);

	if (flat_a != flat_b)
		return flat_a > flat_b ? -1 : 1;
	if (cum_a != cum_b)
		return cum_a > cum_b ? -1 : 1;
	return strcmp(tree->names[a->name], tree->names[b->name]);
}

/* Marks the rows that are no noise, among all functions of the profiles, flat and cum. */
static int select_rows(struct profile_diff *diff, size_t functions)
{
	double *p = calloc(2 * diff->count + 1, sizeof(*p));
	bool *is_real = calloc(2 * diff->count + 1, sizeof(*is_real));
	int err = p && is_real ? 0 : -ENOMEM;

	for (size_t i = 0; i < diff->count && !err; i++) {
		p[2 * i] = diff->rows[i].flat.p;
		p[2 * i + 1] = diff->rows[i].cum.p;
	}
	if (!err)
		err = noise_select(p, 2 * diff->count, 2 * functions, is_real);
	for (size_t i = 0; i < diff->count && !err; i++) {
		diff->rows[i].flat_is_real = is_real[2 * i];
		diff->rows[i].cum_is_real = is_real[2 * i + 1];
		diff->real += is_real[2 * i] || is_real[2 * i + 1];
	}
	free(p);
	free(is_real);
	return err;
}

static int make_diff_rows(const struct calltree *tree, const struct block_sums *sums,
			  const struct wholes *wholes, struct profile_diff *diff)
{
	size_t functions = 0;

	diff->rows = calloc(tree->name_count, sizeof(*diff->rows));
	if (!diff->rows)
		return -ENOMEM;
	for (uint32_t name = 0; name < tree->name_count; name++) {
		struct calltree_function *function = &sums->functions[name];
		struct profile_diff_row *row = &diff->rows[diff->count];

		functions += function->cum || function->base_cum;
		if (function->flat == function->base_flat && function->cum == function->base_cum)
			continue;
		function->name = name;
		row->function = *function;
		compare_function(diff, sums, wholes, false, function, &row->flat);
		compare_function(diff, sums, wholes, true, function, &row->cum);
		diff->count++;
	}
	qsort_r(diff->rows, diff->count, sizeof(*diff->rows), compare_rows, (void *)tree);
	return select_rows(diff, functions);
}

int profile_diff_make(const struct profile *profile, const struct calltree_options *options,
		      const struct calltree *tree, struct profile_diff *diff)
{
	struct wholes wholes = {
		.now = (double)tree->total,
		.base = (double)(options->base_whole ? options->base_whole : tree->base_total),
		.is_chosen = options->absolute ||
			     (options->base_whole && options->base_whole != tree->base_total) ||
			     (options->whole && options->whole != tree->unscaled_total),
	};
	struct block_sums sums = {.values = NULL};
	int err;

	/* The profile is scaled to the base. */
	if (wholes.is_chosen)
		wholes.now = wholes.base;
	*diff = (struct profile_diff){
		.whole = wholes.base,
		.now = {count_samples(profile), blocks_count(profile)},
		.base = {count_samples(options->base), blocks_count(options->base)},
	};
	err = make_sums(tree, diff->now.blocks, diff->base.blocks, &sums);
	if (!err) {
		level_totals(&sums, &wholes);
		err = make_diff_rows(tree, &sums, &wholes, diff);
	}
	free(sums.values);
	free(sums.totals);
	free(sums.functions);
	if (err)
		profile_diff_clear(diff);
	return err;
}

void profile_diff_clear(struct profile_diff *diff)
{
	free(diff->rows);
	*diff = (struct profile_diff){.rows = NULL};
}

static bool row_exceeds(const struct profile_diff_row *row, const char *name,
			const struct profile_diff_limit *limit)
{
	const double percent = 100 * row->cum.change;

	if (!row->cum_is_real || regexec(limit->regex, name, 0, NULL, 0))
		return false;
	return signbit(limit->percent) ? percent < limit->percent : percent > limit->percent;
}

void profile_diff_check(const struct profile_diff *diff, const struct calltree *tree,
			const struct profile_diff_limit *limits, size_t count, size_t *exceeded)
{
	for (size_t i = 0; i < diff->count * count; i++) {
		const struct profile_diff_limit *limit = &limits[i % count];
		const struct profile_diff_row *row = &diff->rows[i / count];
		const char *name = tree->names[row->function.name];

		if (!row_exceeds(row, name, limit))
			continue;
		fputs("stackbeat report: ", stderr);
		utf8_print(stderr, limit->text);
		fputs(": ", stderr);
		utf8_print(stderr, name);
		fprintf(stderr, " %+.2f%% of the total, +-%.2f%%\n", 100 * row->cum.change,
			100 * noise_interval(&row->cum));
		++*exceeded;
	}
}
