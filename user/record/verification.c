// SPDX-License-Identifier: GPL-2.0
#include "record/verification.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "mappings/address_space.h"
#include "mappings/mapped_files.h"
#include "mappings/mapping_history.h"
#include "mappings/opened_files.h"
#include "unwind/elfutils_walk.h"

/* Samples of one process in which a view is searched: they often follow each other. */
#define RECENT_VIEWS 64u
/* Stacks that a worker gets. */
#define STACKS_MAX 256u
/* A file that makes a worker slow leaves most of the time to the others. */
#define TIME_PARTS 8

struct verification_view {
	struct mapping_view view;
	uint64_t space; /* id */
	uint32_t generation;
};

struct kept_sample {
	size_t view; /* index */
	struct stackbeat_stack *stack; /* owned */
	uint64_t *frames; /* owned: the user part */
	uint16_t count;
	uint8_t stop; /* enum stackbeat_unwind_stop */
};

struct verification {
	struct mapped_files *files;
	struct verification_view *views;
	size_t view_count, view_capacity;
	struct kept_sample *samples;
	size_t sample_count, sample_capacity;
	struct verified_object *objects;
	size_t object_count, object_capacity;
	char **paths; /* of the objects */
	size_t path_count, path_capacity;
	size_t bytes;
	struct verification_result result;
};

struct verification *verification_new(struct mapped_files *files)
{
	struct verification *verification = calloc(1, sizeof(*verification));

	if (verification)
		verification->files = files;
	return verification;
}

/* Samples */

static void verification_drop(struct kept_sample *sample)
{
	explicit_bzero(sample->stack, sizeof(*sample->stack) + sample->stack->size);
	free(sample->stack);
	free(sample->frames);
}

static void drop_samples(struct verification *verification)
{
	for (size_t i = 0; i < verification->sample_count; i++)
		verification_drop(&verification->samples[i]);
	for (size_t i = 0; i < verification->view_count; i++)
		mapping_view_clear(&verification->views[i].view);
	verification->sample_count = 0;
	verification->view_count = 0;
	verification->bytes = 0;
}

void verification_free(struct verification *verification)
{
	if (!verification)
		return;
	drop_samples(verification);
	for (size_t i = 0; i < verification->path_count; i++)
		free(verification->paths[i]);
	free(verification->paths);
	free(verification->objects);
	free(verification->samples);
	free(verification->views);
	free(verification);
}

/* Sets *index to the index of the view for a sample. Returns 0 or -ENOMEM. */
static int verification_get_view(struct verification *verification,
				 const struct stackbeat_sample *sample, struct address_space *space,
				 size_t *index)
{
	struct verification_view *view;

	for (size_t i = verification->view_count;
	     i > 0 && verification->view_count - i < RECENT_VIEWS; i--) {
		view = &verification->views[i - 1];
		*index = i - 1;
		if (view->space == sample->address_space && view->generation == sample->generation)
			return 0;
	}
	if (array_reserve(&verification->views, &verification->view_capacity,
			  verification->view_count, 1, sizeof(*verification->views)))
		return -ENOMEM;
	view = &verification->views[verification->view_count];
	*view = (struct verification_view){.space = sample->address_space,
					   .generation = sample->generation};
	if (mapping_view_init(&view->view, space, sample->generation))
		return -ENOMEM;
	*index = verification->view_count++;
	verification->bytes += sizeof(*view) + mapping_view_bytes(&view->view);
	return 0;
}

static int verification_keep(struct verification *verification,
			     const struct stackbeat_sample *sample,
			     const struct stackbeat_stack *stack, struct address_space *space)
{
	const size_t stack_bytes = sizeof(*stack) + stack->size;
	const size_t frame_bytes = sample->user_frames * sizeof(sample->frames[0]);
	struct kept_sample kept = {.count = sample->user_frames, .stop = sample->user_stop};

	if (verification->bytes + stack_bytes + frame_bytes > VERIFICATION_BYTES_MAX ||
	    array_reserve(&verification->samples, &verification->sample_capacity,
			  verification->sample_count, 1, sizeof(*verification->samples)) ||
	    verification_get_view(verification, sample, space, &kept.view))
		return -ENOMEM;
	kept.stack = malloc(stack_bytes);
	kept.frames = malloc(frame_bytes);
	if (!kept.stack || !kept.frames) {
		free(kept.stack);
		free(kept.frames);
		return -ENOMEM;
	}
	memcpy(kept.stack, stack, stack_bytes);
	memcpy(kept.frames, sample->frames + sample->kernel_frames, frame_bytes);
	verification->samples[verification->sample_count++] = kept;
	verification->bytes += stack_bytes + frame_bytes;
	return 0;
}

void verification_add(struct verification *verification, const struct stackbeat_sample *sample,
		      const struct stackbeat_stack *stack, struct address_space *space)
{
	if (sample->address_space && sample->user_frames &&
	    verification_keep(verification, sample, stack, space))
		verification->result.dropped++;
}

void verification_mark(const struct verification *verification)
{
	for (size_t i = 0; i < verification->view_count; i++)
		mapping_view_mark(&verification->views[i].view, verification->files);
}

size_t verification_bytes(const struct verification *verification)
{
	return verification->bytes +
	       verification->sample_capacity * sizeof(*verification->samples) +
	       verification->view_capacity * sizeof(*verification->views);
}

/* Comparing */

/* Samples of one view, that a worker walks. */
struct verification_batch {
	struct verification *verification;
	const struct mapping_view *view;
	int64_t deadline; /* CLOCK_MONOTONIC, ns: of this batch */
	const struct kept_sample *samples[STACKS_MAX];
	struct stackbeat_stack *stacks[STACKS_MAX];
	size_t count, taken;
};

/* Returns a new object, or NULL without memory. */
static struct verified_object *add_object(struct verification *verification, const char *path)
{
	struct verified_object *object;

	if (array_reserve(&verification->objects, &verification->object_capacity,
			  verification->object_count, 1, sizeof(*verification->objects)) ||
	    array_add_string(&verification->paths, &verification->path_capacity,
			     &verification->path_count, path))
		return NULL;
	object = &verification->objects[verification->object_count++];
	memset(object, 0, sizeof(*object));
	object->path = verification->paths[verification->path_count - 1];
	return object;
}

/* Returns the object of a frame, or NULL when out of memory. */
static struct verified_object *get_object(struct verification_batch *batch, uint64_t address)
{
	struct verification *verification = batch->verification;
	const struct mapped_file *file;
	bool is_offset;
	uint32_t segment;
	const char *path;

	mapping_view_segments(batch->view, &address, &segment, 1);
	file = segment_file(verification->files, segment, &is_offset);
	path = file ? file->path : "";
	for (size_t i = 0; i < verification->object_count; i++) {
		if (!strcmp(verification->objects[i].path, path))
			return &verification->objects[i];
	}
	return add_object(verification, path);
}

/* Counts the caller of a frame. */
static void count_caller(struct verification_batch *batch, uint64_t address, bool is_leaf,
			 enum comparison comparison)
{
	struct verified_object *object = get_object(batch, is_leaf ? address : address - 1);

	if (!object)
		return;
	object->callers++;
	object->results[comparison]++;
}

/* elfutils does not know all frames that were interrupted: there, ours is one more. */
static bool is_same_frame(uint64_t ours, uint64_t theirs, bool is_leaf)
{
	return ours == theirs || (!is_leaf && ours == theirs + 1);
}

/* See elfutils_walk_stacks(). */
static void verification_compare(size_t stack, const struct elfutils_walk *walk, void *arg)
{
	struct verification_batch *batch = arg;
	const struct kept_sample *sample = batch->samples[stack];
	enum comparison result = COMPARED_EQUAL;
	size_t equal = 0;

	while (equal < sample->count && equal < walk->count &&
	       is_same_frame(sample->frames[equal], walk->frames[equal], !equal))
		equal++;
	if (equal < sample->count && equal < walk->count)
		result = COMPARED_DIFFERENT;
	else if (equal < sample->count && walk->end != ELFUTILS_COPY_ENDS &&
		 walk->end != ELFUTILS_MAX_DEPTH)
		result = COMPARED_LONGER;
	else if (equal < walk->count && sample->stop != STACKBEAT_STOP_MAX_DEPTH)
		result = COMPARED_SHORTER;
	for (size_t i = 0; i + 1 < equal; i++)
		count_caller(batch, sample->frames[i], !i, COMPARED_EQUAL);
	if (equal)
		count_caller(batch, sample->frames[equal - 1], equal == 1, result);
	batch->verification->result.results[result]++;
	if (result == COMPARED_LONGER && sample->stop == STACKBEAT_STOP_OUTERMOST)
		batch->verification->result.longer_outermost++;
	batch->taken++;
}

/* Walks */

static bool is_first(const struct mapping_view *view, size_t mapping)
{
	for (size_t i = 0; i < mapping; i++) {
		if (view->mappings[i].segment == view->mappings[mapping].segment &&
		    view->mappings[i].bias == view->mappings[mapping].bias)
			return false;
	}
	return true;
}

/* Returns an fd, or a negative errno value. */
static int verification_open(const struct mapped_files *files, const struct mapped_file *file)
{
	struct error problem;
	int fd = -EAGAIN;

	for (unsigned int i = 0; fd < 0 && fd != -ENOENT; i++)
		fd = mapped_file_open_candidate(files, file, i, &problem);
	return fd;
}

static int64_t left_ms(int64_t deadline)
{
	return (deadline - now_ns(CLOCK_MONOTONIC)) / NS_PER_MS;
}

/* Opens the files of a view, as long as there is time. Returns their number. */
static size_t open_modules(const struct verification_batch *batch,
			   struct elfutils_module modules[ELFUTILS_MODULES_MAX])
{
	const struct mapping_view *view = batch->view;
	size_t count = 0;

	for (size_t i = 0;
	     i < view->count && count < ELFUTILS_MODULES_MAX && left_ms(batch->deadline) > 0; i++) {
		const struct mapping *mapping = &view->mappings[i];
		const struct mapped_files *files = batch->verification->files;
		bool is_offset = false;
		const struct mapped_file *file = segment_file(files, mapping->segment, &is_offset);
		int fd = -ENOENT;

		if (file && !is_offset && is_first(view, i))
			fd = verification_open(files, file);
		if (fd >= 0)
			modules[count++] = (struct elfutils_module){0 - mapping->bias, fd};
	}
	return count;
}

static void verification_run_batch(struct verification_batch *batch,
				   const struct sandbox_server *sandbox)
{
	struct elfutils_module modules[ELFUTILS_MODULES_MAX];
	size_t count = open_modules(batch, modules);
	int64_t left = left_ms(batch->deadline);
	int err = -ETIMEDOUT;

	if (left > 0)
		err = elfutils_walk_stacks(sandbox, modules, count, batch->stacks, batch->count,
					   left, verification_compare, batch);
	if (err == -ETIMEDOUT)
		batch->verification->result.late += batch->count - batch->taken;
	else
		batch->verification->result.failed += batch->count - batch->taken;
	for (size_t i = 0; i < count; i++)
		close(modules[i].fd);
}

static int compare_views(const void *a, const void *b)
{
	const struct kept_sample *left = a, *right = b;

	return (left->view > right->view) - (left->view < right->view);
}

static uint64_t verified_differences(const struct verified_object *object)
{
	return object->callers - object->results[COMPARED_EQUAL];
}

static int compare_objects(const void *a, const void *b)
{
	const struct verified_object *left = a, *right = b;

	if (verified_differences(left) != verified_differences(right))
		return verified_differences(left) < verified_differences(right) ? 1 : -1;
	return (left->callers < right->callers) - (left->callers > right->callers);
}

void verification_run(struct verification *verification, const struct sandbox_server *sandbox,
		      unsigned int timeout_s)
{
	const int64_t begin = now_ns(CLOCK_MONOTONIC), time = timeout_s * NS_PER_SECOND;
	struct kept_sample *samples = verification->samples;
	size_t done = 0;

	if (verification->sample_count)
		qsort(samples, verification->sample_count, sizeof(*samples), compare_views);
	while (done < verification->sample_count) {
		struct verification_batch batch = {
			.verification = verification,
			.view = &verification->views[samples[done].view].view,
			.deadline = MIN(begin + time, now_ns(CLOCK_MONOTONIC) + time / TIME_PARTS)};
		size_t view = samples[done].view;

		for (; done < verification->sample_count && samples[done].view == view &&
		       batch.count < STACKS_MAX;
		     done++) {
			batch.samples[batch.count] = &samples[done];
			batch.stacks[batch.count++] = samples[done].stack;
		}
		verification_run_batch(&batch, sandbox);
	}
	drop_samples(verification);
	if (verification->object_count)
		qsort(verification->objects, verification->object_count,
		      sizeof(*verification->objects), compare_objects);
}

void verification_result(const struct verification *verification,
			 struct verification_result *result)
{
	*result = verification->result;
	result->objects = verification->objects;
	result->object_count = verification->object_count;
}
