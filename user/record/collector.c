// SPDX-License-Identifier: GPL-2.0
#include "record/collector.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/param.h>
#include <time.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "mappings/address_space.h"
#include "mappings/mapped_files.h"
#include "mappings/opened_files.h"
#include "record/sample_queue.h"
#include "record/stack_copies.h"
#include "record/stack_table.h"
#include "record/verification.h"
#include "runtime/perf_map_watcher.h"
#include "source/device.h"
#include "source/generated_code.h"

/* How often to check for processes that have ended. */
#define CHECK_INTERVAL_NS NS_PER_SECOND
/* How often to check for pending metadata after the stop. */
#define PENDING_INTERVAL_NS 2000000
/* How often to look for the tables that copies of stacks wait for, after the stop, at least. */
#define TABLES_INTERVAL_NS 100000000
/*
 * How long a sample may take from its time until it is in its ring: an interrupt, in a guest that
 * may be descheduled.
 */
#define PUBLISH_NS 1000000

static int collector_open_file(uint64_t id, void *arg)
{
	return device_file_open(((const struct collector *)arg)->device, id);
}

static int release_file(uint64_t id, void *arg)
{
	return device_file_release(((const struct collector *)arg)->device, id);
}

static int collector_fold_stack(const struct stack *stack, void *arg)
{
	struct collector *collector = arg;

	return window_add(&collector->window, collector->labels, stack);
}

int collector_init(struct collector *collector, const struct labels *labels,
		   const char *save_directory, const struct sandbox_server *sandbox,
		   bool no_symbolize, struct error *error)
{
	const struct file_source source = {
		.open = collector_open_file,
		.release = release_file,
		.arg = collector,
	};
	int err;

	*collector = (struct collector){.labels = labels};
	collector->files = mapped_files_new("", &source, error);
	if (!collector->files)
		return -ENOMEM;
	if (window_init(&collector->window, collector->files))
		return error_errno(error, ENOMEM, "can't record");
	if (no_symbolize)
		mapped_files_skip_symbols(collector->files);
	if (save_directory) {
		err = mapped_files_save(collector->files, save_directory, sandbox, error);
		if (err)
			return err;
	}
	collector->spaces = address_spaces_new("", collector->files, error);
	if (!collector->spaces)
		return -ENOMEM;
	collector->stacks =
		stack_table_new(collector->spaces, labels->chosen, collector_fold_stack, collector);
	collector->names_kernel = !no_symbolize;
	if (collector->stacks)
		collector->queue = sample_queue_new(collector->spaces, collector->stacks);
	return collector->queue ? 0 : error_errno(error, ENOMEM, "can't record");
}

void collector_clear(struct collector *collector)
{
	window_clear(&collector->window);
	sample_queue_free(collector->queue);
	stack_copies_free(collector->copies);
	verification_free(collector->verification);
	unwind_tables_free(collector->tables);
	stack_table_free(collector->stacks);
	address_spaces_free(collector->spaces);
	mapped_files_free(collector->files);
	gone_parts_clear(&collector->gone);
	collector_leave_generated(collector);
}

static int move_text(const struct stackbeat_moved_text *moved, void *arg)
{
	return device_move_text(((const struct collector *)arg)->device, moved);
}

void collector_start(struct collector *collector, const struct device *device, bool same_pid_ns)
{
	collector->device = device;
	address_spaces_same_pid_ns(collector->spaces, same_pid_ns);
	address_spaces_on_moved_text(collector->spaces, move_text, collector);
	stack_table_use_parts(collector->stacks, &collector->gone);
	collector->gone_since = kernel_now_ns(CLOCK_MONOTONIC);
}

void collector_name_generated(struct collector *collector, bool is_perf, const struct cpulist *cpus)
{
	if (collector->names_kernel)
		collector->generated = generated_code_open(is_perf, cpus);
}

void collector_leave_generated(struct collector *collector)
{
	generated_code_close(collector->generated);
	collector->generated = NULL;
}

uint64_t collector_names_dropped(const struct collector *collector)
{
	return collector->gone.dropped + collector->generated_lost;
}

/* Unwind tables */

static int push_table(uint64_t file, const struct stackbeat_unwind_table *table, void *arg)
{
	return device_push_unwind_table(((const struct collector *)arg)->device, file, table);
}

static void report_table(const char *text, void *arg)
{
	const struct collector *collector = arg;

	collector->message(text, collector->message_arg);
}

static void note_stack(uint32_t cpu, uint64_t need, void *arg)
{
	device_note_stack(((const struct collector *)arg)->device, cpu, need);
}

static int use_copies(struct collector *collector, const struct collector_unwinding *unwinding)
{
	const struct stack_copies_config config = {
		.spaces = collector->spaces,
		.stacks = collector->stacks,
		.tables = collector->tables,
		.verification = collector->verification,
		.max_depth = unwinding->max_depth,
		.copy_size = unwinding->copy_size,
		.walked = note_stack,
		.arg = collector,
	};

	collector->copies = stack_copies_new(&config);
	if (!collector->copies)
		return -ENOMEM;
	sample_queue_set_copies(collector->queue, collector->copies);
	return 0;
}

int collector_use_tables(struct collector *collector, const struct collector_unwinding *unwinding,
			 struct error *error)
{
	size_t memory = collector->memory ? MIN(UNWIND_TABLES_BYTES_MAX, collector->memory / 4)
					  : UNWIND_TABLES_BYTES_MAX;
	const struct unwind_tables_config config = {
		.sandbox = unwinding->sandbox,
		.memory = unwinding->copy_size ? memory : 0,
		.cache = unwinding->cache,
		.push = push_table,
		.message = unwinding->message ? report_table : NULL,
		.arg = collector,
	};
	int err = 0;

	collector->message = unwinding->message;
	collector->message_arg = unwinding->arg;
	collector->tables = unwind_tables_new(collector->files, &config);
	if (!collector->tables)
		err = -errno;
	if (!err && unwinding->verifies) {
		collector->verification = verification_new(collector->files);
		err = collector->verification ? 0 : -ENOMEM;
	}
	if (!err && unwinding->copy_size)
		err = use_copies(collector, unwinding);
	return err ? error_errno(error, -err, "can't make unwind tables") : 0;
}

size_t collector_poll(const struct collector *collector, struct pollfd fds[COLLECTOR_FDS])
{
	size_t count = collector->tables ? unwind_tables_poll(collector->tables, fds) : 0;

	if (collector->generated)
		fds[count++] = (struct pollfd){
			.fd = generated_code_fd(collector->generated),
			.events = POLLIN,
		};
	return count;
}

/* Takes over opened files, makes their tables, and walks copies of stacks by them. */
static int run_tables(struct collector *collector)
{
	mapped_files_collect(collector->files);
	if (collector->tables)
		unwind_tables_run(collector->tables);
	if (!collector->copies)
		return 0;
	return stack_copies_run(collector->copies, now_ns(CLOCK_MONOTONIC));
}

/* Waits until the samples with copies of their stacks have their tables, or it is too late. */
static int finish_copies(struct collector *collector)
{
	const struct timespec interval = {.tv_nsec = TABLES_INTERVAL_NS};
	struct pollfd fds[UNWIND_TABLES_FDS];
	int err = run_tables(collector);

	while (!err && collector->copies && stack_copies_are_waiting(collector->copies)) {
		ppoll(fds, unwind_tables_poll(collector->tables, fds), &interval, NULL);
		err = run_tables(collector);
	}
	return err;
}

/* Draining */

static int collector_add_space(const struct stackbeat_address_space *record, void *arg)
{
	return address_spaces_add(((struct collector *)arg)->spaces, record);
}

static int collector_add_mapping(const struct stackbeat_mapping *record, void *arg)
{
	return address_spaces_add_mapping(((struct collector *)arg)->spaces, record);
}

static int collector_add_file(const struct stackbeat_file *record, void *arg)
{
	return mapped_files_add(((struct collector *)arg)->files, record);
}

static int drain_metadata(struct collector *collector, struct device *device, struct error *error)
{
	const struct metadata_handler handler = {
		.address_space = collector_add_space,
		.mapping = collector_add_mapping,
		.file = collector_add_file,
		.arg = collector,
	};
	int err = device_drain_metadata(device, &handler, error);

	return err == -ENOMEM ? error_errno(error, ENOMEM, "can't store the mappings") : err;
}

/* The changes of generated code that are read at once. */
struct announcements {
	struct gone_parts *parts;
	bool are_some;
};

static void collector_announce(const struct generated_code_change *change, void *arg)
{
	struct announcements *announcements = arg;

	gone_parts_announce(announcements->parts, change);
	announcements->are_some = true;
}

/* After a snapshot of the heads: the parts of all samples below are known then. */
static void update_gone_parts(struct collector *collector)
{
	struct announcements announcements = {.parts = &collector->gone};
	uint64_t lost = 0;
	bool changed;

	if (!collector->names_kernel)
		return;
	changed = gone_parts_refresh(&collector->gone, collector->device,
				     (uint64_t)collector->gone_since);
	if (collector->generated) {
		generated_code_read(collector->generated, collector_announce, &announcements);
		lost = generated_code_lost(collector->generated);
	}
	if (lost > collector->generated_lost) {
		gone_parts_lose_announcements(&collector->gone,
					      (uint64_t)kernel_now_ns(CLOCK_MONOTONIC));
		collector->generated_lost = lost;
		changed = true;
	}
	if (changed || announcements.are_some)
		stack_table_parts_changed(collector->stacks);
}

/*
 * Reads the metadata of the samples up to the snapshot of the heads. Sets *settled if none of it is
 * pending any more.
 */
static int drain_snapshot_metadata(struct collector *collector, struct device *device,
				   bool *settled, struct error *error)
{
	int err;

	*settled = !device_pending(device);
	err = drain_metadata(collector, device, error);
	if (err || *settled || device_pending(device))
		return err;
	*settled = true;
	return drain_metadata(collector, device, error);
}

/* Copies the samples that still wait, as their room in the rings is released. */
static void release_samples(struct collector *collector, struct device *device)
{
	sample_queue_keep(collector->queue);
	device_release(device);
}

/* `seen`: where all metadata up to the snapshot has arrived, as for sample_queue_flush(). */
static int drain_samples(struct collector *collector, struct device *device, bool settled,
			 uint64_t seen, int *store_err, struct error *error)
{
	int err;

	sample_queue_begin(collector->queue, settled);
	err = device_drain(device, sample_queue_repeat, sample_queue_sample, collector->queue,
			   error);
	if (!err && settled)
		*store_err = sample_queue_flush(collector->queue, seen);
	release_samples(collector, device);
	return err == -ENOMEM ? error_errno(error, ENOMEM, "can't store the samples") : err;
}

/* The last drain: a sample without memory for it is lost, but not those behind it. */
struct last_drain {
	struct sample_queue *queue;
	int err;
};

static uint64_t repeat_last(const void *data, uint64_t available, void *arg)
{
	return sample_queue_repeat(data, available, ((struct last_drain *)arg)->queue);
}

static int add_last(const struct stackbeat_sample *sample, const struct stackbeat_stack *stack,
		    void *arg)
{
	struct last_drain *last = arg;
	int err = sample_queue_sample(sample, stack, last->queue);

	last->err = last->err ? last->err : err;
	return 0;
}

static int drain_last_samples(struct collector *collector, struct device *device,
			      struct error *error)
{
	struct last_drain last = {.queue = collector->queue};
	struct error later = {""};
	int err, flush_err, later_err;

	sample_queue_begin(collector->queue, true);
	err = device_drain(device, repeat_last, add_last, &last, error);
	flush_err = sample_queue_flush(collector->queue, UINT64_MAX);
	release_samples(collector, device);
	last.err = last.err ? last.err : flush_err;
	if (!last.err)
		return err;
	later_err = error_errno(&later, -last.err, "can't store the samples");
	error_keep_first(&err, error, later_err, &later);
	return err;
}

static size_t used_memory(const struct collector *collector)
{
	return window_bytes(&collector->window) + stack_table_bytes(collector->stacks) +
	       collector->other_bytes;
}

void collector_limit_memory(struct collector *collector, size_t bytes, bool keeps_whole)
{
	collector->memory = bytes;
	if (bytes)
		sample_queue_limit(collector->queue, bytes / 4);
	collector->keeps_whole = keeps_whole;
}

static bool is_over_budget(const struct collector *collector)
{
	return collector->memory && used_memory(collector) > collector->memory / 2;
}

bool collector_is_full(const struct collector *collector)
{
	return is_over_budget(collector) || (collector->moments_are_full && collector->keeps_whole);
}

bool collector_take_is_due(const struct collector *collector)
{
	return collector_is_full(collector) &&
	       window_bytes(&collector->window) > collector->memory / 8;
}

static size_t moment_bytes(const struct collector *collector)
{
	return profile_moment_bytes(collector->window.profile) +
	       stack_table_totals(collector->stacks)->moment_bytes;
}

/* Merging stacks would not give the memory of moments back. */
static void bound_moments(struct collector *collector)
{
	if (!collector->memory || collector->moments_are_full ||
	    moment_bytes(collector) <= collector->memory / 6)
		return;
	stack_table_keep_moments(collector->stacks, false);
	collector->moments_are_full = true;
}

/* For the next window. */
static void keep_moments_again(struct collector *collector)
{
	if (!collector->moments_are_full)
		return;
	stack_table_keep_moments(collector->stacks, true);
	collector->moments_are_full = false;
}

/*
 * Keeps the budget of memory. Stacks without a recent sample leave the table first: as a part of
 * the window, they take less.
 */
static int collector_bound_memory(struct collector *collector)
{
	const size_t half = collector->memory / 2;
	size_t others, room;
	int err;

	bound_moments(collector);
	if (!is_over_budget(collector) || used_memory(collector) < collector->bound_at)
		return 0;
	err = stack_table_fold(collector->stacks);
	if (!err && is_over_budget(collector) &&
	    (!collector->keeps_whole || used_memory(collector) > collector->memory)) {
		others = used_memory(collector) - window_bytes(&collector->window);
		/*
		 * To half of what is left: the next time is not soon. But the mappings of others
		 * must not cost all stacks.
		 */
		room = others < half ? (half - others) / 2 : 0;
		err = window_reduce(&collector->window, collector->labels,
				    MAX(room, collector->memory / 8) +
					    profile_moment_bytes(collector->window.profile));
	}
	/* The next pass is delayed too if nothing could be merged. */
	collector->bound_at = used_memory(collector) + collector->memory / 16;
	return err;
}

/* Where all metadata up to the snapshot has arrived. `err`: of sample_queue_flush(). */
static int collect_garbage(struct collector *collector, uint64_t seen, int64_t now, int err)
{
	bool check_alive = now >= collector->next_check;

	if (!err)
		err = address_spaces_collect_garbage(collector->spaces, seen, (uint64_t)now,
						     check_alive);
	stack_table_sweep(collector->stacks);
	if (!err && check_alive) {
		if (collector->copies)
			stack_copies_mark(collector->copies);
		if (collector->verification)
			verification_mark(collector->verification);
		mapped_files_sweep(collector->files);
		collector->next_check = now + CHECK_INTERVAL_NS;
	}
	return err;
}

/* Metadata may be pending at each drain: nothing here waits for it. */
static int collector_watch(struct collector *collector, int64_t now)
{
	if (now >= collector->next_watch) {
		mapped_files_watch(collector->files);
		collector->other_bytes = address_spaces_bytes(collector->spaces) +
					 sample_queue_bytes(collector->queue) +
					 mapped_files_bytes(collector->files) +
					 gone_parts_bytes(&collector->gone);
		if (collector->tables)
			collector->other_bytes += unwind_tables_list_bytes(collector->tables);
		if (collector->copies)
			collector->other_bytes += stack_copies_bytes(collector->copies);
		if (collector->verification)
			collector->other_bytes += verification_bytes(collector->verification);
		collector->next_watch = now + CHECK_INTERVAL_NS;
	}
	return collector_bound_memory(collector);
}

int collector_drain(struct collector *collector, struct device *device, struct error *error)
{
	const uint64_t seen = (uint64_t)(kernel_now_ns(CLOCK_MONOTONIC) - PUBLISH_NS);
	int64_t now;
	int err, store_err = 0, tables_err;
	bool settled;

	device_snapshot_heads(device);
	update_gone_parts(collector);
	err = drain_snapshot_metadata(collector, device, &settled, error);
	if (!err)
		err = drain_samples(collector, device, settled, seen, &store_err, error);
	now = kernel_now_ns(CLOCK_MONOTONIC);
	if (!err && settled)
		store_err = collect_garbage(collector, seen, now, store_err);
	tables_err = run_tables(collector);
	if (err)
		return err;
	store_err = store_err ? store_err : tables_err;
	if (!store_err)
		store_err = collector_watch(collector, now);
	return store_err ? error_errno(error, -store_err, "can't store the samples") : 0;
}

/* Waits until no metadata is pending. */
static int drain_last_metadata(struct collector *collector, struct device *device,
			       struct error *warning, struct error *error)
{
	const struct timespec interval = {.tv_nsec = PENDING_INTERVAL_NS};
	int64_t deadline = now_ns(CLOCK_MONOTONIC) + COLLECT_WAIT_S * NS_PER_SECOND;
	int err = 0;

	while (!err && device_pending(device)) {
		err = drain_metadata(collector, device, error);
		if (now_ns(CLOCK_MONOTONIC) >= deadline) {
			error_set(
				warning, ETIMEDOUT,
				"the kernel has not sent the mappings of all samples within %d s: "
				"some have no mappings",
				COLLECT_WAIT_S);
			break;
		}
		nanosleep(&interval, NULL);
	}
	return err ? err : drain_metadata(collector, device, error);
}

int collector_finish(struct collector *collector, struct device *device, struct error *warning,
		     struct error *error)
{
	int err;

	struct error later = {""};
	int later_err;

	*warning->text = '\0';
	device_snapshot_heads(device);
	update_gone_parts(collector);
	err = drain_last_metadata(collector, device, warning, error);
	later_err = drain_last_samples(collector, device, &later);
	error_keep_first(&err, error, later_err, &later);
	later_err = finish_copies(collector);
	if (later_err) {
		later_err = error_errno(&later, -later_err, "can't store the samples");
		error_keep_first(&err, error, later_err, &later);
	}
	if (collector->tables)
		unwind_tables_stop(collector->tables);
	address_spaces_finish(collector->spaces);
	mapped_files_finish(collector->files);
	return err;
}

/* Replaces the perf maps of the window by those that are open now. */
static int update_window(struct collector *collector, bool forget, struct error *error)
{
	struct window *window = &collector->window;
	struct perf_map_fd *maps;
	size_t count;
	int err = stack_table_fold(collector->stacks);

	if (!err)
		err = address_spaces_take_perf_maps(collector->spaces, forget, &maps, &count);
	if (err)
		return error_errno(error, -err, "can't take the samples");
	window_set_perf_maps(window, maps, count);
	return 0;
}

int collector_take(struct collector *collector, struct window *taken, struct error *error)
{
	int err = update_window(collector, true, error);

	*taken = (struct window){0};
	collector->bound_at = 0;
	if (!err && window_take(&collector->window, taken))
		err = error_errno(error, ENOMEM, "can't take the samples");
	if (err)
		return err;
	keep_moments_again(collector);
	collector->gone_since = MAX(collector->gone_since,
				    kernel_now_ns(CLOCK_MONOTONIC) - GONE_PARTS_SAMPLE_AGE_NS);
	return 0;
}

int collector_take_last(struct collector *collector, struct window *taken, struct error *error)
{
	uint64_t missing = stack_table_fold_last(collector->stacks);
	struct perf_map_fd *maps;
	size_t count;
	int err = address_spaces_take_perf_maps(collector->spaces, true, &maps, &count);

	*taken = collector->window;
	collector->window = (struct window){0};
	if (!err)
		window_set_perf_maps(taken, maps, count);
	if (missing)
		return error_set(error, ENOMEM, "out of memory: %" PRIu64 " samples are missing",
				 missing);
	return err ? error_errno(error, -err, "symbols of JIT code are missing") : 0;
}

int collector_peek(struct collector *collector, struct window **window, struct error *error)
{
	*window = &collector->window;
	return update_window(collector, false, error);
}

void collector_verify(struct collector *collector, const struct sandbox_server *sandbox,
		      unsigned int timeout_s)
{
	if (collector->verification)
		verification_run(collector->verification, sandbox, timeout_s);
}

void collector_stop(struct collector *collector)
{
	if (collector->tables)
		unwind_tables_stop(collector->tables);
	mapped_files_abandon(collector->files);
	collector_leave_generated(collector);
}
