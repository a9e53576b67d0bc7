// SPDX-License-Identifier: GPL-2.0
#include "source/perf_device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include <stackbeat.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "source/device_ops.h"
#include "source/netlink.h"
#include "source/perf_files.h"
#include "source/perf_spaces.h"
#include "source/record_buffer.h"

/*
 * How long a record may take from its time until it is in its ring: records of different CPUs are
 * taken in the order of their times, up to this time before now.
 */
#define PUBLISH_NS 1000000
/* Bytes of samples that wait for the reader, from which on no more are taken from the rings. */
#define WAITING_BYTES_MAX (256u << 20)
/* How often counts are read, which interrupts each CPU. */
#define CHECK_INTERVAL_NS (10 * NS_PER_SECOND)
/* The first of PERF_CONTEXT_*, as an unsigned number. */
#define CONTEXT_FIRST ((uint64_t)PERF_CONTEXT_MAX)

struct perf_device {
	struct device device;
	const struct perf_device_config *config;
	struct perf_events *events;
	struct perf_files *files;
	struct perf_spaces *spaces;
	struct record_buffer metadata, samples;
	size_t drained; /* bytes of `samples` that were handled */
	uint32_t *lost; /* by CPU: samples since its last one */
	size_t cpus;
	uint64_t stats[STACKBEAT_S_COUNT];
	const char *problem; /* of the rings, which was not reported yet; NULL: none */
	int64_t next_sweep, next_check; /* CLOCK_MONOTONIC, ns */
	uint32_t state; /* enum stackbeat_state */
};

static struct perf_device *perf_device(const struct device *device)
{
	return (struct perf_device *)device;
}

/* Samples */

/* Frames of a call chain, by part. */
struct chain_parts {
	const uint64_t *kernel, *user;
	size_t kernel_count, user_count;
};

/*
 * Source: PERF_SAMPLE_CALLCHAIN in perf_event_open(2): each part is behind its PERF_CONTEXT_*. The
 * user part is the last one, and may have any words of a stack: also markers, and kernel addresses.
 */
static void split_chain(const struct perf_sample *sample, struct chain_parts *parts)
{
	uint64_t context = 0;

	*parts = (struct chain_parts){.kernel_count = 0};
	for (uint64_t i = 0; i < sample->chain_length; i++) {
		const uint64_t *address = &sample->chain[i];

		if (context == (uint64_t)PERF_CONTEXT_USER) {
			if (*address >> 63)
				break;
			parts->user = parts->user_count++ ? parts->user : address;
		} else if (*address >= CONTEXT_FIRST) {
			context = *address;
		} else if (context == (uint64_t)PERF_CONTEXT_KERNEL) {
			parts->kernel = parts->kernel_count++ ? parts->kernel : address;
		}
	}
	parts->kernel_count = MIN(parts->kernel_count, STACKBEAT_KERNEL_FRAMES_MAX);
}

static bool is_excluded(const struct perf_device *device, const char *comm)
{
	for (size_t i = 0; i < device->config->excluded_comm_count; i++) {
		if (!strcmp(comm, device->config->excluded_comms[i]))
			return true;
	}
	return false;
}

/* With --no-inherit, only the processes of the command line are sampled. */
static bool is_inherited(const struct perf_device *device, uint32_t pid)
{
	const struct perf_events_config *events = &device->config->events;

	if (!device->config->no_inherit || !events->pid_count)
		return false;
	for (size_t i = 0; i < events->pid_count; i++) {
		if (events->pids[i] == pid)
			return false;
	}
	return true;
}

static bool is_in_kernel(const struct perf_record *record)
{
	return (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
}

/*
 * Whether a sample has a part that is recorded, as the module decides it: a thread with user memory
 * has a user part also in kernel mode. Events that leave out a mode would count its time all the
 * same: its ticks would be missed ones.
 */
static bool has_chosen_part(const struct perf_device *device, const struct perf_record *record)
{
	const uint32_t parts = device->config->events.parts;

	return (parts & STACKBEAT_PART_USER && record->sample.abi != PERF_SAMPLE_REGS_ABI_NONE) ||
	       (parts & STACKBEAT_PART_KERNEL && is_in_kernel(record));
}

static uint64_t hash_frames(const __u64 *frames, size_t count)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return hash;
}

static uint8_t kernel_stop_of(const struct perf_device *device, const struct perf_record *record,
			      const struct chain_parts *parts)
{
	if (!(device->config->events.parts & STACKBEAT_PART_KERNEL))
		return STACKBEAT_STOP_EXCLUDED;
	if (!is_in_kernel(record))
		return STACKBEAT_STOP_USER_MODE;
	return parts->kernel_count == STACKBEAT_KERNEL_FRAMES_MAX ? STACKBEAT_STOP_MAX_DEPTH
								  : STACKBEAT_STOP_OUTERMOST;
}

/*
 * Why the user part has ended. The kernel does not say why a chain of frame pointers ends: where a
 * copy of the stack was taken, the chain is used only if the copy can't be.
 */
static uint8_t user_stop_of(const struct perf_device *device, const struct perf_sample *sample,
			    size_t frames)
{
	if (!(device->config->events.parts & STACKBEAT_PART_USER))
		return STACKBEAT_STOP_EXCLUDED;
	if (sample->abi == PERF_SAMPLE_REGS_ABI_NONE)
		return STACKBEAT_STOP_NO_USER_MEMORY;
	if (frames == device->config->max_depth)
		return STACKBEAT_STOP_MAX_DEPTH;
	return device->config->events.stack_copy ? STACKBEAT_STOP_NO_TABLE
						 : STACKBEAT_STOP_OUTERMOST;
}

static int add_stack(struct perf_device *device, const struct perf_sample *sample)
{
	struct stackbeat_stack *stack =
		record_buffer_add(&device->samples, STACKBEAT_RECORD_STACK,
				  (uint16_t)(sample->stack_asked & DECODE_STACK_ASKED),
				  sizeof(*stack) + sample->stack_size);

	if (!stack)
		return -ENOMEM;
	memcpy(stack->registers, sample->registers, sizeof(stack->registers));
	stack->size = sample->stack_size;
	memcpy(stack->bytes, sample->stack, sample->stack_size);
	device->stats[STACKBEAT_S_STACK_COPIES]++;
	return 0;
}

/* Adds the record of a sample whose address space is announced. */
static int add_sample(struct perf_device *device, const struct perf_record *record,
		      const char *comm, uint64_t space, uint32_t generation)
{
	const struct perf_sample *from = &record->sample;
	const bool has_stack = from->abi == PERF_SAMPLE_REGS_ABI_64 && from->stack_size;
	const size_t before = device->samples.used;
	uint32_t *lost = record->cpu < device->cpus ? &device->lost[record->cpu] : NULL;
	struct stackbeat_sample *sample;
	struct chain_parts parts;
	uint16_t flags = 0;

	split_chain(from, &parts);
	/* The address of the registers, where the kernel has found no chain. */
	if (!parts.user_count && from->abi != PERF_SAMPLE_REGS_ABI_NONE) {
		parts.user = &from->registers[STACKBEAT_REGISTER_RIP];
		parts.user_count = 1;
	}
	parts.user_count = MIN(parts.user_count, device->config->max_depth);
	if (is_in_kernel(record))
		flags |= STACKBEAT_SAMPLE_KERNEL;
	if (from->abi == PERF_SAMPLE_REGS_ABI_32)
		flags |= STACKBEAT_SAMPLE_COMPAT;
	if (has_stack)
		flags |= STACKBEAT_SAMPLE_STACK;
	sample = record_buffer_add(&device->samples, STACKBEAT_RECORD_SAMPLE, flags,
				   sizeof(*sample) + (parts.kernel_count + parts.user_count) *
							     sizeof(*sample->frames));
	if (!sample)
		return -ENOMEM;
	sample->time = record->time;
	sample->weight = device->config->events.period_ns;
	sample->cpu = record->cpu;
	sample->pid = record->pid;
	sample->tid = record->tid;
	sample->lost = lost ? *lost : 0;
	sample->kernel_frames = (uint16_t)parts.kernel_count;
	sample->user_frames = (uint16_t)parts.user_count;
	sample->kernel_stop = kernel_stop_of(device, record, &parts);
	sample->user_stop = user_stop_of(device, from, parts.user_count);
	sample->generation = generation;
	sample->address_space = space;
	memcpy(sample->comm, comm, sizeof(sample->comm));
	if (parts.kernel_count)
		memcpy(sample->frames, parts.kernel, parts.kernel_count * sizeof(*sample->frames));
	if (parts.user_count)
		memcpy(sample->frames + parts.kernel_count, parts.user,
		       parts.user_count * sizeof(*sample->frames));
	sample->hash = hash_frames(sample->frames, parts.kernel_count + parts.user_count);
	if (has_stack && add_stack(device, from)) {
		device->samples.used = before;
		return -ENOMEM;
	}
	if (lost)
		*lost = 0;
	device->stats[STACKBEAT_S_SAMPLES]++;
	return 0;
}

static int take_sample(struct perf_device *device, const struct perf_record *record)
{
	char comm[STACKBEAT_COMM_SIZE];
	uint32_t generation = 0;
	uint64_t space = 0;
	int err = 0;

	device->stats[STACKBEAT_S_TICKS]++;
	perf_spaces_thread_comm(device->spaces, record->pid, record->tid, comm);
	/* Without a process id: of another pid namespace, or of a task that has ended. */
	if (!record->pid || record->pid == UINT32_MAX || is_excluded(device, comm) ||
	    is_inherited(device, record->pid) || !has_chosen_part(device, record)) {
		device->stats[STACKBEAT_S_FILTERED]++;
		return 0;
	}
	if (record->sample.abi != PERF_SAMPLE_REGS_ABI_NONE)
		err = perf_spaces_sample(device->spaces, record->pid, &space, &generation);
	return err ? err : add_sample(device, record, comm, space, generation);
}

/* Records */

static void note_lost(struct perf_device *device, uint32_t cpu, uint64_t count)
{
	device->stats[STACKBEAT_S_TICKS] += count;
	device->stats[STACKBEAT_S_LOST_FULL] += count;
	if (cpu < device->cpus)
		device->lost[cpu] += (uint32_t)count;
}

static int take_record(struct perf_device *device, const struct perf_record *record)
{
	switch (record->type) {
	case PERF_RECORD_SAMPLE:
		return take_sample(device, record);
	case PERF_RECORD_MMAP2:
		return perf_spaces_map(device->spaces, record->pid, &record->mapping);
	case PERF_RECORD_COMM:
		return perf_spaces_comm(device->spaces, record->pid, record->tid, record->comm,
					record->misc & PERF_RECORD_MISC_COMM_EXEC);
	case PERF_RECORD_FORK:
		return perf_spaces_fork(device->spaces, record->pid, record->tid,
					record->parent.pid, record->parent.tid);
	case PERF_RECORD_EXIT:
		perf_spaces_exit(device->spaces, record->pid, record->tid);
		return 0;
	case PERF_RECORD_LOST:
		/* The kernel does not say of which kind they were: mappings may be among them. */
		note_lost(device, record->cpu, record->lost);
		perf_events_note_lost(device->events, record->cpu);
		perf_spaces_lost(device->spaces);
		return 0;
	case PERF_RECORD_THROTTLE:
		device->stats[STACKBEAT_S_THROTTLED]++;
		return 0;
	default:
		return 0;
	}
}

/* Takes the records up to a time from the rings. What there is no memory for is lost. */
static void take_records(struct perf_device *device, uint64_t until)
{
	const struct perf_record *record;

	while (device->samples.used < WAITING_BYTES_MAX &&
	       (record = perf_events_next(device->events, until, &device->problem))) {
		if (!take_record(device, record))
			continue;
		note_lost(device, record->cpu, 1);
		perf_spaces_lost(device->spaces);
	}
	perf_events_release(device->events);
}

/* struct device_ops */

static void perf_close(struct device *base)
{
	struct perf_device *device = perf_device(base);

	perf_events_close(device->events);
	perf_spaces_free(device->spaces);
	perf_files_free(device->files);
	record_buffer_clear(&device->metadata);
	record_buffer_clear(&device->samples);
	free(device->lost);
	free(device);
}

static void perf_leave(struct device *base)
{
	struct perf_device *device = perf_device(base);

	perf_events_close(device->events);
	device->events = NULL;
	perf_files_leave(device->files);
	record_buffer_clear(&device->metadata);
	record_buffer_clear(&device->samples);
}

static int perf_fd(const struct device *base)
{
	return perf_events_fd(perf_device(base)->events);
}

/* All rings are mapped by the configuration. */
static int perf_map(struct device *base, const struct cpulist *cpus, struct error *error)
{
	(void)base;
	(void)cpus;
	(void)error;
	return 0;
}

static void perf_snapshot_heads(struct device *base)
{
	struct perf_device *device = perf_device(base);
	const int64_t now = now_ns(CLOCK_MONOTONIC);
	const uint64_t until = (uint64_t)(kernel_now_ns(CLOCK_MONOTONIC) - PUBLISH_NS);

	perf_events_snapshot(device->events);
	take_records(device, device->state == STACKBEAT_STATE_STOPPED ? UINT64_MAX : until);
	if (now < device->next_sweep)
		return;
	perf_spaces_sweep(device->spaces);
	perf_events_follow_cpus(device->events, now >= device->next_check);
	device->next_sweep = now + NS_PER_SECOND;
	if (now >= device->next_check)
		device->next_check = now + CHECK_INTERVAL_NS;
}

/* Metadata are written before the samples that need them. */
static bool perf_pending(const struct device *base)
{
	(void)base;
	return false;
}

static int perf_drain_metadata(struct device *base, const struct metadata_handler *handler,
			       struct error *error)
{
	struct record_buffer *buffer = &perf_device(base)->metadata;
	uint64_t tail = 0;
	int err;

	if (!buffer->used)
		return 0;
	err = decode_metadata(buffer->data, buffer->size, &tail, buffer->used, handler, error);
	record_buffer_remove(buffer, tail);
	return err;
}

static int perf_drain(struct device *base, decode_fast_path_fn *fast_path, decode_sample_fn *fn,
		      void *arg, struct error *error)
{
	struct perf_device *device = perf_device(base);
	const char *problem = device->problem;
	uint64_t tail = 0;
	int err = 0;

	if (device->samples.used)
		err = decode_records(device->samples.data, device->samples.size, &tail,
				     device->samples.used, fast_path, fn, arg, error);
	device->drained = tail;
	device->problem = NULL;
	if (err || !problem)
		return err;
	return error_set(error, EBADMSG, "a ring of perf events is damaged: %s", problem);
}

static void perf_release(struct device *base)
{
	struct perf_device *device = perf_device(base);

	record_buffer_remove(&device->samples, device->drained);
	device->drained = 0;
	/* By the stacks that were walked since the last time. */
	perf_events_adapt(device->events);
}

static int perf_file_open(const struct device *base, uint64_t file)
{
	return perf_files_open(perf_device(base)->files, file);
}

static int perf_file_release(const struct device *base, uint64_t file)
{
	return perf_files_release(perf_device(base)->files, file);
}

/* The reader itself walks stacks by its tables. */
static int perf_push_unwind_table(const struct device *base, uint64_t file,
				  const struct stackbeat_unwind_table *table)
{
	(void)base;
	(void)file;
	(void)table;
	return 0;
}

/* Stacks are walked by the reader, which knows the text. */
static int perf_move_text(const struct device *base, const struct stackbeat_moved_text *moved)
{
	(void)base;
	(void)moved;
	return 0;
}

/* The kernel keeps no symbols of modules that are gone. */
static int perf_module_symbols(const struct device *base, struct stackbeat_module_symbols *symbols)
{
	(void)base;
	(void)symbols;
	return -ENOENT;
}

static void perf_note_stack(const struct device *base, uint32_t cpu, uint64_t need)
{
	perf_events_note_stack(perf_device(base)->events, cpu, need);
}

static const struct device_ops perf_ops = {
	.close = perf_close,
	.leave = perf_leave,
	.fd = perf_fd,
	.map = perf_map,
	.snapshot_heads = perf_snapshot_heads,
	.pending = perf_pending,
	.drain_metadata = perf_drain_metadata,
	.drain = perf_drain,
	.release = perf_release,
	.file_open = perf_file_open,
	.file_release = perf_file_release,
	.push_unwind_table = perf_push_unwind_table,
	.move_text = perf_move_text,
	.module_symbols = perf_module_symbols,
	.note_stack = perf_note_stack,
};

/* Sessions */

struct device *perf_device_new(void)
{
	struct perf_device *device = calloc(1, sizeof(*device));

	if (!device)
		return NULL;
	device->device.ops = &perf_ops;
	device->cpus = (size_t)sysconf(_SC_NPROCESSORS_CONF);
	device->lost = calloc(device->cpus, sizeof(*device->lost));
	device->files = perf_files_new();
	if (device->files)
		device->spaces = perf_spaces_new(device->files, &device->metadata);
	if (device->lost && device->spaces)
		return &device->device;
	perf_close(&device->device);
	return NULL;
}

int perf_device_configure(struct device *base, const struct perf_device_config *config,
			  struct error *error)
{
	struct perf_device *device = perf_device(base);

	device->config = config;
	return perf_events_open(&device->events, &config->events, error);
}

const struct perf_events *perf_device_events(const struct device *base)
{
	return perf_device(base)->events;
}

/* Reads the processes that live, when their events are enabled: nothing happens in between. */
static int read_processes(const struct perf_device *device)
{
	const struct perf_events_config *events = &device->config->events;
	int err = 0;

	/* A process of which threads are sampled is read at their first sample. */
	if (!events->pid_count && !events->tid_count)
		return perf_spaces_read_all(device->spaces);
	for (size_t i = 0; i < events->pid_count && !err; i++)
		err = perf_spaces_read(device->spaces, events->pids[i]);
	return err;
}

int perf_device_set_state(struct device *base, uint32_t state, struct error *error)
{
	struct perf_device *device = perf_device(base);
	const bool starts = device->state == STACKBEAT_STATE_NEW;
	int err = 0;

	device->state = state;
	perf_events_enable(device->events, state == STACKBEAT_STATE_RUNNING);
	if (starts && state == STACKBEAT_STATE_RUNNING)
		err = read_processes(device);
	return err ? error_errno(error, -err, "can't read the mappings of the processes") : 0;
}

void perf_device_get(const struct device *base, struct netlink_session *got)
{
	const struct perf_device *device = perf_device(base);
	struct perf_spaces_counts counts;
	const uint64_t period = device->config->events.period_ns;
	const uint64_t time = perf_events_cpu_time(device->events);
	const uint64_t ticks = device->stats[STACKBEAT_S_TICKS];

	perf_spaces_counts(device->spaces, &counts);
	*got = (struct netlink_session){.state = device->state};
	memcpy(got->stats, device->stats, sizeof(got->stats));
	/* A timer that is late skips the ticks that it has missed. */
	if (ticks < time / period)
		got->stats[STACKBEAT_S_MISSED_TICKS] = time / period - ticks;
	got->stats[STACKBEAT_S_TICK_TIME_NS] = time;
	got->stats[STACKBEAT_S_ADDRESS_SPACES] = counts.spaces;
	got->stats[STACKBEAT_S_MMAP_EVENTS] = counts.events;
	got->stats[STACKBEAT_S_MAPPINGS_WITHOUT_FILE] = counts.without_file;
	got->stats[STACKBEAT_S_MAPPINGS_DROPPED] = counts.dropped;
}
