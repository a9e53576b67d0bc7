// SPDX-License-Identifier: GPL-2.0
#include "report/call_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/hash.h"
#include "pprof/labels.h"
#include "pprof/service.h"
#include "report/frame_name.h"

struct frame {
	uint32_t name;
	enum frame_kind kind;
	bool inlined;
};

/* The node of the leaf of a stack below a group, plus 1; 0: not known. */
struct known_leaf {
	uint32_t group, leaf;
};

struct builder {
	const struct profile *profile; /* whose samples are added */
	bool is_base;
	double scale; /* of the values of the profile */
	double rest; /* of the scaled values so far, which are integers: their sum stays exact */
	struct calltree *tree;
	size_t name_capacity, node_capacity;
	struct hash name_table, node_table;
	struct frame *frames; /* of all locations, each innermost first */
	size_t frame_count, frame_capacity;
	size_t nodes_left, name_bytes_left;
	bool too_large;
	size_t *first_frame; /* index of each location's first frame; one more at the end */
	/*
	 * What was found for earlier samples: stacks repeat, and a search for each frame of each
	 * sample would wait for memory most of the time.
	 */
	struct known_leaf *leaves; /* by stack */
	uint32_t *groups; /* nodes of label sets, plus 1; 0: not known */
	bool has_services; /* the groups are services, which are not known by the label sets alone
			    */
	uint32_t profiler; /* node of the profiler's own samples; CALLTREE_NONE: none yet */
	uint32_t from; /* name of the function where stacks begin; HASH_NONE: none */
	struct frame *path; /* frames of a stack, from its root */
	size_t path_count, path_capacity;
};

int64_t add_saturated(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return b < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

int64_t subtract_saturated(int64_t a, int64_t b)
{
	int64_t difference;

	if (__builtin_sub_overflow(a, b, &difference))
		return b < 0 ? INT64_MAX : INT64_MIN;
	return difference;
}

int64_t magnitude(int64_t value)
{
	if (value == INT64_MIN)
		return INT64_MAX;
	return value < 0 ? -value : value;
}

static bool name_equal(const void *context, uint32_t index, const void *key)
{
	return !strcmp(((const struct calltree *)context)->names[index], key);
}

/* Returns the index of a name, or HASH_NONE when out of memory, or if a limit is exceeded. */
static uint32_t call_tree_intern(struct builder *builder, const char *name)
{
	struct calltree *tree = builder->tree;
	size_t size = strlen(name) + 1;
	uint32_t hash, index;

	if (size > builder->name_bytes_left) {
		builder->too_large = true;
		return HASH_NONE;
	}
	builder->name_bytes_left -= size;
	hash = hash_string(HASH_START, name);
	index = hash_find(&builder->name_table, hash, name_equal, tree, name);
	if (index != HASH_NONE)
		return index;
	if (tree->name_count >= HASH_NONE ||
	    array_add_string(&tree->names, &builder->name_capacity, &tree->name_count, name))
		return HASH_NONE;
	index = tree->name_count - 1;
	return hash_add(&builder->name_table, hash, index) ? HASH_NONE : index;
}

static int call_tree_add_frame(struct builder *builder, const char *name, enum frame_kind kind,
			       bool inlined)
{
	struct frame frame = {call_tree_intern(builder, name), kind, inlined};

	if (frame.name == HASH_NONE ||
	    array_reserve(&builder->frames, &builder->frame_capacity, builder->frame_count, 1,
			  sizeof(*builder->frames)))
		return -ENOMEM;
	builder->frames[builder->frame_count++] = frame;
	return 0;
}

static int add_unresolved_frame(struct builder *builder, const struct profile_location *location)
{
	char *name = address_name(builder->profile, location);
	int err;

	if (!name)
		return -ENOMEM;
	err = call_tree_add_frame(builder, name, FRAME_UNRESOLVED, false);
	free(name);
	return err;
}

static int call_tree_add_location(struct builder *builder, const struct profile_location *location)
{
	const struct profile *profile = builder->profile;
	const struct profile_line *lines = profile_lines(profile, location);
	enum frame_kind kind =
		is_kernel_file(location_file(profile, location)) ? FRAME_KERNEL : FRAME_USER;
	int err = 0;

	if (!location->line_count)
		return add_unresolved_frame(builder, location);
	for (uint32_t i = 0; i < location->line_count && !err; i++) {
		const char *name = function_name(profile, lines[i].function);

		err = *name ? call_tree_add_frame(builder, name, kind, i + 1 < location->line_count)
			    : add_unresolved_frame(builder, location);
	}
	return err;
}

static int call_tree_add_locations(struct builder *builder)
{
	const struct profile *profile = builder->profile;
	size_t count = profile->locations.count;

	builder->frame_count = 0;
	free(builder->first_frame);
	builder->first_frame = calloc(count + 1, sizeof(*builder->first_frame));
	if (!builder->first_frame)
		return -ENOMEM;
	for (size_t i = 1; i < count; i++) {
		builder->first_frame[i] = builder->frame_count;
		if (call_tree_add_location(builder, &profile->locations.items[i]))
			return -ENOMEM;
	}
	builder->first_frame[count] = builder->frame_count;
	return 0;
}

/* Returns the index of a new node, or CALLTREE_NONE when out of memory, or if a limit is exceeded.
 */
static uint32_t add_node(struct builder *builder, uint32_t parent, struct frame frame)
{
	struct calltree *tree = builder->tree;

	if (!builder->nodes_left) {
		builder->too_large = true;
		return CALLTREE_NONE;
	}
	builder->nodes_left--;
	if (frame.name == HASH_NONE || array_reserve(&tree->nodes, &builder->node_capacity,
						     tree->node_count, 1, sizeof(*tree->nodes)))
		return CALLTREE_NONE;
	tree->nodes[tree->node_count] = (struct calltree_node){
		.name = frame.name,
		.parent = parent,
		.first_child = CALLTREE_NONE,
		.next_sibling = CALLTREE_NONE,
		.kind = frame.kind,
		.inlined = frame.inlined,
	};
	return tree->node_count++;
}

struct node_key {
	uint32_t parent;
	struct frame frame;
};

static bool node_equal(const void *context, uint32_t index, const void *key)
{
	const struct calltree_node *node = &((const struct calltree *)context)->nodes[index];
	const struct node_key *wanted = key;

	return node->parent == wanted->parent && node->name == wanted->frame.name &&
	       node->kind == wanted->frame.kind;
}

/* Returns the child of `parent` for a frame, which is added if necessary, or CALLTREE_NONE. */
static uint32_t call_tree_descend(struct builder *builder, uint32_t parent, struct frame frame)
{
	struct node_key key = {parent, frame};
	uint32_t hash, node;

	hash = hash_number(HASH_START, (uint64_t)parent << 32 | frame.name);
	hash = hash_number(hash, frame.kind);
	node = hash_find(&builder->node_table, hash, node_equal, builder->tree, &key);
	if (node != HASH_NONE) {
		builder->tree->nodes[node].inlined &= frame.inlined;
		return node;
	}
	node = add_node(builder, parent, frame);
	if (node == CALLTREE_NONE || hash_add(&builder->node_table, hash, node))
		return CALLTREE_NONE;
	return node;
}

/* Returns the text of a label, to be freed, or NULL when out of memory. */
static char *label_text(const struct profile *profile, uint32_t label_set, const char *key)
{
	const uint32_t *labels = profile_set_labels(profile, label_set);
	char *text;

	for (uint32_t i = 0; i < profile->label_sets.items[label_set].count; i++) {
		const struct profile_label *label = &profile->labels.items[labels[i]];

		if (strcmp(profile_text(profile, label->key), key))
			continue;
		if (label->text)
			return strdup(profile_text(profile, label->text));
		return asprintf(&text, "%s %" PRId64, key, label->number) < 0 ? NULL : text;
	}
	return asprintf(&text, "(no %s)", key) < 0 ? NULL : text;
}

static uint32_t descend_to_service(struct builder *builder, size_t sample)
{
	struct frame frame = {call_tree_intern(builder, service_of(builder->profile, sample)),
			      FRAME_GROUP, false};

	return frame.name == HASH_NONE ? CALLTREE_NONE : call_tree_descend(builder, 0, frame);
}

static uint32_t descend_to_group(struct builder *builder, uint32_t label_set, const char *group)
{
	char *text = label_text(builder->profile, label_set, group);
	struct frame frame = {HASH_NONE, FRAME_GROUP, false};

	if (text)
		frame.name = call_tree_intern(builder, text);
	free(text);
	return frame.name == HASH_NONE ? CALLTREE_NONE : call_tree_descend(builder, 0, frame);
}

static void add_value(struct builder *builder, uint32_t node, int64_t value)
{
	struct calltree *tree = builder->tree;
	int64_t *self = builder->is_base ? &tree->nodes[node].base_self : &tree->nodes[node].self;
	int64_t *total = builder->is_base ? &tree->base_total : &tree->total;

	*self = add_saturated(*self, value);
	*total = add_saturated(*total, magnitude(value));
}

/*
 * The node of the truncated stacks with the cause in a label set, below `node`; `node` if they are
 * complete. What is outermost in a truncated stack was called, unlike what starts threads.
 */
static uint32_t descend_to_truncated(struct builder *builder, uint32_t label_set, uint32_t node)
{
	const struct profile *profile = builder->profile;
	const uint32_t *labels = profile_set_labels(profile, label_set);
	struct frame frame = {HASH_NONE, FRAME_TRUNCATED, false};
	char *name;

	for (uint32_t i = 0; i < profile->label_sets.items[label_set].count; i++) {
		const struct profile_label *label = &profile->labels.items[labels[i]];

		if (!label->text || strcmp(profile_text(profile, label->key), LABEL_TRUNCATED_KEY))
			continue;
		if (asprintf(&name, "[truncated: %s]", profile_text(profile, label->text)) < 0)
			return CALLTREE_NONE;
		frame.name = call_tree_intern(builder, name);
		free(name);
		return frame.name == HASH_NONE ? CALLTREE_NONE
					       : call_tree_descend(builder, node, frame);
	}
	return node;
}

#define PROFILER_COMM "stackbeat"
#define PROFILER_NODE "[profiler: " PROFILER_COMM "]"

/* Whether samples with a label set are of the profiler's own processes. */
static bool is_of_profiler(const struct profile *profile, uint32_t label_set)
{
	const uint32_t *labels = profile_set_labels(profile, label_set);

	for (uint32_t i = 0; i < profile->label_sets.items[label_set].count; i++) {
		const struct profile_label *label = &profile->labels.items[labels[i]];

		if (label_of_key(profile_text(profile, label->key)) == LABEL_COMM)
			return !strcmp(profile_text(profile, label->text), PROFILER_COMM);
	}
	return false;
}

static uint32_t descend_to_profiler(struct builder *builder)
{
	struct frame frame = {call_tree_intern(builder, PROFILER_NODE), FRAME_GROUP, false};

	if (frame.name == HASH_NONE)
		return CALLTREE_NONE;
	builder->profiler = call_tree_descend(builder, 0, frame);
	return builder->profiler;
}

/* Whether whole stacks begin at the leaf. */
static bool is_inverted(const struct calltree_options *options)
{
	return options->upwards && !options->from;
}

/* Returns the node that the stack of a sample is below, or CALLTREE_NONE. */
static uint32_t find_group(struct builder *builder, const struct profile_sample *sample,
			   const struct calltree_options *options)
{
	const uint32_t label_set = sample->label_set;
	uint32_t *known = &builder->groups[label_set], node = 0;

	if (*known)
		return *known - 1;
	if (options->folds_profiler && is_of_profiler(builder->profile, label_set)) {
		node = descend_to_profiler(builder);
		*known = node == CALLTREE_NONE ? 0 : node + 1;
		return node;
	}
	if (builder->has_services)
		node = descend_to_service(builder,
					  (size_t)(sample - builder->profile->samples.items));
	else if (options->group)
		node = descend_to_group(builder, label_set, options->group);
	if (options->marks_truncated && !is_inverted(options) && node != CALLTREE_NONE)
		node = descend_to_truncated(builder, label_set, node);
	if (node != CALLTREE_NONE && !builder->has_services)
		*known = node + 1;
	return node;
}

/* Sets the path to the frames of a stack. Returns 0 or -ENOMEM. */
static int collect_path(struct builder *builder, uint32_t stack)
{
	const struct profile *profile = builder->profile;
	const uint32_t *locations = profile_stack_locations(profile, stack);
	size_t depth = profile->stacks.items[stack].count, first, frame;

	builder->path_count = 0;
	while (depth--) {
		first = builder->first_frame[locations[depth]];
		frame = builder->first_frame[locations[depth] + 1];
		if (array_reserve(&builder->path, &builder->path_capacity, builder->path_count,
				  frame - first, sizeof(*builder->path)))
			return -ENOMEM;
		while (frame-- > first)
			builder->path[builder->path_count++] = builder->frames[frame];
	}
	return 0;
}

/*
 * Returns the last node of a stack that begins at the function `from`, or `upwards` without such a
 * function at the leaf, below the node `node`; `node` if the stack does not have the function; or
 * CALLTREE_NONE.
 */
static uint32_t descend_from(struct builder *builder, uint32_t stack, uint32_t node, bool upwards)
{
	size_t at = 0;

	if (collect_path(builder, stack))
		return CALLTREE_NONE;
	if (upwards) {
		at = builder->path_count;
		while (builder->from != HASH_NONE && at &&
		       builder->path[at - 1].name != builder->from)
			at--;
		while (at-- > 0 && node != CALLTREE_NONE)
			node = call_tree_descend(builder, node, builder->path[at]);
		return node;
	}
	while (at < builder->path_count && builder->path[at].name != builder->from)
		at++;
	for (; at < builder->path_count && node != CALLTREE_NONE; at++)
		node = call_tree_descend(builder, node, builder->path[at]);
	return node;
}

/* Returns the node of the leaf of a stack, below the node `node`, or CALLTREE_NONE. */
static uint32_t descend_stack(struct builder *builder, uint32_t stack, uint32_t node)
{
	const struct profile *profile = builder->profile;
	const uint32_t *locations = profile_stack_locations(profile, stack);
	size_t depth = profile->stacks.items[stack].count, first, frame;

	while (depth-- && node != CALLTREE_NONE) {
		first = builder->first_frame[locations[depth]];
		frame = builder->first_frame[locations[depth] + 1];
		while (frame-- > first && node != CALLTREE_NONE)
			node = call_tree_descend(builder, node, builder->frames[frame]);
	}
	return node;
}

static int call_tree_add_sample(struct builder *builder, const struct profile_sample *sample,
				int64_t value, const struct calltree_options *options)
{
	struct known_leaf *known = &builder->leaves[sample->stack];
	uint32_t group_node = find_group(builder, sample, options), leaf;

	if (group_node == CALLTREE_NONE)
		return -ENOMEM;
	if (group_node == builder->profiler) {
		add_value(builder, group_node, value);
		return 0;
	}
	if (!known->leaf || known->group != group_node) {
		leaf = options->from || options->upwards
			       ? descend_from(builder, sample->stack, group_node, options->upwards)
			       : descend_stack(builder, sample->stack, group_node);
		if (leaf == CALLTREE_NONE)
			return -ENOMEM;
		*known = (struct known_leaf){group_node, leaf + 1};
	}
	leaf = known->leaf - 1;
	if (options->marks_truncated && is_inverted(options))
		leaf = descend_to_truncated(builder, sample->label_set, leaf);
	if (leaf == CALLTREE_NONE)
		return -ENOMEM;
	add_value(builder, leaf, value);
	return 0;
}

/* The value of a sample in the tree; 0: it is not there. */
static int64_t value_of(struct builder *builder, const struct calltree_options *options,
			size_t sample)
{
	size_t type = builder->is_base ? options->base_type : options->sample_type;
	int64_t value = profile_values(builder->profile, sample)[type];
	double exact, scaled;

	if (options->only_positive && value < 0)
		return 0;
	if (builder->scale == 1)
		return value;
	exact = (double)value * builder->scale + builder->rest;
	scaled = round(exact);
	builder->rest = exact - scaled;
	if (fabs(scaled) >= 0x1p63)
		return scaled < 0 ? INT64_MIN : INT64_MAX;
	return (int64_t)scaled;
}

static int call_tree_add_samples(struct builder *builder, const struct calltree_options *options)
{
	const struct profile *profile = builder->profile;

	builder->has_services = options->group && !strcmp(options->group, GROUP_SERVICE) &&
				!calltree_has_label(profile, GROUP_SERVICE);
	free(builder->leaves);
	free(builder->groups);
	builder->leaves = calloc(profile->stacks.count, sizeof(*builder->leaves));
	builder->groups = calloc(profile->label_sets.count, sizeof(*builder->groups));
	if (!builder->leaves || !builder->groups)
		return -ENOMEM;
	for (size_t i = 0; i < profile->samples.count; i++) {
		int64_t value = value_of(builder, options, i);

		if (value &&
		    call_tree_add_sample(builder, &profile->samples.items[i], value, options))
			return -ENOMEM;
	}
	return 0;
}

static int add_profile(struct builder *builder, const struct calltree_options *options)
{
	return call_tree_add_locations(builder) || call_tree_add_samples(builder, options) ? -ENOMEM
											   : 0;
}

static int add_base(struct builder *builder, const struct calltree_options *options,
		    struct error *error)
{
	const struct profile *profile = builder->profile;
	int64_t total = 0;

	builder->profile = options->base;
	builder->is_base = true;
	if (add_profile(builder, options))
		return -ENOMEM;
	builder->profile = profile;
	builder->is_base = false;
	if (options->absolute)
		return 0;
	for (size_t i = 0; i < profile->samples.count; i++)
		total = add_saturated(total, magnitude(value_of(builder, options, i)));
	if (!(options->whole && options->base_whole) && (!total || !builder->tree->base_total))
		return error_set(error, ENODATA,
				 "%s has no samples, and can't be scaled to the other profile",
				 total ? "the base" : "the profile");
	builder->tree->unscaled_total = total;
	if (options->whole && options->base_whole)
		builder->scale = (double)options->base_whole / (double)options->whole;
	else
		builder->scale = (double)builder->tree->base_total / (double)total;
	return 0;
}

static void sum_up(struct calltree *tree)
{
	struct calltree_node *node, *parent;
	size_t i;

	for (i = tree->node_count; i-- > 0;) {
		node = &tree->nodes[i];
		node->total = add_saturated(node->total, node->self);
		node->base_total = add_saturated(node->base_total, node->base_self);
		node->weight = add_saturated(node->weight, magnitude(node->self));
		node->weight = add_saturated(node->weight, magnitude(node->base_self));
		if (!i)
			break;
		parent = &tree->nodes[node->parent];
		parent->total = add_saturated(parent->total, node->total);
		parent->base_total = add_saturated(parent->base_total, node->base_total);
		parent->weight = add_saturated(parent->weight, node->weight);
	}
}

static int compare_siblings(const void *left, const void *right, void *context)
{
	const struct calltree *tree = context;
	const struct calltree_node *a = &tree->nodes[*(const uint32_t *)left];
	const struct calltree_node *b = &tree->nodes[*(const uint32_t *)right];

	if (a->parent != b->parent)
		return a->parent < b->parent ? -1 : 1;
	if (a->weight != b->weight)
		return a->weight > b->weight ? -1 : 1;
	if (a->name != b->name)
		return strcmp(tree->names[a->name], tree->names[b->name]);
	return (int)a->kind - (int)b->kind;
}

static int link_children(struct calltree *tree)
{
	uint32_t *order = calloc(tree->node_count, sizeof(*order));
	struct calltree_node *node, *parent;
	size_t i;

	if (!order)
		return -ENOMEM;
	for (i = 1; i < tree->node_count; i++)
		order[i] = i;
	qsort_r(order + 1, tree->node_count - 1, sizeof(*order), compare_siblings, tree);
	/* Each is linked before its siblings: insert the last one first. */
	for (i = tree->node_count - 1; i > 0; i--) {
		node = &tree->nodes[order[i]];
		parent = &tree->nodes[node->parent];
		node->next_sibling = parent->first_child;
		parent->first_child = order[i];
	}
	free(order);
	return 0;
}

static int build_tree(struct builder *builder, const struct calltree_options *options,
		      struct error *error)
{
	struct frame root = {call_tree_intern(builder, "all"), FRAME_ROOT, false};
	int err;

	if (add_node(builder, CALLTREE_NONE, root) == CALLTREE_NONE)
		return -ENOMEM;
	builder->from = options->from ? call_tree_intern(builder, options->from) : HASH_NONE;
	if (options->from && builder->from == HASH_NONE)
		return -ENOMEM;
	err = options->base ? add_base(builder, options, error) : 0;
	if (err)
		return err;
	if (add_profile(builder, options))
		return -ENOMEM;
	if (builder->scale == 1)
		builder->tree->unscaled_total = builder->tree->total;
	sum_up(builder->tree);
	builder->tree->slots = calloc(builder->tree->name_count, sizeof(*builder->tree->slots));
	return builder->tree->slots ? link_children(builder->tree) : -ENOMEM;
}

int calltree_new(const struct profile *profile, const struct calltree_options *options,
		 struct calltree **tree, struct error *error)
{
	struct builder builder = {
		.profile = profile,
		.profiler = CALLTREE_NONE,
		.scale = 1,
		.nodes_left = options->node_max ? options->node_max : CALLTREE_NODES_MAX,
		.name_bytes_left =
			options->name_bytes_max ? options->name_bytes_max : CALLTREE_NAME_BYTES_MAX,
	};
	int err = -ENOMEM;

	builder.tree = calloc(1, sizeof(*builder.tree));
	if (builder.tree)
		err = build_tree(&builder, options, error);
	hash_clear(&builder.name_table);
	hash_clear(&builder.node_table);
	free(builder.frames);
	free(builder.first_frame);
	free(builder.leaves);
	free(builder.groups);
	free(builder.path);
	if (!err) {
		*tree = builder.tree;
		return 0;
	}
	calltree_free(builder.tree);
	if (err != -ENOMEM)
		return err;
	if (builder.too_large)
		return error_set(error, E2BIG,
				 "the call tree is too large: its stacks or names "
				 "are no program's");
	return error_errno(error, ENOMEM, "the call tree");
}

int calltree_find_types(const struct profile *profile, const char *name,
			struct calltree_options *options, struct error *error)
{
	const struct profile_value_type *type, *base_type;
	struct error base_error;
	int err = profile_find_type(profile, name, &options->sample_type, error);

	if (err || !options->base)
		return err;
	type = &profile->types.items[options->sample_type];
	err = profile_find_type(options->base, profile_text(profile, type->type),
				&options->base_type, &base_error);
	if (err)
		return error_set(error, -err, "the base: %s", base_error.text);
	base_type = &options->base->types.items[options->base_type];
	if (strcmp(profile_text(profile, type->unit), profile_text(options->base, base_type->unit)))
		return error_set(error, EINVAL, "'%s' has the unit '%s', and '%s' in the base",
				 profile_text(profile, type->type),
				 profile_text(profile, type->unit),
				 profile_text(options->base, base_type->unit));
	return 0;
}

void calltree_free(struct calltree *tree)
{
	size_t i;

	if (!tree)
		return;
	for (i = 0; i < tree->name_count; i++)
		free(tree->names[i]);
	free(tree->names);
	free(tree->slots);
	free(tree->nodes);
	free(tree);
}

bool calltree_has_label(const struct profile *profile, const char *key)
{
	for (size_t i = 1; i < profile->labels.count; i++) {
		if (!strcmp(profile_text(profile, profile->labels.items[i].key), key))
			return true;
	}
	return false;
}

bool calltree_has_other_processes(const struct profile *profile)
{
	for (size_t i = 0; i < profile->samples.count; i++) {
		if (!is_of_profiler(profile, profile->samples.items[i].label_set))
			return true;
	}
	return false;
}

uint32_t calltree_next(const struct calltree *tree, uint32_t node, bool skip)
{
	if (!skip && tree->nodes[node].first_child != CALLTREE_NONE)
		return tree->nodes[node].first_child;
	while (node && tree->nodes[node].next_sibling == CALLTREE_NONE)
		node = tree->nodes[node].parent;
	return node ? tree->nodes[node].next_sibling : CALLTREE_NONE;
}

static int call_tree_compare_functions(const void *left, const void *right, void *context)
{
	const struct calltree_function *a = left, *b = right;
	const struct calltree *tree = context;
	int64_t flat_a = magnitude(subtract_saturated(a->flat, a->base_flat));
	int64_t flat_b = magnitude(subtract_saturated(b->flat, b->base_flat));
	int64_t cum_a = magnitude(subtract_saturated(a->cum, a->base_cum));
	int64_t cum_b = magnitude(subtract_saturated(b->cum, b->base_cum));

	if (flat_a != flat_b)
		return flat_a > flat_b ? -1 : 1;
	if (cum_a != cum_b)
		return cum_a > cum_b ? -1 : 1;
	return strcmp(tree->names[a->name], tree->names[b->name]);
}

/* The functions below a node, in the order in which they were found. */
struct function_sums {
	struct calltree_function *functions;
	uint32_t *active; /* occurrences of each in the current stack of the traversal */
	size_t count, capacity, active_capacity;
};

/* Returns the index of a name among the functions, which may be new, or SIZE_MAX: no memory. */
static size_t function_of_name(struct function_sums *sums, const struct calltree *tree,
			       uint32_t name)
{
	uint32_t *slot = &tree->slots[name];

	if (*slot)
		return *slot - 1;
	if (array_reserve(&sums->functions, &sums->capacity, sums->count, 1,
			  sizeof(*sums->functions)) ||
	    array_reserve(&sums->active, &sums->active_capacity, sums->count, 1,
			  sizeof(*sums->active)))
		return SIZE_MAX;
	sums->functions[sums->count] = (struct calltree_function){.name = name};
	sums->active[sums->count++] = 0;
	*slot = (uint32_t)sums->count;
	return *slot - 1;
}

static int sum_functions(const struct calltree *tree, uint32_t top, struct function_sums *sums)
{
	const uint32_t end = calltree_next(tree, top, true);
	uint32_t at = top, next, left;

	while ((next = calltree_next(tree, at, false)) != end) {
		const struct calltree_node *node = &tree->nodes[next];
		const size_t i = function_of_name(sums, tree, node->name);
		struct calltree_function *function;

		if (i == SIZE_MAX)
			return -ENOMEM;
		for (left = at; left != node->parent; left = tree->nodes[left].parent)
			sums->active[tree->slots[tree->nodes[left].name] - 1]--;
		at = next;
		function = &sums->functions[i];
		if (!sums->active[i]++) {
			function->cum = add_saturated(function->cum, node->total);
			function->base_cum = add_saturated(function->base_cum, node->base_total);
		}
		function->flat = add_saturated(function->flat, node->self);
		function->base_flat = add_saturated(function->base_flat, node->base_self);
	}
	return 0;
}

/* Sums up the descendants of `top`. Returns the functions, which the caller frees; NULL: no memory.
 */
static struct calltree_function *functions_below(const struct calltree *tree, uint32_t top,
						 size_t *count)
{
	struct function_sums sums = {.count = 0};
	int err = array_reserve(&sums.functions, &sums.capacity, 0, 1, sizeof(*sums.functions));

	if (!err)
		err = sum_functions(tree, top, &sums);
	for (size_t i = 0; i < sums.count; i++)
		tree->slots[sums.functions[i].name] = 0;
	free(sums.active);
	*count = sums.count;
	if (!err)
		return sums.functions;
	free(sums.functions);
	return NULL;
}

struct calltree_function *calltree_sums(const struct calltree *tree, uint32_t top)
{
	struct calltree_function *sums = calloc(tree->name_count, sizeof(*sums)), *functions;
	size_t count;

	functions = sums ? functions_below(tree, top, &count) : NULL;
	if (!functions) {
		free(sums);
		return NULL;
	}
	for (size_t i = 0; i < tree->name_count; i++)
		sums[i].name = (uint32_t)i;
	for (size_t i = 0; i < count; i++)
		sums[functions[i].name] = functions[i];
	free(functions);
	return sums;
}

struct calltree_function *calltree_functions(const struct calltree *tree, uint32_t top,
					     size_t *count)
{
	size_t found, kept = 0;
	struct calltree_function *functions = functions_below(tree, top, &found);

	if (!functions)
		return NULL;
	for (size_t i = 0; i < found; i++)
		if (functions[i].flat != functions[i].base_flat ||
		    functions[i].cum != functions[i].base_cum)
			functions[kept++] = functions[i];
	qsort_r(functions, kept, sizeof(*functions), call_tree_compare_functions, (void *)tree);
	*count = kept;
	return functions;
}
